"""Federated k-means in scikit-learn's manner."""

from sklearn.utils import validation

from dp_clustering import data_frames
from dp_clustering import noise
from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import fitting
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import private_fit
from fl_clustering.kmeans import sums_fit
from fl_clustering.points import client_points
from fl_clustering.points import federated_clusterer
from fl_clustering.points import given_clients
from fl_clustering.points import point_files

# By the names of `--algorithm`: a function of a `KMeansConfig` and `PointFiles`.
FITS = {"sums": sums_fit.fit, **dict.fromkeys(algorithms.ALGORITHMS, fitting.fit)}


class FederatedKMeans(federated_clusterer.FederatedClusterer):
  """Clusters the points of many clients, whose points stay with them.

  With the default algorithm, `sums`, the server receives secure sums over the clients, and
  nothing else; with `privacy` these are differentially private.  With the algorithms that
  gather (`fkm_lloyd`, `fkm`, `kfed`, `child_parent`) it receives every client's own means of
  at least `min_count` points, with their counts.  That is weak protection: rows can be found
  from the differences between rounds.  They are here to compare with.

  One client is a table: an array of shape (n, d), a frame of pandas, polars or Arrow, or a list
  of rows.  Frames' columns go by name: if they come in another order at another client, they are
  put right.  With `privacy`, a client may have no rows, and rows may hold anything that is a
  number or stands for a missing one; see `dp_clustering.clustering_params.map_to_ball`.

  `transform` gives distances in the data's units, with `standardize` in standard deviations of
  the fit.  The score is minus the sum of their squares.

  Attributes, after `fit`:
    cluster_centers_: Centroids in the data's units, array of shape (K, d).
    inertia_: The sum of the squared distances of all points to the nearest of these
      centroids; of standardised columns with `standardize`, None with `privacy`.
    silhouette_: The mean simplified silhouette at these centroids, likewise.
    history_: Tuple of `fitting.RoundRecord`, one for each round of the best restart that had
      centroids.
    n_iter_: Number of all rounds of the best restart; with `sums` also those that find the
      scale before it, and its final means and their inertia after it.
    labels_: The clusters of the points, an int array for every client, in the form of what `fit`
      was given: one array, a list, or a dict by client id.  They are computed from the points
      and are NOT private, so with `privacy` they are kept only if `compute_labels` says so.
    n_features_in_: Number of columns, d.
    feature_names_in_: The columns' names, an array of text, if all clients gave frames with
      names; `predict` then refuses frames with other columns, or in another order.
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
      compute_labels=None,
      random_state=0,
  ):
    """Stores the settings; `fit` checks them.

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
      num_rounds: The most rounds.  With `sums` at least 6; eight more find the scale, the final
        means and their inertia.  With `fkm_lloyd` these are the rounds of Lloyd that follow those of
        FKM.  Default: 30 for `sums`, 100 for `fkm_lloyd` and `lloyd`, 20 for `fkm` and
        `tff_minibatch`.  `kfed` and `child_parent` have one round.  With `privacy` the number
        of rounds follows from `n_clusters`.
      tol: For `fkm_lloyd` and `lloyd`: a restart ends when a round lowers its inertia by no
        more than this share.  Default: 1e-5.
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
      compute_labels: Whether `labels_` keeps the clusters of the points.  Default: True without
        `privacy`, False with it.
      random_state: Integer >= 0 that decides everything random but the noise of `privacy`.
    """
    self.n_clusters = n_clusters
    self.algorithm = algorithm
    self.n_init = n_init
    self.num_rounds = num_rounds
    self.tol = tol
    self.min_count = min_count
    self.fkm_rounds = fkm_rounds
    self.server_init = server_init
    self.local_iterations = local_iterations
    self.local_clusters = local_clusters
    self.lloyd_rounds = lloyd_rounds
    self.weight_by_counts = weight_by_counts
    self.shuffle = shuffle
    self.privacy = privacy
    self.standardize = standardize
    self.compute_labels = compute_labels
    self.random_state = random_state

  def _config(self):
    return kmeans_config.KMeansConfig(**self._settings())

  def _checked(self, clients):
    if self.privacy is None:
      return clients.replaced(client_points.checked_clients(clients))
    return clients.replaced(client_points.private_clients(clients))

  def _points_to_fit(self, config, clients):
    tables, names = given_clients.aligned(given_clients.clients_of(clients))
    points = self._checked(tables)
    width = next(iter(points.by_id.values())).shape[1]
    data_frames.set_columns(self, width, data_frames.name_array(names))
    return points

  def _fit(self, config, points, folder):
    if config.privacy is None:
      fit = FITS[config.algorithm](config, point_files.write_files(points, folder))
    else:
      files = private_fit.write_files(points, config.privacy, folder)
      fit = private_fit.fit(config, files, noise.SecureNoise())
    self._result = fit
    self.cluster_centers_ = fit.centroids
    self.inertia_ = fit.inertia
    self.silhouette_ = fit.silhouette
    self.history_ = fit.history
    self.n_iter_ = fit.num_rounds
    self.privacy_spent_ = fit.privacy_spent
    self.privacy_ledger_ = fit.ledger

  def _points(self, X):
    validation.check_is_fitted(self)
    clients = given_clients.clients_of(X, "X")
    fitted = getattr(self, "feature_names_in_", None)
    for client_id, table in clients.by_id.items():
      data_frames.check_order(table, fitted, clients.label(client_id))
    points = self._checked(given_clients.as_arrays(clients))
    data_frames.check_width(self, next(iter(points.by_id.values())).shape[1])
    return points

  def _assign(self, points):
    return self._result.assign(points)

  def _distances(self, points):
    return self._result.distances(points)

  def _losses(self, points):
    return self._distances(points) ** 2
