"""Federated k-means in scikit-learn's manner."""

import tempfile

from dp_clustering import noise
from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import fitting
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import private_fit
from fl_clustering.kmeans import sums_fit
from fl_clustering.points import client_points
from fl_clustering.points import point_files


# By the names of `--algorithm`: a function of a `KMeansConfig` and `PointFiles`.
FITS = {"sums": sums_fit.fit, **dict.fromkeys(algorithms.ALGORITHMS, fitting.fit)}


def _fit(config, clients):
  """Returns the `fit_result.Fit` of the user's clients."""
  with tempfile.TemporaryDirectory() as folder:
    if config.privacy is None:
      files = point_files.write_files(client_points.checked_clients(clients), folder)
      return FITS[config.algorithm](config, files)
    points = client_points.private_clients(clients)
    files = private_fit.write_files(points, config.privacy, folder)
    return private_fit.fit(config, files, noise.SecureNoise())


class FederatedKMeans:
  """Clusters the points of many clients, whose points stay with them.

  With the default algorithm, `sums`, the server receives secure sums over the clients, and
  nothing else; with `privacy` these are differentially private.  With the algorithms that
  gather (`fkm_lloyd`, `fkm`, `kfed`, `child_parent`) it receives every client's own means of
  at least `min_count` points, with their counts.  That is weak protection: rows can be found
  from the differences between rounds.  They are here to compare with.

  It computes in TFF's default context; see `fl_clustering.runtime` for one that ends with
  the program.

  Attributes, after `fit`:
    cluster_centers_: Centroids in the data's units, array of shape (K, d).
    inertia_: The sum of the squared distances of all points to the nearest of these
      centroids; of standardised columns with `standardize`, None with `privacy`.
    silhouette_: The mean simplified silhouette at these centroids, likewise.
    history_: Tuple of `fitting.RoundRecord`, one for each round of the best restart that had
      centroids.
    n_rounds_: Number of all rounds of the best restart; with `sums` also those that find the
      scale before it and the inertia after it.
    privacy_spent_: With `privacy`, a dict with the guarantee; else None.
    privacy_ledger_: With `privacy`, the `dp_clustering.ledger.Ledger` of all releases; else
      None.
  """

  def __init__(
      self,
      n_clusters,
      algorithm="sums",
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
  ):
    """Checks the settings.

    An option left None gets the default of the chosen algorithm.  An option that the
    algorithm does not have is an error.

    Args:
      n_clusters: Number of clusters, K: at least 1, at most the number of all points.
      algorithm: How the centroids are found:
        "sums": splits, Lloyd's algorithm and swaps, by secure sums alone.
        "fkm_lloyd": rounds of FKM for good starts, then rounds of Lloyd.
        "lloyd": Lloyd's algorithm by sums, from random centroids.
        "fkm": Garst and Reinders, Federated K-Means Clustering.
        "kfed": Dennis, Li and Smith, one round that gathers.
        "child_parent": k-means of the clients' centroids, one round that gathers.
        "tff_minibatch": TFF's own mini-batch k-means, for comparison.
      n_init: Number of restarts; the one with the lowest inertia is taken.  Default: 5 for
        `fkm_lloyd` and `lloyd`, 1 for the others that have it.
      num_rounds: The most rounds.  With `sums` at least 6; up to seven more find the scale and
        the final inertia.  With `fkm_lloyd` these are the rounds of Lloyd that follow those of
        FKM.  Default: 30 for `sums`, 100 for `fkm_lloyd` and `lloyd`, 20 for `fkm` and
        `tff_minibatch`.  `kfed` and `child_parent` have one round.  With `privacy` the number
        of rounds follows from `n_clusters`.
      tol: For `fkm_lloyd` and `lloyd`: a restart ends when a round lowers its inertia by no
        more than this share.  Default: 1e-5.  Must be 0 with `privacy`, and is then by
        default.
      min_count: For the algorithms that gather: the least number of points whose mean
        leaves a client, at least 2.  Default: 2.
      fkm_rounds: For `fkm_lloyd`: the number of rounds of FKM before those of Lloyd.
        Default: 3.
      server_init: For `fkm_lloyd` and `fkm`: where the server's k-means of the clients'
        means starts in every round; "fresh" from new seeds, "warm" from the last global
        centroids.  Default: "fresh".
      local_iterations: For `fkm_lloyd` and `fkm`: Lloyd steps of a client in every round
        of FKM but the first.  Default: 1.
      local_clusters: For `kfed`: the number of clusters that k-FED looks for on a client,
        at most K.  Default: K.
      lloyd_rounds: For `fkm`, `kfed` and `child_parent`: the most rounds of Lloyd to add
        at the end, by sums.  They end early when nothing improves.  Default: 0.
      weight_by_counts: For `child_parent`: whether the server weighs the clients' centroids
        by their numbers of points.  Default: False.
      shuffle: For `child_parent`: whether a client shuffles its points before it sets a
        quarter of them aside.  Default: False.
      privacy: For `sums`: a `PointPrivacy` or `ClientPrivacy`.  Sums then get noise, and the
        algorithm is that of `dp_clustering.refine`.  Default: None, exact sums.
      standardize: Whether every column is scaled to variance one over all clients; must be
        False with `privacy`.
      seed: Integer >= 0 that decides everything random but the noise of `privacy`.
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
    self._fit = None

  def fit(self, clients):
    """Fits the centroids.

    Args:
      clients: A mapping from client id to an array of shape (n, d), or a list of such
        arrays.  The columns are the same at every client.  With `privacy`, a client may
        have no rows, and rows may hold anything that is a number or stands for a missing
        one; see `dp_clustering.clustering_params.map_to_ball`.

    Returns:
      This object.

    Raises:
      TypeError: If `clients` is no such mapping or list of real numbers.
      ValueError: If clients' points can't be clustered together, there are fewer than
        clusters, or the clients may send nothing that the algorithm could use.
    """
    self._fit = _fit(self._config, clients)
    self.cluster_centers_ = self._fit.centroids
    self.inertia_ = self._fit.inertia
    self.silhouette_ = self._fit.silhouette
    self.history_ = self._fit.history
    self.n_rounds_ = self._fit.num_rounds
    self.privacy_spent_ = self._fit.privacy_spent
    self.privacy_ledger_ = self._fit.ledger
    return self

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
