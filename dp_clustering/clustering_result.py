"""What a private clustering gives: centers, and what follows from them.

The centers and the ledger are private.  Labels, loss and metrics are not: they are
computed from the points as they are, for the curator's own eyes.
"""

import dataclasses

import numpy as np

from dp_clustering import clustering_params
from dp_clustering import ledger as ledger_lib
from dp_clustering import metrics
from dp_clustering import private_sums
from fl_clustering import validate

_BLOCK_ELEMENTS = 2**21


def nonprivate_labels_and_loss(points, centers, radius):
  """Returns every point's nearest center, and the sum of squared distances to them.

  Args:
    points: Array of shape (num_points, dim).  A row with NaN or an infinity is
      replaced by the point of the ball that it is mapped to; the others are used as
      they are, also beyond the radius.
    centers: Array of shape (k, dim).
    radius: Radius of the ball.

  Returns:
    A pair of int64 labels of shape (num_points,) and a float; neither is private.
  """
  labels = np.empty(len(points), np.int64)
  loss = 0.0
  size = max(1, _BLOCK_ELEMENTS // points.shape[1])
  for start in range(0, len(points), size):
    rows = np.asarray(points[start : start + size], np.float64)
    odd = ~np.isfinite(rows).all(axis=1)
    if odd.any():
      rows = rows.copy()
      rows[odd] = clustering_params.map_to_ball(rows[odd], radius)
    nearest = private_sums.nearest_centers(rows, centers)
    labels[start : start + len(rows)] = nearest
    loss += float(((rows - centers[nearest]) ** 2).sum())
  return labels, loss


@dataclasses.dataclass(frozen=True, eq=False)
class ClusteringResult:
  """Centers, and what follows from them.

  Attributes:
    data: The `Data` that was clustered; not private.
    centers: The centers, finite and within the radius, shape (k, dim); private.
    labels: Index of the nearest center of every point, shape (num_points,); not
      private.  Computed if not given.
    loss: Sum over the points, as they are, of the squared distance to the nearest
      center; not private.  Computed if not given; labels and loss go together.
    ledger: Frozen `Ledger` of what was released, with what noise, and the epsilon it
      comes to; None for centers from elsewhere.
  """

  data: clustering_params.Data
  centers: np.ndarray
  labels: np.ndarray | None = None
  loss: float | None = None
  ledger: ledger_lib.Ledger | None = None

  def __post_init__(self):
    centers = np.asarray(self.centers, np.float64)
    if centers.ndim != 2 or not len(centers) or centers.shape[1] != self.data.dim:
      raise validate.error("centers", f"be of shape (k, dim={self.data.dim})", centers.shape)
    object.__setattr__(self, "centers", centers)
    if (self.labels is None) != (self.loss is None):
      missing, given = ("labels", "loss") if self.labels is None else ("loss", "labels")
      raise ValueError(f"`{missing}` must be given together with `{given}`, got None.")
    if self.labels is None:
      labels, loss = nonprivate_labels_and_loss(
          self.data.datapoints, centers, self.data.radius
      )
      object.__setattr__(self, "labels", labels)
      object.__setattr__(self, "loss", loss)
    else:
      object.__setattr__(self, "labels", self._checked_labels())

  def _checked_labels(self):
    labels = np.asarray(self.labels)
    if labels.shape != (self.data.num_points,):
      raise validate.error(
          "labels", f"be of shape (num_points={self.data.num_points},)", labels.shape
      )
    if labels.size and labels.dtype.kind not in "iu":
      raise TypeError(f"`labels` must be integers, got an array of {labels.dtype}.")
    if labels.size and not 0 <= labels.min() <= labels.max() < len(self.centers):
      wrong = labels[(labels < 0) | (labels >= len(self.centers))][0]
      raise validate.error("labels", f"be in [0, k={len(self.centers)})", int(wrong))
    return labels.astype(np.int64)

  def cross_label_histogram(self):
    """Returns numbers of points by cluster (rows) and true label (columns)."""
    if self.data.labels is None:
      raise validate.error("data.labels", "be given for metrics", None)
    return metrics.cross_label_histogram(self.labels, self.data.labels, len(self.centers))

  def get_clustering_metrics(self):
    """Returns the `ClusteringMetrics` against the data's labels; not private."""
    return metrics.clustering_metrics(self.cross_label_histogram())
