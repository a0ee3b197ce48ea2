"""Groups clients by agglomerative clustering of their weights (FL+HC).

Briggs, Fan, Andras: "Federated learning with hierarchical clustering of local
updates to improve training on non-IID data", IJCNN 2020,
https://arxiv.org/abs/2004.11791. Its setting with L2 distances and single linkage is
what the three-phase article compares itself with.
"""

import numpy as np
from scipy.spatial import distance
from sklearn import cluster

from clustering_basics import validate
from fl_clustering import client_weights as client_weights_lib
from fl_clustering.grouping import distances as distances_lib
from fl_clustering.grouping import dynamic_distance
from fl_clustering.grouping import grouping

METRICS = tuple(distances_lib.METRICS)
LINKAGES = ("single", "complete", "average", "ward")


def _labels(distances, linkage, cut):
  """Returns labels, an int array of shape (N,), for condensed distances."""
  if linkage == "ward":
    # Ward's criterion is a variance, so scikit-learn asks for points.
    clustering = cluster.AgglomerativeClustering(linkage=linkage, **cut)
    return clustering.fit_predict(distances_lib.euclidean_embedding(distances))
  clustering = cluster.AgglomerativeClustering(
      linkage=linkage, metric="precomputed", **cut
  )
  return clustering.fit_predict(distance.squareform(distances))


def build_hierarchical(
    num_clusters=None,
    distance_threshold=None,
    linkage="average",
    metric="cosine",
    representation="weights",
) -> grouping.GroupingStrategy:
  """Returns the hierarchical grouping, cut at a number or at a distance.

  Exactly one of `num_clusters` and `distance_threshold` is given.

  Args:
    num_clusters: Number of clusters, at most the number of clients.
    distance_threshold: The largest distance, in the sense of `linkage`, of two
      clusters that are merged: `mean` (of the distances of all pairs of clients), a
      number, or a quantile of those distances such as `q0.3`.
    linkage: `single`, `complete`, `average` or, with the metric `l2`, `ward`.
    metric: `l1`, `l2` or `cosine`, see `distances.client_distances`.
    representation: What of the weights is grouped, a key of
      `client_weights.REPRESENTATIONS`.
  """
  if (num_clusters is None) == (distance_threshold is None):
    raise ValueError(
        "`distance_threshold` must be given if `num_clusters` is not, and only then, "
        f"got {distance_threshold!r} with num_clusters={num_clusters!r}."
    )
  if num_clusters is None:
    dynamic_distance.parse_threshold(distance_threshold)
  else:
    validate.integer(1, num_clusters=num_clusters)
  validate.one_of(LINKAGES, linkage=linkage)
  validate.one_of(METRICS, metric=metric)
  if linkage == "ward" and metric != "l2":
    raise validate.error("metric", "be l2 with linkage=ward", metric)
  validate.one_of(client_weights_lib.REPRESENTATIONS, representation=representation)

  def cut_for(distances):
    if num_clusters is not None:
      return {"n_clusters": num_clusters}
    within = dynamic_distance.largest_distance_within(distance_threshold, distances)
    # scikit-learn does not merge at the threshold itself.
    return {"n_clusters": None, "distance_threshold": np.nextafter(within, np.inf)}

  def group(client_weights, rng):
    del rng  # Nothing here is random.
    client_ids = client_weights.client_ids
    if num_clusters is not None:
      grouping.check_num_clusters(num_clusters, client_ids)
    if len(client_ids) == 1:
      # scikit-learn asks for two.
      return grouping.ClusterAssignment((client_ids,))
    ids, distances = distances_lib.client_distances(client_weights, representation, metric)
    labels = _labels(distances, linkage, cut_for(distances))
    return grouping.ClusterAssignment.from_labels(client_ids, dict(zip(ids, labels)))

  return group
