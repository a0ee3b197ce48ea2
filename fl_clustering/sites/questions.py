"""The closed list of what a site answers, and for which numbers.

A request names a question of this list; what is not on it can't be asked, whoever sends it.  Every
number in it is hostile: it is checked here, before a row is touched, and the bounds that the checks
give are what the costs (`mu_squared`) are computed from.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Mapping

import numpy as np

from dp_clustering import cluster_statistics
from dp_clustering import point_grid
from dp_clustering import sum_query
from fl_clustering.kmeans import sum_kinds
from fl_clustering.multiview import sums as view_sums
from fl_clustering.points import grid_scaling
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import wire

# How far from the origin a center may be, in radii of the ball of the points: splits put some a
# little outside.  With integers no farther, all products and distances are below 2^53 and exact, so
# no row changes to which center another one goes.
_FARTHEST = 1.5 * point_grid.POINT_STEPS
# Parts of totals that are no less than zero.
_COUNTS = frozenset(("count", "counts", "upper_counts"))
# Standard deviations of the noise that no honest number exceeds, but once in 10^23.
_MARGIN = 10

_PLAIN = {
    question.__name__: question for question in (
        grid_scaling.ColumnExponents, grid_scaling.ColumnMoments, grid_scaling.NormExponents)
}
# The kinds of sums, with the fields that a request gives (`view_widths` are the federation file's)
# and the arrays of their queries.
_KINDS: Mapping[str, tuple[Any, dict[str, type], tuple[str, ...]]] = {
    "Start": (sum_kinds.Start, {}, ("origin",)),
    "ChildSums": (
        sum_kinds.ChildSums, {"with_losses": bool}, ("centers", "directions", "thresholds")
    ),
    "FineSums": (sum_kinds.FineSums, {}, ("centers", "cells")),
    "Scores": (sum_kinds.Scores, {}, ("centers",)),
    "KernelSums": (view_sums.KernelSums, {"steps": int}, ("centers", "rates", "factors")),
    "FineKernelSums": (view_sums.FineKernelSums, {}, ("centers", "rates", "factors", "cells")),
    "ClippedResiduals": (
        cluster_statistics.ClippedResiduals, {"with_squared_errors": bool},
        ("centers", "clip_radii"),
    ),
}
_PRIVATE = ("ClippedResiduals", "KernelSums")


def _within(low: float, high: float) -> Callable[[np.ndarray], bool]:
  return lambda array: bool(np.all((array >= low) & (array <= high)))  # False for NaN.


def _short(farthest: float) -> Callable[[np.ndarray], bool]:
  """Returns the check for rows of integers of norms up to `farthest`."""

  def check(array: np.ndarray) -> bool:
    if not _within(-farthest, farthest)(array) or np.any(array != np.rint(array)):
      return False
    return bool(np.all(np.sqrt(np.sum(array * array, axis=1)) <= farthest))

  return check


# The arrays of queries: what they have a number for, and which numbers.
_ARRAYS: Mapping[str, tuple[str, Callable[[np.ndarray], bool]]] = {
    "origin": ("column", _within(0, 0)),
    "centers": ("column", _short(_FARTHEST)),
    "directions": ("column", _short(2 * sum_kinds.DIRECTION_STEPS)),
    "thresholds": ("center", _within(-(2.0**53), 2.0**53)),
    # The steps of columns are finer than the grid's.
    "cells": ("column", _within(0, 2**20)),
    # Below one step a residual could be divided by nothing; a negative radius bounds nothing.
    "clip_radii": ("center", _within(1, 4 * point_grid.POINT_STEPS)),
    "rates": ("view", _within(0, 1)),
    "factors": ("view", _within(0, 1)),
}


class _HostileScaling(secure_sums.Scaling):
  """A scaling in whose coordinates no sum is infinite or NaN.

  What fails because of a row would tell of it, and of whose it is.  Coordinates end beyond those of
  a fit, and where their squares can still be added up.
  """

  def apply(self, points: np.ndarray) -> np.ndarray:
    scaled = super().apply(points)
    return np.clip(scaled, -1e120, 1e120, out=scaled)


@dataclasses.dataclass(frozen=True, eq=False)
class Asked:
  """A request that may be answered.

  Attributes:
    question: One of the list.
    sent: What comes with it.
    scaling: The coordinates, without `privacy`; else None: they are the federation file's.
    scales: With `privacy`, the standard deviation of a share of the noise on every part of the
      totals, in grid steps; else None.
  """

  question: secure_sums.Question
  sent: Mapping[str, Any]
  scaling: secure_sums.Scaling | None = None
  scales: Mapping[str, float] | None = None

  @property
  def name(self) -> str:
    """That of the question."""
    asked: Any = self.question
    return type(asked.kind if isinstance(asked, secure_sums.Totals) else asked).__name__

  @property
  def query(self) -> sum_query.SumQuery:
    """The query, without the rows that fill up the message."""
    assert isinstance(self.question, secure_sums.Totals)
    num_groups, kind = self.sent["num_groups"], self.question.kind
    arrays = {name: self.sent[name][:num_groups] for name in _KINDS[self.name][2]}
    return sum_query.SumQuery(kind, arrays)

  def to_message(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns a header and arrays."""
    header: dict[str, Any] = {"question": self.name}
    arrays = {name: value for name, value in self.sent.items() if name != "num_groups"}
    if isinstance(self.question, secure_sums.Totals):
      given = {name: getattr(self.question.kind, name) for name in _KINDS[self.name][1]}
      header |= {"fields": given, "capacity": self.question.capacity,
                 "num_groups": int(self.sent["num_groups"])}
    if self.scaling is not None:
      arrays |= {"shift": self.scaling.shift, "factor": self.scaling.factor}
    if self.scales is not None:
      header["scales"] = dict(self.scales)
    return header, arrays


def read(
    header: Mapping[str, Any], arrays: Mapping[str, np.ndarray],
    federation: federation_lib.Federation,
) -> Asked:
  """Returns what a message asks.

  Args:
    header: Without what is of the session.

  Raises:
    Refused: If it is not on the list, or a number is not what it may be.
  """
  if any(array.dtype != np.float64 for array in arrays.values()):
    raise wire.Refused("what is sent must be numbers")
  rest, left, privacy = dict(header), dict(arrays), federation.privacy
  name = rest.pop("question", None)
  if name not in (_PRIVATE if privacy else (*_PLAIN, *_KINDS)):
    raise wire.Refused("that question is not on the list")
  scaling = scales = None
  if privacy is None:
    shape = (federation.num_columns,)
    shift = _array(left, "shift", shape, _within(-1e101, 1e101))
    scaling = _HostileScaling(shift, _array(left, "factor", shape, _within(0, 1e150)))
  else:
    scales = rest.pop("scales", None)
  if name in _PLAIN:
    asked = Asked(_PLAIN[name](), {}, scaling)
  else:
    asked = Asked(*_query(name, rest, left, federation), scaling, scales)
  if rest or left:
    raise wire.Refused("a request must have nothing but its question's")
  if privacy is not None:
    _check_noise(asked, federation)
  return asked


def _array(
    left: dict[str, np.ndarray], name: str, shape: tuple[int, ...],
    is_good: Callable[[np.ndarray], bool], num_used: int | None = None,
) -> np.ndarray:
  """Returns an array, which is taken out of `left`; in only so many rows, numbers matter."""
  array = left.pop(name, None)
  if array is None or array.shape != shape or not is_good(array[:num_used]):
    raise wire.Refused(f"{name} must be of the shape {shape}, with numbers in their range")
  return np.array(array)


def _integer(header: dict[str, Any], name: str, high: int) -> int:
  value = header.pop(name, None)
  if type(value) is not int or not 1 <= value <= high:
    raise wire.Refused(f"{name} must be in [1, {high}]")
  return value


def _query(
    name: str, rest: dict[str, Any], left: dict[str, np.ndarray],
    federation: federation_lib.Federation,
) -> tuple[secure_sums.Totals, dict[str, Any]]:
  """Returns the question and what comes with it, which are taken out of `rest` and `left`."""
  kind_class, types, names = _KINDS[name]
  fields = rest.pop("fields", None)
  if not isinstance(fields, dict) or {key: type(value) for key, value in fields.items()} != types:
    raise wire.Refused(f"{name} must have its own fields")
  if "steps" in types:
    # More would not fit into the sums of integers; with noise, costs are in these.
    steps = point_grid.CONTRIBUTION_STEPS
    if not 1 <= fields["steps"] <= 2**30 or federation.privacy and fields["steps"] != steps:
      raise wire.Refused(f"steps must be in [1, 2^30], with noise {steps}")
  if kind_class in (view_sums.KernelSums, view_sums.FineKernelSums):
    fields = {"view_widths": federation.widths, **fields}
  kind = kind_class(**fields)
  capacity = _integer(rest, "capacity", federation.limits["centers"])
  num_groups = _integer(rest, "num_groups", capacity)
  is_limited = federation.privacy is not None and federation.privacy.points_per_client is not None
  sent: dict[str, Any] = {"num_groups": np.int32(num_groups)}
  if is_limited:
    width = sum(kind.widths(federation.num_columns).values())
    sent["limits"] = _array(left, "limits", (width,), _within(1e-100, 1e100))
  widths = {"column": federation.num_columns, "view": len(federation.widths), "center": 1}
  for key in names:
    of, is_good = _ARRAYS[key]
    sent[key] = _array(left, key, (capacity, widths[of]), is_good, num_groups)
  return secure_sums.Totals(kind, capacity, is_limited), sent


def _check_noise(asked: Asked, federation: federation_lib.Federation) -> None:
  """Refuses shares without noise, or whose sum is unlike a single discrete Gaussian."""
  assert isinstance(asked.question, secure_sums.Totals)
  scales, parts = asked.scales, asked.question.kind.widths(federation.num_columns)
  if not isinstance(scales, dict) or set(scales) != set(parts):
    raise wire.Refused(f"scales must be of {', '.join(parts)}")
  low = privacy_lib.LEAST_SHARE_SCALE
  high = privacy_lib.LARGEST_SCALE / math.sqrt(len(federation.sites))
  for part in parts:
    if type(scales[part]) is not float or not low <= scales[part] <= high:
      raise wire.Refused(f"scales must be in [{low:g}, {high:.6g}]")


def are_sums(asked: Asked, total: np.ndarray, federation: federation_lib.Federation) -> bool:
  """Returns whether a total over all sites may be one of rows.

  If not, a site is broken, or cheats; a site that cheats within these bounds is not noticed.  Sums
  are of as many points as their counts say, each of which adds 1 at most with noise, in the counts'
  steps, and else less than 2^31 to a number.  To groups that were not asked for nobody adds.
  """
  if np.any(np.abs(total.astype(float)) >= secure_sums.MODULUS / 2):  # With noise, too.
    return False
  if not isinstance(asked.question, secure_sums.Totals):
    if asked.name == "ColumnMoments":
      return bool(np.all(total[:, federation.num_columns :] >= 0))  # The sums of squares.
    return _within(0, grid_scaling.MOST_POINTS)(total)
  num_groups = int(asked.sent["num_groups"])
  if np.any(total[num_groups:]):
    return False
  parts = asked.query.split(total[:num_groups].astype(float))
  counts = parts.get("counts", parts.get("count"))
  if counts is None:
    return True
  one: float = 1
  most_of_a_point = 2.0**31
  if asked.name in _PRIVATE:
    one = most_of_a_point = getattr(asked.question.kind, "steps", point_grid.CONTRIBUTION_STEPS)
  # What is cut off a client's sums within its limits, less than one.
  cut = grid_scaling.MOST_POINTS if asked.question.is_limited else 0
  scale = _MARGIN * math.sqrt(len(federation.sites))
  margins = {part: cut + scale * (asked.scales or {}).get(part, 0.0) for part in parts}
  margin = margins.get("counts", cut)
  num_points = (np.maximum(counts, 0.0) + margin) / one
  return all(
      np.all(np.abs(own) <= num_points * most_of_a_point + margins[part])
      and (part not in _COUNTS or np.all(own >= -margins[part]))
      for part, own in parts.items()
  ) and bool(np.all(counts <= grid_scaling.MOST_POINTS * one + margin))


def mu_squared(asked: Asked, privacy: privacy_lib.Privacy) -> float:
  """Returns what an answer costs: the square of its mu of Gaussian differential privacy.

  That is the most by which one unit changes the sum over all sites, each number of it divided by
  the standard deviation of its noise, in squared L2 norm.  The noise is that of `min_sites` sites.

  A client, with `limits`: whatever its rows are, its totals / limits have a norm of at most 1
  (`secure_sums.within_limits`), so its totals / stds have one of at most the largest limit / std.

  A point, `ClippedResiduals`: it changes the totals of the one center that it is nearest to, and
  which center another point is nearest to does not depend on it, since all products are exact
  (`_FARTHEST`).  It adds (y, 1, e), in steps, with y its residual over the larger of its norm and
  the clip radius, which is positive, so |y| <= 1, and e = min(|residual| / radius, 1)^2 - 1/2, so
  |e| <= 1/2.  Truncation makes no number larger.  The squares are at most
  1 / s_y^2 + 1 / s_1^2 + 1 / (4 s_e^2).

  A point, `KernelSums`: in each of H views it adds w u and w - 1/2 with w = exp(-|u|^2), whatever
  the rates and centers are, and to the counts 1 (`multiview.sums.sensitivity`).  With t = |u|^2,
  t w^2 + (w - 1/2)^2 <= 1/4 for t >= 0, so with the smaller s of the two parts, the squares are at
  most H / (4 s^2) + 1 / s_1^2.
  """
  assert asked.scales is not None and privacy.min_clients is not None
  stds = {part: scale * math.sqrt(privacy.min_clients) for part, scale in asked.scales.items()}
  if privacy.points_per_client is not None:
    return float(np.max(asked.sent["limits"] / asked.query.by_column(stds))) ** 2
  precisions = {
      part: (point_grid.CONTRIBUTION_STEPS / std) ** 2 for part, std in stds.items()
  }
  if asked.name == "KernelSums":
    num_views = asked.sent["rates"].shape[1]
    of_a_view = max(precisions["residual_sums"], precisions["excesses"]) / 4
    return num_views * of_a_view + precisions["counts"]
  return precisions["residual_sums"] + precisions["counts"] + precisions.get("excesses", 0.0) / 4
