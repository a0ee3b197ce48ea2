"""Trains a method, and writes what may be published: noisy sums and what follows from them."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any, Mapping, TYPE_CHECKING

import numpy as np
import tqdm

from clustering_basics import atomic_file
from clustering_basics import file_format
from dp_clustering import privacy_calculator
from experiment_shell import output_folder
from experiments.private_training import results
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import training

if TYPE_CHECKING:
  from fl_clustering.engine import client_files
  from fl_clustering.tasks import model as model_lib


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
  """What a training ends with.

  Attributes:
    states: Before every round and after the last; without their models but for the last.
    relative_noise: The planning number.
  """

  states: tuple[training.State, ...]
  report: fitting.Report
  releases: releases_lib.Releases
  relative_noise: float
  num_clients: int

  @property
  def vectors(self) -> np.ndarray:
    """The models, float32 of shape (K, P)."""
    return self.states[-1].vectors


def train(
    settings: plan_lib.PrivateClusters, model: model_lib.Model, files: client_files.ClientFiles,
    folder: str, seed: int, releases: releases_lib.Releases,
) -> Trained:
  """Trains with a progress bar over the rounds; the arguments are those of `fitting.Run`."""
  os.makedirs(folder, exist_ok=True)
  run = fitting.Run(settings, model, files, folder, seed, releases)
  states: list[training.State] = []
  with tqdm.tqdm(total=settings.rounds, unit="round", leave=False) as bar:
    for state, public in run.states():
      if states:
        bar.update()
        states[-1] = dataclasses.replace(states[-1], vectors=np.zeros((0, 0), np.float32))
      states.append(state)
    report = run.report(public)
  noise = settings.budget().relative_noise(
      settings.num_clusters, model.num_parameters, len(run.clients)
  )
  return Trained(tuple(states), report, releases, noise, len(run.clients))


def _of_report(report: fitting.Report) -> list[dict[str, float | None]]:
  """Returns the numbers of each cluster, and last those of all clients; None for what is NaN."""
  columns = {
      "num_clients": report.counts, "num_clients_std": report.count_stds,
      "accuracy": report.accuracies, "accuracy_std": report.accuracy_stds,
  }
  return [
      {name: None if math.isnan(value) else float(value) for name, value in zip(columns, row)}
      for row in zip(*columns.values())
  ]


def _privacy(settings: plan_lib.PrivateClusters, trained: Trained) -> dict[str, Any]:
  ledger, budget = trained.releases.ledger, settings.budget()
  parts = {
      "grouping": budget.mean_sketch**2 + budget.kmeans**2,
      "first clip norm": budget.norms**2,
      "training": budget.round_**2 * budget.rounds,
      "report": budget.report**2,
  }
  return {
      "epsilon": settings.epsilon,
      "delta": settings.delta,
      "mu": budget.total,
      "unit": "one client with all of its data",
      "neighboring_relation": "zero_out_one_client",
      "replacing_one_client": {
          "epsilon": privacy_calculator.gaussian_epsilon(2 * budget.total, settings.delta),
          "delta": settings.delta,
      },
      "trust": settings.trust,
      "min_clients": settings.min_clients,
      "noise": ledger.noise_source,
      "is_private": ledger.is_private,
      "warnings": privacy_lib.budget_warnings(
          settings.epsilon, settings.delta, 1, trained.num_clients
      ),
      "budget": [
          {"part": part, "share": square / budget.total**2} for part, square in parts.items()
      ],
  }


def summary(
    settings: plan_lib.PrivateClusters, model: model_lib.Model, source: str,
    trained: Trained,
) -> dict[str, Any]:
  """Returns `summary.json`: all of it is public or noisy."""
  *clusters, all_clients = _of_report(trained.report)
  noise = trained.relative_noise
  return {
      "privacy": _privacy(settings, trained),
      "plan": {
          "relative_noise": noise, "advice": plan_lib.advice(noise, settings.num_clusters),
      },
      "data": {
          "source": source,
          "model": model.name,
          "num_parameters": model.num_parameters,
          "num_clients": trained.num_clients,
          "num_clusters": settings.num_clusters,
          "rounds": settings.rounds,
      },
      "clusters": [{"cluster": number, **found} for number, found in enumerate(clusters)],
      "all_clients": all_clients,
      "clip_norms": [state.clip_norm for state in trained.states[:-1]],
      "sizes": [state.sizes.tolist() for state in trained.states[1:]],
      "revived_rounds": [
          after.round_num for before, after in zip(trained.states, trained.states[1:])
          if after.revived != before.revived
      ],
      "lost": trained.releases.lost,
  }


def write(
    folder: str, config: Mapping[str, Any], settings: plan_lib.PrivateClusters,
    model: model_lib.Model, source: str, trained: Trained,
) -> None:
  """Writes all but the report, which is drawn from these files alone."""
  os.makedirs(folder, exist_ok=True)
  releases = trained.releases
  rows = [
      (one.name, one.sensitivity, one.std, one.mu, int(one.name not in releases.lost))
      for one in releases.ledger.releases
  ]
  header = ("release", "sensitivity", "std", "mu", "answered")
  texts = {
      results.LEDGER: output_folder.csv_text(header, rows),
      output_folder.CONFIG: output_folder.json_text(file_format.stamped({"config": config})),
      output_folder.SUMMARY: output_folder.json_text(summary(settings, model, source, trained)),
  }
  for name, text in texts.items():
    atomic_file.write_text(os.path.join(folder, name), text)
  arrays, start = {}, 0
  for name, shape in model.parameter_shapes.items():
    end = start + math.prod(shape)
    arrays[name] = trained.vectors[:, start:end].reshape(-1, *shape)
    start = end
  atomic_file.write_arrays(os.path.join(folder, results.MODELS), arrays)
