"""What models are trained for and judged by: classes, or real numbers.

A model is judged by a *tally* of its predictions on some examples.  Tallies add up: that of several
files is the sum of theirs.  Of classes it is the confusion matrix, of shape (C, C) with true labels
as rows; of numbers it is sums of errors, of shape (5,).

Functions of tallies take them with any further dimensions in front, of shape (...).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import metrics as metrics_lib

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib

# Error sums of standardized labels, in which errors below it are none.
_LEAST_ERROR = 1e-12
# What stands in a confusion matrix of outputs that are not finite.
_NOT_FINITE = -1


class Objective(Protocol):
  """What a model is trained for.

  Attributes:
    curve: The metric that is followed round by round, for the clients and for each cluster.
    tally_shape: The shape of a tally.
    tally_type: The name of its type.
  """

  curve: str

  @property
  def tally_shape(self) -> tuple[int, ...]: ...

  @property
  def tally_type(self) -> str: ...

  def losses(self, labels: Any, outputs: Any) -> Any:
    """Returns every example's loss, a TensorFlow function; float32 of shape (n,)."""

  def tallies(self, labels: Any, outputs: Any, files: Any, num_files: Any) -> Any:
    """Returns the tallies of files, a TensorFlow function.

    Args:
      labels: Of shape (n,).
      outputs: The model's, float32 of shape (n, num_outputs).
      files: Every example's file, int32 of shape (n,).
      num_files: How many there are.
    """

  def are_finite(self, tallies: np.ndarray) -> np.ndarray:
    """Returns whether all outputs were finite, of shape (...); if not, a tally says no more."""

  def metrics(self, tallies: np.ndarray) -> dict[str, np.ndarray]:
    """Returns metrics by name, each of shape (...); NaN where one is undefined."""

  def label_metrics(self, tallies: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the same of metrics of single labels."""

  def of_clients(self, tallies: np.ndarray) -> dict[str, Any]:
    """Returns a round's metrics over all clients, from tallies (N, ...)."""

  def quality(self, tallies: np.ndarray) -> np.ndarray:
    """Returns how good models are, of shape (...): what they weigh in a weighted mean."""

  def curve_of(self, quality: np.ndarray) -> np.ndarray:
    """Returns the metric `curve` of models of this quality."""


@dataclasses.dataclass(frozen=True)
class Classification:
  """Classes, by the cross-entropy of a model's logits.

  Attributes:
    num_classes: Labels are below it.
  """

  num_classes: int
  curve = "accuracy"

  @property
  def tally_shape(self) -> tuple[int, ...]:
    return self.num_classes, self.num_classes

  @property
  def tally_type(self) -> str:
    return "int32"

  def losses(self, labels: Any, outputs: Any) -> Any:
    import tensorflow as tf  # pylint: disable=g-import-not-at-top

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)

  def tallies(self, labels: Any, outputs: Any, files: Any, num_files: Any) -> Any:
    import tensorflow as tf  # pylint: disable=g-import-not-at-top

    num_classes = self.num_classes
    is_bad = tf.reduce_any(~tf.math.is_finite(outputs), axis=1)
    num_bad = tf.math.unsorted_segment_sum(tf.cast(is_bad, tf.int32), files, num_files)
    cell = (files * num_classes + labels) * num_classes + tf.argmax(outputs, 1, tf.int32)
    size = num_files * num_classes**2
    counts = tf.math.bincount(cell, minlength=size, maxlength=size)
    counts = tf.reshape(counts, [-1, num_classes, num_classes])
    return tf.where(num_bad[:, None, None] > 0, _NOT_FINITE, counts)

  def are_finite(self, tallies: np.ndarray) -> np.ndarray:
    return tallies[..., 0, 0] != _NOT_FINITE

  def metrics(self, tallies: np.ndarray) -> dict[str, np.ndarray]:
    return metrics_lib.model_metrics(tallies)

  def label_metrics(self, tallies: np.ndarray) -> dict[str, np.ndarray]:
    recall = metrics_lib.class_recall(tallies)
    return {f"recall_class_{label}": recall[..., label] for label in range(recall.shape[-1])}

  def of_clients(self, tallies: np.ndarray) -> dict[str, Any]:
    return metrics_lib.client_metrics(tallies)

  def quality(self, tallies: np.ndarray) -> np.ndarray:
    return metrics_lib.accuracy(tallies)

  def curve_of(self, quality: np.ndarray) -> np.ndarray:
    return quality


@dataclasses.dataclass(frozen=True)
class Regression:
  """Real numbers, by the squared error of a model's one output.

  Models learn standardized labels.  Errors are told in the data's units.

  Attributes:
    deviation: The standard deviation of the labels, by which they were divided.
  """

  deviation: float
  curve = "rmse"

  @property
  def tally_shape(self) -> tuple[int, ...]:
    return (5,)

  @property
  def tally_type(self) -> str:
    return "float64"

  def losses(self, labels: Any, outputs: Any) -> Any:
    import tensorflow as tf  # pylint: disable=g-import-not-at-top

    return tf.square(outputs[:, 0] - labels)

  def tallies(self, labels: Any, outputs: Any, files: Any, num_files: Any) -> Any:
    import tensorflow as tf  # pylint: disable=g-import-not-at-top

    labels = tf.cast(labels, tf.float64)
    errors = tf.cast(outputs[:, 0], tf.float64) - labels
    parts = (tf.ones_like(labels), errors**2, tf.abs(errors), labels, labels**2)
    return tf.math.unsorted_segment_sum(tf.stack(parts, axis=1), files, num_files)

  def are_finite(self, tallies: np.ndarray) -> np.ndarray:
    return np.isfinite(tallies).all(axis=-1)

  def metrics(self, tallies: np.ndarray) -> dict[str, np.ndarray]:
    count, squares, errors, sums, label_squares = np.moveaxis(tallies, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
      mse = squares / count
      spread = label_squares - sums**2 / count
      # Rounding leaves something of labels that are all the same.
      is_defined = spread > _LEAST_ERROR * np.maximum(label_squares, 1)
      r2 = np.where(is_defined, 1 - squares / np.where(is_defined, spread, 1), np.nan)
      return {
          "rmse": self.deviation * np.sqrt(mse),
          "mae": self.deviation * errors / count,
          "r2": r2,
          "mse": self.deviation**2 * mse,
      }

  def label_metrics(self, tallies: np.ndarray) -> dict[str, np.ndarray]:
    return {}

  def of_clients(self, tallies: np.ndarray) -> dict[str, Any]:
    rmse = self.metrics(tallies)["rmse"]
    return {"clients_rmse_mean": rmse.mean(), "clients_rmse_p90": np.percentile(rmse, 90)}

  def quality(self, tallies: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
      return 1 / np.maximum(tallies[..., 1] / tallies[..., 0], _LEAST_ERROR)

  def curve_of(self, quality: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
      return self.deviation / np.sqrt(quality)


def of(model: model_lib.Model) -> Objective:
  """Returns what a model is trained for."""
  if model.label_scale is not None:
    return Regression(model.label_scale.deviation)
  return Classification(model.num_classes)
