"""A private fit: `dp_clustering.refine` on sums over the clients.

Every round asks for one release of `dp_clustering.cluster_statistics`.  The number of
rounds, the size of every message and the noise are fixed before the first round, and no
content of a client's rows raises an error or a warning.  The clients compute on the same
grid as pooled points, so with `PointPrivacy` and the same noise the centroids are the same
bits.
"""

import functools

import numpy as np

from clustering_basics import randomness
from dp_clustering import cluster_statistics
from dp_clustering import clustering_params
from dp_clustering import ledger as ledger_lib
from dp_clustering import point_grid
from dp_clustering import privacy_calculator
from dp_clustering import refine
from fl_clustering.kmeans import fit_result
from fl_clustering.points import federated_points
from fl_clustering.points import point_files
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import scaling as scaling_lib


class FederatedSums:
  """What `refine` sees of the clients' points; see `dp_clustering.private_sums`.

  Attributes:
    dim: Number of coordinates of a point.
    radius: Radius of the ball that points are in.
    asked: The centers of every round, a list of arrays (num_centers, dim).
  """

  def __init__(self, dim, radius, unit_norm, noisy_totals, ledger):
    self.dim = dim
    self.radius = radius
    self.asked = []
    self._unit_norm = unit_norm
    self._noisy_totals = noisy_totals
    self._ledger = ledger

  def private_cluster_statistics(self, centers, residual_radius, mu, **kwargs):
    self.asked.append(centers)
    return cluster_statistics.private_cluster_statistics(
        functools.partial(self._noisy_totals, mu), self._ledger, self.radius, centers,
        residual_radius, mu, unit_norm=self._unit_norm, **kwargs,
    )


def write_files(clients, privacy, directory):
  """Writes the files of private clients: whatever a row holds, it becomes a point of the ball.

  Args:
    clients: A mapping from client id to an array of real numbers (n, d), n >= 0.
    privacy: A `PointPrivacy` or `ClientPrivacy`.
    directory: An existing folder.

  Returns:
    `PointFiles` in grid steps.
  """
  mapped = {
      client_id: clustering_params.map_to_ball(
          points[: privacy.points_per_client], privacy.radius
      )
      for client_id, points in clients.items()
  }
  files = point_files.write_files(mapped, directory)
  steps = np.full(files.num_columns, point_grid.POINT_STEPS / privacy.radius)
  return files.scaled(scaling_lib.Scaling(np.zeros(files.num_columns), steps))


def _history(names, asked, message_bytes, centroids):
  """Returns the `RoundRecord`s, each with the centers that the next round asks about."""
  return tuple(
      fit_result.RoundRecord(name.split()[0], after, None, bytes_down, bytes_up)
      for name, after, (bytes_down, bytes_up) in zip(
          names, [*asked[1:], centroids], message_bytes
      )
  )


def fit(config, files, noise_source):
  """Fits centroids.

  Args:
    config: A `KMeansConfig` with `privacy`.
    files: `PointFiles` from `write_files`, for the same `privacy`.
    noise_source: A source of noise, one of `dp_clustering.noise`; only `SecureNoise`
      protects anyone.

  Returns:
    A `fit_result.Fit`; everything in it is private.
  """
  k, privacy = config.n_clusters, config.privacy
  num_clients = len(files.paths)
  ledger = ledger_lib.Ledger(privacy.epsilon, privacy.delta, noise_source)
  points = federated_points.FederatedPoints(files, refine.largest_num_centers(k))
  answer = privacy_lib.noisy_totals(privacy, points, num_clients, noise_source)
  message_bytes = []

  def noisy_totals(mu, query, stds):
    is_limited = privacy.points_per_client is not None
    message_bytes.append(points.message_bytes(query, is_limited))
    return answer(mu, query, stds)

  sums = FederatedSums(points.dim, privacy.radius, privacy.unit_norm, noisy_totals, ledger)
  mu = privacy_calculator.gaussian_mu(privacy.epsilon, privacy.delta)
  rng = randomness.generator(config.seed, "private k-means")
  centroids = refine.private_centers(sums, k, mu, rng)
  ledger.freeze()
  names = [release.name for release in ledger.releases]
  return fit_result.Fit(
      scaling=files.scaling,
      centroids=centroids,
      inertia=None,
      silhouette=None,
      history=_history(names, sums.asked, message_bytes, centroids),
      num_rounds=len(names),
      column_scales=np.ones(points.dim),
      radius=privacy.radius,
      privacy_spent=privacy_lib.guarantee(privacy, ledger, num_clients),
      ledger=ledger,
  )
