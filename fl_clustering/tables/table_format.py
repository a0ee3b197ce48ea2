"""What tables look like and how they become features: what a model has to remember of them.

Columns become numbers, levels zeros and ones, and missing cells are filled in.  Tables of several
views have a format for each.
"""

from __future__ import annotations

import collections.abc
import dataclasses
from typing import Any, Collection, Iterable, Mapping, Sequence

import numpy as np

from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import problems
from fl_clustering.tables import table_options


# Larger numbers are no integers that were written as such.
_LARGEST_INTEGER = 2.0**64
# The arrays of an encoding, each of which may be None.
_ARRAYS = ("means", "shift", "factor")


def _as_list(array: np.ndarray | None) -> list[float] | None:
  return None if array is None else array.tolist()


def _as_array(numbers: Sequence[float] | None) -> np.ndarray | None:
  return None if numbers is None else np.array(numbers, np.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureEncoding:
  """How a table's columns become features; the same at all clients.

  Attributes:
    levels: The levels of the columns that hold some, by name.  They come from all clients: a
      level's name leaves the clients that have it.
    means: What missing values become, of shape (num_encoded,); None where none may be missing.
    indicators: The columns that get a further one, which is 1 where the value was missing.
    shift: What is subtracted from the features, of shape (num_features,); None for nothing.
    factor: What they are multiplied by then, likewise.
    ignores_unknown: Whether a row with an unknown level has none of its column's.
  """

  columns: tuple[str, ...]
  levels: Mapping[str, tuple[str, ...]]
  means: np.ndarray | None = None
  indicators: tuple[str, ...] = ()
  shift: np.ndarray | None = None
  factor: np.ndarray | None = None
  ignores_unknown: bool = False

  @property
  def encoded_names(self) -> tuple[str, ...]:
    """The names of the columns after levels became columns, (num_encoded,)."""
    names: list[str] = []
    for name in self.columns:
      has_levels = name in self.levels
      names += [f"{name}={level}" for level in self.levels[name]] if has_levels else [name]
    return tuple(names)

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of the features."""
    return (*self.encoded_names, *(f"{name} is missing" for name in self.indicators))

  @property
  def moments(self) -> dict[str, list[table_options.Moments]]:
    """The moments of scaled features by name, as far as the scale says them."""
    if self.shift is None or self.factor is None:
      return {}
    deviations = np.divide(1, self.factor, out=np.zeros(len(self.factor)), where=self.factor > 0)
    found = zip(self.feature_names, self.shift.tolist(), deviations.tolist())
    return {name: [(1, mean, deviation)] for name, mean, deviation in found}

  def first_encoded(self, names: Iterable[str]) -> list[int]:
    """Returns the positions of the first encoded columns of some columns, a list."""
    widths = [len(self.levels.get(name, (name,))) for name in self.columns]
    starts = dict(zip(self.columns, np.cumsum([0, *widths]).tolist()))
    return [starts[name] for name in names]

  def encode(
      self, table: Mapping[str, np.ndarray], row_numbers: Sequence[int] | np.ndarray
  ) -> np.ndarray:
    """Returns float64 of shape (num_rows, num_encoded), NaN where a value is missing.

    Args:
      table: The columns by name, as `reader.read` returns them.
      row_numbers: What messages call the rows.

    Raises:
      BadTable: If a level is unknown.
    """
    return np.concatenate([
        self._one_hot(name, table[name], row_numbers) if name in self.levels
        else table[name][:, np.newaxis]
        for name in self.columns
    ], axis=1)

  def _one_hot(
      self, name: str, column: np.ndarray, row_numbers: Sequence[int] | np.ndarray
  ) -> np.ndarray:
    levels = self.levels[name]
    number = {level: i for i, level in enumerate(levels)}
    encoded = np.zeros((len(column), len(levels)))
    for row, cell in enumerate(column):
      if cell is None:
        encoded[row] = np.nan
      elif level_of(cell) in number:
        encoded[row, number[level_of(cell)]] = 1
      elif not self.ignores_unknown:
        raise problems.BadTable(no_level(name, row_numbers[row], cell, levels))
    return encoded

  def finish(self, encoded: np.ndarray) -> np.ndarray:
    """Returns features of shape (num_rows, num_features), filled in and scaled.

    `encoded` is what `encode` returned.
    """
    features = encoded
    if self.means is not None:
      is_missing = np.isnan(encoded)
      indicators = is_missing[:, self.first_encoded(self.indicators)]
      features = np.concatenate([np.where(is_missing, self.means, encoded), indicators], axis=1)
    return self.scaled(features)

  def scaled(self, features: np.ndarray) -> np.ndarray:
    """Returns features in the data's units, of shape (n, num_features), as they are used."""
    return features if self.shift is None else (features - self.shift) * self.factor


def standardizing_factor(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
  """Returns what makes features of variance one, 0 for constant ones, of the same shape."""
  # What rounding leaves of a constant feature.
  is_constant = deviation <= 1e-12 * np.abs(mean)
  return np.where(is_constant, 0, 1 / np.where(is_constant, 1, deviation))


def no_level(name: str, row: int, cell: str, levels: Sequence[str]) -> str:
  """Returns what is wrong with a cell that holds none of its column's levels or classes."""
  return f"row {row}, column {name!r} must be one of {', '.join(levels)}, got {cell!r}"


def level_of(text: str) -> str:
  """Returns the level that a cell's text stands for: 1, 1.0 and 01 are one, TRUE and True too.

  A number has the shortest text that is read as the same float64; integers have their digits.
  """
  if cells.is_number(text):
    number = float(text)
    has_digits = number.is_integer() and abs(number) < _LARGEST_INTEGER
    return f"{number:.0f}" if has_digits else repr(number)
  return text.lower() if text.lower() in ("true", "false") else text


def sorted_levels(levels: Collection[str]) -> tuple[str, ...]:
  """Returns levels in order: numbers by size, then text by alphabet."""
  return tuple(sorted(
      levels, key=lambda level: (0, float(level), "") if cells.is_number(level) else (1, 0.0, level)
  ))


@dataclasses.dataclass(frozen=True, eq=False)
class TableFormat:
  """The columns of clients' tables, how they are read, and how they become features.

  Attributes:
    classes: The classes' names; None without a label column.
    decimal: The decimal mark of all text files, None if they differ; if it is a comma, other files
      that leave theirs open have it too.
  """

  options: table_options.TableOptions
  columns: columns_lib.Columns
  encoding: FeatureEncoding
  classes: tuple[str, ...] | None = None
  decimal: str | None = None

  @property
  def levels_told(self) -> str:
    """The levels of columns that hold some, in words; "" if none do."""
    return problems.first_of([
        f"{name} ({problems.listed(levels)})" for name, levels in self.encoding.levels.items()
    ])

  def without_roles(self, roles: Collection[str]) -> TableFormat:
    """Returns the format of tables whose columns of these roles are left out."""
    kept = {role: name for role, name in self.columns.roles.items() if role not in roles}
    names = tuple(name for role, name in self.columns.roles.items() if role in roles)
    left_out: dict[str, Any] = {**dict.fromkeys(roles), "exclude": (*self.options.exclude, *names)}
    return dataclasses.replace(
        self,
        options=dataclasses.replace(self.options, **left_out),
        columns=dataclasses.replace(self.columns, roles=kept),
    )

  def features(self, frame: Any) -> np.ndarray:
    """Returns the features of rows, float64 of shape (n, d).

    Args:
      frame: A pandas frame with the tables' columns, in any order; others are left alone.

    Raises:
      ValueError: If a column is missing, or a cell can't be used.
    """
    columns = {}
    names = [cells.composed(str(name)) for name in frame.columns]
    own = {name: frame.iloc[:, column] for column, name in enumerate(names)}
    for name in self.columns.features:
      if names.count(name) != 1:
        raise ValueError(
            f"`frame` must have the column {name!r} once, got {list(frame.columns)}."
        )
      columns[name] = own[name].to_numpy()
      if name in self.columns.categories:
        is_missing = own[name].isna().to_numpy()
        columns[name] = own[name].astype(str).to_numpy(object, copy=True)
        columns[name][is_missing] = None
        continue
      try:
        columns[name] = columns[name].astype(np.float64)
      except (TypeError, ValueError) as e:
        raise ValueError(f"`frame` must hold numbers in column {name!r}: {e}.") from e
    try:
      row_numbers = range(1, len(frame) + 1)
      features = self.encoding.finish(self.encoding.encode(columns, row_numbers))
    except problems.BadTable as e:
      raise ValueError(f"`frame` must be like the tables of the fit: {e}.") from e
    if not self.options.allow_any_number and not np.isfinite(features).all():
      row, column = np.argwhere(~np.isfinite(features))[0]
      raise ValueError(
          f"`frame` must hold finite numbers, got {features[row, column]} in row {row + 1}, "
          f"column {self.encoding.feature_names[column]!r}."
      )
    return features

  def to_json(self) -> dict[str, Any]:
    """Returns the format as a dict for JSON."""
    encoding = self.encoding
    return {
        "options": self.options.to_json(),
        "features": list(self.columns.features),
        "levels": {name: list(levels) for name, levels in encoding.levels.items()},
        "indicators": list(encoding.indicators),
        **{name: _as_list(getattr(encoding, name)) for name in _ARRAYS},
        "classes": self.classes and list(self.classes),
        "decimal": self.decimal,
    }

  @classmethod
  def from_json(cls, document: Mapping[str, Any]) -> TableFormat:
    """Returns the format that `to_json` returned as a dict."""
    options = table_options.TableOptions.from_json(document["options"])
    levels = {name: tuple(found) for name, found in document["levels"].items()}
    features = tuple(document["features"])
    arrays: dict[str, Any] = {name: _as_array(document[name]) for name in _ARRAYS}
    return cls(
        options,
        columns_lib.Columns(features, tuple(levels), options.roles),
        FeatureEncoding(
            features,
            levels,
            indicators=tuple(document["indicators"]),
            **arrays,
        ),
        document["classes"] and tuple(document["classes"]),
        document["decimal"],
    )


@dataclasses.dataclass(frozen=True, eq=False)
class ViewFormat:
  """The `TableFormat` of every view by its name, in the views' order."""

  views: Mapping[str, TableFormat]

  @property
  def widths(self) -> tuple[int, ...]:
    """The views' numbers of features."""
    return tuple(len(view.encoding.feature_names) for view in self.views.values())

  @property
  def levels_told(self) -> str:
    """The levels of all views' columns, as of `TableFormat.levels_told`."""
    found = {name: view.levels_told for name, view in self.views.items()}
    return "; ".join(f"view {name}: {levels}" for name, levels in found.items() if levels)

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of all views' features, `view: column`."""
    return tuple(
        f"{name}: {feature}" for name, view in self.views.items()
        for feature in view.encoding.feature_names
    )

  def features(self, frames: Any) -> np.ndarray:
    """Returns the features of rows, the views side by side: float64 of shape (n, D).

    Args:
      frames: A mapping from the views' names to pandas frames, or a list of frames in the order
        of the views.  Row i of every frame is the same row; further views are left alone.

    Raises:
      TypeError: If it is neither.
      ValueError: If a view or a column is missing, a cell can't be used, or numbers of rows
        differ.
    """
    blocks: list[np.ndarray] = []
    for name, frame in self._by_name(frames).items():
      try:
        blocks.append(self.views[name].features(frame))
      except ValueError as e:
        raise ValueError(f"`frames` must fit the model, got view {name!r}: {e}") from e
      if len(blocks[-1]) != len(blocks[0]):
        raise ValueError(
            f"`frames` must have the same rows, got {len(blocks[-1])} in view {name!r} and "
            f"{len(blocks[0])} in view {next(iter(self.views))!r}."
        )
    return np.concatenate(blocks, axis=1)

  def _by_name(self, frames: Any) -> dict[str, Any]:
    if isinstance(frames, (list, tuple)):
      if len(frames) != len(self.views):
        raise ValueError(
            f"`frames` must be one for each of the views {', '.join(self.views)}, got "
            f"{len(frames)}."
        )
      return dict(zip(self.views, frames))
    if not isinstance(frames, collections.abc.Mapping):
      raise TypeError(
          "`frames` must be a list of frames or a mapping from view to frame, got "
          f"{type(frames).__name__}."
      )
    for name in self.views:
      if name not in frames:
        raise ValueError(f"`frames` must have the view {name!r}, got {list(frames)}.")
    return {name: frames[name] for name in self.views}

  def to_json(self) -> dict[str, Any]:
    """Returns the format as a dict for JSON."""
    return {name: view.to_json() for name, view in self.views.items()}

  @classmethod
  def from_json(cls, document: Mapping[str, Any]) -> ViewFormat:
    """Returns the format that `to_json` returned as a dict."""
    return cls({
        name: TableFormat.from_json(view) for name, view in document.items()
    })
