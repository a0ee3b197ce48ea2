"""The user's own data: one model, and what it says of them.

The model has equal view weights and the first seed, so it is that of the method `equal` in the
table.
"""

import os
from typing import Any

from clustering_basics import atomic_file
from clustering_basics import model_folder
from experiment_shell import output_folder
from experiment_shell import tidy_tables
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.multiview import methods
from experiments.own_tables import cluster_profiles
from fl_clustering import load_model
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.points import federated_clusterer

# Beside the names of methods.
CELL = "saved_model"
FEW_POINTS = "centers_on_few_points"
PROFILES = "profiles"
_CLUSTERS, _CENTROIDS = "clusters.csv", "centroids.csv"
FILES = {
    _CLUSTERS: "the cluster of each of your rows, by the model",
    _CENTROIDS: "the model's centroids in the data's units, with their numbers of rows",
    tidy_tables.file_name(PROFILES): "mean and spread of every column in every cluster",
}
FOLDERS = {
    model_folder.MODEL: "the model (equal weights, first seed), for experiments:predict and "
    "load_model",
}


def write(
    folder: str, data: data_lib.MultiViewData, config: config_lib.MultiViewStudyConfig
) -> list[dict[str, Any]]:
  """Fits a model to data with tables, and writes it with the clusters of all rows.

  Returns:
    What is measured of it.
  """
  tables, kept = data.tables, data.kept
  assert tables is not None and kept is not None
  names = kept.feature_names
  features = {client_id: kept.features(own) for client_id, own in tables.items()}
  settings = multiview_config.MultiViewConfig(
      data.num_clusters, view_weights=methods.OURS, seed=config.seed, **config.method_settings
  )
  with federated_clusterer.open_clients(needs_tff=False) as hold_points:
    fit = fitting.fit(settings, hold_points(features), kept.widths)
  fit.warn_of_few_points()
  model = load_model.SavedMultiView(fit.model, kept)
  predicted = list(model.predict_tables(tables))
  profiles = cluster_profiles.measure(
      ((features[client_id], found["cluster"]) for client_id, _, found in predicted),
      data.num_clusters, len(names),
  )
  _, names_of_rows, _ = predicted[0]
  clusters = (
      (client_id, *row) for client_id, own, found in predicted
      for row in zip(*own.values(), found["cluster"].tolist())
  )
  for name, (header, rows) in {
      _CLUSTERS: (("site", *names_of_rows, "cluster"), clusters),
      _CENTROIDS: cluster_profiles.centroid_table(model.centroids, names, profiles.counts),
      tidy_tables.file_name(PROFILES): (
          cluster_profiles.HEADER, cluster_profiles.rows(profiles, names)
      ),
  }.items():
    atomic_file.write_text(os.path.join(folder, name), output_folder.csv_text(header, rows))
  model.save(os.path.join(folder, model_folder.MODEL))
  return [{"metric": FEW_POINTS, "value": fit.num_centers_on_few_points}]
