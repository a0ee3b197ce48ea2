"""Models of finished runs, and what they predict for rows that come later."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, ClassVar, Iterator, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import model_folder
from clustering_basics import validate
from dp_clustering import private_centers
from fl_clustering import saved_clusters
from fl_clustering.kmeans import model as kmeans_model
from fl_clustering.multiview import model as multiview_model
from fl_clustering.multiview import server_step
from fl_clustering.points import fitted
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import saved

if TYPE_CHECKING:
  from narwhals.typing import IntoDataFrame

# Of a `server_step.MultiViewModel`.
_ARRAYS_OF_MODEL = ("centers", "view_weights", "rates")
# Of a `private_centers.PrivateCenters`.
_ARRAYS_OF_NOISE = ("noise_sd", "noisy_counts", "count_sd")


@dataclasses.dataclass(frozen=True, eq=False)
class SavedModel(abc.ABC):
  """A model and what is kept of the tables that its rows come in, in a folder of files.

  A subclass is a row of `KINDS`.

  Attributes:
    KIND: What the folder's document calls it.
    model: That of a `fitted.Fit`.
    centroids: In the tables' own units, of shape (K, d).
    tables: What is kept of the tables.
    noise: Of a private fit, its centers with their noise, in the tables' own units; else None.
    farthest: A number from which no row of the fit was farther from its center, in the distances
      of the model; None if that is secret or not known.  It tells the order of magnitude alone.
  """

  KIND: ClassVar[str]
  model: Any
  centroids: np.ndarray
  tables: saved.SavedTables
  noise: private_centers.PrivateCenters | None = None
  farthest: float | None = None

  @classmethod
  def of_fit(cls, fit: fitted.Fit, tables: saved.SavedTables) -> SavedModel:
    """Returns the model of a fit to tables; private centers are moved into the schema's bounds."""
    # No label is needed to find a row's cluster.
    schemas = {view: one.without("label") for view, one in tables.schemas.items()}
    tables = dataclasses.replace(tables, schemas=schemas)
    if fit.noise is None:
      return cls(fit.model, fit.centroids, tables.fitted(fit.scaling))
    centers = np.clip(tables.scaling.undo(fit.centroids), *tables.bounds)
    noise = dataclasses.replace(
        fit.noise, centers=centers, noise_sd=fit.noise.noise_sd / tables.scaling.factor
    )
    model = fit.model.with_centroids(tables.scaling.apply(centers))
    return cls(model, centers, tables, noise)

  @abc.abstractmethod
  def _contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns what this class adds to the document and to the arrays."""

  def save(self, directory: str) -> None:
    """Writes the model into a folder, which is made."""
    document, arrays = self._contents()
    document = {
        "num_clusters": len(self.centroids), "farthest": self.farthest,
        "feature_names": list(self.tables.feature_names), "tables": self.tables.to_json(),
        **document,
    }
    if self.noise is not None:
      arrays = {**arrays, **{name: getattr(self.noise, name) for name in _ARRAYS_OF_NOISE}}
    model_folder.write(
        directory, self.KIND, document, {**arrays, "centroids": self.centroids}
    )

  @classmethod
  @abc.abstractmethod
  def _model(
      cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray],
      tables: saved.SavedTables,
  ) -> Any:
    """Returns the model, from what `save` wrote."""

  @classmethod
  def load(cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SavedModel:
    """Returns the model that `model_folder.read` has read."""
    tables = saved.SavedTables.from_json(document["tables"])
    model = cls._model(document, arrays, tables)
    noise = None
    if "noise_sd" in arrays:
      noise = private_centers.PrivateCenters(
          arrays["centroids"], **{name: arrays[name] for name in _ARRAYS_OF_NOISE}
      )
    if document["farthest"] is not None:
      validate.not_negative(farthest=document["farthest"])
    return cls(model, arrays["centroids"], tables, noise, document["farthest"])

  @property
  def are_known(self) -> np.ndarray:
    """Which coordinates of the centroids are more than noise, booleans of shape (K, d)."""
    if self.noise is None:
      return np.ones(self.centroids.shape, bool)
    return self.noise.are_known(self.tables.ranges)

  def predict(
      self, frames: IntoDataFrame | Mapping[str, IntoDataFrame] | Sequence[IntoDataFrame]
  ) -> np.ndarray:
    """Returns the clusters of a frame's rows, an int array of shape (n,).

    Args:
      frames: Of several views, a frame for each, by its name or in the order of these names.
    """
    return self.model.assign(self.tables.features_of_frames(frames))

  def predictions(self, features: np.ndarray) -> dict[str, np.ndarray]:
    """Returns what is predicted for rows, arrays of shape (n,) by name.

    `distance` is that to the center, as `transform` of the estimator gives it, and `far_from_all`
    says whether it exceeds `farthest`.

    Args:
      features: Those of a folder's `ClientRows`.
    """
    features = self.tables.features(features)
    clusters = self.model.assign(features)
    distances = self.model.distances_to(clusters, features)
    found = {"cluster": clusters, "distance": distances}
    if self.farthest is not None:
      found["far_from_all"] = distances > self.farthest
    return found

  def predict_tables(
      self, folder: folder_lib.Folder
  ) -> Iterator[tuple[str, dict[str, list[Any]], dict[str, np.ndarray]]]:
    """Yields the id, the names of the rows and the predictions of every client."""
    for client_id, rows in folder.items():
      yield client_id, folder.row_names(client_id), self.predictions(rows.features)

  def knowing_farthest(self, folder: folder_lib.Folder) -> SavedModel:
    """Returns the model with `farthest`, the distance of the farthest row of the fit.

    The distance is rounded up to a power of the root of two, since exactly, it is one row's number.
    The grid of a fit tells as much of the row that is farthest from the mean.

    Args:
      folder: That of the fit.
    """
    of_clients = (self.predictions(rows.features)["distance"] for rows in folder.values())
    farthest = max(distances.max(initial=0.0) for distances in of_clients)
    if farthest > 0:
      rounded = 2 ** (math.ceil(2 * math.log2(farthest)) / 2)
      farthest = max(rounded, farthest)  # Its logarithm may have been rounded down.
    return dataclasses.replace(self, farthest=float(farthest))

  def place_others(
      self, unused_folder: Any, fallback: str | None = None
  ) -> tuple[SavedModel, tuple[str, ...]]:
    """Returns this model, which has a cluster for every row, and nothing to say.

    Raises:
      ValueError: If there is a fallback.
    """
    if fallback is not None:
      raise validate.error("fallback", "be left out for clusters of rows", fallback)
    return self, ()


class SavedKMeans(SavedModel):
  """A model of tables; see `SavedModel`."""

  KIND = "federated_kmeans"

  model: kmeans_model.KMeansModel

  def _contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return {"radius": self.model.radius}, {}

  @classmethod
  def _model(
      cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray],
      tables: saved.SavedTables,
  ) -> kmeans_model.KMeansModel:
    if document["radius"] is not None:
      validate.positive(radius=document["radius"])
    return kmeans_model.KMeansModel(
        tables.scaling.apply(arrays["centroids"]), document["radius"]
    )


class SavedMultiView(SavedModel):
  """A model of tables in several views; see `SavedModel`."""

  KIND = "federated_multi_view_kmeans"

  model: multiview_model.FittedViews

  def _contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    model = self.model.on_grid
    return {"alpha": model.alpha, "view_norms": self.model.view_norms}, {
        name: getattr(model, name) for name in _ARRAYS_OF_MODEL
    }

  @classmethod
  def _model(
      cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray],
      tables: saved.SavedTables,
  ) -> multiview_model.FittedViews:
    model = server_step.MultiViewModel(
        alpha=document["alpha"], widths=tables.widths,
        **{name: arrays[name] for name in _ARRAYS_OF_MODEL},
    )
    return multiview_model.FittedViews(model, document["view_norms"])


# To add a kind: one class with `KIND`, `tables`, `save`, `load`, `place_others`, `predict` and
# `predict_tables`.
_CLASSES = (saved_clusters.SavedClusters, SavedKMeans, SavedMultiView)
KINDS = {model.KIND: model for model in _CLASSES}


def load_model(path: str) -> Any:
  """Returns the model of a finished run, an object of a class in `KINDS`.

  Args:
    path: The run's folder, or the folder `model` in it.

  Raises:
    ValueError: If there is none, or it can't be read.
    OSError: If a file is missing.
  """
  directory = model_folder.find(path)
  validate.regular_files(run=path)
  kind, document, arrays = model_folder.read(directory)
  if kind not in KINDS:
    raise ValueError(
        f"`run` must hold a model of a kind in {', '.join(KINDS)}, got {kind!r} in {directory!r}."
    )
  try:
    return KINDS[kind].load(document, arrays)
  except (KeyError, TypeError, ValueError, AttributeError) as e:
    raise ValueError(
        f"`run` must hold a model that can be read, got {directory!r}: {type(e).__name__}: {e}."
    ) from e
