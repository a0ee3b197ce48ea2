"""The clients of a run: how they are loaded, and what the files say of them."""

from __future__ import annotations

from typing import Any, Mapping

from experiments.private_training import config as config_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import registry as task_registry


def load(
    config: config_lib.PrivateClustersConfig, data_dir: str | None, seed: int
) -> federated_task.FederatedTask:
  """Returns the task of a seed; ValueError if the data are missing, damaged or too few."""
  return task_registry.load_task(
      dataset=config.dataset,
      data_dir=data_dir,
      num_clients=config.num_clients,
      partition=config.partition,
      model=config.model,
      seed=seed,
      image_size=config.image_size,
      examples_per_client=config.examples_per_client,
      **{name: getattr(config, name) for name in config_lib.OPTIONS["partition"]},
      **config.model_options,
  )


def source_text(
    config: config_lib.PrivateClustersConfig, task: federated_task.FederatedTask
) -> str:
  """Returns what the clients' data are, in a line."""
  parts = [task.source, task.partition]
  parts += [
      f"{name.replace('_', ' ')} {value:g}"
      for name, value in task.partition_options.items() if value is not None
  ]
  if config.image_size is not None:
    parts.append(f"averaged to {config.image_size} x {config.image_size}")
  return ", ".join(parts)


def describe(task: federated_task.FederatedTask) -> dict[str, Any]:
  """Returns what `config.json` says of the data."""
  return {
      "dataset": {
          "name": task.name,
          "source": task.source,
          "partition": task.partition,
          "num_clients": len(task.clients),
          "warnings": list(task.warnings),
          "fingerprint": task.fingerprint(),
      },
  }


def check_recorded(recorded: Mapping[str, Any], document: Mapping[str, Any]) -> None:
  """Raises a ValueError if the run to resume had other data.

  Its answers are noisy sums over the data of then, and its budget is about those.
  """
  if recorded["dataset"]["fingerprint"] != document["dataset"]["fingerprint"]:
    raise ValueError(
        "`data_dir` must give the same data as in the run to resume, got other examples for "
        f"{document['dataset']['name']!r}."
    )
