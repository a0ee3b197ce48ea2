"""Writes the output folder of an invented comparison, small and with known numbers."""

import json
import os

from bench.contest import cells
from bench.contest import config as config_lib
from bench.contest import contestants
from clustering_basics import file_format
from experiment_shell import finished_run
from experiment_shell import output_folder

# Seconds per round; a launch adds a tenth of its number.
SECONDS = {"plain": 1.0, "ours": 1.25, "flower": 5.0, "pfl": 2.5}
ROUNDS = {"cnn_small": 3, "flute": 100}
# pfl fails in its second launch, and fedjax is not installed.
FEDJAX_REASON = "ERROR: no matching distribution <for jax>"
PFL_PROBLEM = 'failed in round 2: it ended with code -9: "Killed", it says'


def write(folder, **settings):
  """Writes all files but the report's own.

  Args:
    folder: The folder, which must exist.
    **settings: Other fields of the `PeersConfig` than this comparison's.

  Returns:
    The folder as a `FinishedRun`.
  """
  config = config_lib.PeersConfig(**{
      "workloads": tuple(ROUNDS), "peers": ("pfl", "flower", "fedjax"), "launches": 2,
      "rounds": 3, **settings,
  })
  described = {
      name: {
          "label": contestants.CONTESTANTS[name].label,
          "versions": {"Python": "3.11", name: "1.0"} if name in SECONDS else {},
          "install_seconds": 61.0 if name in ("pfl", "flower") else None,
          "megabytes": 1234 if name in SECONDS else None,
          "reason": None if name in SECONDS else FEDJAX_REASON,
      }
      for name in config.contestants()
  }
  document = {
      "experiment": "peers",
      "config": config.to_json(),
      "data": {name: "invented <digits>" for name in config.workloads},
      "contestants": described,
      "num_cores": 2,
      "versions": {"python": "3.11"},
  }
  rows = [
      {"workload": workload, "launch": launch, "contestant": name, **_row(workload, launch, name)}
      for workload in config.workloads for launch in range(1, config.launches + 1)
      for name in SECONDS
  ]
  columns = (*cells.KEYS, *cells.VALUES)
  lines = [["" if row[name] is None else row[name] for name in columns] for row in rows]
  for name, text in (
      (output_folder.CONFIG, json.dumps(file_format.stamped(document))),
      (cells.MEASUREMENTS, output_folder.csv_text(columns, lines)),
  ):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
      file.write(text)
  return finished_run.FinishedRun(folder)


def _row(workload, launch, name):
  rounds = ROUNDS[workload]
  failed = name == "pfl" and launch == 2
  num_measured = 1 if failed else rounds
  # The median is in the middle of both, unless the first round counts.
  middle = SECONDS[name] + 0.1 * launch
  later = [middle + 0.05 * (-1) ** i for i in range(rounds - 1)]
  return {
      "start_seconds": 4.0,
      "seconds": json.dumps([20.0, *later][:num_measured]),
      "accuracies": json.dumps([0.5 + 0.4 * i / rounds for i in range(1, num_measured + 1)]),
      "losses": json.dumps([1 / i for i in range(1, num_measured + 1)]),
      "first_difference": 0.0 if name == "plain" else 2e-7,
      "last_difference": 0.0 if name == "plain" else 3e-6,
      "peak_megabytes": 500.0 + launch,
      "load": 0.5 * launch,
      "problem": PFL_PROBLEM if failed else None,
  }
