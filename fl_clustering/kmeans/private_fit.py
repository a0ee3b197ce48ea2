"""A private fit: `dp_clustering.refine` on sums over the clients.

Every round asks for one release of `dp_clustering.cluster_statistics`.  The number of
rounds, the size of every message and the noise are fixed before the first round, and no
content of a client's rows raises an error or a warning.  The clients compute on the same
grid as pooled points, so with `PointPrivacy` and the same noise the centroids are the same
bits.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Mapping, TYPE_CHECKING

import numpy as np

from clustering_basics import randomness
from dp_clustering import cluster_statistics
from dp_clustering import ledger as ledger_lib
from dp_clustering import private_centers as private_centers_lib
from dp_clustering import refine
from fl_clustering.kmeans import model as model_lib
from fl_clustering.points import fitted
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from dp_clustering import noise
  from dp_clustering import sum_query
  from fl_clustering.kmeans import kmeans_config


class FederatedSums:
  """What `refine` sees of the clients' points; see `dp_clustering.private_sums`.

  Attributes:
    asked: The centers of every round, a list of arrays (num_centers, dim).
    message_bytes: What a client is sent in every round, and what it sends.
  """

  def __init__(
      self, clients: secure_sums.ClientPoints, k: int, privacy: privacy_lib.Privacy,
      noise_source: noise.Source, ledger: ledger_lib.Ledger,
  ) -> None:
    self._points = secure_sums.FederatedPoints(clients, refine.largest_num_centers(k))
    self._privacy = privacy
    self._ledger = ledger
    self._answer = privacy_lib.noisy_totals(
        privacy, self._points, clients.num_clients, noise_source
    )
    self.dim = self._points.dim
    self.radius = privacy.radius
    self.asked: list[np.ndarray] = []
    self.message_bytes: list[tuple[int, int]] = []

  def _noisy_totals(
      self, mu: float, query: sum_query.SumQuery, stds: Mapping[str, float]
  ) -> np.ndarray:
    is_limited = self._privacy.points_per_client is not None
    self.message_bytes.append(self._points.message_bytes(query, is_limited))
    return self._answer(mu, query, stds)

  def private_cluster_statistics(
      self, centers: np.ndarray, residual_radius: float, mu: float, **kwargs: Any
  ) -> cluster_statistics.ClusterStatistics:
    self.asked.append(centers)
    return cluster_statistics.private_cluster_statistics(
        functools.partial(self._noisy_totals, mu), self._ledger, self.radius, centers,
        residual_radius, mu, unit_norm=self._privacy.unit_norm,
        noise_factor=privacy_lib.noise_factor(self._privacy, self._points.clients.num_clients),
        **kwargs,
    )

  def private_centers(
      self, k: int, mu: float, rng: np.random.Generator
  ) -> private_centers_lib.PrivateCenters:
    """Returns k private centers; see `refine.private_centers`."""
    # It asks nothing else of a `PrivateSums`.
    return refine.private_centers(
        self, k, mu, rng, self._privacy.public_num_points  # type: ignore[arg-type]
    )


def fit(
    config: kmeans_config.KMeansConfig, clients: secure_sums.ClientPoints,
    noise_source: noise.Source,
) -> fitted.Fit:
  """Fits centroids to clients from `privacy.hold`; all of the fit is private.

  Only the noise source `SecureNoise` protects anyone.
  """
  privacy = config.privacy
  assert privacy is not None
  ledger = ledger_lib.Ledger(privacy.epsilon, privacy.delta, noise_source)
  sums = FederatedSums(clients, config.n_clusters, privacy, noise_source, ledger)
  rng = randomness.generator(config.seed, "private k-means")
  found = sums.private_centers(config.n_clusters, privacy.mu, rng)
  if (privacy.points_per_client or 1) > 1:
    # Clients count less if their totals are cut to the limits, and nobody knows by how much.
    unknown = np.full(len(found.centers), np.nan)
    found = dataclasses.replace(found, noisy_counts=unknown, count_sd=unknown)
  releases = ledger.freeze().releases
  # Each with the centers that the next round asks about.
  history = tuple(
      model_lib.RoundRecord(release.name.split()[0], after, None, bytes_down, bytes_up)
      for release, after, (bytes_down, bytes_up) in zip(
          releases, [*sums.asked[1:], found.centers], sums.message_bytes
      )
  )
  return fitted.Fit(
      model_lib.KMeansModel(found.centers, privacy.radius), secure_sums.identity(sums.dim),
      found.centers, history,
      num_rounds=len(releases),
      noise=found,
      privacy_spent=privacy_lib.guarantee(privacy, ledger, clients.num_clients)
      | {"radius": privacy.radius},
      ledger=ledger,
  )
