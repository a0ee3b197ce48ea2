"""From the columns of a table to numbers: levels as zeros and ones, missing cells filled in."""

import dataclasses
from typing import Mapping, Optional

import numpy as np

from fl_clustering.tables import cells


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureEncoding:
  """How a table's columns become features; the same at all clients.

  Attributes:
    columns: The columns of the tables, in order.
    levels: The levels of the columns that hold some, by name.  They come from all clients: a
      level's name leaves the clients that have it.
    means: What missing values become, of shape (num_encoded,); None where none may be missing.
    indicators: The columns that get a further one, which is 1 where the value was missing.
    shift: What is subtracted from the features, of shape (num_features,); None for nothing.
    factor: What they are multiplied by then, likewise.
  """

  columns: tuple[str, ...]
  levels: Mapping[str, tuple[str, ...]]
  means: Optional[np.ndarray] = None
  indicators: tuple[str, ...] = ()
  shift: Optional[np.ndarray] = None
  factor: Optional[np.ndarray] = None

  @property
  def encoded_names(self):
    """The names of the columns after levels became columns, (num_encoded,)."""
    names = []
    for name in self.columns:
      has_levels = name in self.levels
      names += [f"{name}={level}" for level in self.levels[name]] if has_levels else [name]
    return tuple(names)

  @property
  def feature_names(self):
    """The names of the features."""
    return (*self.encoded_names, *(f"{name} is missing" for name in self.indicators))

  def first_encoded(self, names):
    """Returns the positions of the first encoded columns of some columns, a list."""
    widths = [len(self.levels.get(name, (name,))) for name in self.columns]
    starts = dict(zip(self.columns, np.cumsum([0, *widths]).tolist()))
    return [starts[name] for name in names]

  def encode(self, table, row_numbers):
    """Returns float64 of shape (num_rows, num_encoded), NaN where a value is missing.

    Args:
      table: The columns by name, as `table_files.read` returns them.
      row_numbers: What messages call the rows.

    Raises:
      BadTable: If a level is unknown.
    """
    return np.concatenate([
        _one_hot(name, table[name], self.levels[name], row_numbers) if name in self.levels
        else table[name][:, np.newaxis]
        for name in self.columns
    ], axis=1)

  def finish(self, encoded):
    """Returns features of shape (num_rows, num_features), filled in and scaled.

    Args:
      encoded: What `encode` returned.
    """
    features = encoded
    if self.means is not None:
      is_missing = np.isnan(encoded)
      indicators = is_missing[:, self.first_encoded(self.indicators)]
      features = np.concatenate([np.where(is_missing, self.means, encoded), indicators], axis=1)
    return features if self.shift is None else (features - self.shift) * self.factor


def standardizing_factor(mean, deviation):
  """Returns what makes features of variance one, 0 for constant ones, of shape (num_features,).

  Args:
    mean: The features' means, of shape (num_features,).
    deviation: Their standard deviations.
  """
  # What rounding leaves of a constant feature.
  is_constant = deviation <= 1e-12 * np.abs(mean)
  return np.where(is_constant, 0, 1 / np.where(is_constant, 1, deviation))


def _one_hot(name, column, levels, row_numbers):
  number = {level: i for i, level in enumerate(levels)}
  encoded = np.zeros((len(column), len(levels)))
  for row, cell in enumerate(column):
    if cell is None:
      encoded[row] = np.nan
    elif level_of(cell) in number:
      encoded[row, number[level_of(cell)]] = 1
    else:
      raise cells.BadTable(
          f"row {row_numbers[row]}, column {name!r} must be one of {', '.join(levels)}, got "
          f"{cell!r}"
      )
  return encoded


def level_of(text):
  """Returns the level that a cell's text stands for: 1, 1.0 and 01 are one, TRUE and True too."""
  if cells.is_number(text):
    return f"{float(text):.17g}"
  return text.lower() if text.lower() in ("true", "false") else text


def sorted_levels(levels):
  """Returns levels in order: numbers by size, then text by alphabet."""
  return tuple(sorted(
      levels, key=lambda level: (0, float(level), "") if cells.is_number(level) else (1, 0.0, level)
  ))
