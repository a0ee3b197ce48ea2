"""What is measured: one training that is released, and in a simulation those it is compared with.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import shutil
import time
from typing import Any, Callable, Mapping, TYPE_CHECKING

from experiment_shell import output_folder
from experiment_shell import study
from experiments.private_training import config as config_lib
from experiments.private_training import data
from experiments.private_training import released
from experiments.private_training import results
from experiments.private_training import simulated
from experiments.private_training import training
from fl_clustering import runtime
from fl_clustering.engine import client_files
from fl_clustering.private_clusters import releases as releases_lib

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task

RELEASED = "released"
SIMULATION = "simulation"
JOURNAL = "journal"
CLIENT_DATA = "client_data"

_RESULTS = "simulation/results.csv"
_KEYS = ("method", "epsilon", "seed")
_VALUES = (
    "adjusted_rand_index", "accuracy", "finetuned_accuracy", "relative_noise", "seconds"
)

# The simulation's methods that have one model, and those without noise.
_ONE_MODEL = (results.FEDAVG, results.DP_FEDAVG)
_NOT_PRIVATE = (results.FEDAVG, results.IFCA)


def methods(config: config_lib.PrivateClustersConfig) -> tuple[str, ...]:
  """Returns the methods of a simulation, of which the first is released.

  With one cluster, ours is DP-FedAvg.
  """
  of_one_model = results.DP_FEDAVG, results.FEDAVG
  return of_one_model if config.num_clusters == 1 else (results.OURS, results.IFCA, *of_one_model)


def _cells(config: config_lib.PrivateClustersConfig) -> list[dict[str, Any]]:
  """Returns the cells of a simulation; the one that is released comes first."""
  return [
      {"method": method, "epsilon": epsilon, "seed": config.seed + number}
      for number in range(config.num_seeds)
      for method in methods(config)
      for epsilon in ((None,) if method in _NOT_PRIVATE else config.epsilon)
  ]


class Measurements:
  """Trains what is asked for on the clients of a seed."""

  def __init__(
      self, config: config_lib.PrivateClustersConfig, folder: output_folder.OutputFolder,
      load: Callable[[int], federated_task.FederatedTask],
  ) -> None:
    """Makes them; see `run`."""
    self._config = config
    self._folder = folder
    self._load = load
    self._loaded: tuple[int, Any, Any] | None = None

  def _task(self, seed: int) -> tuple[federated_task.FederatedTask, client_files.ClientFiles]:
    """Returns the task of a seed and its files; one task is kept at a time."""
    if self._loaded is None or self._loaded[0] != seed:
      self.remove_files()
      task = self._load(seed)
      path = self._folder.join(CLIENT_DATA)
      os.makedirs(path)
      self._loaded = seed, task, client_files.write_client_files(task, path)
    return self._loaded[1:]

  def remove_files(self) -> None:
    """Removes the clients' files, with their sketches."""
    shutil.rmtree(self._folder.join(CLIENT_DATA), ignore_errors=True)

  def train(
      self, method: str, epsilon: float | None, seed: int
  ) -> tuple[federated_task.FederatedTask, Any, training.Trained]:
    """Returns the task, the settings and what was trained; writes what is to be released."""
    config = self._config
    settings = config.settings(
        math.inf if epsilon is None else epsilon, 1 if method in _ONE_MODEL else None
    )
    task, files = self._task(seed)
    is_released = (method, epsilon, seed) == (
        methods(config)[0], config.epsilon[0], config.seed
    )
    releases = releases_lib.Releases(
        settings.epsilon, settings.delta, seed if config.simulation else None,
        self._folder.join(JOURNAL) if is_released else None,
    )
    trained = training.train(
        settings, task.model, files, self._folder.join(CLIENT_DATA), seed, releases
    )
    if is_released:
      released.write(
          self._folder.join(RELEASED), config.to_json(), settings, task.model,
          data.source_text(config, task), trained,
      )
    return task, settings, trained

  def measure(self, method: str, epsilon: float | None, seed: int) -> Mapping[str, Any]:
    """Returns the values of a cell of a simulation."""
    began = time.monotonic()
    task, settings, trained = self.train(method, epsilon, seed)
    seconds = time.monotonic() - began
    scores = simulated.scores(task, settings, trained.vectors)
    return {
        **dataclasses.asdict(scores),
        "relative_noise": trained.relative_noise if settings.is_private else None,
        "seconds": round(seconds, 1),
    }


def _published(folder: output_folder.OutputFolder) -> dict[str, Any]:
  """Returns the summary of what was released."""
  path = os.path.join(folder.join(RELEASED), output_folder.SUMMARY)
  with open(path, encoding="utf-8") as file:
    return json.load(file)


def run(
    config: config_lib.PrivateClustersConfig, folder: output_folder.OutputFolder,
    load: Callable[[int], federated_task.FederatedTask],
) -> dict[str, Any]:
  """Measures, and returns the summary; the reports are drawn later.

  Args:
    load: Returns the task of a seed.

  Raises:
    runtime.WorkerLost: If TFF's worker process ends.
  """
  measurements = Measurements(config, folder, load)
  simulation = None
  with contextlib.ExitStack() as stack:
    stack.callback(measurements.remove_files)
    stack.enter_context(runtime.LocalRuntime())
    if config.simulation:
      os.makedirs(folder.join(SIMULATION), exist_ok=True)
      table = study.Study(folder, _RESULTS, _KEYS, _VALUES)
      table.run(_cells(config), measurements.measure)
      published = _published(folder)
      simulation = results.simulation_summary(table.rows, published["data"], config.delta)
      folder.write_text(
          os.path.join(SIMULATION, output_folder.SUMMARY), output_folder.json_text(simulation)
      )
    else:
      measurements.train(methods(config)[0], config.epsilon[0], config.seed)
      published = _published(folder)
  return {"released": published, "simulation": simulation}
