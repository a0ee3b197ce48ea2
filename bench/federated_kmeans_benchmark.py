"""Times federated k-means against scikit-learn's on the pooled points.

  bazel run bench:federated_kmeans_benchmark

The peer is `KMeans(n_init=10)` on all points at one place.  Ours is the default in TFF with
all that it needs: files, messages, rounds for scale and scores.  The benchmark compares wall
time and the processor time of all processes.  Computations are built beforehand, because
every fit but the first of its shape finds them built.  Contestants take turns within a
process, and several processes are launched.  The benchmark prints the median over
launches of a launch's median, with the lowest and the highest launch.  Run it on a quiet
machine.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import statistics
from typing import Any, Callable

from absl import flags
import numpy as np
import psutil
from sklearn import cluster

from bench import harness
from experiment_shell import lazy_module

cells = lazy_module.LazyModule("experiments.kmeans.cells")
kmeans_lib = lazy_module.LazyModule("fl_clustering.kmeans")
runtime = lazy_module.LazyModule("fl_clustering.runtime")

_REPETITIONS = flags.DEFINE_integer(
    "repetitions", 3, "Turns of every contestant in a process.", lower_bound=1)
_NUM_POINTS = flags.DEFINE_integer(
    "num_points", 100_000, "Points of all clients together.", lower_bound=1000)
_NUM_COLUMNS = flags.DEFINE_integer("num_columns", 64, "Columns.", lower_bound=1)
_NUM_CLUSTERS = flags.DEFINE_integer("num_clusters", 16, "Clusters.", lower_bound=1)
_NUM_CLIENTS = flags.DEFINE_integer("num_clients", 5, "Clients.", lower_bound=1)
_NOISE = flags.DEFINE_float(
    "noise", 1.0, "Standard deviation around the centers, whose own is 1.", lower_bound=0)

_ALPHA = 0.5
_PEER_RESTARTS = 10


def _draw(rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  """Returns all points, and the clients' by client id; clients differ in their clusters."""
  num_clusters, num_points = _NUM_CLUSTERS.value, _NUM_POINTS.value
  centers = rng.standard_normal((num_clusters, _NUM_COLUMNS.value))
  clusters = rng.integers(num_clusters, size=num_points)
  noise = rng.standard_normal((num_points, _NUM_COLUMNS.value))
  points = centers[clusters] + _NOISE.value * noise
  shares = np.cumsum(rng.dirichlet(np.full(_NUM_CLIENTS.value, _ALPHA), num_clusters), axis=1)
  owners = (rng.random(num_points)[:, np.newaxis] > shares[clusters, :-1]).sum(axis=1)
  return points, {str(owner): points[owners == owner] for owner in np.unique(owners)}


def _processor_seconds() -> float:
  """Returns the processor time of this process and its children, which live on."""
  me = psutil.Process()
  times = [process.cpu_times() for process in (me, *me.children())]
  return sum(one.user + one.system for one in times)


def _timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
  """Returns wall seconds, processor seconds, and what the call returned."""
  before = _processor_seconds()
  wall, result = harness.timed(call)
  return wall, _processor_seconds() - before, result


def _measure() -> dict[str, float]:
  """Returns the medians of one process."""
  points, clients = _draw(np.random.default_rng(0))
  num_clusters = _NUM_CLUSTERS.value

  def central(seed: int) -> float:
    kmeans = cluster.KMeans(num_clusters, n_init=_PEER_RESTARTS, random_state=seed)
    return kmeans.fit(points).inertia_

  def federated(seed: int) -> float:
    return kmeans_lib.FederatedKMeans(num_clusters, random_state=seed).fit(clients).inertia_

  with runtime.LocalRuntime():
    # Builds the computations.
    kmeans_lib.FederatedKMeans(num_clusters).fit(
        {client_id: own[:100] for client_id, own in clients.items()}
    )
    dispatch = cells.measure_dispatch()["seconds_per_round"]
    rows = []
    for seed in range(_REPETITIONS.value):
      peer, ours = _timed(lambda: central(seed)), _timed(lambda: federated(seed))
      rows.append((peer[0], ours[0], ours[0] / peer[0], ours[1] / peer[1], ours[2] / peer[2]))
  names = ("peer", "ours", "wall_ratio", "processor_ratio", "inertia_ratio")
  medians = dict(zip(names, map(statistics.median, zip(*rows))))
  return {**medians, "dispatch": dispatch}


def _print_results(runs: list[dict[str, float]]) -> None:
  print(f"{_NUM_POINTS.value:,} x {_NUM_COLUMNS.value}, K = {_NUM_CLUSTERS.value}, "
        f"{_NUM_CLIENTS.value} clients, {len(runs)} launches")
  for name, label, digits in (
      ("peer", "scikit-learn on pooled points, n_init=10, s", 2),
      ("ours", "the default in TFF, s", 2),
      ("wall_ratio", "ours / peer, wall time", 2),
      ("processor_ratio", "ours / peer, processor time", 2),
      ("inertia_ratio", "ours / peer, inertia", 4),
      ("dispatch", "a round of five tiny clients, s", 4),
  ):
    print(f"{label:44} {harness.shown([run[name] for run in runs], digits)}")


def main() -> None:
  harness.run(_measure, _print_results)


if __name__ == "__main__":
  launch.run(main)
