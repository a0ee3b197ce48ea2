"""What a client computes from its points: sums, scores, and means for the server to gather.

A work is a function of the client's points (n, d) and a generator.  It returns means (k, d) and the
numbers of points whose means they are (k,), where k is what the client finds: one with fewer than K
times `min_count` points looks for fewer clusters.  `released_means` decides which of them leave it.

Points are near zero and of order one (`algorithms.fit`): distances are computed as
|x|^2 - 2 x.c + |c|^2, which cancels badly far from zero.

References:
  Stuart P. Lloyd. Least Squares Quantization in PCM. IEEE Transactions on Information
  Theory, 1982. https://doi.org/10.1109/TIT.1982.1056489
  David Arthur, Sergei Vassilvitskii. k-means++: The Advantages of Careful Seeding.
  SODA 2007, section 2, and section 7 for the greedy one.
  Swier Garst, Marcel Reinders. Federated K-Means Clustering. ICPR 2024, Algorithm 1.
  https://arxiv.org/abs/2310.01195
  Don Kurian Dennis, Tian Li, Virginia Smith. Heterogeneity for the Win: One-Shot
  Federated Clustering. ICML 2021, Algorithm 1. https://arxiv.org/abs/2103.00697
  Pranjal Awasthi, Or Sheffet. Improved Spectral-Norm Bounds for Clustering. APPROX
  2012. https://arxiv.org/abs/1206.3204
  Federated K-Means, in: Many Labs, an analysis of the Iowa Gambling Task.
"""

from typing import Callable, Iterator

import numpy as np

# Means and how many points each is of.
Means = tuple[np.ndarray, np.ndarray]
Work = Callable[[np.ndarray, np.random.Generator], Means]

# Rows whose distances fit a processor's cache; also bounds the memory.
_BLOCK_ROWS = 2048
# As many as scikit-learn's KMeans made when the papers were written.
_TRIES = 10
_MAX_STEPS = 100
# In k-FED a point belongs to the core of a cluster if every other one is this much
# farther, as squared distances: three times.
_CORE_RATIO = 9.0
_ARRIVING_SHARE = 4  # Of a child server's points, one in four.
# Messages are float32, where numbers of order one that are this close differ by rounding only.
_SAME = 4e-7
_EPSILON = np.finfo(np.float64).eps


def _blocks(points: np.ndarray) -> Iterator[np.ndarray]:
  return (points[start : start + _BLOCK_ROWS] for start in range(0, len(points), _BLOCK_ROWS))


def squared_distances(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
  """Returns the squared distances (n, K) of points to centroids; none is below zero."""
  # Those that were sent are float32, in which their squares would be too coarse.
  centroids = centroids.astype(np.float64)
  distances = points @ (-2 * centroids.T)
  distances += (points**2).sum(axis=1)[:, np.newaxis]
  distances += (centroids**2).sum(axis=1)
  # Rounding can leave them below zero.
  return np.maximum(distances, 0.0, out=distances)


def lloyd_sums(points: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
  """Gives every point to its nearest centroid, and sums up.

  Returns:
    The sums (K, d) and numbers (K,) of each centroid's points, and the inertia at the centroids.
  """
  sums, counts, inertia = np.zeros(centroids.shape), np.zeros(len(centroids)), 0.0
  for block in _blocks(points):
    distances = squared_distances(block, centroids)
    members = np.eye(len(centroids))[distances.argmin(axis=1)]
    sums += members.T @ block
    counts += members.sum(axis=0)
    inertia += distances.min(axis=1).sum()
  return sums, counts, inertia


def scores(points: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, float, float]:
  """Returns how well centroids fit the points.

  Returns:
    The numbers of points nearest to the centroids (K,), the inertia, and the sum of the points'
    simplified silhouettes (see `sum_kinds.Scores`).
  """
  _, counts, inertia = lloyd_sums(points, centroids)
  silhouettes = 0.0
  if len(centroids) > 1:
    for block in _blocks(points):
      squares = np.partition(squared_distances(block, centroids), 1, axis=1)[:, :2]
      own, other = np.sqrt(squares).T
      silhouettes += ((other - own) / np.where(other > 0, other, 1.0)).sum()
  return counts, inertia, silhouettes


def moved(centroids: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
  """Returns the means of the centroids' points, from sums and counts; one without any stays."""
  counts = counts[:, np.newaxis]
  return np.where(counts > 0, sums / np.maximum(counts, 1), centroids)


def lloyd_steps(points: np.ndarray, centroids: np.ndarray, max_steps: int) -> Means:
  """Takes Lloyd steps until nothing moves; a centroid without points stays, with a count of 0."""
  for _ in range(max_steps):
    before = centroids
    sums, counts, _ = lloyd_sums(points, before)
    centroids = moved(before, sums, counts)
    if np.array_equal(centroids, before):
      break
  return centroids, counts


def _seeds(
    points: np.ndarray, num_seeds: int, rng: np.random.Generator, num_trials: int | None = None
) -> np.ndarray:
  """Returns rows drawn by k-means++; by scikit-learn's number of trials, or one, which is plain."""
  from sklearn import cluster  # It takes long to import.  pylint: disable=g-import-not-at-top

  rows, _ = cluster.kmeans_plusplus(
      points, num_seeds, random_state=int(rng.integers(2**32)), n_local_trials=num_trials
  )
  return rows


def best_of_tries(
    points: np.ndarray, num_clusters: int, max_steps: int, rng: np.random.Generator
) -> Means:
  """Returns the best of ten k-means, each k-means++ and at most `max_steps` Lloyd steps."""
  tries = [
      lloyd_steps(points, _seeds(points, num_clusters, rng), max_steps) for _ in range(_TRIES)
  ]
  return min(tries, key=lambda found: lloyd_sums(points, found[0])[2])


def _from_scratch(
    local_means: Callable[[np.ndarray, int, np.random.Generator], Means], num_clusters: int,
    min_count: int,
) -> Work:
  """Returns the work that sends `local_means(points, num_local, rng)`."""

  def work(points: np.ndarray, rng: np.random.Generator) -> Means:
    # With more clusters, not all could have `min_count` points.
    num_local = min(num_clusters, len(points) // min_count)
    return local_means(points, num_local, rng) if num_local else (points[:0], np.zeros(0))

  return work


def initial_means(num_clusters: int, min_count: int) -> Work:
  """Returns the start of FKM: k-means++ and a Lloyd step, as the seeds are rows of the client."""
  return _from_scratch(
      lambda points, num_local, rng: best_of_tries(points, num_local, 1, rng),
      num_clusters, min_count,
  )


def lloyd_means(centroids: np.ndarray) -> Work:
  """Returns a round of FKM: a Lloyd step from the server's centroids, empty clusters dropped."""

  def work(points: np.ndarray, unused_rng: np.random.Generator) -> Means:
    means, counts = lloyd_steps(points, centroids, 1)
    return means[counts > 0], counts[counts > 0]

  return work


def _principal_directions(points: np.ndarray, num_directions: int) -> np.ndarray:
  """Returns the right singular vectors of the largest singular values, as columns."""
  _, directions = np.linalg.eigh(points.T @ points)
  return directions[:, -num_directions:]


def _core_means(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
  """Returns the means of the points that are clearly one centroid's, else the centroid."""
  distances = squared_distances(points, centroids)
  if len(centroids) > 1:  # With one centroid every point is in its core.
    nearest, second = np.partition(distances, 1, axis=1)[:, :2].T
    is_core = _CORE_RATIO * nearest <= second
    points, distances = points[is_core], distances[is_core]
  members = np.eye(len(centroids))[distances.argmin(axis=1)]
  return moved(centroids, members.T @ points, members.sum(axis=0))


def separated_means(num_clusters: int, min_count: int) -> Work:
  """Returns the client's part of k-FED, for clusters far apart."""

  def local_means(points: np.ndarray, num_local: int, rng: np.random.Generator) -> Means:
    directions = _principal_directions(points, num_local)
    projected = points @ directions
    cores = _core_means(projected, _seeds(projected, num_local, rng, num_trials=1))
    return lloyd_steps(points, cores @ directions.T, _MAX_STEPS)

  return _from_scratch(local_means, num_clusters, min_count)


def online_updates(means: np.ndarray, counts: np.ndarray, points: np.ndarray) -> Means:
  """Moves the nearest mean C of n points to (C n + x) / (n + 1), point after point.

  Args:
    means: Of shape (K, d), with counts (K,).
    points: In the order of their arrival.
  """
  means, counts = means.copy(), counts.copy()
  for point in points:
    nearest = ((means - point) ** 2).sum(axis=1).argmin()
    counts[nearest] += 1
    # Written like this, rounding does not add up: a mean at the point stays there.
    means[nearest] += (point - means[nearest]) / counts[nearest]
  return means, counts


def child_means(num_clusters: int, min_count: int) -> Work:
  """Returns the child server's part of child/parent.

  A client clusters three quarters of its points.  The rest then arrive one by one, and
  each moves the nearest centroid to the mean of it and the points before.  The points
  that arrive are the first quarter, as in the source.
  """

  def local_means(points: np.ndarray, num_local: int, rng: np.random.Generator) -> Means:
    num_arriving = len(points) // _ARRIVING_SHARE
    found = best_of_tries(points[num_arriving:], num_local, _MAX_STEPS, rng)
    return online_updates(*found, points[:num_arriving])

  return _from_scratch(local_means, num_clusters, min_count)


def _are_rows(points: np.ndarray, means: np.ndarray) -> np.ndarray:
  """Returns which of the means (k, d) equal one of the points up to rounding; booleans (k,)."""
  found, num_columns = np.zeros(len(means), bool), points.shape[1]
  for block in _blocks(points):
    # Whoever is equal is within this distance.  Few others are; these are compared by column.
    within = (_SAME**2 + 8 * num_columns * _EPSILON) * ((block**2).sum(axis=1) + num_columns)
    rows, of = np.nonzero(squared_distances(block, means) <= within[:, np.newaxis])
    apart = np.abs(block[rows] - means[of])
    equal = (apart <= _SAME * np.maximum(np.abs(block[rows]), 1.0)).all(axis=1)
    found[of[equal]] = True
  return found


def released_means(
    points: np.ndarray, means: np.ndarray, counts: np.ndarray, min_count: int
) -> Means:
  """Returns the means (k, d) of points (n, d) and counts (k,) that may leave the client.

  Those of fewer than `min_count` points may not, nor those that equal a row, as the mean of
  identical rows does.
  """
  means, counts = means[counts >= min_count], counts[counts >= min_count]
  leaves = ~_are_rows(points, means)
  return means[leaves], counts[leaves]
