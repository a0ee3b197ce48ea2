"""The data of a three-phase run: how they are loaded, and what the files say of them."""

from typing import Any, Mapping

from clustering_basics import validate
from fl_clustering.engine import engines
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import files
from fl_clustering.tasks import model as model_lib
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import own_code


def with_engine(settings: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the settings with an engine, if none is given.

  Raises:
    ValueError: If the engine is not installed.
  """
  engine = settings.get("engine") or engines.usual()
  engines.check_installed(engine)
  return {**settings, "engine": engine}


def check_engine(engine: str) -> bool:
  """Returns whether an engine computes on an accelerator.

  Raises:
    ValueError: If an installed engine can't be used here, as far as can be known now.
  """
  if engine != engines.JAX:
    return False
  from fl_clustering.engine.jax import devices  # It changes the environment, for JAX.

  return devices.local()[0].platform != "cpu"


def check_model(config: config_lib.ThreePhaseConfig, model: model_lib.Model) -> None:
  """Raises a ValueError unless the engine and all methods can work with the model."""
  engines.check_model(config.engine, model)
  for name in (*config.methods, *config.personal):
    method_registry.entry(name).check_model(model)


def engine_line(engine: str) -> str | None:
  """Returns a line on the engine of a run; None for the usual one."""
  if engine == engines.TFF:
    return None
  if engines.is_installed(engines.TFF):
    return f"engine: {engine}"
  return f"engine: {engine}, as TensorFlow Federated is not installed"


def config_of(
    settings: Mapping[str, Any], data_dir: str | None
) -> config_lib.ThreePhaseConfig:
  """Returns the `ThreePhaseConfig` of settings; clients' files have their own number of clients.

  Args:
    settings: The settings by name, `dataset` and `schema` among them.

  Raises:
    ValueError: If the settings don't fit each other or the files.
  """
  dataset = settings["dataset"]
  if task_registry.DATASETS[dataset].reads_tables:
    if "num_clients" in settings:
      raise validate.error(
          "num_clients", f"be left out for `dataset` {dataset}", settings["num_clients"]
      )
    settings = {**settings, "num_clients": files.num_clients(data_dir, settings["schema"])}
  return config_lib.ThreePhaseConfig(**settings)


def completed(
    settings: Mapping[str, Any], of_digits: Mapping[str, Any], data_dir: str | None
) -> dict[str, Any]:
  """Returns the settings; on digits, those that are not given get the values for digits.

  For example, `pretrain_rounds` does.  But an option of methods gets a value only if one of the
  run's methods uses it.

  Args:
    settings: The settings by name; None, or no name, where one is not given.
    of_digits: The values for digits, by name.

  Raises:
    ValueError: If the settings don't fit each other.
  """
  partition = settings.get("partition") or of_digits["partition"]
  if settings["dataset"] != "digits":
    return dict(settings)
  missing = {n: v for n, v in of_digits.items() if settings.get(n) is None}
  of_partitions, of_methods = (
      config_lib.ThreePhaseConfig.of_choices[name] for name in ("partition", "methods")
  )
  of_data = {
      n: v for n, v in missing.items()
      if n not in of_methods and partition in of_partitions.get(n, [partition])
  }
  # An option of methods is completed where one of the run's uses it, and refused elsewhere.
  used = config_of({**settings, **of_data}, data_dir)
  of_used = {n: v for n, v in missing.items() if n in of_methods and getattr(used, n) is not None}
  if "num_clusters" in of_used:  # Without one given, there are no more of them than clients.
    of_used["num_clusters"] = min(of_used["num_clusters"], used.num_clusters)
  return {**settings, **of_data, **of_used}


def identity(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask
) -> dict[str, Any]:
  """Returns what a resumed run must find again: own code, and the data."""
  return {
      **own_code.described((*config.methods, *config.personal), config.model),
      "clients": dict(task.row_digests),
      "dataset": {"name": task.name, "fingerprint": task.fingerprint()},
  }


def describe(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask
) -> dict[str, Any]:
  """Returns what `config.json` says of the data and the model."""
  return {
      "dataset": {
          "name": task.name,
          "source": task.source,
          "partition": task.partition,
          **{
              name: task.partition_options.get(name)
              for name in config.of_choices["partition"]
          },
          "num_clients": len(task.clients),
          "num_new_clients": len(task.new_clients),
          "num_classes": task.num_classes,
          "class_names": task.class_names and list(task.class_names),
          "input_shape": list(task.model.input_shape),
          "input_dtype": task.model.input_dtype,
          **{f"{part}_examples": number for part, number in task.num_examples.items()},
          "global_test_source": task.global_test_source,
      },
      "model": {"name": task.model.name, "num_parameters": task.num_parameters},
  }


def warnings(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask
) -> tuple[str, ...]:
  """Returns what the reader of the report must not overlook."""
  found = list(task.warnings)
  if config.evaluated_clients is not None:
    found.append(
        f"Models were evaluated on the data of {config.evaluated_clients:,} of "
        f"{len(task.clients):,} clients, drawn at random (--evaluated_clients); what is said of "
        "clients and of the members of clusters is of these alone."
    )
  return tuple(found)
