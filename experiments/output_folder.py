"""The output folder of a three-phase run: whether it can be used, and its start.

`config.json` comes first, `metrics.csv` grows with every round, `summary.json`
and the rest come at the end, `report.html` last: a folder with a report is a
finished run.  `client_data/` and `checkpoints/` belong to a run on its way; the
checkpoints stay, as they hold the trained models.
"""

import csv
import importlib.metadata
import io
import json
import os
import platform
import shutil

import numpy as np

from fl_clustering import atomic_file
from fl_clustering import checkpoint
from fl_clustering import config as config_lib

_CONFIG = "config.json"
SUMMARY = "summary.json"
_REPORT = "report.html"
_FOLDERS = ("checkpoints", "client_data", "figures", "tensorboard")
_FILES = (
    _CONFIG,
    SUMMARY,
    _REPORT,
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


def json_text(value):
  """Returns a value as the text of a JSON file."""
  return json.dumps(value, indent=1, allow_nan=False) + "\n"


def csv_text(header, rows):
  """Returns a table as the text of a CSV file."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(header)
  writer.writerows(rows)
  return text.getvalue()


def _is_ours(name):
  # Temporary files of an interrupted write are called `.NAME.PID.ENDING`.
  return name in _FOLDERS or any(
      name == file or name.startswith(f".{file}.") for file in _FILES
  )


class OutputFolder:
  """The output folder of one run."""

  def __init__(self, path, resume, overwrite):
    """Looks at the folder; changes nothing yet.

    Args:
      path: The folder, which need not exist.
      resume: Whether to go on with the run in it.
      overwrite: Whether to remove the run in it.

    Raises:
      ValueError: If the folder can't be used this way.
    """
    self.path = os.path.abspath(path)
    self._overwrite = overwrite
    if resume and overwrite:
      raise ValueError("`resume` must not be given together with `overwrite`.")
    names = self._names()
    if names and not (resume or overwrite):
      raise ValueError(
          "`output_dir` must be empty without --resume or --overwrite, got "
          f"{path!r} with {len(names)} entries."
      )
    foreign = sorted(name for name in names if not _is_ours(name))
    if foreign and _CONFIG not in names:
      raise ValueError(
          "`output_dir` must hold a run of this program for --resume or --overwrite, "
          f"got {path!r} with {foreign[0]!r} in it."
      )
    self.recorded = self._read_config() if resume and _CONFIG in names else None
    self.is_finished = self.recorded is not None and _REPORT in names

  def _names(self):
    if not os.path.lexists(self.path):
      return []
    try:
      return os.listdir(self.path)
    except OSError as e:
      raise self._unusable(e) from e

  def _unusable(self, error):
    return ValueError(
        "`output_dir` must be a folder that can be read and written, got "
        f"{self.path!r} ({error.strerror})."
    )

  def _read_config(self):
    path = self.join(_CONFIG)
    try:
      with open(path, encoding="utf-8") as f:
        recorded = json.load(f)
      config_lib.ThreePhaseConfig.from_json(recorded["config"])
      return recorded
    except (ValueError, KeyError, TypeError) as e:
      raise ValueError(
          f"`output_dir` must hold a readable {_CONFIG} to resume, got {path!r} "
          f"({e})."
      ) from e

  def join(self, name):
    return os.path.join(self.path, name)

  def check_same_config(self, config):
    """Raises a ValueError unless `config` is the one of the run to resume."""
    if self.recorded is None:
      return
    recorded = self.recorded["config"]
    for name, value in config.to_json().items():
      if recorded.get(name) != value:
        raise ValueError(
            f"`{name}` must be {recorded.get(name)!r}, as in the run to resume, got "
            f"{value!r}."
        )

  def start(self, config, task, data_dir):
    """Makes the folder ready and writes `config.json` and `clients.csv`.

    Args:
      config: The run's `ThreePhaseConfig`.
      task: The `FederatedTask` really used.
      data_dir: Where its data come from, as the user gave it, or `None`.

    Raises:
      ValueError: If the run to resume had other data, or the folder can't be
        written.
    """
    document = _describe(config, task, data_dir)
    if self.recorded is not None:
      recorded = self.recorded["dataset"]["fingerprint"]
      if recorded != document["dataset"]["fingerprint"]:
        raise ValueError(
            "`data_dir` must give the same data as in the run to resume, got other "
            f"examples for {task.name!r}."
        )
    try:
      if self._overwrite:
        self._clear()
      os.makedirs(self.client_data, exist_ok=True)
      if self.recorded is None:
        atomic_file.write_text(self.join(_CONFIG), json_text(document))
      header = ["client_id", "group", "num_train", "num_test"]
      header += [f"train_label_{label}" for label in range(task.num_classes)]
      atomic_file.write_text(
          self.join("clients.csv"), csv_text(header, _client_rows(task))
      )
    except OSError as e:
      raise self._unusable(e) from e

  def _clear(self):
    # What the user put beside the run stays.
    for name in filter(_is_ours, self._names()):
      if name in _FOLDERS:
        shutil.rmtree(self.join(name))
      else:
        os.remove(self.join(name))

  @property
  def client_data(self):
    return self.join("client_data")

  def checkpoints(self):
    return checkpoint.Checkpoints(self.join("checkpoints"))

  def finish(self):
    """Removes what only a run on its way needs."""
    shutil.rmtree(self.client_data)

  def read_summary(self):
    """Returns the summary of a finished run."""
    with open(self.join(SUMMARY), encoding="utf-8") as f:
      return json.load(f)


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
          "dirichlet_alpha": task.dirichlet_alpha,
          "num_groups": task.num_groups,
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
