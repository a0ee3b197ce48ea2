"""How a method finds a model for a client that was not there in training."""

from __future__ import annotations

from typing import Sequence, TYPE_CHECKING

import numpy as np

from fl_clustering.methods import client_weights
from fl_clustering.methods import grouping
from fl_clustering.methods import method

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib


def in_cluster(vectors: np.ndarray, clusters: np.ndarray) -> method.Placement:
  """Returns the placement of clients that use their cluster's model as it is.

  Args:
    vectors: The clusters' models, float32 of shape (K, P).
    clusters: Each client's cluster, integers of shape (n,).
  """
  return method.Placement(tuple((int(k),) for k in clusters), vectors[clusters])


def by_loss(engine: engine_lib.Engine) -> method.Place:
  """Returns the `Method.place` that takes the model of least loss on the training data.

  It chooses among clusters with members.  It is IFCA's rule (Ghosh et al., "An Efficient
  Framework for Clustered Federated Learning", NeurIPS 2020, section 4).
  """

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, clients: np.ndarray
  ) -> method.Placement:
    del pretrained  # The models' losses decide.
    used = np.flatnonzero(list(map(len, state.members)))
    losses = engine.losses(state.vectors[used], clients)
    return in_cluster(state.vectors, used[losses.argmin(axis=0)])

  return place


def _l1(own: np.ndarray, mean: np.ndarray) -> float:
  return float(np.abs(own - mean).sum())


def _l2(own: np.ndarray, mean: np.ndarray) -> float:
  return float(np.linalg.norm(np.subtract(own, mean, dtype=np.float64)))


def _against_cosine(own: np.ndarray, mean: np.ndarray) -> float:
  """Returns what is least where the cosine of a client's weights with a mean is largest."""
  return -float(own @ mean) / (float(np.linalg.norm(mean)) or 1.0)


# They order the means as the `distances.METRICS` of these names do.
DISTANCES = {"l1": _l1, "l2": _l2, "cosine": _against_cosine}


def nearest(
    vectors: client_weights.Represented | np.ndarray, centers: Sequence[np.ndarray] | np.ndarray,
    metric: str = "l2",
) -> np.ndarray:
  """Returns the index of the center nearest each vector; of equal ones, the first.

  Args:
    vectors: float32 of shape (n, P).
    centers: K arrays of shape (P,).
    metric: The distance, a key of `DISTANCES`.
  """
  # One vector at a time: all differences in float64 are gigabytes for large models.
  rows = (vectors[i] for i in range(len(vectors)))
  return np.array([
      np.argmin([DISTANCES[metric](row, center) for center in centers]) for row in rows
  ])


def by_weights(representation: str, metric: str = "l2") -> method.Place:
  """Returns the `Method.place` that takes the cluster nearest to the client's own weights.

  The client's weights are what one local training gives, as for the clients that were
  grouped.  Nearest is the cluster with the least distance from the mean of its members'
  weights, both in the representation that was grouped.

  Args:
    representation: What of the weights was grouped.
    metric: The distance, a key of `DISTANCES`.
  """
  grouping.check_is_of_weights(representation)

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, clients: np.ndarray
  ) -> method.Placement:
    weights, new_weights = pretrained.used_weights, pretrained.new_client_weights
    assert new_weights is not None  # There are new clients.
    used = np.flatnonzero(list(map(len, state.members)))
    means = [
        client_weights.mean_of(weights.represented(representation, state.members[k])) for k in used
    ]
    own = new_weights.represented(representation, clients)
    return in_cluster(state.vectors, used[nearest(own, means, metric)])

  return place
