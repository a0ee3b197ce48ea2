"""What a model keeps of the tables that it is of, so that later rows become the same features."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import read as read_lib
from fl_clustering.tables import schema as schema_lib

if TYPE_CHECKING:
  import pandas as pd


@dataclasses.dataclass(frozen=True, eq=False)
class SavedTables:
  """The schema of tables, and what was made of them.

  Attributes:
    schema: What they hold; of a label, it lists the classes.
    scaling: What was done to their features.
  """

  schema: schema_lib.Schema
  scaling: encode.Scaling

  def features(self, table: pd.DataFrame) -> np.ndarray:
    """Returns the features of rows that were read, as the model takes them, of shape (n, d)."""
    return self.scaling(encode.numbers(table, self.schema))

  def features_of_frame(self, frame: pd.DataFrame) -> np.ndarray:
    """Returns the features of a frame's rows; BadTable if it lacks a column or a cell is wrong."""
    return self.features(read_lib.from_frame(frame, self._of_later_rows))

  @property
  def _of_later_rows(self) -> schema_lib.Schema:
    return self.schema.without("label", "client", "split", "key")

  def open_folder(
      self, directory: str, schema: schema_lib.Schema | None = None, argument: str = "data_dir"
  ) -> clients_lib.Clients:
    """Returns the clients of a folder with later files, which may lack the label and the key.

    Args:
      schema: One with the same features and the same column for the client, which may have another
        dialect and other missing cells; None for the model's.

    Raises:
      ValueError: If the folder can't be used, or the schema has other features.
      BadTable: If a file can't be used, or lacks a column that the first one has.
    """
    later = self.schema.without("split")
    if schema is not None:
      wanted, given = ({field.name: field for field in one.features} for one in (later, schema))
      for name in {**wanted, **given}:
        if given.get(name) != wanted.get(name):
          raise validate.error(
              f"fields[{name}]", f"be as in the model, {wanted.get(name)}", given.get(name)
          )
      if schema.client != later.client:
        raise validate.error("client", f"be as in the model, {later.client!r}", schema.client)
      later = dataclasses.replace(
          later, missing_values=schema.missing_values, missing=schema.missing,
          delimiter=schema.delimiter, decimal=schema.decimal,
      )
    first = next(iter(clients_lib.files(directory, argument).values()))
    names = read_lib.header(first, later.delimiter)
    lacking = [role for role in ("label", "key") if later.roles.get(role) not in (None, *names)]
    return clients_lib.open_folder(directory, later.without(*lacking), argument=argument)

  def to_json(self) -> dict[str, Any]:
    """Returns a dict for JSON."""
    return {"schema": self.schema.to_json(), "scaling": self.scaling.to_json()}

  @classmethod
  def from_json(cls, document: Mapping[str, Any]) -> SavedTables:
    """Returns what `to_json` made a dict of."""
    return cls(
        schema_lib.Schema.from_json(document["schema"]),
        encode.Scaling.from_json(document["scaling"]),
    )
