"""The output folder of a three-phase run: what is in it, at its start and its end.

`config.json` comes first, `metrics.csv` grows with every round, `summary.json`
and the rest come at the end, `report.html` last.  `client_data/` and `checkpoints/`
belong to a run on its way; the checkpoints stay, as they hold the trained models.
"""

import importlib.metadata
import os
import platform
import shutil

import numpy as np

from experiment_shell import output_folder
from fl_clustering import checkpoint
from fl_clustering import client_privacy
from fl_clustering import config as config_lib

_FOLDERS = ("checkpoints", "client_data", "figures", "tensorboard")
_FILES = (
    "assignments.json",
    "client_metrics.csv",
    "client_weights.npz",
    "clients.csv",
    "group_recovery.csv",
    "metrics.csv",
)
_VERSIONS_OF = (
    "numpy", "scikit-learn", "networkx", "tensorflow", "tensorflow-federated",
)


def open_folder(path, resume, overwrite):
  """Returns the `OutputFolder` of a three-phase run; changes nothing yet.

  Raises:
    ValueError: If the folder can't be used this way.
  """
  folder = output_folder.OutputFolder(path, resume, overwrite, _FILES, _FOLDERS)
  if folder.recorded is not None:
    try:
      config_lib.ThreePhaseConfig.from_json(folder.recorded["config"])
      folder.recorded["dataset"]["fingerprint"]  # pylint: disable=pointless-statement
    except (ValueError, KeyError, TypeError) as e:
      raise folder.damaged(e) from e
  return folder


def start(folder, config, task, data_dir):
  """Makes the folder ready and writes `config.json` and `clients.csv`.

  Args:
    folder: The `OutputFolder`.
    config: The run's `ThreePhaseConfig`.
    task: The `FederatedTask` really used.
    data_dir: Where its data come from, as the user gave it, or `None`.

  Raises:
    ValueError: If the run to resume had other data, or the folder can't be written.
  """
  document = _describe(config, task, data_dir)
  if folder.recorded is not None:
    recorded = folder.recorded["dataset"]["fingerprint"]
    if recorded != document["dataset"]["fingerprint"]:
      raise ValueError(
          "`data_dir` must give the same data as in the run to resume, got other "
          f"examples for {task.name!r}."
      )
  folder.start(document)
  try:
    os.makedirs(client_data(folder), exist_ok=True)
    header = ["client_id", "group", "num_train", "num_test"]
    header += [f"train_label_{label}" for label in range(task.num_classes)]
    folder.write_text("clients.csv", output_folder.csv_text(header, _client_rows(task)))
  except OSError as e:
    raise folder.unusable(e) from e


def client_data(folder):
  """Returns the path of the clients' own files."""
  return folder.join("client_data")


def checkpoints(folder):
  """Returns the `Checkpoints` of the run."""
  return checkpoint.Checkpoints(folder.join("checkpoints"))


def finish(folder):
  """Removes what only a run on its way needs."""
  shutil.rmtree(client_data(folder))


def _describe(config, task, data_dir):
  versions = {name: importlib.metadata.version(name) for name in _VERSIONS_OF}
  return {
      "config": config.to_json(),
      "dataset": {
          "requested": config.dataset,
          "name": task.name,
          "data_dir": data_dir,
          "source": task.source,
          "partition": task.partition,
          **{
              name: task.partition_options.get(name)
              for name in config_lib.OPTIONS["partition"]
          },
          "num_clients": len(task.clients),
          "num_classes": task.num_classes,
          "image_shape": list(task.model.input_shape),
          "train_examples": task.num_train_examples,
          "client_test_examples": task.num_client_test_examples,
          "global_test_examples": len(task.global_test),
          "global_test_source": task.global_test_source,
          "fallback_reason": task.fallback_reason,
          "warnings": list(task.warnings),
          "fingerprint": task.fingerprint(),
      },
      "model": {"name": task.model.name, "num_parameters": task.num_parameters},
      "privacy": client_privacy.spent(config),
      "versions": {"python": platform.python_version(), **versions},
  }


def _client_rows(task):
  for client in task.clients:
    yield [
        client.client_id,
        "" if client.group is None else client.group,
        len(client.train),
        len(client.test),
        *np.bincount(client.train.labels, minlength=task.num_classes),
    ]
