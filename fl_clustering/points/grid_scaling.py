"""The grid of a fit without noise, found by secure sums of integers alone.

A maximum over the clients would be one client's number, so bounds come from histograms of
binary exponents, which are sums.  The server learns them: how many numbers of a column, and
how many points, are of which order of magnitude.  Every sum is of integers, so the grid is
the same whatever the order, the number or the split of the clients.

The histograms are counts, which may be of one number or one point; the sums of columns and of
their squares are over all points.  So a `min_count` changes nothing here, and the grid's step,
which a saved model keeps, tells the order of magnitude of the farthest point.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import validate
from dp_clustering import point_grid
from fl_clustering.points import point_files
from fl_clustering.points import scaling as scaling_lib
from fl_clustering.points import secure_sums

# Binary exponents that are told apart.  Smaller numbers count as of the lowest, 4e-103; larger
# ones than `given_clients.LARGEST` don't occur.
_LOWEST, _HIGHEST = -340, 340
_EXPONENTS_PER_BIN = 8  # So that a message stays small with many columns.
_NUM_BINS = (_HIGHEST - _LOWEST) // _EXPONENTS_PER_BIN
# Bits of a coordinate in the sums of columns and of their squares, and in norms.
_MOMENT_BITS = 30
_NORM_BITS = 20
# Bits of a coordinate in steps of its column.
_COLUMN_BITS = 52
_NUM_NORM_BINS = 64
# Sums of 2^31 of so many points stay below the modulus.
MOST_POINTS = 2**30


def _exponents(values: tf.Tensor) -> tf.Tensor:
  """Returns the binary exponents of float64 values, int64; -1023 of zero."""
  return tf.bitwise.right_shift(tf.bitcast(tf.abs(values), tf.int64), 52) - 1023


def column_exponents(points: tf.Tensor) -> tf.Tensor:
  """Returns how many numbers of every column have an exponent in every bin, int64 (d, bins)."""
  num_columns = points.shape[1]
  exponents = tf.clip_by_value(_exponents(points), _LOWEST, _HIGHEST - 1)
  bins = (exponents - _LOWEST) // _EXPONENTS_PER_BIN
  cells = bins + _NUM_BINS * tf.range(num_columns, dtype=tf.int64)
  counts = tf.math.bincount(
      tf.cast(tf.reshape(cells, [-1]), tf.int32), minlength=num_columns * _NUM_BINS,
      maxlength=num_columns * _NUM_BINS, dtype=tf.int64,
  )
  return tf.reshape(counts, [num_columns, _NUM_BINS])


def column_bounds(counts: np.ndarray) -> np.ndarray:
  """Returns numbers above those of every column, shape (d,), from `column_exponents`."""
  last = _NUM_BINS - 1 - np.argmax(counts[:, ::-1] > 0, axis=1)
  return np.exp2(_LOWEST + _EXPONENTS_PER_BIN * (last + 1.0))


def column_moments(points: tf.Tensor) -> tf.Tensor:
  """Returns the columns' sums and sums of squares, the latter in two parts, int64 (3, d).

  The points are integers up to 2^30, up to rounding.
  """
  whole = tf.cast(tf.math.rint(points), tf.int64)
  squares = whole * whole
  return tf.stack([
      tf.reduce_sum(whole, axis=0),
      tf.reduce_sum(tf.bitwise.right_shift(squares, _MOMENT_BITS), axis=0),
      tf.reduce_sum(tf.bitwise.bitwise_and(squares, 2**_MOMENT_BITS - 1), axis=0),
  ])


def moments(
    num_points: int, totals: np.ndarray, squares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the columns' means and standard deviations from their sums and sums of squares.

  The sums are Python's integers, arrays of objects of shape (d,), so nothing cancels, and the
  deviation of a constant column is exactly zero.
  """
  variances = (num_points * squares - totals * totals) / num_points**2
  return (totals / num_points).astype(float), np.sqrt(variances.astype(float))


def _moments(num_points: int, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the `moments` from totals of `column_moments`."""
  totals, high, low = sums.astype(object)
  return moments(num_points, totals, (high << _MOMENT_BITS) + low)


def norm_exponents(points: tf.Tensor) -> tf.Tensor:
  """Returns how many points have a squared norm with every exponent, int64 (bins,).

  The points are integers up to 2^20, up to rounding.
  """
  whole = tf.cast(tf.math.rint(points), tf.int64)
  squares = tf.cast(tf.reduce_sum(whole * whole, axis=1), tf.float64)
  bins = tf.cast(tf.maximum(_exponents(squares), 0), tf.int32)
  return tf.math.bincount(
      bins, minlength=_NUM_NORM_BINS, maxlength=_NUM_NORM_BINS, dtype=tf.int64
  )


def norm_bound(counts: np.ndarray, num_columns: int) -> float:
  """Returns a number above all norms, from `norm_exponents`, in its units."""
  last = np.flatnonzero(counts)[-1]
  # Rounding may have shortened every coordinate by a half.
  return np.exp2((last + 1) / 2) + np.sqrt(num_columns)


# What clients add up here, with the shape of it for d columns.
_ANSWERS: dict[Callable[[tf.Tensor], tf.Tensor], Callable[[int], tuple[int, ...]]] = {
    column_exponents: lambda num_columns: (num_columns, _NUM_BINS),
    column_moments: lambda num_columns: (3, num_columns),
    norm_exponents: lambda num_columns: (_NUM_NORM_BINS,),
}


@functools.lru_cache(maxsize=None)
def _build_round(
    source: point_files.PointSource, answer: Callable[[tf.Tensor], tf.Tensor]
) -> Any:
  shape = _ANSWERS[answer](source.num_columns)
  return secure_sums.build_round(
      source, tff.TensorType(np.int32),
      lambda unused, points: secure_sums.over_blocks(points, shape, answer),
  )


def total(
    files: point_files.PointFiles, answer: Callable[[tf.Tensor], tf.Tensor]
) -> np.ndarray:
  """Returns the sum over all clients of what each answers, int64; see `_ANSWERS`."""
  clients = [
      {"client": client, "share": np.zeros(_ANSWERS[answer](files.num_columns), np.int64)}
      for client in files.clients()
  ]
  return np.asarray(_build_round(files.source, answer)(0, clients))


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
  """The coordinates of a fit, in which points are integers up to rounding.

  Attributes:
    files: The clients, in grid steps.  Their scaling drops constant columns.
    step: The length of a grid step; in standardised columns, if they are.
    column_factor: Instead of `files.scaling.factor`, for coordinates in a step of every column's
      own.  They are then below 2^52 around any origin between the points, however narrow a column
      is beside others.  Powers of two, or zero for a constant column; float64 of shape (d,).
    num_points: Number of points of all clients.
    num_rounds: Number of rounds that it took.
  """

  files: point_files.PointFiles
  step: float
  column_factor: np.ndarray
  num_points: int
  num_rounds: int

  def check_min_count(self, min_count: int) -> None:
    """Raises a ValueError if that is more than there are points."""
    if min_count > self.num_points:
      raise validate.error(
          "min_count", f"be at most the {self.num_points} points of all clients", min_count
      )

  def in_column_steps(self) -> tuple[point_files.PointFiles, np.ndarray]:
    """Returns the clients in steps of every column's own, and these steps in grid steps.

    The steps are float64 of shape (d,); zero for columns that the grid drops.
    """
    scaling, own = self.files.scaling, self.column_factor
    cells = np.divide(scaling.factor, own, out=np.zeros_like(scaling.factor), where=own > 0)
    return self.files.scaled(scaling_lib.Scaling(scaling.shift, own)), cells


def find_grid(files: point_files.PointFiles, standardize: bool) -> Grid:
  """Returns the grid around the points' mean that has room for all of them.

  Args:
    files: The clients in the data's own coordinates.
    standardize: True scales every column that varies to variance one; False keeps the
      columns' units.  A column with a spread below 4e-103 is rounded coarsely, and far
      below it, it counts as constant.

  Raises:
    ValueError: If there are too many points.
  """
  num_columns = files.num_columns
  ones, steps = np.ones(num_columns), 2.0**_MOMENT_BITS
  own = scaling_lib.Scaling(np.zeros(num_columns), ones)
  counts = total(files.scaled(own), column_exponents)
  num_points = int(counts[0].sum())
  if num_points >= MOST_POINTS:
    raise validate.error("clients", f"have fewer than {MOST_POINTS} points", num_points)
  bounds = column_bounds(counts)
  sums = total(files.scaled(scaling_lib.Scaling(own.shift, steps / bounds)), column_moments)
  means, _ = _moments(num_points, sums)
  origin = means * bounds / steps
  centered = scaling_lib.Scaling(origin, ones)
  bounds = column_bounds(total(files.scaled(centered), column_exponents))
  sums = total(files.scaled(scaling_lib.Scaling(origin, steps / bounds)), column_moments)
  means, deviations = _moments(num_points, sums)
  origin = origin + means * bounds / steps
  # A constant column is dropped: what rounding leaves of it would coarsen the grid.
  factor = (deviations > 0).astype(float)
  if standardize:
    np.divide(steps / bounds, deviations, out=factor, where=deviations > 0)
  # From the new origin, nothing is farther than twice the bounds.
  unit = (2 * bounds * factor).max() / 2.0**_NORM_BITS or 1.0
  norms = total(files.scaled(scaling_lib.Scaling(origin, factor / unit)), norm_exponents)
  step = norm_bound(norms, num_columns) * unit / point_grid.POINT_STEPS
  return Grid(
      files=files.scaled(scaling_lib.Scaling(origin, factor / step)),
      step=float(step),
      column_factor=np.where(factor > 0, 2.0 ** (_COLUMN_BITS - 1) / bounds, 0.0),
      num_points=num_points,
      num_rounds=5,
  )
