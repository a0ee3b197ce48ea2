"""The loss of many models on the clients' training data.

A client that chooses among several models takes the one with the least loss on its own
training data (Ghosh et al., "An Efficient Framework for Clustered Federated Learning",
NeurIPS 2020, Algorithm 1).

The models are broadcast once.  Every TFF client reads the files of some clients once and
computes all models' losses on them.
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


def _batch_bounds(num_examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns where batches start and end in the examples of all files, one after the other.

  No batch holds examples of two clients, so a client's loss depends on nothing but its own data.

  Args:
    num_examples: The number of examples per file, int32 of shape (num_files,).
  """
  starts = tf.cumsum(num_examples, exclusive=True)
  num_batches = (num_examples + evaluation.BATCH_EXAMPLES - 1) // evaluation.BATCH_EXAMPLES
  first_batch = tf.repeat(tf.cumsum(num_batches, exclusive=True), num_batches)
  place = tf.range(tf.reduce_sum(num_batches)) - first_batch
  batch_starts = tf.repeat(starts, num_batches) + place * evaluation.BATCH_EXAMPLES
  ends = tf.repeat(starts + num_examples, num_batches)
  return batch_starts, tf.minimum(batch_starts + evaluation.BATCH_EXAMPLES, ends)


@functools.cache
def build_losses(model: model_lib.Model) -> tff.Computation:
  """Returns the computation of `model_jobs.on_clients`, in which all jobs share the models.

  A job's result are the losses, of shape (num_models, num_paths).
  """

  @tf.function
  def mean_losses(vectors: tf.Tensor, job: Any) -> tuple[tf.Tensor]:
    paths = job["paths"]
    num_models, num_files = tf.shape(vectors)[0], tf.shape(paths)[0]
    contents = tf.map_fn(tf.io.read_file, paths)
    num_examples = tf.strings.length(contents) // client_update.bytes_per_example(model)
    features, labels = client_update.decode_examples(model, tf.strings.reduce_join(contents))
    starts, ends = _batch_bounds(num_examples)
    file_index = tf.repeat(tf.range(num_files), num_examples)
    means = tf.TensorArray(tf.float32, num_models)
    for m in tf.range(num_models):
      parameters = client_update.unflatten(model, vectors[m])
      losses = tf.TensorArray(
          tf.float32, tf.shape(starts)[0], infer_shape=False, element_shape=[None]
      )
      for i in tf.range(tf.shape(starts)[0]):
        batch = client_update.model_inputs(features[starts[i] : ends[i]])
        losses = losses.write(
            i,
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels[starts[i] : ends[i]], logits=model.logits(parameters, batch, None)
            ),
        )
      means = means.write(m, tf.math.segment_mean(losses.concat(), file_index))
    return (means.stack(),)

  models_type = model_jobs.models_type(model.num_parameters)
  return model_jobs.on_clients(
      mean_losses, models_type, ("paths", tff.TensorType(np.str_, [None]))
  )
