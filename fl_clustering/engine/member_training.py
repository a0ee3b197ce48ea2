"""FedAvg in many clusters, as in `cluster_training.py`, that also returns the members' models.

The heads return every member's own parameters, and the server takes the weighted sums.  It
takes them in the same order, so that the clusters' models are the same to the last bit.
"""

import functools

import numpy as np
import tensorflow as tf

from fl_clustering.engine import client_update as client_update_lib
from fl_clustering.engine import cluster_training
from fl_clustering.engine import divergence
from fl_clustering.engine import model_jobs

# What one head returns is at most this part of a message, so that several heads fill it and cores
# share the work.
_HEADS_PER_MESSAGE = 16


@functools.cache
def build_train_members(model, local_training):
  """Returns the TFF computation of a round of cluster heads that sum nothing up.

  Args:
    model: A `model.Model`.
    local_training: How a client trains, a `client_update.LocalTraining`.

  Returns:
    The computation of `model_jobs.on_clients`.  A job's result is the members' trained
    parameters, of shape (num_members, P), and their losses.
  """
  client_update = client_update_lib.build_client_update(model, local_training)

  @tf.function
  def train_all(vector, job):
    parameters = client_update_lib.unflatten(model, vector)
    num_members = tf.shape(job["paths"])[0]
    vectors = tf.TensorArray(
        tf.float32, num_members, element_shape=[model.num_parameters]
    )
    losses = tf.TensorArray(tf.float32, num_members)
    for i in tf.range(num_members):
      trained, loss, _ = client_update(
          parameters, job["paths"][i], job["seeds"][i], job["num_epochs"]
      )
      vectors = vectors.write(i, client_update_lib.flatten(trained))
      losses = losses.write(i, loss)
    return vectors.stack(), losses.stack()

  return model_jobs.on_clients(train_all, model.num_parameters, cluster_training.HEAD_JOB)


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
    self._seed = seed
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
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    heads = cluster_training.plan_heads(clusters, self._files.train)
    trained = {
        (cluster, member): (vector, loss)
        for cluster, member, vector, loss in self._trained(heads, vectors, round_)
    }
    own = [{} for _ in clusters]

    def head_results():
      for head in heads:
        weighted_sum, total, losses = np.zeros(vectors.shape[1], np.float32), 0, {}
        for member in head.members:
          if (head.cluster, member) in trained:
            own[head.cluster][member], losses[member] = trained[head.cluster, member]
            num_examples = self._files.train[member].num_examples
            weighted_sum += np.float32(num_examples) * own[head.cluster][member]
            total += num_examples
        yield weighted_sum, total, losses

    new_vectors, losses = cluster_training.new_models(vectors, heads, head_results(), round_)
    return new_vectors, own, losses

  def each(self, vectors, client_ids, round_):
    """Trains every client alone.

    Args:
      vectors: The model that each client starts from, float32 of shape (len(client_ids), P);
        a view made by `np.broadcast_to` is sent as one model.
      client_ids: The clients, each named once.
      round_: A `participation.Round`, in which all of them take part.

    Returns:
      The clients' models, not private, float32 of shape (len(client_ids), P), and a dict of
      client id to mean training loss.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    if vectors.strides[0] == 0:
      clusters = (tuple(client_ids),)
    else:
      clusters = tuple((client_id,) for client_id in client_ids)
    heads = cluster_training.plan_heads(clusters, self._files.train)
    row = {client_id: i for i, client_id in enumerate(client_ids)}
    own, losses = np.empty(vectors.shape, np.float32), {}
    for _, client_id, vector, loss in self._trained(heads, vectors, round_):
      own[row[client_id]], losses[client_id] = vector, loss
    divergence.check_losses(losses, f"round {round_.number}")
    for client_id, vector in zip(client_ids, own):
      divergence.check_vector(vector, f"round {round_.number}, client {client_id!r}")
    return own, losses

  def _trained(self, heads, vectors, round_):
    """Yields (cluster, client id, trained parameters, loss) of all members that take part."""
    parts = [
        cluster_training.Head(head.cluster, head.members[part])
        for head in heads
        for part in model_jobs.batches(
            [_HEADS_PER_MESSAGE * vectors.shape[1]] * len(head.members)
        )
    ]
    jobs, members_of_job = cluster_training.head_jobs(parts, round_, self._files, self._seed)
    results = model_jobs.results(
        self._train_members, vectors, jobs,
        [vectors.shape[1] * len(part.members) for part in parts],
    )
    for part, members, (own, losses) in zip(parts, members_of_job, results):
      for member, vector, loss in zip(members, own, losses):
        yield part.cluster, member, vector, float(loss)
