"""The model of the user's own clients, and what it says of them: one fit for all files.

It has equal view weights and the first seed, so it is that of the method `equal` in the table.
"""

from typing import Any, Iterable, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiments import cluster_profiles
from experiments.multiview import config as config_lib

if TYPE_CHECKING:
  from experiments.multiview import data as data_lib
  from fl_clustering import load_model as load_model_lib
  from fl_clustering.points import secure_sums as secure_sums_lib
  from fl_clustering.tables import table_format

federated_clusterer = lazy_module.LazyModule("fl_clustering.points.federated_clusterer")
fitting = lazy_module.LazyModule("fl_clustering.multiview.fitting")
load_model = lazy_module.LazyModule("fl_clustering.load_model")
multiview_config = lazy_module.LazyModule("fl_clustering.multiview.multiview_config")

VIEW_WEIGHTS = "equal"


def fit(
    clients: "secure_sums_lib.ClientPoints", format_: "table_format.ViewFormat", num_clusters: int,
    config: config_lib.MultiViewStudyConfig,
) -> "tuple[load_model_lib.SavedMultiView, dict[str, Any]]":
  """Returns the model of the clients' points, and what the summary says of it."""
  settings = multiview_config.MultiViewConfig(
      num_clusters, view_weights=VIEW_WEIGHTS, seed=config.seed, **config.method_settings
  )
  found = fitting.fit(settings, clients, format_.widths)
  found.warn_of_few_points()
  return load_model.SavedMultiView(found.model, format_), {
      config_lib.MODEL: {
          "num_clusters": num_clusters,
          "num_centers_on_few_points": found.num_centers_on_few_points,
      }
  }


def write_model(
    folder: output_folder.OutputFolder, model: "load_model_lib.SavedMultiView",
    profiles: cluster_profiles.Profiles, last_columns: Mapping[str, str] | None = None,
) -> None:
  """Writes a model with its centroids and the profiles of its clusters.

  Args:
    last_columns: As of `output_folder.csv_text`.
  """
  names: Sequence[str] = model.format.feature_names
  centroids = (
      (k, int(size), *map(float, centroid))
      for k, (size, centroid) in enumerate(zip(profiles.counts, model.centroids))
  )
  for name, header, rows in (
      (config_lib.PROFILES, *cluster_profiles.table(profiles, names)),
      (config_lib.CENTROIDS, ("cluster", "num_points", *names), centroids),
  ):
    folder.write_text(name, output_folder.csv_text(header, rows, last_columns))
  model.save(folder.join(config_lib.MODEL))


def _write_clusters(
    folder: output_folder.OutputFolder,
    predicted: Iterable[tuple[str, Any, Mapping[str, np.ndarray]]],
) -> None:
  rows, ids = [], {}
  for client_id, table, found in predicted:
    ids = {} if table.row_ids is None else {"id": table.row_ids}
    columns = (table.rows.tolist(), *ids.values(), found["cluster"].tolist())
    rows += [(client_id, *row) for row in zip(*columns)]
  folder.write_text(
      config_lib.CLUSTERS, output_folder.csv_text(("site", "row", *ids, "cluster"), rows)
  )


def write(
    folder: output_folder.OutputFolder, data: "data_lib.MultiViewData",
    config: config_lib.MultiViewStudyConfig,
) -> dict[str, Any]:
  """Fits a model to data with tables, and writes it with the clusters of all rows.

  Returns:
    What the summary says of it.
  """
  tables: Any = data.tables
  features = {client_id: tables.read(client_id).features for client_id in tables.client_ids}
  with federated_clusterer.open_clients(needs_tff=False) as hold_points:
    model, found = fit(hold_points(features), tables.format, data.num_clusters, config)
  predicted = list(model.predict_tables(tables))
  clusters = ((table.features, columns["cluster"]) for _, table, columns in predicted)
  width = len(tables.format.feature_names)
  profiles = cluster_profiles.measure(clusters, data.num_clusters, width)
  profiles = profiles.of_at_least(config.min_count)
  _write_clusters(folder, predicted)
  write_model(folder, model, profiles)
  return found
