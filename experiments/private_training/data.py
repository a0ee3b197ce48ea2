"""The clients of a run: how they are loaded, and what the files say of them."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Mapping

from clustering_basics import validate
from experiments.private_training import config as config_lib
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import models
from fl_clustering.tasks import private_clients
from fl_clustering.tasks import registry as task_registry

# What a run to resume must have in common, by key in `config.json`.  What a private row holds is
# not compared, since whatever the file said of it would tell of the row.
_SAME = {"fingerprint": "examples", "data_dir": "folder", "clients": "clients"}


@dataclasses.dataclass(frozen=True, eq=False)
class Clients:
  """The clients of a run.

  Attributes:
    train: Their examples for training by client id; a client of tables may have none.
    test: Those for testing.
    true_groups: The number of every client's true group by client id; None if unknown.
    source: What the data are, in a line; public.
    document: What `config.json` says of the data.
  """

  train: Mapping[str, examples_lib.Examples]
  test: Mapping[str, examples_lib.Examples]
  true_groups: Mapping[str, int] | None
  model: model_lib.Model
  source: str
  document: Mapping[str, Any]


def _load_tables(
    config: config_lib.PrivateClustersConfig, data_dir: str | None, seed: int
) -> Clients:
  """Returns the clients of tables, of whose rows nothing is told."""
  schema = config.schema
  assert schema is not None
  if data_dir is None:
    raise validate.error("data_dir", "name the folder with the clients' files", None)
  clients = private_clients.load(schema, data_dir, seed)
  assert schema.classes is not None  # A private schema has them.
  model = models.build(
      config.model, schema.feature_shape, len(schema.classes), "float32",
      **config.options_for("model"),
  )
  are_usable = [len(clients.train[name]) and len(clients.test[name]) for name in clients.client_ids]
  if config.simulation and not any(are_usable):
    raise ValueError(
        "`data_dir` must hold a client with rows for training and for testing in a simulation, "
        f"got none in {data_dir!r}."
    )
  return Clients(
      clients.train, clients.test, None, model,
      f"{len(schema.feature_names)} features and {len(schema.classes)} classes (in the column "
      f"{schema.label}) of the clients' own tables",
      {
          "name": config.dataset,
          "data_dir": os.path.abspath(data_dir),
          "clients": list(clients.client_ids),
      },
  )


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
  task = task_registry.load_task(
      dataset=config.dataset,
      data_dir=data_dir,
      num_clients=config.num_clients,
      partition=config.partition,
      model=config.model,
      seed=seed,
      image_size=config.image_size,
      examples_per_client=config.examples_per_client,
      **config.options_for("partition"),
      **config.options_for("model"),
  )
  source = [task.source, task.partition]
  source += [
      f"{name.replace('_', ' ')} {value:g}"
      for name, value in task.partition_options.items() if value is not None
  ]
  if config.image_size is not None:
    source.append(f"averaged to {config.image_size} x {config.image_size}")
  return Clients(
      {client.client_id: client.train for client in task.clients},
      {client.client_id: client.test for client in task.clients},
      task.true_groups, task.model, ", ".join(source),
      {
          "name": task.name,
          "source": task.source,
          "partition": task.partition,
          "num_clients": len(task.clients),
          "warnings": list(task.warnings),
          "fingerprint": task.fingerprint(),
      },
  )


def check_recorded(recorded: Mapping[str, Any], document: Mapping[str, Any]) -> None:
  """Raises a ValueError if the run to resume had other data, as far as that may be known.

  Its answers are noisy sums over the data of then, and its budget is about those.
  """
  before, now = recorded["dataset"], document["dataset"]
  for name, what in _SAME.items():
    if name in now and before[name] != now[name]:
      raise ValueError(
          f"`data_dir` must give the same data as in the run to resume, got other {what} for "
          f"{now['name']!r}."
      )
