"""What a model keeps of the tables that it is of, so that later rows become the same features."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib

if TYPE_CHECKING:
  import pandas as pd


@dataclasses.dataclass(frozen=True, eq=False)
class SavedTables:
  """The schema of tables, and what was made of them.

  Attributes:
    schema: What they hold; of a label, it lists the classes.
    scaling: What was done to their features.
    is_private: Whether they were read in private.  Of later rows, too, missing cells have their
      center then, and numbers outside of their bounds become the nearer of them.
  """

  schema: schema_lib.Schema
  scaling: encode.FeatureScaling
  is_private: bool = False

  @property
  def feature_names(self) -> tuple[str, ...]:
    return self.schema.feature_names

  def features(self, table: pd.DataFrame) -> np.ndarray:
    """Returns the features of rows that were read, as the model takes them, of shape (n, d)."""
    if self.is_private:
      return encode.private_features(table, self.schema)
    return self.scaling(encode.numbers(table, self.schema))

  @property
  def bounds(self) -> tuple[np.ndarray, np.ndarray]:
    """The features' `encode.bounds`."""
    return encode.bounds(self.schema)

  @property
  def ranges(self) -> np.ndarray:
    """The features' `encode.ranges`, of tables that were read in private."""
    return encode.ranges(self.schema)

  def features_of_frame(self, frame: pd.DataFrame) -> np.ndarray:
    """Returns the features of a frame's rows; BadTable if it lacks a column or a cell is wrong."""
    later = self.later().without("label", "client", "split", "key")
    return self.features(read_lib.from_frame(frame, later))

  def later(self, given: schema_lib.Schema | None = None) -> schema_lib.Schema:
    """Returns the schema of later rows, with the dialect and missing cells of the one given.

    Raises:
      ValueError: If it has other features, or another column for the client.
    """
    found = _later(self.schema, given)
    return dataclasses.replace(found, missing="mean", clips=True) if self.is_private else found

  def open_folder(self, directory: str, schema: str | None = None) -> clients_lib.Clients:
    """Returns the clients of a folder with later files, which may lack the label and the key.

    Some of their rows may lack the label alone.

    Args:
      schema: A file of a schema with the same features and the same column for the client, which
        may have another dialect and other missing cells; None for the model's.

    Raises:
      ValueError: If the folder can't be used, or the schema has other features.
      BadTable: If a file can't be used, or lacks a column that the first one has.
    """
    given = None if schema is None else schema_lib.load(schema)
    later = self.later(given).without("split")
    first = next(iter(clients_lib.files(directory).values()))
    names = read_lib.header(first, later.delimiter)
    lacking = [role for role in ("label", "key") if later.roles.get(role) not in (None, *names)]
    later = dataclasses.replace(later.without(*lacking), is_later=True)
    return clients_lib.open_folder(directory, later)

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON."""
    return {
        "schema": self.schema.to_json(), "scaling": self.scaling.to_json(),
        "is_private": self.is_private,
    }

  @classmethod
  def from_json(cls, document: Mapping[str, Any]) -> SavedTables:
    """Returns what `to_json` made a dict of."""
    return cls(
        schema_lib.Schema.from_json(document["schema"]),
        encode.FeatureScaling.from_json(document["scaling"]), document["is_private"],
    )


def _later(own: schema_lib.Schema, given: schema_lib.Schema | None) -> schema_lib.Schema:
  """Returns a model's schema with the dialect and the missing cells of the one that is given."""
  if given is None:
    return own
  of_model, found = ({field.name: field for field in one.features} for one in (own, given))
  for name in {**of_model, **found}:
    if found.get(name) != of_model.get(name):
      own_field, other = (one and one.to_json() for one in (of_model.get(name), found.get(name)))
      raise validate.error(f"fields[{name}]", f"be as in the model, {own_field}", other)
  if given.client != own.client:
    raise validate.error("client", f"be as in the model, {own.client!r}", given.client)
  return dataclasses.replace(
      own, missing_values=given.missing_values, missing=given.missing, delimiter=given.delimiter,
      decimal=given.decimal,
  )


@dataclasses.dataclass(frozen=True, eq=False)
class SavedViews:
  """What is kept of tables in several views, by the views' names."""

  views: Mapping[str, SavedTables]

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of the features of all views."""
    return tuple(
        f"{view}: {name}" for view, one in self.views.items() for name in one.schema.feature_names
    )

  @property
  def field_widths(self) -> tuple[int, ...]:
    """The number of features of every field of all views."""
    return tuple(w for one in self.views.values() for w in one.schema.field_widths)

  @property
  def widths(self) -> tuple[int, ...]:
    """The number of every view's features."""
    return tuple(len(one.schema.feature_names) for one in self.views.values())

  @property
  def scaling(self) -> encode.FeatureScaling:
    """What was done to the features of all views."""
    arrays = zip(*(vars(one.scaling).values() for one in self.views.values()))
    return encode.FeatureScaling(*map(np.concatenate, arrays))

  @property
  def bounds(self) -> tuple[np.ndarray, np.ndarray]:
    """The `encode.bounds` of the features of all views."""
    low, high = zip(*(one.bounds for one in self.views.values()))
    return np.concatenate(low), np.concatenate(high)

  @property
  def ranges(self) -> np.ndarray:
    """The `encode.ranges` of the features of all views, of tables that were read in private."""
    return np.concatenate([one.ranges for one in self.views.values()])

  def features(self, tables: Mapping[str, pd.DataFrame]) -> np.ndarray:
    """Returns the features of rows that were read, of shape (n, sum of the widths)."""
    return np.concatenate([one.features(tables[v]) for v, one in self.views.items()], axis=1)

  def features_of_frames(
      self, frames: Mapping[str, pd.DataFrame] | Sequence[pd.DataFrame]
  ) -> np.ndarray:
    """Returns the features of frames by view, or in the order of the views' names.

    Raises:
      ValueError: If there are other views, or as many rows in not all of them.
      BadTable: If a frame lacks a column, or a cell is wrong.
    """
    if not isinstance(frames, Mapping):
      frames = dict(zip(self.views, frames)) if len(frames) == len(self.views) else {}
    if set(frames) != set(self.views):
      raise validate.error("frames", f"have the views {', '.join(self.views)}", list(frames))
    found = [one.features_of_frame(frames[view]) for view, one in self.views.items()]
    if len({len(features) for features in found}) > 1:
      raise validate.error("frames", "have as many rows in every view", [*map(len, found)])
    return np.concatenate(found, axis=1)

  def open_folder(self, directory: str, schema: str | None = None) -> views_lib.Views:
    """Returns the clients of a folder with later files, as `SavedTables.open_folder` does."""
    given = None if schema is None else views_lib.load(schema)
    if given is not None and set(given) != set(self.views):
      raise validate.error("schema", f"have the views {', '.join(self.views)}", list(given))
    later = {
        view: one.later(None if given is None else given[view]) for view, one in self.views.items()
    }
    return views_lib.open_folder(directory, later)

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON."""
    return {view: one.to_json() for view, one in self.views.items()}

  @classmethod
  def from_json(cls, document: Mapping[str, Any]) -> SavedViews:
    """Returns what `to_json` made a dict of."""
    return cls({view: SavedTables.from_json(one) for view, one in document.items()})
