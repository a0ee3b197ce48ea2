"""Phase 3: the cluster models as they are, averaged, and blended with their average."""

import dataclasses

import numpy as np

from fl_clustering.methods import recovery
from fl_clustering.three_phase import three_phase_result


# Most blended models of a method that are evaluated on the global test set: with a cluster per
# client, all of them would take longer than the training.
_MOST_BLENDED = 100


class Blended:
  """The mean of every cluster's model and of one more, made for a few clusters at a time.

  For a cluster per client and large models, all of them would be gigabytes.

  Attributes:
    shape: (K, P).
    dtype: float32.
  """

  def __init__(self, vectors, mean):
    """Keeps the models, float32 of shape (K, P), and the other one, of shape (P,)."""
    self._vectors = vectors
    self._mean = mean
    self.shape, self.dtype = vectors.shape, vectors.dtype

  def __len__(self):
    return len(self._vectors)

  def __getitem__(self, clusters):
    """Returns float32 values for clusters' positions, as of an array."""
    blended = self._vectors[clusters] + self._mean
    blended /= np.float32(2)
    return blended


@dataclasses.dataclass(frozen=True)
class Mixtures:
  """Models made of K cluster models of P parameters each.

  Attributes:
    mean: (a), their mean, of shape (P,).
    weighted: (b), their mean weighted by the highest accuracy that each cluster
      reached, of shape (P,).
    blended: (c), for every cluster the mean of its own model and of (a), a `Blended`.
  """

  mean: np.ndarray
  weighted: np.ndarray
  blended: Blended


def mix(vectors, best_accuracy):
  """Returns the `Mixtures` of cluster models.

  Args:
    vectors: The cluster models, float32 of shape (K, P).
    best_accuracy: The highest accuracy that each cluster reached, of shape (K,).
      Clusters that all reached 0 count alike.
  """
  mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
  weights = best_accuracy if np.any(best_accuracy) else np.ones_like(best_accuracy)
  weighted = np.zeros(vectors.shape[1])
  # One at a time: all of them in float64 are gigabytes for large models.
  for weight, vector in zip(weights, vectors):
    weighted += weight * vector.astype(np.float64)
  weighted = (weighted / weights.sum()).astype(np.float32)
  return Mixtures(mean, weighted, Blended(vectors, mean))


def blended_on_global_test(num_clusters):
  """Returns the clusters whose blended models are evaluated on the global test set.

  Args:
    num_clusters: Number of clusters.

  Returns:
    All clusters' indices, or 100 evenly spaced ones of more, as a list.
  """
  places = np.linspace(0, num_clusters - 1, min(num_clusters, _MOST_BLENDED))
  return places.round().astype(int).tolist()


def _rows_at(vectors, places):
  """Returns rows, in increasing order; the array itself if these are all, as it may be large."""
  return vectors if len(places) == len(vectors) else vectors[places]


def evaluate(outcome, placement, scorer, true_groups=None):
  """Evaluates what a method ended with.

  Clusters that are empty or part of another one are left out of what is averaged and blended.
  The clients are judged by all their clusters' models, as after every round.

  Args:
    outcome: The method's `method_rounds.Outcome`.
    placement: What it gives to the new clients, a `methods.method.Placement`; `None`
      without new clients.
    scorer: The run's `scoring.Scoring`.
    true_groups: From every client's id to its group; `None` = not to be compared.

  Returns:
    A `three_phase_result.MethodResult`.
  """
  places, assignment = outcome.state.reported_clusters()
  vectors = _rows_at(outcome.state.vectors, places)
  best_accuracy = outcome.best_accuracy[places]
  mixed = mix(vectors, best_accuracy)
  tested = blended_on_global_test(len(vectors))
  on_global_test = scorer.on_global_test(
      np.concatenate([mixed.mean[None], mixed.weighted[None], mixed.blended[tested]])
  )
  clients, _ = scorer.on_clients_and_clusters(outcome.state.vectors, outcome.state.members)
  clients_blended, _ = scorer.on_clients_and_clusters(mixed.blended, assignment.clusters)
  return three_phase_result.MethodResult(
      assignment=assignment,
      vectors=vectors,
      best_accuracy=best_accuracy,
      clients=clients,
      clients_blended=clients_blended,
      global_mean=on_global_test[0],
      global_weighted=on_global_test[1],
      global_blended=on_global_test[2:],
      new_clients=placement and scorer.on_new_clients(placement.vectors),
      new_client_clusters=placement and tuple(
          tuple(places.index(k) for k in clusters if k in places)
          for clusters in placement.clusters
      ),
      cost=outcome.cost,
      adjusted_rand_index=true_groups and recovery.adjusted_rand_index(assignment, true_groups),
      purity=true_groups and recovery.purity(assignment, true_groups),
  )


def evaluate_pretrained(pretrained, scorer):
  """Evaluates phase 1.

  Args:
    pretrained: The run's `methods.method.Pretrained`.
    scorer: The run's `scoring.Scoring`.

  Returns:
    A `three_phase_result.PretrainResult`.
  """
  client_ids = pretrained.client_weights.client_ids
  vectors = pretrained.vector[None]
  clients, _ = scorer.on_clients_and_clusters(vectors, (client_ids,))
  own_weights, _ = scorer.on_clients_and_clusters(
      pretrained.client_weights.vectors, tuple((client_id,) for client_id in client_ids)
  )
  new_clients = None
  if scorer.new_client_ids:
    new_clients = scorer.on_new_clients(
        np.repeat(vectors, len(scorer.new_client_ids), axis=0)
    )
  return three_phase_result.PretrainResult(
      vector=pretrained.vector,
      global_test=scorer.on_global_test(vectors)[0],
      clients=clients,
      own_weights=own_weights,
      new_clients=new_clients,
      cost=pretrained.cost,
  )
