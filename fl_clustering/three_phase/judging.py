"""The metrics by which methods are compared, and what they come to at every client.

Some follow from tallies (`engine/objectives.py`).  Others need a model's outputs on every test row,
and are scikit-learn's.  A metric that is undefined at a client is NaN there.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate

if TYPE_CHECKING:
  from fl_clustering.engine import objectives
  from fl_clustering.tasks import federated_task

_MOST_BINS = 10
_LEAST_PER_BIN = 10


@dataclasses.dataclass(frozen=True)
class Metric:
  """A metric by which methods are compared.

  Attributes:
    label: What readers call it.
    key: Its name among the metrics of tallies, or of outputs.
    is_loss: Whether less is better.
    of_outputs: Whether it needs a model's outputs.
    bound: The largest difference that there can be.
    of_numbers: Whether it is of a regression.
  """

  label: str
  key: str
  is_loss: bool = False
  of_outputs: bool = False
  bound: float = 1.0
  of_numbers: bool = False


METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy", "accuracy"),
    "balanced_accuracy": Metric("balanced accuracy", "recall"),
    "auroc": Metric("AUROC", "auroc", of_outputs=True),
    "auprc": Metric("AUPRC", "auprc", of_outputs=True),
    "log_loss": Metric("log loss", "log_loss", is_loss=True, of_outputs=True, bound=math.inf),
    "brier": Metric("Brier score", "brier", is_loss=True, of_outputs=True, bound=2.0),
    "mse": Metric(
        "mean squared error", "mse", is_loss=True, bound=math.inf, of_numbers=True
    ),
}
ACCURACY, BALANCED_ACCURACY, MSE = "accuracy", "balanced_accuracy", "mse"
# Those of outputs, of classes.
OF_OUTPUTS = tuple(name for name, metric in METRICS.items() if metric.of_outputs)
# Undefined where a client's test rows are all of one class.
_NEEDS_CLASSES = ("auroc", "auprc")


@dataclasses.dataclass(frozen=True, eq=False)
class OutputMetrics:
  """The metrics of classes that need outputs.

  Attributes:
    clients: Every client's, of shape (N,) by name; NaN where one is undefined.
    pooled: Those of all clients' rows together; NaN likewise.
    calibration: Pairs of a mean predicted probability and the share of rows that it came true for,
      over all clients' rows.  With two classes this is the probability of the second one, else that
      of the predicted class.
  """

  clients: Mapping[str, np.ndarray]
  pooled: Mapping[str, float]
  calibration: tuple[tuple[float, float], ...]


def check_metric(name: str, is_regression: bool) -> None:
  """Raises a ValueError unless a metric is one of a regression, or of classes."""
  metric = METRICS[name]
  if metric.of_numbers != is_regression:
    fitting = [other for other, one in METRICS.items() if one.of_numbers == is_regression]
    what = "a regression" if is_regression else "classes"
    raise validate.error("primary_metric", f"be {' or '.join(fitting)} for {what}", name)


def default_metric(task: federated_task.FederatedTask) -> str:
  """Returns the metric by which methods are compared if none is asked for.

  For rows of tables whose rarest class has less than half of its share among equally frequent
  classes, it is the balanced accuracy: whoever always predicts the frequent ones is accurate.
  """
  if task.is_regression:
    return MSE
  counts = task.train_label_counts
  if task.table_format is None or counts is None:
    return ACCURACY
  is_rare = counts.min() < counts.sum() / (2 * len(counts))
  return BALANCED_ACCURACY if is_rare else ACCURACY


def metric_of(asked: str | None, task: federated_task.FederatedTask) -> str:
  """Returns the metric by which a task's methods are compared.

  Args:
    asked: The metric that is asked for; None for the default.

  Raises:
    ValueError: If the task has no such metric, or hardly a client that it is defined for.
  """
  if asked is None:
    return default_metric(task)
  check_metric(asked, task.is_regression)
  if METRICS[asked].of_outputs:
    if asked in _NEEDS_CLASSES:
      defined = sum(len(np.unique(client.test.labels)) > 1 for client in task.clients)
      if defined < min(2, len(task.clients)):
        raise validate.error(
            "primary_metric", "be defined for two clients or more: it needs test rows of several "
            f"classes, which {defined} of {len(task.clients)} clients have", asked,
        )
  return asked


def _positives(labels: np.ndarray, num_classes: int) -> list[int]:
  """Returns the classes that are told from all others: with two, the second one."""
  present = np.unique(labels)
  if len(present) < 2:
    return []
  return [1] if num_classes == 2 else present.tolist()


def of_rows(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
  """Returns the metrics of one set of rows by name, NaN where one is undefined.

  AUROC and AUPRC are means over the classes that the rows have, each against all others; with two
  classes they are those of the second one.

  Args:
    labels: Of shape (n,), n >= 1.
    probabilities: The classes', float64 of shape (n, C).
  """
  from sklearn import metrics  # pylint: disable=g-import-not-at-top

  num_classes = probabilities.shape[1]
  classes = list(range(num_classes))
  told = _positives(labels, num_classes)

  def mean(score: Any) -> float:
    scores = [score(labels == label, probabilities[:, label]) for label in told]
    return float(np.mean(scores)) if scores else math.nan

  return {
      "auroc": mean(metrics.roc_auc_score),
      "auprc": mean(metrics.average_precision_score),
      "log_loss": float(metrics.log_loss(labels, probabilities, labels=classes)),
      "brier": float(metrics.brier_score_loss(labels, probabilities, labels=classes)),
  }


def _calibration(
    labels: np.ndarray, probabilities: np.ndarray
) -> tuple[tuple[float, float], ...]:
  from sklearn import calibration  # pylint: disable=g-import-not-at-top

  if probabilities.shape[1] == 2:
    came_true, predicted = labels == 1, probabilities[:, 1]
  else:
    came_true, predicted = labels == probabilities.argmax(axis=1), probabilities.max(axis=1)
  bins = min(_MOST_BINS, max(1, len(labels) // _LEAST_PER_BIN))
  observed, mean = calibration.calibration_curve(
      came_true.astype(int), np.clip(predicted, 0, 1), n_bins=bins, strategy="quantile"
  )
  return tuple(zip(mean.tolist(), observed.tolist()))


def output_metrics(outputs: Sequence[tuple[np.ndarray, np.ndarray]]) -> OutputMetrics:
  """Returns the metrics of clients' labels and logits, of shape (n,) and (n, C) for each."""
  from scipy import special  # pylint: disable=g-import-not-at-top

  rows = [
      (labels, special.softmax(logits.astype(np.float64), axis=1)) for labels, logits in outputs
  ]
  of_clients = [of_rows(*one) for one in rows]
  together = tuple(np.concatenate(parts) for parts in zip(*rows))
  return OutputMetrics(
      {name: np.array([one[name] for one in of_clients]) for name in OF_OUTPUTS},
      of_rows(*together),
      _calibration(*together),
  )


def client_scores(
    name: str, objective: objectives.Objective, tallies: np.ndarray, outputs: OutputMetrics | None
) -> np.ndarray:
  """Returns a metric at every client, of shape (N,); NaN where it is undefined.

  Args:
    tallies: The clients', (N, ...).
    outputs: Their metrics of outputs, if the metric is one of these.
  """
  metric = METRICS[name]
  if not metric.of_outputs:
    return objective.metrics(tallies)[metric.key]
  assert outputs is not None
  return outputs.clients[metric.key]


def gains_between(name: str, scores: np.ndarray, control: np.ndarray) -> np.ndarray:
  """Returns by how much scores are better than the control's, whether more or less is better."""
  return control - scores if METRICS[name].is_loss else scores - control
