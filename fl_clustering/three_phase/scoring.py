"""Confusion matrices of a run's models, on the test data each is judged by.

The loop of a run judges models here: on the global test set, and on every client's own
test data.  Methods don't see this.
"""

import numpy as np

from fl_clustering.engine import evaluation
from fl_clustering.methods import cluster_assignment


class Scoring:
  """Evaluates the models of one task on its test data."""

  def __init__(self, engine):
    """Takes the run's `Engine`, whose evaluation it uses."""
    self._engine = engine

  def on_global_test(self, vectors):
    """Evaluates models on the global test set.

    Args:
      vectors: Models, float32 of shape (num_models, P).

    Returns:
      Confusion matrices of shape (num_models, C, C).
    """
    files = self._engine.files.global_test
    requests = [evaluation.Request(i, files) for i in range(len(vectors))]
    results = self._engine.confusions(vectors, requests)
    return np.stack([r.sum(axis=0) for r in results])

  @property
  def new_client_ids(self):
    """The ids of the clients that come after the training."""
    return self._engine.new_client_ids

  def on_new_clients(self, vectors):
    """Evaluates a model per new client on the client's test data.

    Args:
      vectors: Models, float32 of shape (num_new, P), aligned with `new_client_ids`.

    Returns:
      Confusion matrices of shape (num_new, C, C).
    """
    clusters = tuple((client_id,) for client_id in self.new_client_ids)
    return np.concatenate(self.on_members(vectors, clusters))

  def on_members(self, vectors, clusters):
    """Evaluates every cluster's model on its clients' test data.

    Args:
      vectors: Models, float32 of shape (num_clusters, P).
      clusters: A sequence of tuples of client ids, aligned with `vectors`.

    Returns:
      Per cluster an array (num_members, C, C), aligned with its members.
    """
    test = self._engine.files.test
    requests = [
        evaluation.Request(k, tuple(test[c] for c in members))
        for k, members in enumerate(clusters)
    ]
    return self._engine.confusions(vectors, requests)

  def on_clients_and_clusters(self, vectors, clusters):
    """Evaluates cluster models for the clients, and for the clusters as a whole.

    A client in several clusters is judged by the mean of its clusters' models.

    Args:
      vectors: Cluster models, float32 of shape (num_clusters, P).
      clusters: A tuple of client ids per model.  Clusters may overlap or be empty, but
        every client of the task must be in one.

    Returns:
      A pair: per client (num_clients, C, C), aligned with the task's client ids;
      per cluster (num_clusters, C, C), its clients' test data taken together, which is
      all zeros for an empty cluster.

    Raises:
      ValueError: If a client is in no cluster, or a cluster holds an unknown one.
    """
    client_ids = self._engine.client_ids
    clusters_of = cluster_assignment.clusters_of(clusters)
    cluster_assignment.check_covers(clusters_of, client_ids)
    by_member = self.on_members(vectors, clusters)
    of_clusters = np.stack([confusions.sum(axis=0) for confusions in by_member])
    groups = [(clusters, by_member)]
    if any(len(indices) > 1 for indices in clusters_of.values()):
      # Clients of the same clusters have the same model: evaluate it once.
      groups = [
          (alike.values(), self.on_members(
              cluster_assignment.mean_vectors(vectors, list(alike)), list(alike.values())
          ))
          for alike in cluster_assignment.clients_alike(clusters, client_ids)
      ]
    of_client = {
        client_id: confusion
        for of_group in groups
        for members, confusions in zip(*of_group)
        for client_id, confusion in zip(members, confusions)
    }
    return np.stack([of_client[c] for c in client_ids]), of_clusters
