"""The user's own data: a number of clusters, centroids, and every client's clusters."""

import hashlib
import os

import numpy as np

from experiment_shell import experiment
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import study
from experiments.kmeans import config as config_lib
from fl_clustering.points import client_folders

_KEYS = ("num_clusters",)
_VALUES = ("simplified_silhouette", "inertia", "rounds")


def _describe(tables, is_private):
  """Returns what `config.json` says of the user's `ClientTables`."""
  described = {
      "clients": list(tables.points),
      "num_columns": next(iter(tables.points.values())).shape[1],
      "column_names": tables.column_names and list(tables.column_names),
  }
  if is_private:
    return described
  digest = hashlib.sha256()
  for client_id, points in tables.points.items():
    digest.update(client_id.encode())
    digest.update(np.ascontiguousarray(points).tobytes())
  num_points = {client_id: len(points) for client_id, points in tables.points.items()}
  return {**described, "clients": num_points, "sha256": digest.hexdigest()}


def load(config, folder, recorded):
  """Reads the clients' files, and checks them.

  Args:
    config: `OwnDataConfig`.
    folder: The folder with a file per client.
    recorded: The `config.json` of a run to resume, or None.

  Returns:
    `experiment.Inputs` with the `ClientTables`.

  Raises:
    ValueError: If the files can't be used, differ from those of the run to resume, or
      have too few points.
    OSError: If they can't be read.
  """
  tables = client_folders.read_clients(folder)
  described = _describe(tables, is_private=config.privacy is not None)
  # Before the next check, which other data may fail too.
  if recorded is not None and recorded.get("data") != described:
    raise ValueError(
        "`data` must be what the run to resume began with, got other points, clients or "
        "columns."
    )
  config.check_enough_points(sum(map(len, tables.points.values())))
  return experiment.Inputs(
      tables, {"data": described}, (f"data: {len(tables.points)} clients in {folder}",)
  )


def column_names(described):
  """Returns the columns' names; made-up ones where the files have none.

  Args:
    described: What `config.json` says of the data.
  """
  return described["column_names"] or [
      f"column_{i}" for i in range(1, described["num_columns"] + 1)
  ]


def best_num_clusters(selection):
  """Returns the number of clusters with the largest simplified silhouette.

  Args:
    selection: The rows of `k_selection.csv`, as dicts.
  """
  return max(selection, key=lambda row: row["simplified_silhouette"])["num_clusters"]


def _fit(config, num_clusters, points):
  from fl_clustering.kmeans import FederatedKMeans  # pylint: disable=g-import-not-at-top

  model = FederatedKMeans(
      num_clusters,
      config.algorithm,
      n_init=config.n_init,
      min_count=config.min_count,
      privacy=config.privacy,
      standardize=config.standardize,
      random_state=config.seed,
  )
  return model.fit(points)


def _select(config, points, selection):
  """Tries the numbers of clusters; returns the model of the best."""

  def measure(num_clusters):
    model = _fit(config, num_clusters, points)
    return {
        "simplified_silhouette": model.silhouette_,
        "inertia": model.inertia_,
        "rounds": model.n_iter_,
    }

  selection.run([{"num_clusters": k} for k in config.candidates], measure)
  return _fit(config, best_num_clusters(selection.rows), points)


def _write_files(folder, names, model, sizes, assignments):
  """Writes centroids, rounds, and a file of clusters per client.

  Args:
    folder: The `OutputFolder`.
    names: The columns' names.
    model: The fitted `FederatedKMeans`.
    sizes: The clusters' numbers of points, or None where they are secret.
    assignments: A mapping from client id to the clusters of its rows.
  """
  columns = {} if sizes is None else {"num_points": sizes}
  folder.write_text(
      config_lib.CENTROIDS,
      output_folder.csv_text(
          ("cluster", *columns, *names),
          (
              (k, *(column[k] for column in columns.values()), *map(float, c))
              for k, c in enumerate(model.cluster_centers_)
          ),
      ),
  )
  folder.write_text(
      config_lib.ROUNDS,
      output_folder.csv_text(
          ("round", "stage", "inertia", "bytes_down_per_client", "bytes_up_per_client"),
          (
              (number, r.stage, "" if r.inertia is None else r.inertia, r.bytes_down, r.bytes_up)
              for number, r in enumerate(model.history_, start=1)
          ),
      ),
  )
  os.makedirs(folder.join(config_lib.ASSIGNMENTS), exist_ok=True)
  for client_id, clusters in assignments.items():
    folder.write_text(
        f"{config_lib.ASSIGNMENTS}/{client_id}.csv",
        output_folder.csv_text(("row", "cluster"), enumerate(clusters.tolist(), start=1)),
    )


def _summary(model, sizes_by_client):
  found = {"num_clusters": len(model.cluster_centers_), "rounds": model.n_iter_}
  if model.privacy_spent_ is not None:
    return {**found, "privacy": dict(model.privacy_spent_)}
  return {
      **found,
      "inertia": model.inertia_,
      "simplified_silhouette": model.silhouette_,
      "points_by_client": {
          client_id: sizes.tolist() for client_id, sizes in sizes_by_client.items()
      },
  }


def measure_all(config, inputs, folder):
  """Finds the clusters, and writes the files.

  Args:
    config: `OwnDataConfig`.
    inputs: What `load` returned.
    folder: The `OutputFolder`.

  Returns:
    The summary, a dict for JSON.
  """
  from fl_clustering import runtime  # pylint: disable=g-import-not-at-top

  tables, is_private = inputs.data, config.privacy is not None
  # Data that the flags don't fit are bad input, not a failed run.
  with runtime.LocalRuntime(), launch.input_errors():
    if is_private:
      model = _fit(config, config.num_clusters, tables.points)
    else:
      selection = study.Study(folder, config_lib.K_SELECTION, _KEYS, _VALUES)
      model = _select(config, tables.points, selection)
    assignments = {
        client_id: model.predict(points) for client_id, points in tables.points.items()
    }
  sizes_by_client = {
      client_id: np.bincount(clusters, minlength=len(model.cluster_centers_))
      for client_id, clusters in assignments.items()
  }
  sizes = None if is_private else sum(sizes_by_client.values())
  names = column_names(inputs.document["data"])
  _write_files(folder, names, model, sizes, assignments)
  return _summary(model, sizes_by_client)
