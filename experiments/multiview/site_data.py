"""The views of sites: fits by every rule, and one model, without any row."""

import contextlib
from typing import Any, Callable, Iterator, Mapping

import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from experiments import cluster_profiles
from experiments.multiview import cells
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.multiview import methods
from experiments.multiview import own_model
from experiments.multiview import results as results_lib
from experiments import site_runs
from fl_clustering import load_model
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import point_files


def load(
    config: config_lib.MultiViewStudyConfig, recorded: Mapping[str, Any] | None,
    stack: contextlib.ExitStack,
) -> experiment.Inputs:
  """Connects to the sites, and checks what they say of themselves, as `kmeans.own_data` does."""
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
  config.check_enough_points(sum(opened.sites.num_rows.values()), "all sites")
  # The rest is what the report asks of all data.
  document = {"data": {data_lib.OWN: described}, "with_demonstration": False}
  return experiment.Inputs(opened, document, (opened.data_line,))


def _cells(config: config_lib.MultiViewStudyConfig) -> Iterator[dict[str, Any]]:
  for seed in config.seeds:
    for name, method in methods.METHODS.items():
      if not method.needs_labels:
        values = (data_lib.OWN, cells.AS_GIVEN, seed, name, methods.ALL_VIEWS)
        yield dict(zip(cells.KEYS, values))


def _build_measure(
    files: point_files.PointFiles, widths: tuple[int, ...], num_clusters: int,
    config: config_lib.MultiViewStudyConfig,
) -> Callable[..., dict[str, Any]]:
  """Returns the function that measures a cell, as `cells.build_measure` does."""

  def measure(method: str, seed: int, **unused_keys: Any) -> dict[str, Any]:
    settings = multiview_config.MultiViewConfig(
        num_clusters, view_weights=method, seed=seed, **config.method_settings
    )
    fit = fitting.fit(settings, files, widths)
    return methods.Outcome(
        rounds=fit.num_rounds,
        view_weights=tuple(map(float, fit.model.on_grid.view_weights)),
        objectives=tuple(record.objective for record in fit.history),
    ).to_row()

  return measure


def _profiles(
    files: point_files.PointFiles, model: load_model.SavedMultiView, min_count: int
) -> cluster_profiles.Profiles:
  """Returns the profiles of a model's clusters of so many rows, from one round of sums."""
  arrays, widths = model.model.on_grid.arrays(), model.format.widths

  def assign(query: Mapping[str, Any], points: Any) -> Any:
    return sums_lib.nearest(tnp, tf.math.rint(points), query, widths)

  origins = model.scaling.apply(model.centroids)
  sums = point_files.cluster_sums(files.scaled(model.scaling), origins, assign, min_count, **arrays)
  return cluster_profiles.of_sums(model.scaling, origins, sums).of_at_least(min_count)


def _measure(
    config: config_lib.MultiViewStudyConfig, opened: site_runs.OpenSites,
    folder: output_folder.OutputFolder,
) -> dict[str, Any]:
  """Fits to the sites that take part, and writes the files."""
  format_: Any = opened.sites.format
  files = point_files.at_sites(opened.sites)
  num_clusters: Any = config.num_clusters  # It is given, since classes don't leave their sites.
  table = site_runs.SitesStudy(
      opened, folder, config_lib.MEASUREMENTS, cells.KEYS, methods.VALUES
  )
  # Data that the flags don't fit are bad input, not a failed run.
  with launch.input_errors():
    table.run(_cells(config), _build_measure(files, format_.widths, num_clusters, config))
    model, found = own_model.fit(files, format_, num_clusters, config)
  profiles = _profiles(files, model, config.min_count)
  own_model.write_model(folder, model, profiles, opened.last_columns)
  results = results_lib.read(finished_run.FinishedRun(folder.path))
  return {**results_lib.summary(results), **found, site_runs.MISSING: opened.summary()}


def measure_all(
    config: config_lib.MultiViewStudyConfig, inputs: experiment.Inputs,
    folder: output_folder.OutputFolder,
) -> dict[str, Any]:
  """Fits by every rule and seed, and writes the files; returns the summary.

  Args:
    inputs: What `load` returned.

  Raises:
    runtime.WorkerLost: If a site was lost.
  """
  return site_runs.run(inputs.data, lambda opened: _measure(config, opened, folder))
