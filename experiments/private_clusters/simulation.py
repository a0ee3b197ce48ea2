"""A simulation: the training that would be released, and those it is compared with.

Only a simulation knows every client's choice and exact accuracies.  None of that is private, and
its noise can be drawn again.  It writes nothing that is called released.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from clustering_basics import agreement
from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiments.private_clusters import config as config_lib
from experiments.private_clusters import data
from experiments.private_clusters import figures
from experiments.private_clusters import release
from experiments.private_clusters import released
from experiments.private_clusters import summary
from fl_clustering import runtime
from fl_clustering.engine import bounded_sums
from fl_clustering.engine import device_memory
from fl_clustering.engine import participation
from fl_clustering.private_clusters import clients as clients_lib
from fl_clustering.private_clusters import releases as releases_lib

# The methods that have one model, and those without noise.
_ONE_MODEL = (summary.FEDAVG, summary.DP_FEDAVG)
_NOT_PRIVATE = (summary.FEDAVG, summary.IFCA)
# Gradient steps with which a client goes on from its model on its own.
_FINETUNING_STEPS = 25


def cells(config: config_lib.PrivateClustersConfig, load: Any = None) -> list[dict[str, Any]]:
  """Returns what is measured; with one cluster, ours is DP-FedAvg."""
  del load
  of_clusters = (summary.OURS, summary.IFCA) if config.num_clusters > 1 else ()
  return [
      {"method": method, "epsilon": epsilon, "seed": config.seed + number}
      for number in range(config.num_seeds)
      for method in (*of_clusters, summary.DP_FEDAVG, summary.FEDAVG)
      for epsilon in ((math.inf,) if method in _NOT_PRIVATE else sorted(config.epsilon))
  ]


def _scores(
    config: config_lib.PrivateClustersConfig, clients: data.Clients,
    sums: bounded_sums.BoundedSums, vectors: np.ndarray,
) -> dict[str, float]:
  """Returns what models, float32 of shape (K, P), are worth to clients with both kinds of data.

  The Rand index is that of the clients' choices and their true groups; there is none where these
  are not known, or there is one model.  Accuracies are means over the clients of that of their
  model on their test data, and of the same after each client has gone on training it on its own.
  """
  evaluated = clients.with_examples
  evaluated = evaluated[participation.evaluated(config, len(evaluated))]
  found = sums.scores(vectors, evaluated, _FINETUNING_STEPS)
  scores = {
      summary.ACCURACY: float(found.accuracies.mean()),
      summary.FINETUNED: float(found.finetuned.mean()),
  }
  if clients.data.groups is not None and len(vectors) > 1:
    truth = clients.data.groups[evaluated]
    scores[summary.ARI] = float(agreement.adjusted_rand_index(found.slots, truth))
  return scores


def _measure(
    run: tidy_experiment.Run, method: str, epsilon: float, seed: int
) -> dict[str, list[dict[str, Any]]]:
  """Returns the scores of a training, and of one with noise what it would release."""
  settings = run.config.settings(epsilon, 1 if method in _ONE_MODEL else None)
  with launch.input_errors():  # Another seed's draw.
    clients = run.data(seed)
  releases = releases_lib.Releases(settings.epsilon, settings.delta, seed)
  with clients_lib.opened(run.config.engine, settings, clients.model, clients.data) as sums:
    states, report = release.train(settings, sums, seed, releases)
    scores = _scores(
        dataclasses.replace(run.config, seed=seed), clients, sums, states[-1].vectors
    )
  if settings.is_private:
    scores[summary.PLANNING_NUMBER] = settings.planning_number(
        clients.model.num_parameters, len(clients.data)
    )
  return {
      tidy_experiment.RESULTS: [
          {"metric": metric, "value": value} for metric, value in scores.items()
      ],
      released.CLUSTERS: released.report_rows(report) if settings.is_private else [],
      released.ROUNDS: released.round_rows(states) if settings.is_private else [],
  }


_ROUNDS = dataclasses.replace(
    figures.ROUNDS, title=f"NOT private, as seeded. {figures.ROUNDS.title}",
    caption=f"{summary.SHOWN} {figures.ROUNDS.caption}",
)

EXPERIMENT = tidy_experiment.Experiment(
    name="private_clusters_simulation",
    title="NOT private: a simulation of private clusters",
    keys={"method": str, "epsilon": float, "seed": int},
    load=data.inputs,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=summary.TABLES,
    figures=(figures.SCORES, _ROUNDS),
    reading=summary.READING,
    tidy={
        name: released.TIDY[name]
        for name in (released.RESULTS, released.CLUSTERS, released.ROUNDS)
    },
    versions_of=release.VERSIONS_OF,
    failures=(runtime.WorkerLost, device_memory.DeviceFull, launch.InputError),
)
