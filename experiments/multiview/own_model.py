"""The model of the user's own sites, and what it says of them: one fit for all files.

It has equal view weights and the first seed, so it is that of the method `equal` in the table.
"""

from __future__ import annotations

import tempfile
from typing import Any, Iterable, Sequence, TYPE_CHECKING

import numpy as np

from experiment_shell import output_folder
from experiments import cluster_profiles
from experiments.multiview import config as config_lib
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import saved_multiview
from fl_clustering.points import point_files

if TYPE_CHECKING:
  from fl_clustering.tables import view_format
  from fl_clustering.tables import view_tables

VIEW_WEIGHTS = "equal"


def fit(
    files: point_files.PointFiles,
    format_: view_format.ViewFormat,
    num_clusters: int,
    config: config_lib.MultiViewStudyConfig,
) -> saved_multiview.SavedMultiView:
  """Returns the model of a fit to the clients' files."""
  settings = multiview_config.MultiViewConfig(
      num_clusters, view_weights=VIEW_WEIGHTS, seed=config.seed, **config.method_settings
  )
  found = fitting.fit(settings, files, format_.widths)
  return saved_multiview.SavedMultiView(found.model, format_)


def _write_clusters(
    folder: output_folder.OutputFolder, predicted: Iterable[tuple[str, Any, Any]]
) -> None:
  rows, ids = [], {}
  for site, table, found in predicted:
    ids = {} if table.row_ids is None else {"id": table.row_ids}
    columns = (table.rows.tolist(), *ids.values(), found["cluster"].tolist())
    rows += [(site, *row) for row in zip(*columns)]
  folder.write_text(
      config_lib.CLUSTERS, output_folder.csv_text(("site", "row", *ids, "cluster"), rows)
  )


def centroid_table(
    centroids: np.ndarray, sizes: Iterable[int], names: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple]]:
  """Returns header and rows of `centroids.csv`.

  Args:
    centroids: Of shape (K, D).
    sizes: The clusters' numbers of points.
    names: The features' names.
  """
  rows = [
      (k, int(size), *map(float, centroid))
      for k, (size, centroid) in enumerate(zip(sizes, centroids))
  ]
  return ("cluster", "num_points", *names), rows


def write(
    folder: output_folder.OutputFolder,
    tables: view_tables.ViewTables,
    num_clusters: int,
    config: config_lib.MultiViewStudyConfig,
) -> None:
  """Fits a model; writes it, with the clusters of all rows, the centroids and the profiles."""
  features = {client_id: tables.read(client_id).features for client_id in tables.client_ids}
  with tempfile.TemporaryDirectory() as clients:
    files = point_files.write_files(features, clients)
    model = fit(files, tables.format, num_clusters, config)
  predicted = list(model.predict_tables(tables))
  clusters = ((table.features, found["cluster"]) for _, table, found in predicted)
  names = tables.format.feature_names
  profiles = cluster_profiles.measure(clusters, num_clusters, len(names))
  _write_clusters(folder, predicted)
  for name, table in (
      (config_lib.PROFILES, cluster_profiles.table(profiles, names)),
      (config_lib.CENTROIDS, centroid_table(model.centroids, profiles.counts, names)),
  ):
    folder.write_text(name, output_folder.csv_text(*table))
  model.save(folder.join(config_lib.MODEL))
