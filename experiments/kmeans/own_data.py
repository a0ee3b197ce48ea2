"""The user's own data: a number of clusters, centroids, and every client's clusters."""

import dataclasses
import os

import numpy as np

from experiment_shell import output_folder
from experiment_shell import study
from experiments.kmeans import run_folder
from fl_clustering.kmeans import FederatedKMeans

_KEYS = ("num_clusters",)
_VALUES = ("simplified_silhouette", "inertia", "rounds")


@dataclasses.dataclass(frozen=True, eq=False)
class OwnClusters:
  """What was found in the user's data.

  Attributes:
    selection: A row per number of clusters that was tried, see `_VALUES`.
    model: The fitted `FederatedKMeans`.
    assignments: A mapping from client id to the clusters of its points, in their order.
  """

  selection: list[dict]
  model: FederatedKMeans
  assignments: dict[str, np.ndarray]


def _build(config, num_clusters):
  settings = config.kmeans(num_clusters)
  return FederatedKMeans(
      settings.n_clusters,
      settings.algorithm,
      n_init=config.n_init,
      min_count=config.min_count,
      standardize=settings.standardize,
      seed=settings.seed,
  )


def open_selection(folder):
  """Returns the study of the numbers of clusters."""
  return study.Study(folder, run_folder.K_SELECTION, _KEYS, _VALUES)


def best_num_clusters(selection):
  """Returns the number of clusters with the largest simplified silhouette."""
  return max(selection, key=lambda row: row["simplified_silhouette"])["num_clusters"]


def find_clusters(config, tables, selection):
  """Tries the numbers of clusters, and fits the best.

  Args:
    config: `OwnDataConfig`.
    tables: `ClientTables`.
    selection: The study from `open_selection`.

  Returns:
    `OwnClusters`.
  """

  def measure(num_clusters):
    model = _build(config, num_clusters).fit(tables.points)
    return {
        "simplified_silhouette": model.silhouette_,
        "inertia": model.inertia_,
        "rounds": model.n_rounds_,
    }

  selection.run([{"num_clusters": k} for k in config.candidates], measure)
  model = _build(config, best_num_clusters(selection.rows)).fit(tables.points)
  return OwnClusters(
      selection.rows,
      model,
      {client_id: model.predict(points) for client_id, points in tables.points.items()},
  )


def column_names(tables):
  """Returns the columns' names; made-up ones where the files have none."""
  num_columns = next(iter(tables.points.values())).shape[1]
  return tables.column_names or tuple(f"column_{i}" for i in range(1, num_columns + 1))


def write_files(folder, tables, found):
  """Writes centroids, rounds, and a file of clusters per client.

  Args:
    folder: The `OutputFolder`.
    tables: `ClientTables`.
    found: `OwnClusters`.
  """
  model = found.model
  sizes = np.bincount(
      np.concatenate(list(found.assignments.values())), minlength=len(model.cluster_centers_)
  )
  folder.write_text(
      run_folder.CENTROIDS,
      output_folder.csv_text(
          ("cluster", "num_points", *column_names(tables)),
          ((k, sizes[k], *map(float, c)) for k, c in enumerate(model.cluster_centers_)),
      ),
  )
  folder.write_text(
      run_folder.ROUNDS,
      output_folder.csv_text(
          ("round", "stage", "inertia", "bytes_down_per_client", "bytes_up_per_client"),
          (
              (number, r.stage, "" if r.inertia is None else r.inertia, r.bytes_down, r.bytes_up)
              for number, r in enumerate(model.history_, start=1)
          ),
      ),
  )
  os.makedirs(folder.join(run_folder.ASSIGNMENTS), exist_ok=True)
  for client_id, clusters in found.assignments.items():
    folder.write_text(
        f"{run_folder.ASSIGNMENTS}/{client_id}.csv",
        output_folder.csv_text(("row", "cluster"), enumerate(clusters.tolist(), start=1)),
    )
