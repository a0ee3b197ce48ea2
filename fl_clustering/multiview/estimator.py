"""Federated multi-view k-means in scikit-learn's manner."""

import tempfile

import numpy as np

from fl_clustering.multiview import client_views
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import sums
from fl_clustering.points import point_files


class FederatedMultiViewKMeans:
  """Clusters the points of many clients, which all see them in the same views.

  The server receives sums over the clients.  To find the first centers it also receives
  every client's own means of at least `min_count` points, with their counts; with
  `privacy` it does not.  With one client this is the central algorithm, MVKM-ED.

  It computes in TFF's default context; see `fl_clustering.runtime` for one that ends with
  the program.

  Attributes, after `fit`:
    cluster_centers_: A list of arrays of shape (K, d_h), one per view, in the data's
      own units.
    view_weights_: Array of shape (H,), sum one.
    objective_: The objective at these centers.  With `privacy` it is None, because it
      would take one more look at the data.
    history_: Tuple of `server_step.RoundRecord`, one per round of the best restart, and
      one for the result (not with `privacy`).
    n_rounds_: Number of rounds of the best restart.
    privacy_spent_: With `privacy`, a dict with the guarantee; else None.
  """

  def __init__(
      self,
      n_clusters,
      view_weights="equal",
      alpha=2.0,
      n_init=5,
      num_rounds=50,
      tol=1e-6,
      standardize=True,
      min_count=2,
      privacy=None,
      seed=0,
  ):
    """Checks the settings.

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
        with `privacy`.
      num_rounds: The most rounds of a restart.
      tol: A restart ends when a round changes the objective by less than this share of
        it; 0 runs all rounds.
      standardize: Whether every column is brought to mean zero and variance one over all
        clients; False only centers the columns.  Must be False with `privacy`.
      min_count: The least number of points whose mean leaves a client, at least 2.  It
        applies to the first centers, which `privacy` draws instead.
      privacy: A `PointPrivacy`, which adds noise to the sums of every round; None for
        exact sums.
      seed: Integer >= 0 that decides everything random but the noise of `privacy`.
    """
    self._config = multiview_config.MultiViewConfig(
        n_clusters=n_clusters,
        view_weights=view_weights,
        alpha=alpha,
        n_init=n_init,
        num_rounds=num_rounds,
        tol=tol,
        standardize=standardize,
        min_count=min_count,
        privacy=privacy,
        seed=seed,
    )
    self._fit = None

  def fit(self, clients):
    """Fits the model.

    Args:
      clients: A mapping from client id, a string, to a list of arrays (n, d_h), one per
        view: the same views with the same columns at every client, and in each the
        client's n points in the same order.

    Returns:
      This object.

    Raises:
      TypeError: If `clients` is not such a mapping of real numbers, or an id is no string.
      ValueError: If views are missing or don't fit together, a view is the same
        everywhere, or there are fewer points than clusters.
    """
    views = client_views.check_clients(clients, self._config.n_clusters)
    if self._config.privacy is not None:
      self._config.privacy.check_views(len(views.widths))
    with tempfile.TemporaryDirectory() as folder:
      files = point_files.write_files(views.points, folder)
      if self._config.privacy is None:
        fit = fitting.fit(self._config, files, views.widths)
      else:
        fit = fitting.fit_privately(self._config, files, views.widths)
    self._fit, self._widths = fit, views.widths
    self.cluster_centers_ = np.split(
        fit.scaling.undo(fit.model.centers), np.cumsum(views.widths)[:-1], axis=1
    )
    self.view_weights_ = fit.model.view_weights
    self.history_ = fit.history
    self.privacy_spent_ = fit.privacy_spent
    if fit.privacy_spent is None:
      self.objective_ = fit.history[-1].objective
      self.n_rounds_ = len(fit.history) - 1
    else:
      self.objective_ = None
      self.n_rounds_ = len(fit.history)
    return self

  def predict(self, views):
    """Gives points to the clusters, as the last round would.

    Args:
      views: A list of arrays of shape (n, d_h), one per view, as for `fit`.

    Returns:
      The clusters, an int64 array of shape (n,).  They are functions of the points
      themselves: whoever holds the points computes them, without any round.
    """
    if self._fit is None:
      raise ValueError("`fit` must come before `predict`, got no model yet.")
    points, _ = client_views.joined_views(views, "`views`", self._widths)
    points = self._fit.scaling.apply(points)
    if self._config.privacy is not None:
      points = sums.project(points, self._widths)
    model = self._fit.model
    clusters, _ = sums.assign(
        points, model.centers, model.betas, model.view_factors, self._widths
    )
    return clusters.numpy()
