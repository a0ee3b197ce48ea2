"""What tables look like and how they become features: what a model has to remember of them."""

import dataclasses
from typing import Optional

import numpy as np

from fl_clustering.tables import cells
from fl_clustering.tables import columns as columns_lib
from fl_clustering.tables import feature_encoding
from fl_clustering.tables import table_options


# The arrays of an encoding, each of which may be None.
_ARRAYS = ("means", "shift", "factor")


def _as_list(array):
  return None if array is None else array.tolist()


def _as_array(numbers):
  return None if numbers is None else np.array(numbers, np.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class TableFormat:
  """The columns of clients' tables, how they are read, and how they become features.

  Attributes:
    options: The `TableOptions`.
    columns: The `Columns` that are used.
    encoding: The `FeatureEncoding`.
    classes: The classes' names; None without a label column.
  """

  options: table_options.TableOptions
  columns: columns_lib.Columns
  encoding: feature_encoding.FeatureEncoding
  classes: Optional[tuple[str, ...]] = None

  def without_roles(self, roles):
    """Returns the format of tables whose columns of these roles are left out."""
    kept = {role: name for role, name in self.columns.roles.items() if role not in roles}
    names = tuple(name for role, name in self.columns.roles.items() if role in roles)
    left_out = {**dict.fromkeys(roles), "exclude": (*self.options.exclude, *names)}
    if "label_column" in left_out:
      left_out["label_above"] = None
    return dataclasses.replace(
        self,
        options=dataclasses.replace(self.options, **left_out),
        columns=dataclasses.replace(self.columns, roles=kept),
    )

  def features(self, frame):
    """Returns the features of rows, float64 of shape (n, d).

    Args:
      frame: A pandas frame with the tables' columns, in any order; others are left alone.

    Raises:
      ValueError: If a column is missing, or a cell can't be used.
    """
    columns = {}
    for name in self.columns.features:
      if name not in frame.columns:
        raise ValueError(f"`frame` must have the column {name!r}, got {list(frame.columns)}.")
      columns[name] = frame[name].to_numpy()
      if name in self.columns.categories:
        is_missing = frame[name].isna().to_numpy()
        columns[name] = np.where(is_missing, None, frame[name].astype(str).to_numpy(object))
        continue
      try:
        columns[name] = columns[name].astype(np.float64)
      except (TypeError, ValueError) as e:
        raise ValueError(f"`frame` must hold numbers in column {name!r}: {e}.") from e
    try:
      row_numbers = range(1, len(frame) + 1)
      features = self.encoding.finish(self.encoding.encode(columns, row_numbers))
    except cells.BadTable as e:
      raise ValueError(f"`frame` must be like the tables of the fit: {e}.") from e
    if not self.options.allow_any_number and not np.isfinite(features).all():
      row, column = np.argwhere(~np.isfinite(features))[0]
      raise ValueError(
          f"`frame` must hold finite numbers, got {features[row, column]} in row {row + 1}, "
          f"column {self.encoding.feature_names[column]!r}."
      )
    return features

  def to_json(self):
    """Returns the format as a dict for JSON."""
    encoding = self.encoding
    return {
        "options": self.options.to_json(),
        "features": list(self.columns.features),
        "levels": {name: list(levels) for name, levels in encoding.levels.items()},
        "indicators": list(encoding.indicators),
        **{name: _as_list(getattr(encoding, name)) for name in _ARRAYS},
        "classes": self.classes and list(self.classes),
    }

  @classmethod
  def from_json(cls, document):
    """Returns the format that `to_json` returned as a dict."""
    options = table_options.TableOptions.from_json(document["options"])
    levels = {name: tuple(found) for name, found in document["levels"].items()}
    features = tuple(document["features"])
    return cls(
        options,
        columns_lib.Columns(features, tuple(levels), options.roles),
        feature_encoding.FeatureEncoding(
            features,
            levels,
            indicators=tuple(document["indicators"]),
            **{name: _as_array(document[name]) for name in _ARRAYS},
        ),
        document["classes"] and tuple(document["classes"]),
    )
