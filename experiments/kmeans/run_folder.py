"""The output folder of a federated k-means experiment: what is in it."""

import dataclasses
import hashlib
import importlib.metadata
import platform

import numpy as np

from experiment_shell import output_folder

# Of the sources' experiments.
MEASUREMENTS = "measurements.csv"
TIMING = "timing.json"
# Of the user's own data.
K_SELECTION = "k_selection.csv"
CENTROIDS = "centroids.csv"
ASSIGNMENTS = "assignments"
ROUNDS = "rounds.csv"

FIGURES = "figures"
_VERSIONS_OF = ("numpy", "scikit-learn", "tensorflow", "tensorflow-federated")


def open_folder(path, resume, overwrite):
  """Returns the `OutputFolder`; changes nothing yet.

  Raises:
    ValueError: If the folder can't be used this way.
  """
  return output_folder.OutputFolder(
      path, resume, overwrite,
      files=(MEASUREMENTS, TIMING, K_SELECTION, CENTROIDS, ROUNDS),
      folders=(FIGURES, ASSIGNMENTS),
  )


def document(config, data):
  """Returns what `config.json` holds.

  Args:
    config: A `PaperConfig` or `OwnDataConfig`.
    data: A dict that says what data is really used.
  """
  return {
      "config": config.to_json(),
      "data": data,
      "versions": {
          "python": platform.python_version(),
          **{name: importlib.metadata.version(name) for name in _VERSIONS_OF},
      },
  }


def tables_description(tables):
  """Returns what `config.json` says of the user's `ClientTables`."""
  digest = hashlib.sha256()
  for client_id, points in tables.points.items():
    digest.update(client_id.encode())
    digest.update(np.ascontiguousarray(points).tobytes())
  return {
      "clients": {client_id: len(points) for client_id, points in tables.points.items()},
      "num_columns": next(iter(tables.points.values())).shape[1],
      "column_names": tables.column_names and list(tables.column_names),
      "sha256": digest.hexdigest(),
  }


def check_same_data(folder, data):
  """Raises a ValueError unless the data is that of the run to resume."""
  if folder.recorded is not None and folder.recorded["data"] != data:
    raise ValueError(
        "`data` must be what the run to resume began with, got other points, clients or "
        "columns."
    )
