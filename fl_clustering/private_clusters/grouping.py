"""Where clients begin: K centers of their sketches, by private k-means.

A client's sketch stays with it.  The server asks for one noisy sum of all sketches, for their mean,
and then for the sums of private k-means over the centered sketches, of which every client has one.
"""

from __future__ import annotations

import functools
from typing import Any, Mapping, TYPE_CHECKING

import numpy as np

from clustering_basics import randomness
from dp_clustering import point_grid
from fl_clustering.engine import bounded_sums
from fl_clustering.engine import sketch
from fl_clustering.kmeans import private_fit
from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from dp_clustering import sum_query
  from fl_clustering.private_clusters import plan as plan_lib
  from fl_clustering.private_clusters import releases as releases_lib
  from fl_clustering.private_clusters import slot_sums


class _SketchSums(private_fit.FederatedSums):
  """The sums of sketches that k-means asks for; a lost answer counts as zeros."""

  def __init__(self, releases: releases_lib.Releases, *args: Any) -> None:
    super().__init__(*args)
    self._releases = releases

  def _noisy_totals(
      self, mu: float, query: sum_query.SumQuery, stds: Mapping[str, float]
  ) -> np.ndarray:
    found = self._releases.answer(functools.partial(super()._noisy_totals, mu, query, stds))
    return np.zeros(query.shape, np.int64) if found is None else found


def private_centers(
    settings: plan_lib.PrivateClusters, sums: bounded_sums.BoundedSums, door: slot_sums.Door,
    releases: releases_lib.Releases, seed: int,
) -> np.ndarray:
  """Returns the released centers of the centered sketches, of shape (K, d)."""
  budget = settings.budget(sums.num_clients)
  total = door.ask(
      "mean of sketches", bounded_sums.SKETCH, None, np.arange(sums.num_clients),
      budget.mean_sketch,
  )
  mean = np.zeros(sketch.SIZE) if total is None else total / sums.num_clients
  steps = np.full(sketch.SIZE, float(point_grid.POINT_STEPS))
  points = sums.centered_sketches(mean).scaled(
      secure_sums.Scaling(np.zeros(sketch.SIZE), steps)
  )
  of_points = _SketchSums(
      releases, points, settings.num_clusters, settings, releases, releases.ledger
  )
  rng = randomness.generator(seed, "private clusters, k-means")
  return of_points.private_centers(settings.num_clusters, budget.kmeans, rng).centers
