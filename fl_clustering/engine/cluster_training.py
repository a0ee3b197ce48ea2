"""FedAvg in many clusters at once, which may overlap, as a TFF computation.

Every TFF client is a *cluster head*, which trains some members of one cluster in
turn and returns their weighted sum.  So TFF's messages hold only one vector per
head, and a bounded number of heads.  With one cluster per client this is local
training, which is how the server gets every client's own weights.
"""

import collections
import dataclasses
import functools
import math

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from fl_clustering.engine import client_update as client_update_lib
from fl_clustering.engine import federated_training
from fl_clustering import runtime

# About 1/16 of a round's work is the most that one cluster head does: small
# enough that no core waits long for the last one, whatever the cluster sizes.
_HEADS_PER_ROUND = 16


def head_job_type(num_parameters):
  """Returns the TFF type of what a cluster head is sent."""
  return tff.StructWithPythonType(
      [
          ("index", np.int32),
          ("vector", tff.TensorType(np.float32, [num_parameters])),
          ("paths", tff.TensorType(np.str_, [None])),
          ("seeds", tff.TensorType(np.int32, [None, 2])),
          ("num_epochs", np.int32),
      ],
      collections.OrderedDict,
  )


@functools.cache
def build_train_heads(model, local_training):
  """Returns the TFF computation of a round of cluster heads.

  Args:
    model: A `model.Model`.
    local_training: How a client trains, a `client_update.LocalTraining`.

  Returns:
    The computation `{job}@CLIENTS -> {(index, weighted sum of the members'
    parameters, their number of examples, loss of every member)}@CLIENTS`.
  """
  client_update = client_update_lib.build_client_update(model, local_training)

  @tf.function
  def train_members(vector, paths, seeds, num_epochs):
    parameters = client_update_lib.unflatten(model, vector)
    weighted_sum = [tf.zeros_like(p) for p in parameters]
    total = 0.0
    losses = tf.TensorArray(tf.float32, tf.shape(paths)[0])
    for i in tf.range(tf.shape(paths)[0]):
      trained, loss, num_examples = client_update(
          parameters, paths[i], seeds[i], num_epochs
      )
      weighted_sum = [s + num_examples * t for s, t in zip(weighted_sum, trained)]
      total += num_examples
      losses = losses.write(i, loss)
    return client_update_lib.flatten(weighted_sum), total, losses.stack()

  @tff.tensorflow.computation(head_job_type(model.num_parameters))
  def train_head(job):
    weighted_sum, total, losses = train_members(
        job["vector"], job["paths"], job["seeds"], job["num_epochs"]
    )
    return job["index"], weighted_sum, total, losses

  @tff.federated_computation(
      tff.FederatedType(head_job_type(model.num_parameters), tff.CLIENTS)
  )
  def train_heads(jobs):
    return tff.federated_map(train_head, jobs)

  return train_heads


@dataclasses.dataclass(frozen=True)
class Head:
  """Some members of one cluster, which one TFF client trains in turn."""

  cluster: int
  members: tuple[str, ...]


def plan_heads(clusters, num_examples):
  """Cuts clusters into heads of about equal work, the largest first.

  The plan depends on the clusters alone, not on the machine, so that sums are
  taken in the same order everywhere.

  Args:
    clusters: A sequence of tuples of client ids.
    num_examples: A mapping from client id to its number of training examples.

  Returns:
    A list of heads; the heads of a cluster hold its members once each.
  """
  work = lambda members: sum(num_examples[m] for m in members)
  limit = sum(work(members) for members in clusters) / _HEADS_PER_ROUND
  heads = []
  for cluster, members in enumerate(clusters):
    if not members:
      continue
    num_heads = min(len(members), math.ceil(work(members) / limit))
    # Dealing the clients out by size keeps the heads of a cluster alike.
    by_size = sorted(members, key=lambda m: -num_examples[m])
    for i in range(num_heads):
      heads.append(Head(cluster, tuple(by_size[i::num_heads])))
  return sorted(heads, key=lambda head: -work(head.members))


def head_jobs(heads, vectors, round_, files, seed):
  """Returns what the heads are sent.

  Args:
    heads: `Head`s.
    vectors: The clusters' models, float32 of shape (num_clusters, P).
    round_: A `participation.Round`.
    files: The task's `ClientFiles`.
    seed: The run's seed.

  Returns:
    The heads' jobs, of `head_job_type`, whose index is the head's place; and per head the
    list of its members that take part.  A head without any has a job all the same: TFF
    prepares itself anew for every number of clients that it has not seen lately.
  """
  taking_part = set(round_.client_ids)
  jobs, members_of_job = [], []
  for i, head in enumerate(heads):
    members = [m for m in head.members if m in taking_part]
    members_of_job.append(members)
    seeds = [
        randomness.stateless_seed(seed, "local_training", round_.number, m) for m in members
    ]
    jobs.append(
        collections.OrderedDict(
            index=i,
            vector=vectors[head.cluster],
            paths=np.array([files.train[m].path for m in members], np.str_),
            seeds=np.array(seeds, np.int32).reshape(-1, 2),
            num_epochs=round_.num_epochs,
        )
    )
  return jobs, members_of_job


def new_models(vectors, head_results, round_):
  """Returns the clusters' models after a round.

  Args:
    vectors: The clusters' models before it, float32 of shape (num_clusters, P).
    head_results: An iterable of (cluster, weighted sum of the members' parameters, their
      number of examples, dict of client id to loss), one for each of `plan_heads` and in
      that order.
    round_: A `participation.Round`.

  Returns:
    The new models of shape (num_clusters, P), and per cluster a dict of client id to mean
    training loss.

  Raises:
    federated_training.TrainingDiverged: If a loss or weight is not finite.
  """
  sums = np.zeros(vectors.shape, np.float64)
  totals = np.zeros(len(vectors))
  losses = [{} for _ in vectors]
  for cluster, weighted_sum, total, head_losses in head_results:
    sums[cluster] += weighted_sum
    totals[cluster] += total
    losses[cluster].update(head_losses)
  for cluster, cluster_losses in enumerate(losses):
    federated_training.check_losses(
        cluster_losses, f"round {round_.number}, cluster {cluster}"
    )
  vectors = vectors.copy()
  # One at a time: more copies of all in float64 are gigabytes for large models.
  for cluster in np.flatnonzero(totals):
    vectors[cluster] = sums[cluster] / totals[cluster]
    federated_training.check_vector(
        vectors[cluster], f"round {round_.number}, cluster {cluster}"
    )
  return vectors, losses


class ClusterTraining:
  """FedAvg in every cluster on its own; a client may be in several clusters."""

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
    self._num_parameters = task.model.num_parameters
    self._train_heads = build_train_heads(task.model, local_training)

  def next(self, vectors, clusters, round_):
    """Runs one round of every cluster.

    Args:
      vectors: The clusters' models, float32 of shape (num_clusters, P).
      clusters: A sequence of tuples of client ids, aligned with `vectors`.
      round_: A `participation.Round`.  A cluster without members that take part keeps its
        model.

    Returns:
      The new models of shape (num_clusters, P), and per cluster a dict of client
      id to mean training loss.

    Raises:
      federated_training.TrainingDiverged: If a loss or weight is not finite.
    """
    heads = plan_heads(
        clusters, {c: file.num_examples for c, file in self._files.train.items()}
    )
    jobs, members_of_job = head_jobs(heads, vectors, round_, self._files, self._seed)

    def head_results():
      for batch in runtime.message_batches(jobs, 4 * self._num_parameters):
        # Sorted, because TFF may return results in the order of completion.
        for i, weighted_sum, total, losses in sorted(
            self._train_heads(batch), key=lambda result: result[0]
        ):
          yield heads[i].cluster, weighted_sum, total, zip(
              members_of_job[i], map(float, losses)
          )

    return new_models(vectors, head_results(), round_)
