"""What a fit leaves: its result, and a model that is kept in files for rows that come later."""

from __future__ import annotations

import abc
import dataclasses
import types
from typing import Any, ClassVar, Iterator, Mapping, Protocol, TYPE_CHECKING

from absl import logging
import numpy as np

from clustering_basics import validate
from fl_clustering import model_folder
from fl_clustering.points import scaling as scaling_lib
from fl_clustering.tables import table_options

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib


# A center that stands on fewer points may show one of them.
FEW_POINTS = 5
# What every text says where sums are exact.
EXACT_TOTALS = (
    "Exact totals don't protect rows; noise does. A cluster of one point is that point, and so may "
    "be the difference of two totals: an attack names most rows of some data, see docs/privacy.md."
)


def few_points_warnings(num_centers: int | None, num_all: int) -> list[tuple[str, str]]:
  """Returns a warning of centers that stand on fewer than `FEW_POINTS` points, if there are any.

  Args:
    num_centers: How many they are; None if that is not known.
    num_all: Number of all centers.

  Returns:
    At most one pair of what is the case and what it means.
  """
  if not num_centers:
    return []
  stand = "stands" if num_centers == 1 else "stand"
  return [(
      f"{num_centers} of {num_all} centers {stand} on fewer than {FEW_POINTS} points",
      "Each such center may be a row, or show one to whoever knows the others. `min_count` avoids "
      "such centers; only `privacy` protects rows.",
  )]


class Model(Protocol):
  """What gives clusters to points, which are float64 of shape (n, d) in the data's units.

  Attributes:
    centroids: In the data's units; float64 of shape (K, d).
    scaling: To the coordinates that were clustered.
  """

  centroids: np.ndarray
  scaling: scaling_lib.Scaling

  def assign(self, points: np.ndarray) -> np.ndarray:
    """Returns the points' clusters, an int array of shape (n,)."""

  def distances(self, points: np.ndarray) -> np.ndarray:
    """Returns the points' distances to the centroids, of shape (n, K)."""

  def losses(self, points: np.ndarray) -> np.ndarray:
    """Returns what every point would add to the loss in every cluster, of shape (n, K)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
  """The result of a fit.

  Attributes:
    model: A `Model`.
    history: The records of the rounds of the best restart.
    num_rounds: Number of its rounds.
    loss: At the centroids; None with `privacy`.
    silhouette: The mean simplified silhouette, or None.
    num_centers_on_few_points: How many of the centroids stand on fewer than `FEW_POINTS` points;
      None with `privacy` and with algorithms that don't tell.
    privacy_spent: What a private fit guarantees (`privacy.guarantee`), or None.
    ledger: The frozen ledger of a private fit, or None.
  """

  model: Any
  history: tuple[Any, ...]
  num_rounds: int
  loss: float | None = None
  silhouette: float | None = None
  num_centers_on_few_points: int | None = None
  privacy_spent: Mapping[str, Any] | None = None
  ledger: ledger_lib.Ledger | None = None

  @property
  def centroids(self) -> np.ndarray:
    return self.model.centroids

  def warn_of_few_points(self) -> None:
    """Logs a warning if centroids stand on few points."""
    for warning in few_points_warnings(self.num_centers_on_few_points, len(self.centroids)):
      logging.warning("%s. %s", *warning)


class SavedModel(abc.ABC):
  """A model and the format of the tables that its rows come in, kept in a folder of files.

  A subclass is a row of `load_model.KINDS`.

  Attributes:
    KIND: What the folder's document calls it.
    tables: The module that opens folders of tables in the format.
    model: A `Model`.
    format: The format of the tables.
  """

  KIND: ClassVar[str]
  tables: ClassVar[types.ModuleType]
  model: Any
  format: Any

  @abc.abstractmethod
  def _contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns what the document and the arrays have beside what all models have."""

  def save(self, directory: str) -> None:
    """Writes the model into a folder, which is made."""
    document, arrays = self._contents()
    scaling = self.model.scaling
    model_folder.write(
        directory, self.KIND, {"num_clusters": len(self.centroids), **document},
        {**arrays, "centroids": self.centroids, "shift": scaling.shift, "factor": scaling.factor},
    )

  @property
  def centroids(self) -> np.ndarray:
    return self.model.centroids

  @property
  def scaling(self) -> scaling_lib.Scaling:
    return self.model.scaling

  def open_folder(
      self, directory: str, argument: str = "data_dir",
      later: table_options.LaterFiles = table_options.LaterFiles(),
  ) -> Any:
    """Returns the tables of a folder of clients, whose `warnings` tell of what is not used.

    Args:
      argument: What messages call the folder.
      later: How the files may differ from those of the model.

    Raises:
      ValueError: If files can't be used, or lack a column of the model.
      OSError: If a file can't be read.
    """
    return self.tables.open_folder_for(self.format, directory, argument, later)

  def place_others(
      self, unused_tables: Any, fallback: str | None = None, profiles: Any = None
  ) -> tuple[SavedModel, tuple[str, ...]]:
    """Returns this model, which has a cluster for every row, and nothing to say.

    Raises:
      ValueError: If there is a fallback.
    """
    del profiles
    if fallback is not None:
      raise validate.error("fallback", "be left out for clusters of rows", fallback)
    return self, ()

  def predict(self, frames: Any) -> np.ndarray:
    """Returns the clusters of rows, an int array of shape (n,).

    Args:
      frames: A pandas frame with the columns of the clients' tables, in any order.  Of several
        views, a mapping from view to frame, or a list of frames in the order of the views' names.

    Raises:
      TypeError: If it is none of these.
      ValueError: If a view or a column is missing, or a cell can't be used.
    """
    return self.model.assign(self.format.features(frames))

  def predict_tables(self, tables: Any) -> Iterator[tuple[str, Any, dict[str, np.ndarray]]]:
    """Yields every client's id, its table and a dict of what is predicted for its rows.

    Args:
      tables: From `open_folder`.
    """
    for client_id in tables.client_ids:
      table = tables.read(client_id)
      yield client_id, table, {"cluster": self.model.assign(table.features)}
