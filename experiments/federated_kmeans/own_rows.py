"""The user's own rows: a number of clusters, a model of these, and what they are like.

With `epsilon` it is one private fit: the run shows and leaves nothing that depends on a row but its
centers.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import functools
import os
import tempfile
from typing import Any, Callable, Iterator, Mapping, TYPE_CHECKING

from absl import logging
import numpy as np

from clustering_basics import atomic_file
from dp_clustering import clustering_params
from experiment_shell import launch
from experiment_shell import output_folder
from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables
from experiments.federated_kmeans import config as config_lib
from experiments.federated_kmeans import own_summary as summary
from experiments.own_tables import cluster_profiles
from experiments.own_tables import fitted_rows
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import saved
from fl_clustering.tables import schema as schema_lib

if TYPE_CHECKING:
  from fl_clustering.points import fitted

_Fit = Callable[[int], "fitted.Fit"]


class _Features(collections.abc.Mapping):
  """Clients' features in the data's units by client id, read when asked for."""

  def __init__(
      self, clients: clients_lib.Clients, kept: saved.SavedTables,
      used: slice | np.ndarray = slice(None),
  ) -> None:
    self._clients, self._kept, self._used = clients, kept, used

  def __getitem__(self, client_id: str) -> np.ndarray:
    return self._kept.features(self._clients[client_id])[:, self._used]

  def __iter__(self) -> Iterator[str]:
    return iter(self._clients)

  def __len__(self) -> int:
    return len(self._clients)


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
  """What a cell is measured with.

  Attributes:
    kept: What a model keeps of the tables.
    fit: From a number of clusters to a fit.  It keeps the last one.
    fit_numbers: Likewise of the numbers alone, without levels and booleans; None if there is no
      choice of a number of clusters that these may decide.
  """

  clients: clients_lib.Clients
  kept: saved.SavedTables
  fit: _Fit
  fit_numbers: _Fit | None


def _kept(config: config_lib.OwnDataConfig, clients: clients_lib.Clients) -> saved.SavedTables:
  """Returns what is kept of tables: in the data's units, or the schema's in a private run."""
  schema, schemas = clients.schema, {schema_lib.NO_VIEW: clients.schema}
  if config.privacy is not None:
    return saved.SavedTables(schemas, encode.public_scaling(schema), is_private=True)
  return saved.SavedTables(schemas, encode.scaling_over(
      lambda: (encode.numbers(table, schema) for table in clients.values()), schema,
      standardize=False,
  ))


def _missing(clients: clients_lib.Clients) -> dict[str, int]:
  """Returns the number of missing cells of each feature that lacks any."""
  names = [field.name for field in clients.schema.features]
  if clients.schema.missing == "error":
    return {}
  missing = sum(table[names].isna().sum() for table in clients.values())
  return {name: int(missing[name]) for name in names if missing[name]}


def _fitter(
    config: config_lib.OwnDataConfig, features: _Features, stack: contextlib.ExitStack,
    **changes: Any,
) -> _Fit:
  """Returns `Rows.fit`; only it starts who computes for the clients.

  Args:
    **changes: Other settings of k-means than those of `config`.
  """

  @functools.cache
  def hold() -> secure_sums.ClientPoints:
    directory = stack.enter_context(tempfile.TemporaryDirectory())
    return privacy_lib.hold(
        features, (len(config.schema.feature_names),), config.privacy,
        functools.partial(secure_sums.hold, directory=directory),
    )

  @functools.lru_cache(maxsize=1)
  def fit(num_clusters: int) -> fitted.Fit:
    from fl_clustering.kmeans import estimator  # pylint: disable=g-import-not-at-top

    with contextlib.ExitStack() as rules:
      rules.enter_context(launch.input_errors())  # Data that the flags don't fit are bad input.
      if config.privacy is not None:
        rules.enter_context(clustering_params.content_raises_nothing())
      settings = dataclasses.replace(config.kmeans(num_clusters), **changes)
      return estimator.fit(settings, hold())

  return fit


def _fitter_of_numbers(
    config: config_lib.OwnDataConfig, clients: clients_lib.Clients, kept: saved.SavedTables,
    stack: contextlib.ExitStack,
) -> _Fit | None:
  """Returns `Rows.fit_numbers`."""
  fields = clients.schema.features
  are_numbers = np.repeat([field.is_numeric for field in fields], clients.schema.field_widths)
  if len(config.candidates) < 2 or are_numbers.all() or not are_numbers.any():
    return None
  return _fitter(config, _Features(clients, kept, are_numbers), stack, field_widths=None)


def _load(
    config: config_lib.OwnDataConfig, stack: contextlib.ExitStack, *, data_dir: str,
    advice: contextlib.AbstractContextManager[None] = contextlib.nullcontext(),
) -> tidy_experiment.Inputs:
  """Opens the clients' files.

  Args:
    advice: Adds to the errors of its files what the user can do.
  """
  is_private = config.privacy is not None
  with advice:
    clients = clients_lib.open_folder(data_dir, config.schema, private=is_private)
  config.check_enough_clients(len(clients))
  identity: dict[str, Any] = {"clients": {name: place for place, name in enumerate(clients)}}
  about: dict[str, Any] = {}
  if not is_private:
    config.check_enough_points(sum(clients.num_rows.values()))
    identity |= {"files": clients.digests(), summary.NUM_ROWS: clients.num_rows}
    about = {summary.MISSING: _missing(clients)}
  kept = _kept(config, clients)
  fit = _fitter(config, _Features(clients, kept), stack)
  fit_numbers = _fitter_of_numbers(config, clients, kept, stack)
  lines, warnings = [f"data: {data_dir}, clients: {len(clients)}"], list[str]()
  if config.privacy is not None:
    planned = (config.privacy, config.candidates[0], len(kept.feature_names), len(clients))
    lines.append(privacy_lib.rows_needed(*planned))
    warnings += privacy_lib.planning_warnings(*planned)
    warnings += encode.radius_warnings(config.schema, config.privacy.radius)
  return tidy_experiment.Inputs(
      Rows(clients, kept, fit, fit_numbers), identity, about, warnings=tuple(warnings),
      lines=(*lines, *(f"warning: {text}" for text in warnings)),
  )


def cells(config: config_lib.OwnDataConfig, unused_rows: Any = None) -> list[dict[str, Any]]:
  """Returns the numbers of clusters to try."""
  return [{"num_clusters": number} for number in config.candidates]


def _release(whole: tidy_experiment.Run, fit: fitted.Fit) -> None:
  """Writes what a private fit may show."""
  from fl_clustering import load_model  # pylint: disable=g-import-not-at-top

  assert fit.privacy_spent is not None
  stated = dict(fit.privacy_spent)
  if whole.is_resumed:
    stated["interrupted"] = "count the guarantee once more for every --resume that fitted again"
  path = os.path.join(whole.folder, tidy_tables.file_name(summary.GUARANTEE))
  atomic_file.write_text(path, output_folder.csv_text(("name", "value"), stated.items()))
  fitted_rows.write_model(whole.folder, load_model.SavedKMeans.of_fit(fit, whole.data.kept))


def _measure(
    whole: tidy_experiment.Run, num_clusters: int
) -> dict[str, list[dict[str, Any]]]:
  """Returns the scores and the rounds of a fit; writes the release of a private one."""
  config, rows = whole.config, whole.data
  if config.privacy is not None and whole.is_resumed:
    logging.warning(
        "The interrupted run may have released something. This fit draws new noise, so that the "
        "budget of (%g, %g) is spent once more.", config.epsilon, config.delta,
    )
  fit = rows.fit(num_clusters)
  results = {"rounds": fit.num_rounds}
  if fit.privacy_spent is not None:
    _release(whole, fit)
  else:  # All of it depends on single rows.
    results |= {
        summary.SILHOUETTE: fit.simplified_silhouette, "inertia": fit.loss,
        summary.FOUND: fit.num_clusters_found,
    }
    if rows.fit_numbers is not None:
      results[summary.SILHOUETTE_OF_NUMBERS] = rows.fit_numbers(num_clusters).simplified_silhouette
  return {
      tidy_experiment.RESULTS: [
          {"metric": name, "value": value} for name, value in results.items()
      ],
      summary.ROUNDS: [
          {"round": number, "stage": record.stage, "metric": metric, "value": value}
          for number, record in enumerate(fit.history, start=1)
          for metric, value in (
              ("inertia", record.inertia), ("bytes_down_per_client", record.bytes_down),
              ("bytes_up_per_client", record.bytes_up),
          )
          if value is not None
      ],
  }


def _finish(whole: tidy_experiment.Run, tidy: Mapping[str, Any]) -> None:
  """Writes the model of the best number of clusters, and the rows' clusters and profiles."""
  from fl_clustering import load_model  # pylint: disable=g-import-not-at-top

  if whole.config.privacy is not None:
    return
  rows = whole.data
  fit = rows.fit(summary.best_num_clusters(tidy[tidy_experiment.RESULTS]))
  fit.warn_of_few_points()
  model = load_model.SavedKMeans.of_fit(fit, rows.kept).knowing_farthest(rows.clients)
  fitted_rows.write(whole.folder, model, rows.clients, with_means=True)


def _charged_in(config: config_lib.OwnDataConfig) -> str | None:
  return None if config.privacy is None else tidy_experiment.JOURNAL


EXPERIMENT = tidy_experiment.Experiment(
    name="federated_kmeans_own_data",
    title="Federated k-means of your own rows",
    keys={"num_clusters": int},
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=summary.TABLES,
    figures=(summary.SELECTION_FIGURE, cluster_profiles.FIGURE),
    reading=summary.READING,
    tidy={tidy_experiment.RESULTS: {}, summary.ROUNDS: {"round": int, "stage": str}},
    files={
        **fitted_rows.FILES,
        tidy_tables.file_name(summary.GUARANTEE): "what a private run guarantees",
    },
    folders=fitted_rows.FOLDERS,
    read=summary.READ,
    finish=_finish,
    charged_in=_charged_in,
    versions_of=("numpy", "scikit-learn"),
    rechecks_finished=True,
)
