"""The user's own data: one model, and what it says of them.

The model has equal view weights and the first seed, so it is that of the method `equal` in the
table.
"""

from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.own_tables import cluster_profiles

federated_clusterer = lazy_module.LazyModule("fl_clustering.points.federated_clusterer")
fitting = lazy_module.LazyModule("fl_clustering.multiview.fitting")
load_model = lazy_module.LazyModule("fl_clustering.load_model")
multiview_config = lazy_module.LazyModule("fl_clustering.multiview.multiview_config")


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
    folder: output_folder.OutputFolder, data: data_lib.MultiViewData,
    config: config_lib.MultiViewStudyConfig,
) -> dict[str, Any]:
  """Fits a model to data with tables, and writes it with the clusters of all rows.

  Returns:
    What the summary says of it.
  """
  tables: Any = data.tables
  names: Sequence[str] = tables.format.feature_names
  features = {client_id: tables.read(client_id).features for client_id in tables.client_ids}
  settings = multiview_config.MultiViewConfig(
      data.num_clusters, view_weights="equal", seed=config.seed, **config.method_settings
  )
  with federated_clusterer.open_clients(needs_tff=False) as hold_points:
    fit = fitting.fit(settings, hold_points(features), tables.format.widths)
  fit.warn_of_few_points()
  model = load_model.SavedMultiView(fit.model, tables.format)
  predicted = list(model.predict_tables(tables))
  clusters = ((table.features, columns["cluster"]) for _, table, columns in predicted)
  profiles = cluster_profiles.measure(clusters, data.num_clusters, len(names))
  _write_clusters(folder, predicted)
  for name, table in (
      (config_lib.PROFILES, (cluster_profiles.HEADER, cluster_profiles.rows(profiles, names))),
      (config_lib.CENTROIDS,
       cluster_profiles.centroid_table(model.centroids, names, profiles.counts)),
  ):
    folder.write_text(name, output_folder.csv_text(*table))
  model.save(folder.join(config_lib.MODEL))
  return {
      config_lib.MODEL: {
          "num_clusters": data.num_clusters,
          "num_centers_on_few_points": fit.num_centers_on_few_points,
      }
  }
