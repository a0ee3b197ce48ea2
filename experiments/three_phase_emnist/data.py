"""The data of a three-phase run: how they are loaded, and what the files say of them."""

import contextlib
import os
from typing import Any, Mapping

from clustering_basics import validate
from experiment_shell import finished_run
from fl_clustering.engine import engines
from fl_clustering.methods import registry as method_registry
from fl_clustering.tasks import emnist
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import files
from fl_clustering.tasks import held_out
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import client_privacy
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import judging

_AGGREGATOR = (
    "Only phase 1 uses the aggregator that was chosen. Phase 2 and the controls average without "
    "it, so the aggregator is one reason why they differ from phase 1."
)


def with_engine(settings: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the settings with an engine, if none is given.

  Raises:
    ValueError: If the engine is not installed.
  """
  engine = settings.get("engine") or engines.usual()
  engines.check_installed(engine)
  return {**settings, "engine": engine}


def check_engine(engine: str) -> None:
  """Raises a ValueError if an installed engine can't be used here, as far as can be known now."""
  if engine == engines.JAX:
    from fl_clustering.engine.jax import devices  # It changes the environment, for JAX.

    devices.local()


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
    settings: The settings by name, `dataset`, `schema` and `seed` among them.

  Raises:
    ValueError: If the settings don't fit each other or the files.
  """
  dataset, schema = settings["dataset"], settings["schema"]
  reads_tables = task_registry.DATASETS[dataset].reads_tables
  if reads_tables and data_dir is None:
    raise validate.error("data_dir", "name the folder with the clients' files", None)
  if reads_tables:
    if "num_clients" in settings:
      raise validate.error(
          "num_clients", f"be left out for `dataset` {dataset}", settings["num_clients"]
      )
    found = files.num_clients(data_dir, schema, settings.get("test_share"), settings["seed"])
    settings = {**settings, "num_clients": found}
  return config_lib.ThreePhaseConfig(**settings)


def completed(
    settings: Mapping[str, Any], of_digits: Mapping[str, Any], data_dir: str | None,
    chosen: str | None = None,
) -> dict[str, Any]:
  """Returns the settings, with those of digits where the data are digits.

  Args:
    settings: As of `config_of`.
    of_digits: What a run on digits has where it is not given.
    chosen: What `chosen_dataset` returned.

  Raises:
    ValueError: If the settings don't fit each other.
  """
  partition = settings.get("partition") or of_digits["partition"]
  dataset = settings["dataset"]
  if dataset == "auto":
    missing_path = emnist.missing_path(data_dir)
    dataset = chosen or ("emnist" if missing_path is None else "digits")
  if partition == task_registry.NATURAL or dataset != "digits":
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


def chosen_dataset(resumed: str | None) -> str | None:
  """Returns the data set that the run to resume has, which it may have chosen itself.

  Args:
    resumed: The folder of that run.  What is wrong with it is said when it is opened: it is None
      then, and without such a run.
  """
  with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
    return None if resumed is None else (
        finished_run.FinishedRun(resumed).document["inputs"]["dataset"]["name"]
    )
  return None


def check_reuse(folder: str | None, output_dir: str | None) -> None:
  """Raises a ValueError unless the stages of the run in a folder can be reused.

  Args:
    folder: The folder; without one there is nothing to check.
    output_dir: The folder of the run that is to reuse them; None for a new one.
  """
  if folder is None:
    return
  checkpoints = os.path.join(folder, "checkpoints")
  if not os.path.isdir(checkpoints):
    raise ValueError(
        f"`reuse` must be the folder of a run, with its checkpoints, got {folder!r}."
    )
  validate.regular_files(reuse=checkpoints)
  # --overwrite would remove what is to be reused.
  if output_dir is not None and os.path.realpath(output_dir) == os.path.realpath(folder):
    raise ValueError(f"`reuse` must be another folder than `output_dir`, got {folder!r}.")


def load(
    config: config_lib.ThreePhaseConfig, data_dir: str | None, chosen: str | None,
    fold: held_out.Fold | None = None,
) -> federated_task.FederatedTask:
  """Returns the task that the settings name.

  Args:
    chosen: What `chosen_dataset` returned: what `--dataset=auto` chose is chosen again.
    fold: Which of the clients' examples are for testing; None for a random share.

  Raises:
    ValueError: If the data are missing, damaged or too few.
  """
  dataset = config.dataset
  if dataset == "auto" and chosen is not None:
    dataset = chosen
    # The digits don't take the cache folder in which EMNIST was not found.
    data_dir = None if dataset == "digits" else data_dir
  task = task_registry.load_task(
      **{**task_registry.options_of(config), "dataset": dataset}, data_dir=data_dir, fold=fold
  )
  task = held_out.hold_out(task, config.num_new_clients, config.seed)
  return held_out.with_validation(task, config.validation_share or 0.0, config.seed)


def metric_line(task: federated_task.FederatedTask) -> str:
  """Returns why methods are compared by the balanced accuracy; "" where by the accuracy."""
  if judging.metric_of(task) == judging.ACCURACY:
    return ""
  counts = task.train_label_counts
  return (
      "methods are compared by balanced accuracy, as the rarest class has "
      f"{counts.min() / counts.sum():.1%} of the training rows"
  )


def identity(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask
) -> dict[str, Any]:
  """Returns what a resumed run must find again: the code of own methods, and the data."""
  return {
      **describe_own_methods(config),
      "clients": dict(task.row_digests),
      "dataset": {"name": task.name, "fingerprint": task.fingerprint()},
  }


def describe(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask
) -> dict[str, Any]:
  """Returns what `config.json` says of the data, the model and privacy."""
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
          "fallback_reason": task.fallback_reason,
          "metric": judging.metric_of(task),
      },
      "model": {"name": task.model.name, "num_parameters": task.num_parameters},
      "privacy": client_privacy.spent(config),
  }


def warnings(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask
) -> tuple[str, ...]:
  """Returns what the reader of the report must not overlook."""
  found = list(task.warnings)
  if config.aggregator != "mean":
    found.append(_AGGREGATOR)
  if config.evaluated_clients is not None:
    found.append(
        f"Models were evaluated on the data of {config.evaluated_clients:,} of "
        f"{len(task.clients):,} clients, drawn at random (--evaluated_clients); tables and figures "
        "of clients and of the members of clusters are of these alone."
    )
  return tuple(found)


def describe_own_methods(config: config_lib.ThreePhaseConfig) -> dict[str, Any]:
  """Returns what `config.json` says of methods that are not of this project, if there are any."""
  digests = method_registry.digests_of_others((*config.methods, *config.personal))
  return {"own_methods": digests} if digests else {}


def stages_in_common(
    recorded: Mapping[str, Any], config: config_lib.ThreePhaseConfig
) -> list[str]:
  """Returns the stages of a run that another run could go on from.

  Args:
    recorded: The run's settings, as in its `config.json`.
  """
  before = config_lib.ThreePhaseConfig(**recorded)
  if before.training_settings() != config.training_settings():
    return []
  if before.cluster_rounds != config.cluster_rounds:
    return ["pretrain"]
  methods, personal = (
      [name for name in now if name in earlier
       and before.options_of(name) == config.options_of(name)]
      for now, earlier in (
          (config.chosen_methods, before.chosen_methods), (config.personal, before.personal)
      )
  )
  controls = [name for name in config.controls if name in before.controls]
  return ["pretrain", *methods, *controls, *personal]
