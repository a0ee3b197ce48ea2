"""What is kept of a fit to clients' own rows: a model, and what it says of them."""

from __future__ import annotations

import collections
import math
import os
from typing import Any, Iterable, Iterator, TYPE_CHECKING

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import model_folder
from dp_clustering import private_centers
from experiment_shell import output_folder
from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables
from experiments.cluster_tables import cluster_profiles
from experiments.own_tables import predictions
from fl_clustering.points import privacy
from fl_clustering.tables import encode

if TYPE_CHECKING:
  import pandas as pd

  from fl_clustering import load_model
  from fl_clustering.tables import folder as folder_lib

CLUSTERS, CENTROIDS, SIZES, CLASSES = "clusters", "centroids", "cluster_sizes", "classes"
FILES = {
    tidy_tables.file_name(CLUSTERS): "the cluster of every row, as experiments:predict writes it",
    tidy_tables.file_name(CENTROIDS): "centroids in the data's units, private ones with noise",
    tidy_tables.file_name(cluster_profiles.NAME): "mean and spread of the clusters by column",
    tidy_tables.file_name(SIZES): "how many rows of every client are in every cluster",
    tidy_tables.file_name(CLASSES): "how many rows of every known class are in every cluster",
}
FOLDERS = {model_folder.MODEL: "the model, for experiments:predict and load_model"}
# For `Experiment.read`.
READ: dict[str, tidy_tables.Columns | None] = {
    CENTROIDS: None,
    cluster_profiles.NAME: cluster_profiles.COLUMNS,
    SIZES: {"client": str, "cluster": int, "rows": int},
    CLASSES: {"class": str, "cluster": int, "rows": int},
}
# Of the file of private centers.
_UNKNOWN = "unknown"
_COUNT, _COUNT_SD = "noisy_count", "count_sd"
# More columns of the data, or clusters, don't fit on a page.
_MOST_COLUMNS = 15
_MOST_CLUSTERS = 12

FEW_POINTS = tidy_experiment.Table(
    "few_points", f"Centers of the saved model on fewer than {privacy.FEW_POINTS} points",
    "Each such center may be a row, or show one to whoever knows the others. Only `privacy` "
    "protects rows.",
)
EXACT_CENTROIDS = tidy_experiment.Table(
    "exact_centroids", "Centroids",
    "In the data's units, a column for every cluster. At most "
    f"{_MOST_COLUMNS} columns of the data and {_MOST_CLUSTERS} clusters; `centroids.csv` has all.",
    form="{:.5g}", printed=True,
)
PRIVATE_CENTERS = tidy_experiment.Table(
    "centroids", "Private centers in the data's units",
    "A column for every cluster. Behind ± is the standard deviation of the noise that was added: "
    "it is no confidence interval, as which rows there are is not in it. Unknown: that "
    f"exceeds {private_centers.LARGEST_NOISE:g} of the range of the column, or the noisy count of "
    f"rows is below {private_centers.LEAST_COUNT:g} of its standard deviations. With max_points, no "
    "number of rows is known, as clients whose sums are cut count less. At most "
    f"{_MOST_COLUMNS} columns of the data and {_MOST_CLUSTERS} clusters; `centroids.csv` has all.",
    is_text=True, printed=True,
)


def few_points(sizes: pd.DataFrame) -> list[dict[str, int]]:
  """Returns the row of `FEW_POINTS`, of the table `SIZES`; none if there is no such center."""
  rows = sizes.groupby("cluster")["rows"].sum()
  few = int((rows < privacy.FEW_POINTS).sum())
  return [{"centers": few, "of": len(rows)}] if few else []


def write_table(
    folder: str, table: str, header: Iterable[str], rows: Iterable[Iterable[Any]]
) -> None:
  """Writes a table into a run's folder."""
  path = os.path.join(folder, tidy_tables.file_name(table))
  atomic_file.write_text(path, output_folder.csv_text(header, rows))


def _private_rows(
    model: load_model.SavedModel, noise: private_centers.PrivateCenters
) -> tuple[list[str], list[list[Any]]]:
  """Returns the header of a file of private centers, and its rows, one for every cluster."""
  names = model.tables.feature_names
  header = ["cluster", _COUNT, _COUNT_SD, *names, *(f"noise_sd of {name}" for name in names)]
  cells = np.where(model.are_known, noise.centers.astype(object), _UNKNOWN)
  columns = (noise.noisy_counts, noise.count_sd, *cells.T, *noise.noise_sd.T)
  return header, [[k, *row] for k, row in enumerate(zip(*columns))]


def _text(value: float, noise_sd: float) -> str:
  """Returns a number and its noise, which has two digits, such as `70.1 ± 0.032`."""
  if math.isnan(value):
    return _UNKNOWN
  noise_sd = float(f"{noise_sd:.2g}")
  digits = 1 - math.floor(math.log10(noise_sd)) if noise_sd > 0 else 6
  form = f".{digits}f" if 0 <= digits <= 12 else ".12g"
  return " ± ".join(f"{round(x, digits) + 0:{form}}" for x in (value, noise_sd))


def exact_frame(centroids: pd.DataFrame) -> pd.DataFrame:
  """Returns the frame of `EXACT_CENTROIDS`, with a column for every cluster, of their file."""
  # By place, because the user's columns may have our names.
  shown = centroids.iloc[:_MOST_CLUSTERS, 1 : 1 + _MOST_COLUMNS].T
  shown.insert(0, "column", shown.index)
  return shown


def private_frame(centroids: pd.DataFrame) -> pd.DataFrame:
  """Returns the frame of `PRIVATE_CENTERS`, with a column for every cluster, of their file."""
  import pandas as pd  # It takes long to import.  pylint: disable=g-import-not-at-top

  # By place, because the user's columns may have our names.
  clusters = centroids.iloc[:_MOST_CLUSTERS, 1:].replace(_UNKNOWN, "nan").to_numpy(float)
  num_columns = (clusters.shape[1] - 2) // 2
  names = [_COUNT, *centroids.columns[3 : 3 + num_columns]]
  values = clusters[:, [0, *range(2, 2 + num_columns)]]
  noise_sd = clusters[:, [1, *range(2 + num_columns, 2 + 2 * num_columns)]]
  shown = [
      [name, *map(_text, *pair)]
      for name, *pair in zip(names[: 1 + _MOST_COLUMNS], values.T, noise_sd.T)
  ]
  return pd.DataFrame(shown, columns=["column", *map(str, range(len(clusters)))])


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
    header, rows = _private_rows(model, model.noise)
  write_table(folder, CENTROIDS, header, rows)
  model.save(os.path.join(folder, model_folder.MODEL))


def write(folder: str, model: load_model.SavedModel, clients: folder_lib.Folder) -> None:
  """Writes a model, the clusters of all rows, their profiles and sizes, and known classes in them.

  The centroids are the means of the clusters' rows, of views the model's.

  Args:
    clients: Scaled.
  """
  num_clusters, names = len(model.centroids), model.tables.feature_names
  sizes: list[tuple[str, int, int]] = []
  classes: collections.Counter[tuple[str, int]] = collections.Counter()

  def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    path = os.path.join(folder, tidy_tables.file_name(CLUSTERS))
    for client_id, _, found in predictions.write(path, model.predict_tables(clients)):
      own, clusters = clients[client_id], found["cluster"]
      counts = np.bincount(clusters, minlength=num_clusters)
      sizes.extend((client_id, k, count) for k, count in enumerate(counts.tolist()))
      if own.labels is not None:
        classes.update(zip(own.labels.tolist(), clusters.tolist()))
      yield own.features, clusters

  profiles = cluster_profiles.measure(blocks(), num_clusters, len(names))
  means = np.where(profiles.counts[:, np.newaxis] > 0, profiles.means, model.centroids)
  write_model(folder, model, None if model.tables.has_views else means, profiles.counts)
  write_table(
      folder, cluster_profiles.NAME, cluster_profiles.HEADER,
      cluster_profiles.rows(profiles, names),
  )
  write_table(folder, SIZES, ("client", "cluster", "rows"), sizes)
  if classes:
    write_table(folder, CLASSES, ("class", "cluster", "rows"), (
        (label, k, classes[label, k])
        for label in encode.in_order({label for label, _ in classes}) for k in range(num_clusters)
    ))
