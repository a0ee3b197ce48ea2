"""How near k-means from sums alone comes to scikit-learn's, on data that are hard for it.

  bazel run bench:sums_kmeans_benchmark -- --seeds=20

The peer is `KMeans(n_init=10)` on the points, in one thread.  The sums are those of points
at one place: the sums of a federation of the same points are the same to the last bit.  Both
inertias are computed from the centers, on the points before they are put on the grid.  One
line per family of data tells the mean and the largest ratio of the inertias, how many of the
runs exceed the gate, and the rounds and the time.  If a run exceeds the gate, the program ends
with code 1.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import math
from typing import Callable, NamedTuple

from absl import flags
import numpy as np
from sklearn import metrics

from bench import harness
from bench import kmeans_families
from clustering_basics import single_thread_kmeans
from clustering_basics import validate
from dp_clustering import point_grid
from dp_clustering import private_sums
from dp_clustering import sum_query
from fl_clustering.kmeans import split_and_swap
from fl_clustering.kmeans import sum_kinds

_SEEDS = flags.DEFINE_integer("seeds", 20, "Runs per family, of other draws.", lower_bound=1)
_FAMILIES = flags.DEFINE_list(
    "families", [], "Families whose names start with one of these; all by default.")
_GATE = flags.DEFINE_float("gate", 1.01, "The largest ratio of the inertias that passes.")

_PEER_RESTARTS = 10
# Inertias below this part of that about the mean count as zero.
_FLOOR = 1e-14


def _inertia(points: np.ndarray, centers: np.ndarray) -> float:
  """Returns the inertia of centers, from differences and not from products."""
  nearest = metrics.pairwise_distances_argmin(points, centers)
  return float(((points - centers[nearest]) ** 2).sum())


def _fit(points: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, int]:
  """Returns the centers from sums, and the number of rounds."""
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


class _Run(NamedTuple):
  """One run of a family: what a line of the table summarizes."""

  ratio: float
  rounds: int
  seconds: float
  peer_seconds: float


def _run(draw: Callable[[np.random.Generator], tuple[np.ndarray, int]], seed: int) -> _Run:
  points, k = draw(np.random.default_rng(seed))
  our_time, (centers, num_rounds) = harness.timed(lambda: _fit(points, k, seed))
  peer_time, peer = harness.timed(lambda: single_thread_kmeans.fit(
      points, k, n_init=_PEER_RESTARTS, random_state=seed))
  # With as many clusters as different rows, both are zero up to rounding and the grid.
  floor = _FLOOR * _inertia(points, points.mean(axis=0, keepdims=True))
  best = max(_inertia(points, peer.cluster_centers_), floor)
  return _Run(max(_inertia(points, centers), floor) / best, num_rounds, our_time, peer_time)


def main() -> None:
  prefixes = tuple(_FAMILIES.value) or ("",)
  with launch.input_errors():
    for prefix in prefixes:
      if not any(name.startswith(prefix) for name in kmeans_families.DRAWS):
        raise validate.error("families", "be beginnings of families' names", prefix)
  chosen = {
      name: draw for name, draw in kmeans_families.DRAWS.items() if name.startswith(prefixes)
  }
  print(f"{'':30} {'mean':>8} {'worst':>8} {'above':>7} {'rounds':>12} {'s':>7} {'peer, s':>7}")
  exceeding = []
  for name, draw in chosen.items():
    runs = np.array([_run(draw, seed) for seed in range(_SEEDS.value)])
    ratios, rounds, ours, peers = runs.T
    num_above = np.count_nonzero(ratios > _GATE.value)
    if num_above:
      exceeding.append(name)
    above = f"{num_above}/{len(ratios)}"
    shown_rounds = f"{rounds.mean():.1f} (<= {rounds.max():.0f})"
    print(f"{name:30} {ratios.mean():8.4f} {ratios.max():8.4f} {above:>7} {shown_rounds:>12} "
          f"{ours.mean():7.3f} {peers.mean():7.3f}", flush=True)
  if exceeding:
    raise launch.RunFailed(f"more inertia than the gate allows: {'; '.join(exceeding)}.")


if __name__ == "__main__":
  launch.run(main)
