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
    predicted: Iterable[tuple[str, dict[str, list[Any]], Mapping[str, np.ndarray]]],
) -> None:
  rows: list[tuple[Any, ...]] = []
  names: Mapping[str, list[Any]] = {}
  for client_id, names, found in predicted:
    rows += [(client_id, *row) for row in zip(*names.values(), found["cluster"].tolist())]
  folder.write_text(
      config_lib.CLUSTERS, output_folder.csv_text(("site", *names, "cluster"), rows)
  )


def write(
    folder: output_folder.OutputFolder, data: data_lib.MultiViewData,
    config: config_lib.MultiViewStudyConfig,
) -> dict[str, Any]:
  """Fits a model to data with tables, and writes it with the clusters of all rows.

  Returns:
    What the summary says of it.
  """
  tables, kept = data.tables, data.kept
  assert tables is not None and kept is not None
  names: Sequence[str] = kept.feature_names
  features = {client_id: kept.features(own) for client_id, own in tables.items()}
  settings = multiview_config.MultiViewConfig(
      data.num_clusters, view_weights="equal", seed=config.seed, **config.method_settings
  )
  with federated_clusterer.open_clients(needs_tff=False) as hold_points:
    fit = fitting.fit(settings, hold_points(features), kept.widths)
  fit.warn_of_few_points()
  model = load_model.SavedMultiView(fit.model, kept)
  predicted = list(model.predict_tables(tables))
  clusters = ((features[c], columns["cluster"]) for c, _, columns in predicted)
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
