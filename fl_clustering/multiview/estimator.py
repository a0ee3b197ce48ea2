"""Federated multi-view k-means in scikit-learn's manner."""

import tempfile

import numpy as np

from fl_clustering.kmeans import point_source
from fl_clustering.multiview import client_views
from fl_clustering.multiview import kernel_sums
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import training


class FederatedMultiViewKMeans:
  """Clusters the points of many clients, which all see them in the same views.

  Only sums over the clients reach the server, and, when the first centers are found,
  means of `min_count` points or more of one client with their counts.  With one client
  it is the central algorithm, MVKM-ED.  It computes in TFF's default context; see
  `fl_clustering.runtime` for one that ends with the program.

  Attributes, after `fit`:
    cluster_centers_: A list of arrays of shape (K, d_h), one per view, in the data's
      own units.
    view_weights_: Array of shape (H,), sum one.
    objective_: The objective at these centers.  With `privacy` it is None: it would be
      one more look at the data.
    history_: Tuple of `multiview_model.RoundRecord`, one per round of the best restart,
      and one for the result (not with `privacy`).
    n_rounds_: Number of rounds of the best restart.
    privacy_spent_: With `privacy`, a dict that says what is guaranteed; else None.
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
    """Checks the settings; `multiview_config.MultiViewConfig` says what they mean."""
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
    self._model = None

  def fit(self, clients):
    """Fits the model.

    Args:
      clients: A mapping from client id to a list of arrays of shape (n, d_h), one per
        view: the same views with the same columns at every client, and in each the
        client's n points in the same order.

    Returns:
      This object.

    Raises:
      TypeError: If `clients` is not such a mapping of real numbers.
      ValueError: If views are missing or don't fit together, a view is the same
        everywhere, or there are fewer points than clusters.
    """
    views = client_views.check_clients(clients, self._config.n_clusters)
    if self._config.privacy is not None:
      self._config.privacy.check_views(len(views.widths))
    spent = None
    with tempfile.TemporaryDirectory() as folder:
      paths = point_source.write_files(views.points, folder)
      if self._config.privacy is None:
        fit = training.fit(self._config, paths, views.widths)
      else:
        fit, spent = training.fit_privately(self._config, paths, views.widths)
    self._widths, self._model = views.widths, fit.model
    self.cluster_centers_ = np.split(
        fit.model.scaling.undo(fit.model.centers), np.cumsum(views.widths)[:-1], axis=1
    )
    self.view_weights_ = fit.model.view_weights
    self.history_ = fit.history
    self.objective_ = None if spent else fit.history[-1].objective
    self.n_rounds_ = len(fit.history) - (0 if spent else 1)
    self.privacy_spent_ = spent
    return self

  def predict(self, views):
    """Gives points to the clusters, as the last round would.

    Args:
      views: A list of arrays of shape (n, d_h), one per view, as for `fit`.

    Returns:
      The clusters, an int64 array of shape (n,).  They are functions of the points
      themselves: whoever holds the points computes them, without any round.
    """
    if self._model is None:
      raise ValueError("`fit` must come before `predict`, got no model yet.")
    points, _ = client_views.joined_views(views, "`views`", self._widths)
    model = self._model
    points = model.scaling.apply(points)
    if self._config.privacy is not None:
      points = kernel_sums.project(points, self._widths)
    clusters, _ = kernel_sums.assign(
        points, model.centers, model.betas, model.view_factors, self._widths
    )
    return clusters.numpy()
