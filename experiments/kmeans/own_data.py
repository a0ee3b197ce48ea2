"""The user's own data: a number of clusters, centroids, profiles and every client's clusters."""

import contextlib
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
from fl_clustering.tables import client_tables
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import problems
from fl_clustering.tables import reader
from fl_clustering.tables import table_options

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


@contextlib.contextmanager
def _open_clients(
    config: config_lib.OwnDataConfig, tables: client_tables.ClientTables
) -> "Iterator[secure_sums_lib.ClientPoints]":
  """Gives the clients' points to those who compute for them."""
  # Data that the flags don't fit are bad input, not a failed run.
  needs_tff = config.kmeans(num_clusters=1).needs_tff
  with (
      federated_clusterer.open_clients(needs_tff, in_files=True) as hold_points,
      launch.input_errors(),
  ):
    yield estimator.hold(tables.features(), config.privacy, hold_points)


def _assign(
    tables: client_tables.ClientTables, model: "load_model_lib.SavedKMeans",
    folder: output_folder.OutputFolder,
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
  """Writes a file per client with its rows' clusters; yields ids, features and clusters."""
  os.makedirs(folder.join(config_lib.ASSIGNMENTS), exist_ok=True)
  for client_id, table, predicted in model.predict_tables(tables):
    clusters = predicted["cluster"]
    ids = {} if table.row_ids is None else {"id": table.row_ids}
    folder.write_text(
        f"{config_lib.ASSIGNMENTS}/{assignments_name(client_id)}",
        output_folder.csv_text(
            ("row", *ids, "cluster"), zip(table.rows.tolist(), *ids.values(), clusters.tolist())
        ),
    )
    yield client_id, table.features, clusters


def _describe_clusters(
    tables: client_tables.ClientTables, model: "load_model_lib.SavedKMeans",
    folder: output_folder.OutputFolder,
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


def _describe(tables: client_tables.ClientTables, is_private: bool) -> dict[str, Any]:
  """Returns what `config.json` says of the user's tables."""
  described = {
      "clients": list(tables.client_ids),
      "features": list(tables.feature_names),
      "levels": {name: list(found) for name, found in tables.format.encoding.levels.items()},
  }
  if is_private:
    return described
  return {
      **described, "clients": dict(tables.num_rows), "sha256": tables.sha256,
      _DIGESTS: dict(tables.digests),
  }


def _check_recorded(recorded: Mapping[str, Any], described: Mapping[str, Any]) -> None:
  """Raises a ValueError that names a client whose rows are others than in the run to resume."""
  if recorded == described:
    return
  got = problems.changed(recorded.get(_DIGESTS, {}), described.get(_DIGESTS, {}))
  if not got or got.startswith("other rows") and recorded["features"] != described["features"]:
    got = "other points, clients or columns"
  raise ValueError(f"`data_dir` must hold what the run to resume began with, got {got}.")


def _check_told(tables: table_options.TableOptions, folder: str) -> None:
  """Raises a ValueError unless no row decides how the text files of a private run are read."""
  reader.check_folder(folder, "data_dir")
  if not reader.have_text(folder):
    return
  if tables.header == table_options.AUTO:
    raise ValueError(
        "`header` must be given with `epsilon` and text files, as no row may decide it; "
        "--header=yes says that line 1 has the columns' names, --header=no that it is a row."
    )
  if tables.header == table_options.NO:
    for name in ("columns", "separator"):
      if getattr(tables, name) is None:
        raise validate.error(
            name, "be given with `epsilon` and `header`='no', as no row may decide it", None
        )


def load(
    config: config_lib.OwnDataConfig, folder: str, recorded: Mapping[str, Any] | None
) -> experiment.Inputs:
  """Reads the clients' files, and checks them.

  Args:
    recorded: The `config.json` of a run to resume, or None.

  Raises:
    ValueError: If the files can't be used, differ from those of the run to resume, or
      there are too few points or clients.
    OSError: If they can't be read.
  """
  is_private = config.privacy is not None
  if is_private:
    _check_told(config.tables, folder)
  tables = client_tables.open_folder(folder, config.tables).filled()
  described = _describe(tables, is_private)
  # Before the next check, which other data may fail too.
  if recorded is not None:
    _check_recorded(recorded["data"], described)
  config.check_enough_clients(len(tables.client_ids))
  config.check_enough_points(sum(tables.num_rows.values()))
  data_line = f"data: {len(tables.client_ids)} clients in {folder}"
  if len(tables.client_ids) == 1:
    hint = "" if is_private else f"; {columns_lib.SEVERAL_CLIENTS}"
    data_line = f"data: 1 client in {folder}{hint}"
  if tables.format.levels_told:
    data_line += f"; levels: {tables.format.levels_told}"
  return experiment.Inputs(
      tables, {"data": described, "warnings": list(tables.warnings)},
      (data_line, *(f"warning: {text}" for text in tables.warnings)),
  )


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
    config: config_lib.OwnDataConfig, tables: client_tables.ClientTables,
    folder: output_folder.OutputFolder,
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
  model = load_model.SavedKMeans(fit.model, tables.format)
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
