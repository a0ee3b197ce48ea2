"""Centroids that are kept in files and give clusters to rows that come later."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, ClassVar, Mapping

import numpy as np

from fl_clustering.kmeans import model as model_lib
from fl_clustering.points import fitted
from fl_clustering.points import scaling as scaling_lib
from fl_clustering.tables import client_tables
from fl_clustering.tables import table_format


@dataclasses.dataclass(frozen=True, eq=False)
class SavedKMeans(fitted.SavedModel):
  """A model of tables; see `fitted.SavedModel`."""

  KIND = "federated_kmeans"
  tables: ClassVar[types.ModuleType] = client_tables

  model: model_lib.KMeansModel
  format: table_format.TableFormat

  def _contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return {
        "feature_names": list(self.format.encoding.feature_names),
        "radius": self.model.radius,
        "tables": self.format.to_json(),
    }, {}

  @classmethod
  def load(cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SavedKMeans:
    """Returns the model that `model_folder.read` has read."""
    model = model_lib.KMeansModel(
        arrays["centroids"],
        scaling_lib.Scaling(arrays["shift"], arrays["factor"]),
        radius=document.get("radius"),  # Models of earlier versions have none.
    )
    return cls(model, table_format.TableFormat.from_json(document["tables"]))
