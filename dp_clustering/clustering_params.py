"""Parameters of private clustering: privacy, data, tree, and how the budget is shared.

Every object here is checked when it is made, so nothing can go wrong once a budget is
being spent.  Only public things are checked: types, shapes and parameters.  The values
in the data never cause an error, since an error can reveal whether a record is in the
data.  That a value is missing is content too.
"""

import dataclasses
import enum
import math
import numbers
import sys
from typing import Any
import warnings

import numpy as np

from clustering_basics import validate

# In this range, squares of norms near the radius neither overflow nor vanish.  Outside of
# it, a norm could come out as 0 or infinite, and clipping would do nothing.
_SMALLEST_RADIUS = 1e-100
_LARGEST_RADIUS = 1e100

# With less, the second accountant's rounding can exceed the budget after all is released.
LEAST_EPSILON = 1e-8
# With more, noise is too small to be drawn, and squares of mu overflow.
LARGEST_EPSILON = 1e100

# Budgets beyond these deserve a warning.
_LARGEST_EPSILON = 20.0
_LARGEST_DELTA = 1e-4
# A larger share of points that are cut to the radius deserves one, too.
_LARGEST_CLIPPED_SHARE = 0.01


def check_epsilon(**argument: Any) -> None:
  """Checks, as `validate` does, for a budget's epsilon in [1e-8, 1e100], or inf for no privacy."""
  ((name, epsilon),) = argument.items()
  is_number = isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool)
  if not is_number or not (
      LEAST_EPSILON <= epsilon <= LARGEST_EPSILON or epsilon == math.inf
  ):
    rule = f"be a number in [{LEAST_EPSILON:g}, {LARGEST_EPSILON:g}], or inf"
    raise validate.error(name, rule, epsilon)


class PrivacyModel(enum.Enum):
  """Who is trusted with the data."""

  CENTRAL = "central"  # The curator, who holds all points and releases the result.


@dataclasses.dataclass(frozen=True)
class DifferentialPrivacyParam:
  """(epsilon, delta)-differential privacy: what one point, added or removed, may change.

  Attributes:
    epsilon: Number in [1e-8, 1e100].  `inf` means no noise and so NO privacy; it is for tests
      and comparisons.
    delta: Number in (0, 1), much smaller than one over the number of points.
  """

  epsilon: float = 1.0
  delta: float = 1e-6
  privacy_model: PrivacyModel = PrivacyModel.CENTRAL

  def __post_init__(self) -> None:
    check_epsilon(epsilon=self.epsilon)
    validate.between(0, 1, delta=self.delta)
    # Computing with narrower numbers, such as float32, can make the noise too small.
    object.__setattr__(self, "epsilon", float(self.epsilon))
    object.__setattr__(self, "delta", float(self.delta))
    if not isinstance(self.privacy_model, PrivacyModel):
      raise validate.error("privacy_model", "be PrivacyModel.CENTRAL", self.privacy_model)


def budget_warnings(
    epsilon: float, delta: float, unit: str = "point", num_units: int | None = None
) -> list[str]:
  """Returns warnings, in words, that a budget protects hardly anyone; public.

  Args:
    unit: What is protected.
    num_units: How many there are, if that is public.  If not, `delta` is judged by itself, as a
      warning that depends on the number of points would tell something about it.
  """
  found = []
  if _LARGEST_EPSILON < epsilon < math.inf:
    found.append(
        f"`epsilon` should be at most {_LARGEST_EPSILON:g}, got {epsilon:g}: the data of one {unit} "
        f"may change the probability of a result by a factor of e^{epsilon:g}, so the guarantee "
        "means next to nothing."
    )
  rule = f"be well below one over the number of {unit}s"
  meaning = (
      f"with a probability of up to `delta`, the guarantee says nothing about a {unit}, and its "
      "data may be released as they are"
  )
  if num_units is not None and delta * num_units >= 1:
    found.append(f"`delta` should {rule}, {num_units}, got {delta:g}: {meaning}.")
  elif num_units is None and delta > _LARGEST_DELTA:
    found.append(
        f"`delta` should {rule}, got {delta:g}: {meaning}. That number is private, so every "
        f"`delta` above {_LARGEST_DELTA:g} is told so."
    )
  return found


def clipped_warnings(clipped_share: float) -> list[str]:
  """Returns what says that many points are beyond the radius, in words; NOT private."""
  if clipped_share <= _LARGEST_CLIPPED_SHARE:
    return []
  return [
      f"{clipped_share:.1%} of the points are beyond the radius, and the fit cut them to it: scale "
      "the columns by public bounds first. This warning is not private; with `compute_labels` "
      "False there is none."
  ]


def checked_radius(radius: float) -> float:
  """Returns the radius of a ball around the origin as a float.

  Args:
    radius: A number in [1e-100, 1e100]; public.  The square of a narrower NumPy number, such
      as a float32, could overflow.

  Raises:
    ValueError: If it is not such a number.
  """
  validate.within(_SMALLEST_RADIUS, _LARGEST_RADIUS, radius=radius)
  return float(radius)


def content_raises_nothing() -> np.errstate:
  """Returns a context in which no number of a row raises or warns, whatever `np.seterr` says.

  What touches private points runs in it: an error tells of a row that is too small or too large.
  """
  return np.errstate(all="ignore")


def _float_of(entry: Any) -> float:
  """Returns an entry of an array of objects as a float; what is missing is NaN."""
  pandas = sys.modules.get("pandas")  # Only who has imported it can have its objects.
  is_of_pandas = pandas is not None and (entry is pandas.NA or entry is pandas.NaT)
  if is_of_pandas or entry is None or entry is np.ma.masked:
    return math.nan
  if isinstance(entry, (str, bytes)):  # Whether text reads as a number is content.
    raise TypeError("text is no number")
  if isinstance(entry, (np.datetime64, np.timedelta64)):
    raise TypeError("a time is no number")
  try:
    return float(entry)
  except OverflowError:  # Integers too large for floats: their size is content as well.
    return math.inf if entry > 0 else -math.inf
  except ValueError:  # A decimal's signaling NaN.
    return math.nan


def unmasked(values: Any) -> np.ndarray:
  """Returns `values` as an array without a mask; what is masked is NaN.

  Args:
    values: Anything that NumPy can make an array of, also a list of masked rows.
  """
  if isinstance(values, (list, tuple)):
    values = [unmasked(row) if isinstance(row, np.ma.MaskedArray) else row for row in values]
  with warnings.catch_warnings():
    warnings.filterwarnings("ignore", ".*converting a masked element to nan", UserWarning)
    array = np.asarray(values)
  is_masked = isinstance(values, np.ma.MaskedArray) and np.any(values.mask)
  return np.where(values.mask, np.nan, array) if is_masked else array


def numeric_table(name: str, values: Any) -> np.ndarray:
  """Returns `values` as real numbers of two dimensions; an array of them is not copied.

  Args:
    values: Anything that NumPy can make an array of.  Not changed.  What is masked becomes
      NaN.  In an array of objects, None and pandas' NA and NaT become NaN, and numbers too
      large for floats infinite.

  Raises:
    TypeError: If the type of a value is not one of real numbers; text is none.
    ValueError: If the rows differ in length, or the number of dimensions is wrong.
  """
  try:
    array = unmasked(values)
  except ValueError:  # NumPy's message about ragged lists says how many there are.
    raise ValueError(f"`{name}` must have rows of one length, got rows of several.") from None
  if array.dtype == object:
    try:
      array = np.array([_float_of(x) for x in array.flat], np.float64).reshape(array.shape)
    except TypeError as e:
      raise TypeError(f"`{name}` must hold real numbers, got other objects ({e}).") from e
  if array.dtype.kind not in "biuf":
    raise TypeError(f"`{name}` must hold real numbers, got dtype {array.dtype}.")
  if array.ndim != 2:  # How many rows there are is no part of the message.
    raise ValueError(f"`{name}` must be an array of 2 dimensions, got {array.ndim}.")
  return array


@np.errstate(invalid="ignore")  # Signaling NaNs would warn.
def _mapped_rows(rows: np.ndarray, radius: float) -> np.ndarray:
  """Returns `map_to_ball` of rows that need not be finite; slower, with more copies."""
  infinite = np.isinf(rows)
  # A row with infinities is the limit of rows whose infinite coordinates grow alike.
  rows = np.where(infinite.any(axis=1, keepdims=True), np.sign(rows) * infinite, rows)
  rows = np.where(np.isnan(rows), 0.0, rows)
  largest = np.abs(rows).max(axis=1, keepdims=True)
  units = rows / np.where(largest > 0, largest, 1.0)
  norms_of_units = np.linalg.norm(units, axis=1, keepdims=True)
  with np.errstate(over="ignore"):
    outside = largest * norms_of_units > radius
  outside |= infinite.any(axis=1, keepdims=True)
  return np.where(outside, units * (radius / np.maximum(norms_of_units, 1.0)), rows)


def are_beyond(points: np.ndarray, radius: float) -> np.ndarray:
  """Returns which rows (n, d) a fit moves to the radius, booleans (n,); NOT private.

  A number that is missing counts as 0, as in a fit.  Norms that differ from the radius by rounding
  alone are inside.
  """
  with np.errstate(over="ignore", invalid="ignore", under="ignore"):
    squares = np.nansum(np.square(np.asarray(points, np.float64)), axis=1)
  return np.sqrt(squares) > radius * (1 + 1e-12)


def map_to_ball(points: Any, radius: float) -> np.ndarray:
  """Returns every row as a finite point of the ball, whatever the row holds.

  A row of finite numbers keeps its direction.  Its norm stays if it is at most the
  radius; otherwise it becomes the radius, up to rounding.  NaN counts as 0.  Infinite
  coordinates outweigh all finite ones.  Each row is mapped on its own, so adding or
  removing a row does not change the others.  Nor does the array's order in memory, which
  may depend on what rows hold: a data frame with a missing number has another.

  Args:
    points: Array of real numbers of shape (num_points, dim).  Not private, not changed.
    radius: Radius of the ball around the origin, a float in [1e-100, 1e150]; public.

  Returns:
    Float64 array of shape (num_points, dim), in C order.  If `points` is such an array and in
    the ball, it is `points` itself and must not be written to.
  """
  # In wider types, numbers may be too large for float64.  Signaling NaNs would warn.
  with np.errstate(over="ignore", invalid="ignore"):
    # In C order, NumPy's `sum` adds up every row alike, however many there are.
    points = np.ascontiguousarray(points, np.float64)
  if points.size == 0:
    return points
  with np.errstate(over="ignore", invalid="ignore", under="ignore"):
    squares = np.square(points).sum(axis=1)
  inside = squares <= radius * radius  # False for NaN.
  if inside.all():
    return points
  mapped = points.copy()
  mapped[~inside] = _mapped_rows(points[~inside], radius)
  return mapped


@dataclasses.dataclass(frozen=True, eq=False)
class Data:
  """Points to cluster.

  Attributes:
    datapoints: Real numbers of shape (num_points, dim).  Not private, and not copied.
    radius: Bound on the norm of a point, a number in [1e-100, 1e100]; points farther out
      are clipped to it.  It is public, so it must not be computed from the points.
    labels: Ground truth, one integer or string per point, of shape (num_points,), or None.
      Integers may have a type of floats.  Not private.  Only `ClusteringMetrics`, which are
      not private either, use it.
    public_num_points: How many points there are, about, if that is known without the points;
      None if it is not.  `refine` plans with it.  A wrong number costs accuracy, not privacy.
  """

  datapoints: np.ndarray
  radius: float
  labels: np.ndarray | None = None
  public_num_points: int | None = None

  def __post_init__(self) -> None:
    if self.public_num_points is not None:
      validate.integer(1, public_num_points=self.public_num_points)
    points = numeric_table("datapoints", self.datapoints)
    if points.shape[1] == 0:
      raise ValueError(
          f"`datapoints` must have at least one column, got shape {points.shape}."
      )
    object.__setattr__(self, "radius", checked_radius(self.radius))
    object.__setattr__(self, "datapoints", points)
    if self.labels is not None:
      labels = np.asarray(self.labels)
      if labels.dtype.kind not in "biufUS":
        raise TypeError(f"`labels` must hold numbers or strings, got dtype {labels.dtype}.")
      if labels.shape != (len(points),):
        raise ValueError(
            f"`labels` must have one label for each of {len(points)} points, got shape "
            f"{labels.shape}."
        )
      if labels.dtype.kind == "f":
        wrong = labels[~(labels == np.floor(labels)) | np.isinf(labels)]
        if wrong.size:
          raise validate.error("labels", "be integers or strings", float(wrong[0]))
      object.__setattr__(self, "labels", labels)

  @property
  def num_points(self) -> int:
    """The number of points.  Not private."""
    return self.datapoints.shape[0]

  @property
  def dim(self) -> int:
    """The number of coordinates of a point."""
    return self.datapoints.shape[1]

  def clip_by_radius(self, points: np.ndarray | None = None) -> np.ndarray:
    """Returns the points with norms above the radius scaled down to it (`map_to_ball`).

    Args:
      points: Array whose last axis holds the coordinates, of any number, or None for
        the data's own points.  Not changed.

    Returns:
      A new float64 array of the shape of `points`.
    """
    points = np.asarray(self.datapoints if points is None else points)
    rows = points.reshape(-1, points.shape[-1]) if points.size else points
    return np.array(map_to_ball(rows, self.radius)).reshape(points.shape)


@dataclasses.dataclass(frozen=True)
class TreeParam:
  """How far `lsh_tree` branches.

  Attributes:
    min_num_points_in_branching_node: Smallest private count of a node that branches.
    min_num_points_in_node: Smallest private count of a node below the root.
    max_depth: Depth of the deepest nodes; the root has depth 0.
  """

  min_num_points_in_branching_node: int
  min_num_points_in_node: int
  max_depth: int

  def __post_init__(self) -> None:
    validate.integer(1, min_num_points_in_node=self.min_num_points_in_node)
    validate.integer(
        self.min_num_points_in_node,
        min_num_points_in_branching_node=self.min_num_points_in_branching_node,
    )
    validate.integer(0, max_depth=self.max_depth)


@dataclasses.dataclass(frozen=True)
class PrivacyBudgetSplit:
  """Shares the budget between sums and counts by parts of epsilon.

  Attributes:
    frac_sum: Part for the sums of the leaves' points.
    frac_group_count: Part for the counts of the nodes.
  """

  frac_sum: float = 0.8
  frac_group_count: float = 0.2

  def __post_init__(self) -> None:
    validate.between(0, 1, frac_sum=self.frac_sum)
    validate.between(0, 1, frac_group_count=self.frac_group_count)
    if self.frac_sum + self.frac_group_count > 1 + 1e-9:
      raise validate.error(
          "frac_group_count", f"be at most 1 - frac_sum = {1 - self.frac_sum:g}",
          self.frac_group_count,
      )


@dataclasses.dataclass(frozen=True)
class PrivacyCalculatorMultiplier:
  """Shares the budget by the ratio of the noises, all proportional to one `alpha`.

  Attributes:
    gaussian_std_dev_multiplier: Standard deviation of the noise on a sum, divided by
      alpha and by the sensitivity.
    dlaplace_param_multiplier: Scale of the noise on a count, divided by alpha.  The name
      comes from discrete Laplace noise.  Here, counts have Gaussian noise, and the scale
      is its standard deviation.
  """

  gaussian_std_dev_multiplier: float = 1.0
  dlaplace_param_multiplier: float = 20.0

  def __post_init__(self) -> None:
    validate.positive(gaussian_std_dev_multiplier=self.gaussian_std_dev_multiplier)
    validate.positive(dlaplace_param_multiplier=self.dlaplace_param_multiplier)

  def get_gaussian_std_dev(self, alpha: float, sensitivity: float) -> float:
    """Returns the standard deviation of the noise on a sum of this L2 sensitivity."""
    return self.gaussian_std_dev_multiplier * alpha * sensitivity

  def get_alpha(self, gaussian_std_dev: float, sensitivity: float) -> float:
    """Returns the alpha at which a sum has the given noise.

    Nothing here calls it: the class has all methods of the one it replaces.
    """
    return gaussian_std_dev / (self.gaussian_std_dev_multiplier * sensitivity)

  def get_dlaplace_param(self, alpha: float) -> float:
    """Returns the inverse of the scale of the noise on a count."""
    return 1 / (self.dlaplace_param_multiplier * alpha)
