"""Measurements of a small made-up data set, as the experiment has them."""

import json
import os

import numpy as np

from clustering_basics import file_format
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiments.multiview import cells
from experiments.multiview import config as config_lib
from experiments.multiview import data
from experiments.multiview import methods
from experiments.multiview import results
from experiments.multiview import simulated_dha

VIEW_NAMES = ("pixels", "<shape>")
PARTITIONS = ("IID", "Dirichlet")
SEEDS = (0, 1)
# Mean ARI of the two seeds; the NMI is 0.1 above.
ARI = {"concatenated": 0.6, "central_equal": 0.7, "local_only": 0.4, "mvkm": 0.3,
       "regret": 0.65, "equal": 0.7}
SINGLE_VIEW_ARI = {"pixels": 0.5, "<shape>": 0.2}
MVKM_WEIGHTS = (0.2, 0.8)


def sample_data(labelled=True):
  """Returns twelve points of three classes in two views."""
  rng = np.random.default_rng(0)
  return data.MultiViewData(
      name="sample",
      source="twelve made-up points",
      views={name: rng.standard_normal((12, 2 + i)) for i, name in enumerate(VIEW_NAMES)},
      labels=np.arange(12) % 3 if labelled else None,
      num_clusters=3,
  )


def _outcome(method, ari, seed):
  ari = ari + (0.01 if seed else -0.01)
  if methods.METHODS[method].place != "federated":
    return methods.Outcome(nmi=ari + 0.1, ari=ari)
  return methods.Outcome(
      nmi=ari + 0.1,
      ari=ari,
      rounds=3 + seed,
      view_weights=MVKM_WEIGHTS if method == "mvkm" else (0.5, 0.5),
      objectives=(4.0, 2.0, 1.5, 1.5),
      points={0: (0, 4, 0), 1: (3, 0, 1), 2: (0, 1, 3)},
  )


def sample_rows():
  """Returns the rows of all methods, partitions and seeds."""
  rows = []

  def add(method, partition, view, ari):
    for seed in SEEDS:
      rows.append({
          "dataset": "sample", "partition": partition, "seed": seed, "method": method,
          "view": view, **_outcome(method, ari, seed).to_row(),
      })

  for view, ari in SINGLE_VIEW_ARI.items():
    add("single_view", cells.POOLED, view, ari)
  for method, ari in ARI.items():
    if methods.METHODS[method].place == "central":
      add(method, cells.POOLED, methods.ALL_VIEWS, ari)
    else:
      for partition in PARTITIONS:
        add(method, partition, methods.ALL_VIEWS, ari)
  return rows


def sample_results(rows=None, labelled=True):
  """Returns the `Results` of rows, by default all."""
  loaded = data.LoadedData({"sample": sample_data(labelled)}, False, {})
  description = loaded.describe()["data"]["sample"]
  return results.Results("sample", sample_rows() if rows is None else rows, description)


def demonstration_rows(central_ari=1.0):
  """Returns rows of the tutorial's data, its own seed and the next.

  Args:
    central_ari: The ARI of k-means on all points.
  """
  rows = []
  for index, method in enumerate(simulated_dha.ROWS):
    for seed in (42, 43):
      ari = 0.1 * index + (0.05 if seed == 43 else 0)
      if method == "central_kmeans":
        ari = central_ari
      rows.append({
          "dataset": data.DEMONSTRATION, "partition": cells.AS_GIVEN, "seed": seed,
          "method": method, "view": methods.ALL_VIEWS,
          **methods.Outcome(nmi=0.9, ari=ari).to_row(),
      })
  return rows


def write_run(path, with_sample=True, demonstration=()):
  """Writes a run's files except those of the report; returns it as a `FinishedRun`.

  Args:
    path: The folder.
    with_sample: Whether the run has measured the sample.
    demonstration: The rows of the tutorial's data, if it has measured these too.
  """
  loaded = data.LoadedData(
      {"sample": sample_data()} if with_sample else {}, bool(demonstration),
      {"other": "not <here>"},
  )
  document = {
      "config": config_lib.MultiViewStudyConfig().to_json(), **loaded.describe(), "versions": {},
  }
  rows = [*(sample_rows() if with_sample else ()), *demonstration]
  for name, text in (
      (output_folder.CONFIG, json.dumps(file_format.stamped(document))), (output_folder.SUMMARY, "{}"),
      (config_lib.MEASUREMENTS,
       output_folder.csv_text(list(rows[0]), [list(row.values()) for row in rows])),
  ):
    with open(os.path.join(path, name), "w", encoding="utf-8") as file:
      file.write(text)
  return finished_run.FinishedRun(path)
