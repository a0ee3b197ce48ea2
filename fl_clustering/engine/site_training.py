"""FedAvg in many clusters whose members are at sites: one sum per site and cluster crosses.

For one cluster after the other, the heads of `cluster_training.py` train its members.  TFF adds
up at every site what they return, so that no part of the sum over a site's members leaves it.
"""

import collections
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import cluster_training


@functools.cache
def build_add_up(model, local_training, num_clients):
  """Returns the TFF computation of one cluster's round.

  Args:
    model: A `model.Model`.
    local_training: How a client trains, a `client_update.LocalTraining`.
    num_clients: Number of clients of the task; their `places` are below it.

  Returns:
    The computation `(vector@SERVER, {job}@CLIENTS) -> (weighted sum of the members'
    parameters, their number of examples, losses)@SERVER`.  The losses, of shape
    (num_clients,), are at the members' places and zero elsewhere.
  """
  train_members = cluster_training.build_train_head(model, local_training)
  vector_type = tff.TensorType(np.float32, [model.num_parameters])
  job_type = tff.StructWithPythonType(
      [("places", tff.TensorType(np.int32, [None])), *cluster_training.MEMBER_FIELDS],
      collections.OrderedDict,
  )

  @tff.tensorflow.computation(vector_type, job_type)
  def train(vector, job):
    weighted_sum, num_examples, losses = train_members(vector, job)
    return weighted_sum, num_examples, tf.scatter_nd(
        job["places"][:, tf.newaxis], losses, [num_clients]
    )

  @tff.federated_computation(
      tff.FederatedType(vector_type, tff.SERVER), tff.FederatedType(job_type, tff.CLIENTS)
  )
  def add_up(vector, jobs):
    return tff.federated_sum(
        tff.federated_map(train, (tff.federated_broadcast(vector), jobs))
    )

  return add_up


class SiteTraining:
  """FedAvg in every cluster on its own, of clients at sites."""

  def __init__(self, task, files, local_training, seed):
    """Builds the TFF computation.

    Args:
      task: A `FederatedTask`.
      files: The task's `ClientFiles`, all of them at sites.
      local_training: How a client trains, a `client_update.LocalTraining`.
      seed: The run's seed.
    """
    self._files = files
    self._seed = seed
    self._place = {client_id: i for i, client_id in enumerate(files.train)}
    self._add_up = build_add_up(task.model, local_training, len(self._place))

  def next(self, vectors, clusters, round_, in_place=False):
    """Runs one round of every cluster, as `cluster_training.ClusterTraining.next` does.

    Args:
      vectors: The clusters' models, float32 of shape (num_clusters, P).
      clusters: A sequence of tuples of client ids, aligned with `vectors`.
      round_: A `participation.Round`.  A cluster without members that take part keeps its
        model.
      in_place: As of `cluster_training.new_models`.

    Returns:
      The new models of shape (num_clusters, P), and per cluster a dict of client
      id to mean training loss.

    Raises:
      divergence.TrainingDiverged: If a loss or weight is not finite.
    """
    wholes, jobs_of = [], {}
    for cluster, members in enumerate(clusters):
      heads = cluster_training.plan_heads((members,), self._files.train)
      jobs, members_of_job = cluster_training.head_jobs(heads, round_, self._files, self._seed)
      sent = [
          collections.OrderedDict(
              places=np.array([self._place[m] for m in of_job], np.int32),
              **{name: job[name] for name, _ in cluster_training.MEMBER_FIELDS},
          )
          for job, of_job in zip(jobs, members_of_job) if of_job
      ]
      if sent:
        wholes.append(cluster_training.Head(cluster, tuple(sum(members_of_job, []))))
        jobs_of[cluster] = sent

    def result(whole):
      weighted_sum, total, losses = self._add_up(vectors[whole.cluster], jobs_of[whole.cluster])
      return weighted_sum, total, {m: float(losses[self._place[m]]) for m in whole.members}

    # One after the other: with a cluster for every client, all sums are as large as all models.
    return cluster_training.new_models(vectors, wholes, map(result, wholes), round_, in_place)


def build_training(task, files, local_training, seed):
  """Returns what trains clusters: sums cross from sites, and heads' results from elsewhere.

  Args:
    task: A `FederatedTask`.
    files: The task's `ClientFiles`.
    local_training: How a client trains, a `client_update.LocalTraining`.
    seed: The run's seed.
  """
  is_at_sites = any(file.site for file in files.train.values())
  chosen = SiteTraining if is_at_sites else cluster_training.ClusterTraining
  return chosen(task, files, local_training, seed)
