"""Federated multi-view k-means in scikit-learn's manner."""

import tempfile

import numpy as np

from dp_clustering import noise as noise_lib
from fl_clustering.multiview import client_views
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import private_fit
from fl_clustering.multiview import sums
from fl_clustering.points import point_files

# Rows that are given to clusters at a time.
_BLOCK_ROWS = 2048
# Grid steps beyond which the kernel sees nothing: far outside the ball that points are in.
_FARTHEST = 2.0**40


class FederatedMultiViewKMeans:
  """Clusters the points of many clients, which all see them in the same views.

  The server receives totals over all clients, by secure sums of integers, and nothing
  else.  With one client this is the central algorithm, MVKM-ED.  The result depends on the
  points alone, to the last bit: not on how they are spread over the clients.

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
    n_rounds_: Number of rounds of the best restart, after those that found its first
      centers.
    privacy_spent_: With `privacy`, a dict with the guarantee; else None.
    privacy_ledger_: With `privacy`, the `dp_clustering.ledger.Ledger` of all releases; else
      None.
  """

  def __init__(
      self,
      n_clusters,
      view_weights="equal",
      alpha=2.0,
      n_init=None,
      num_rounds=None,
      tol=None,
      standardize=True,
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
        with `privacy`.  Default: 5.
      num_rounds: The most rounds of a restart.  With `privacy`, all of them are run.
        Default: 50; 3 with `privacy`.
      tol: A restart ends when a round changes the objective by less than this share of
        it; 0 runs all rounds.  Must be 0 with `privacy`, and is then by default.  Default:
        1e-6.
      standardize: Whether every column is brought to mean zero and variance one over all
        clients; False only centers the columns.  Must be False with `privacy`.
      privacy: A `PointPrivacy`, which adds noise to the sums of every round; None for
        exact sums.
      seed: Integer >= 0 that decides everything random but the noise of `privacy`.
    """
    given = {"n_init": n_init, "num_rounds": num_rounds, "tol": tol}
    defaults = {} if privacy is None else multiview_config.PRIVATE_DEFAULTS
    self._config = multiview_config.MultiViewConfig(
        n_clusters=n_clusters,
        view_weights=view_weights,
        alpha=alpha,
        standardize=standardize,
        privacy=privacy,
        seed=seed,
        **defaults | {name: value for name, value in given.items() if value is not None},
    )
    self._fit = None

  def fit(self, clients):
    """Fits the model.

    Args:
      clients: A mapping from client id, a string, to a list of arrays (n, d_h), one per
        view: the same views with the same columns at every client, and in each the
        client's n points in the same order.  With `privacy`, a client may have no rows, and
        rows may hold anything that is a number or stands for a missing one; see
        `dp_clustering.clustering_params.map_to_ball`.

    Returns:
      This object.

    Raises:
      TypeError: If `clients` is not such a mapping of real numbers, or an id is no string.
      ValueError: If views are missing or don't fit together, a view is the same
        everywhere, or there are fewer points than clusters.
    """
    config = self._config
    with tempfile.TemporaryDirectory() as folder:
      if config.privacy is None:
        views = client_views.check_clients(clients, config.n_clusters)
        files = point_files.write_files(views.points, folder)
        fit = fitting.fit(config, files, views.widths)
      else:
        views = client_views.check_private_clients(clients)
        config.privacy.check_views(len(views.widths))
        files = private_fit.write_files(views, config.privacy.view_norms, folder)
        fit = private_fit.fit(config, files, views.widths, noise_lib.SecureNoise())
    self._fit, self._widths = fit, views.widths
    self.cluster_centers_ = np.split(
        fit.scaling.undo(fit.model.centers), np.cumsum(views.widths)[:-1], axis=1
    )
    self.view_weights_ = fit.model.view_weights
    self.history_ = fit.history
    self.privacy_spent_ = fit.privacy_spent
    self.privacy_ledger_ = fit.ledger
    is_exact = fit.privacy_spent is None
    self.objective_ = fit.history[-1].objective if is_exact else None
    self.n_rounds_ = len(fit.history) - is_exact
    return self

  def _on_grid(self, points):
    """Returns rows of shape (n, D) in grid steps, as the clients of the fit computed them."""
    if self._config.privacy is None:
      return np.rint(np.clip(self._fit.scaling.apply(points), -_FARTHEST, _FARTHEST))
    norms = self._config.privacy.view_norms
    units = private_fit.grid_scaling(np.ones(len(norms)), self._widths)
    return np.rint(units.apply(private_fit.in_balls(points, norms, self._widths)))

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
    points, arrays = self._on_grid(points), self._fit.model.arrays()
    starts = range(0, len(points), _BLOCK_ROWS)
    blocks = (points[start : start + _BLOCK_ROWS] for start in starts)
    return np.concatenate([sums.nearest(np, block, arrays, self._widths) for block in blocks])
