"""Centers in several views that are kept in files and give clusters to rows that come later."""

import dataclasses

import numpy as np

from fl_clustering import model_folder
from fl_clustering.multiview import fit_result
from fl_clustering.multiview import server_step
from fl_clustering.points import scaling as scaling_lib
from fl_clustering.tables import view_format
from fl_clustering.tables import view_tables

_ARRAYS_OF_MODEL = ("centers", "view_weights", "rates")


@dataclasses.dataclass(frozen=True, eq=False)
class SavedMultiView:
  """What rows are given to clusters by.

  Attributes:
    model: The `MultiViewModel` of the fit, in grid steps.
    scaling: The `Scaling` of the fit to grid steps.
    centroids: The centers in the data's units, the views side by side: float64 of shape (K, D).
    format: The `ViewFormat` of the tables.
  """

  KIND = "federated_multi_view_kmeans"

  model: server_step.MultiViewModel
  scaling: scaling_lib.Scaling
  centroids: np.ndarray
  format: view_format.ViewFormat

  def save(self, directory):
    """Writes the model into a folder, which is made."""
    arrays = {name: getattr(self.model, name) for name in _ARRAYS_OF_MODEL} | {
        "centroids": self.centroids, "shift": self.scaling.shift, "factor": self.scaling.factor,
    }
    document = {
        "num_clusters": len(self.model.centers),
        "alpha": self.model.alpha,
        "feature_names": list(self.format.feature_names),
        "views": self.format.to_json(),
    }
    model_folder.write(directory, self.KIND, document, arrays)

  @classmethod
  def load(cls, document, arrays):
    """Returns the model that `model_folder.read` has read."""
    return cls(
        server_step.MultiViewModel(
            alpha=document["alpha"], **{name: arrays[name] for name in _ARRAYS_OF_MODEL}
        ),
        scaling_lib.Scaling(arrays["shift"], arrays["factor"]),
        arrays["centroids"],
        view_format.ViewFormat.from_json(document["views"]),
    )

  def open_folder(self, directory, argument="data_dir"):
    """Returns the `ViewTables` of a folder with a folder per client.

    Args:
      directory: The folder.
      argument: What messages call it.

    Raises:
      ValueError: If files can't be used, or have other views or columns than the model.
      OSError: If a file can't be read.
    """
    return view_tables.open_folder_for(self.format, directory, argument)

  def predict(self, frames):
    """Returns the clusters of rows, an int array of shape (n,).

    Args:
      frames: A mapping from view to pandas frame, or a list of frames in the order of the views'
        names; the columns may be in any order.

    Raises:
      TypeError: If it is neither.
      ValueError: If a view or a column is missing, or a cell can't be used.
    """
    return self._assign(self.format.features(frames))

  def _assign(self, features):
    return fit_result.assign(features, self.model, self.scaling, self.format.widths)

  def predict_tables(self, tables):
    """Yields every client's id, its `ViewTable` and a dict of what is predicted for its rows.

    Args:
      tables: `ViewTables` of this format.
    """
    for client_id in tables.client_ids:
      table = tables.read(client_id)
      yield client_id, table, {"cluster": self._assign(table.features)}
