"""Writes output folders of invented runs of private clusters, with known numbers."""

import io
import math

import pandas as pd

from experiments.private_clusters import config as config_lib
from experiments.private_clusters import released
from experiments.private_clusters import simulation
from tests.experiment_shell import run_folder

# Accuracy, fine-tuned accuracy and adjusted Rand index; less with noise.
_SCORES = {
    "fedavg": (0.5635, 0.8145),
    "dp_fedavg": (0.5585, 0.8305),
    "ifca": (0.8615, 0.8895, 0.9925),
    "private_ifca": (0.8635, 0.8865, 0.9985),
}
_METRICS = ("accuracy", "finetuned_accuracy", "ari")
_INPUTS = {
    "dataset": {"name": "digits", "num_clients": 1200, "fingerprint": "abc"},
    "model": {"name": "logistic", "num_parameters": 1970},
}
_RESULTS = {
    "num_clients": 1200, "num_parameters": 1970, "planning_number": 0.102, "own_rounds": 3,
    "mu": 1.67, "detected": 0.256, "replaced_epsilon": 19.1,
}
_LEDGER = {
    "mean sketch": (1, 4.2, 0.2381), "round 1": (1.021, 3.53, 0.2892),
    "round 2": (1.021, 3.53, 0.2892),
}
CLUSTERS = """cluster,metric,value
0,clients,301.7
0,sd of clients,4.2
0,accuracy,0.8551
0,sd of accuracy,0.0085
1,clients,2.1
1,sd of clients,4.2
1,accuracy,0.4321
1,sd of accuracy,0.21
"""
_ROUNDS = """round,line,metric,value
1,cluster 0,"clients, noisy",10.5
1,clip norm,clip norm,1.4
2,cluster 0,"clients, noisy",11.5
2,revival,"clients, noisy",0.0
2,clip norm,clip norm,1.2
"""


def noise(method, epsilon):
  """Returns the planning number of a method, about that of 1,200 clients."""
  return (0.82 if method == "private_ifca" else 0.2) / epsilon


def score(value, method, epsilon, seed):
  return value - 0.4 * noise(method, epsilon) ** 2 + 0.0005 * len(method) * (seed - 1)


def write_simulation(folder, methods=tuple(_SCORES), changes=None, **settings):
  """Writes all files but what is drawn of them; returns the folder as a `FinishedRun`.

  Args:
    methods: Those whose cells did not fail.
    changes: From (method, epsilon, seed, metric) to another value.
    **settings: Other settings than the default.
  """
  config = config_lib.PrivateClustersConfig(**{
      "dataset": "digits", "epsilon": (8.0, 2.0), "num_seeds": 3, **settings,
  })
  results, clusters, rounds = [], [], []
  for cell in simulation.cells(config):
    if cell["method"] not in methods:
      continue
    values = {
        metric: score(value, **cell) for metric, value in zip(_METRICS, _SCORES[cell["method"]])
    }
    of_size = {**cell, "metric": "clients", "value": 100.0 * cell["epsilon"]}
    if cell["epsilon"] < math.inf:
      values["planning_number"] = noise(cell["method"], cell["epsilon"])
      clusters.append({**of_size, "cluster": "0"})
      rounds.append({
          **of_size, "round": 1, "line": "cluster 0", "metric": "clients, noisy",
          "value": 100.0 + cell["seed"],
      })
    keys = tuple(cell.values())
    results += [
        {**cell, "metric": metric, "value": (changes or {}).get((*keys, metric), value)}
        for metric, value in values.items()
    ]
  columns = ["method", "epsilon", "seed", "cluster", "round", "line", "metric", "value"]
  return run_folder.written(folder, {
      "experiment": "private_clusters_simulation", "config": config.to_json(), "inputs": _INPUTS,
  }, {
      "results": results, "clusters": pd.DataFrame(clusters, columns=columns),
      "rounds": pd.DataFrame(rounds, columns=columns),
  })


def write_released(folder, lost=("round 2",), clusters=CLUSTERS, **settings):
  """Writes all that is released but its page and models; returns the folder as a `FinishedRun`.

  Args:
    lost: The names of releases whose answers were lost.
    **settings: Other settings than the default.
  """
  ledger = [
      {"release": name, "metric": metric, "value": value}
      for name, values in _LEDGER.items()
      for metric, value in zip(
          ("sensitivity", "std", "mu", "answered"), (*values, int(name not in lost))
      )
  ] + [{"release": released.TOTAL, "metric": "mu", "value": 0.4}]
  return run_folder.written(folder, {
      "experiment": "private_clusters", "warnings": [],
      "config": {
          "num_clusters": 2, "rounds": 3, "epsilon": [8.0], "delta": 1e-05, "model": "logistic",
          "trust": "server", "min_clients": None, **settings,
      },
  }, {
      "results": [{"metric": name, "value": value} for name, value in _RESULTS.items()],
      "budget": [
          {"part": part, "metric": "share", "value": share}
          for part, share in (("grouping", 0.2), ("rest", 0.8))
      ],
      "ledger": ledger, "clusters": pd.read_csv(io.StringIO(clusters)),
      "rounds": pd.read_csv(io.StringIO(_ROUNDS)),
  })
