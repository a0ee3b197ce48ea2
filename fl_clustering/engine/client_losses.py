"""The loss of many models on the clients' training data.

A client that chooses among several models takes the one with the least loss on its own
training data (Ghosh et al., "An Efficient Framework for Clustered Federated Learning",
NeurIPS 2020, Algorithm 1).

The models are broadcast once.  Every TFF client reads the files of some clients once and
computes all models' losses on them.
"""

import collections
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import client_update
from fl_clustering.engine import cluster_training
from fl_clustering.engine import model_jobs

# Examples that go through a model at a time.
_BATCH_EXAMPLES = 250


@functools.cache
def build_losses(model):
  """Returns the TFF computation of many models' losses.

  Args:
    model: A `model.Model`.

  Returns:
    The computation `(vectors@SERVER, {(index, paths)}@CLIENTS) -> {(index,
    losses)}@CLIENTS`, with losses of shape (num_models, num_paths).
  """

  def batches(starts, num_examples):
    """Returns the batches' bounds; no batch holds examples of two clients.

    So a client's loss depends on nothing but its own data.
    """
    num_batches = (num_examples + _BATCH_EXAMPLES - 1) // _BATCH_EXAMPLES
    first_batch = tf.repeat(tf.cumsum(num_batches, exclusive=True), num_batches)
    place = tf.range(tf.reduce_sum(num_batches)) - first_batch
    batch_starts = tf.repeat(starts, num_batches) + place * _BATCH_EXAMPLES
    ends = tf.repeat(starts + num_examples, num_batches)
    return batch_starts, tf.minimum(batch_starts + _BATCH_EXAMPLES, ends)

  @tf.function
  def mean_losses(vectors, paths):
    num_models, num_files = tf.shape(vectors)[0], tf.shape(paths)[0]
    contents = tf.map_fn(tf.io.read_file, paths)
    num_examples = tf.strings.length(contents) // client_update.bytes_per_example(model)
    features, labels = client_update.decode_examples(
        model, tf.strings.reduce_join(contents)
    )
    starts, ends = batches(tf.cumsum(num_examples, exclusive=True), num_examples)
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
                labels=labels[starts[i] : ends[i]],
                logits=model.logits(parameters, batch, None),
            ),
        )
      means = means.write(m, tf.math.segment_mean(losses.concat(), file_index))
    return means.stack()

  vectors_type = model_jobs.models_type(model.num_parameters)
  job_type = tff.StructWithPythonType(
      [("index", np.int32), ("paths", tff.TensorType(np.str_, [None]))],
      collections.OrderedDict,
  )

  @tff.tensorflow.computation(vectors_type, job_type)
  def evaluate(vectors, job):
    return job["index"], mean_losses(vectors, job["paths"])

  @tff.federated_computation(
      tff.FederatedType(vectors_type, tff.SERVER), tff.FederatedType(job_type, tff.CLIENTS)
  )
  def evaluate_all(vectors, jobs):
    return tff.federated_map(evaluate, (tff.federated_broadcast(vectors), jobs))

  return evaluate_all


class ClientLosses:
  """Computes the losses of models of one kind on the clients' training data."""

  def __init__(self, model, files):
    """Builds the TFF computation.

    Args:
      model: A `model.Model`.
      files: The task's `ClientFiles`.
    """
    self._files = files.train
    self._evaluate_all = build_losses(model)

  def losses(self, vectors, client_ids):
    """Returns every model's mean cross-entropy on every client's training data.

    Each number depends on the model and on the client's data alone, to the last bit.

    Args:
      vectors: Models, float32 of shape (num_models, P).
      client_ids: A sequence of distinct client ids.

    Returns:
      A float32 array of shape (num_models, len(client_ids)).  A loss that is not a number
      is infinite here, so that a client that takes the least loss never takes its model.
    """
    place = {client_id: i for i, client_id in enumerate(client_ids)}
    parts = cluster_training.plan_heads((tuple(place),), self._files)
    jobs = [
        collections.OrderedDict(
            index=i, paths=np.array([self._files[c].path for c in part.members], np.str_)
        )
        for i, part in enumerate(parts)
    ]
    losses = np.empty((len(vectors), len(place)), np.float32)
    if not jobs:
      return losses
    for batch in model_jobs.batches([vectors.shape[1]] * len(vectors)):
      for index, part_losses in self._evaluate_all(vectors[batch], jobs):
        columns = [place[c] for c in parts[index].members]
        losses[batch, columns] = part_losses
    return np.where(np.isnan(losses), np.float32(np.inf), losses)
