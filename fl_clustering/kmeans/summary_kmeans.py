"""Weighted k-means of points that the server has already: a few hundred, or tens of thousands.

Ward's merges give the first centers.  Where there are few points, swaps then move a center to
another point where that lowers the inertia, each tried with a few of Lloyd's steps.  All swaps can
be judged at once, from the matrix of the points' distances.  Of more points there is no such
matrix, and Lloyd's steps follow.

Points are float64 of shape (num_points, dim), weights positive of shape (num_points,).

Reference:
  Joe H. Ward. Hierarchical Grouping to Optimize an Objective Function. Journal of the
  American Statistical Association, 1963.
"""

import numpy as np

from clustering_basics import single_thread_kmeans

# The largest matrix of distances: 256 MB.
_MOST_DISTANCES = 2**25
# Swaps are searched for in the principal directions.  More of them change little but cost
# as much as all others together.
_MAX_DIM = 16
# The most promising swaps are tried, so many at a time, until one lowers the inertia.
_TRIES = 192
_TRIES_AT_A_TIME = 16
_LLOYD_STEPS_OF_TRY = 2
# A swap must lower the inertia by this part.
_LEAST_GAIN = 1e-6
# Largest product of the numbers of points, centers and tries: a few seconds.  Only for many
# clusters does it end the search before no more swaps are found.
_MAX_WORK = 1e7
# Lloyd's steps at the ends; few are needed.
_LLOYD_STEPS = 50


def _squared_distances(points: np.ndarray, others: np.ndarray) -> np.ndarray:
  """Returns the squared distances of points to others, at least zero."""
  distances = (points**2).sum(axis=1)[:, np.newaxis] - 2 * points @ others.T
  distances += (others**2).sum(axis=1)
  return np.maximum(distances, 0, out=distances)


def _are_few(num_points: int, k: int) -> bool:
  """Returns whether memory holds all distances between points, and to all centers tried."""
  return num_points * max(num_points, _TRIES_AT_A_TIME * k) <= _MOST_DISTANCES


def ward_centers(points: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
  """Returns the means of k <= num_points clusters, made by merging the cheapest two at a time."""
  if not _are_few(len(points), k):
    return _ward_centers_of_many(points, weights, k)
  means, weights = points.copy(), weights.astype(np.float64)
  costs = _squared_distances(means, means)
  costs *= weights[:, np.newaxis] * weights / (weights[:, np.newaxis] + weights)
  np.fill_diagonal(costs, np.inf)
  # The lowest cost of each row or less, as no merge makes a cost lower than both before it.
  lowest = costs.min(axis=1)
  num_merges = len(points) - k
  while num_merges:
    kept = int(lowest.argmin())
    merged = costs[kept].argmin()
    if costs[kept, merged] > lowest[kept]:  # What was nearest has been merged since.
      lowest[kept] = costs[kept, merged]
      continue
    total = weights[kept] + weights[merged]
    means[kept] = (weights[kept] * means[kept] + weights[merged] * means[merged]) / total
    weights[kept], weights[merged] = total, 0
    row = ((means - means[kept]) ** 2).sum(axis=1) * weights * total / (weights + total)
    row[weights == 0] = row[kept] = np.inf
    costs[merged] = costs[:, merged] = np.inf
    costs[kept] = costs[:, kept] = row
    lowest[merged] = np.inf
    num_merges -= 1
  return means[weights > 0]


def _ward_centers_of_many(points: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
  """Returns `ward_centers` without a matrix of costs: a row is computed when it is needed."""
  columns, weights = points.T.copy(), weights.astype(np.float64)
  squares = (columns**2).sum(axis=0)  # Infinite once a cluster has been merged.

  def costs(kept: int) -> np.ndarray:
    """Returns the costs of merging clusters into `kept`; infinite for it and for merged ones."""
    # Not a matrix product, which libraries round by the number of their threads.
    row = np.einsum("ij,i->j", columns, -2 * columns[:, kept])
    row += squares
    row += squares[kept]
    np.maximum(row, 0, out=row)
    row *= weights * (weights[kept] / (weights + weights[kept]))
    row[kept] = np.inf
    return row

  lowest = np.array([costs(cluster).min() for cluster in range(len(weights))])
  num_merges = len(weights) - k
  while num_merges:
    kept = int(lowest.argmin())
    row = costs(kept)
    merged = int(row.argmin())
    if row[merged] > lowest[kept]:
      lowest[kept] = row[merged]
      continue
    total = weights[kept] + weights[merged]
    sums = weights[kept] * columns[:, kept] + weights[merged] * columns[:, merged]
    columns[:, kept] = sums / total
    squares[kept] = (columns[:, kept] ** 2).sum()
    weights[kept] = total
    squares[merged] = lowest[merged] = np.inf
    num_merges -= 1
  return columns[:, np.isfinite(squares)].T


def _lloyd(
    points: np.ndarray, weights: np.ndarray, centers: np.ndarray, num_steps: int
) -> tuple[np.ndarray, np.ndarray]:
  """Does at most so many weighted Lloyd's steps for several sets of centers at once.

  Returns:
    The centers, of shape (num_sets, k, dim), and the inertias at them, (num_sets,).
  """
  num_sets, k, dim = centers.shape
  clusters = np.zeros((0, 0), int)
  for step in range(num_steps + 1):
    flat = centers.reshape(-1, dim)
    distances = _squared_distances(points, flat).reshape(len(points), num_sets, k)
    before, clusters = clusters, distances.argmin(axis=2)
    inertias = weights @ distances.min(axis=2)
    if step == num_steps or np.array_equal(before, clusters):
      break
    members = np.zeros((num_sets * k, len(points)))
    rows = clusters + k * np.arange(num_sets)
    members[rows, np.arange(len(points))[:, np.newaxis]] = weights[:, np.newaxis]
    counts = members.sum(axis=1, keepdims=True)
    means = members @ points / np.maximum(counts, np.finfo(float).tiny)
    centers = np.where(counts > 0, means, flat).reshape(centers.shape)
  return centers, inertias


def _swap_changes(
    points: np.ndarray, weights: np.ndarray, distances: np.ndarray, centers: np.ndarray
) -> np.ndarray:
  """Returns how the inertia changes if a point becomes a center and a center goes, (num_points, k).

  Args:
    distances: The squared distances of the points to each other.
    centers: Of shape (k, dim), k > 1.
  """
  to_centers = _squared_distances(points, centers)
  nearest = to_centers.argmin(axis=1)
  first, second = np.partition(to_centers, 1, axis=1)[:, :2].T
  members = np.zeros((len(points), len(centers)))
  members[np.arange(len(points)), nearest] = weights
  # Rows are new centers, columns are points.
  with_new = np.minimum(distances, first)
  gained = (with_new - first) @ weights
  return gained[:, np.newaxis] + (np.minimum(distances, second) - with_new) @ members


def _promising_swaps(
    points: np.ndarray, weights: np.ndarray, distances: np.ndarray, centers: np.ndarray
) -> np.ndarray:
  """Returns the swaps of the lowest inertias, pairs of a point and a center, best first."""
  changes = _swap_changes(points, weights, distances, centers)
  order = np.argsort(changes, axis=None, kind="stable")[:_TRIES]
  return np.stack(np.unravel_index(order, changes.shape), axis=1)


def _searched(
    points: np.ndarray, weights: np.ndarray, centers: np.ndarray
) -> tuple[np.ndarray, float]:
  """Returns the centers and their inertia after swaps from these centers."""
  distances = _squared_distances(points, points)
  (centers,), (inertia,) = _lloyd(points, weights, centers[np.newaxis], _LLOYD_STEPS)
  num_left = _MAX_WORK / (len(points) * len(centers))
  swaps = _promising_swaps(points, weights, distances, centers)
  while len(swaps) and num_left > 0:
    new, removed = swaps[:_TRIES_AT_A_TIME].T
    swaps = swaps[_TRIES_AT_A_TIME:]
    num_left -= len(new)
    tried = np.repeat(centers[np.newaxis], len(new), axis=0)
    tried[np.arange(len(new)), removed] = points[new]
    tried, inertias = _lloyd(points, weights, tried, _LLOYD_STEPS_OF_TRY)
    best = inertias.argmin()
    if inertias[best] < (1 - _LEAST_GAIN) * inertia:
      centers, inertia = tried[best], inertias[best]
      swaps = _promising_swaps(points, weights, distances, centers)
  (centers,), (inertia,) = _lloyd(points, weights, centers[np.newaxis], _LLOYD_STEPS)
  return centers, inertia


def _rotated(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """Returns the points about their mean, in their principal directions, `_MAX_DIM` at most."""
  centered = points - np.average(points, axis=0, weights=weights)
  if points.shape[1] <= _MAX_DIM:
    return centered
  scaled = np.sqrt(weights)[:, np.newaxis] * centered
  _, _, directions = np.linalg.svd(scaled, full_matrices=False)
  return centered @ directions[:_MAX_DIM].T


def _settled(
    points: np.ndarray, weights: np.ndarray, searched: np.ndarray, centers: np.ndarray
) -> np.ndarray:
  """Returns the means of the points of every cluster that Lloyd's steps from these centers find."""
  found = single_thread_kmeans.fit(searched, len(centers), weights, init=centers, n_init=1, tol=0)
  _, clusters = np.unique(found.labels_, return_inverse=True)
  counts = np.bincount(clusters, weights)
  sums = [np.bincount(clusters, weights * column) for column in points.T]
  return np.stack(sums, axis=1) / counts[:, np.newaxis]


def fit(points: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
  """Returns the centers of min(k, num_points) clusters, or of fewer where points are equal."""
  if len(points) <= k:
    return points
  weights = weights.astype(np.float64)
  searched = _rotated(points, weights)
  centers = ward_centers(searched, weights, k)
  if not _are_few(len(points), k):
    return _settled(points, weights, searched, centers)
  if k > 1:
    centers, _ = _searched(searched, weights, centers)
  clusters = _squared_distances(searched, centers).argmin(axis=1)
  members = weights * (clusters == np.arange(k)[:, np.newaxis])
  counts = members.sum(axis=1)
  return members[counts > 0] @ points / counts[counts > 0, np.newaxis]
