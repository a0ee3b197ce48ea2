"""Trains the models of one method, with a progress bar over its rounds."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import numpy as np
import tqdm

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
  """Trains and asks for the report; the arguments are those of `fitting.Run`."""
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
