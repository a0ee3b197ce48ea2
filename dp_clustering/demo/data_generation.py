"""A mixture of Gaussians in a ball, with the true labels."""

import math

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params


def sample_uniform_sphere(
    num_points: int, dim: int, radius: float, rng: np.random.Generator
) -> np.ndarray:
  """Returns points from the uniform distribution in a ball around the origin.

  Returns:
    Array of shape (num_points, dim).
  """
  directions = rng.normal(size=(num_points, dim))
  directions /= np.linalg.norm(directions, axis=1, keepdims=True)
  # The part of the ball within r of its center is (r / radius)^dim.
  return directions * (radius * rng.random(size=(num_points, 1)) ** (1 / dim))


def generate_synthetic_dataset(
    num_points: int, dim: int, num_clusters: int, cluster_ratio: float, radius: float,
    rng: np.random.Generator | None = None,
) -> clustering_params.Data:
  """Returns `Data` from a mixture of Gaussians, with the Gaussians' indices as labels.

  The centers are uniform in a ball.  Points outside of the radius are clipped to it.

  Args:
    num_points: Number of points.  All clusters have the same number; the last one also
      gets the remainder.
    cluster_ratio: The radius over the typical distance of a point from its center.
  """
  validate.integer(1, num_points=num_points)
  validate.integer(1, dim=dim)
  validate.integer(1, num_clusters=num_clusters)
  validate.positive(cluster_ratio=cluster_ratio)
  if cluster_ratio < 1:
    raise validate.error("cluster_ratio", "be a number >= 1", cluster_ratio)
  validate.positive(radius=radius)
  rng = rng or np.random.default_rng()
  centers = sample_uniform_sphere(num_clusters, dim, radius * (1 - 1 / cluster_ratio), rng)
  labels = np.full(num_points, num_clusters - 1)
  each = num_points // num_clusters
  labels[: each * num_clusters] = np.repeat(np.arange(num_clusters), each)
  points = rng.normal(scale=radius / cluster_ratio / math.sqrt(dim), size=(num_points, dim))
  points += centers[labels]
  return clustering_params.Data(
      clustering_params.map_to_ball(points, radius), radius, labels
  )
