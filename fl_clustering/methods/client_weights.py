"""The clients' own model weights, by which a grouping groups them.

The server sees every client's raw weights here. That is what the article does
(Helmy, Katerji, Muthukrishnan: "Federated Learning through Distance-Based
Clustering", Towards Data Science, 2021). Distances between clients can't be computed
from a sum, so secure aggregation does not apply to this step, and weights can
reveal training data. Nothing computed from a `ClientWeights` is private.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Sequence

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import validate


# What of the clients' weights is grouped.
REPRESENTATIONS = ("weights", "update", "normalized_update")


class Represented:
  """Weights less an offset and divided, made for a few rows or columns at a time.

  For many clients and large models, a copy of all would be gigabytes.

  Attributes:
    shape: (n, num_parameters).
    dtype: float32.
  """

  def __init__(
      self, vectors: np.ndarray, offset: np.ndarray | None = None, scales: np.ndarray | None = None,
      rows: np.ndarray | None = None,
  ):
    """Keeps the arrays, and copies none.

    Args:
      vectors: The weights, float32 of shape (n, num_parameters).
      offset: What is subtracted from every row, float32 of shape (num_parameters,).
      scales: What every row is divided by then, float32 of shape (n,).
      rows: Positions in `vectors` of the rows that are here; all of them by default.
    """
    self._vectors = vectors
    self._offset = offset
    self._scales = scales
    self._rows = np.arange(len(vectors)) if rows is None else np.asarray(rows, int)
    self.shape, self.dtype = (len(self._rows), vectors.shape[1]), vectors.dtype

  def __len__(self) -> int:
    return len(self._rows)

  def __getitem__(self, key: Any) -> np.ndarray:
    """Returns float32 values, not to be written to, of rows or of rows and columns.

    Of all rows, take few columns.
    """
    rows, columns = key if isinstance(key, tuple) else (key, slice(None))
    rows = self._rows[rows]
    values = self._vectors[rows, columns]
    if self._offset is not None:
      values = values - self._offset[columns]
    if self._scales is not None:
      values /= self._scales[rows, None] if np.ndim(rows) else self._scales[rows]
    return values


def mean_of(
    vectors: Represented | np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
  """Returns the mean of the rows, float64 of shape (P,).

  Args:
    weights: How much every row counts, of shape (n,); all alike by default.
  """
  total = np.zeros(vectors.shape[1])
  # One client at a time: all of them in float64 are gigabytes for large models.
  for i in range(len(vectors)):
    row = vectors[i]
    total += row if weights is None else np.multiply(weights[i], row, dtype=np.float64)
  return total / (len(vectors) if weights is None else np.sum(weights))


def norms_of(vectors: Represented | np.ndarray) -> np.ndarray:
  """Returns the L2 norms of the rows, float64 of shape (n,)."""
  # In float64: the squares of small float32 numbers underflow.
  return np.array([np.linalg.norm(vectors[i].astype(np.float64)) for i in range(len(vectors))])


@dataclasses.dataclass(frozen=True, eq=False)
class ClientWeights:
  """Every client's own weights after its last local training; not private.

  Attributes:
    clients: The clients, each once, int64 of shape (num_clients,).
    vectors: One flat weight vector per client, in the same order; float32 of shape
      (num_clients, num_parameters).
    global_vector: The global model from which the clients started that training; float32
      of shape (num_parameters,).
  """

  clients: np.ndarray
  vectors: np.ndarray
  global_vector: np.ndarray

  def __post_init__(self) -> None:
    object.__setattr__(self, "clients", np.asarray(self.clients, np.int64))
    if not len(self.clients):
      raise validate.error("clients", "hold at least one client", self.clients)
    if len(np.unique(self.clients)) != len(self.clients):
      raise validate.error("clients", "hold every client once", self.clients)
    for name in ("vectors", "global_vector"):
      array = getattr(self, name)
      if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        kind = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"`{name}` must be a float32 array, got {kind}.")
    num_clients, shape = len(self.clients), self.vectors.shape
    if len(shape) != 2 or shape[0] != num_clients or not shape[1]:
      raise validate.error(
          "vectors", f"have shape (num_clients={num_clients}, num_parameters)", shape
      )
    if self.global_vector.shape != shape[1:]:
      raise validate.error(
          "global_vector",
          f"have shape (num_parameters={shape[1]},)",
          self.global_vector.shape,
      )
    self._check_finite()

  def _check_finite(self) -> None:
    for client, vector in zip(self.clients, self.vectors):
      if not np.isfinite(vector).all():
        raise validate.error(
            "vectors",
            f"be finite for client {client}",
            float(vector[~np.isfinite(vector)][0]),
        )
    if not np.isfinite(self.global_vector).all():
      raise validate.error("global_vector", "be finite", self.global_vector)

  def represented(self, kind: str, clients: np.ndarray | None = None) -> Represented:
    """Returns the representation of the weights that is grouped, without a copy.

    Args:
      kind: One of `REPRESENTATIONS`: `weights` as they are, the `update` since the global
        model, or the `normalized_update` of unit L2 norm. A client whose update is zero
        has no direction; its normalized update stays zero.
      clients: The clients whose rows are wanted, in this order; all of them by default.
    """
    validate.one_of(REPRESENTATIONS, representation=kind)
    rows = None if clients is None else self._rows_of(clients)
    if kind == "weights":
      return Represented(self.vectors, rows=rows)
    updates = Represented(self.vectors, self.global_vector, rows=rows)
    if kind == "update":
      return updates
    norms, scales = norms_of(updates), np.ones(len(self.clients), np.float32)
    scales[slice(None) if rows is None else rows] = np.where(norms, norms, 1)
    return Represented(self.vectors, self.global_vector, scales, rows)

  def _rows_of(self, clients: np.ndarray) -> np.ndarray:
    order = np.argsort(self.clients)
    found = np.searchsorted(self.clients, clients, sorter=order)
    rows = order[np.minimum(found, len(order) - 1)]
    is_unknown = self.clients[rows] != clients
    if np.any(is_unknown):
      unknown = int(np.asarray(clients)[is_unknown][0])
      raise validate.error("clients", "be among the clients with weights", unknown)
    return rows

  def mean_of(self, clients: np.ndarray) -> np.ndarray:
    """Returns the mean of these clients' weights, the start of their cluster's model.

    All count alike, whatever the size of their data, as in the article.
    """
    rows = self._rows_of(clients)
    if not len(rows):
      raise validate.error("clients", "hold at least one client", clients)
    return mean_of(Represented(self.vectors, rows=rows)).astype(np.float32)

  def moved_to(self, path: str) -> ClientWeights:
    """Returns the same weights, with `vectors` in an .npy file and not in memory."""
    moved = copy.copy(self)  # Checks nothing again: that would read the whole file.
    object.__setattr__(moved, "vectors", atomic_file.array_in_file(path, self.vectors))
    return moved

  def save(self, path: str, client_ids: Sequence[str]) -> None:
    """Writes an .npz file, wholly or not at all, given all clients' ids.

    It is replaced if it exists.
    """
    atomic_file.write_arrays(path, {
        "client_ids": np.array([client_ids[client] for client in self.clients]),
        "vectors": self.vectors,
        "global_vector": self.global_vector,
    })
