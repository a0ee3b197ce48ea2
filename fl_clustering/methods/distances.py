"""Distances between all pairs of clients.

Distances are condensed: a float64 array of shape (N (N - 1) / 2,) for the pairs
(0, 1), (0, 2), ... (N - 2, N - 1), as of `scipy.spatial.distance.pdist`. Equal
vectors have distance exactly 0.  For up to 256 clients, and for L1, distances come from
differences, and a pair's distance does not depend on where the two stand in the array.  For
more clients, L2 and cosine distances come from inner products of centered vectors, which is
many times faster.  What rounding leaves of them is about 1e-8 of the largest vector's length.

Besides what is given, the functions need about three float64 arrays of shape (N, N) and a few
blocks of columns.
"""

from __future__ import annotations

import hashlib
from multiprocessing import pool
from typing import Iterable, TYPE_CHECKING, Union

import numpy as np
import tqdm

from clustering_basics import core_count
from fl_clustering.methods import client_weights as client_weights_lib

if TYPE_CHECKING:
  # An array of shape (N, P), or what acts like one.
  Vectors = Union[np.ndarray, client_weights_lib.Represented]

# The functions import SciPy, which takes long: the flags read this module's `METRICS` and
# must answer at once.

# A block of few clients stays in the processor's cache, which makes large models
# twice as fast, and no float64 copy of all the weights is needed.
_COLUMNS_PER_BLOCK = 4096
_NUMBERS_PER_BLOCK = 256 * _COLUMNS_PER_BLOCK
# More clients have their L2 and cosine distances from inner products.
_MOST_BY_DIFFERENCES = 256
# Multiplications that take several seconds.
MANY_MULTIPLICATIONS = 2 * 10**10


def _pairs(vectors: np.ndarray, metric: str) -> np.ndarray:
  """Returns SciPy's distances of all pairs of rows, condensed."""
  from scipy.spatial import distance  # pylint: disable=g-import-not-at-top

  return distance.pdist(vectors, metric)


def square(condensed: np.ndarray) -> np.ndarray:
  """Returns condensed values of pairs, numbers or bools, as a symmetric matrix of the same type.

  There are zeros in its diagonal.
  """
  from scipy.spatial import distance  # pylint: disable=g-import-not-at-top

  return distance.squareform(condensed)


def _blocks(vectors: Vectors, numbers_per_block: int) -> list[slice]:
  """Returns slices of columns, of at most so many numbers and 4,096 columns."""
  num_rows, num_columns = vectors.shape
  width = min(_COLUMNS_PER_BLOCK, max(1, numbers_per_block // num_rows))
  return [slice(start, start + width) for start in range(0, num_columns, width)]


def _in_float64(vectors: Vectors, columns: slice, scales: np.ndarray | None) -> np.ndarray:
  """Returns columns of the rows divided by `scales`, if there are any."""
  block = vectors[:, columns].astype(np.float64)
  if scales is not None:
    block /= scales[:, None]
  return block


def _with_progress(results: Iterable, vectors: Vectors, num_blocks: int) -> tqdm.tqdm:
  """Yields results block by block, and says how long they take if it is long."""
  num_rows, num_columns = vectors.shape
  return tqdm.tqdm(
      results, desc=f"distances of {num_rows:,} clients x {num_columns:,} parameters",
      total=num_blocks, unit="block",
      disable=num_rows * (num_rows - 1) // 2 * num_columns < MANY_MULTIPLICATIONS,
  )


def _sum_over_blocks(vectors: Vectors, metric: str, scales: np.ndarray | None = None) -> np.ndarray:
  """Returns a distance that is a sum over columns, of the rows divided by `scales`."""
  num_rows = len(vectors)
  total = np.zeros(num_rows * (num_rows - 1) // 2)
  blocks = _blocks(vectors, _NUMBERS_PER_BLOCK)

  def of_block(columns: slice) -> np.ndarray:
    return _pairs(_in_float64(vectors, columns, scales), metric)

  # SciPy uses one core.  The sum is taken in the same order with any number of them.
  with pool.ThreadPool(core_count.usable()) as threads:
    for of_columns in _with_progress(threads.imap(of_block, blocks), vectors, len(blocks)):
      total += of_columns
  return total


def inner_products(vectors: Vectors, scales: np.ndarray | None) -> np.ndarray:
  """Returns the inner products of the rows, divided by `scales` and centered, as (N, N)."""
  num_rows = len(vectors)
  products = np.zeros((num_rows, num_rows))
  blocks = _blocks(vectors, 4 * _NUMBERS_PER_BLOCK)
  for columns in _with_progress(blocks, vectors, len(blocks)):
    block = _in_float64(vectors, columns, scales)
    # Distances stay the same, and less of them is lost to rounding.
    block -= block.mean(axis=0)
    products += block @ block.T
  return products


def first_equal(vectors: Vectors) -> np.ndarray:
  """Returns for every row the position of the first row that equals it."""
  first: dict[bytes, int] = {}
  # Minus zero becomes zero.
  rows = (vectors[i] + np.float32(0) for i in range(len(vectors)))
  digests = (hashlib.blake2b(row.data).digest() for row in rows)
  return np.array([first.setdefault(digest, i) for i, digest in enumerate(digests)])


def _squares_by_products(vectors: Vectors, scales: np.ndarray | None) -> np.ndarray:
  """Returns squared L2 distances from inner products."""
  products = inner_products(vectors, scales)
  first = first_equal(vectors)
  if len(np.unique(first)) < len(first):
    products = products[np.ix_(first, first)]
  lengths = products.diagonal()
  squares = [
      lengths[i] + lengths[i + 1 :] - 2 * products[i, i + 1 :] for i in range(len(lengths) - 1)
  ]
  return np.maximum(np.concatenate(squares), 0)


def _squares(vectors: Vectors, scales: np.ndarray | None = None) -> np.ndarray:
  """Returns squared L2 distances of the rows divided by `scales`, condensed."""
  if len(vectors) > _MOST_BY_DIFFERENCES:
    return _squares_by_products(vectors, scales)
  return _sum_over_blocks(vectors, "sqeuclidean", scales)


def _l1(vectors: Vectors) -> np.ndarray:
  return _sum_over_blocks(vectors, "cityblock")


def _l2(vectors: Vectors) -> np.ndarray:
  return np.sqrt(_squares(vectors))


def _cosine(vectors: Vectors) -> np.ndarray:
  norms = client_weights_lib.norms_of(vectors)
  is_zero = norms == 0
  # For unit vectors, |u - v|^2 = 2 (1 - cos).
  distances = _squares(vectors, np.where(is_zero, 1.0, norms)) / 2
  # A zero vector has no direction, so no cosine with another vector: taken as 0.
  if is_zero.any():
    distances[_pairs(is_zero[:, None].astype(float), "cityblock") > 0] = 1.0
  return distances


# The functions from vectors to condensed distances, by name.
METRICS = {"l1": _l1, "l2": _l2, "cosine": _cosine}


def client_distances(
    client_weights: client_weights_lib.ClientWeights, representation: str, metric: str
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the clients, sorted, and their condensed distances in that order.

  What is computed from them does not depend on the order of the clients in
  `client_weights`, not even where ties are broken by position.

  Args:
    representation: What of them counts.
    metric: `l1`, `l2` or `cosine` (1 minus the cosine of the angle; between a
      zero vector and any other it is 1, between two zero vectors 0).
  """
  clients = np.sort(client_weights.clients)
  return clients, METRICS[metric](client_weights.represented(representation, clients))


def euclidean_points(distances: np.ndarray) -> np.ndarray:
  """Returns points with these Euclidean distances, turned any way.

  An algorithm that depends on Euclidean distances alone, such as K-means, finds
  the same clusters for these points as for the N clients in as many dimensions as
  a model has parameters, at a fraction of the cost.

  Torgerson: "Multidimensional scaling: I. Theory and method", Psychometrika, 1952.  More than 256
  points come from the same inner products by Cholesky's method, in a tenth of the time and half
  of the memory.

  Returns:
    A float64 array of N rows, at most max(1, N - 1) columns. Points at distance zero are equal to
    the last bit, other distances hold to about 1e-8 of the largest one.
  """
  of_pairs = square(distances)
  equal = np.argmax(of_pairs == 0, axis=1)
  # In place, for the matrices of many points are large.
  squares = np.square(of_pairs, out=of_pairs)
  means = squares.mean(axis=0)
  products = np.subtract(means + means[:, None], squares, out=squares)
  products -= means.mean()
  products /= 2
  if len(products) <= _MOST_BY_DIFFERENCES:
    eigenvalues, points = np.linalg.eigh(products)
    points *= np.sqrt(np.maximum(eigenvalues, 0))
    # The smallest eigenvalue is zero: N points lie in N - 1 dimensions.
    return points[equal, min(1, len(points) - 1) :]
  from scipy.linalg import lapack  # pylint: disable=g-import-not-at-top

  tolerance = np.finfo(np.float64).eps * products.diagonal().max()
  # Pivots make it work though the matrix has eigenvalues of zero.
  factor, pivots, rank, _ = lapack.dpstrf(products.T, tol=tolerance, lower=1, overwrite_a=1)
  places = np.empty(len(pivots), int)
  places[pivots - 1] = np.arange(len(pivots))  # LAPACK counts from 1.
  points = np.tril(factor)[:, : max(1, min(rank, len(factor) - 1))]
  return points[places[equal]]
