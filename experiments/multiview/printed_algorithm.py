"""Fed-MVKM as the tutorial prints it, to show what it gives; nothing to build on.

What is printed differs from what is described, and all of it is kept here: a client draws
new centers from its own points in every round, so that the centers it was sent are
never used; the clients' centers are averaged by index, although index k is another
cluster at every client; the bandwidth is |sum of the column means| K / (iteration * n),
which the data's offset decides; labels are predicted with another bandwidth (0.1); and
the Laplace noise of scale (1 - privacy_level) / 10 has no bounded sensitivity, so that
it is no differential privacy at any level.
"""

from typing import Sequence

import numpy as np

_ALPHA = 2.0
_PRIVACY_LEVEL = 0.9
_ROUNDS = 8
_ITERATIONS_PER_ROUND = 10
_LOCAL_ITERATIONS = 50
_ROUND_TOLERANCE = 1e-3
_TOLERANCE = 1e-4
_PREDICTION_BETA = 0.1


def _squared_distances(points: np.ndarray, centers: np.ndarray) -> np.ndarray:
  distances = (
      (points**2).sum(axis=1)[:, None] - 2 * points @ centers.T + (centers**2).sum(axis=1)
  )
  return np.maximum(distances, 0)


def _kernels(
    views: Sequence[np.ndarray], centers: Sequence[np.ndarray], betas: Sequence[float]
) -> list[np.ndarray]:
  return [
      np.exp(-beta * _squared_distances(view, center))
      for view, center, beta in zip(views, centers, betas)
  ]


def _clusters(
    kernels: Sequence[np.ndarray], view_weights: Sequence[float] | np.ndarray
) -> np.ndarray:
  costs: np.ndarray = sum(
      weight**_ALPHA * (1 - kernel) for weight, kernel in zip(view_weights, kernels)
  )
  return np.argmin(costs, axis=1)


def _moved(
    view: np.ndarray, members: np.ndarray, kernel: np.ndarray, weight: float
) -> np.ndarray:
  weights = members * kernel * weight**_ALPHA
  totals = weights.sum(axis=0)
  means = weights.T @ view / np.where(totals > 0, totals, 1)[:, None]
  return np.where(totals[:, None] > 0, means, view.mean(axis=0))


def local_fit(
    views: Sequence[np.ndarray], num_clusters: int, num_iterations: int, tolerance: float,
    rng: np.random.RandomState,
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, float]:
  """Runs the tutorial's MVKM-ED on one client.

  Args:
    views: Arrays of shape (n, d_h).
    tolerance: It ends when the objective changes by no more than this.
    rng: Draws the first centers.

  Returns:
    The centers per view, the view weights, the clusters and the last objective.
  """
  num_points = len(views[0])
  first = rng.permutation(num_points)[:num_clusters]
  centers = [view[first] for view in views]
  view_weights = np.full(len(views), 1 / len(views))
  before = None
  for iteration in range(1, num_iterations + 1):
    betas = [
        abs(view.mean(axis=0).sum() * num_clusters / (iteration * num_points)) for view in views
    ]
    kernels = _kernels(views, centers, betas)
    clusters = _clusters(kernels, view_weights)
    members = np.eye(len(first))[clusters]
    centers = [
        _moved(view, members, kernel, weight)
        for view, kernel, weight in zip(views, kernels, view_weights)
    ]
    kernels = _kernels(views, centers, betas)
    costs = np.array([(members * (1 - kernel)).sum() for kernel in kernels])
    shares = np.where(costs > 0, 1 / np.where(costs > 0, costs, 1), 1.0)
    view_weights = shares ** (1 / (_ALPHA - 1))
    view_weights = view_weights / view_weights.sum()
    objective = view_weights**_ALPHA @ costs
    if before is not None and abs(objective - before) <= tolerance:
      break
    before = objective
  return centers, view_weights, clusters, objective


def local_clusters(
    views: Sequence[np.ndarray], num_clusters: int, rng: np.random.RandomState
) -> np.ndarray:
  """Returns what a client finds alone, with the tutorial's settings."""
  _, _, clusters, _ = local_fit(views, num_clusters, _LOCAL_ITERATIONS, _TOLERANCE, rng)
  return clusters


def federated_clusters(
    clients: Sequence[Sequence[np.ndarray]], num_clusters: int, rng: np.random.RandomState
) -> np.ndarray:
  """Returns the clusters of the points of all clients' views, client after client."""
  sizes = np.array([len(views[0]) for views in clients])
  for view in clients[0]:  # The tutorial's global model, which no client ever sees.
    rng.randn(num_clusters, view.shape[1])
  before = None
  for _ in range(_ROUNDS):
    fits = []
    for views in clients:
      scale = (1 - _PRIVACY_LEVEL) * 0.1
      noisy = [view + rng.laplace(0, scale, view.shape) for view in views]
      fits.append(
          local_fit(noisy, num_clusters, _ITERATIONS_PER_ROUND, _ROUND_TOLERANCE, rng)
      )
    centers = [
        np.average([fit[0][view] for fit in fits], axis=0, weights=sizes)
        for view in range(len(clients[0]))
    ]
    view_weights = np.mean([fit[1] for fit in fits], axis=0)
    objective = np.mean([fit[3] for fit in fits])
    if before is not None and abs(objective - before) <= _TOLERANCE:
      break
    before = objective
  views = [np.concatenate(parts) for parts in zip(*clients)]
  betas = [_PREDICTION_BETA] * len(views)
  return _clusters(_kernels(views, centers, betas), view_weights)
