"""Centers in several views that are kept in files and give clusters to rows that come later."""

from __future__ import annotations

import dataclasses
import types
from typing import Any, ClassVar, Mapping

import numpy as np

from fl_clustering.multiview import model as model_lib
from fl_clustering.multiview import server_step
from fl_clustering.points import fitted
from fl_clustering.points import scaling as scaling_lib
from fl_clustering.tables import table_format
from fl_clustering.tables import view_tables

_ARRAYS_OF_MODEL = ("centers", "view_weights", "rates")


@dataclasses.dataclass(frozen=True, eq=False)
class SavedMultiView(fitted.SavedModel):
  """A model of tables in several views, a fit without noise; see `fitted.SavedModel`."""

  KIND = "federated_multi_view_kmeans"
  tables: ClassVar[types.ModuleType] = view_tables

  model: model_lib.FittedViews
  format: table_format.ViewFormat

  def _contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    model = self.model.on_grid
    return {
        "alpha": model.alpha,
        "feature_names": list(self.format.feature_names),
        "views": self.format.to_json(),
    }, {name: getattr(model, name) for name in _ARRAYS_OF_MODEL}

  @classmethod
  def load(cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SavedMultiView:
    """Returns the model that `model_folder.read` has read."""
    model = server_step.MultiViewModel(
        alpha=document["alpha"], **{name: arrays[name] for name in _ARRAYS_OF_MODEL}
    )
    scaling = scaling_lib.Scaling(arrays["shift"], arrays["factor"])
    format_ = table_format.ViewFormat.from_json(document["views"])
    fitted_views = model_lib.FittedViews(model, scaling, arrays["centroids"], format_.widths)
    return cls(fitted_views, format_)
