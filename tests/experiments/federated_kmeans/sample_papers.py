"""Writes the output folder of an invented study of the papers, with known numbers."""

import pandas as pd

from experiments.federated_kmeans import config as config_lib
from experiments.federated_kmeans import data
from experiments.federated_kmeans import methods
from experiments.federated_kmeans import papers
from tests.experiment_shell import run_folder

# The inertia grows with a method's place here, by 2 % of that of central k-means.
PLACES = {method: place for place, method in enumerate([
    methods.CENTRAL, *(name for name in methods.METHODS if name != methods.CENTRAL)
])}
# The scores after the rounds of the first and of the second seed.
BY_ROUND = ((0.5, 0.6, 0.75), (0.7,))


def _numbers(cell):
  place = PLACES[cell["method"]]
  found = {
      "ari": 0.9 - 0.01 * place + 0.01 * cell["seed"], "client_ari": 0.8 - 0.01 * place,
      "inertia": 1000.0 * (1 + 0.02 * place), "simplified_silhouette": 0.2,
  }
  if cell["data"] == data.REAL:
    found["silhouette"] = 0.1
  if place:
    found |= {"bytes_down_per_client": 1e6, "bytes_up_per_client": 1.5e6}
  return found


def write(folder, figures=config_lib.FIGURES, num_seeds=2):
  """Writes all files but what is drawn of them; returns the folder as a `FinishedRun`."""
  config = config_lib.PaperConfig(figures, num_seeds=num_seeds)
  results, curves = [], []
  for cell in papers.cells(config):
    results += [{**cell, "metric": name, "value": value} for name, value in _numbers(cell).items()]
    if "rounds" in figures and cell["method"] in methods.FIGURES["rounds"].get(cell["data"], ()):
      curves += [
          {**cell, "round": number, "metric": "ari", "value": value}
          for number, value in enumerate(BY_ROUND[cell["seed"]], 1)
      ]
  columns = [*papers.EXPERIMENT.keys, "round", "metric", "value"]
  return run_folder.written(
      folder, {"experiment": "federated_kmeans", "config": config.to_json()},
      {"results": results, "curves": pd.DataFrame(curves, columns=columns)},
  )
