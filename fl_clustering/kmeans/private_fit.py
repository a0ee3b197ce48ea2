"""A private fit: `dp_clustering.refine` on sums over the clients.

Every round asks for one release of `dp_clustering.cluster_statistics`.  The number of
rounds, the size of every message and the noise are fixed before the first round, and no
content of a client's rows raises an error or a warning.  The clients compute on the same
grid as pooled points, so with the same noise the centroids are the same bits.
"""

import dataclasses

import numpy as np

from clustering_basics import randomness
from dp_clustering import cluster_statistics
from dp_clustering import clustering_params
from dp_clustering import ledger as ledger_lib
from dp_clustering import point_grid
from dp_clustering import privacy_calculator
from dp_clustering import refine
from fl_clustering.points import federated_points
from fl_clustering.points import point_files
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import scaling as scaling_lib


class _FederatedSums:
  """What `refine` sees of the clients' points; see `dp_clustering.private_sums`.

  Attributes:
    dim: Number of coordinates of a point.
    radius: Radius of the ball that points are in.
    asked: The centers of every round, a list of arrays (num_centers, dim).
  """

  def __init__(self, dim, radius, unit_points, noisy_totals, ledger):
    self.dim = dim
    self.radius = radius
    self.asked = []
    self._unit_points = unit_points
    self._noisy_totals = noisy_totals
    self._ledger = ledger

  def private_cluster_statistics(self, centers, *args, **kwargs):
    self.asked.append(centers)
    return cluster_statistics.private_cluster_statistics(
        self._noisy_totals, self._ledger, self.radius, centers, *args,
        unit_points=self._unit_points, **kwargs,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class PrivateFit:
  """The result; everything in it is private.

  Attributes:
    centroids: In the data's units; float64 (K, d).
    asked: The centers that every round asked about, a tuple of arrays (num_centers, d).
    ledger: The frozen `Ledger`.
  """

  centroids: np.ndarray
  asked: tuple[np.ndarray, ...]
  ledger: ledger_lib.Ledger


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


def fit(files, k, privacy, seed, noise_source):
  """Fits k centroids.

  Args:
    files: `PointFiles` from `write_files`.
    k: Number of clusters.
    privacy: The `PointPrivacy` or `ClientPrivacy` that they were written with.
    seed: Integer >= 0 for what needs no protection.
    noise_source: A source of noise, one of `dp_clustering.noise`; only `SecureNoise`
      protects anyone.

  Returns:
    A `PrivateFit`.
  """
  ledger = privacy_lib.open_ledger(privacy, noise_source)
  points = federated_points.FederatedPoints(files, refine.largest_num_centers(k))
  sums = _FederatedSums(
      points.dim, privacy.radius, privacy.unit_points,
      privacy_lib.noisy_totals(privacy, points, len(files.paths), noise_source), ledger,
  )
  mu = privacy_calculator.gaussian_mu(privacy.epsilon, privacy.delta)
  rng = randomness.generator(seed, "private k-means")
  centroids = refine.private_centers(sums, k, mu, rng)
  return PrivateFit(centroids, tuple(sums.asked), ledger.freeze())
