"""The user's own data: a number of clusters, centroids, profiles and every client's clusters."""

import collections.abc
import contextlib
import dataclasses
import hashlib
import os
import re
from typing import Any, Iterable, Iterator, Mapping, Sequence, TYPE_CHECKING

from absl import logging
import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from experiment_shell import experiment
from experiment_shell import launch
from experiment_shell import lazy_module
from experiment_shell import output_folder
from experiment_shell import study
from experiments.kmeans import config as config_lib
from experiments.own_tables import cluster_profiles
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import saved

if TYPE_CHECKING:
  from fl_clustering import load_model as load_model_lib
  from fl_clustering.points import federated_clusterer as federated_clusterer_lib
  from fl_clustering.points import secure_sums as secure_sums_lib

estimator = lazy_module.LazyModule("fl_clustering.kmeans.estimator")
federated_clusterer = lazy_module.LazyModule("fl_clustering.points.federated_clusterer")
load_model = lazy_module.LazyModule("fl_clustering.load_model")

# Of a file's name, without what is added to it.
_MOST_BYTES = 200
_DIGESTS = "sha256_by_client"
_KEYS = ("num_clusters",)
_VALUES = ("simplified_silhouette", "inertia", "rounds")
# Fewer clusters have no silhouette.
_FEWEST = 2
# Other starts move a silhouette by about as much.
_TIED = 0.01

_Table = tuple[Iterable[str], Iterable[Iterable[Any]]]


def best_num_clusters(selection: Sequence[Mapping[str, Any]]) -> int:
  """Returns the number of clusters of the row with the largest simplified silhouette."""
  return max(selection, key=lambda row: row["simplified_silhouette"])["num_clusters"]


def choice_text(selection: Sequence[Mapping[str, Any]]) -> str:
  """Returns the numbers of clusters that were tried, with their scores."""
  tried = [row["num_clusters"] for row in selection]
  scores = (f"{row['num_clusters']} {row['simplified_silhouette']:.3f}" for row in selection)
  return (
      f"Chosen of --k_range={min(tried)}:{max(tried)} by the largest simplified silhouette: "
      f"{', '.join(scores)}"
  )


def doubts(selection: Sequence[Mapping[str, Any]], num_points: int) -> list[str]:
  """Returns what makes the best number of clusters that were tried uncertain, in sentences."""
  if len(selection) < 2:
    return []
  scores = {row["num_clusters"]: row["simplified_silhouette"] for row in selection}
  first, last, best = min(scores), max(scores), best_num_clusters(selection)
  found = []
  if best == last < num_points:
    found.append(
        f"{best} clusters are the most that were tried, and the best. More may be better: "
        f"--k_range={first}:{min(2 * last, num_points)} tries them."
    )
  if best == first > _FEWEST:
    found.append(
        f"{best} clusters are the fewest that were tried, and the best. Fewer may be better: "
        f"--k_range={_FEWEST}:{last} tries them."
    )
  others = [str(k) for k in sorted(scores) if k != best and scores[best] - scores[k] < _TIED]
  if others:
    found.append(
        f"The data hardly decide between {best} and {' or '.join(others)} clusters: their "
        f"silhouettes differ by less than {_TIED}."
    )
  return found


def assignments_name(client_id: str) -> str:
  """Returns what the file of a client's assignments is called; ids may hold any character."""
  # A leading dot would hide the file, or name another folder.
  name = re.sub(r"^\.|[%/\x00-\x1f]", lambda found: f"%{ord(found[0]):02X}", client_id)
  if len(name.encode()) > _MOST_BYTES:
    digest = hashlib.sha256(client_id.encode()).hexdigest()
    name = f"{name.encode()[:_MOST_BYTES].decode(errors='ignore')}~{digest[:16]}"
  return f"{name}.csv"


class Tables(collections.abc.Mapping):
  """Clients' features in the data's units by client id, read when asked for.

  Attributes:
    clients: Their tables.
    saved: What a model keeps of them.
  """

  def __init__(self, clients: clients_lib.Clients, saved_tables: saved.SavedTables) -> None:
    self.clients, self.saved = clients, saved_tables

  def __getitem__(self, client_id: str) -> np.ndarray:
    return self.saved.features(self.clients[client_id])

  def __iter__(self) -> Iterator[str]:
    return iter(self.clients)

  def __len__(self) -> int:
    return len(self.clients)

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of the features."""
    return self.saved.schema.feature_names


@contextlib.contextmanager
def _open_clients(
    config: config_lib.OwnDataConfig, tables: Tables
) -> "Iterator[secure_sums_lib.ClientPoints]":
  """Gives the clients' points to those who compute for them."""
  # Data that the flags don't fit are bad input, not a failed run.
  needs_tff = config.kmeans(num_clusters=1).needs_tff
  with (
      federated_clusterer.open_clients(needs_tff, in_files=True) as hold_points,
      launch.input_errors(),
  ):
    yield estimator.hold(tables, config.privacy, hold_points)


def _assign(
    tables: Tables, model: "load_model_lib.SavedKMeans", folder: output_folder.OutputFolder
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
  """Writes a file per client with its rows' clusters; yields ids, features and clusters."""
  os.makedirs(folder.join(config_lib.ASSIGNMENTS), exist_ok=True)
  for client_id, columns, predicted in model.predict_tables(tables.clients):
    clusters = predicted["cluster"]
    folder.write_text(
        f"{config_lib.ASSIGNMENTS}/{assignments_name(client_id)}",
        output_folder.csv_text(
            (*columns, "cluster"), zip(*columns.values(), clusters.tolist())
        ),
    )
    yield client_id, tables[client_id], clusters


def _describe_clusters(
    tables: Tables, model: "load_model_lib.SavedKMeans", folder: output_folder.OutputFolder
) -> tuple[cluster_profiles.Profiles, dict[str, list[int]]]:
  """Writes assignments; returns profiles, and every client's numbers of rows by cluster."""
  sizes_by_client = {}
  num_clusters = len(model.centroids)

  def assigned() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for client_id, features, clusters in _assign(tables, model, folder):
      sizes_by_client[client_id] = np.bincount(clusters, minlength=num_clusters).tolist()
      yield features, clusters

  profiles = cluster_profiles.measure(assigned(), num_clusters, len(tables.feature_names))
  return profiles, sizes_by_client


def _describe(clients: clients_lib.Clients, is_private: bool) -> dict[str, Any]:
  """Returns what `config.json` says of the user's tables."""
  if is_private:
    return {"clients": list(clients), "features": list(clients.schema.feature_names)}
  return {
      "clients": clients.num_rows, "features": list(clients.schema.feature_names),
      _DIGESTS: clients.digests(),
  }


def _check_recorded(recorded: Mapping[str, Any], described: Mapping[str, Any]) -> None:
  """Raises a ValueError that names the files that are others than in the run to resume."""
  if recorded == described:
    return
  changed = clients_lib.changed(recorded.get(_DIGESTS, {}), described.get(_DIGESTS, {}))
  raise validate.error(
      "data_dir", "hold what the run to resume began with", changed or "other clients"
  )


def open_folder(config: config_lib.OwnDataConfig, folder: str) -> clients_lib.Clients:
  """Returns the clients of a folder; ValueError if it can't be used."""
  return clients_lib.open_folder(folder, config.schema, private=config.privacy is not None)


def load(
    config: config_lib.OwnDataConfig, clients: clients_lib.Clients, folder: str,
    recorded: Mapping[str, Any] | None,
) -> experiment.Inputs:
  """Returns the clients' points, which are checked.

  Args:
    recorded: The `config.json` of a run to resume, or None.

  Raises:
    ValueError: If they differ from those of the run to resume, or there are too few points or
      clients.
  """
  is_private = config.privacy is not None
  described = _describe(clients, is_private)
  # Before the next check, which other data may fail too.
  if recorded is not None:
    _check_recorded(recorded["data"], described)
  config.check_enough_clients(len(clients))
  schema = clients.schema
  if is_private:
    fill = encode.public_scaling(schema).fill
    schema = dataclasses.replace(schema, missing="mean")  # As they are read.
  else:
    config.check_enough_points(sum(clients.num_rows.values()))
    fill = encode.scaling_over(
        lambda: (encode.numbers(table, clients.schema) for table in clients.values()),
        clients.schema, standardize=False,
    ).fill
  scaling = encode.Scaling(fill, np.zeros(len(fill)), np.ones(len(fill)))
  tables = Tables(clients, saved.SavedTables(schema, scaling))
  num_clients = f"{len(clients)} client{'s' * (len(clients) != 1)}"
  return experiment.Inputs(tables, {"data": described}, (f"data: {num_clients} in {folder}",))


def _select(
    config: config_lib.OwnDataConfig, clients: "secure_sums_lib.ClientPoints",
    selection: study.Study,
) -> "federated_clusterer_lib.Fit":
  """Tries the numbers of clusters; returns the fit of the best.

  Args:
    config: The settings, without privacy.
    clients: Their points.
    selection: The table `k_selection.csv`.
  """

  def measure(num_clusters: int) -> dict[str, Any]:
    fit = estimator.fit(config.kmeans(num_clusters), clients)
    return {
        "simplified_silhouette": fit.silhouette,
        "inertia": fit.loss,
        "rounds": fit.num_rounds,
    }

  selection.run([{"num_clusters": k} for k in config.candidates], measure)
  return estimator.fit(config.kmeans(best_num_clusters(selection.rows)), clients)


def _share_explained(
    inertia: float, profiles: cluster_profiles.Profiles, standardize: bool
) -> float | None:
  """Returns the share of the points' variance that an inertia doesn't leave; None without any."""
  variances = 1.0 if standardize else profiles.overall_deviation**2
  total = profiles.counts.sum() * (profiles.varies * variances).sum()
  return max(0.0, 1 - inertia / total) if total else None


def _round_table(fit: "federated_clusterer_lib.Fit") -> _Table:
  """Returns header and rows of `rounds.csv`."""
  rows = (
      (number, r.stage, "" if r.inertia is None else r.inertia, r.bytes_down, r.bytes_up)
      for number, r in enumerate(fit.history, start=1)
  )
  return ("round", "stage", "inertia", "bytes_down_per_client", "bytes_up_per_client"), rows


def measure(
    config: config_lib.OwnDataConfig, tables: Tables, folder: output_folder.OutputFolder
) -> dict[str, Any]:
  """Finds the clusters of the clients' rows, and writes the files; returns the summary."""
  if config.privacy is not None and folder.recorded is not None:
    logging.warning(
        "The interrupted run may have released something. This fit draws new noise, so that the "
        "budget of (%g, %g) is spent once more.", config.epsilon, config.delta,
    )
  with contextlib.ExitStack() as stack:
    if config.privacy is not None:
      stack.enter_context(clustering_params.content_raises_nothing())
    clients = stack.enter_context(_open_clients(config, tables))
    if config.num_clusters is not None and config.privacy is not None:
      fit = estimator.fit(config.kmeans(config.num_clusters), clients)
    else:
      selection = study.Study(folder, config_lib.K_SELECTION, _KEYS, _VALUES)
      fit = _select(config, clients, selection)
  model = load_model.SavedKMeans(fit.model, tables.saved)
  fit.warn_of_few_points()
  names, centroids, sizes = tables.feature_names, fit.centroids, None
  written: dict[str, _Table] = {config_lib.ROUNDS: _round_table(fit)}
  summary: dict[str, Any] = {"num_clusters": len(fit.centroids), "rounds": fit.num_rounds}
  if fit.privacy_spent is not None:
    # All of what follows depends on single rows.
    summary["privacy"] = dict(fit.privacy_spent)
  else:
    profiles, sizes_by_client = _describe_clusters(tables, model, folder)
    sizes = profiles.counts
    # Whatever the algorithm's last step was, the file holds the means of the clusters' points.
    centroids = np.where(sizes[:, np.newaxis] > 0, profiles.means, fit.centroids)
    written[config_lib.PROFILES] = cluster_profiles.HEADER, cluster_profiles.rows(profiles, names)
    assert fit.loss is not None  # Only that of a private fit is.
    summary |= {
        "inertia": fit.loss,
        "share_explained": _share_explained(fit.loss, profiles, config.standardize),
        "simplified_silhouette": fit.silhouette,
    }
    if fit.num_centers_on_few_points is not None:
      summary["num_centers_on_few_points"] = fit.num_centers_on_few_points
    summary["points_by_client"] = sizes_by_client
  written[config_lib.CENTROIDS] = cluster_profiles.centroid_table(centroids, names, sizes)
  for name, table in written.items():
    folder.write_text(name, output_folder.csv_text(*table))
  model.save(folder.join(config_lib.MODEL))
  return summary
