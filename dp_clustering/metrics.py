"""The quality of a clustering: labels, loss, and agreement with the ground truth.

Nothing here is private.  Everything is computed exactly, from the points themselves,
for those who may see them.
"""

import dataclasses
import math
from typing import Any, Iterator

import numpy as np

from dp_clustering import clustering_params
from dp_clustering import point_grid

# Elements of points, or of their products with the centers, processed at a time.
BLOCK_ELEMENTS = 2**18


def _blocks(points: np.ndarray, width: int) -> Iterator[slice]:
  """Yields places of points, so many at a time that a row of `width` numbers for each is little."""
  size = max(1, BLOCK_ELEMENTS // width)
  yield from (slice(start, start + size) for start in range(0, len(points), size))


def nonprivate_labels_and_loss(
    points: np.ndarray, centers: np.ndarray, radius: float
) -> tuple[np.ndarray, float]:
  """Returns the nearest center of each point, and the sum of squared distances to them.

  Args:
    points: Array of real numbers of shape (num_points, dim), finite or not.  Not private.  Each
      counts as the point that a fit makes of it (`clustering_params.map_to_ball`).
    radius: Radius of the ball.

  Returns:
    A pair of integer labels, shape (num_points,), and the loss.  Neither is private.
  """
  labels = np.empty(len(points), np.intp)
  block_losses = []
  for block in _blocks(points, max(centers.shape)):
    rows = clustering_params.map_to_ball(points[block], radius)
    labels[block] = point_grid.nearest(np, rows, centers)
    residuals = rows - centers[labels[block]]
    block_losses.append(np.einsum("ij,ij->", residuals, residuals))
  return labels, float(sum(block_losses))


def nonprivate_clipped_share(points: np.ndarray, radius: float) -> float:
  """Returns the share of points that a fit cuts to the radius; not private, and 0 for no points."""
  num_clipped = 0
  for block in _blocks(points, points.shape[1]):
    num_clipped += np.count_nonzero(clustering_params.are_beyond(points[block], radius))
  return num_clipped / max(len(points), 1)


def nonprivate_loss(points: np.ndarray, centers: np.ndarray, radius: float) -> float:
  """Returns the sum of squared distances of points, as they are, to their nearest centers.

  Unlike a loss of points in the ball, it does not fall because more of them are cut.  A point that
  is not finite has no such distance, and counts as the one that a fit makes of it.  Not private.
  """
  loss = 0.0
  for block in _blocks(points, max(centers.shape)):
    rows = points[block].astype(np.float64)
    is_finite = np.isfinite(rows).all(axis=1)
    rows[~is_finite] = clustering_params.map_to_ball(rows[~is_finite], radius)
    residuals = rows - centers[point_grid.nearest(np, rows, centers)]
    loss += float(np.einsum("ij,ij->", residuals, residuals))
  return loss


def _num_pairs(counts: Any) -> int:
  """Returns the number of pairs of points inside groups of these sizes."""
  return sum(count * (count - 1) // 2 for count in np.ravel(counts).tolist())


def _ratio(part: int, whole: int) -> float:
  return part / whole if whole else math.nan


@dataclasses.dataclass(frozen=True, eq=False)
class ClusteringMetrics:
  """How well clusters reflect the ground truth.  Not private.

  A ratio with a denominator of zero, such as the accuracy for no points, is NaN.

  Attributes:
    cross_label_histogram: Number of points for each (cluster, true label), an integer
      array of shape (num_clusters, num_true_labels).
    dominant_label_correct_count: Number of points whose true label is the most frequent
      one of their cluster.
    true_pairs: Number of pairs of points with the same true label.
    true_nonmatch_count: Number of `true_pairs` in different clusters.
    false_pairs: Number of pairs of points with different true labels.
    false_match_count: Number of `false_pairs` in the same cluster.
  """

  cross_label_histogram: np.ndarray
  num_points: int = dataclasses.field(init=False)
  dominant_label_correct_count: int = dataclasses.field(init=False)
  dominant_label_accuracy: float = dataclasses.field(init=False)
  true_pairs: int = dataclasses.field(init=False)
  true_nonmatch_count: int = dataclasses.field(init=False)
  true_nonmatch_frac: float = dataclasses.field(init=False)
  false_pairs: int = dataclasses.field(init=False)
  false_match_count: int = dataclasses.field(init=False)
  false_match_frac: float = dataclasses.field(init=False)

  def __post_init__(self) -> None:
    histogram = np.asarray(self.cross_label_histogram)
    num_points = int(histogram.sum())
    num_correct = int(histogram.max(axis=1, initial=0).sum())
    true_pairs = _num_pairs(histogram.sum(axis=0))
    false_pairs = _num_pairs([num_points]) - true_pairs
    matches = _num_pairs(histogram)
    true_nonmatches = true_pairs - matches
    false_matches = _num_pairs(histogram.sum(axis=1)) - matches
    values = {
        "cross_label_histogram": histogram,
        "num_points": num_points,
        "dominant_label_correct_count": num_correct,
        "dominant_label_accuracy": _ratio(num_correct, num_points),
        "true_pairs": true_pairs,
        "true_nonmatch_count": true_nonmatches,
        "true_nonmatch_frac": _ratio(true_nonmatches, true_pairs),
        "false_pairs": false_pairs,
        "false_match_count": false_matches,
        "false_match_frac": _ratio(false_matches, false_pairs),
    }
    for name, value in values.items():
      object.__setattr__(self, name, value)
