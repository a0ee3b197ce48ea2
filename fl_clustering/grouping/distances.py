"""Distances between all pairs of clients.

Distances are condensed: a float64 array of shape (N (N - 1) / 2,) for the pairs
(0, 1), (0, 2), ... (N - 2, N - 1), as of `scipy.spatial.distance.pdist`. They come
from differences, not from inner products: equal vectors have distance exactly 0,
and a pair's distance does not depend on where the two stand in the array.
"""

import numpy as np

# The functions import SciPy, which takes long: the flags read this module's `METRICS` and
# must answer at once.

# A block of 100 clients stays in the processor's cache, which makes large models
# twice as fast, and no float64 copy of all the weights is needed.
_COLUMNS_PER_BLOCK = 4096


def _pairs(vectors, metric):
  """Returns SciPy's distances of all pairs of rows, condensed."""
  from scipy.spatial import distance  # pylint: disable=g-import-not-at-top

  return distance.pdist(vectors, metric)


def square(condensed):
  """Returns condensed values of pairs as a symmetric matrix.

  Args:
    condensed: An array of numbers or bools of shape (N (N - 1) / 2,).

  Returns:
    An array of the same type of shape (N, N), with zeros in its diagonal.
  """
  from scipy.spatial import distance  # pylint: disable=g-import-not-at-top

  return distance.squareform(condensed)


def _sum_over_blocks(vectors, metric, scales=None):
  """Returns a distance that is a sum over columns, of the rows divided by `scales`."""
  num_rows, num_columns = vectors.shape
  total = np.zeros(num_rows * (num_rows - 1) // 2)
  for start in range(0, num_columns, _COLUMNS_PER_BLOCK):
    block = vectors[:, start : start + _COLUMNS_PER_BLOCK].astype(np.float64)
    if scales is not None:
      block /= scales[:, None]
    total += _pairs(block, metric)
  return total


def _l1(vectors):
  return _sum_over_blocks(vectors, "cityblock")


def _l2(vectors):
  return np.sqrt(_sum_over_blocks(vectors, "sqeuclidean"))


def _cosine(vectors):
  norms = np.array([np.linalg.norm(vector.astype(np.float64)) for vector in vectors])
  is_zero = norms == 0
  # For unit vectors, |u - v|^2 = 2 (1 - cos).
  scales = np.where(is_zero, 1.0, norms)
  distances = _sum_over_blocks(vectors, "sqeuclidean", scales) / 2
  # A zero vector has no direction, so no cosine with another vector: taken as 0.
  one_is_zero = _pairs(is_zero[:, None].astype(float), "cityblock") > 0
  return np.where(one_is_zero, 1.0, distances)


# From its name to a function from vectors (N, P) to condensed distances.
METRICS = {"l1": _l1, "l2": _l2, "cosine": _cosine}


def client_distances(client_weights, representation, metric):
  """Returns the clients' ids, sorted, and their distances in that order.

  What is computed from them does not depend on the order of the clients in
  `client_weights`, not even where ties are broken by position.

  Args:
    client_weights: A `ClientWeights`.
    representation: A key of `client_weights.REPRESENTATIONS`.
    metric: `l1`, `l2` or `cosine` (1 minus the cosine of the angle; between a
      zero vector and any other it is 1, between two zero vectors 0).

  Returns:
    A tuple of ids, and the condensed distances aligned with it.
  """
  client_ids = client_weights.client_ids
  order = sorted(range(len(client_ids)), key=client_ids.__getitem__)
  condensed = METRICS[metric](client_weights.representation(representation))
  in_order = square(condensed)[np.ix_(order, order)]
  pairs = np.triu_indices(len(order), k=1)
  return tuple(client_ids[i] for i in order), in_order[pairs]


def euclidean_embedding(distances):
  """Returns points with these Euclidean distances.

  An algorithm that depends on Euclidean distances alone, such as K-means, finds
  the same clusters for these points as for the N clients in as many dimensions as
  a model has parameters, at a fraction of the cost.

  Torgerson: "Multidimensional scaling: I. Theory and method", Psychometrika, 1952.

  Args:
    distances: Condensed L2 distances of N points.

  Returns:
    A float64 array of shape (N, max(1, N - 1)). Points at distance zero are equal to
    the last bit, other distances hold to about 1e-8 of the largest one.
  """
  of_pairs = square(distances)
  squares = of_pairs**2
  # The points' inner products, once their mean is moved to the origin.
  means = squares.mean(axis=0)
  products = means + means[:, None] - squares - means.mean()
  eigenvalues, eigenvectors = np.linalg.eigh(products / 2)
  points = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0))
  first_equal = np.argmax(of_pairs == 0, axis=1)
  # The smallest eigenvalue is zero: N points lie in N - 1 dimensions.
  return points[first_equal, min(1, len(points) - 1) :]
