"""Trains clusters, and writes what may be published: noisy sums and what follows from them."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any, Mapping, Sequence, TYPE_CHECKING

import numpy as np
import tqdm

from clustering_basics import atomic_file
from clustering_basics import file_format
from dp_clustering import privacy_calculator
from experiment_shell import launch
from experiment_shell import output_folder
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import training

if TYPE_CHECKING:
  from fl_clustering.engine.tff import client_files
  from fl_clustering.tasks import model as model_lib


# The folder that may be published, and files in it.
FOLDER = "released"
LEDGER, CLUSTERS, ROUNDS = "ledger.csv", "clusters.csv", "rounds.csv"
MODELS = "models.npz"
# Metrics of `ROUNDS`, and a line of the first.
SIZE, NORM, REVIVAL = "clients, noisy", "clip norm", "revival"
VERSIONS_OF = ("numpy", "tensorflow", "tensorflow-federated", "dp-accounting")


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
  """What a training ends with.

  Attributes:
    states: Before every round and after the last; without their models but for the last.
    planning_number: As of `plan.Budget`.
  """

  states: tuple[training.State, ...]
  report: fitting.Report
  releases: releases_lib.Releases
  planning_number: float
  num_clients: int

  @property
  def vectors(self) -> np.ndarray:
    """The models, float32 of shape (K, P)."""
    return self.states[-1].vectors


def train(
    settings: plan_lib.PrivateClusters, model: model_lib.Model, files: client_files.ClientFiles,
    folder: str, seed: int, releases: releases_lib.Releases,
) -> Trained:
  """Trains with a progress bar over the rounds; the arguments are those of `fitting.Run`.

  Raises:
    launch.InputError: If the noise of such a budget can't be drawn, or the journal not be used.
  """
  os.makedirs(folder, exist_ok=True)
  run = fitting.Run(settings, model, files, folder, seed, releases)
  states: list[training.State] = []
  try:
    with tqdm.tqdm(total=settings.rounds, unit="round", leave=False) as bar:
      for state, public in run.states():
        if states:
          bar.update()
          states[-1] = dataclasses.replace(states[-1], vectors=np.zeros((0, 0), np.float32))
        states.append(state)
      report = run.report(public)
  except (releases_lib.UnusableJournal, privacy_lib.BudgetOutOfRange) as e:
    raise launch.InputError(str(e)) from e
  number = settings.budget().planning_number(
      settings.num_clusters, model.num_parameters, len(run.clients)
  )
  return Trained(tuple(states), report, releases, number, len(run.clients))


def report_rows(report: fitting.Report) -> list[dict[str, Any]]:
  """Returns the numbers of each cluster and of all clients, for a tidy table; None for NaN."""
  columns = {
      "clients": report.counts, "sd of clients": report.count_stds,
      "accuracy": report.accuracies, "sd of accuracy": report.accuracy_stds,
  }
  names = [*map(str, range(len(report.counts) - 1)), "all"]
  return [
      {"cluster": name, "metric": metric, "value": None if math.isnan(value) else float(value)}
      for name, row in zip(names, zip(*columns.values())) for metric, value in zip(columns, row)
  ]


def round_rows(states: Sequence[training.State]) -> list[dict[str, Any]]:
  """Returns likewise sizes of clusters, clip norm and revivals by round, of `Trained.states`."""
  found = []
  for before, after in zip(states, states[1:]):
    lines = [(f"cluster {number}", SIZE, size) for number, size in enumerate(after.sizes.tolist())]
    lines += [(REVIVAL, SIZE, 0.0)] * (after.revived != before.revived)
    lines.append((NORM, NORM, before.clip_norm))
    found += [
        {"round": after.round_num, "line": line, "metric": metric, "value": value}
        for line, metric, value in lines
    ]
  return found


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


def _summary(
    settings: plan_lib.PrivateClusters, model: model_lib.Model, source: str, trained: Trained
) -> dict[str, Any]:
  """Returns `summary.json`, all of which is public."""
  number = trained.planning_number
  return {
      "privacy": _privacy(settings, trained),
      "plan": {
          "planning_number": number, "advice": plan_lib.advice(number, settings.num_clusters),
      },
      "data": {
          "source": source,
          "model": model.name,
          "num_parameters": model.num_parameters,
          "num_clients": trained.num_clients,
          "num_clusters": settings.num_clusters,
          "rounds": settings.rounds,
      },
      "lost": trained.releases.lost,
  }


def _tidy_text(rows: Sequence[Mapping[str, Any]]) -> str:
  return output_folder.csv_text(list(rows[0]), (row.values() for row in rows))


def write(
    folder: str, config: Mapping[str, Any], settings: plan_lib.PrivateClusters,
    model: model_lib.Model, source: str, trained: Trained,
) -> None:
  """Writes all but the report, which is drawn from these files alone.

  Raises:
    ValueError: If the noise was not secure.
  """
  releases = trained.releases
  if not releases.is_private:
    raise ValueError(
        f"`trained` must have secure noise to be released, got {releases.description}."
    )
  os.makedirs(folder, exist_ok=True)
  rows = [
      (one.name, one.sensitivity, one.std, one.mu, int(one.name not in releases.lost))
      for one in releases.ledger.releases
  ]
  header = ("release", "sensitivity", "std", "mu", "answered")
  texts = {
      LEDGER: output_folder.csv_text(header, rows),
      CLUSTERS: _tidy_text(report_rows(trained.report)),
      ROUNDS: _tidy_text(round_rows(trained.states)),
      output_folder.CONFIG: output_folder.json_text(file_format.stamped({"config": config})),
      output_folder.SUMMARY: output_folder.json_text(_summary(settings, model, source, trained)),
  }
  for name, text in texts.items():
    atomic_file.write_text(os.path.join(folder, name), text)
  arrays, start = {}, 0
  for name, shape in model.parameter_shapes.items():
    end = start + math.prod(shape)
    arrays[name] = trained.vectors[:, start:end].reshape(-1, *shape)
    start = end
  atomic_file.write_arrays(os.path.join(folder, MODELS), arrays)
