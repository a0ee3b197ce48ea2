"""Small tables of numbers that the experiments measure, and what is measured for them.

They guard the numbers while the code around them changes.  A change that means to change numbers
makes the tables anew:

  bazel run tests/golden:tables
"""

import dataclasses
import math
import os
import tempfile
from typing import Any, Callable, Sequence

import numpy as np
import pandas as pd

from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiments.cluster_tables import config as tables_config
from experiments.cluster_tables import experiment as cluster_tables
from experiments.dp_benchmark import benchmark
from experiments.dp_benchmark import config as private_config
from experiments.federated_kmeans import config as kmeans_config
from experiments.federated_kmeans import papers
from experiments.multi_view import comparison
from experiments.multi_view import config as multiview_config
from experiments.private_clusters import config as clusters_config
from experiments.private_clusters import simulation
from experiments.study import cells as study
from experiments.study import config as study_config
from experiments.three_phase_emnist import experiment as three_phase
from experiments.three_phase_emnist import flags as three_phase_flags
from fl_clustering.tables import schema as schema_lib
from fl_clustering.three_phase import config as config_lib

FOLDER = os.path.dirname(os.path.abspath(__file__))


@dataclasses.dataclass(frozen=True)
class Golden:
  """A table of numbers.

  Attributes:
    measure: Makes the table, with keys in the index; the folder, which is empty, is for files.
    rtol: How far a number may be from the one in the file, relative to that one.
    atol: How far it may be beside that. Another processor's rounding may turn the class of an
      example, or decide between two splits that are nearly as good.
  """

  measure: Callable[[str], pd.DataFrame]
  rtol: float
  atol: float = 0.0


def _run(
    experiment: tidy_experiment.Experiment, config: Any, folder: str,
    is_chosen: Callable[..., bool] = lambda **cell: True, **options: Any,
) -> pd.DataFrame:
  """Measures those of an experiment's cells that are chosen; returns its table of results."""
  cells = lambda *arguments: [one for one in experiment.cells(*arguments) if is_chosen(**one)]
  return tidy_experiment.run(
      dataclasses.replace(experiment, cells=cells), config, os.path.join(folder, "run"), **options
  )


def _wide(rows: pd.DataFrame, keys: list[str], metrics: Sequence[str]) -> pd.DataFrame:
  return frames.wide(rows, keys, metrics).set_index(keys)


def _methods(folder: str, **settings: Any) -> pd.DataFrame:
  """Returns the means over the clients of every method's scores after three phases on digits."""
  config = config_lib.ThreePhaseConfig(dataset="digits", control_repeats=0, **settings)
  _run(three_phase.EXPERIMENT, config, folder)
  rows = pd.read_csv(os.path.join(folder, "run", "clients.csv"))
  keys = ["phase", "method", "metric"]
  means = rows.groupby(keys, sort=False)["value"].mean().reset_index()
  return _wide(means, keys[:2], ["accuracy", "recall", "precision"])


def _three_phases(folder: str) -> pd.DataFrame:
  return _methods(
      folder, num_clients=6, partition="dirichlet", dirichlet_alpha=0.3, model="mlp",
      hidden_units="32", pretrain_rounds=2, cluster_rounds=2, num_clusters=2,
      methods=("kmeans", "dynamic_distance", "ifca"), ifca_start="perturbed",
      personal=("ditto", "fedrep", "apfl", "mr_mtl"),
  )


def _study(folder: str) -> pd.DataFrame:
  config = study_config.StudyConfig(
      config_lib.ThreePhaseConfig(
          dataset="digits", num_clients=5, pretrain_rounds=1, cluster_rounds=1, model="logistic",
          methods=("kmeans", "ifca"), num_clusters=2, control_repeats=0, personal=(),
      ), ("rotated",), num_seeds=1,
  )
  # A single cell is measured here, without a process of its own.
  inputs = study.EXPERIMENT.load
  experiment = dataclasses.replace(study.EXPERIMENT, load=lambda *arguments, **options: (
      dataclasses.replace(inputs(*arguments, **options), processes=None)
  ))
  return _wide(
      _run(experiment, config, folder, data_dir=None, num_cores=1), ["setting", "seed", "method"],
      ["accuracy", "recall", "steps", "bytes_down", "bytes_up"],
  )


def _kmeans(folder: str) -> pd.DataFrame:
  # Of methods that share their code, one.
  compared = {
      "extreme noise=1": {"central", "fkm_lloyd", "printed", "kfed", "tff_minibatch"},
      "table iris": {"child_parent", "best_one_round", "sums"},
  }
  return _wide(
      _run(
          papers.EXPERIMENT, kmeans_config.PaperConfig(("extreme", "sse"), num_seeds=1), folder,
          lambda data, method, **unused: method in compared.get(data, ()),
      ), ["data", "method"],
      ["ari", "inertia", "simplified_silhouette", "rounds", "bytes_up_per_client"],
  )


def _kmeans_own_rows(folder: str) -> pd.DataFrame:
  """Returns the centers of three groups in columns of different size, of 50 rows per client."""
  rng, data = np.random.default_rng(0), os.path.join(folder, "data")
  os.mkdir(data)
  for client in ("east", "north", "south"):
    groups = rng.integers(3, size=(50, 1)) * np.array([3.0, 200.0, 0.0])
    rows = groups + np.array([1.0, 50.0, 1e-3]) * rng.standard_normal((50, 3))
    pd.DataFrame(rows, columns=["x", "y", "z"]).to_csv(f"{data}/{client}.csv", index=False)
  schemas = {schema_lib.NO_VIEW: schema_lib.strict("xyz")}
  config = tables_config.Config(schemas, num_clusters=3, standardize=True)
  _run(cluster_tables.EXPERIMENT, config, folder, data_dir=data)
  return pd.read_csv(f"{folder}/run/centroids.csv").set_index("cluster")[["x", "y", "z"]]


def _multi_view(folder: str) -> pd.DataFrame:
  """Returns the agreement with the classes, and the last objective of what has one."""
  config = multiview_config.MultiViewStudyConfig(("digits",), num_seeds=1, n_init=1)
  # Of what shares its code, one: a view alone, a partition, a rule of learnt weights.
  is_chosen = lambda partition, method, view, **unused: (
      partition != "IID" and view in ("all", "pixels") and method not in ("central_equal", "regret")
  )
  return _wide(
      _run(comparison.EXPERIMENT, config, folder, is_chosen),
      ["dataset", "partition", "method", "view"], ["nmi", "ari", "objective"],
  )


def _private_kmeans(folder: str) -> pd.DataFrame:
  config = private_config.BenchmarkConfig(
      ("sklearn_digits",), ("sklearn", "lsh", "refine", "refine_server", "refine_none"),
      k_to_try=(4,), epsilon_to_try=(1.0,), fixed_k=4, runs=1,
  )
  return _wide(
      _run(benchmark.EXPERIMENT, config, folder), ["dataset", "method", "k", "epsilon"],
      ["loss_per_point"],
  )


def _private_clusters(folder: str) -> pd.DataFrame:
  """Returns the scores of private clusters; what has no budget has no epsilon."""
  config = clusters_config.PrivateClustersConfig(
      dataset="digits", num_clients=12, rounds=2, partition="permuted_labels", num_groups=2,
      num_clusters=2, image_size=7, examples_per_client=20, epsilon=(500.0,), num_seeds=1,
  )
  rows = _run(simulation.EXPERIMENT, config, folder, data_dir=None)
  scores = ["ari", "accuracy", "finetuned_accuracy", "planning_number"]
  found = _wide(rows, ["method", "epsilon"], scores).reset_index()
  return found.replace({"epsilon": {math.inf: np.nan}}).set_index(["method", "epsilon"])


GOLDEN = {
    "first_run": Golden(
        lambda folder: _methods(folder, **three_phase_flags.OF_DIGITS), rtol=0, atol=0.03
    ),
    "three_phases": Golden(_three_phases, rtol=0, atol=0.01),
    "study": Golden(_study, rtol=0, atol=0.01),
    "kmeans": Golden(_kmeans, rtol=1e-6),
    "kmeans_own_rows": Golden(_kmeans_own_rows, rtol=1e-9),
    "multi_view": Golden(_multi_view, rtol=1e-3, atol=0.01),
    "private_kmeans": Golden(_private_kmeans, rtol=1e-6),
    "private_clusters": Golden(_private_clusters, rtol=1e-6, atol=0.01),
}


def made(name: str) -> pd.DataFrame:
  with tempfile.TemporaryDirectory() as folder:
    return GOLDEN[name].measure(folder)


if __name__ == "__main__":
  source = os.environ.get("BUILD_WORKSPACE_DIRECTORY", os.getcwd())
  for table in GOLDEN:
    made(table).to_csv(os.path.join(source, "tests", "golden", f"{table}.csv"))
