"""The means and standard deviations of a model's outputs on the clients' training data.

They describe how a client's data are distributed, overall and within each label (Fenoglio et
al., "FLUX: Efficient Descriptor-Driven Clustered Federated Learning under Arbitrary
Distribution Shifts", NeurIPS 2025).
"""

from __future__ import annotations

import functools
from typing import Any, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import evaluation
from fl_clustering.engine.tff import model_jobs

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib


def segment_moments(rows: tf.Tensor, segments: tf.Tensor, num_segments: int) -> tf.Tensor:
  """Returns the moments of the rows of each segment, as a TensorFlow function.

  Args:
    rows: float32 of shape (n, d).
    segments: Every row's segment, int32 of shape (n,).
    num_segments: The number of segments.

  Returns:
    float32 of shape (num_segments, 2, d): means and standard deviations; NaN for a segment
    without rows.
  """
  means = tf.math.unsorted_segment_mean(rows, segments, num_segments)
  squares = tf.square(rows - tf.gather(means, segments))
  deviations = tf.sqrt(tf.math.unsorted_segment_mean(squares, segments, num_segments))
  is_empty = tf.equal(tf.math.bincount(segments, minlength=num_segments), 0)
  moments = tf.stack([means, deviations], axis=1)
  return tf.where(is_empty[:, None, None], tf.constant(np.nan, tf.float32), moments)


@functools.cache
def build_moments(model: model_lib.Model, by_label: bool) -> tff.Computation:
  """Returns the computation of `model_jobs.on_clients`, in which all jobs share the model.

  A job's result are the moments overall and, if `by_label`, of each label.
  """
  num_segments = 1 + by_label * model.num_classes

  @tf.function
  def moments(vector: tf.Tensor, job: Any) -> tuple[tf.Tensor]:
    features, labels = client_update.decode_examples(model, tf.io.read_file(job["path"]))
    parameters = client_update.unflatten(model, vector)
    rows, segments = evaluation.logits(model, parameters, features), tf.zeros_like(labels)
    if by_label:
      rows, segments = tf.tile(rows, [2, 1]), tf.concat([segments, 1 + labels], axis=0)
    return (segment_moments(rows, segments, num_segments),)

  vector_type = tff.TensorType(np.float32, [model.num_parameters])
  return model_jobs.on_clients(moments, vector_type, ("path", np.str_))
