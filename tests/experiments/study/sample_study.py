"""Studies with made-up numbers, for tests."""

import numpy as np
import pandas as pd

from experiments.study import cells as cells_lib
from experiments.study import config as config_lib
from experiments.study import summary
from experiments.study import tuning
from fl_clustering.three_phase import config as run_config
from tests.experiment_shell import run_folder

METHODS = ("kmeans", "ifca")
_KEYS = ["setting", "seed", "fold", "method"]
_USUAL = {"steps": 100, "bytes": 2000, "clusters": 2}
_GLOBAL = dict.fromkeys(summary.GLOBAL_MODELS, 0.5)
# Accuracy of FedAvg, and what the others have more, by setting.
_FEDAVG = {"iid": 0.9, "rotated": 0.6}
_MORE = {
    "iid": {"pretrain": -0.05, "kmeans": -0.03, "ifca": 0.0, "finetuned": -0.02, "local": -0.1},
    "rotated": {"pretrain": -0.1, "kmeans": 0.25, "ifca": 0.2, "finetuned": 0.15, "local": 0.18},
}


def config(
    settings=("iid", "rotated"), num_seeds=4, num_folds=None, methods=METHODS, learning_rates=None,
    tune=None, tuning_seeds=None, **values,
):
  """Returns a `StudyConfig` of a small study."""
  run = run_config.ThreePhaseConfig(**{
      "dataset": "digits", "num_clients": 8, "pretrain_rounds": 2, "cluster_rounds": 2,
      "methods": methods, "control_repeats": 0, "num_clusters": 2 if methods else None, **values,
  })
  return config_lib.StudyConfig(
      run, settings, num_seeds, num_folds, learning_rates, tune, tuning_seeds
  )


def _usual(setting, seed, fold):
  """Returns FedAvg's accuracy and gains of `_MORE`, with some noise that is the same each time."""
  rng = np.random.default_rng([len(setting), seed, fold])
  base = _FEDAVG[setting] + rng.normal(0, 0.02)
  index = {"ari": 1.0} if setting == "rotated" else {}
  return {"fedavg": base} | {
      method: {
          "accuracy": base + more + rng.normal(0, 0.004), **(index if method in METHODS else {})
      }
      for method, more in _MORE[setting].items()
  }


def results(study, scores_of=_usual):
  """Returns the tidy table of results.

  Args:
    scores_of: From setting, seed and fold to the methods' accuracies, or dicts of scores, by name.
  """
  rows = []
  for cell in cells_lib.cells(study):
    for method, scores in scores_of(*cell.values()).items():
      scores = scores if isinstance(scores, dict) else {"accuracy": scores}
      rows += [
          {**cell, "method": method, "metric": metric, "value": value}
          for metric, value in {**_USUAL, **_GLOBAL, **scores}.items()
      ]
  return pd.DataFrame(rows).astype({"value": float})


def tables(study, scores_of=_usual):
  """Returns the tidy tables, with two rounds of every cell, and one method that failed."""
  found = results(study, scores_of)
  rounds = pd.DataFrame([
      {
          **cell, "round": number, "metric": metric,
          "value": number * (cell["seed"] + 1) * size,
      }
      for cell in found[_KEYS].drop_duplicates().to_dict("records") for number in (1, 2)
      for metric, size in (("accuracy", 0.1), ("steps", 50), ("bytes", 1000))
  ])
  problem = {"problem": "the loss is <nan>", "metric": "failed", "value": 1.0}
  return {
      "results": found, summary.ROUNDS: rounds,
      summary.PROBLEMS: pd.DataFrame([dict(zip(_KEYS, ("iid", 1, 0, "cfl"))) | problem]),
      **(_of_tuning(study, found) if study.tuned else {}),
  }


def _of_tuning(study, found):
  """Returns the tables of a tuned study whose last candidate always failed."""
  *candidates, last = study.tuned.texts()
  runs = found[found["metric"].isin(["accuracy", "steps", "bytes"])]
  runs = runs[(runs["method"] != "pretrain") & (runs["seed"] < study.tuning_seeds)]
  own = runs[runs["metric"] == "accuracy"]
  of_runs = pd.concat([
      *(one.assign(candidate=name) for name in candidates for one in (
          runs, own.assign(metric="validation_accuracy"), own.assign(metric="rounds", value=4)
      )),
      own.assign(candidate=last, metric="failed", value=1),
  ])
  return {
      tuning.TUNING: of_runs,
      tuning.CHOSEN: tuning.choose(
          of_runs, study.tuned, study.settings, summary.methods(study.to_json()), study.tuning_seeds
      ),
  }


def document(study):
  """Returns `config.json`."""
  return {"experiment": "study", "config": study.to_json(), "versions": {"python": "3"}}


def write(folder, **changes):
  """Writes all files but what is drawn of them; returns the folder as a `FinishedRun`."""
  study = config(**changes)
  return run_folder.written(folder, document(study), tables(study))
