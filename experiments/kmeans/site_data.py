"""The points of sites: a number of clusters, centroids and profiles, without any row."""

import numpy as np
import tensorflow.experimental.numpy as tnp

from dp_clustering import point_grid
from experiment_shell import experiment
from experiment_shell import launch
from experiments import cluster_profiles
from experiments.kmeans import config as config_lib
from experiments.kmeans import own_data
from experiments import site_runs
from fl_clustering.kmeans import saved_kmeans
from fl_clustering.points import cluster_moments
from fl_clustering.points import point_files


def load(config, recorded, stack):
  """Connects to the sites, and checks what they say of themselves.

  Args:
    config: `OwnDataConfig`.
    recorded: The `config.json` of a run to resume, or None.
    stack: A `contextlib.ExitStack`; TFF computes at the sites as long as it is open.

  Returns:
    `experiment.Inputs` with the `OpenSites`.

  Raises:
    launch.InputError: If a site can't be used.
    ValueError: If they don't go together, have other rows than those of the run to resume, or
      have too few.
  """
  opened = site_runs.open_sites(stack, "tables")
  described = opened.describe_tables()
  if recorded is not None:
    opened = opened.resuming(recorded["data"], described)
  config.check_enough_points(sum(opened.sites.num_rows.values()))
  lines = (f"data: {site_runs.text_of(opened)}",)
  return experiment.Inputs(opened, {"data": described}, lines)


def _assign(query, points):
  return point_grid.nearest(tnp, points, query["origins"])


def _profiles(files, fit):
  """Returns the `Profiles` of the clusters, from one round of sums."""
  origins = fit.scaling.apply(fit.centroids)
  sums = cluster_moments.sums(files.scaled(fit.scaling), origins, _assign)
  return cluster_profiles.of_sums(fit.scaling, origins, sums)


def _summary(fit, profiles, opened):
  return {
      "num_clusters": len(fit.centroids),
      "rounds": fit.num_rounds,
      "inertia": fit.inertia,
      "simplified_silhouette": fit.silhouette,
      "num_points": profiles.counts.tolist(),
      site_runs.MISSING: opened.summary(),
  }


def _measure(config, opened, folder):
  """Finds the clusters of the sites that take part, and writes the files."""
  sites = opened.sites
  files = point_files.at_sites(sites)
  names = sites.format.encoding.feature_names
  selection = site_runs.SitesStudy(
      opened, folder, config_lib.K_SELECTION, own_data.KEYS, own_data.VALUES
  )
  # Data that the flags don't fit are bad input, not a failed run.
  with launch.input_errors():
    fit = own_data.select(config, files, selection)
  profiles = _profiles(files, fit)
  # As in runs on a folder, the means of the clusters' points.
  centroids = np.where(profiles.counts[:, np.newaxis] > 0, profiles.means, fit.centroids)
  for name, table in (
      (config_lib.CENTROIDS, own_data.centroid_table(centroids, names, profiles.counts)),
      (config_lib.ROUNDS, own_data.round_table(fit)),
      (config_lib.PROFILES, cluster_profiles.table(profiles, names)),
  ):
    folder.write_text(name, opened.csv_text(*table))
  model = saved_kmeans.SavedKMeans(fit.centroids, fit.scaling, sites.format)
  model.save(folder.join(config_lib.MODEL))
  return _summary(fit, profiles, opened)


def measure_all(config, inputs, folder):
  """Finds the clusters, and writes the files.

  Args:
    config: `OwnDataConfig`.
    inputs: What `load` returned.
    folder: The `OutputFolder`.

  Returns:
    The summary, a dict for JSON.

  Raises:
    runtime.WorkerLost: If a site was lost.
  """
  return site_runs.run(inputs.data, lambda opened: _measure(config, opened, folder))
