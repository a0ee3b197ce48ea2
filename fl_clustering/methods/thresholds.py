"""Thresholds of distance, as a user states them: the mean, a number or a quantile."""

import dataclasses
import math
import numbers

import numpy as np

from clustering_basics import validate
from fl_clustering import options

# A distance that equals the threshold up to rounding is within it: the mean of
# equal distances may come out a little below them.
_ROUNDING = 1e-9


def distance_threshold_option(about, default):
  """Returns the option `distance_threshold`.

  Args:
    about: What it is.
    default: The field's default.
  """
  return options.option(
      str,
      about,
      default=default,
      default_for=lambda num_clients: "mean",
      default_text="mean",
  )


def parse_threshold(distance_threshold):
  """Returns the function that a threshold's text stands for.

  Args:
    distance_threshold: `mean` (of the distances of all pairs), a number, or a
      quantile of those distances such as `q0.3`.

  Returns:
    A function from condensed distances to a threshold.

  Raises:
    ValueError: If it is none of these.
  """
  error = validate.error(
      "distance_threshold",
      "be `mean`, a number >= 0 or a quantile such as `q0.3`",
      distance_threshold,
  )
  if distance_threshold == "mean":
    return np.mean
  is_text = isinstance(distance_threshold, str)
  is_number = isinstance(distance_threshold, numbers.Real)
  if not (is_text or is_number) or isinstance(distance_threshold, bool):
    raise error
  is_quantile = is_text and distance_threshold.startswith("q")
  try:
    number = float(distance_threshold[1:] if is_quantile else distance_threshold)
  except ValueError:
    raise error from None
  if not math.isfinite(number) or number < 0 or (is_quantile and number > 1):
    raise error
  if is_quantile:
    return lambda distances: np.quantile(distances, number)
  return lambda distances: number


def largest_distance_within(distance_threshold, distances):
  """Returns the largest distance that counts as within the threshold.

  Args:
    distance_threshold: `mean`, a number, or a quantile such as `q0.3`.
    distances: Condensed distances; empty for a single client.
  """
  if not distances.size:
    return 0.0
  return float(parse_threshold(distance_threshold)(distances)) * (1 + _ROUNDING)


def with_warning(assignment, distance_threshold):
  """Returns an assignment that tells if its threshold has grouped nobody or everybody.

  Args:
    assignment: A `ClusterAssignment`.
    distance_threshold: The threshold that gave it, as the user stated it.
  """
  sizes = [len(members) for members in assignment.clusters]
  if max(sizes) == 1 < len(sizes):
    found = f"leaves each of the {len(sizes)} clients in a cluster of its own"
  elif len(sizes) == 1 < max(sizes):
    found = f"puts all {max(sizes)} clients into one cluster"
  else:
    return assignment
  warning = f"`distance_threshold`={distance_threshold} {found}, so nothing is grouped."
  return dataclasses.replace(
      assignment, warning=" ".join(filter(None, (assignment.warning, warning)))
  )
