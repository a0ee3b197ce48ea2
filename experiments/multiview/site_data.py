"""The views of sites: fits by every rule, and one model, without any row."""

import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from experiment_shell import experiment
from experiment_shell import finished_run
from experiment_shell import launch
from experiments import cluster_profiles
from experiments.multiview import cells
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.multiview import methods
from experiments.multiview import own_model
from experiments.multiview import results as results_lib
from experiments import site_runs
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import cluster_moments
from fl_clustering.points import point_files


def load(config, recorded, stack):
  """Connects to the sites, and checks what they say of themselves.

  Args:
    config: `MultiViewStudyConfig`.
    recorded: The `config.json` of a run to resume, or None.
    stack: A `contextlib.ExitStack`; TFF computes at the sites as long as it is open.

  Returns:
    `experiment.Inputs` with the `OpenSites`.

  Raises:
    launch.InputError: If a site can't be used.
    ValueError: If they don't go together, have other rows than those of the run to resume, or
      have too few.
  """
  opened = site_runs.open_sites(stack, "views")
  sites = opened.sites
  described = {
      "source": "Views that stay at their sites",
      "views": dict(zip(sites.format.views, sites.format.widths)),
      "features": list(sites.format.feature_names),
      "sites": opened.describe(),
  }
  if recorded is not None:
    opened = opened.resuming(recorded["data"].get(data_lib.SITES, {}), described)
  data_lib.num_clusters_of(config.num_clusters, sites)  # Checks that there are enough rows.
  # The rest is what the report asks of all data.
  document = {"data": {data_lib.SITES: described}, "with_demonstration": False}
  return experiment.Inputs(opened, document, (f"data: {site_runs.text_of(opened)}",))


def _cells(config):
  for seed in config.seeds:
    for name, method in methods.METHODS.items():
      if not method.needs_labels:
        values = (data_lib.SITES, cells.AS_GIVEN, seed, name, methods.ALL_VIEWS)
        yield dict(zip(cells.KEYS, values))


def _build_measure(files, widths, config):
  """Returns the function that measures a cell, as `cells.build_measure` does."""

  def measure(method, seed, **unused_keys):
    settings = multiview_config.MultiViewConfig(
        config.num_clusters, view_weights=method, seed=seed, **config.method_settings
    )
    fit = fitting.fit(settings, files, widths)
    return methods.Outcome(
        rounds=fit.num_rounds,
        view_weights=tuple(map(float, fit.model.on_grid.view_weights)),
        objectives=tuple(record.objective for record in fit.history),
    ).to_row()

  return measure


def _profiles(files, model):
  """Returns the `Profiles` of a model's clusters, from one round of sums."""
  arrays, widths = model.model.on_grid.arrays(), model.format.widths

  def assign(query, points):
    return sums_lib.nearest(tnp, tf.math.rint(points), query, widths)

  origins = model.scaling.apply(model.centroids)
  sums = cluster_moments.sums(files.scaled(model.scaling), origins, assign, **arrays)
  return cluster_profiles.of_sums(model.scaling, origins, sums)


def _measure(config, opened, folder):
  """Fits to the sites that take part, and writes the files."""
  format_, files = opened.sites.format, point_files.at_sites(opened.sites)
  table = site_runs.SitesStudy(
      opened, folder, config_lib.MEASUREMENTS, cells.KEYS, methods.VALUES
  )
  # Data that the flags don't fit are bad input, not a failed run.
  with launch.input_errors():
    table.run(_cells(config), _build_measure(files, format_.widths, config))
    model = own_model.fit(files, format_, config.num_clusters, config)
  profiles, names = _profiles(files, model), format_.feature_names
  for name, values in (
      (config_lib.PROFILES, cluster_profiles.table(profiles, names)),
      (config_lib.CENTROIDS, own_model.centroid_table(model.centroids, profiles.counts, names)),
  ):
    folder.write_text(name, opened.csv_text(*values))
  model.save(folder.join(config_lib.MODEL))
  results = results_lib.read(finished_run.FinishedRun(folder.path))
  return {**results_lib.summary(results), site_runs.MISSING: opened.summary()}


def measure_all(config, inputs, folder):
  """Fits by every rule and seed, and writes the files.

  Args:
    config: `MultiViewStudyConfig`.
    inputs: What `load` returned.
    folder: The `OutputFolder`.

  Returns:
    The summary, a dict for JSON.

  Raises:
    runtime.WorkerLost: If a site was lost.
  """
  return site_runs.run(inputs.data, lambda opened: _measure(config, opened, folder))
