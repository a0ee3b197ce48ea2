"""The result of a private clustering: centers, and what follows from them.

The centers and the ledger are private.  Labels, loss and metrics are not: they are
computed from the original points, for the curator only.
"""

import dataclasses
import math
import numbers

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import ledger as ledger_lib
from dp_clustering import metrics


@dataclasses.dataclass(frozen=True, eq=False)
class ClusteringResult:
  """Centers, and what follows from them.

  Attributes:
    centers: The centers, finite and within the radius, shape (k, dim); private.
    labels: Index of the nearest center of every point, shape (num_points,); not
      private.  Computed if not given.
    loss: Sum of the squared distances of the original points to the nearest center; not
      private.  Computed if not given.  Labels and loss must be given together.
    ledger: Frozen `Ledger` of the releases, their noise and the epsilon they add up to;
      private.  None for centers from elsewhere.
  """

  data: clustering_params.Data
  centers: np.ndarray
  labels: np.ndarray | None = None
  loss: float | None = None
  ledger: ledger_lib.Ledger | None = None

  def __post_init__(self) -> None:
    validate.instance(clustering_params.Data, data=self.data)
    centers = np.asarray(self.centers, np.float64)
    if centers.ndim != 2 or not len(centers) or centers.shape[1] != self.data.dim:
      raise validate.error("centers", f"be of shape (k, dim={self.data.dim})", centers.shape)
    object.__setattr__(self, "centers", centers)
    if (self.labels is None) != (self.loss is None):
      missing, given = ("labels", "loss") if self.labels is None else ("loss", "labels")
      raise ValueError(f"`{missing}` must be given together with `{given}`, got None.")
    if self.labels is None:
      labels, loss = metrics.nonprivate_labels_and_loss(
          self.data.datapoints, centers, self.data.radius
      )
      object.__setattr__(self, "labels", labels)
      object.__setattr__(self, "loss", loss)
    else:
      object.__setattr__(self, "labels", self._checked_labels())
      if not isinstance(self.loss, numbers.Real):
        raise TypeError(f"`loss` must be a number, got {self.loss!r}.")

  def _checked_labels(self) -> np.ndarray:
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

  def cross_label_histogram(self) -> np.ndarray:
    """Returns the number of points for each (cluster, true label); not private.

    Returns:
      Integer array of shape (k, num_true_labels), the true labels in sorted order.

    Raises:
      ValueError: If the data has no labels.
    """
    if self.data.labels is None:
      raise validate.error("data.labels", "be given for metrics", None)
    assert self.labels is not None  # Since it was made.
    true_labels, columns = np.unique(self.data.labels, return_inverse=True)
    shape = (len(self.centers), len(true_labels))
    cells = np.ravel_multi_index((self.labels, columns), shape) if columns.size else columns
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)

  def get_clustering_metrics(self) -> metrics.ClusteringMetrics:
    """Returns the `ClusteringMetrics` against the data's labels; not private."""
    return metrics.ClusteringMetrics(self.cross_label_histogram())
