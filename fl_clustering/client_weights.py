"""The clients' own model weights, by which a grouping groups them.

The server sees every client's raw weights here. That is what the article does
(Helmy, Katerji, Muthukrishnan: "Federated Learning through Distance-Based
Clustering", Towards Data Science, 2021). Distances between clients can't be computed
from a sum, so secure aggregation does not apply to this step, and weights can
reveal training data. Nothing computed from a `ClientWeights` is private.
"""

import dataclasses
import zipfile

import numpy as np

from clustering_basics import atomic_file
from clustering_basics import validate


def _weights(vectors, global_vector):
  del global_vector  # What the clients have in common stays in.
  return vectors


def _update(vectors, global_vector):
  return vectors - global_vector


def _normalized_update(vectors, global_vector):
  updates = _update(vectors, global_vector)
  for update in updates:
    # In float64: the squares of small float32 numbers underflow.
    norm = np.linalg.norm(update.astype(np.float64))
    if norm > 0:
      update /= norm
  return updates


# From its name to a function of (vectors, global_vector).
REPRESENTATIONS = {
    "weights": _weights,
    "update": _update,
    "normalized_update": _normalized_update,
}


@dataclasses.dataclass(frozen=True, eq=False)
class ClientWeights:
  """Every client's own weights after its last local training; not private.

  Attributes:
    client_ids: The clients' ids, tuple of str.
    vectors: One flat weight vector per client, aligned with `client_ids`; float32
      array of shape (num_clients, num_parameters).
    global_vector: The global model from which the clients started that training;
      float32 array of shape (num_parameters,).
  """

  client_ids: tuple[str, ...]
  vectors: np.ndarray
  global_vector: np.ndarray

  def __post_init__(self):
    object.__setattr__(self, "client_ids", tuple(self.client_ids))
    self._check_ids()
    for name in ("vectors", "global_vector"):
      array = getattr(self, name)
      if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        kind = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"`{name}` must be a float32 array, got {kind}.")
    num_clients, shape = len(self.client_ids), self.vectors.shape
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

  def _check_ids(self):
    if not self.client_ids:
      raise validate.error("client_ids", "name at least one client", self.client_ids)
    seen = set()
    for client_id in self.client_ids:
      if not isinstance(client_id, str):
        raise TypeError(f"`client_ids` must be strings, got {client_id!r}.")
      if client_id in seen:
        raise validate.error("client_ids", "name every client once", client_id)
      seen.add(client_id)

  def _check_finite(self):
    for client_id, vector in zip(self.client_ids, self.vectors):
      if not np.isfinite(vector).all():
        raise validate.error(
            "vectors",
            f"be finite for client {client_id!r}",
            float(vector[~np.isfinite(vector)][0]),
        )
    if not np.isfinite(self.global_vector).all():
      raise validate.error("global_vector", "be finite", self.global_vector)

  def representation(self, kind):
    """Returns what of the weights is grouped.

    Args:
      kind: A key of `REPRESENTATIONS`: `weights` as they are, the `update` since
        the global model, or the `normalized_update` of unit L2 norm. A client
        whose update is zero has no direction; its normalized update stays zero.

    Returns:
      A float32 array of shape (num_clients, num_parameters), not to be written to.
    """
    validate.one_of(REPRESENTATIONS, representation=kind)
    return REPRESENTATIONS[kind](self.vectors, self.global_vector)

  def mean_of(self, client_ids, num_examples=None):
    """Returns the mean of these clients' weights, the start of their cluster's model.

    Args:
      client_ids: Ids of at least one client.
      num_examples: Each client's weight, a mapping from ids to numbers > 0; `None` = all
        alike, whatever the size of their data, as in the article.

    Returns:
      A float32 array of shape (num_parameters,).
    """
    rows = {client_id: row for row, client_id in enumerate(self.client_ids)}
    for client_id in client_ids:
      if client_id not in rows:
        raise validate.error("client_ids", "be among the clients with weights", client_id)
    if not client_ids:
      raise validate.error("client_ids", "name at least one client", client_ids)
    total = np.zeros_like(self.global_vector, np.float64)
    for client_id in client_ids:
      share = 1 if num_examples is None else num_examples[client_id]
      # One at a time: all of them in float64 are gigabytes for large models.
      total += np.multiply(share, self.vectors[rows[client_id]], dtype=np.float64)
    shares = len(client_ids)
    if num_examples is not None:
      shares = sum(num_examples[client_id] for client_id in client_ids)
    return (total / shares).astype(np.float32)

  def save(self, path):
    """Writes an .npz file, wholly or not at all.

    Args:
      path: The file, which is replaced if it exists.
    """
    atomic_file.write_arrays(path, {
        "client_ids": np.array(self.client_ids),
        "vectors": self.vectors,
        "global_vector": self.global_vector,
    })

  @classmethod
  def load(cls, path):
    """Returns the weights that `save` wrote.

    Args:
      path: The .npz file.

    Raises:
      FileNotFoundError: If there is no such file.
      ValueError: If the file is damaged, or not one of these.
    """
    try:
      # Opened here, because NumPy leaves a file open that it can't read.
      with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
        return cls(
            tuple(arrays["client_ids"].tolist()),
            arrays["vectors"],
            arrays["global_vector"],
        )
    except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as e:
      raise ValueError(f"the client weights in {path} can't be read: {e}") from e
