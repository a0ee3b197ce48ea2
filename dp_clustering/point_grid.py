"""Points and contributions as integers, so that what is decided and summed is exact.

Floating-point sums depend on their order, and a matrix product may round a row differently
when another row is added: a point on a border could then change sides.  With integers of so
few bits, float64 needs no rounding.  A result is therefore the same whatever the order of
the points, the size of a block, the split of the points among clients, and the processor.

Functions that take `xp` run on NumPy arrays with `xp=numpy`, and on TensorFlow tensors with
`xp=tensorflow.experimental.numpy`.
"""

import types
from typing import Any

import numpy as np

# Steps of a point's coordinate to the radius of the ball that the points are in.  By Cauchy
# and Schwarz, no partial sum of a dot product of two such vectors comes near 2^53, nor does
# the square of the distance between two of them.
POINT_STEPS = 2**25
# Steps of a contribution to its bound.
CONTRIBUTION_STEPS = 2**20
# Norms are rounded, so contributions stay inside their bound by this factor.
_INSIDE = 1 - 2.0**-30


def on_point_grid(vectors: np.ndarray, bound: np.ndarray | float) -> np.ndarray:
  """Returns vectors of norms up to `bound` as integers, in steps of bound / POINT_STEPS.

  Args:
    vectors: Finite array of shape (..., dim).
    bound: A positive number, or an array that broadcasts to `vectors`.
  """
  scaled = vectors * (POINT_STEPS / bound)
  return np.rint(scaled, out=scaled)


def contributions(vectors: Any, bounds: Any) -> Any:
  """Returns vectors of norms up to `bounds` in steps, of norms up to `CONTRIBUTION_STEPS`.

  Whoever adds them up truncates them towards zero first, which makes no coordinate larger.

  Args:
    vectors: Array of shape (num_rows, dim).
    bounds: Positive numbers, of shape (num_rows, 1) or ().
  """
  return vectors * (CONTRIBUTION_STEPS * _INSIDE / bounds)


def nearest(xp: types.ModuleType, points: Any, centers: Any) -> Any:
  """Returns the index of the nearest center of every point, shape (num_points,).

  Ties go to the first center.  Exact for vectors on the grid.

  Args:
    points: Float64 array of shape (num_points, dim).  Not private, nor is the result.
    centers: Float64 array of shape (num_centers, dim), in the unit of the points.
  """
  closeness = xp.matmul(points, xp.transpose(centers))
  closeness -= xp.sum(centers * centers, axis=1) / 2  # In NumPy, in place.
  return xp.argmax(closeness, axis=1)
