"""Private clustering of synthetic data: loss and quality for several k and epsilons.

  bazel run dp_clustering/demo:clustering_demo -- --k_to_try=2,8,32 --output_dir=out

The centers are private.  Loss and quality are not: the demo computes them exactly.
"""

from experiment_shell import launch  # First, for Ctrl-C while the others are imported.

import math
from typing import Any, Callable, Mapping, Sequence
import warnings

from absl import flags
import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering.demo import data_generation
from dp_clustering import private_methods
from experiment_shell import experiment
from experiment_shell import output_folder
from experiment_shell import run_flags
from experiment_shell import study

flags.adopt_module_key_flags(run_flags)
flags.DEFINE_integer("num_points", 100_000, "Number of points of the data set.")
flags.DEFINE_integer("dim", 100, "Number of coordinates of a point.")
flags.DEFINE_integer("num_clusters", 64, "Number of true clusters, which are Gaussians.")
flags.DEFINE_float(
    "cluster_ratio", 8.0,
    "Ratio of the data's radius to a point's typical distance from its cluster's center.")
flags.DEFINE_float("radius", 1.0, "Radius of the ball that contains all points.")
flags.DEFINE_float("fixed_epsilon", 1.0, "The epsilon for --k_to_try.")
flags.DEFINE_list("k_to_try", "2,4,8,16,32,64", "Comma-separated values of k.")
flags.DEFINE_integer("fixed_k", 64, "The k for --epsilon_to_try.")
flags.DEFINE_list(
    "epsilon_to_try", "0.0625,0.125,0.25,0.5,1,2,4",
    "Comma-separated values of epsilon; `inf` means no noise.")
flags.DEFINE_enum(
    "method", "refine", list(private_methods.METHODS),
    "`refine`: splits and refines centers; `lsh`: k-means over the leaves of a tree of "
    "hashes.")
flags.DEFINE_integer(
    "seed", None,
    "Seed of the data and the clustering, which is then repeatable and NOT private. "
    "Default: seed 0 for the data, and secure noise.")

_DELTA = 1e-6
_PROGRAM = "clustering_demo"
_RESULTS = "results.csv"
_FIGURES = {"k": "loss_over_k.png", "epsilon": "loss_over_epsilon.png"}
_SETTINGS = (
    "num_points", "dim", "num_clusters", "cluster_ratio", "radius", "fixed_epsilon", "k_to_try",
    "fixed_k", "epsilon_to_try", "method", "seed",
)
_VERSIONS_OF = ("numpy", "scikit-learn", "scipy")
# Name of the value, heading of its column, format.
_COLUMNS = (
    ("k", "k", "d"),
    ("epsilon", "epsilon", "g"),
    ("loss", "loss", ".6g"),
    ("loss_per_point", "loss/point", ".5f"),
    ("dominant_label_accuracy", "dominant label accuracy", ".4f"),
    ("dominant_label_correct_count", "correct points", ",d"),
    ("false_match_frac", "false matches", ".4f"),
    ("true_nonmatch_frac", "true non-matches", ".4f"),
)


def _numbers(name: str, kind: Callable[[str], Any], rule: str) -> list[Any]:
  """Returns the numbers of a list flag, each once."""
  texts = getattr(flags.FLAGS, name)
  try:
    numbers = list(dict.fromkeys(map(kind, texts)))
  except ValueError:
    numbers = []
  if not numbers:
    raise validate.error(name, f"be a comma-separated list of {rule}", ",".join(texts))
  return numbers


def _cells() -> list[dict[str, Any]]:
  """Returns the cells to measure: first k varies, then epsilon."""
  fixed_k, fixed_epsilon = flags.FLAGS.fixed_k, flags.FLAGS.fixed_epsilon
  validate.integer(1, fixed_k=fixed_k)
  clustering_params.check_epsilon(fixed_epsilon=fixed_epsilon)
  cells = []
  for k in _numbers("k_to_try", int, "integers >= 1"):
    validate.integer(1, k_to_try=k)
    cells.append({"varies": "k", "k": k, "epsilon": fixed_epsilon})
  for epsilon in _numbers("epsilon_to_try", float, "numbers > 0"):
    clustering_params.check_epsilon(epsilon_to_try=epsilon)
    cells.append({"varies": "epsilon", "k": fixed_k, "epsilon": epsilon})
  return cells


def _config() -> dict[str, Any]:
  """Returns the settings as for JSON, which has no infinity."""
  values = {name: getattr(flags.FLAGS, name) for name in _SETTINGS}
  if values["fixed_epsilon"] == math.inf:
    values["fixed_epsilon"] = "inf"
  return {**values, "delta": _DELTA}


def _generate_data() -> clustering_params.Data:
  num_points, dim, seed = flags.FLAGS.num_points, flags.FLAGS.dim, flags.FLAGS.seed or 0
  validate.integer(0, seed=seed)
  try:
    return data_generation.generate_synthetic_dataset(
        num_points, dim, flags.FLAGS.num_clusters, flags.FLAGS.cluster_ratio,
        flags.FLAGS.radius, np.random.default_rng(seed),
    )
  except MemoryError as e:
    raise ValueError(f"`num_points` and `dim` must fit into memory, got {e}.") from e


def _describe_data() -> str:
  dim, ratio, radius = flags.FLAGS.dim, flags.FLAGS.cluster_ratio, flags.FLAGS.radius
  return (
      f"{flags.FLAGS.num_points:,} points in {dim} dimensions of "
      f"{flags.FLAGS.num_clusters} Gaussians with standard deviation "
      f"{data_generation.cluster_std(dim, ratio, radius):.4g}, centers uniform in a ball of "
      f"radius {data_generation.center_radius(ratio, radius):.4g}, clipped to radius {radius:g}"
  )


def _loss_of_true_clusters(data: clustering_params.Data) -> float:
  """Returns the loss per point with the means of the true clusters.  Not private."""
  assert data.labels is not None  # They are generated.
  loss = 0.0
  for label in np.unique(data.labels):
    members = data.datapoints[data.labels == label]
    loss += ((members - members.mean(axis=0)) ** 2).sum()
  return loss / data.num_points


def _measure(data: clustering_params.Data, k: int, epsilon: float) -> dict[str, Any]:
  """Returns loss and quality of one clustering."""
  with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # The table says what is not private.
    result = private_methods.METHODS[flags.FLAGS.method](
        k,
        data,
        clustering_params.DifferentialPrivacyParam(epsilon, _DELTA),
        random_state=flags.FLAGS.seed,
    )
  assert result.loss is not None and result.ledger is not None
  metrics = result.get_clustering_metrics()
  return {
      "loss": result.loss,
      "loss_per_point": result.loss / data.num_points,
      "dominant_label_correct_count": metrics.dominant_label_correct_count,
      "dominant_label_accuracy": metrics.dominant_label_accuracy,
      "false_match_frac": metrics.false_match_frac,
      "true_nonmatch_frac": metrics.true_nonmatch_frac,
      "noise": result.ledger.noise_source,
  }


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
  print("  ".join(f"{heading:>10}" for _, heading, _ in _COLUMNS))
  for row in rows:
    print("  ".join(
        f"{row[name]:>{max(10, len(heading))}{form}}" for name, heading, form in _COLUMNS
    ))


def _fixed(varies: str) -> str:
  """Returns what is the same in all rows of a sweep, in words."""
  fixed_epsilon = f"epsilon = {flags.FLAGS.fixed_epsilon:g}"
  fixed = fixed_epsilon if varies == "k" else f"k = {flags.FLAGS.fixed_k}"
  return f"{fixed}, delta = {_DELTA:g}, method {flags.FLAGS.method}"


def _write_figures(
    folder: output_folder.OutputFolder, sweeps: Mapping[str, list[dict[str, Any]]], true_loss: float
) -> None:
  # Imported late: matplotlib takes half a second, and bad flags should fail at once.
  # pylint: disable=g-import-not-at-top
  from dp_clustering.demo import sweep_figures
  from experiment_shell import figure_style
  # pylint: enable=g-import-not-at-top

  with figure_style.style():
    for varies, rows in sweeps.items():
      figure = sweep_figures.sweep_figure(
          rows, varies, true_loss, _describe_data(), _fixed(varies)
      )
      figure_style.save(figure, folder.join(_FIGURES[varies]))


def _run(
    folder: output_folder.OutputFolder, results: study.Study, cells: list[dict[str, Any]],
    data: clustering_params.Data,
) -> None:
  results.run(cells, lambda varies, k, epsilon: _measure(data, k, epsilon))
  true_loss = _loss_of_true_clusters(data)
  sweeps = {
      varies: [row for row in results.rows if row["varies"] == varies] for varies in _FIGURES
  }
  for varies, rows in sweeps.items():
    print(f"\n{varies} varies, {_fixed(varies)}; loss/point of the true clusters "
          f"{true_loss:.5f}")
    _print_table(rows)
  _write_figures(folder, sweeps, true_loss)
  for noise in dict.fromkeys(row["noise"] for row in results.rows):
    print(f"\nnoise {noise}")
  print(
      "The centers are what is released.  Loss, accuracy and matches are not private.\n"
      "figures: " + ", ".join(folder.join(name) for name in _FIGURES.values())
  )


def main() -> None:
  with launch.input_errors():
    cells, config = _cells(), _config()
    folder = output_folder.OutputFolder(
        run_flags.output_dir(_PROGRAM),
        flags.FLAGS.resume,
        flags.FLAGS.overwrite,
        files=(_RESULTS, *_FIGURES.values()),
    )
    folder.check_same_config(config)
    data = _generate_data()
    folder.start({"config": config, "versions": experiment.versions(_VERSIONS_OF)})
    results = study.Study(
        folder, _RESULTS, ("varies", "k", "epsilon"),
        (*(name for name, _, _ in _COLUMNS[2:]), "noise"),
    )
  print(f"data: {_describe_data()}\nresults: {folder.path}")
  with launch.run_errors(folder.path):
    _run(folder, results, cells, data)


if __name__ == "__main__":
  launch.run(main)
