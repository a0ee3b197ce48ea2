"""FedAvg in many clusters at once, which may overlap, as a TFF computation.

Every TFF client is a *cluster head*, which trains some members of one cluster in
turn and returns their weighted sum.  So TFF's messages hold one vector per cluster on
the way to the heads and one per head on the way back, however many clients there are.
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
from fl_clustering.engine import divergence
from fl_clustering.engine import model_jobs

# A head does at most about 1/16 of a round's work: small enough that no core waits long for
# the last one, whatever the cluster sizes.  Many clients are cut finer, for many cores.
_FEWEST_HEADS = 16
_MOST_HEADS = 64
_MEMBERS_PER_HEAD = 10


# What a head is told of its members.
MEMBER_FIELDS = (
    ("paths", tff.TensorType(np.str_, [None])),
    ("seeds", tff.TensorType(np.int32, [None, 2])),
    ("num_epochs", np.int32),
)
HEAD_JOB = model_jobs.job_type(*MEMBER_FIELDS)


def build_train_head(model, local_training):
  """Returns the TensorFlow function by which a head trains its members.

  Args:
    model: A `model.Model`.
    local_training: How a client trains, a `client_update.LocalTraining`.

  Returns:
    A function of the model's parameters as a vector and a job with `MEMBER_FIELDS`.  It
    returns the weighted sum of the members' parameters, their number of examples and every
    member's loss.
  """
  client_update = client_update_lib.build_client_update(model, local_training)

  @tf.function
  def train_members(vector, job):
    paths = job["paths"]
    parameters = client_update_lib.unflatten(model, vector)
    weighted_sum = [tf.zeros_like(p) for p in parameters]
    total = 0.0
    losses = tf.TensorArray(tf.float32, tf.shape(paths)[0])
    for i in tf.range(tf.shape(paths)[0]):
      trained, loss, num_examples = client_update(
          parameters, paths[i], job["seeds"][i], job["num_epochs"]
      )
      weighted_sum = [s + num_examples * t for s, t in zip(weighted_sum, trained)]
      total += num_examples
      losses = losses.write(i, loss)
    return client_update_lib.flatten(weighted_sum), total, losses.stack()

  return train_members


@functools.cache
def build_train_heads(model, local_training):
  """Returns the TFF computation of a round of cluster heads.

  Args:
    model: A `model.Model`.
    local_training: How a client trains, a `client_update.LocalTraining`.

  Returns:
    The computation of `model_jobs.on_clients`; a job's result is that of `build_train_head`.
  """
  train_members = build_train_head(model, local_training)
  return model_jobs.on_clients(train_members, model.num_parameters, HEAD_JOB)


@dataclasses.dataclass(frozen=True)
class Head:
  """Some members of one cluster, which one TFF client trains in turn."""

  cluster: int
  members: tuple[str, ...]


def _by_site(members, files):
  """Returns the members whose files are at one site together, a list of tuples."""
  of_site = collections.defaultdict(list)
  for member in members:
    of_site[files[member].site].append(member)
  return list(of_site.values())


def plan_heads(clusters, files):
  """Cuts clusters into heads of about equal work, the largest first.

  The plan depends on the clusters and on where the files are, not on the machine that
  computes, so that sums are taken in the same order everywhere.

  Args:
    clusters: A sequence of tuples of client ids.
    files: A mapping from client id to the `ExampleFile` of its training examples.

  Returns:
    A list of heads; the heads of a cluster hold its members once each.
  """
  work = lambda members: sum(files[m].num_examples for m in members)
  num_parts = sum(map(len, clusters)) // _MEMBERS_PER_HEAD
  num_parts = min(max(num_parts, _FEWEST_HEADS), _MOST_HEADS)
  limit = sum(work(members) for members in clusters) / num_parts
  heads = []
  for cluster, members in enumerate(clusters):
    for of_site in _by_site(members, files):
      num_heads = min(len(of_site), math.ceil(work(of_site) / limit))
      # Dealing the clients out by size keeps the heads of a cluster alike.
      by_size = sorted(of_site, key=lambda m: -files[m].num_examples)
      for i in range(num_heads):
        heads.append(Head(cluster, tuple(by_size[i::num_heads])))
  return sorted(heads, key=lambda head: -work(head.members))


def head_jobs(heads, round_, files, seed):
  """Returns what the heads are sent.

  Args:
    heads: `Head`s.
    round_: A `participation.Round`.
    files: The task's `ClientFiles`.
    seed: The run's seed.

  Returns:
    The heads' jobs, for `model_jobs.results`; and per head the list of its members that
    take part.  A head without any has a job all the same: TFF prepares itself anew for
    every number of clients that it has not seen lately.
  """
  taking_part = set(round_.client_ids)
  jobs, members_of_job = [], []
  for head in heads:
    members = [m for m in head.members if m in taking_part]
    members_of_job.append(members)
    seeds = [
        randomness.stateless_seed(seed, "local_training", round_.number, m) for m in members
    ]
    jobs.append({
        "model": head.cluster,
        "paths": np.array([files.train[m].path for m in members], np.str_),
        "seeds": np.array(seeds, np.int32).reshape(-1, 2),
        "num_epochs": round_.num_epochs,
    })
  return jobs, members_of_job


def new_models(vectors, heads, head_results, round_, in_place=False):
  """Returns the clusters' models after a round.

  Args:
    vectors: The clusters' models before it, float32 of shape (num_clusters, P).
    heads: All `Head`s of the round.
    head_results: An iterable of (weighted sum of the members' parameters, their number of
      examples, dict of client id to loss), aligned with `heads`.
    round_: A `participation.Round`.
    in_place: Whether the new models take the place of `vectors`, unless these are read-only.

  Returns:
    The new models of shape (num_clusters, P), and per cluster a dict of client id to mean
    training loss.

  Raises:
    divergence.TrainingDiverged: If a loss or weight is not finite.
  """
  missing = collections.Counter(head.cluster for head in heads)
  # In float64 only until a cluster's last head is there: all of them would be gigabytes.
  sums = {}
  totals = np.zeros(len(vectors))
  losses = [{} for _ in vectors]
  if not (in_place and vectors.flags.writeable):
    vectors = vectors.copy()
  # A cluster's model is written when all its heads have been sent what they start from.
  for head, (weighted_sum, total, head_losses) in zip(heads, head_results):
    cluster = head.cluster
    sums[cluster] = sums.get(cluster, 0) + np.asarray(weighted_sum, np.float64)
    totals[cluster] += total
    losses[cluster].update(head_losses)
    missing[cluster] -= 1
    if not missing[cluster]:
      of_cluster = sums.pop(cluster)
      if totals[cluster]:
        vectors[cluster] = of_cluster / totals[cluster]
  where = [f"round {round_.number}"]
  if len(vectors) > 1:
    where = [f"round {round_.number}, cluster {cluster}" for cluster in range(len(vectors))]
  for of_cluster, cluster_losses in zip(where, losses):
    divergence.check_losses(cluster_losses, of_cluster)
  for cluster in np.flatnonzero(totals):
    divergence.check_vector(vectors[cluster], where[cluster])
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
    self._train_heads = build_train_heads(task.model, local_training)

  def next(self, vectors, clusters, round_, in_place=False):
    """Runs one round of every cluster.

    Args:
      vectors: The clusters' models, float32 of shape (num_clusters, P).
      clusters: A sequence of tuples of client ids, aligned with `vectors`.
      round_: A `participation.Round`.  A cluster without members that take part keeps its
        model.
      in_place: As of `new_models`.

    Returns:
      The new models of shape (num_clusters, P), and per cluster a dict of client
      id to mean training loss.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    heads = plan_heads(clusters, self._files.train)
    jobs, members_of_job = head_jobs(heads, round_, self._files, self._seed)
    results = model_jobs.results(
        self._train_heads, vectors, jobs, [vectors.shape[1]] * len(jobs)
    )
    head_results = (
        (weighted_sum, total, zip(members, map(float, losses)))
        for (weighted_sum, total, losses), members in zip(results, members_of_job)
    )
    return new_models(vectors, heads, head_results, round_, in_place)
