"""Centroids that are kept in files and give clusters to rows that come later."""

import dataclasses
from typing import Optional

import numpy as np

from fl_clustering import model_folder
from fl_clustering.kmeans import fit_result
from fl_clustering.points import scaling as scaling_lib
from fl_clustering.tables import client_tables
from fl_clustering.tables import table_format


@dataclasses.dataclass(frozen=True, eq=False)
class SavedKMeans:
  """What rows are given to clusters by.

  Attributes:
    centroids: In the data's units, float64 of shape (K, d).
    scaling: The `Scaling` of the fit, in which distances are measured.
    format: The `TableFormat` of the tables.
    radius: As of a `fit_result.Fit`.
  """

  KIND = "federated_kmeans"

  centroids: np.ndarray
  scaling: scaling_lib.Scaling
  format: table_format.TableFormat
  radius: Optional[float] = None

  def save(self, directory):
    """Writes the model into a folder, which is made."""
    arrays = {
        "centroids": self.centroids, "shift": self.scaling.shift, "factor": self.scaling.factor,
    }
    document = {
        "num_clusters": len(self.centroids),
        "feature_names": list(self.format.encoding.feature_names),
        "radius": self.radius,
        "tables": self.format.to_json(),
    }
    model_folder.write(directory, self.KIND, document, arrays)

  @classmethod
  def load(cls, document, arrays):
    """Returns the model that `model_folder.read` has read."""
    return cls(
        arrays["centroids"],
        scaling_lib.Scaling(arrays["shift"], arrays["factor"]),
        table_format.TableFormat.from_json(document["tables"]),
        document.get("radius"),  # Models of earlier versions have none.
    )

  def open_folder(self, directory, argument="data_dir"):
    """Returns the `ClientTables` of a folder with a file per client.

    Args:
      directory: The folder.
      argument: What messages call it.

    Raises:
      ValueError: If a file can't be used, or has other columns than the model.
      OSError: If a file can't be read.
    """
    return client_tables.open_folder_for(self.format, directory, argument)

  def predict(self, frame):
    """Returns the clusters of rows, an int array of shape (n,).

    Args:
      frame: A pandas frame with the columns of the clients' tables, in any order.

    Raises:
      ValueError: If a column is missing, or a cell can't be used.
    """
    return self._assign(self.format.features(frame))

  def _assign(self, features):
    return fit_result.assign(features, self.centroids, self.scaling, self.radius)

  def predict_tables(self, tables):
    """Yields every client's id, its `ClientTable` and a dict of what is predicted for its rows.

    Args:
      tables: `ClientTables` of this format.
    """
    for client_id in tables.client_ids:
      table = tables.read(client_id)
      yield client_id, table, {"cluster": self._assign(table.features)}
