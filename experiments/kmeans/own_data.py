"""The user's own data: a number of clusters, centroids, and every client's clusters."""

import collections
import hashlib
import os
import re
import tempfile

import numpy as np

from experiment_shell import experiment
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import study
from experiments import cluster_profiles
from experiments.kmeans import config as config_lib
from fl_clustering.tables import client_tables
from fl_clustering.tables import columns as columns_lib

# Of a file's name, without what is added to it.
_MOST_BYTES = 200
KEYS = ("num_clusters",)
VALUES = ("simplified_silhouette", "inertia", "rounds")


def _describe(tables, is_private):
  """Returns what `config.json` says of the user's `ClientTables`."""
  described = {
      "clients": list(tables.client_ids),
      "features": list(tables.feature_names),
      "levels": {name: list(found) for name, found in tables.format.encoding.levels.items()},
  }
  if is_private:
    return described
  return {**described, "clients": dict(tables.num_rows), "sha256": tables.sha256}


def _data_line(tables, folder):
  """Returns what the program prints of the data."""
  if len(tables.client_ids) > 1:
    return f"data: {len(tables.client_ids)} clients in {folder}"
  return f"data: 1 client in {folder}; {columns_lib.SEVERAL_CLIENTS}"


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
      there are too few points or clients.
    OSError: If they can't be read.
  """
  tables = client_tables.open_folder(folder, config.tables).filled()
  described = _describe(tables, is_private=config.privacy is not None)
  # Before the next check, which other data may fail too.
  if recorded is not None and recorded.get("data") != described:
    raise ValueError(
        "`data_dir` must hold what the run to resume began with, got other points, clients or "
        "columns."
    )
  try:
    config.check_enough_clients(len(tables.client_ids))
  except ValueError as e:
    raise ValueError(f"{str(e).rstrip('.')}; {columns_lib.SEVERAL_CLIENTS}.") from e
  config.check_enough_points(sum(tables.num_rows.values()))
  return experiment.Inputs(tables, {"data": described}, (_data_line(tables, folder),))


def best_num_clusters(selection):
  """Returns the number of clusters with the largest simplified silhouette.

  Args:
    selection: The rows of `k_selection.csv`, as dicts.
  """
  return max(selection, key=lambda row: row["simplified_silhouette"])["num_clusters"]


def _fit(config, num_clusters, files):
  # pylint: disable=g-import-not-at-top
  from dp_clustering import noise
  from fl_clustering.kmeans import estimator
  from fl_clustering.kmeans import private_fit
  # pylint: enable=g-import-not-at-top

  kmeans = config.kmeans(num_clusters)
  if kmeans.privacy is not None:
    return private_fit.fit(kmeans, files, noise.SecureNoise())
  return estimator.FITS[kmeans.algorithm](kmeans, files)


def _write_clients(config, tables, folder):
  """Writes a file per client for the fit, one after another; returns the `PointFiles`."""
  # pylint: disable=g-import-not-at-top
  from fl_clustering.kmeans import private_fit
  from fl_clustering.points import point_files
  # pylint: enable=g-import-not-at-top

  if config.privacy is not None:
    return private_fit.write_files(tables.features(), config.privacy, folder)
  return point_files.write_files(tables.features(), folder)


def select(config, files, selection):
  """Tries the numbers of clusters; returns the fit of the best.

  Args:
    config: `OwnDataConfig` without privacy.
    files: The clients as `PointFiles`.
    selection: The `Study` of `k_selection.csv`.
  """

  def measure(num_clusters):
    fit = _fit(config, num_clusters, files)
    return {
        "simplified_silhouette": fit.silhouette,
        "inertia": fit.inertia,
        "rounds": fit.num_rounds,
    }

  selection.run([{"num_clusters": k} for k in config.candidates], measure)
  return _fit(config, best_num_clusters(selection.rows), files)


def centroid_table(centroids, names, sizes):
  """Returns header and rows of `centroids.csv`.

  Args:
    centroids: Of shape (K, d).
    names: The features' names.
    sizes: The clusters' numbers of points, or None where they are secret.
  """
  columns = {} if sizes is None else {"num_points": sizes}
  rows = (
      (k, *(column[k] for column in columns.values()), *map(float, c))
      for k, c in enumerate(centroids)
  )
  return ("cluster", *columns, *names), rows


def round_table(fit):
  """Returns header and rows of `rounds.csv`."""
  rows = (
      (number, r.stage, "" if r.inertia is None else r.inertia, r.bytes_down, r.bytes_up)
      for number, r in enumerate(fit.history, start=1)
  )
  return ("round", "stage", "inertia", "bytes_down_per_client", "bytes_up_per_client"), rows


def _summary(fit, sizes_by_client):
  found = {"num_clusters": len(fit.centroids), "rounds": fit.num_rounds}
  if fit.privacy_spent is not None:
    return {**found, "privacy": dict(fit.privacy_spent)}
  return {
      **found,
      "inertia": fit.inertia,
      "simplified_silhouette": fit.silhouette,
      "points_by_client": {
          client_id: sizes.tolist() for client_id, sizes in sizes_by_client.items()
      },
  }


def assignments_name(client_id):
  """Returns what the file of a client's assignments is called; ids may hold any character."""
  # A leading dot would hide the file, or name another folder.
  name = re.sub(r"^\.|[%/\x00-\x1f]", lambda found: f"%{ord(found[0]):02X}", client_id)
  if len(name.encode()) > _MOST_BYTES:
    digest = hashlib.sha256(client_id.encode()).hexdigest()
    name = f"{name.encode()[:_MOST_BYTES].decode(errors='ignore')}~{digest[:16]}"
  return f"{name}.csv"


def _assign(folder, model, tables):
  """Gives every row its cluster, and writes a file per client.

  Yields:
    Every client's id, features and clusters.
  """
  os.makedirs(folder.join(config_lib.ASSIGNMENTS), exist_ok=True)
  for client_id, table, predicted in model.predict_tables(tables):
    clusters = predicted["cluster"]
    ids = {} if table.row_ids is None else {"id": table.row_ids}
    folder.write_text(
        f"{config_lib.ASSIGNMENTS}/{assignments_name(client_id)}",
        output_folder.csv_text(
            ("row", *ids, "cluster"), zip(table.rows.tolist(), *ids.values(), clusters.tolist())
        ),
    )
    yield client_id, table.features, clusters


def measure_all(config, inputs, folder, open_runtime):
  """Finds the clusters, and writes the files.

  Args:
    config: `OwnDataConfig`.
    inputs: What `load` returned.
    folder: The `OutputFolder`.
    open_runtime: A function that returns where TFF computes, a context manager.

  Returns:
    The summary, a dict for JSON.
  """
  from fl_clustering.kmeans import saved_kmeans  # pylint: disable=g-import-not-at-top

  tables, is_private = inputs.data, config.privacy is not None
  # Data that the flags don't fit are bad input, not a failed run.
  with (
      tempfile.TemporaryDirectory() as clients, open_runtime(), launch.input_errors()
  ):
    files = _write_clients(config, tables, clients)
    if is_private:
      fit = _fit(config, config.num_clusters, files)
    else:
      selection = study.Study(folder, config_lib.K_SELECTION, KEYS, VALUES)
      fit = select(config, files, selection)
  model = saved_kmeans.SavedKMeans(fit.centroids, fit.scaling, tables.format, fit.radius)
  sizes_by_client = {}

  def assigned():
    for client_id, features, clusters in _assign(folder, model, tables):
      sizes_by_client[client_id] = np.bincount(clusters, minlength=len(fit.centroids))
      yield features, clusters

  names, centroids, sizes = tables.feature_names, fit.centroids, None
  if is_private:
    collections.deque(assigned(), maxlen=0)
  else:
    profiles = cluster_profiles.measure(assigned(), len(fit.centroids), len(names))
    sizes = sum(sizes_by_client.values())
    # Whatever the algorithm's last step was, the file holds the means of the clusters' points.
    centroids = np.where(sizes[:, np.newaxis] > 0, profiles.means, fit.centroids)
    folder.write_text(
        config_lib.PROFILES,
        output_folder.csv_text(*cluster_profiles.table(profiles, names)),
    )
  for name, table in (
      (config_lib.CENTROIDS, centroid_table(centroids, names, sizes)),
      (config_lib.ROUNDS, round_table(fit)),
  ):
    folder.write_text(name, output_folder.csv_text(*table))
  model.save(folder.join(config_lib.MODEL))
  return _summary(fit, sizes_by_client)
