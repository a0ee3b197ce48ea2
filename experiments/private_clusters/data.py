"""The clients of a run: how they are loaded, and what the files say of them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from typing import Any, Mapping

from absl import logging
import numpy as np

from clustering_basics import validate
from experiment_shell import tidy_experiment
from experiments.private_clusters import config as config_lib
from fl_clustering.engine import engines
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.private_clusters import plan
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models
from fl_clustering.tasks import pooled_examples
from fl_clustering.tasks import private_clients
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import own_code


@dataclasses.dataclass(frozen=True, eq=False)
class Clients:
  """The clients of a run.

  Attributes:
    data: Their examples for training and testing; a client of tables may have none.
    source: What the data are, in a line; public.
    identity: What `config.json` says of the data, and what a resumed run must find again.  Of
      tables, it is nothing that depends on rows.
  """

  data: federated_task.PooledClients
  model: model_lib.Model
  source: str
  identity: Mapping[str, Any]

  @property
  def with_examples(self) -> np.ndarray:
    """The clients that have examples both for training and for testing."""
    return np.flatnonzero(self.data.train.counts * self.data.test.counts)


def _load_tables(
    config: config_lib.PrivateClustersConfig, data_dir: str | None, seed: int
) -> Clients:
  """Returns the clients of tables, of whose rows nothing is told."""
  schema = config.schema
  assert schema is not None
  if data_dir is None:
    raise validate.error("data_dir", "name the folder with the clients' files", None)
  train, test = private_clients.load(schema, data_dir, seed)
  assert schema.classes is not None  # A private schema has them.
  model = models.build(
      config.model, schema.feature_shape, len(schema.classes), "float32",
      **config.options_for("model"),
  )
  clients = federated_task.PooledClients(
      tuple(train), pooled_examples.PooledExamples.of_examples(list(train.values())),
      pooled_examples.PooledExamples.of_examples(list(test.values())),
  )
  found = Clients(
      clients, model,
      f"{len(schema.feature_names)} features and {len(schema.classes)} classes (in the column "
      f"{schema.label}) of the clients' own tables",
      {
          "name": config.dataset,
          "data_dir": os.path.abspath(data_dir),
          "clients": list(train),
      },
  )
  if config.simulation and not len(found.with_examples):
    raise ValueError(
        "`data_dir` must hold a client with rows for training and for testing in a simulation, "
        f"got none in {data_dir!r}."
    )
  return found


def load(
    config: config_lib.PrivateClustersConfig, data_dir: str | None, seed: int
) -> Clients:
  """Returns the clients of a seed.

  Raises:
    ValueError: If the data are missing, damaged or too few.
    OSError: If they can't be read.
  """
  if config.schema is not None:
    return _load_tables(config, data_dir, seed)
  task = task_registry.load_task(dataclasses.replace(config, seed=seed), data_dir)
  return Clients(
      task.clients, task.model, f"{task.source}, {task.partition}",
      {
          "name": task.name,
          "source": task.source,
          "partition": task.partition,
          "num_clients": len(task.clients),
          "warnings": list(task.warnings),
          "fingerprint": task.fingerprint(),
      },
  )


def inputs(
    config: config_lib.PrivateClustersConfig, unused_stack: contextlib.ExitStack, *,
    data_dir: str | None,
) -> tidy_experiment.Inputs:
  """Returns the inputs of a run; their data are a function of a seed that returns its clients.

  Raises:
    ValueError: As `load`, or if the settings don't fit the number of clients.
  """
  engines.check_installed(config.engine)
  if config.engine == engines.JAX:
    from fl_clustering.engine.jax import devices  # It changes the environment, for JAX.

    devices.local()
  load_seed = functools.lru_cache(maxsize=1)(functools.partial(load, config, data_dir))
  clients = load_seed(config.seed)
  engines.check_model(config.engine, clients.model)
  num_clients, num_parameters = len(clients.data), clients.model.num_parameters
  config.settings(config.epsilon[0]).check_clients(num_clients)
  if (config.evaluated_clients or 0) > len(clients.with_examples):
    raise validate.error(
        "evaluated_clients", f"be at most the {len(clients.with_examples)} clients with examples",
        config.evaluated_clients,
    )
  own_rounds = config.settings(config.epsilon[0]).budget(num_clients).own_rounds
  numbers = {
      epsilon: config.settings(epsilon).planning_number(num_parameters, num_clients)
      for epsilon in config.epsilon
  }
  warnings: list[str] = []
  for epsilon, number in numbers.items():
    texts = privacy_lib.budget_warnings(epsilon, config.delta, 1, num_clients)
    for text in texts:
      logging.warning("%s", text)
    if number > plan.LARGE_NOISE:
      texts.insert(0, plan.advice(number, config.num_clusters))
    warnings += (f"epsilon {epsilon:g}: {text}" for text in texts)
  identity = {
      **own_code.described(model=config.model),
      "dataset": clients.identity,
      "model": {"name": clients.model.name, "num_parameters": num_parameters},
  }
  return tidy_experiment.Inputs(
      load_seed,
      identity,
      about=identity if config.simulation else {},  # Or else the page would name the clients.
      warnings=tuple(warnings),
      lines=(
          f"data: {clients.source}; {num_clients:,} clients, {config.model} with "
          f"{num_parameters:,} parameters",
          f"privacy: epsilon {config.epsilon[0]:g} at delta {config.delta:g}. "
          f"{plan.advice(numbers[config.epsilon[0]], config.num_clusters)}",
          f"rounds: {config.rounds}, with {num_clients * own_rounds // config.rounds:,} clients in "
          f"each; a client takes part in {own_rounds} and pays for these",
      ),
  )
