"""Times private clustering against Google's way, node by node, as ratios in one run.

  bazel run bench:dp_clustering_benchmark

The peer is `lsh_tree_reference`: Google's algorithm written the plain way, with
noise calibrated by numerical composition (PLD).  Contestants take turns.  The benchmark
prints medians and the ratio of medians.  Both sides use the same threads.  Run it on a
quiet machine.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import functools
import math
import os
from typing import Any, Callable

from absl import flags
import dp_accounting
import numpy as np

from bench import harness
from bench import lsh_tree_reference
from dp_clustering import clustering_params
from dp_clustering import coreset
from dp_clustering import ledger as ledger_lib
from dp_clustering import lsh_tree
from dp_clustering import metrics
from dp_clustering import noise
from dp_clustering import privacy_calculator
from dp_clustering import private_methods
from dp_clustering import private_sums
from dp_clustering.demo import data_generation
from experiment_shell import child_process

_REPETITIONS = flags.DEFINE_integer(
    "repetitions", 3, "Turns of every contestant.", lower_bound=1)
_MEMORY_OF = flags.DEFINE_enum(
    "memory_of", None, ["refine", "lsh"],
    "Internal: print the memory that this method takes, in megabytes, and end.")

_K = 64
_RADIUS = 1.0
_BUDGET = clustering_params.DifferentialPrivacyParam(1.0, 1e-6)
_DEPTH = lsh_tree.DEFAULT_MAX_DEPTH
_SEED = 1
# One eighth of what the public peer took at 1,000,000 x 100.
_MEMORY_LIMIT = 14_400 / 8
_METHODS = private_methods.METHODS


def _data(num_points: int, dim: int) -> clustering_params.Data:
  return data_generation.generate_synthetic_dataset(
      num_points=num_points, dim=dim, num_clusters=_K, cluster_ratio=8.0, radius=_RADIUS,
      rng=np.random.default_rng(_SEED),
  )


def _seconds(contestants: dict[str, Callable[[], Any]]) -> dict[str, float]:
  return harness.take_turns(contestants, _REPETITIONS.value, warm_up=False)[0]


def _print(what: str, peer: float, **ours: float) -> None:
  for name, seconds in ours.items():
    print(f"{what + ', ' + name:52} {peer:9.3f} {seconds:9.4f} {peer / seconds:8.1f}")


def _hyperplanes(dim: int) -> np.ndarray:
  return np.random.default_rng(_SEED).normal(size=(_DEPTH, dim))


def _tree_param(data: clustering_params.Data) -> clustering_params.TreeParam:
  return lsh_tree.default_tree_param(
      _K, data.dim, data.num_points, _our_noise().sum_noise_multiplier
  )


def _our_coreset(data: clustering_params.Data) -> coreset.Coreset:
  source = noise.NoNoise()
  sums = private_sums.PrivateSums(
      data.datapoints, _RADIUS, source, ledger_lib.Ledger(math.inf, 1e-6, source)
  )
  return coreset.private_lsh_coreset(
      sums, _K, _tree_param(data), privacy_calculator.LshNoise(0.0, 0.0),
      np.random.default_rng(_SEED),
  )


def _peer_coreset(data: clustering_params.Data) -> tuple[np.ndarray, np.ndarray]:
  return lsh_tree_reference.coreset(
      data.datapoints, _RADIUS, _hyperplanes(data.dim), _tree_param(data),
      data.num_points, lambda count: count, lambda sums: sums,
  )


def _compare_trees(num_points: int, dim: int) -> None:
  data = _data(num_points, dim)
  ours, peer = _our_coreset(data), _peer_coreset(data)
  if sorted(ours.weights) != sorted(peer[1]):
    raise launch.RunFailed("the coresets of both sides differ.")
  seconds = _seconds({
      "peer": lambda: _peer_coreset(data), "ours": lambda: _our_coreset(data)
  })
  _print(f"tree and coreset, no noise, {num_points:,} x {dim}", seconds["peer"],
         ours=seconds["ours"])
  draws = len(ours.weights) * (dim + 2 * _DEPTH)
  secure = _seconds({"noise": lambda: noise.SecureNoise().discrete_gaussian(draws, 1e8)})
  print(f"  secure noise apart: at most {draws:,} draws, {secure['noise']:.2f} s")


def _compare_labels(data: clustering_params.Data) -> None:
  centers = data.datapoints[:: data.num_points // _K][:_K]
  seconds = _seconds({
      "peer": lambda: lsh_tree_reference.labels_and_loss(data.datapoints, centers),
      "ours": lambda: metrics.nonprivate_labels_and_loss(
          data.datapoints, centers, _RADIUS),
  })
  _print(f"labels and loss, {data.num_points:,} x {data.dim}", seconds["peer"],
         ours=seconds["ours"])


def _peer_noise() -> float:
  """Calibrates as the source: a Gaussian and a Laplace count per level, by PLDs."""
  def event(alpha: float) -> dp_accounting.DpEvent:
    return dp_accounting.ComposedDpEvent([
        dp_accounting.GaussianDpEvent(alpha),
        dp_accounting.SelfComposedDpEvent(
            dp_accounting.LaplaceDpEvent(20 * alpha), _DEPTH + 1),
    ])

  return dp_accounting.calibrate_dp_mechanism(
      dp_accounting.pld.PLDAccountant, event, _BUDGET.epsilon, _BUDGET.delta,
      dp_accounting.LowerEndpointAndGuess(0.0, 1.0), tol=1e-3,
  )


def _our_noise() -> privacy_calculator.LshNoise:
  return privacy_calculator.lsh_noise(_BUDGET, None, None, _DEPTH)


def _compare_calibration() -> None:
  seconds = _seconds({"peer": _peer_noise, "ours": _our_noise})
  _print("calibration", seconds["peer"], ours=seconds["ours"])


def _peer_call(data: clustering_params.Data) -> tuple[np.ndarray, float]:
  """Clusters as Google's code does: calibrate, tree, coreset, k-means, labels, loss."""
  alpha = _peer_noise()
  rng = np.random.default_rng(_SEED)
  points, weights = lsh_tree_reference.coreset(
      data.datapoints, _RADIUS, _hyperplanes(data.dim), _tree_param(data),
      data.num_points, lambda count: count + rng.laplace(0.0, 20 * alpha),
      lambda sums: sums + rng.normal(0.0, alpha * _RADIUS, sums.shape),
  )
  k = min(_K, len(points))
  centers = coreset.fit_coreset(points, weights, k, rng)
  return lsh_tree_reference.labels_and_loss(data.datapoints, centers)


def _compare_calls(data: clustering_params.Data) -> None:
  ours = {
      f"{method}, {'seeded' if seed else 'secure'} noise": functools.partial(
          call, _K, data, _BUDGET, random_state=seed)
      for method, call in _METHODS.items() for seed in (_SEED, None)
  }
  seconds = _seconds({"peer": lambda: _peer_call(data), **ours})
  peer = seconds.pop("peer")
  _print(f"whole call, {data.num_points:,} x {data.dim}", peer, **seconds)


def _memory(method: str) -> float:
  """Returns the largest memory that a call takes beyond its data, in megabytes."""
  data = _data(1_000_000, 100)
  _METHODS[method](2, _data(1_000, 100), _BUDGET)  # What is imported late.
  child_process.forget_peak(os.getpid())
  before = child_process.peak_megabytes(os.getpid())
  _METHODS[method](_K, data, _BUDGET)
  return child_process.peak_megabytes(os.getpid()) - before


def _compare_memory() -> None:
  for method in _METHODS:
    megabytes = harness.launched(f"--memory_of={method}")
    print(f"memory beyond the data, 1,000,000 x 100, {method}: {megabytes:,.0f} MB, "
          f"{megabytes / _MEMORY_LIMIT:.2f} of the limit")


def main() -> None:
  if _MEMORY_OF.value:
    harness.answer(_memory(_MEMORY_OF.value))
    return
  print(f"k = {_K}, epsilon = 1, {len(os.sched_getaffinity(0))} cores, medians of "
        f"{_REPETITIONS.value}")
  print(f"{'':52}    peer s    ours s    ratio")
  for num_points, dim in ((100_000, 100), (1_000_000, 16)):
    _compare_trees(num_points, dim)
  data = _data(100_000, 100)
  _compare_labels(data)
  _compare_calibration()
  _compare_calls(data)
  _compare_memory()


if __name__ == "__main__":
  launch.run(main)
