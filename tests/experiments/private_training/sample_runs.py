"""Writes the output folder of an invented run of private clusters, with known numbers."""

import copy
import json
import math
import os

from clustering_basics import file_format
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiments.private_training import results

_COLUMNS = (
    "method", "epsilon", "seed", "adjusted_rand_index", "accuracy", "finetuned_accuracy",
    "relative_noise", "seconds",
)
EPSILONS = (2.0, 4.0, 8.0, 16.0)
# Adjusted Rand index, accuracy and fine-tuned accuracy; less with noise.
_SCORES = {
    "fedavg": (None, 0.5635, 0.8145),
    "dp_fedavg": (None, 0.5585, 0.8305),
    "ifca": (0.9925, 0.8615, 0.8895),
    "private_ifca": (0.9985, 0.8635, 0.8865),
}
_CONFIG = {"config": {"num_clusters": 4, "epsilon": [8.0]}, "versions": {"numpy": "1"}}
# Exact numbers and names that must not be published.
SECRETS = ("client_00017", "fingerprint")

RELEASED = {
    "privacy": {
        "epsilon": 8.0, "delta": 1e-05, "mu": 1.67, "unit": "one client with all of its data",
        "neighboring_relation": "zero_out_one_client",
        "replacing_one_client": {"epsilon": 19.1, "delta": 1e-05}, "trust": "server",
        "min_clients": None, "noise": "secure: exact discrete Gaussian",
        "is_private": True, "warnings": [],
        "budget": [
            {"part": "grouping", "share": 0.2}, {"part": "first clip norm", "share": 0.01},
            {"part": "training", "share": 0.75}, {"part": "report", "share": 0.04},
        ],
    },
    "plan": {
        "relative_noise": 0.102,
        "advice": "The noise is 0.10 of the signal: about a point is lost to it, or less.",
    },
    "data": {
        "source": "MNIST at 14x14, rotated, Dirichlet(0.3)", "model": "logistic",
        "num_parameters": 1970, "num_clients": 1200, "num_clusters": 4, "rounds": 25,
    },
    "clusters": [
        {
            "cluster": 0, "num_clients": 301.7, "num_clients_std": 4.2, "accuracy": 0.8551,
            "accuracy_std": 0.0085,
        },
        {
            "cluster": 1, "num_clients": 296.1, "num_clients_std": 4.2, "accuracy": 0.8612,
            "accuracy_std": 0.0087,
        },
        {
            "cluster": 2, "num_clients": 303.4, "num_clients_std": 4.2, "accuracy": 0.8483,
            "accuracy_std": 0.0084,
        },
        {
            "cluster": 3, "num_clients": 298.8, "num_clients_std": 4.2, "accuracy": 0.8574,
            "accuracy_std": 0.0086,
        },
    ],
    "all_clients": {
        "num_clients": 1200.0, "num_clients_std": 8.4, "accuracy": 0.8554, "accuracy_std": 0.0043,
    },
    "clip_norms": [round(1.41 * math.exp(-0.01 * i) + 0.05 * math.sin(i), 3) for i in range(25)],
    "sizes": [
        [round(300 + (sign * 260 * math.exp(-i / 6)) + 6 * math.sin(3 * i + sign), 1)
         for sign in (-1, 1, 0.4, -0.4)]
        for i in range(25)
    ],
    "revived_rounds": [7],
    "lost": [],
}

# The numbers of a cluster, or of all clients, whose report was lost.
LOST = {"num_clients": None, "num_clients_std": 4.2, "accuracy": None, "accuracy_std": None}

_LEDGER = """release,sensitivity,std,mu,answered
mean sketch,1,4.2,0.2381,1
round 1,1.021,3.53,0.2892,1
round 2,1.021,3.53,0.2892,0
"""


def relative_noise(method, epsilon):
  """Returns the planning number of a method, about that of 1,200 clients; None without noise."""
  if epsilon is None:
    return None
  return round((0.82 if method == "private_ifca" else 0.2) / epsilon, 4)


def rows(epsilons=EPSILONS, seeds=(0, 1, 2), methods=tuple(_SCORES), changes=None):
  """Returns the rows of a simulation, as they are read back from results.csv.

  Args:
    changes: From (method, epsilon, seed) to the values of columns.
  """
  found = []
  for method in methods:
    for epsilon in (None,) if method in ("fedavg", "ifca") else epsilons:
      for seed in seeds:
        noise = relative_noise(method, epsilon) or 0.0
        spread = 0.002 * len(method) / 4
        values = [
            None if score is None
            else min(1.0, round(score - 0.4 * noise**2 + spread * (seed - 1), 4))
            for score in _SCORES[method]
        ]
        row = dict(zip(_COLUMNS, (
            method, epsilon, seed, *values, relative_noise(method, epsilon), 12.5,
        )))
        found.append({**row, **(changes or {}).get((method, epsilon, seed), {})})
  return found


def simulation(**changes):
  """Returns the summary of `rows(**changes)`."""
  return results.simulation_summary(rows(**changes), RELEASED["data"], 1e-05)


def released(**changes):
  """Returns the released summary, in which parts are replaced or, if they are dicts, updated."""
  found = copy.deepcopy(RELEASED)
  for name, value in changes.items():
    found[name] = {**found[name], **value} if isinstance(value, dict) else value
  return found


def write(folder, with_simulation=True, of_released=None, **of_rows):
  """Writes all files but the pages.

  Args:
    folder: The folder, which must exist.
    of_released: Changes of the released summary.
    **of_rows: Those of the simulation's rows.

  Returns:
    The folder as a `FinishedRun`.
  """
  summary = {
      "released": released(**(of_released or {})),
      "simulation": simulation(**of_rows) if with_simulation else None,
  }
  secret = file_format.stamped({**_CONFIG, "data": {SECRETS[1]: SECRETS[0]}})
  texts = {
      "config.json": json.dumps(secret),
      "summary.json": output_folder.json_text(summary),
      "released/config.json": json.dumps(file_format.stamped({"config": _CONFIG["config"]})),
      "released/summary.json": output_folder.json_text(summary["released"]),
      "released/ledger.csv": _LEDGER,
  }
  if with_simulation:
    texts["simulation/summary.json"] = output_folder.json_text(summary["simulation"])
    texts["simulation/results.csv"] = output_folder.csv_text(
        _COLUMNS, [["" if cell is None else cell for cell in row.values()]
                   for row in rows(**of_rows)],
    )
  for name, text in texts.items():
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
      file.write(text)
  return finished_run.FinishedRun(folder)
