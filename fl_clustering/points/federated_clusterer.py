"""What estimators of federated clustering share: scikit-learn's methods, for many clients."""

import abc
import tempfile

from sklearn import base

from clustering_basics import validate
from fl_clustering import runtime


class FederatedClusterer(base.TransformerMixin, base.ClusterMixin, base.BaseEstimator, abc.ABC):
  """A clustering of the points of many clients, in scikit-learn's manner.

  Every method takes one client, a list of clients, or a mapping from client id, and returns
  one array, a list of arrays, or a dict by id.  A subclass says what one client is, and has
  the arguments `privacy`, `compute_labels` and `random_state`.

  There is no `sample_weight`: what a client sends are sums of whole numbers, with a bound on
  what one row adds, which real weights don't fit.  A row that counts twice can be given twice.
  """

  @abc.abstractmethod
  def _config(self):
    """Returns the settings as the fit takes them, checked."""

  @abc.abstractmethod
  def _points_to_fit(self, config, clients):
    """Returns `given_clients.Clients` of points as `_fit` and `_assign` take them."""

  @abc.abstractmethod
  def _fit(self, config, points, folder):
    """Fits; `points` is a mapping from client id to arrays, `folder` for the clients' files."""

  @abc.abstractmethod
  def _points(self, X):  # pylint: disable=invalid-name
    """Returns `given_clients.Clients` of points as `_assign` takes them, to predict."""

  @abc.abstractmethod
  def _assign(self, points):
    """Returns the clusters of one client's points, an int array of shape (n,)."""

  @abc.abstractmethod
  def _distances(self, points):
    """Returns what `transform` gives for one client's points, of shape (n, K)."""

  @abc.abstractmethod
  def _losses(self, points):
    """Returns what every point would add to the loss in every cluster, of shape (n, K)."""

  def _settings(self):
    """Returns the arguments that a configuration has, as a dict."""
    validate.integer(minimum=0, random_state=self.random_state)
    if self.compute_labels is not None:
      validate.boolean(compute_labels=self.compute_labels)
    settings = self.get_params(deep=False)
    del settings["compute_labels"]
    settings["seed"] = settings.pop("random_state")
    return settings

  def _fit_points(self, clients):
    """Fits, and returns the `given_clients.Clients` of points."""
    config = self._config()
    points = self._points_to_fit(config, clients)
    with runtime.of_the_caller_or_own(), tempfile.TemporaryDirectory() as folder:
      self._fit(config, points.by_id, folder)
    vars(self).pop("labels_", None)
    is_secret = self.privacy is not None
    if not is_secret if self.compute_labels is None else self.compute_labels:
      self.labels_ = points.map(self._assign)
    return points

  # scikit-learn calls points X.
  # pylint: disable=invalid-name

  def fit(self, clients, y=None):
    """Finds the clusters.

    It computes in the caller's TFF context, such as a `fl_clustering.runtime.LocalRuntime`.
    Without one it starts a runtime, which takes about a second, and ends it.

    Args:
      clients: One client, a list of clients, or a mapping from client id, an integer or text.
        The class says what a client is.
      y: Ignored.

    Returns:
      This object.

    Raises:
      TypeError: If `clients` is nothing of this kind, or holds no real numbers.
      ValueError: If a setting is wrong, the clients' points can't be clustered together, there
        are fewer than clusters, or the clients may send nothing that the algorithm could use.
    """
    del y
    self._fit_points(clients)
    return self

  def fit_predict(self, clients, y=None):
    """Finds the clusters, and returns those of the points.

    Args:
      clients: As for `fit`.
      y: Ignored.

    Returns:
      What `labels_` holds, whether or not the estimator keeps it.
    """
    del y
    return self._fit_points(clients).map(self._assign)

  def fit_transform(self, clients, y=None):
    """Finds the clusters, and returns what `transform` gives for the points.

    Args:
      clients: As for `fit`.
      y: Ignored.
    """
    del y
    return self._fit_points(clients).map(self._distances)

  def predict(self, X):
    """Returns the cluster of every point: an int array of shape (n,) for every client.

    Whoever holds the points computes this alone, without any round.  It is exact, also where
    the fit was private.

    Args:
      X: One client, a list of clients, or a mapping from client id, as for `fit`.
    """
    return self._points(X).map(self._assign)

  def transform(self, X):
    """Returns the distance of every point to every center, of shape (n, K) for every client.

    Args:
      X: As for `predict`.
    """
    return self._points(X).map(self._distances)

  def score(self, X, y=None):
    """Returns minus the loss of the points: the larger, the better.

    Args:
      X: As for `predict`.
      y: Ignored.
    """
    del y
    points = self._points(X).by_id.values()
    return -float(sum(self._losses(own).min(axis=1).sum() for own in points))
