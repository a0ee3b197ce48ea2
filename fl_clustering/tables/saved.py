"""What a model keeps of the tables that it is of, so that later rows become the same features."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.points import secure_sums
from fl_clustering.tables import encode
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib

if TYPE_CHECKING:
  from narwhals.typing import IntoDataFrame


@dataclasses.dataclass(frozen=True, eq=False)
class SavedTables:
  """The schemas of tables, and what was made of them.

  Attributes:
    schemas: What they hold, by view; of a label, it lists the classes.
    scaling: From their features, those of all views side by side, to the coordinates in which the
      model takes them: the only one of a column that a model has.
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
    """How far apart values of every feature may be in private; without bounds, twice the scale."""
    low, high = self.bounds
    return np.where(np.isfinite(high - low), high - low, 2 / self.scaling.factor)

  @classmethod
  def private(cls, schemas: schema_lib.Schemas) -> SavedTables:
    """Returns what is kept of tables that are read in private, whose units are the schemas'.

    Raises:
      ValueError: If the schemas don't say enough, or have a key of views: it could change to which
        rows others belong.
    """
    for view, one in schemas.items():
      if view != schema_lib.NO_VIEW and one.key is not None:
        raise validate.error("primaryKey", "be left out of views in a private run", one.key)
    scalings = [encode.public_scaling(one) for one in schemas.values()]
    joined = (np.concatenate(arrays) for arrays in zip(*(vars(one).values() for one in scalings)))
    return cls(schemas, encode.FeatureScaling(*joined), is_private=True)

  @classmethod
  def exact(cls, schemas: schema_lib.Schemas, fill: np.ndarray) -> SavedTables:
    """Returns what is kept of tables in the data's units, in which missing cells become `fill`.

    Where that is NaN, they become the mean by which `fitted` scales.
    """
    return cls(schemas, encode.FeatureScaling(np.zeros(len(fill)), np.ones(len(fill)), fill))

  def fitted(self, scaling: secure_sums.Scaling) -> SavedTables:
    """Returns the tables of a model that takes them as a fit without noise scaled them."""
    fill = np.where(np.isnan(self.scaling.fill), scaling.shift, self.scaling.fill)
    own = encode.FeatureScaling(scaling.shift, scaling.factor, fill)
    return dataclasses.replace(self, scaling=own)

  def features(self, features: np.ndarray) -> np.ndarray:
    """Returns the features that a folder's `ClientRows` have, as the model takes them."""
    if not self.is_private:
      return self.scaling.apply(features)
    with np.errstate(all="ignore"):  # An error would tell of a number's size.
      return np.clip(self.scaling.apply(features), -schema_lib.LIMIT, schema_lib.LIMIT)

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
      BadTable: If a file can't be used, or lacks a column that another one has.
    """
    found = self.later(None if schema is None else views_lib.load(schema))
    if not self.has_views:
      later = found[schema_lib.NO_VIEW].without("split")
      headers = [
          read_lib.header(path, later.delimiter) for path in folder_lib.files(directory).values()
      ]
      lacking = [
          role for role in ("label", "key")
          if not any(later.roles.get(role) in names for names in headers)
      ]
      found = {schema_lib.NO_VIEW: later.without(*lacking)}
    later_ones = {view: dataclasses.replace(one, is_later=True) for view, one in found.items()}
    return folder_lib.open_folder(directory, later_ones)

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON; the schemas of private tables say their scaling."""
    scaling = {name: array.tolist() for name, array in vars(self.scaling).items()}
    return {
        "schemas": {view: one.to_json() for view, one in self.schemas.items()},
        "scaling": None if self.is_private else scaling,
    }

  @classmethod
  def from_json(cls, document: Mapping[str, Any]) -> SavedTables:
    """Returns what `to_json` made a dict of."""
    items, scaling = document["schemas"].items(), document["scaling"]
    schemas = {view: schema_lib.Schema.from_json(one) for view, one in items}
    if scaling is None:
      return cls.private(schemas)
    arrays = {name: np.array(numbers, float) for name, numbers in scaling.items()}
    return cls(schemas, encode.FeatureScaling(**arrays))


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
