"""What the clusters of a run on tables are like, from the training rows of their clients."""

import dataclasses

import numpy as np

from experiment_shell import output_folder
from experiments import cluster_profiles


def _in_units(profiles, encoding):
  """Returns profiles of scaled features in the data's units, where they are near to exact.

  The features were float32.  A mean of zero would show as a small number, so means and
  deviations are rounded to a millionth or so of a feature's deviation.
  """
  is_constant = encoding.factor == 0
  unit = np.where(is_constant, 0, 1 / np.where(is_constant, 1, encoding.factor))
  step = 10.0 ** (np.floor(np.log10(np.where(is_constant, 1, unit))) - 5)

  def rounded(values):
    return np.where(is_constant, values, np.rint(values / step) * step + 0.0)  # No -0.

  return dataclasses.replace(
      profiles,
      means=rounded(profiles.means * unit + encoding.shift),
      deviations=rounded(profiles.deviations * unit),
      overall_mean=rounded(profiles.overall_mean * unit + encoding.shift),
      overall_deviation=rounded(profiles.overall_deviation * unit),
  )


def profiles_text(task, saved):
  """Returns `profiles.csv`: mean and spread of every feature over a cluster's training rows.

  Args:
    task: The run's `FederatedTask`, of tables; its new clients have no part.
    saved: The run's `SavedClusters`.  The rows of a client in several of them are in each.
  """

  def blocks():
    for client in task.clients:
      features = client.train.features.astype(np.float64)
      for cluster in saved.clusters[client.client_id]:
        yield features, np.full(len(features), cluster)

  encoding = task.table_format.encoding
  scaled = cluster_profiles.measure(blocks(), len(saved.vectors), len(task.feature_names))
  rows = [
      [f"{value:.12g}" if isinstance(value, float) else value for value in row]
      for row in cluster_profiles.rows(_in_units(scaled, encoding), task.feature_names)
  ]
  return output_folder.csv_text(cluster_profiles.HEADER, rows)
