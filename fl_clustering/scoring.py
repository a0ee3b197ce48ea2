"""Confusion matrices of a run's models, on the test data each is judged by.

The server sends models, clients and the server evaluate them: on the global
test set, and on every client's own test data.
"""

import numpy as np

from fl_clustering import evaluation


class Scoring:
  """Evaluates the models of one task."""

  def __init__(self, task, files):
    """Builds the evaluation; arguments as for `federated_training.FedAvg`."""
    self._client_ids = task.client_ids
    self._files = files
    self._evaluation = evaluation.Evaluation(task.model)

  def on_global_test(self, vectors):
    """Returns confusion matrices (num_models, C, C) on the global test set."""
    requests = [
        evaluation.Request(i, self._files.global_test) for i in range(len(vectors))
    ]
    results = self._evaluation.confusions(vectors, requests)
    return np.stack([r.sum(axis=0) for r in results])

  def on_members(self, vectors, clusters):
    """Evaluates every cluster's model on its clients' test data.

    Args:
      vectors: Models, of shape (num_clusters, P).
      clusters: A sequence of tuples of client ids, aligned with `vectors`.

    Returns:
      Per cluster an array (num_members, C, C), aligned with its members.
    """
    return self._evaluation.confusions(
        vectors,
        [
            evaluation.Request(k, tuple(self._files.test[c] for c in members))
            for k, members in enumerate(clusters)
        ],
    )

  def on_clients_and_clusters(self, vectors, assignment):
    """Evaluates cluster models for the clients, and for the clusters as a whole.

    A client in several clusters is judged by the mean of its clusters' models.

    Args:
      vectors: Cluster models, of shape (num_clusters, P).
      assignment: A `ClusterAssignment`, aligned with `vectors`.

    Returns:
      A pair: per client (num_clients, C, C), aligned with the task's client ids;
      per cluster (num_clusters, C, C), its clients' test data taken together.
    """
    by_member = self.on_members(vectors, assignment.clusters)
    of_clusters = np.stack([confusions.sum(axis=0) for confusions in by_member])
    if assignment.overlapping:
      # Clients of the same clusters have the same model: evaluate it once.
      alike = {}
      for client_id in self._client_ids:
        alike.setdefault(assignment.clusters_of(client_id), []).append(client_id)
      groups = list(alike.values())
      means = assignment.member_means(vectors, [members[0] for members in groups])
      by_member = self.on_members(means, groups)
    else:
      groups = assignment.clusters
    of_client = {
        client_id: confusion
        for members, confusions in zip(groups, by_member)
        for client_id, confusion in zip(members, confusions)
    }
    return np.stack([of_client[c] for c in self._client_ids]), of_clusters
