"""A fit by secure sums, of rows or of views: the one place that knows both."""

from __future__ import annotations

from dp_clustering import noise
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import sums_fit
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.points import fitted
from fl_clustering.points import secure_sums

Config = kmeans_config.KMeansConfig | multiview_config.MultiViewConfig


def fit(
    config: Config, clients: secure_sums.ClientPoints, widths: tuple[int, ...],
    noise_source: noise.Source | None = None,
) -> fitted.Fit:
  """Fits centroids to clients from `points.privacy.hold`.

  Args:
    config: The settings; of rows, with the algorithm `Sums`.
    widths: The number of columns of every view, one number without views.
    noise_source: With `privacy`; secure noise by default.

  Raises:
    ValueError: If the points can't be clustered so, without `privacy`.
  """
  if isinstance(config, multiview_config.MultiViewConfig):
    return fitting.fit(config, clients, widths, noise_source)
  return sums_fit.fit(config, clients, noise_source)
