"""The synthetic data of Garst and Reinders: sixteen clusters on a grid, five clients.

The clients have places in the field, and a point at distance d of one belongs to it with
probability 1 - exp(-beta / d).  The paper's equation leaves points that belong to no
client, most of them at small beta, and does not say where they go; here they go to the
nearest client, which is what makes the clients differ (`unclaimed_share`).

References:
  Swier Garst, Marcel Reinders. Federated K-Means Clustering. 2023, section 3.
  https://arxiv.org/abs/2310.01195
  Mykola Servetnyk, Carrson C. Fung, Zhu Han. Unsupervised Federated Learning for
  Unbalanced Data. GLOBECOM 2020.
"""

import numpy as np

from experiments.kmeans import labelled_clients

_AXIS = (-7.5, -2.5, 2.5, 7.5)
CENTERS = np.array([(x, y) for x in _AXIS for y in _AXIS])
FIELD = 12.5  # Half the width of the field that clients have their places in.
NUM_CLIENTS = 5
# How many clusters each client has in the extreme split.
EXTREME_CLUSTERS = (16, 10, 7, 4, 1)
_EXTREME_POINTS = 50


def sample_points(points_per_cluster, noise, rng):
  """Draws points around the centers.

  Args:
    points_per_cluster: How many around each.
    noise: Their standard deviation in each direction.
    rng: A `np.random.Generator`.

  Returns:
    float64 of shape (n, 2), and the clusters of shape (n,).
  """
  clusters = np.repeat(np.arange(len(CENTERS)), points_per_cluster)
  return CENTERS[clusters] + noise * rng.standard_normal((len(clusters), 2)), clusters


def _claims(points, beta, rng):
  """Returns which client claims which point, and the distances; both (n, clients)."""
  places = rng.uniform(-FIELD, FIELD, (NUM_CLIENTS, 2))
  distances = np.linalg.norm(points[:, np.newaxis] - places, axis=2)
  return rng.random(distances.shape) < 1 - np.exp(-beta / distances), distances


def unclaimed_share(points, beta, rng):
  """Returns the share of points that no client claims."""
  claims, _ = _claims(points, beta, rng)
  return float(np.mean(~claims.any(axis=1)))


def split_by_place(points, clusters, beta, rng):
  """Gives points to clients; one of several that claim a point is drawn.

  Args:
    points: float64 of shape (n, 2).
    clusters: int64 of shape (n,).
    beta: The larger, the more alike the clients are.
    rng: A `np.random.Generator`.

  Returns:
    `LabelledClients`.
  """
  claims, distances = _claims(points, beta, rng)
  drawn = np.where(claims, rng.random(claims.shape), -1.0).argmax(axis=1)
  owners = np.where(claims.any(axis=1), drawn, distances.argmin(axis=1))
  return labelled_clients.by_owner(points, clusters, owners, len(CENTERS))


def extreme_split(noise, rng):
  """Draws the data set whose clients have 16, 10, 7, 4 and 1 of the clusters.

  The points of a cluster go to the clients that have it in equal parts; the last client
  has one cluster, which it shares with all others: ten points in all.

  Args:
    noise: Standard deviation of the points in each direction.
    rng: A `np.random.Generator`.

  Returns:
    `LabelledClients`.
  """
  points, clusters = sample_points(_EXTREME_POINTS, noise, rng)
  owners = np.full(len(points), -1)
  for cluster in range(len(CENTERS)):
    having = [client for client, count in enumerate(EXTREME_CLUSTERS) if count > cluster]
    own = np.flatnonzero(clusters == cluster)
    share = len(own) // len(having)
    owners[own[: share * len(having)]] = np.repeat(having, share)
  # What can't be shared equally is left out.
  shared = owners >= 0
  return labelled_clients.by_owner(
      points[shared], clusters[shared], owners[shared], len(CENTERS)
  )
