"""What estimators of federated clustering share: scikit-learn's methods."""

from __future__ import annotations

import abc
import contextlib
from typing import Any, Callable, ClassVar, ContextManager, Mapping

import numpy as np
import sklearn
from sklearn import base
from sklearn import exceptions
from sklearn import preprocessing
from sklearn.utils import validation

from clustering_basics import callers_line
from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import data_frames
from fl_clustering.points import fitted
from fl_clustering.points import given_clients
from fl_clustering.points import privacy as privacy_lib


class _ManyClients:
  """The methods that return distances for every client.

  In a class of their own, they are not among those whose one result scikit-learn wraps.
  """

  _contained: Callable[[Any, given_clients.Clients], Any]
  _content_rules: Callable[[], ContextManager]
  _fit_points: Callable[[Any], given_clients.Clients]
  _points: Callable[[Any], given_clients.Clients]

  # scikit-learn calls points X.
  # pylint: disable=invalid-name

  def fit_transform(self, clients: Any, y: Any = None) -> Any:
    """Finds the clusters, and returns what `transform` gives for the points."""
    del y
    with self._content_rules():
      return self._contained(clients, self._fit_points(clients))

  def transform(self, X: Any) -> Any:
    """Returns the distance of every point to every center, of shape (n, K) for every client.

    Each client's are in the container that `set_output` asks for.
    """
    with self._content_rules():
      return self._contained(X, self._points(X))


class FederatedClusterer(
    _ManyClients, base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin, base.ClusterMixin,
    base.BaseEstimator, abc.ABC,
):
  """A clustering of the points of many clients, in scikit-learn's manner.

  Every method takes one client, a list of clients, or a mapping from client id, an integer or
  text, and returns one array, a list of arrays, or a dict by id; `y` is ignored.  One client is a
  table, or a list of tables if it `_has_views`.  A subclass has the arguments `privacy`,
  `compute_labels` and `random_state`.

  There is no `sample_weight`: what a client sends are sums of whole numbers, with a bound on
  what one row adds, which real weights don't fit.  A row that counts twice can be given twice.
  """

  privacy: Any
  compute_labels: bool | None
  random_state: int

  _has_views: ClassVar[bool] = False

  @abc.abstractmethod
  def _config(self) -> Any:
    """Returns the settings as the fit takes them, checked."""

  @abc.abstractmethod
  def _fit(
      self, config: Any, points: Mapping[Any, np.ndarray], widths: tuple[int, ...]
  ) -> fitted.Fit:
    """Fits a model to points by client id.

    The columns of all views stand side by side; `widths` says how many each view has.
    """

  @abc.abstractmethod
  def _set_centers(self, fit: fitted.Fit) -> None:
    """Sets the attributes that only this class has."""

  def _points_to_fit(self, clients: Any) -> tuple[given_clients.Clients, tuple[int, ...], Any]:
    """Returns the points to fit, how many columns each view has, and the columns' names."""
    tables = given_clients.tables_of(clients, has_views=self._has_views)
    tables, names = given_clients.aligned(tables)
    points, widths = given_clients.points_of(tables, self.privacy is not None)
    by_view: Any = list(map(data_frames.name_array, names))
    if not self._has_views:
      (by_view,) = by_view
    elif not any(names):
      by_view = None
    return points, widths, by_view

  def _points(self, X: Any) -> given_clients.Clients:  # pylint: disable=invalid-name
    """Returns the points to predict, checked against the columns that were fitted."""
    validation.check_is_fitted(self)
    num_views = len(self._widths)
    tables = given_clients.tables_of(X, "X", self._has_views, num_views)
    fitted_names = getattr(self, "feature_names_in_", None)
    by_view = [fitted_names] * num_views
    if self._has_views and fitted_names is not None:
      by_view = fitted_names
    for view, names in enumerate(by_view):
      for client_id, views in tables.by_id.items():
        data_frames.check_order(views[view], names, tables.label(client_id, view))
    expected = self._widths if self._has_views else None  # Or else scikit-learn's words.
    points, widths = given_clients.points_of(tables, self.privacy is not None, expected)
    if not self._has_views:
      data_frames.check_width(self, widths[0])
    return points

  def _settings(self) -> dict[str, Any]:
    """Returns the arguments that a configuration has, as a dict."""
    validate.integer(minimum=0, random_state=self.random_state)
    if self.compute_labels is not None:
      validate.boolean(compute_labels=self.compute_labels)
    settings = dict(self.get_params(deep=False))
    del settings["compute_labels"]
    settings["seed"] = settings.pop("random_state")
    return settings

  def _content_rules(self) -> ContextManager:
    """Returns the context of all that touches points: no number of a private row is an error."""
    if self.privacy is None:
      return contextlib.nullcontext()
    return clustering_params.content_raises_nothing()

  def _scaled(self, points: np.ndarray) -> np.ndarray:
    """Returns a client's points as the model takes them."""
    return self._result.scaling.apply(points)

  def _assign(self, points: np.ndarray) -> np.ndarray:
    return self._result.model.assign(self._scaled(points))

  def _fit_points(self, clients: Any) -> given_clients.Clients:
    """Fits, and returns the points."""
    config = self._config()
    points, widths, names = self._points_to_fit(clients)
    if self.privacy is not None:
      for text in privacy_lib.budget_warnings(
          self.privacy.epsilon, self.privacy.delta, self.privacy.points_per_client,
          len(points.by_id), self.privacy.public_num_points,
      ):
        callers_line.warn(text)
      for text in privacy_lib.planning_warnings(
          self.privacy, config.n_clusters, sum(widths), len(points.by_id)
      ):
        callers_line.warn(text)
    fit = self._fit(config, points.by_id, widths)
    fit.warn_of_few_points()
    if (warning := fit.few_clusters_warning(config.n_clusters)) is not None:
      callers_line.warn(warning, exceptions.ConvergenceWarning)
    # After a fit that failed, all is as it was.
    self._widths = widths
    data_frames.set_columns(self, sum(widths), names)
    self._result = fit
    self._set_centers(fit)
    self.history_ = fit.history
    self.n_iter_ = fit.num_rounds
    self.num_centers_on_few_points_ = fit.num_centers_on_few_points
    self.privacy_spent_ = fit.privacy_spent
    self.privacy_ledger_ = fit.ledger
    for name in ("noise_sd", "noisy_counts", "count_sd"):
      setattr(self, f"{name}_", fit.noise and getattr(fit.noise, name))
    for name in ("labels_", "clipped_share_"):
      self.__dict__.pop(name, None)
    is_secret = self.privacy is not None
    if not is_secret if self.compute_labels is None else self.compute_labels:
      self.labels_ = points.map(self._assign)
      if is_secret:
        are_clipped = [fit.model.are_clipped(own) for own in points.by_id.values()]
        num_points = max(sum(map(len, are_clipped)), 1)
        self.clipped_share_ = sum(map(np.count_nonzero, are_clipped)) / num_points
        for text in clustering_params.clipped_warnings(self.clipped_share_):
          callers_line.warn(text)
    return points

  # scikit-learn calls points X.
  # pylint: disable=invalid-name

  def fit(self, clients: Any, y: Any = None) -> FederatedClusterer:
    """Finds the clusters.

    This process computes all of it, and simulates the secure sums: integers, modulus and noise are
    those of secure sums, but there are no messages, and nothing is secret from this process.

    Raises:
      TypeError: If `clients` is nothing of this kind, or holds no real numbers.
      ValueError: If a setting is wrong, the clients' points can't be clustered together, there
        are fewer than clusters, or the clients may send nothing that the algorithm could use.
    """
    del y
    with self._content_rules():
      self._fit_points(clients)
    return self

  def fit_predict(self, clients: Any, y: Any = None) -> Any:
    """Finds the clusters, and returns those of the points, whether or not `labels_` keeps them."""
    del y
    with self._content_rules():
      return self._fit_points(clients).map(self._assign)

  @property
  def _n_features_out(self) -> int:
    return len(self._result.centroids)

  def _contained(self, given: Any, points: given_clients.Clients) -> Any:
    """Returns every client's distances, with the index of its frame if it gave one."""
    usual = sklearn.get_config()["transform_output"]
    asked = getattr(self, "_sklearn_output_config", {}).get("transform", usual)
    tables = given_clients.clients_of(given, has_views=self._has_views)

    def contained(client_id: Any) -> Any:
      distances = self._result.model.distances(self._scaled(points.by_id[client_id]))
      # scikit-learn puts them into the container that the user chose.
      wrapper = preprocessing.FunctionTransformer(
          lambda table: distances, feature_names_out=lambda *_: self.get_feature_names_out()
      )
      return wrapper.set_output(transform=asked).transform(tables.by_id[client_id])

    return points.replaced({client_id: client_id for client_id in points.by_id}).map(contained)

  def predict(self, X: Any) -> Any:
    """Returns the cluster of every point: an int array of shape (n,) for every client.

    Whoever holds the points computes this alone, without any round.  It is exact, also where
    the fit was private.
    """
    with self._content_rules():
      return self._points(X).map(self._assign)

  def score(self, X: Any, y: Any = None) -> float:
    """Returns minus the loss of the points: the larger, the better."""
    del y
    with self._content_rules():
      points = map(self._scaled, self._points(X).by_id.values())
      return -float(sum(self._result.model.losses(own).min(axis=1).sum() for own in points))
