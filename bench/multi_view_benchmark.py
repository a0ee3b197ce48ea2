"""Times a round of federated multi-view k-means against the same arithmetic in NumPy.

  bazel run bench:multi_view_benchmark

The limit is one iteration over all points in NumPy, in the same float64 and with as
many threads as it likes.  TFF's fixed dispatch is the same round with clients that have
no points.  Contestants take turns within a process.  Several processes are launched,
because the same code differs more from launch to launch than from call to call.  The
benchmark prints the median over launches of a launch's median, with the lowest and the
highest launch.  Run it on a quiet machine.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import tempfile

from absl import flags
import numpy as np

from bench import harness
from dp_clustering import point_grid
from experiment_shell import lazy_module

secure_sums = lazy_module.LazyModule("fl_clustering.points.secure_sums")
point_files = lazy_module.LazyModule("fl_clustering.points.point_files")
runtime = lazy_module.LazyModule("fl_clustering.runtime")
server_step = lazy_module.LazyModule("fl_clustering.multiview.server_step")

_REPETITIONS = flags.DEFINE_integer(
    "repetitions", 15, "Turns of every contestant in a process, after a warm-up.",
    lower_bound=1)
_NUM_POINTS = flags.DEFINE_integer(
    "num_points", 2000, "Points of all clients together.", lower_bound=1)
_NUM_CLIENTS = flags.DEFINE_integer("num_clients", 5, "Clients.", lower_bound=1)

# Those of the UCI data "Multiple Features".
_WIDTHS = (216, 76, 64, 6, 240, 47)
_NUM_CLUSTERS = 10


def _iteration(
    points: np.ndarray, centers: np.ndarray, betas: np.ndarray, view_factors: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray], list[float]]:
  """Returns the sums of one iteration in NumPy."""
  splits = np.cumsum(_WIDTHS)[:-1]
  views = list(zip(np.split(points, splits, axis=1), np.split(centers, splits, axis=1)))
  kernels = [
      np.exp(-beta * np.maximum(
          (x * x).sum(axis=1)[:, None] - 2 * x @ a.T + (a * a).sum(axis=1), 0
      ))
      for beta, (x, a) in zip(betas, views)
  ]
  costs = sum(factor * (1 - kernel) for factor, kernel in zip(view_factors, kernels))
  members = np.eye(len(centers))[costs.argmin(axis=1)]
  weights = [members * kernel for kernel in kernels]
  sums = [w.T @ x for w, (x, _) in zip(weights, views)]
  return sums, [w.sum(axis=0) for w in weights], [(members - w).sum() for w in weights]


def _measure() -> dict[str, float]:
  """Returns the median seconds of every contestant."""
  num_columns = sum(_WIDTHS)
  rng = np.random.default_rng(0)
  steps = point_grid.POINT_STEPS / 100  # No point is as far as that.
  points = np.rint(rng.standard_normal((_NUM_POINTS.value, num_columns)) * steps)
  model = server_step.MultiViewModel(
      centers=points[:_NUM_CLUSTERS],
      view_weights=np.full(len(_WIDTHS), 1 / len(_WIDTHS)),
      alpha=2.0,
      rates=1 / np.array(_WIDTHS) / steps**2,
  )
  query = model.query(_WIDTHS)
  shares = {str(i): share for i, share in enumerate(np.array_split(points, _NUM_CLIENTS.value))}
  nothing = {client_id: points[:0] for client_id in shares}
  with runtime.LocalRuntime(), tempfile.TemporaryDirectory() as full, (
      tempfile.TemporaryDirectory()
  ) as empty:
    all_points, no_points = (
        secure_sums.FederatedPoints(point_files.write_files(*where), _NUM_CLUSTERS)
        for where in ((shares, full), (nothing, empty))
    )
    contestants = {
        "NumPy": lambda: _iteration(points, model.centers, model.rates, model.view_factors),
        "dispatch": lambda: no_points.totals(query),
        "round": lambda: all_points.totals(query),
    }
    return harness.take_turns(contestants, _REPETITIONS.value)[0]


def _print_results(runs: list[dict[str, float]]) -> None:
  print(f"{_NUM_POINTS.value:,} points, {len(_WIDTHS)} views, {sum(_WIDTHS)} columns, "
        f"{_NUM_CLIENTS.value} clients, {len(runs)} launches; milliseconds")
  for name, label in (
      ("NumPy", "an iteration in NumPy"),
      ("dispatch", "a round without points: TFF's dispatch"),
      ("round", "a round"),
  ):
    print(f"{label:40} {harness.shown([1e3 * run[name] for run in runs], 1)}")
  ratios = [(run["round"] - run["dispatch"]) / run["NumPy"] for run in runs]
  print(f"{'(round - dispatch) / NumPy':40} {harness.shown(ratios, 2)}")


def main() -> None:
  harness.run(_measure, _print_results)


if __name__ == "__main__":
  launch.run(main)
