"""A private run: one training with secure noise, and nothing of its rows but in `released/`.

It is one cell.  Its journal of releases, not its results, says where it goes on.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
from typing import Any, Mapping

import numpy as np
import tqdm

from clustering_basics import atomic_file
from clustering_basics import file_format
from clustering_basics import validate
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import tidy_experiment
from experiment_shell import tidy_report
from experiment_shell import tidy_tables
from experiments.private_clusters import config as config_lib
from experiments.private_clusters import data
from experiments.private_clusters import figures
from experiments.private_clusters import released
from fl_clustering import runtime
from fl_clustering.engine import bounded_sums
from fl_clustering.engine import device_memory
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import clients as clients_lib
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import training

# The folder that may be published, and the models in it.
FOLDER, MODELS = "released", "models.npz"
VERSIONS_OF = ("numpy", "tensorflow", "tensorflow-federated", "jax", "dp-accounting")
# What of `config.json` may be published: not the clients and their folder.
_PUBLIC = ("experiment", "config", "charged", "warnings")


def train(
    settings: plan_lib.PrivateClusters, sums: bounded_sums.BoundedSums, seed: int,
    releases: releases_lib.Releases,
) -> tuple[list[training.State], fitting.Report]:
  """Trains with a progress bar over the rounds.

  Args:
    sums, seed, releases: As of `fitting.Run`.

  Returns:
    The states before every round and after the last, without their models but for the last; and
    the report.

  Raises:
    launch.InputError: If the noise of such a budget can't be drawn, or the journal not be used.
  """
  states: list[training.State] = []
  run = fitting.Run(settings, sums, seed, releases)
  try:
    with tqdm.tqdm(total=settings.rounds, unit="round", leave=False) as bar:
      for state, public in run.states():
        if states:
          bar.update()
          states[-1] = dataclasses.replace(states[-1], vectors=np.zeros((0, 0), np.float32))
        states.append(state)
      return states, run.report(public)
  except (releases_lib.UnusableJournal, privacy_lib.BudgetOutOfRange) as e:
    raise launch.InputError(str(e)) from e


def _measure(run: tidy_experiment.Run) -> dict[str, list[dict[str, Any]]]:
  """Trains, writes the models and returns the rows of all that is released."""
  config: config_lib.PrivateClustersConfig = run.config
  settings, clients = config.settings(config.epsilon[0]), run.data(config.seed)
  folder = os.path.join(run.folder, FOLDER)
  with launch.input_errors():
    releases = releases_lib.Releases(
        settings.epsilon, settings.delta, journal=os.path.join(run.folder, releases_lib.JOURNAL),
        is_complete=os.path.exists(folder),  # It is made when all is answered.
    )
    if not releases.is_private:
      raise validate.error("epsilon", "be finite for what is released", settings.epsilon)
  with launch.run_errors(run.folder, runtime.WorkerLost, device_memory.DeviceFull):
    with clients_lib.opened(config.engine, settings, clients.model, clients.data) as sums:
      states, report = train(settings, sums, config.seed, releases)
  os.makedirs(folder, exist_ok=True)
  arrays, start = {}, 0
  for name, shape in clients.model.parameter_shapes.items():
    end = start + math.prod(shape)
    arrays[name] = states[-1].vectors[:, start:end].reshape(-1, *shape)
    start = end
  atomic_file.write_arrays(os.path.join(folder, MODELS), arrays)
  return {
      **released.guarantee_rows(settings, clients.model.num_parameters, len(clients.data)),
      released.LEDGER: released.ledger_rows(releases.ledger, releases.lost),
      released.CLUSTERS: released.report_rows(report),
      released.ROUNDS: released.round_rows(states),
  }


def _publish(run: tidy_experiment.Run, unused_tidy: Mapping[str, Any]) -> None:
  """Copies the tables to the folder that may be published, and draws its page of them alone."""
  whole = finished_run.FinishedRun(run.folder)
  public = finished_run.FinishedRun(whole.join(FOLDER))
  stated = file_format.stamped({name: whole.document[name] for name in _PUBLIC})
  atomic_file.write_text(public.join(finished_run.CONFIG), output_folder.json_text(stated))
  for name in map(tidy_tables.file_name, released.TIDY):
    shutil.copyfile(whole.join(name), public.join(name))
  tidy_report.report(EXPERIMENT, public)


EXPERIMENT = tidy_experiment.Experiment(
    name="private_clusters",
    title="Private clusters",
    keys={},
    load=data.inputs,
    cells=lambda config, load: [{}],
    measure=_measure,
    summarise=released.summarise,
    headlines=released.HEADLINES,
    tables=released.TABLES,
    figures=(figures.ROUNDS,),
    reading=released.READING,
    tidy=released.TIDY,
    files={
        finished_run.CONFIG: "settings; outside of released/ also the clients' names and folder, "
        "and versions",
        MODELS: "the clusters' models",
    },
    folders={
        FOLDER: "may be published: models, and all of this but the journal and the data's names",
        releases_lib.JOURNAL: "every release and its answer, for --resume",
    },
    finish=_publish,
    charged_in=lambda config: os.path.join(releases_lib.JOURNAL, releases_lib.ENTRIES),
    versions_of=VERSIONS_OF,
)
