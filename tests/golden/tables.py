"""Small tables of numbers that the programs leave, and the runs that make them.

They guard the numbers while the code around them changes.  A change that means to change numbers
makes the tables anew:

  bazel run tests/golden:tables
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
from typing import Callable

import numpy as np
import pandas as pd

FOLDER = os.path.dirname(os.path.abspath(__file__))
_CLIENTS = ("east", "north", "south")


@dataclasses.dataclass(frozen=True)
class Golden:
  """A table of numbers, and the run that makes it.

  Attributes:
    program: The program's module and its flags; `{data}` stands for a folder of `_write_rows`.
    read: Makes the table of the run's folder: keys in the index, numbers in the columns.
    rtol: How far a number may be from the one in the file, relative to that one.
    atol: How far it may be beside that. Another processor's rounding may turn the class of an
      example, or decide between two splits that are nearly as good.
  """

  program: str
  read: Callable[[str], pd.DataFrame]
  rtol: float
  atol: float = 0.0


def _columns(name: str, keys: list[str], values: list[str]) -> Callable[[str], pd.DataFrame]:
  """Returns what reads some columns of a run's table."""
  return lambda run: pd.read_csv(os.path.join(run, name)).set_index(keys)[values]


def _tidy(keys: list[str], *metrics: str) -> Callable[[str], pd.DataFrame]:
  """Returns what reads metrics of a run's tidy table."""

  def read(run: str) -> pd.DataFrame:
    rows = pd.read_csv(os.path.join(run, "results.csv"))
    found = rows.pivot(index=keys, columns="metric", values="value")[list(metrics)]
    return found.reindex(pd.MultiIndex.from_frame(rows[keys].drop_duplicates()))

  return read


def _clusters(run: str) -> pd.DataFrame:
  """Returns the scores of private clusters; what has no budget has no epsilon."""
  keys = ["method", "epsilon"]
  scores = ("adjusted_rand_index", "accuracy", "finetuned_accuracy", "relative_noise")
  found = _tidy(keys, *scores)(run).reset_index()
  return found.replace({"epsilon": {np.inf: np.nan}}).set_index(keys)


def _methods(run: str) -> pd.DataFrame:
  """Returns the means over the clients of every method's scores."""
  keys, scores = ["phase", "method"], ["accuracy", "recall", "precision"]
  rows = pd.read_csv(os.path.join(run, "clients.csv"))
  means = rows.groupby([*keys, "metric"])["value"].mean().unstack("metric")[scores]
  return means.reindex(pd.MultiIndex.from_frame(rows[keys].drop_duplicates()))


def _views(run: str) -> pd.DataFrame:
  """Returns the agreement with the classes, and the last objective of what has one."""
  rows = pd.read_csv(os.path.join(run, "results.csv"))
  keys = ["dataset", "partition", "method", "view"]
  order = pd.MultiIndex.from_frame(rows[keys].drop_duplicates())
  wide = rows.pivot(index=keys, columns="metric", values="value").rename_axis(columns=None)
  return wide.reindex(order)[["nmi", "ari", "objective"]]


_THREE_PHASES = (
    "experiments.three_phase_emnist --dataset=digits --num_clients=10 --partition=dirichlet "
    "--dirichlet_alpha=0.3 --model=mlp --pretrain_rounds=2 --cluster_rounds=2 --num_clusters=3 "
    "--methods=kmeans,dynamic_distance,ifca --ifca_start=perturbed "
    "--personal=ditto,fedrep,apfl,mr_mtl --control_repeats=0"
)
_SCORES = ["accuracy", "recall", "client_steps", "bytes_down", "bytes_up"]

GOLDEN = {
    # Without the repeats of FedAvg, which give intervals and change no score.
    "first_run": Golden(
        "experiments.three_phase_emnist --control_repeats=0", _methods, rtol=0, atol=0.03
    ),
    "three_phases": Golden(_THREE_PHASES, _methods, rtol=0, atol=0.01),
    "study": Golden(
        "experiments.study --num_clients=6 --pretrain_rounds=1 --cluster_rounds=1 "
        "--model=logistic --methods=kmeans,ifca --num_clusters=2 --settings=rotated,shards "
        "--num_seeds=2 --jobs=1",
        _tidy(["setting", "seed", "method"], *_SCORES),
        rtol=0, atol=0.01,
    ),
    "kmeans": Golden(
        "experiments.federated_kmeans --figure=extreme,sse --seeds=1",
        _tidy(
            ["data", "method"], "ari", "inertia", "simplified_silhouette", "rounds", "bytes_up"
        ),
        rtol=1e-6,
    ),
    "kmeans_own_rows": Golden(
        "experiments.federated_kmeans --data_dir={data} --num_clusters=3 --standardize",
        _columns("centroids.csv", ["cluster"], ["x", "y", "z"]),
        rtol=1e-9,
    ),
    "multi_view": Golden(
        "experiments.multi_view --datasets=digits,simulated_dha --seeds=1 --n_init=1", _views,
        rtol=1e-3, atol=0.01,
    ),
    "private_kmeans": Golden(
        "experiments.dp_benchmark --datasets=sklearn_digits,synthetic --runs=1 --k_to_try=4,8 "
        "--epsilon_to_try=1 --fixed_k=4 --methods=sklearn,lsh,refine,refine_server,refine_none",
        _tidy(["dataset", "method", "k", "epsilon"], "loss"),
        rtol=1e-6,
    ),
    "private_clusters": Golden(
        "experiments.private_clusters --dataset=digits --num_clients=12 --rounds=4 "
        "--partition=permuted_labels --num_groups=2 --num_clusters=2 --image_size=7 "
        "--examples_per_client=20 --epsilon=500",
        _clusters, rtol=1e-6, atol=0.01,
    ),
}


def _write_rows(folder: str) -> None:
  """Writes a CSV file of 50 rows per client: three groups in columns of different size."""
  rng = np.random.default_rng(0)
  for client in _CLIENTS:
    groups = rng.integers(3, size=(50, 1)) * np.array([3.0, 200.0, 0.0])
    rows = groups + np.array([1.0, 50.0, 1e-3]) * rng.standard_normal((50, 3))
    pd.DataFrame(rows, columns=["x", "y", "z"]).to_csv(f"{folder}/{client}.csv", index=False)


def made(name: str) -> pd.DataFrame:
  """Runs a program in a process of its own; returns its table."""
  golden = GOLDEN[name]
  with tempfile.TemporaryDirectory() as folder:
    data, run = os.path.join(folder, "data"), os.path.join(folder, "run")
    os.mkdir(data)
    _write_rows(data)
    words = (word.format(data=data) for word in golden.program.split())
    subprocess.run(
        [sys.executable, "-m", *words, f"--output_dir={run}"], check=True,
        stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return golden.read(run)


if __name__ == "__main__":
  source = os.environ.get("BUILD_WORKSPACE_DIRECTORY", os.getcwd())
  for table in GOLDEN:
    made(table).to_csv(os.path.join(source, "tests", "golden", f"{table}.csv"))
