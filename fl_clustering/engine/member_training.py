"""FedAvg in many clusters, as in `cluster_training.py`, that also returns the members' models.

The heads return every member's own parameters, and the server takes the weighted sums.  It
takes them in the same order, so that the clusters' models are the same to the last bit.
"""

import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import client_update as client_update_lib
from fl_clustering.engine import cluster_training
from fl_clustering import runtime

# What one head returns is at most this part of a message: so all cores have work, however
# few members' models a message holds.
_HEADS_PER_MESSAGE = 16


@functools.cache
def build_train_members(model, local_training):
  """Returns the TFF computation of a round of cluster heads that sum nothing up.

  Args:
    model: A `model.Model`.
    local_training: How a client trains, a `client_update.LocalTraining`.

  Returns:
    The computation `{job}@CLIENTS -> {(index, parameters of every member, of shape
    (num_members, P), loss of every member)}@CLIENTS`.
  """
  client_update = client_update_lib.build_client_update(model, local_training)
  job_type = cluster_training.head_job_type(model.num_parameters)

  @tf.function
  def train_all(vector, paths, seeds, num_epochs):
    parameters = client_update_lib.unflatten(model, vector)
    num_members = tf.shape(paths)[0]
    vectors = tf.TensorArray(
        tf.float32, num_members, element_shape=[model.num_parameters]
    )
    losses = tf.TensorArray(tf.float32, num_members)
    for i in tf.range(num_members):
      trained, loss, _ = client_update(parameters, paths[i], seeds[i], num_epochs)
      vectors = vectors.write(i, client_update_lib.flatten(trained))
      losses = losses.write(i, loss)
    return vectors.stack(), losses.stack()

  @tff.tensorflow.computation(job_type)
  def train_head(job):
    vectors, losses = train_all(
        job["vector"], job["paths"], job["seeds"], job["num_epochs"]
    )
    return job["index"], vectors, losses

  @tff.federated_computation(tff.FederatedType(job_type, tff.CLIENTS))
  def train_members(jobs):
    return tff.federated_map(train_head, jobs)

  return train_members


class MemberTraining:
  """FedAvg in every cluster on its own, with every member's own model."""

  def __init__(self, task, files, local_training, seed):
    """Builds the TFF computation.

    Args:
      task: A `FederatedTask`.
      files: The task's `ClientFiles`.
      local_training: How a client trains, a `client_update.LocalTraining`.
      seed: The run's seed.
    """
    self._files = files
    self._num_examples = {c: file.num_examples for c, file in files.train.items()}
    self._seed = seed
    self._vector_bytes = 4 * task.model.num_parameters
    self._train_members = build_train_members(task.model, local_training)

  def next(self, vectors, clusters, round_):
    """Runs one round of every cluster.

    Args:
      vectors: The clusters' models, float32 of shape (num_clusters, P).
      clusters: A sequence of tuples of client ids, aligned with `vectors`.
      round_: A `participation.Round`.  A cluster without members that take part keeps its
        model.

    Returns:
      The new models of shape (num_clusters, P) and the losses, which are those of
      `cluster_training.ClusterTraining.next`; and between them, per cluster a dict of
      client id to its trained parameters, float32 of shape (P,), not private.

    Raises:
      federated_training.TrainingDiverged: If a loss or weight is not finite.
    """
    heads = cluster_training.plan_heads(clusters, self._num_examples)
    trained = self._train(heads, vectors, round_)
    own = [{} for _ in clusters]

    def head_results():
      for head in heads:
        weighted_sum, total, losses = np.zeros(vectors.shape[1], np.float32), 0, {}
        for member in head.members:
          if (head.cluster, member) in trained:
            own[head.cluster][member], losses[member] = trained[head.cluster, member]
            num_examples = self._num_examples[member]
            weighted_sum += np.float32(num_examples) * own[head.cluster][member]
            total += num_examples
        yield head.cluster, weighted_sum, total, losses

    new_vectors, losses = cluster_training.new_models(vectors, head_results(), round_)
    return new_vectors, own, losses

  def _train(self, heads, vectors, round_):
    """Returns the trained parameters and the loss by (cluster, client id)."""
    parts = [
        cluster_training.Head(head.cluster, members)
        for head in heads
        for members in runtime.message_batches(
            head.members, _HEADS_PER_MESSAGE * self._vector_bytes
        )
    ]
    jobs, members_of_job = cluster_training.head_jobs(
        parts, vectors, round_, self._files, self._seed
    )
    most_members = max((len(part.members) for part in parts), default=1)
    trained = {}
    for batch in runtime.message_batches(jobs, most_members * self._vector_bytes):
      for i, job_vectors, losses in self._train_members(batch):
        for member, vector, loss in zip(members_of_job[i], job_vectors, losses):
          trained[parts[i].cluster, member] = vector, float(loss)
    return trained
