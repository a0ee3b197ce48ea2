"""What a model keeps of the tables that it is of, so that later rows become the same features."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.tables import encode
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib

if TYPE_CHECKING:
  from narwhals.typing import IntoDataFrame

# Features with a public scaling are moved into [-_LIMIT, _LIMIT] in private runs.
_LIMIT = 5.0


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
    return schema_lib.feature_names(self.schemas)

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

  @classmethod
  def of(cls, folder: folder_lib.Folder, *, private: bool = False) -> SavedTables:
    """Returns what is kept of a folder: in the data's units, or in private the schema's.

    In the data's units, missing cells become means over all clients.

    Raises:
      ValueError: If a feature has no value, or in private the schemas don't say enough.
    """
    if private:
      scalings = map(encode.public_scaling, folder.schemas.values())
      return cls(folder.schemas, encode.FeatureScaling.joined(scalings), is_private=True)
    nothing = np.zeros(len(folder.means))
    return cls(folder.schemas, encode.FeatureScaling(folder.means, nothing, nothing + 1))

  def features(self, features: np.ndarray) -> np.ndarray:
    """Returns the features that a folder's `ClientRows` have, as the model takes them."""
    if not self.is_private:
      return self.scaling(features)
    with np.errstate(all="ignore"):  # An error would tell of a number's size.
      return np.clip(self.scaling(features), -_LIMIT, _LIMIT)

  def features_of_frames(
      self, frames: IntoDataFrame | Mapping[str, IntoDataFrame] | Sequence[IntoDataFrame]
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
    without_roles = {
        view: one.without(*schema_lib.ROLES) for view, one in self.later().items()
    }
    found = [
        encode.numbers(read_lib.from_frame(given[view], one), one)
        for view, one in without_roles.items()
    ]
    if len({*map(len, found)}) > 1:
      raise validate.error("frames", "have as many rows in every view", [*map(len, given.values())])
    return self.features(np.concatenate(found, axis=1))

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

  def open_folder(self, directory: str, schema: str | None = None) -> folder_lib.Folder:
    """Returns the rows of a folder with later files, which may lack the label and the key.

    Some of their rows may lack the label alone.  The views of rows are joined by a key.

    Args:
      schema: A file of a schema with the same features and the same column for the client, which
        may have another dialect and other missing cells; None for the model's.

    Raises:
      ValueError: If the folder can't be used, or the schema has other features.
      BadTable: If a file can't be used, or lacks a column that the first one has.
    """
    found = self.later(None if schema is None else views_lib.load(schema))
    if not self.has_views:
      later = found[schema_lib.NO_VIEW].without("split")
      first = next(iter(folder_lib.files(directory).values()))
      names = read_lib.header(first, later.delimiter)
      lacking = [role for role in ("label", "key") if later.roles.get(role) not in (None, *names)]
      found = {schema_lib.NO_VIEW: later.without(*lacking)}
    later_ones = {view: dataclasses.replace(one, is_later=True) for view, one in found.items()}
    return folder_lib.open_folder(directory, later_ones)

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
