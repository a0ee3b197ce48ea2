"""A run's models on the test data that each is judged by, after every round and in phase 3.

In phase 3, cluster models are evaluated as they are, averaged, and blended with their average.
Methods don't see any of this.  What is measured are confusion matrices of shape (C, C).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.methods import client_weights
from fl_clustering.methods import cluster_assignment
from fl_clustering.three_phase import result as result_lib

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.engine import participation
  from fl_clustering.methods import method as method_lib

# Most blended models of a method that are evaluated on the global test set: with a cluster per
# client, all of them would take longer than the training.
_MOST_BLENDED = 100


def on_new_clients(engine: engine_lib.Engine, vectors: np.ndarray) -> np.ndarray:
  """Evaluates a model per new client, (num_new, P), on its test data; returns (num_new, C, C)."""
  return np.concatenate(engine.confusions(vectors, engine.new_clients[:, None]))


def on_clients_and_clusters(
    engine: engine_lib.Engine, vectors: Any, clusters: participation.Clusters,
    clients: np.ndarray, part: str = "test",
) -> tuple[np.ndarray, np.ndarray]:
  """Evaluates cluster models for the clients, and for the clusters as a whole.

  A client in several clusters is judged by the mean of its clusters' models.

  Args:
    vectors: Cluster models, float32 of shape (num_clusters, P), or a `Represented`.
    clusters: The clients per model.  Clusters may overlap or be empty, but every client that
      trains must be in one.
    clients: On whose data, in ascending order.
    part: On which of their data, as of `Engine.confusions`.

  Returns:
    Confusion matrices per client, (N, C, C), in the order of `clients`; and per cluster, (K, C, C),
    of its clients' data taken together, which are all zeros for a cluster without any.

  Raises:
    ValueError: If a client is in no cluster, or a cluster holds an unknown one.
  """
  cluster_assignment.check_covers(clusters, engine.clients)
  if len(clients) < len(engine.clients):
    clusters = [members[np.isin(members, clients)] for members in clusters]
  by_cluster = engine.confusions(vectors, clusters, part)
  found = np.empty((len(clients), *by_cluster[0].shape[1:]), by_cluster[0].dtype)

  def keep(groups: participation.Clusters, by_group: Sequence[np.ndarray]) -> None:
    found[np.searchsorted(clients, np.concatenate(groups))] = np.concatenate(by_group)

  if cluster_assignment.are_disjoint(clusters):
    keep(clusters, by_cluster)
  else:
    # Clients of the same clusters have the same model: evaluate it once.
    for alike, means in cluster_assignment.clients_alike(vectors, clusters, clients):
      groups = list(alike.values())
      keep(groups, engine.confusions(means, groups, part))
  return found, np.stack([confusions.sum(axis=0) for confusions in by_cluster])


@dataclasses.dataclass(frozen=True)
class Mixtures:
  """Models made of K cluster models of P parameters each.

  Attributes:
    mean: (a), their mean, of shape (P,).
    weighted: (b), their mean weighted by each cluster's accuracy, of shape (P,).
    blended: (c), for every cluster the mean of its own model and of (a).
  """

  mean: np.ndarray
  weighted: np.ndarray
  blended: client_weights.Represented


def mix(vectors: np.ndarray, accuracy: np.ndarray) -> Mixtures:
  """Returns the mixtures of cluster models.

  Args:
    vectors: The cluster models, float32 of shape (K, P).
    accuracy: The clusters' accuracy, of shape (K,).  One that is not known, NaN, counts as the mean
      of the others; clusters that all have 0 count alike.
  """
  mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
  is_known = ~np.isnan(accuracy)
  weights = np.where(is_known, accuracy, accuracy[is_known].mean() if is_known.any() else 1.0)
  if not np.any(weights):
    weights = np.ones_like(weights)
  weighted = client_weights.mean_of(vectors, weights).astype(np.float32)
  blended = client_weights.Represented(vectors, -mean, np.full(len(vectors), 2, np.float32))
  return Mixtures(mean, weighted, blended)


def blended_on_global_test(num_clusters: int) -> list[int]:
  """Returns the clusters whose blended models are evaluated on the global test set.

  These are all of them, or 100 evenly spaced ones of more.
  """
  places = np.linspace(0, num_clusters - 1, min(num_clusters, _MOST_BLENDED))
  return places.round().astype(int).tolist()


def evaluate(
    engine: engine_lib.Engine, outcome: result_lib.Outcome, placement: method_lib.Placement | None,
    evaluated: np.ndarray, true_groups: np.ndarray | None = None, article_weights: bool = False,
) -> result_lib.MethodResult:
  """Evaluates what a method ended with.

  Clusters that are empty or part of another one are left out of what is averaged and blended.
  The clients are judged by all their clusters' models, as after every round.

  Args:
    placement: What it gives to the new clients; `None` without new clients.
    evaluated: The clients on whose data models are evaluated.
    true_groups: The groups of the clients that train; `None` = not to be compared.
    article_weights: Whether the clusters weigh in (b) by their best accuracy on test data, although
      there are validation data.
  """
  places, assignment = outcome.state.reported_clusters()
  state, best_accuracy = outcome.state, outcome.best_accuracy[places]
  # No copy of all models, which may be large.
  vectors = state.vectors if len(places) == len(state.vectors) else state.vectors[places]
  validation, validation_accuracy = None, None
  validated = np.intersect1d(engine.validated, evaluated)
  if len(validated):
    validation, of_clusters = on_clients_and_clusters(
        engine, state.vectors, state.members, validated, "validation"
    )
    validation_accuracy = metrics_lib.accuracy(of_clusters)[places]
  mixed = mix(
      vectors,
      best_accuracy if article_weights or validation_accuracy is None else validation_accuracy,
  )
  tested = blended_on_global_test(len(vectors))
  of_global_test = engine.global_confusions(
      np.concatenate([mixed.mean[None], mixed.weighted[None], mixed.blended[tested]])
  )
  clients, _ = on_clients_and_clusters(engine, state.vectors, state.members, evaluated)
  clients_blended, _ = on_clients_and_clusters(
      engine, mixed.blended, assignment.clusters, evaluated
  )
  new_clients, new_client_clusters = None, None
  if placement is not None:
    new_clients = on_new_clients(engine, placement.vectors)
    new_client_clusters = tuple(
        tuple(places.index(k) for k in clusters if k in places)
        for clusters in placement.clusters
    )
  return result_lib.MethodResult(
      assignment=assignment,
      vectors=vectors,
      best_accuracy=best_accuracy,
      clients=clients,
      clients_blended=clients_blended,
      global_mean=of_global_test[0],
      global_weighted=of_global_test[1],
      global_blended=of_global_test[2:],
      new_clients=new_clients,
      new_client_clusters=new_client_clusters,
      cost=outcome.cost,
      ari=None if true_groups is None else assignment.adjusted_rand_index(true_groups),
      purity=None if true_groups is None else assignment.purity(true_groups),
      validation=validation,
      validation_accuracy=validation_accuracy,
  )


def evaluate_pretrained(
    engine: engine_lib.Engine, pretrained: method_lib.Pretrained, evaluated: np.ndarray
) -> result_lib.PretrainResult:
  """Evaluates phase 1."""
  vectors = pretrained.vector[None]
  clients, _ = on_clients_and_clusters(engine, vectors, (engine.clients,), evaluated)
  own_weights = None
  if pretrained.client_weights is not None:
    own_weights, _ = on_clients_and_clusters(
        engine, pretrained.client_weights.vectors, engine.clients[:, None], evaluated
    )
  new_clients = None
  if len(engine.new_clients):
    new_clients = on_new_clients(engine, np.repeat(vectors, len(engine.new_clients), axis=0))
  return result_lib.PretrainResult(
      vector=pretrained.vector,
      global_test=engine.global_confusions(vectors)[0],
      clients=clients,
      own_weights=own_weights,
      new_clients=new_clients,
      cost=pretrained.cost,
  )
