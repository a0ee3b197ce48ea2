"""Rows in a folder of this machine, which is read once and scaled once."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import functools
from typing import Any, Callable, Iterator, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiments.cluster_tables import config as config_lib
from experiments.cluster_tables import summary
from fl_clustering import fits
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums
from fl_clustering.tables import encode
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import saved

if TYPE_CHECKING:
  from fl_clustering.points import fitted

_Fit = Callable[[int], "fitted.Fit"]


class _Columns(collections.abc.Mapping):
  """Some columns of clients' features by client id, copied when they are asked for."""

  def __init__(self, folder: folder_lib.Folder, used: np.ndarray) -> None:
    self._folder, self._used = folder, used

  def __getitem__(self, client_id: str) -> np.ndarray:
    return self._folder[client_id].features[:, self._used]

  def __iter__(self) -> Iterator[str]:
    return iter(self._folder)

  def __len__(self) -> int:
    return len(self._folder)


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
  """Rows as cells are measured with them, here or, by `at_sites`, elsewhere.

  Attributes:
    tables: What a model keeps of them.
    fit: From a number of clusters to a fit.  Here, it keeps the last one.
    fit_numbers: Likewise of the numbers alone, without levels and booleans; None if there is no
      choice of a number of clusters that these may decide.
    folder: The rows, in the data's units; None where nothing but the fit may see them.
    log: Every exchange with sites so far, by `what` it was, `bytes_down`, `most_bytes_up` and
      `seconds`.
  """

  tables: saved.SavedTables
  fit: _Fit
  fit_numbers: _Fit | None = None
  folder: folder_lib.Folder | None = None
  log: Sequence[dict[str, Any]] = ()


def _fitter(
    config: config_lib.Config, tables: saved.SavedTables,
    hold: Callable[[], secure_sums.ClientPoints], **changes: Any,
) -> _Fit:
  """Returns a fit by its number of clusters.

  Args:
    hold: Returns the clients with their points; it is called once.
    **changes: Other settings than those of `config`.
  """
  held = functools.cache(hold)

  @functools.lru_cache(maxsize=1)
  def fit(num_clusters: int) -> fitted.Fit:
    with contextlib.ExitStack() as rules:
      rules.enter_context(launch.input_errors())  # Data that the flags don't fit are bad input.
      if tables.is_private:
        rules.enter_context(clustering_params.content_raises_nothing())
      settings = dataclasses.replace(config.settings(num_clusters, tables.is_private), **changes)
      return fits.fit(settings, held(), tables.widths)

  return fit


def _fitter_of_numbers(
    config: config_lib.Config, tables: saved.SavedTables, folder: folder_lib.Folder
) -> _Fit | None:
  """Returns `Rows.fit_numbers`."""
  if len(config.candidates) < 2:
    return None
  schema = tables.schema
  are_numbers = np.repeat([field.is_numeric for field in schema.features], schema.field_widths)
  if are_numbers.all() or not are_numbers.any():
    return None
  points = secure_sums.PointArrays(
      _Columns(folder, are_numbers), secure_sums.identity(int(are_numbers.sum()))
  )
  return _fitter(config, tables, lambda: points, field_widths=None)


def _check_rows(
    config: config_lib.Config, folder: folder_lib.Folder, tables: saved.SavedTables
) -> None:
  """Raises a ValueError if rows of an exact run are too few, or the same everywhere in a view."""
  num_rows = sum(folder.num_rows.values())
  if config.candidates[-1] > num_rows:
    name = "k_range" if config.num_clusters is None else "num_clusters"
    raise validate.error(
        name, f"be at most the {num_rows} points of all clients", config.candidates[-1]
    )
  ends = np.cumsum(tables.widths)
  for view, end, width in zip(tables.schemas, ends, tables.widths) if tables.has_views else ():
    of_view = [own.features[:, end - width : end] for own in folder.values()]
    first = next(own[0] for own in of_view if len(own))
    if all((own == first).all() for own in of_view):
      raise ValueError(
          "`data_dir` must hold views that vary over all rows, got the same values everywhere in "
          f"view {view!r}."
      )


def load(
    config: config_lib.Config, data_dir: str, advice: contextlib.AbstractContextManager[None]
) -> tidy_experiment.Inputs:
  """Reads the clients' files.

  Args:
    advice: Adds to the errors of the files what the user can do.
  """
  privacy = config.privacy
  is_private = privacy is not None
  with contextlib.ExitStack() as rules:
    rules.enter_context(advice)
    if is_private:
      tables = saved.SavedTables.private(config.schemas)
      rules.enter_context(clustering_params.content_raises_nothing())
    folder = folder_lib.open_folder(data_dir, config.schemas, private=is_private)
  if privacy is not None:
    privacy_lib.least_shares(privacy, len(folder))  # As many clients as shares of the noise.
  if not is_private:
    tables = saved.SavedTables.exact(folder.schemas, folder.means)
  identity: dict[str, Any] = {"clients": {name: place for place, name in enumerate(folder)}}
  about: dict[str, Any] = {summary.IS_PRIVATE: is_private}
  if not is_private:  # The number of points of a private fit is secret, and may be too small.
    identity |= {"files": folder.digests, summary.NUM_ROWS: folder.num_rows}
    about[summary.MISSING] = folder.missing
  folder.scale(tables.features)
  fit_numbers = None
  if not is_private:
    _check_rows(config, folder, tables)
    fit_numbers = _fitter_of_numbers(config, tables, folder)
  points = {client_id: own.features for client_id, own in folder.items()}
  fit = _fitter(config, tables, lambda: privacy_lib.hold(points, tables.widths, privacy))
  lines, warnings = [f"data: {data_dir}, clients: {len(folder)}"], list[str]()
  if privacy is not None:
    planned = (privacy, config.candidates[0], len(tables.feature_names), len(folder))
    lines.append(privacy_lib.rows_needed(*planned))
    warnings += privacy_lib.planning_warnings(*planned)
    _, of_norms = encode.checked_norms(config.schemas, config.radius, config.view_norms)
    warnings += of_norms
  return tidy_experiment.Inputs(
      Rows(tables, fit, fit_numbers, None if is_private else folder), identity, about,
      warnings=tuple(warnings), lines=(*lines, *(f"warning: {text}" for text in warnings)),
  )
