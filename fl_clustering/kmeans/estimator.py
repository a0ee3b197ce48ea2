"""Federated k-means in scikit-learn's manner."""

import tempfile

import numpy as np

from fl_clustering.kmeans import client_points
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import point_privacy
from fl_clustering.kmeans import point_source
from fl_clustering.kmeans import tff_rounds
from fl_clustering.kmeans import training


class FederatedKMeans:
  """Clusters the points of many clients, whose points stay with them.

  What reaches the server is sums over the clients, and with the algorithms that gather
  (`fkm_lloyd`, `fkm`, `kfed`, `child_parent`) every client's own means of at least
  `min_count` points with their counts.  That is weak protection where `min_count` is
  small; `lloyd` gathers nothing, takes secure aggregation as `sum_factory`, and with
  `privacy` is differentially private.  `tff_minibatch` is TFF's own, for comparison.

  It computes in TFF's default context; see `fl_clustering.runtime` for one that ends with
  the program.

  Attributes, after `fit`:
    cluster_centers_: Centroids in the data's units, array of shape (K, d).
    inertia_: The sum of the squared distances of all points to the nearest of these
      centroids; of standardised columns with `standardize`, None with `privacy`.
    silhouette_: The mean simplified silhouette at these centroids, likewise.
    history_: Tuple of `fit_result.RoundRecord`, one per round of the best restart.
    n_rounds_: Number of rounds of the best restart.
    privacy_spent_: With `privacy`, a dict that says what is guaranteed; else None.
  """

  def __init__(
      self,
      n_clusters,
      algorithm="fkm_lloyd",
      n_init=None,
      num_rounds=None,
      tol=None,
      min_count=None,
      fkm_rounds=None,
      server_init=None,
      local_iterations=None,
      local_clusters=None,
      lloyd_rounds=None,
      weight_by_counts=None,
      shuffle=None,
      privacy=None,
      standardize=False,
      seed=0,
      sum_factory=None,
  ):
    """Checks the settings; `kmeans_config.KMeansConfig` says what they mean.

    Args:
      n_clusters: See there; so for all others but the last.
      algorithm: See there.
      n_init: See there.
      num_rounds: See there.
      tol: See there.
      min_count: See there.
      fkm_rounds: See there.
      server_init: See there.
      local_iterations: See there.
      local_clusters: See there.
      lloyd_rounds: See there.
      weight_by_counts: See there.
      shuffle: See there.
      privacy: See there.
      standardize: See there.
      seed: See there.
      sum_factory: How Lloyd's rounds are summed up, a
        `tff.aggregators.UnweightedAggregationFactory`; a plain sum by default.  One that
        clips, such as `SecureSumFactory(b, -b)`, must let pass every client's counts, sums
        and squared distances, in units of the data's standard deviation: with b at ten
        times the numbers in the largest client's matrix only far outliers are clipped.
    """
    self._config = kmeans_config.KMeansConfig(
        n_clusters=n_clusters,
        algorithm=algorithm,
        n_init=n_init,
        num_rounds=num_rounds,
        tol=tol,
        min_count=min_count,
        fkm_rounds=fkm_rounds,
        server_init=server_init,
        local_iterations=local_iterations,
        local_clusters=local_clusters,
        lloyd_rounds=lloyd_rounds,
        weight_by_counts=weight_by_counts,
        shuffle=shuffle,
        privacy=privacy,
        standardize=standardize,
        seed=seed,
    )
    if sum_factory is not None and not self._config.has_summed_rounds:
      raise ValueError(
          "`sum_factory` must be left out with `privacy` and without rounds of Lloyd, got "
          f"{sum_factory!r}."
      )
    self._sum_factory = sum_factory
    self._fit = None

  def fit(self, clients):
    """Fits the centroids.

    Args:
      clients: A mapping from client id to an array of shape (n, d), or a list of such
        arrays.  The columns are the same at every client.

    Returns:
      This object.

    Raises:
      TypeError: If `clients` is no such mapping or list of real numbers.
      ValueError: If clients' points can't be clustered together, there are fewer than
        clusters, or the clients may send nothing that the algorithm could use.
    """
    points = client_points.checked_clients(clients)
    num_columns = next(iter(points.values())).shape[1]
    with tempfile.TemporaryDirectory() as folder:
      rounds = tff_rounds.TffRounds(
          point_source.write_files(points, folder), num_columns, self._config.n_init,
          self._sum_factory or self._noisy_sum_factory(),
      )
      self._fit = self._fit_rounds(rounds)
    self.cluster_centers_ = self._fit.centroids
    self.inertia_ = self._fit.inertia
    self.silhouette_ = self._fit.silhouette
    self.history_ = self._fit.history
    self.n_rounds_ = len(self._fit.history)
    self.privacy_spent_ = self._fit.privacy_spent
    return self

  def _noisy_sum_factory(self):
    config = self._config
    if config.privacy is None:
      return None
    from fl_clustering.kmeans import private_training  # pylint: disable=g-import-not-at-top

    return private_training.build_sum_factory(
        point_privacy.noise_multiplier(config.privacy, config.num_rounds)
    )

  def _fit_rounds(self, rounds):
    if self._config.privacy is None:
      return training.fit(self._config, rounds)
    from fl_clustering.kmeans import private_training  # pylint: disable=g-import-not-at-top

    return private_training.fit(self._config, rounds)

  def predict(self, points):
    """Returns the nearest centroid of every point, an int array of shape (n,).

    Whoever holds the points computes this alone, without any round.

    Args:
      points: An array of shape (n, d).
    """
    if self._fit is None:
      raise ValueError("`fit` must come before `predict`, got no centroids yet.")
    points = client_points.checked_points(points, "`points`", self.cluster_centers_.shape[1])
    return self._fit.assign(points)
