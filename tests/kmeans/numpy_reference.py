"""Federated k-means in plain NumPy, point by point: what the tests compare with."""

import numpy as np

CENTERS = np.array([(a, b) for a in (-6.0, 0.0, 6.0) for b in (-6.0, 0.0, 6.0)])


def sample_clients(seed=0, sizes=(40, 90, 7, 25), noise=1.0):
  """Returns clients with points around some of nine centers each, and one tiny client."""
  rng = np.random.default_rng(seed)
  clients = {}
  for index, size in enumerate(sizes):
    own = rng.choice(9, 3 + index, replace=False)
    clusters = rng.choice(own, size)
    clients[str(index)] = CENTERS[clusters] + noise * rng.standard_normal((size, 2))
  return clients


def pooled(clients):
  return np.concatenate(list(clients.values()))


def nearest(points, centroids):
  """Returns the nearest centroid of every point, and the squared distance to it."""
  distances = ((points[:, None] - centroids[None]) ** 2).sum(axis=2)
  return distances.argmin(axis=1), distances.min(axis=1)


def inertia(points, centroids):
  return nearest(points, centroids)[1].sum()


def silhouette(points, centroids):
  """Returns the mean simplified silhouette."""
  distances = np.sqrt(((points[:, None] - centroids[None]) ** 2).sum(axis=2))
  own, other = np.sort(distances, axis=1)[:, :2].T
  return ((other - own) / other).mean()


def lloyd_step(points, centroids):
  """Returns the centroids after a step (an empty one stays) and their counts."""
  clusters, _ = nearest(points, centroids)
  counts = np.bincount(clusters, minlength=len(centroids))
  moved = np.array([
      points[clusters == k].mean(axis=0) if counts[k] else centroids[k]
      for k in range(len(centroids))
  ])
  return moved, counts
