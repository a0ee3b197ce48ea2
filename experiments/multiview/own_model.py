"""The user's own data, of a folder or of sites: one model, and what it says of them.

The model has equal view weights and the first seed, so it is that of the method `equal` in the
table.  No row leaves a site: its clusters are profiled by one round of sums there.
"""

import contextlib
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiments import cluster_profiles
from experiments.multiview import cells
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.multiview import methods
from experiments.multiview import results as results_lib
from experiments import site_runs

if TYPE_CHECKING:
  from fl_clustering import load_model as load_model_lib
  from fl_clustering.points import point_files as point_files_lib
  from fl_clustering.points import secure_sums as secure_sums_lib
  from fl_clustering.tables import table_format

federated_clusterer = lazy_module.LazyModule("fl_clustering.points.federated_clusterer")
fitting = lazy_module.LazyModule("fl_clustering.multiview.fitting")
load_model = lazy_module.LazyModule("fl_clustering.load_model")
multiview_config = lazy_module.LazyModule("fl_clustering.multiview.multiview_config")
point_files = lazy_module.LazyModule("fl_clustering.points.point_files")
sums_lib = lazy_module.LazyModule("fl_clustering.multiview.sums")
tf = lazy_module.LazyModule("tensorflow")
tnp = lazy_module.LazyModule("tensorflow.experimental.numpy")

VIEW_WEIGHTS = "equal"


def _fit(
    config: config_lib.MultiViewStudyConfig, clients: "secure_sums_lib.ClientPoints",
    widths: tuple[int, ...], num_clusters: int, view_weights: str, seed: int,
) -> Any:
  settings = multiview_config.MultiViewConfig(
      num_clusters, view_weights=view_weights, seed=seed, **config.method_settings
  )
  return fitting.fit(settings, clients, widths)


def _fit_model(
    clients: "secure_sums_lib.ClientPoints", format_: "table_format.ViewFormat", num_clusters: int,
    config: config_lib.MultiViewStudyConfig,
) -> "tuple[load_model_lib.SavedMultiView, dict[str, Any]]":
  """Returns the model of the clients' points, and what the summary says of it."""
  found = _fit(config, clients, format_.widths, num_clusters, VIEW_WEIGHTS, config.seed)
  found.warn_of_few_points()
  return load_model.SavedMultiView(found.model, format_), {
      config_lib.MODEL: {
          "num_clusters": num_clusters,
          "num_centers_on_few_points": found.num_centers_on_few_points,
      }
  }


def _write_model(
    folder: output_folder.OutputFolder, model: "load_model_lib.SavedMultiView",
    profiles: cluster_profiles.Profiles, last_columns: Mapping[str, str] | None = None,
) -> None:
  """Writes a model with its centroids and the profiles of its clusters.

  Args:
    last_columns: As of `output_folder.csv_text`.
  """
  names: Sequence[str] = model.format.feature_names
  for name, table in (
      (config_lib.PROFILES, (cluster_profiles.HEADER, cluster_profiles.rows(profiles, names))),
      (config_lib.CENTROIDS,
       cluster_profiles.centroid_table(model.centroids, names, profiles.counts)),
  ):
    folder.write_text(name, output_folder.csv_text(*table, last_columns))
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
    folder: output_folder.OutputFolder, data: data_lib.MultiViewData,
    config: config_lib.MultiViewStudyConfig,
) -> dict[str, Any]:
  """Fits a model to data with tables, and writes it with the clusters of all rows.

  Returns:
    What the summary says of it.
  """
  tables: Any = data.tables
  features = {client_id: tables.read(client_id).features for client_id in tables.client_ids}
  with federated_clusterer.open_clients(needs_tff=False) as hold_points:
    model, found = _fit_model(hold_points(features), tables.format, data.num_clusters, config)
  predicted = list(model.predict_tables(tables))
  clusters = ((table.features, columns["cluster"]) for _, table, columns in predicted)
  width = len(tables.format.feature_names)
  profiles = cluster_profiles.measure(clusters, data.num_clusters, width)
  _write_clusters(folder, predicted)
  _write_model(folder, model, profiles)
  return found


def load_sites(
    config: config_lib.MultiViewStudyConfig, recorded: Mapping[str, Any] | None,
    stack: contextlib.ExitStack,
) -> experiment.Inputs:
  """Connects to the sites, and checks what they say of themselves."""
  opened = site_runs.open_sites(stack, "views")
  format_: Any = opened.sites.format
  described = {
      "source": "Views that stay at their sites",
      "views": dict(zip(format_.views, format_.widths)),
      "features": list(format_.feature_names),
      "sites": opened.describe(),
  }
  if recorded is not None:
    opened = opened.resuming(recorded["data"].get(data_lib.OWN, {}), described)
  data_lib.num_clusters_of(config.num_clusters, opened.sites)  # Checks that there are enough rows.
  # The rest is what the report asks of all data.
  document = {"data": {data_lib.OWN: described}, "with_demonstration": False}
  return experiment.Inputs(opened, document, opened.lines)


def _cells(config: config_lib.MultiViewStudyConfig) -> Iterator[dict[str, Any]]:
  for seed in config.seeds:
    for name, method in methods.METHODS.items():
      if not method.needs_labels:
        values = (data_lib.OWN, cells.AS_GIVEN, seed, name, methods.ALL_VIEWS)
        yield dict(zip(cells.KEYS, values))


def _build_measure(
    config: config_lib.MultiViewStudyConfig, files: "point_files_lib.PointFiles",
    widths: tuple[int, ...], num_clusters: int,
) -> Callable[..., dict[str, Any]]:
  """Returns the function that measures a cell, as `cells.build_measure` does."""

  def measure(method: str, seed: int, **unused_keys: Any) -> dict[str, Any]:
    fit = _fit(config, files, widths, num_clusters, method, seed)
    return methods.Outcome(
        rounds=fit.num_rounds,
        view_weights=tuple(map(float, fit.model.on_grid.view_weights)),
        objectives=tuple(record.objective for record in fit.history),
    ).to_row()

  return measure


def _profiles(
    files: "point_files_lib.PointFiles", model: "load_model_lib.SavedMultiView"
) -> cluster_profiles.Profiles:
  """Returns the profiles of a model's clusters, from one round of sums."""
  arrays, widths = model.model.on_grid.arrays(), model.format.widths

  def assign(query: Mapping[str, Any], points: Any) -> Any:
    return sums_lib.nearest(tnp, tf.math.rint(points), query, widths)

  origins = model.scaling.apply(model.centroids)
  sums = point_files.cluster_sums(files.scaled(model.scaling), origins, assign, **arrays)
  return cluster_profiles.of_sums(model.scaling, origins, sums)


def measure_sites(
    config: config_lib.MultiViewStudyConfig, opened: site_runs.OpenSites,
    folder: output_folder.OutputFolder,
) -> dict[str, Any]:
  """Fits to sites by every rule and seed, and writes the files; returns the summary."""
  format_: Any = opened.sites.format
  files = point_files.at_sites(opened.sites)
  num_clusters: Any = config.num_clusters  # It is given, since classes don't leave their sites.
  table = site_runs.SitesStudy(
      opened, folder, config_lib.MEASUREMENTS, cells.KEYS, methods.VALUES
  )
  # Data that the flags don't fit are bad input, not a failed run.
  with launch.input_errors():
    table.run(_cells(config), _build_measure(config, files, format_.widths, num_clusters))
    model, found = _fit_model(files, format_, num_clusters, config)
  profiles = _profiles(files, model)
  _write_model(folder, model, profiles, opened.last_columns)
  results = results_lib.read(finished_run.FinishedRun(folder.path))
  return {**results_lib.summary(results), **found, site_runs.MISSING: opened.summary()}
