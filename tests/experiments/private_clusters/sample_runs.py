"""Writes output folders of invented runs of private clusters, with known numbers."""

import json
import math
import os

import pandas as pd

from experiments.private_clusters import config as config_lib
from experiments.private_clusters import simulation
from fl_clustering.private_clusters import plan
from tests.experiment_shell import run_folder

# Accuracy, fine-tuned accuracy and adjusted Rand index; less with noise.
_SCORES = {
    "fedavg": (0.5635, 0.8145),
    "dp_fedavg": (0.5585, 0.8305),
    "ifca": (0.8615, 0.8895, 0.9925),
    "private_ifca": (0.8635, 0.8865, 0.9985),
}
_METRICS = ("accuracy", "finetuned_accuracy", "adjusted_rand_index")
_INPUTS = {
    "dataset": {"name": "digits", "num_clients": 1200, "fingerprint": "abc"},
    "model": {"name": "logistic", "num_parameters": 1970},
}
PRIVACY = {
    "epsilon": 8.0, "delta": 1e-05, "mu": 1.67, "unit": "one client with all of its data",
    "neighboring_relation": "zero_out_one_client",
    "replacing_one_client": {"epsilon": 19.1, "delta": 1e-05}, "trust": "server",
    "min_clients": None, "noise": "secure: exact discrete Gaussian", "is_private": True,
    "warnings": [], "budget": [{"part": "grouping", "share": 0.2}, {"part": "rest", "share": 0.8}],
}
_RELEASED = {
    "plan": {"planning_number": 0.102, "advice": plan.advice(0.102, 2)},
    "data": {
        "source": "3 features and 2 classes", "model": "logistic", "num_parameters": 1970,
        "num_clients": 1200, "num_clusters": 2, "rounds": 3,
    },
}
_LEDGER = """release,sensitivity,std,mu,answered
mean sketch,1,4.2,0.2381,1
round 1,1.021,3.53,0.2892,1
round 2,1.021,3.53,0.2892,0
"""
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


def write_released(folder, lost=(), clusters=CLUSTERS, data=None, **privacy):
  """Writes all that is released but its page; returns the folder as a `FinishedRun`.

  Args:
    lost: The names of releases whose answers were lost.
    data: Other data than the default.
    **privacy: Other parts of the guarantee than the default.
  """
  summary = {**_RELEASED, "privacy": {**PRIVACY, **privacy}, "lost": list(lost)}
  summary["data"] = {**summary["data"], **(data or {})}
  texts = {
      "summary.json": json.dumps(summary), "ledger.csv": _LEDGER, "clusters.csv": clusters,
      "rounds.csv": _ROUNDS,
  }
  for name, text in texts.items():
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
      file.write(text)
  return run_folder.written(folder, {"config": {"num_clusters": 2}}, {})
