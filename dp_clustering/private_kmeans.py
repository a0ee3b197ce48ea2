"""Private k-means as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import base
from sklearn.metrics import pairwise
from sklearn.utils import validation

from clustering_basics import callers_line
from clustering_basics import validate
from dp_clustering import clustering
from dp_clustering import clustering_params
from dp_clustering import data_frames
from dp_clustering import metrics


class PrivateKMeans(
    base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin, base.ClusterMixin,
    base.BaseEstimator,
):
  """k-means whose centers are (epsilon, delta)-differentially private.

  The parameters are public: they must be chosen without looking at the data.  An earlier
  pipeline step that learns from the data, such as a scaler, is not private.  Neither is a
  search for parameters that scores them on the data.

  One rule of scikit-learn for estimators can't hold here: data without rows should be
  refused.  The check `check_estimators_empty_data_messages` therefore fails.  The content
  of the data must not cause an error, since an error reveals something about a record.
  For the same reason, rows with NaN, infinities or missing values are mapped into the ball,
  and there may be fewer rows than clusters.

  Labels and distances are those of the points in the ball, as a fit sees them.  The score and
  `inertia_` are of the points as they are: otherwise, the best radius would be the smallest.

  There is no `sample_weight`: the noise is for points that all count the same.

  Attributes:
    cluster_centers_: The centers, of shape (n_clusters, n_features_in_).  Private.
    noise_sd_: Standard deviation of the noise on each coordinate of them, of the same shape;
      infinite where nothing is known (`private_centers`).  Private.
    noisy_counts_: Noisy numbers of points of the centers, of shape (n_clusters,); NaN where no
      release is about one.  Private.
    count_sd_: Standard deviation of the noise on these, likewise.
    labels_: Index of the nearest center of each point of the fit, of shape (n_samples,).
      NOT private, and only there with `compute_labels`.
    inertia_: Sum of squared distances of these points to their nearest centers.  Likewise.
    clipped_share_: The share of these points beyond the radius.  Likewise; above 1%, a warning
      says so.
    ledger_: `ledger.Ledger` of the releases.  Private: it can be published.  Its
      `epsilon_spent` is what the fit cost.
    n_iter_: Number of releases.  Private.
    feature_names_in_: The columns' names, if the data was a frame with names; `predict` then
      refuses frames with other columns, or in another order.
  """

  def __init__(
      self, n_clusters: int, epsilon: float, delta: float, radius: float, method: str = "refine",
      random_state: int | None = None, compute_labels: bool = True,
      public_num_points: int | None = None,
  ) -> None:
    """Stores the parameters; `fit` checks them.

    Args:
      epsilon: Number in [1e-8, 1e100]; `inf` for no noise, and no privacy.
      delta: Number in (0, 1), much smaller than one over the number of points.
      radius: Bound on the norm of a point, a positive number.  Points farther out are
        clipped to it, in a fit and afterwards.
      method: A key of `clustering.METHODS`: `refine`, the better one, or `lsh`.
      random_state: None for secure noise.  A non-negative integer makes fits repeatable
        and NOT private, so that `ledger_.epsilon_spent` is `inf`; it is for benchmarks only.
      compute_labels: Whether `labels_`, `inertia_` and `clipped_share_` are kept, which are not
        private.  Without them, a fitted estimator can be published.
      public_num_points: About how many points there are, if that is known without them; for
        `refine`, which finds more in few points then.
    """
    self.n_clusters = n_clusters
    self.epsilon = epsilon
    self.delta = delta
    self.radius = radius
    self.method = method
    self.random_state = random_state
    self.compute_labels = compute_labels
    self.public_num_points = public_num_points

  def __sklearn_tags__(self) -> Any:
    tags = super().__sklearn_tags__()
    tags.input_tags.allow_nan = True
    return tags

  @property
  def _n_features_out(self) -> int:
    return len(self.cluster_centers_)

  def _unmasked(self, points: Any) -> Any:
    """Returns points as an array; scikit-learn would use what is masked.

    It refuses what scikit-learn refuses with a message that shows rows.
    """
    if sparse.issparse(points):
      return points
    try:
      array = clustering_params.unmasked(points)
    except ValueError:
      raise ValueError("`X` must have rows of one length, got rows of several.") from None
    if array.dtype.kind == "c":
      raise ValueError(f"Complex data not supported: `X` must be real, got {array.dtype}.")
    if array.ndim < 2:
      raise ValueError(
          f"`X` must be an array of 2 dimensions, got {array.ndim}. Reshape your data, a single "
          "column with `reshape(-1, 1)`."
      )
    return array

  def _validated(self, points: Any, reset: bool) -> np.ndarray:
    if not reset:
      data_frames.check_order(points, getattr(self, "feature_names_in_", None), "`X`")
    array = validation.check_array(
        self._unmasked(points), dtype=None, ensure_all_finite=False, ensure_min_samples=0,
        estimator=self, input_name="X",
    )
    array = clustering_params.numeric_table("X", array)
    if reset:
      names = data_frames.name_array(data_frames.column_names(points, "`X`"))
      data_frames.set_columns(self, array.shape[1], names)
    else:
      data_frames.check_width(self, array.shape[1])
    return array

  # scikit-learn calls the points X.
  # pylint: disable=invalid-name
  def fit(self, X: Any, y: Any = None) -> PrivateKMeans:
    """Finds private centers, spending (epsilon, delta) once more on these points.

    Args:
      X: Points, array of shape (n_samples, n_features).  Not private.

    Returns:
      The estimator itself.
    """
    del y
    validate.integer(1, n_clusters=self.n_clusters)
    validate.one_of(clustering.METHODS, method=self.method)
    validate.boolean(compute_labels=self.compute_labels)
    if self.public_num_points is not None and self.method != "refine":
      raise validate.error(
          "public_num_points", f"be None with the method {self.method}", self.public_num_points
      )
    privacy_param = clustering_params.DifferentialPrivacyParam(self.epsilon, self.delta)
    with clustering_params.content_raises_nothing():
      data = clustering_params.Data(
          self._validated(X, reset=True), self.radius, public_num_points=self.public_num_points
      )
    result = clustering.METHODS[self.method](
        self.n_clusters, data, privacy_param, random_state=self.random_state
    )
    assert result.ledger is not None and result.noise is not None  # Each method keeps them.
    self.cluster_centers_ = result.centers
    self.noise_sd_ = result.noise.noise_sd
    self.noisy_counts_, self.count_sd_ = result.noise.noisy_counts, result.noise.count_sd
    self.ledger_ = result.ledger
    self.n_iter_ = len(result.ledger.releases)
    for name in ("labels_", "inertia_", "clipped_share_"):
      self.__dict__.pop(name, None)
    if self.compute_labels:
      with clustering_params.content_raises_nothing():
        points, self.labels_ = data.datapoints, result.labels
        self.inertia_ = metrics.nonprivate_loss(points, self.cluster_centers_, self.radius)
        self.clipped_share_ = metrics.nonprivate_clipped_share(points, self.radius)
      for text in clustering_params.clipped_warnings(self.clipped_share_):
        callers_line.warn(text)
    return self

  def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
    """Finds private centers, and returns the nearest one of each point; NOT private."""
    del y
    return self.fit(X).predict(X)

  def predict(self, X: Any) -> np.ndarray:
    """Returns the index of the nearest center of each point, shape (n_samples,).

    The result is not private: it is exact.

    Args:
      X: Points, array of shape (n_samples, n_features).  Not private.
    """
    validation.check_is_fitted(self)
    with clustering_params.content_raises_nothing():
      labels, _ = metrics.nonprivate_labels_and_loss(
          self._validated(X, reset=False), self.cluster_centers_, self.radius
      )
    return labels

  def transform(self, X: Any) -> np.ndarray:
    """Returns the distance of each point to each center, shape (n_samples, n_clusters).

    The result is not private: it is exact.
    """
    validation.check_is_fitted(self)
    with clustering_params.content_raises_nothing():
      points = clustering_params.map_to_ball(self._validated(X, reset=False), self.radius)
      return pairwise.euclidean_distances(points, self.cluster_centers_)

  def score(self, X: Any, y: Any = None) -> float:
    """Returns minus the sum of squared distances of the points to their nearest centers.

    The result is not private: it is exact.  Points beyond the radius count as they are.
    """
    del y
    validation.check_is_fitted(self)
    with clustering_params.content_raises_nothing():
      return -metrics.nonprivate_loss(
          self._validated(X, reset=False), self.cluster_centers_, self.radius
      )
