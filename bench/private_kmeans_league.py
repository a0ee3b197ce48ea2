"""Private k-means against published losses: the area under the loss over epsilon.

  bazel run bench:private_kmeans_league -- --data_dir=uci --csv=league.csv

The contestants are both of our methods (`lsh` is Google's algorithm), IBM's diffprivlib,
scikit-learn without privacy, and what PE-means (2026, https://arxiv.org/abs/2606.00342) published
of itself and of Google's code in paper_tables.ipynb of https://github.com/t3humphries/PE-means,
commit e67d051.  The data sets, K, epsilon, delta and the measure are theirs: the mean loss per
point at each epsilon, integrated by trapezoids.  Of the 34 data sets, these 14 can be made again
from a library or from UCI's files.  They are centered and scaled to the unit ball, and the number
of points is public, both of which is not private, as there.  Above 32 dimensions, the better of
PE-means' two forms may be the one with projections.  Its code adds the same draw of noise to all
coordinates of a sum, so it is less private than stated.  diffprivlib needs no delta, and spends
more than its epsilon; it is installed when it is first needed (`peers/diffprivlib.py`).  Our noise
is secure and can't be repeated.  All 20 runs took 79 minutes on two cores, most of them in
diffprivlib.
"""

import csv
import dataclasses
import math
import os
import tempfile
from typing import Iterator, Mapping, Sequence
import warnings

from absl import flags
import numpy as np
import pandas as pd

from bench import peer_environments
from clustering_basics import atomic_file
from clustering_basics import randomness
from clustering_basics import validate
from dp_clustering import metrics
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import path_flag
from experiments.dp_benchmark import data as data_lib
from experiments.dp_benchmark import methods as methods_lib

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
_DIFFPRIVLIB = "diffprivlib"
METHODS = ("sklearn", _DIFFPRIVLIB, "lsh", "refine")
# Their noise is secure, so it has no seed.
_OURS = ("lsh", "refine")
_HEADER = ("dataset", "method", "epsilon", "run", "loss")


@dataclasses.dataclass(frozen=True)
class Published:
  """A row of the published table: a data set, and the areas of the methods that were run on it."""

  num_points: int
  dim: int
  k: int
  areas: dict[str, float]

  @property
  def pe_means(self) -> float:
    """The area of the better form of PE-means, as the paper compares."""
    return min(self.areas[name] for name in ("pe_means", "hdpe_means") if name in self.areas)


def _published() -> dict[str, Published]:
  path = os.path.join(os.path.dirname(__file__), "pe_means_published.csv")
  with open(path, encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
  return {
      row.pop("dataset"): Published(
          int(row.pop("n")), int(row.pop("d")), int(row.pop("k")),
          {name: float(area) for name, area in row.items() if area},
      )
      for row in rows
  }


PUBLISHED: Mapping[str, Published] = _published()

flags.DEFINE_list("datasets", list(PUBLISHED), "Comma-separated, of: " + ", ".join(PUBLISHED) + ".")
flags.DEFINE_list("methods", list(METHODS), "Comma-separated, of: " + ", ".join(METHODS) + ".")
flags.DEFINE_integer(
    "runs", 20, "Runs of each method for each data set and epsilon.", lower_bound=1)
flags.DEFINE_integer("seed", 0, "Seed of scikit-learn and diffprivlib.", lower_bound=0)
path_flag.define(
    "data_dir", None, "Folder with UCI's letter-recognition.data (or .gz). Default: OpenML's.")
path_flag.define_output("csv", "File for the loss of every run, as CSV. Default: no file.")
flags.adopt_module_key_flags(peer_environments)


def load_dataset(name: str, data_dir: str | None = None) -> data_lib.BenchmarkDataset:
  """Returns a data set, by its key in `PUBLISHED`; `data_lib.Unavailable` if it can't be had."""
  from sklearn import datasets  # Imported late: bad flags should fail at once.

  published, source = PUBLISHED[name], "scikit-learn"
  if name == "letter":
    points, source = data_lib.load_letter(data_dir)
  elif name == "iris":
    points = datasets.load_iris().data
  else:
    points, *_ = datasets.make_blobs(
        published.num_points, published.dim, centers=published.k, random_state=1
    )
    points = np.round(points, 4)  # Theirs come from a file with four decimals.
  return data_lib.BenchmarkDataset(
      name, data_lib.centered_and_scaled(points), source, public_num_points=len(points)
  )


def area(losses: Sequence[float]) -> float:
  """Returns the area under the losses at `EPSILONS`; a single one holds for all of them."""
  values = np.array(losses if len(losses) > 1 else [*losses] * len(EPSILONS))
  return float(np.diff(EPSILONS) @ (values[1:] + values[:-1]) / 2)


def _of_diffprivlib(
    dataset: data_lib.BenchmarkDataset, k: int, seeds: Mapping[float, int]
) -> np.ndarray:
  """Returns the centers at every epsilon, with its seed, of shape (num_epsilons, k, dim)."""
  with tempfile.TemporaryDirectory() as folder:
    job, answer = (os.path.join(folder, name) for name in ("job.npz", "answer.npy"))
    np.savez(job, points=dataset.points, k=k, epsilons=[*seeds], seeds=[*seeds.values()])
    try:
      python = peer_environments.python(_DIFFPRIVLIB)
      peer_environments.call([python, "-m", f"bench.peers.{_DIFFPRIVLIB}", job, answer])
    except RuntimeError as e:
      raise launch.RunFailed(f"{_DIFFPRIVLIB} failed: {e}") from e
    return np.load(answer)


def losses(
    dataset: data_lib.BenchmarkDataset, name: str, run: int, seed: int
) -> Iterator[tuple[float, float]]:
  """Yields the epsilons and mean losses per point of one run of a method."""
  k, delta = PUBLISHED[dataset.name].k, len(dataset.points) ** -1.1
  seeds = {
      epsilon: int(randomness.generator(
          seed, f"league: {dataset.name}, {name}, {epsilon!r}", run
      ).integers(2**31))
      for epsilon in ((math.inf,) if name == methods_lib.NOT_PRIVATE else EPSILONS)
  }
  with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # The table says what too much noise costs.
    all_centers = _of_diffprivlib(dataset, k, seeds) if name == _DIFFPRIVLIB else [
        methods_lib.METHODS[name].run(
            dataset, k, epsilon, delta, None if name in _OURS else own_seed
        )
        for epsilon, own_seed in seeds.items()
    ]
  for epsilon, centers in zip(seeds, all_centers):
    _, loss = metrics.nonprivate_labels_and_loss(dataset.points, centers, data_lib.RADIUS)
    yield epsilon, loss / len(dataset.points)


def _row(name: str, areas: Mapping[str, Sequence[float]]) -> list[str]:
  """Returns a data set's row of the table, from its areas by method, of one run each."""
  published = PUBLISHED[name]
  shown = [
      f"{np.mean(of_runs):.4f} ± "
      + (f"{np.std(of_runs, ddof=1):.4f}" if len(of_runs) > 1 else "unknown")
      for of_runs in areas.values()
  ]
  return [
      name, str(published.num_points), str(published.dim), str(published.k), *shown,
      f"{published.areas['google']:.4f}", f"{published.pe_means:.4f}",
  ]


def _check_flags() -> None:
  for name, allowed in (("datasets", PUBLISHED), ("methods", METHODS)):
    values = flags.FLAGS[name].value
    if not values or len(set(values)) != len(values):
      raise validate.error(name, "have at least one value, and none twice", values)
    for value in values:
      validate.one_of(allowed, **{name: value})


def main() -> None:
  given, rows = flags.FLAGS, []
  # From a data set and a method to the areas of its runs.
  areas: dict[str, dict[str, list[float]]] = {}
  with launch.input_errors():
    _check_flags()
  datasets = []
  for name in given.datasets:
    try:
      datasets.append(load_dataset(name, given.data_dir))
    except data_lib.Unavailable as e:
      print(f"left out: {name}: {e}")
  for run in range(given.runs):
    for dataset in datasets:
      for name in given.methods:
        found = dict(losses(dataset, name, run, given.seed))
        areas.setdefault(dataset.name, {}).setdefault(name, []).append(area(list(found.values())))
        rows += [[dataset.name, name, epsilon, run, loss] for epsilon, loss in found.items()]
        if given.csv is not None:
          atomic_file.write_text(given.csv, output_folder.csv_text(_HEADER, rows))
  header = ["data set", "points", "d", "k", *given.methods, "Google's (published)"]
  header.append("PE-means' best (published)")
  table = pd.DataFrame([_row(name, of_name) for name, of_name in areas.items()], columns=header)
  print(table.to_string(index=False))
  if "refine" in given.methods:
    won = sum(np.mean(of["refine"]) < PUBLISHED[name].pe_means for name, of in areas.items())
    print(f"refine has a smaller area than PE-means on {won} of {len(areas)} data sets")


if __name__ == "__main__":
  launch.run(main)
