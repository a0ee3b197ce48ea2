"""The cluster models of a three-phase run on tables, which predict labels of rows that come later.

A client of the run gets the model of its cluster; in several clusters, the mean of their
parameters.  A client that was not there gets the cluster whose model has the least loss on its
labelled rows, which is IFCA's rule (Ghosh, Chung, Yin, Ramchandran, "An Efficient Framework for
Clustered Federated Learning", NeurIPS 2020, section 4), whatever the method was.

Without labelled rows, such a client gets the cluster whose mean features are nearest to its own, if
the method groups clients by their features.  Otherwise it gets FedAvg's model: clusters that differ
in what labels mean can't be told apart by features.

Whichever engine has trained the models, TensorFlow computes what they predict, or JAX where TFF is
not installed or the model is one of JAX: the same numbers up to rounding.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Iterator, Mapping, Sequence, TYPE_CHECKING

import numpy as np
from scipy import special

from clustering_basics import model_folder
from clustering_basics import validate
from fl_clustering.engine import engines
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import registry
from fl_clustering.tables import encode
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import saved as saved_lib
from fl_clustering.tasks import models

if TYPE_CHECKING:
  from narwhals.typing import IntoDataFrame

  from fl_clustering.tasks import federated_task
  from fl_clustering.tasks import model as model_lib
  from fl_clustering.three_phase import config as config_lib
  from fl_clustering.three_phase import result as result_lib

_BLOCK_ROWS = 10_000
# How a client without labels that was not in the run gets a model, by the names of `fallback`.
PROFILE, GLOBAL = "profile", "global"
FALLBACKS = {
    PROFILE: "that of the cluster whose mean features are nearest to the client's",
    GLOBAL: "FedAvg's",
}
# What stands for the clusters of a client that gets the global model.
_GLOBALLY: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class SavedClusters:
  """The models of one method's clusters.

  Attributes:
    vectors: The clusters' models, float32 of shape (K, P).
    clusters: From every client's id to its clusters' positions.
    tables: What is kept of the tables; their label has classes.
    model: The model's name and options, arguments of `models.build`.
    global_vector: FedAvg's model, float32 of shape (P,); None if it failed.
    means: The clusters' mean features, as the models take them, of shape (K, d); NaN for a cluster
      without rows.  None where there are not several clusters.
  """

  KIND: ClassVar[str] = "three_phase"

  method: str
  vectors: np.ndarray
  clusters: Mapping[str, tuple[int, ...]]
  tables: saved_lib.SavedTables
  model: Mapping[str, Any]
  global_vector: np.ndarray | None = None
  means: np.ndarray | None = None

  def save(self, directory: str) -> None:
    """Writes the models into a folder, which is made."""
    document = {
        "method": self.method,
        "num_clusters": len(self.vectors),
        "clusters": {client_id: list(own) for client_id, own in self.clusters.items()},
        "model": dict(self.model),
        "feature_names": list(self.tables.schema.feature_names),
        "tables": self.tables.to_json(),
    }
    optional = {"global_vector": self.global_vector, "means": self.means}
    arrays = {"vectors": self.vectors} | {
        name: array for name, array in optional.items() if array is not None
    }
    model_folder.write(directory, self.KIND, document, arrays)

  @classmethod
  def load(cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SavedClusters:
    """Returns the models that `model_folder.read` has read."""
    clusters = {client_id: tuple(own) for client_id, own in document["clusters"].items()}
    saved = cls(
        document["method"], arrays["vectors"], clusters,
        saved_lib.SavedTables.from_json(document["tables"]), document["model"],
        arrays.get("global_vector"), arrays.get("means"),
    )
    if saved.vectors.shape != (document["num_clusters"], saved.built_model.num_parameters):
      raise ValueError(f"the parameters have the shape {saved.vectors.shape}")
    names = saved.tables.schema.feature_names
    if saved.means is not None and saved.means.shape != (len(saved.vectors), len(names)):
      raise ValueError(f"the means have the shape {saved.means.shape}")
    return saved

  @property
  def _classes(self) -> tuple[str, ...]:
    assert self.tables.schema.classes is not None
    return self.tables.schema.classes

  @property
  def built_model(self) -> model_lib.Model:
    """The model without its parameters."""
    return models.build(
        input_shape=self.tables.schema.feature_shape, num_classes=len(self._classes),
        input_dtype="float32", **self.model,
    )

  def predict(self, frame: IntoDataFrame, client_id: str) -> np.ndarray:
    """Returns the classes' probabilities, float32 of shape (n, num_classes).

    Args:
      frame: It has the columns of the clients' tables, in any order.
      client_id: Whose rows they are; a client of the run.

    Raises:
      ValueError: If the client was not in the run, a column is missing, a cell can't be used, or
        no engine is installed.
    """
    if client_id not in self.clusters:
      raise ValueError(f"`client_id` must be a client of the run, got {client_id!r}.")
    features = self.tables.features_of_frames(frame)
    return self._probabilities(self._vector(self.clusters[client_id]), features, "`frame`")

  def place_others(
      self, folder: folder_lib.Folder, fallback: str | None = None
  ) -> tuple[SavedClusters, tuple[str, ...]]:
    """Returns models that are also of clients that were not in the run and have no labels.

    Those with labels have the model of the least loss on them.

    Args:
      folder: From `tables.open_folder`.
      fallback: A key of `FALLBACKS`; None for `PROFILE` where the method groups clients by their
        features and there are several clusters, and else `GLOBAL`.

    Returns:
      The models, and what is said of all clients that were not in the run.

    Raises:
      ValueError: If the fallback needs what this model does not have.
    """
    if fallback is None:
      entry = registry.METHODS.get(self.method)
      by_features = entry is not None and entry.groups_by_features
      fallback = PROFILE if by_features and self.means is not None else GLOBAL
    others = [client_id for client_id in folder if client_id not in self.clusters]
    if not others:
      return self, ()
    labelled = [
        client_id for client_id in others if (self._labels(folder[client_id]) >= 0).any()
    ]
    notes = [_of_new(labelled, "with labels", "chosen by the loss on these")] if labelled else []
    others = [client_id for client_id in others if client_id not in labelled]
    if not others:
      return self, tuple(notes)
    placed: dict[str, tuple[int, ...]] = dict.fromkeys(others, _GLOBALLY)
    if fallback == PROFILE:
      if self.means is None:
        raise validate.error("fallback", "be global where there are not several clusters", PROFILE)
      placed = {
          client_id: self._nearest(folder[client_id].features, self.means) for client_id in others
      }
    elif self.global_vector is None:
      raise ValueError(
          "`run` must have a global model for clients without labels that were not in it, such as "
          f"{others[0]!r}, got a folder without one."
      )
    model = f"{FALLBACKS[fallback]} (--fallback={fallback})"
    notes.append(_of_new(others, "without labels", model))
    return dataclasses.replace(self, clusters={**self.clusters, **placed}), tuple(notes)

  def _labels(self, rows: folder_lib.ClientRows) -> np.ndarray:
    """Returns the positions of rows' classes, -1 where one is missing, of shape (n,)."""
    if rows.labels is None:
      return np.full(len(rows.places), -1)
    return encode.positions(rows.labels, self._classes)

  def _nearest(self, features: np.ndarray, means: np.ndarray) -> tuple[int, ...]:
    """Returns the cluster whose mean features (K, d) are nearest to those of rows."""
    own = self.tables.features(features).mean(axis=0)
    return (int(np.nanargmin(np.linalg.norm(means - own, axis=1))),)

  def predict_tables(
      self, folder: folder_lib.Folder
  ) -> Iterator[tuple[str, dict[str, list[Any]], dict[str, list[str]]]]:
    """Yields the id, the names of the rows and the columns of predictions of every client."""
    for client_id, rows in folder.items():
      features, own = self.tables.features(rows.features), self.clusters.get(client_id)
      name = f"`data_dir`, client {client_id!r},"
      if own is None:
        labels = self._labels(rows)
        own = (self._least_loss(features[labels >= 0], labels[labels >= 0], name),)
      cluster = " ".join(map(str, own)) if own != _GLOBALLY else GLOBAL
      probabilities = self._probabilities(self._vector(own), features, name)
      classes = probabilities.argmax(axis=1)
      yield client_id, folder.row_names(client_id), {
          "cluster": [cluster] * len(classes),
          "class": [self._classes[k] for k in classes],
          "probability": [f"{p:.6f}" for p in probabilities.max(axis=1)],
      }

  def _vector(self, clusters: Sequence[int]) -> np.ndarray:
    """Returns the mean of clusters' models, of shape (P,); the global one for no cluster."""
    if clusters == _GLOBALLY:
      assert self.global_vector is not None  # As `place_others` checked.
      return self.global_vector
    if len(clusters) == 1:
      return self.vectors[clusters[0]]
    return self.vectors[list(clusters)].mean(axis=0, dtype=np.float64).astype(np.float32)

  def _least_loss(self, features: np.ndarray, labels: np.ndarray, name: str) -> int:
    """Returns the cluster whose model has the least mean loss on labelled rows."""
    own = np.arange(len(labels)), labels
    tiny = np.finfo(np.float32).tiny
    losses = [
        -np.log(np.maximum(self._probabilities(vector, features, name)[own], tiny)).mean(
            dtype=np.float64
        )
        for vector in self.vectors
    ]
    return int(np.argmin(losses))

  def _probabilities(self, vector: np.ndarray, features: np.ndarray, name: str) -> np.ndarray:
    """Returns the classes' probabilities of features, float32 of shape (n, num_classes).

    Args:
      name: What messages call the rows.

    Raises:
      ValueError: If the model's outputs are not finite.
    """
    model = self.built_model
    with np.errstate(over="ignore"):
      features = features.astype(np.float32).reshape(-1, *model.input_shape)
    outputs = _logits(model, vector, features)
    are_finite = np.isfinite(outputs).all(axis=1)
    if not are_finite.all():
      raise ValueError(
          f"{name} must hold numbers for which the model's outputs are finite, got others for row "
          f"{1 + int(are_finite.argmin())}; they may be too large."
      )
    return special.softmax(outputs, axis=1)


def _logits(model: model_lib.Model, vector: np.ndarray, features: np.ndarray) -> np.ndarray:
  """Returns a model's outputs, float32 of shape (n, num_classes), by an engine's library."""
  engine = engines.of_model(model)
  engines.check_installed(engine)
  # pylint: disable=g-import-not-at-top
  if engine == engines.JAX:
    from fl_clustering.engine.jax import devices

    devices.local()  # Where JAX can't be used, its errors are long.
    from fl_clustering.engine.jax import evaluation

    return evaluation.logits(model, vector, features)
  from fl_clustering.engine.tff import client_update
  # pylint: enable=g-import-not-at-top

  parameters = client_update.unflatten(model, vector)
  return np.concatenate([
      np.asarray(model.logits(parameters, features[start : start + _BLOCK_ROWS], None))
      for start in range(0, len(features) or 1, _BLOCK_ROWS)
  ])


def _of_new(client_ids: Sequence[str], having: str, model: str) -> str:
  """Returns a sentence on which model clients have that were not in the run."""
  one = len(client_ids) == 1
  return (
      f"{', '.join(client_ids)}: {'a client that was' if one else 'clients that were'} not in "
      f"the run, {having}; {'its model is' if one else 'their models are'} {model}"
  )


def most_accurate(
    config: config_lib.ThreePhaseConfig, result: result_lib.ThreePhaseResult
) -> str:
  """Returns the name of the chosen method with the best mean accuracy over clients.

  It is that on their validation data, or on their test data if no client has any others.
  """

  def score(name: str) -> float:
    found = result.methods[name]
    confusions = found.clients if found.validation is None else found.validation
    return float(np.mean(metrics_lib.accuracy(confusions)))

  return max(config.methods or (registry.FEDAVG,), key=score)


def of_result(
    method: str, result: result_lib.ThreePhaseResult, task: federated_task.FederatedTask,
    model_options: Mapping[str, Any],
) -> SavedClusters:
  """Returns the models of a method of a run on tables.

  Args:
    model_options: The options of the model by name; `None` where one is not given.
  """
  found = result.methods[method]
  assert task.tables is not None
  of_clients = cluster_assignment.clusters_of(found.assignment.clusters)
  clusters = {client_id: of_clients[i] for i, client_id in enumerate(task.client_ids)}
  clusters.update(zip(task.new_client_ids, found.new_client_clusters or ()))
  fedavg = result.methods.get(registry.FEDAVG)  # It may have failed.
  given = {name: value for name, value in model_options.items() if value is not None}
  return SavedClusters(
      method, found.vectors, {client_id: own for client_id, own in clusters.items() if own},
      task.tables, {"name": task.model.name, **given},
      None if fedavg is None else fedavg.vectors[0],
  )
