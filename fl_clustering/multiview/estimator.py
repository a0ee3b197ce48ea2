"""Federated multi-view k-means in scikit-learn's manner."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.points import federated_clusterer
from fl_clustering.points import fitted
from fl_clustering.points import privacy as privacy_lib


class FederatedMultiViewKMeans(federated_clusterer.FederatedClusterer):
  """Clusters the points of many clients, which all see them in the same views.

  The server receives totals over all clients, by secure sums of integers, and nothing
  else; on one machine these are simulated, see `fit`.  They are exact: most rows can follow from
  them, though not whose they are, and a center of one point is that point.  Only `privacy` protects
  rows.

  With one client this is the central algorithm, MVKM-ED, but for bandwidths and first centers.  A
  view's bandwidth stays one over its total variance (with `privacy`, over the square of its norm);
  the author's program changes it in every iteration.  The first centers are those of k-means on
  all views, not random rows.  The result depends on the points alone, to the last bit: not on how
  they are spread over the clients.

  One client is a list of tables (n, d_h), one per view: the same views with the same columns
  at every client, and in each the client's n points in the same order.  A table is one of
  `FederatedKMeans`; alone, it is the only view.

  `transform` gives what a point would add to the objective in every cluster, which is its
  distance to the center over all views, between 0 and the sum of the views' weights to the power
  of `alpha`.  The score is minus the sum of the points' least distances.

  Attributes, after `fit`:
    cluster_centers_: A list of arrays of shape (K, d_h), one per view, in the data's
      own units.
    view_weights_: Array of shape (H,), sum one.
    objective_: The objective at these centers.  With `privacy` it is None, because it
      would take one more look at the data.
    history_: Tuple of `server_step.RoundRecord`, one per round of the best restart, and
      one for the result (not with `privacy`).
    num_centers_on_few_points_: How many of the centers had fewer than five points in the round
      that they are from, also if none; None with `privacy`.
    n_iter_: Number of rounds of the best restart, after those that found its first centers.
    n_features_in_: Number of columns of all views.
    noise_sd_: With `privacy`, the standard deviation of the noise on each coordinate of the
      centers, of shape (K, D) for all views side by side; about, as moves are shrunk.  Infinite
      where nothing is known.  None without.
    labels_, noisy_counts_, count_sd_, clipped_share_, privacy_spent_, privacy_ledger_: As of
      `FederatedKMeans`.
    feature_names_in_: A list with the names of every view's columns, an array of objects, or None
      for a view without names; only if there are names.  `predict` then refuses frames with
      other columns, or in another order.
  """

  _has_views = True

  def __init__(
      self,
      n_clusters: int,
      view_weights: str = "equal",
      alpha: float = 2.0,
      n_init: int | None = None,
      num_rounds: int | None = None,
      tol: float | None = None,
      standardize: bool = True,
      field_widths: Sequence[int] | None = None,
      privacy: privacy_lib.ViewPrivacy | None = None,
      compute_labels: bool | None = None,
      random_state: int = 0,
  ) -> None:
    """Stores the settings; `fit` checks them.

    Args:
      n_clusters: Number of clusters, K: at least 1, at most the number of all points.
      view_weights: How much every view counts; the weights sum to one.
        "equal": every view the same.
        "mvkm": the paper's rule, which favours the view that is easiest to compress.
        "regret": the less a view's own best clustering is worsened by the common
          clusters, the more it counts; every view is first clustered alone.
      alpha: The exponent of the view weights in the objective, > 0.  It must exceed 1 with
        "mvkm" and "regret"; the nearer to 1, the more unequal the weights are.
      n_init: Number of restarts; the one with the lowest objective is kept.  Must be 1
        with `privacy`.  Default: 5.
      num_rounds: The most rounds of a restart.  With `privacy`, all of them are run.
        Default: 50; 3 with `privacy`.
      tol: A restart ends when a round changes the objective by less than this share of
        it; 0 runs all rounds.  Must be 0 with `privacy`, and is then by default.  Default:
        1e-6.
      standardize: Whether every column is brought to mean zero and variance one over all
        clients; False only centers the columns.  Must be False with `privacy`.
      field_widths: As of `FederatedKMeans`, of all views' columns; no field is in two views.
      privacy: A `ViewPrivacy`, which adds noise to the sums of every round; None for
        exact sums.
      compute_labels: Whether `labels_` keeps the clusters of the points.  Default: True without
        `privacy`, False with it.
      random_state: Integer >= 0 that decides everything random but the noise of `privacy`.
    """
    self.n_clusters = n_clusters
    self.view_weights = view_weights
    self.alpha = alpha
    self.n_init = n_init
    self.num_rounds = num_rounds
    self.tol = tol
    self.standardize = standardize
    self.field_widths = field_widths
    self.privacy = privacy
    self.compute_labels = compute_labels
    self.random_state = random_state

  def _config(self) -> multiview_config.MultiViewConfig:
    settings = self._settings()
    defaults = {} if self.privacy is None else multiview_config.PRIVATE_DEFAULTS
    left_out = {name for name in multiview_config.PRIVATE_DEFAULTS if settings[name] is None}
    given = {name: value for name, value in settings.items() if name not in left_out}
    return multiview_config.MultiViewConfig(**{**defaults, **given})

  def _fit(
      self, config: multiview_config.MultiViewConfig, points: Mapping[Any, np.ndarray],
      widths: tuple[int, ...],
  ) -> fitted.Fit:
    return fitting.fit(config, privacy_lib.hold(points, widths, config.privacy), widths)

  def _set_centers(self, fit: fitted.Fit) -> None:
    self.cluster_centers_ = np.split(fit.centroids, np.cumsum(self._widths)[:-1], axis=1)
    self.view_weights_ = fit.model.on_grid.view_weights
    self.objective_ = fit.loss
