"""An invented run of a small data set and of the tutorial's data, with known numbers."""

import numpy as np
import pandas as pd

from experiments.multi_view import comparison
from experiments.multi_view import config as config_lib
from experiments.multi_view import data as data_lib
from experiments.multi_view import methods
from tests.experiment_shell import run_folder

VIEWS = ("pixels", "<shape>")
# Mean ARI of three seeds, which are 0.01 apart; the NMI is 0.1 above.
ARI = {
    "pixels": 0.5, "<shape>": 0.2, "concatenated": 0.6, "central_equal": 0.7, "local_only": 0.4,
    "mvkm": 0.3, "regret": 0.65, "equal": 0.7, "local_kmeans": 0.5, "central_one_view": 1.0,
    "central_kmeans": 1.0,
}


def data(name="sample"):
  """Returns twelve points of three classes in two views."""
  views = {view: np.eye(12)[:, : 2 + i] for i, view in enumerate(VIEWS)}
  return data_lib.MultiViewData(
      name, "twelve made-up points", views, np.arange(12) % 3, 3
  )


def _outcome(cell, ari):
  # Differences of methods vary over the seeds, too.
  method, place = cell["method"], cell["seed"] % 3
  score = ari[cell["view"] if method == "single_view" else method] + 0.01 * (place - 1) * (
      1 if method == "equal" else 0.5
  )
  if (method, cell["partition"]) == ("local_only", "IID"):
    score += 0.2
  numbers = {"nmi": score + 0.1, "ari": score}
  if method not in ("central_equal", *methods.RULES):
    return methods.Outcome(numbers)
  return methods.Outcome(
      {**numbers, "rounds": 3 + place, "objective": 1.5},
      dict(zip(VIEWS, (0.2, 0.8) if method == "mvkm" else (0.5, 0.5))),
      np.array([[0, 4 - place, place], [1, 0, 3], [3, 1, 0]]),
  )


def write(folder, ari=None, num_seeds=3, names=("sample",), **settings):
  """Writes all files but what is drawn of them; returns the folder as a `FinishedRun`.

  Args:
    ari: Other mean ARIs than `ARI`, by method.
    names: Of data sets, each of which is like the sample.
    **settings: Other fields of the `MultiViewStudyConfig` than the default.
  """
  config = config_lib.MultiViewStudyConfig(num_seeds=num_seeds, **settings)
  datasets = {name: data(name) for name in names}
  tables = {}
  for cell in comparison.cells(config, datasets):
    outcome = _outcome(cell, {**ARI, **(ari or {})})
    for table, rows in comparison.tidy_rows(outcome).items():
      tables.setdefault(table, []).extend({**cell, **row} for row in rows)
  keys, tidy = comparison.EXPERIMENT.keys, comparison.EXPERIMENT.tidy
  return run_folder.written(folder, {
      "experiment": "multi_view", "config": config.to_json(),
      "inputs": {"datasets": {name: one.describe() for name, one in datasets.items()}},
  }, {
      table: pd.DataFrame(rows, columns=[*keys, *tidy[table], "metric", "value"])
      for table, rows in tables.items()
  })
