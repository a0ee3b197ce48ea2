"""A finished study with made-up numbers, for tests."""

import os

import numpy as np

from clustering_basics import file_format
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiments.grouping_study import cells
from experiments.grouping_study import config as config_lib
from fl_clustering.three_phase import config as run_config

METHODS = ("kmeans", "ifca")
# Accuracy of FedAvg, and what the others have more, by setting.
_FEDAVG = {"iid": 0.9, "rotated": 0.6}
_MORE = {
    "iid": {"pretrain": -0.05, "kmeans": -0.03, "ifca": 0.0, "finetuned": -0.02, "local": -0.1},
    "rotated": {"pretrain": -0.1, "kmeans": 0.25, "ifca": 0.2, "finetuned": 0.15, "local": 0.18},
}


def config(settings=("iid", "rotated"), num_seeds=4, num_folds=None, methods=METHODS, **values):
  """Returns a `StudyConfig` of a small study."""
  run = run_config.ThreePhaseConfig(**{
      "dataset": "digits", "num_clients": 8, "pretrain_rounds": 2, "cluster_rounds": 2,
      "methods": methods, "control_repeats": 0, "num_clusters": 2, **values,
  })
  return config_lib.StudyConfig(run, settings, num_seeds, num_folds)


def row(group, method, problem=None, **values):
  """Returns a row of `results.csv`."""
  keys = dict(zip(cells.KEYS, (group.setting, group.seed, group.fold, method)))
  if problem is None:
    values = {"client_steps": 100, "bytes_down": 1000, "bytes_up": 1000, **values}
  found = {**dict.fromkeys(cells.VALUES), **keys, **values, "problem": problem}
  return [found[name] for name in (*cells.KEYS, *cells.VALUES)]


def rows(study):
  """Returns the rows of a whole study: gains of `_MORE` with some noise, the same each time."""
  rng = np.random.default_rng(0)
  found = []
  for group in study.groups:
    base = _FEDAVG.get(group.setting, 0.7) + rng.normal(0, 0.02)
    for method in cells.methods_of(study.run):
      more = _MORE.get(group.setting, {}).get(method, 0.01 * len(method))
      noise = 0 if method == "fedavg" else rng.normal(0, 0.004)
      values = {"accuracy": base + (0 if method == "fedavg" else more) + noise}
      if group.setting == "rotated" and method in study.run.chosen_methods:
        values["adjusted_rand_index"] = 1.0
      found.append(row(group, method, **values))
  return found


def round_rows(study):
  """Returns rows of `rounds.csv`: two rounds of every cell."""
  return [
      [group.setting, group.seed, group.fold, method, number,
       0.3 * number + place / 40 + group.seed / 100,
       50 * number, 0 if method == "local" else 1000 * number * (1 + place % 2)]
      for group in study.groups
      for place, method in enumerate(cells.methods_of(study.run)) for number in (1, 2)
  ]


def write(folder, study=None, results=None):
  """Writes a finished study without its report; returns its `FinishedRun`.

  Args:
    folder: An existing folder.
    study: Its `StudyConfig`.
    results: Its rows of `results.csv`.
  """
  study = study or config()
  tables = {
      cells.RESULTS: ((*cells.KEYS, *cells.VALUES), results or rows(study)),
      cells.ROUNDS: (
          (*cells.KEYS, "round", "accuracy", "client_steps", "bytes"), round_rows(study)
      ),
  }
  document = {
      "experiment": "study",
      "config": study.to_json(),
      "data": {
          "name": "digits", "source": "some digits", "data_dir": None, "num_classes": 10,
          "num_clients": 8, "num_new_clients": 0, "fingerprints": {},
      },
      "model": {"name": "cnn_small", "num_parameters": 10},
      "versions": {"python": "3"},
  }
  texts = {name: output_folder.csv_text(*table) for name, table in tables.items()}
  texts[output_folder.CONFIG] = output_folder.json_text(file_format.stamped(document))
  for name, text in texts.items():
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
      file.write(text)
  return finished_run.FinishedRun(folder)
