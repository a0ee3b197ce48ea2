"""What the server gathered: every client's means and counts, by client id."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class ClientMeans:
  """The clients' means; the server sees every client's own, so they are not private.

  Attributes:
    by_client: A mapping from client id to means (R, K, d) and counts (R, K), float32.  A
      mean with a count of zero is absent.
  """

  by_client: dict[str, tuple[np.ndarray, np.ndarray]]

  def present(self, candidate):
    """Returns the means (M, d) and counts (M,) of one candidate, of all clients."""
    parts = [
        (means[candidate][counts[candidate] > 0], counts[candidate][counts[candidate] > 0])
        for means, counts in self.by_client.values()
    ]
    return tuple(map(np.concatenate, zip(*parts)))

  def first_present(self, candidate):
    """Returns the means of the first client that has any, of shape (m, d)."""
    for means, counts in self.by_client.values():
      if np.any(counts[candidate] > 0):
        return means[candidate][counts[candidate] > 0]
    return means[candidate][:0]
