"""What the league measures: data sets that others published losses of, and the loss in each cell.

The data sets, the number of clusters, epsilon and delta are those of PE-means (2026,
https://arxiv.org/abs/2606.00342; code at https://github.com/t3humphries/PE-means, commit e67d051).
Of its 34 data sets, these 14 can be made again from a library or from UCI's files.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import math
import os
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from clustering_basics import randomness
from dp_clustering import metrics
from experiments.private import data as data_lib
from experiments.private import methods as methods_lib
from experiments.private import uci

MEASUREMENTS = "measurements.csv"
KEYS = ("dataset", "method", "epsilon", "run")
VALUES = ("loss",)
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
METHODS = ("sklearn", "diffprivlib", "lsh", "refine")
# Their noise is secure, so it has no seed.
_OURS = ("lsh", "refine")


@dataclasses.dataclass(frozen=True)
class Published:
  """A row of the table in PE-means' `paper_tables.ipynb`: areas, see `report.area`.

  Attributes:
    areas: Of every method, by its name; without those that were not run on this data set.
  """

  num_points: int
  dim: int
  k: int
  areas: dict[str, float]


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


def _blobs(published: Published, unused_data_dir: str | None) -> tuple[np.ndarray, str]:
  # Imported late: it takes most of a second, and bad flags should fail at once.
  from sklearn import datasets

  points, *_ = datasets.make_blobs(
      published.num_points, published.dim, centers=published.k, random_state=1
  )
  # Theirs come from a file with four decimals.
  return np.round(points, 4), "scikit-learn's make_blobs, random_state 1"


def _iris(unused_published: Published, unused_data_dir: str | None) -> tuple[np.ndarray, str]:
  from sklearn import datasets

  return datasets.load_iris().data, "iris in scikit-learn"


def _letter(unused_published: Published, data_dir: str | None) -> tuple[np.ndarray, str]:
  return uci.load_letter(data_dir)


_LOADERS = {"iris": _iris, "letter": _letter}


def load_datasets(
    names: Iterable[str], data_dir: str | None
) -> tuple[dict[str, data_lib.BenchmarkDataset], dict[str, str]]:
  """Returns the available data sets by name, and the reason for each that is not.

  They are centered and scaled to the unit ball, as in PE-means, which is not private; the number
  of their points is public, as it is there.

  Args:
    names: Keys of `PUBLISHED`.
    data_dir: Folder with UCI's files, or None.
  """
  found, missing = {}, {}
  for name in names:
    try:
      points, source = _LOADERS.get(name, _blobs)(PUBLISHED[name], data_dir)
    except uci.Unavailable as e:
      missing[name] = str(e)
      continue
    found[name] = data_lib.BenchmarkDataset(
        name, data_lib.centered_and_scaled(points), source, public_num_points=len(points)
    )
  return found, missing


def delta(num_points: int) -> float:
  """Returns the delta of a data set."""
  return num_points**-1.1


def cells(datasets: Iterable[str], methods: Iterable[str], runs: int) -> list[dict[str, Any]]:
  """Returns the cells as dicts of `KEYS`, the runs one after the other."""
  methods = list(methods)
  return [
      dict(zip(KEYS, (dataset, method, epsilon, run)))
      for run in range(runs)
      for dataset in datasets
      for method in methods
      for epsilon in ((math.inf,) if method == methods_lib.NOT_PRIVATE else EPSILONS)
  ]


def _loss(
    datasets: Mapping[str, data_lib.BenchmarkDataset], methods: Mapping[str, Callable[..., Any]],
    seed: int, dataset: str, method: str, epsilon: float, run: int,
) -> dict[str, float]:
  points = datasets[dataset].points
  purpose = f"league: {dataset}, {method}, {epsilon!r}"
  own_seed = int(randomness.generator(seed, purpose, run).integers(2**31))
  centers = methods[method](
      datasets[dataset], PUBLISHED[dataset].k, epsilon, delta(len(points)),
      None if method in _OURS else own_seed,
  )
  _, loss = metrics.nonprivate_labels_and_loss(points, centers, data_lib.RADIUS)
  return {"loss": loss / len(points)}


def build_measure(
    datasets: Mapping[str, data_lib.BenchmarkDataset], methods: Mapping[str, Callable[..., Any]],
    seed: int,
) -> Callable[..., dict[str, float]]:
  """Returns the function of a cell's keys that measures its loss, which is not private.

  Args:
    seed: For scikit-learn and diffprivlib.
  """
  return functools.partial(_loss, datasets, methods, seed)
