"""What is kept of a fit to clients' own rows: a model, and what it says of them."""

from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, Mapping, TYPE_CHECKING

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import model_folder
from experiment_shell import output_folder
from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables
from experiments.own_tables import cluster_profiles
from experiments.own_tables import predictions
from experiments.own_tables import private_centers
from fl_clustering.points import privacy

if TYPE_CHECKING:
  import pandas as pd

  from fl_clustering import load_model

CLUSTERS, CENTROIDS, SIZES = "clusters", "centroids", "cluster_sizes"
FILES = {
    tidy_tables.file_name(CLUSTERS): "the cluster of every row, as experiments:predict writes it",
    tidy_tables.file_name(CENTROIDS): "centroids in the data's units, private ones with noise",
    tidy_tables.file_name(cluster_profiles.NAME): "mean and spread of the clusters by column",
    tidy_tables.file_name(SIZES): "how many rows of every client are in every cluster",
}
FOLDERS = {model_folder.MODEL: "the model, for experiments:predict and load_model"}
# For `Experiment.read`.
READ: dict[str, tidy_tables.Columns] = {
    cluster_profiles.NAME: cluster_profiles.COLUMNS,
    SIZES: {"client": str, "cluster": int, "rows": int},
}
FEW_POINTS = tidy_experiment.Table(
    "few_points", f"Centers of the saved model on fewer than {privacy.FEW_POINTS} points",
    "Each such center may be a row, or show one to whoever knows the others. Only `privacy` "
    "protects rows.",
)


def frames(tidy: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
  """Returns the frames of `FEW_POINTS` and of the profiles' figure, of what was read."""
  import pandas as pd  # It takes long to import.  pylint: disable=g-import-not-at-top

  empty = pd.DataFrame(columns=list(READ[SIZES]))
  rows = tidy.get(SIZES, empty).groupby("cluster")["rows"].sum()
  few = int((rows < privacy.FEW_POINTS).sum())
  return {
      FEW_POINTS.name: pd.DataFrame([{"centers": few, "of": len(rows)}] if few else []),
      cluster_profiles.NAME: tidy.get(cluster_profiles.NAME, pd.DataFrame()),
  }


def _write(folder: str, table: str, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
  path = os.path.join(folder, tidy_tables.file_name(table))
  atomic_file.write_text(path, output_folder.csv_text(header, rows))


def write_model(
    folder: str, model: load_model.SavedModel, centroids: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
) -> None:
  """Writes a model and its centroids, and nothing that depends on rows otherwise.

  Args:
    centroids: Those to write, of shape (K, d); the model's by default.
    sizes: The clusters' numbers of rows, of shape (K,); None if they are secret.
  """
  columns = {} if sizes is None else {"num_points": sizes}
  header: Iterable[str] = ("cluster", *columns, *model.tables.feature_names)
  rows: Iterable[Iterable[Any]] = (
      (k, *(column[k] for column in columns.values()), *map(float, centroid))
      for k, centroid in enumerate(model.centroids if centroids is None else centroids)
  )
  if model.noise is not None:
    header, rows = private_centers.rows(model, model.noise)
  _write(folder, CENTROIDS, header, rows)
  model.save(os.path.join(folder, model_folder.MODEL))


def write(
    folder: str, model: load_model.SavedModel, clients: Any, with_means: bool = False
) -> None:
  """Writes a model, the clusters of all rows, and the clusters' profiles and sizes.

  Args:
    clients: The clients' tables, for `model.predict_tables`.
    with_means: Whether centroids are the means of the clusters' rows, whatever the model's are.
  """
  num_clusters, names = len(model.centroids), model.tables.feature_names
  sizes: list[tuple[str, int, int]] = []

  def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    path = os.path.join(folder, tidy_tables.file_name(CLUSTERS))
    for client_id, _, found in predictions.write(path, model.predict_tables(clients)):
      counts = np.bincount(found["cluster"], minlength=num_clusters)
      sizes.extend((client_id, k, count) for k, count in enumerate(counts.tolist()))
      yield model.tables.features(clients[client_id]), found["cluster"]

  profiles = cluster_profiles.measure(blocks(), num_clusters, len(names))
  means = np.where(profiles.counts[:, np.newaxis] > 0, profiles.means, model.centroids)
  write_model(folder, model, means if with_means else None, profiles.counts)
  _write(
      folder, cluster_profiles.NAME, cluster_profiles.HEADER,
      cluster_profiles.rows(profiles, names),
  )
  _write(folder, SIZES, READ[SIZES], sizes)
