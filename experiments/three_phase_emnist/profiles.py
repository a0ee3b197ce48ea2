"""What the clusters of a run on tables are like, from the training rows of their clients."""

import dataclasses
from typing import TYPE_CHECKING, Iterator

import numpy as np

from experiment_shell import output_folder
from experiments.own_tables import cluster_profiles

if TYPE_CHECKING:
  from fl_clustering import saved_clusters
  from fl_clustering.tables import encode
  from fl_clustering.tasks import federated_task


def _in_units(
    profiles: cluster_profiles.Profiles, scaling: "encode.FeatureScaling"
) -> cluster_profiles.Profiles:
  """Returns profiles of scaled features in the data's units, where they are near to exact.

  The features were float32.  A mean of zero would show as a small number, so means and
  deviations are rounded to a millionth or so of a feature's deviation.
  """
  is_constant = scaling.factor == 0
  unit = np.where(is_constant, 0, 1 / np.where(is_constant, 1, scaling.factor))
  step = 10.0 ** (np.floor(np.log10(np.where(is_constant, 1, unit))) - 5)

  def rounded(values: np.ndarray) -> np.ndarray:
    return np.where(is_constant, values, np.rint(values / step) * step + 0.0)  # No -0.

  return dataclasses.replace(
      profiles,
      means=rounded(profiles.means * unit + scaling.shift),
      deviations=rounded(profiles.deviations * unit),
      overall_mean=rounded(profiles.overall_mean * unit + scaling.shift),
      overall_deviation=rounded(profiles.overall_deviation * unit),
  )


def profiles_text(
    task: "federated_task.FederatedTask", saved: "saved_clusters.SavedClusters"
) -> str:
  """Returns `profiles.csv`: mean and spread of every feature over a cluster's training rows.

  Those for validation are among them.

  Args:
    task: The run's task, of tables; its new clients have no part.
    saved: The run's clusters.  The rows of a client in several of them are in each.
  """

  def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for client in task.clients:
      parts = [part for part in (client.train, client.validation) if part is not None]
      features = np.concatenate([part.features.astype(np.float64) for part in parts])
      features = features.reshape(len(features), -1)
      for cluster in saved.clusters[client.client_id]:
        yield features, np.full(len(features), cluster)

  assert task.tables is not None
  names = task.tables.schema.feature_names
  scaled = cluster_profiles.measure(blocks(), len(saved.vectors), len(names))
  rows = [
      [f"{value:.12g}" if isinstance(value, float) else value for value in row]
      for row in cluster_profiles.rows(_in_units(scaled, task.tables.scaling), names)
  ]
  return output_folder.csv_text(cluster_profiles.HEADER, rows)
