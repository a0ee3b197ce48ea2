"""The rounds of federated k-means: what the server learns from the clients.

In `sums` and `scores` the server sees sums over the clients.  In `gather` it sees every client's
own means.  A sum over the clients can hide every client's part, but a client's own means tell about
its points.  So whatever the client computed, its message leaves out

  - every mean of fewer than `min_count` points, and
  - every mean that equals one of the client's rows, as the mean of identical rows does.

A mean of two points is still weak protection: whoever knows one of the points can compute
the other, and means that change from round to round tell about the rows in between.

This process plays the clients, one after another, and the server.  Messages are float32.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from fl_clustering.kmeans import local_work
from fl_clustering.points import secure_sums


def _sent(numbers: Any) -> np.ndarray:
  """Returns numbers as a message holds them."""
  return np.asarray(numbers, np.float32).astype(np.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class Rounds:
  """The rounds of a fit, as functions of what the server sends.

  Attributes:
    clients: In the coordinates of the fit.
  """

  clients: secure_sums.PointArrays

  def _points(self, client_id: Any) -> np.ndarray:
    return self.clients.scaling.apply(self.clients.by_id[client_id])

  def _total(
      self, answer: Callable[[np.ndarray, np.ndarray], Sequence[Any]], centroids: np.ndarray
  ) -> list[np.ndarray]:
    """Returns the sums over the clients of their answers, given points and centroids."""
    # Drawn ones may be anywhere in a column that the scaling drops.
    centroids = np.where(self.clients.scaling.factor > 0, centroids, 0.0)
    totals: list[Any] = []
    for client_id in self.clients.by_id:
      message = list(map(_sent, answer(self._points(client_id), centroids)))
      totals = [sum(parts) for parts in zip(totals, message)] if totals else message
    return totals

  def sums(self, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns the `local_work.lloyd_sums` over all clients."""
    sums, counts, inertia = self._total(local_work.lloyd_sums, centroids)
    return sums, counts, float(inertia)

  def scores(self, centroids: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Returns the `local_work.scores` over all clients."""
    counts, *rest = self._total(local_work.scores, centroids)
    inertia, silhouettes = map(float, rest)
    return counts, inertia, silhouettes

  def gather(
      self, work: local_work.Work, min_count: int, rngs: Mapping[Any, np.random.Generator]
  ) -> list[local_work.Means]:
    """Returns every client's own means, in the clients' order; some may have none.

    Args:
      rngs: What each client draws from, by client id.
    """
    found = []
    for client_id in self.clients.by_id:
      points = self._points(client_id)
      means, counts = local_work.released_means(points, *work(points, rngs[client_id]), min_count)
      found.append((_sent(means), _sent(counts)))
    return found
