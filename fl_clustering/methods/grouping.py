"""What a grouping is, and the options that several have.

A grouping is a frozen dataclass: its fields are its options.  Its result does not depend on the
order in which the clients come.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import Any, Callable, Protocol, TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.engine import sketch
from fl_clustering.methods import client_weights as client_weights_lib

if TYPE_CHECKING:
  from fl_clustering.methods import cluster_assignment

_DEFAULT_NUM_CLUSTERS = 8
# Stands for the number that `num_clusters.choose` finds.
AUTO = "auto"
# What is grouped in place of the clients' weights.
SKETCH = "sketch"

# A distance that equals the threshold up to rounding is within it: the mean of
# equal distances may come out a little below them.
_ROUNDING = 1e-9


class Grouping(Protocol):
  """Groups clients by their weights; `rng` is for its starts, if it needs any."""

  @property
  def representation(self) -> str:
    """What is grouped: `SKETCH`, or of the weights one of `client_weights.REPRESENTATIONS`."""

  def __call__(
      self, client_weights: client_weights_lib.ClientWeights, rng: np.random.Generator
  ) -> cluster_assignment.ClusterAssignment:
    """Returns clusters that hold all of the clients."""


def num_clusters_option(about: str, **details: Any) -> Any:
  """Returns the option `num_clusters`: a number or, in a run's settings, `AUTO`.

  Args:
    **details: The field's `default`, if it has one.
  """
  return options.option(
      int,
      about,
      default_for=lambda num_clients: min(_DEFAULT_NUM_CLUSTERS, num_clients),
      default_text=f"{_DEFAULT_NUM_CLUSTERS}, at most num_clients",
      rule=validate.AT_LEAST_ONE,
      word=AUTO,
      **details,
  )


def check_num_clusters(num_clusters: int, num_clients: int) -> None:
  """Checks that there are at most as many clusters as clients."""
  if num_clusters > num_clients:
    raise validate.error("num_clusters", f"be in [1, num_clients={num_clients}]", num_clusters)


def representation_option() -> Any:
  """Returns the option `representation`: what of the clients is grouped.

  All updates are from one model, so by L2 distance they are grouped as the weights are.
  """
  return options.option(
      str,
      "What is grouped: the clients' `weights`, their `update` since the last global "
      "model, or the `normalized_update`. Or, by K-means, a `sketch`: the "
      f"{sketch.SIZE} numbers that a linear probe learns of a client's data. No models of all "
      "clients are kept then, and the clusters start from the last global model.",
      default="update",
      values=(*client_weights_lib.REPRESENTATIONS, SKETCH),
  )


def check_is_of_weights(representation: str) -> None:
  """Raises a ValueError unless weights are grouped, as methods that compare all pairs need."""
  known = client_weights_lib.REPRESENTATIONS
  if representation not in known:
    raise validate.error(
        "representation", f"be one of {', '.join(known)} but for kmeans, ifca and fesem",
        representation,
    )


def distance_threshold_option(about: str, default: str | None) -> Any:
  """Returns the option `distance_threshold`: the mean, a number or a quantile of distances."""
  return options.option(
      str,
      about,
      default=default,
      default_for=lambda num_clients: "mean",
      default_text="mean",
      rule=parse_threshold,
  )


def parse_threshold(distance_threshold: str | float | None) -> Callable[[np.ndarray], float]:
  """Returns the function from condensed distances to a threshold that a text stands for.

  Args:
    distance_threshold: `mean` (of the distances of all pairs), a number, or a
      quantile of those distances such as `q0.3`.

  Raises:
    ValueError: If it is none of these.
  """
  if distance_threshold == "mean":
    return np.mean
  text = str(distance_threshold)
  is_quantile = text.startswith("q")
  try:
    number = float(text[1:] if is_quantile else text)
  except ValueError:
    number = math.nan
  if not 0 <= number <= (1 if is_quantile else sys.float_info.max):
    raise validate.error(
        "distance_threshold", "be `mean`, a number >= 0 or a quantile such as `q0.3`",
        distance_threshold,
    )
  if is_quantile:
    return lambda distances: np.quantile(distances, number)
  return lambda distances: number


def largest_distance_within(distance_threshold: str | float, distances: np.ndarray) -> float:
  """Returns the largest of condensed distances that counts as within the threshold.

  There are no distances for a single client.
  """
  if not distances.size:
    return 0.0
  return float(parse_threshold(distance_threshold)(distances)) * (1 + _ROUNDING)


def with_threshold_warning(
    assignment: cluster_assignment.ClusterAssignment, threshold: str | float,
    name: str = "distance_threshold",
) -> cluster_assignment.ClusterAssignment:
  """Returns an assignment that tells if its threshold has grouped nobody or everybody."""
  sizes = [len(members) for members in assignment.clusters]
  if max(sizes) == 1 < len(sizes):
    found = f"leaves each of the {len(sizes)} clients in a cluster of its own"
  elif len(sizes) == 1 < max(sizes):
    found = f"puts all {max(sizes)} clients into one cluster"
  else:
    return assignment
  warning = f"`{name}`={threshold} {found}, so nothing is grouped."
  return dataclasses.replace(
      assignment, warning=" ".join(filter(None, (assignment.warning, warning)))
  )
