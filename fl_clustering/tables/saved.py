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
  """The schemas of tables, and what was made of them.

  Attributes:
    schemas: What they hold, by view; of a label, it lists the classes.
    scaling: What was done to their features, those of all views side by side.
    is_private: Whether they were read in private.  Of later rows, too, missing cells have their
      center then, and numbers outside of their bounds become the nearer of them.
  """

  schemas: schema_lib.Schemas
  scaling: encode.FeatureScaling
  is_private: bool = False

  @property
  def has_views(self) -> bool:
    return schema_lib.NO_VIEW not in self.schemas

  @property
  def schema(self) -> schema_lib.Schema:
    """That of tables without views."""
    return self.schemas[schema_lib.NO_VIEW]

  @property
  def feature_names(self) -> tuple[str, ...]:
    """The names of the features of all views."""
    return tuple(
        f"{view}: {name}" if self.has_views else name
        for view, one in self.schemas.items() for name in one.feature_names
    )

  @property
  def field_widths(self) -> tuple[int, ...]:
    """The number of features of every field of all views."""
    return tuple(width for one in self.schemas.values() for width in one.field_widths)

  @property
  def widths(self) -> tuple[int, ...]:
    """The number of every view's features."""
    return tuple(len(one.feature_names) for one in self.schemas.values())

  @property
  def bounds(self) -> tuple[np.ndarray, np.ndarray]:
    """The features' `encode.bounds`."""
    low, high = zip(*map(encode.bounds, self.schemas.values()))
    return np.concatenate(low), np.concatenate(high)

  @property
  def ranges(self) -> np.ndarray:
    """The features' `encode.ranges`, of tables that were read in private."""
    return np.concatenate([*map(encode.ranges, self.schemas.values())])

  def features(self, tables: pd.DataFrame | Mapping[str, pd.DataFrame]) -> np.ndarray:
    """Returns the features of rows that were read, as the model takes them, of shape (n, d).

    Args:
      tables: The rows, by view if there are views.
    """
    by_view: Any = tables if self.has_views else {schema_lib.NO_VIEW: tables}
    encoded = encode.private_features if self.is_private else encode.numbers
    found = [encoded(by_view[view], one) for view, one in self.schemas.items()]
    features = np.concatenate(found, axis=1)
    return features if self.is_private else self.scaling(features)

  def features_of_frames(
      self, frames: pd.DataFrame | Mapping[str, pd.DataFrame] | Sequence[pd.DataFrame]
  ) -> np.ndarray:
    """Returns the features of a frame's rows, or of frames by view or in the order of their names.

    Raises:
      ValueError: If there are other views, or as many rows in not all of them.
      BadTable: If a frame lacks a column, or a cell is wrong.
    """
    given: Any = frames if self.has_views else {schema_lib.NO_VIEW: frames}
    if not isinstance(given, Mapping):
      given = dict(zip(self.schemas, given)) if len(given) == len(self.schemas) else {}
    if set(given) != set(self.schemas):
      raise validate.error("frames", f"have the views {', '.join(self.schemas)}", list(given))
    tables = {
        view: read_lib.from_frame(given[view], one.without(*schema_lib.ROLES))
        for view, one in self.later().items()
    }
    if len({len(table) for table in tables.values()}) > 1:
      raise validate.error("frames", "have as many rows in every view", [*map(len, given.values())])
    return self.features(tables if self.has_views else tables[schema_lib.NO_VIEW])

  def later(self, given: schema_lib.Schemas | None = None) -> dict[str, schema_lib.Schema]:
    """Returns the schemas of later rows, with the dialects and missing cells of those given.

    Raises:
      ValueError: If they have other features or views, or another column for the client.
    """
    if given is not None and set(given) != set(self.schemas):
      rule = f"have the views {', '.join(self.schemas)}" if self.has_views else "be without views"
      raise validate.error("schema", rule, list(given))
    found = {
        view: own if given is None else _later(own, given[view])
        for view, own in self.schemas.items()
    }
    if not self.is_private:
      return found
    return {
        view: dataclasses.replace(one, missing="mean", clips=True) for view, one in found.items()
    }

  def open_folder(
      self, directory: str, schema: str | None = None
  ) -> clients_lib.Clients | views_lib.Views:
    """Returns the clients of a folder with later files, which may lack the label and the key.

    Some of their rows may lack the label alone.  The views of rows are joined by a key.

    Args:
      schema: A file of a schema with the same features and the same column for the client, which
        may have another dialect and other missing cells; None for the model's.

    Raises:
      ValueError: If the folder can't be used, or the schema has other features.
      BadTable: If a file can't be used, or lacks a column that the first one has.
    """
    found = self.later(None if schema is None else views_lib.load(schema))
    if self.has_views:
      return views_lib.open_folder(directory, found)
    later = found[schema_lib.NO_VIEW].without("split")
    first = next(iter(clients_lib.files(directory).values()))
    names = read_lib.header(first, later.delimiter)
    lacking = [role for role in ("label", "key") if later.roles.get(role) not in (None, *names)]
    later = dataclasses.replace(later.without(*lacking), is_later=True)
    return clients_lib.open_folder(directory, later)

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON."""
    return {
        "schemas": {view: one.to_json() for view, one in self.schemas.items()},
        "scaling": self.scaling.to_json(), "is_private": self.is_private,
    }

  @classmethod
  def from_json(cls, document: Mapping[str, Any]) -> SavedTables:
    """Returns what `to_json` made a dict of."""
    schemas = document["schemas"].items()
    return cls(
        {view: schema_lib.Schema.from_json(one) for view, one in schemas},
        encode.FeatureScaling.from_json(document["scaling"]), document["is_private"],
    )


def _later(own: schema_lib.Schema, given: schema_lib.Schema) -> schema_lib.Schema:
  """Returns a model's schema with the dialect and the missing cells of the one that is given."""
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
