"""The result of a fit, whoever made it.

It is apart from the estimators since scikit-learn takes seconds to import, and a site needs none.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, TYPE_CHECKING

from absl import logging
import numpy as np

from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from dp_clustering import ledger as ledger_lib
  from dp_clustering import private_centers


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
  """The result of a fit.

  Attributes:
    model: What gives clusters to scaled points, such as a `kmeans.model.KMeansModel`; it has
      `assign`, `distances`, `losses` and `are_clipped`.
    scaling: From the data's units to those in which the model takes points: for views, steps of the
      grid of the sums.
    centroids: In the data's units, float64 of shape (K, d).
    history: The records of the rounds of the best restart.
    num_rounds: Number of its rounds.
    loss: At the centroids; None with `privacy`.
    simplified_silhouette: The mean simplified silhouette, or None: of a single cluster, too.
    num_clusters_found: How many clusters have points; None with `privacy`.
    num_centers_on_few_points: How many of the centroids stand on fewer than `FEW_POINTS` points;
      None with `privacy` and with algorithms that don't tell.
    noise: Of a private fit, the centroids with the noise on each and on its number of points, in
      the data's units; None without `privacy`.
    ledger: That of a private fit, which takes no more entries, or None.
    privacy_spent: What a private fit guarantees (`privacy.guarantee`), or None.
  """

  model: Any
  scaling: secure_sums.Scaling
  centroids: np.ndarray
  history: tuple[Any, ...]
  num_rounds: int
  loss: float | None = None
  simplified_silhouette: float | None = None
  num_clusters_found: int | None = None
  num_centers_on_few_points: int | None = None
  noise: private_centers.PrivateCenters | None = None
  privacy_spent: Mapping[str, Any] | None = None
  ledger: ledger_lib.Ledger | None = None

  def few_clusters_warning(self, num_asked: int) -> str | None:
    """Returns a text if there are fewer clusters than were asked for; else None."""
    found = self.num_clusters_found
    if found is None or found >= num_asked:
      return None
    return f"Clusters with points: {found} of {num_asked}; there may be no more different rows."

  def warn_of_few_points(self) -> None:
    """Logs a warning if centroids stand on few points."""
    if self.num_centers_on_few_points:
      logging.warning(
          "Centers on fewer than %d points: %d of %d. Each may be a row, or show one to whoever "
          "knows the others. Only `privacy` protects rows.",
          privacy_lib.FEW_POINTS, self.num_centers_on_few_points, len(self.centroids),
      )
