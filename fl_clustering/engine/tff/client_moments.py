"""The means and standard deviations of a model's outputs on the clients' training data.

They describe how a client's data are distributed, overall and within each label (Fenoglio et
al., "FLUX: Efficient Descriptor-Driven Clustered Federated Learning under Arbitrary
Distribution Shifts", NeurIPS 2025).
"""

from __future__ import annotations

import functools
import math
from typing import Any, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import divergence
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import model_jobs

if TYPE_CHECKING:
  from fl_clustering.engine.tff import client_files
  from fl_clustering.tasks import model as model_lib

# Examples that go through the model at a time.
_BATCH_EXAMPLES = 250


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
    outputs = tf.TensorArray(
        tf.float32, (tf.size(labels) + _BATCH_EXAMPLES - 1) // _BATCH_EXAMPLES,
        infer_shape=False, element_shape=[None, model.num_classes],
    )
    for i in tf.range(outputs.size()):
      batch = features[i * _BATCH_EXAMPLES : (i + 1) * _BATCH_EXAMPLES]
      inputs = client_update.model_inputs(batch)
      outputs = outputs.write(i, model.logits(parameters, inputs, None))
    rows, segments = outputs.concat(), tf.zeros_like(labels)
    if by_label:
      rows, segments = tf.tile(rows, [2, 1]), tf.concat([segments, 1 + labels], axis=0)
    return (segment_moments(rows, segments, num_segments),)

  vector_type = tff.TensorType(np.float32, [model.num_parameters])
  return model_jobs.on_clients(moments, vector_type, ("path", np.str_))


def moments(
    model: model_lib.Model,
    files: client_files.ClientFiles,
    vector: np.ndarray,
    clients: np.ndarray,
    by_label: bool,
) -> np.ndarray:
  """Returns the moments of a model's outputs on the clients' training data (`Engine.moments`)."""
  shape = (1 + by_label * model.num_classes, 2, model.num_classes)
  found = np.empty((len(clients), *shape), np.float32)
  jobs = [{"path": files.train[client].path} for client in clients]
  for batch in model_jobs.batches([math.prod(shape)] * len(jobs)):
    results = model_jobs.in_order(build_moments(model, by_label), vector, jobs[batch])
    found[batch] = [one for one, in results]
  for client, of_client in zip(clients, found):
    are_finite = np.isfinite(of_client[0]).all() and not np.isinf(of_client).any()
    divergence.check_outputs(are_finite, files.train[client].what)
  return found
