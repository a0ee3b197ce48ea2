"""Federated k-means in scikit-learn's manner."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

import numpy as np

from clustering_basics import validate
from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import sums_fit
from fl_clustering.points import federated_clusterer
from fl_clustering.points import fitted
from fl_clustering.points import privacy as privacy_lib


class FederatedKMeans(federated_clusterer.FederatedClusterer):
  """Clusters the points of many clients from sums over them.

  With the default algorithm, `sums`, the server receives secure sums over the clients, and
  nothing else; on one machine they are simulated, see `fit`.  They are exact: many rows follow from
  them, though not whose they are, and a center of one point is that point.  With `privacy` the sums
  are differentially private.  With the algorithms that gather (`fkm_lloyd`, `fkm`, `kfed`,
  `child_parent`) it receives every client's own means of at least `min_count` points, with their
  counts.  That is weak protection: rows can be found from the differences between rounds.  They are
  here to compare with.

  One client is a table: an array of shape (n, d), a data frame, or a list of rows.  Frames'
  columns go by name: if they come in another order at another client, they are put right.  With
  `privacy`, a client may have no rows, and rows may hold anything that is a number or stands for a
  missing one; see `dp_clustering.clustering_params.map_to_ball`.

  `transform` gives distances in the data's units, with `standardize` in standard deviations of
  the fit's fields.  The score is minus the sum of their squares, also of points beyond a radius.

  Attributes, after `fit`:
    cluster_centers_: Centroids in the data's units, array of shape (K, d).  Of `sums`, there are
      fewer, and a warning, where there are fewer different points.
    inertia_: The sum of the squared distances of all points to the nearest of these
      centroids; of standardised columns with `standardize`, None with `privacy`.
    simplified_silhouette_: The mean simplified silhouette at these centroids, likewise; None of a
      single cluster.
    noise_sd_: With `privacy`, the standard deviation of the noise on each coordinate of the
      centroids, of shape (K, d), in the data's units; infinite where nothing is known
      (`dp_clustering.private_centers`).  None without.
    noisy_counts_: With `privacy`, the noisy numbers of their points, of shape (K,); NaN where no
      release is about one, and with `ClientPrivacy` of several points, as clients whose sums are
      large count less.  None without.
    count_sd_: The standard deviation of the noise on these, likewise.
    clipped_share_: With `privacy` and `labels_`, the share of points beyond the radius; NOT
      private.  A warning says if it exceeds 1%.
    history_: Tuple of `model.RoundRecord`, one for each round of the best restart that had
      centroids, with these centroids only if `keep_history` says so.
    num_centers_on_few_points_: With `sums`, how many of the centroids are means of fewer than five
      points; None with the other algorithms and with `privacy`.
    n_iter_: Number of all rounds of the best restart; with `sums` also those that find the
      scale before it, and its final means and their inertia after it.
    labels_: The clusters of the points, an int array for every client, in the form of what `fit`
      was given: one array, a list, or a dict by client id.  They are computed from the points
      and are NOT private, so with `privacy` they are kept only if `compute_labels` says so.
    n_features_in_: Number of columns, d.
    feature_names_in_: The columns' names, an array of objects, if all clients gave frames with
      names; `predict` then refuses frames with other columns, or in another order.
    privacy_spent_: With `privacy`, a dict with the guarantee; else None.
    privacy_ledger_: With `privacy`, the `dp_clustering.ledger.Ledger` of all releases; else
      None.
  """

  def __init__(
      self,
      n_clusters: int,
      algorithm: str | kmeans_config.Algorithm = "sums",
      privacy: privacy_lib.Privacy | None = None,
      standardize: bool = False,
      field_widths: Sequence[int] | None = None,
      compute_labels: bool | None = None,
      keep_history: bool = False,
      random_state: int = 0,
  ) -> None:
    """Stores the settings; `fit` checks them.

    Args:
      n_clusters: Number of clusters, K: at least 1, at most the number of all points.
      algorithm: How the centroids are found: one of these classes of `fl_clustering.kmeans`
        with its options, such as `Lloyd(n_init=3)`, or its name for their defaults.
        "sums", `Sums`: splits, Lloyd's algorithm and swaps, by secure sums alone.
        "fkm_lloyd", `FkmLloyd`: rounds of FKM for good starts, then rounds of Lloyd.
        "lloyd", `Lloyd`: Lloyd's algorithm by sums, from random centroids.
        "fkm", `Fkm`: Garst and Reinders, Federated K-Means Clustering.
        "kfed", `KFed`: Dennis, Li and Smith, one round that gathers.
        "child_parent", `ChildParent`: k-means of the clients' centroids, one round that gathers.
        "tff_minibatch", `TffMinibatch`: TFF's mini-batch k-means, for comparison.
      privacy: For `sums`: a `PointPrivacy` or `ClientPrivacy`.  Sums then get noise, and the
        algorithm is that of `dp_clustering.refine`.  Default: None, exact sums.
      standardize: Whether every column is scaled to variance one over all clients, but for those
        that are constant up to rounding; must be False with `privacy`.
      field_widths: With `standardize`, how many columns, side by side, belong together, such as the
        zeros and ones of a text's levels: their variances then sum to one, so that they count as
        much as one number (`grid_scaling`).  Default: every column is a field.
      compute_labels: Whether `labels_` keeps the clusters of the points.  Default: True without
        `privacy`, False with it.
      keep_history: Whether `history_` keeps the centroids of every round.  Without `privacy` some
        of them are single points.
      random_state: Integer >= 0 that decides everything random but the noise of `privacy`.
    """
    self.n_clusters = n_clusters
    self.algorithm = algorithm
    self.privacy = privacy
    self.standardize = standardize
    self.field_widths = field_widths
    self.compute_labels = compute_labels
    self.keep_history = keep_history
    self.random_state = random_state

  def _config(self) -> kmeans_config.KMeansConfig:
    settings = self._settings()
    validate.boolean(keep_history=settings.pop("keep_history"))
    return kmeans_config.KMeansConfig(**settings)

  def _fit(
      self, config: kmeans_config.KMeansConfig, points: Mapping[Any, np.ndarray],
      widths: tuple[int, ...],
  ) -> fitted.Fit:
    clients = privacy_lib.hold(points, widths, config.privacy)
    if isinstance(config.algorithm, kmeans_config.Sums):
      found = sums_fit.fit(config, clients)
    else:  # They are held in this process.
      found = algorithms.fit(config, clients)  # type: ignore[arg-type]
    if self.keep_history:
      return found
    history = tuple(
        dataclasses.replace(record, centroids=record.centroids[:0].copy())
        for record in found.history
    )
    return dataclasses.replace(found, history=history)

  def _set_centers(self, fit: fitted.Fit) -> None:
    self.cluster_centers_ = fit.centroids
    self.inertia_ = fit.loss
    self.simplified_silhouette_ = fit.simplified_silhouette
