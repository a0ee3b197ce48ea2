"""Groups clients by agglomerative clustering of their weights (FL+HC).

Briggs, Fan, Andras: "Federated learning with hierarchical clustering of local
updates to improve training on non-IID data", IJCNN 2020,
https://arxiv.org/abs/2004.11791. The three-phase article compares itself with its
setting of L2 distances and single linkage.

Where this differs from the paper:

*   In the paper, all clients train once more from the global model, and these updates are
    clustered.  That is `--grouping_epochs`.  Without it, the updates are those of the last round,
    which every client trains from the model that was sent in it.
*   The paper cuts at a distance.  By default, this cuts at a number of clusters, as the other
    groupings do; `--hierarchical_cut=distance` cuts at a distance.
*   Every cluster starts from the mean of its clients' own weights, in which all count alike, as in
    the three-phase article.
*   `--representation=weights` clusters the weights.  By L2 distance that is the same.  By cosine
    distance it is not, and the groups may be missed: what all weights share is most of them.
*   The paper has no new clients.  Here, one joins the cluster whose mean is nearest, by what of the
    clients is grouped and in the distance by which it is.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import distances as distances_lib
from fl_clustering.methods import grouping

if TYPE_CHECKING:
  from fl_clustering.methods import client_weights as client_weights_lib

METRICS = tuple(distances_lib.METRICS)
LINKAGES = ("single", "complete", "average", "ward")


def agglomerate(
    distances: np.ndarray, linkage: str, num_clusters: int | None, largest: float | None = None,
    metric: str = "precomputed",
) -> np.ndarray:
  """Returns labels by agglomerative clustering, ints of shape (N,).

  Args:
    distances: Distances of shape (N, N); with another `metric`, points.
    linkage: How scikit-learn calls the distance of two clusters.
    num_clusters: Where to stop; or
    largest: The largest distance of two clusters that are merged.
    metric: How scikit-learn calls the distance of two points.
  """
  if len(distances) == 1:
    return np.zeros(1, np.int64)  # scikit-learn asks for two.
  # Here, since scikit-learn takes a second to import: the flags read this module and must
  # answer at once.
  from sklearn import cluster  # pylint: disable=g-import-not-at-top

  cut: dict[str, Any] = {"n_clusters": num_clusters}
  if largest is not None:
    # scikit-learn does not merge at the threshold itself, and takes only a finite one.
    cut["distance_threshold"] = min(np.nextafter(largest, np.inf), np.finfo(np.float64).max)
  return cluster.AgglomerativeClustering(linkage=linkage, metric=metric, **cut).fit_predict(
      distances
  )


@dataclasses.dataclass(frozen=True)
class Hierarchical(options.Settings):
  """The hierarchical grouping, cut at a number of clusters or at a distance.

  Exactly one of `num_clusters` and `distance_threshold` is given.  The threshold is the
  largest distance, in the sense of `linkage`, of two clusters that are merged.
  """

  num_clusters: int | None = grouping.num_clusters_option(
      "hierarchical uses it if it is cut at a number of clusters.", default=None
  )
  distance_threshold: str | float | None = grouping.distance_threshold_option(
      "hierarchical takes it in its --metric, where it is cut at a distance.", default=None
  )
  hierarchical_cut: str | None = options.option(
      str,
      "Where hierarchical is cut: at --num_clusters or at --distance_threshold.",
      default=None,
      default_text=(
          "distance if --distance_threshold is given and no other chosen grouping uses it, "
          "else num_clusters"
      ),
      values=("num_clusters", "distance"),
      selects={"num_clusters": ("num_clusters",), "distance": ("distance_threshold",)},
  )
  linkage: str = options.option(
      str, "Linkage of the clusters.", default="average", values=LINKAGES
  )
  metric: str = options.option(
      str, "Distance of the clients.", default="cosine", values=METRICS
  )
  representation: str = grouping.representation_option()

  def __post_init__(self) -> None:
    if (self.num_clusters is None) == (self.distance_threshold is None):
      raise ValueError(
          "`distance_threshold` must be given if `num_clusters` is not, and only then, "
          f"got {self.distance_threshold!r} with num_clusters={self.num_clusters!r}."
      )
    cut = "distance" if self.num_clusters is None else "num_clusters"
    if self.hierarchical_cut not in (None, cut):
      raise validate.error("hierarchical_cut", f"be {cut}, which is given", self.hierarchical_cut)
    super().__post_init__()
    grouping.check_is_of_weights(self.representation)
    if self.linkage == "ward" and self.metric != "l2":
      raise validate.error("metric", "be l2 with linkage=ward", self.metric)

  def __call__(
      self, client_weights: client_weights_lib.ClientWeights, rng: np.random.Generator
  ) -> cluster_assignment.ClusterAssignment:
    """Groups the clients; warns if a distance leaves each alone or puts all into one cluster."""
    del rng  # Nothing here is random.
    if self.num_clusters is not None:
      grouping.check_num_clusters(self.num_clusters, len(client_weights.clients))
    clients, distances = distances_lib.client_distances(
        client_weights, self.representation, self.metric
    )
    largest = None
    if self.distance_threshold is not None:
      largest = grouping.largest_distance_within(self.distance_threshold, distances)
    if self.linkage == "ward":
      # Ward's criterion is a variance, so scikit-learn asks for points.
      points = distances_lib.euclidean_points(distances)
      labels = agglomerate(points, "ward", self.num_clusters, largest, metric="euclidean")
    else:
      square = distances_lib.square(distances)
      labels = agglomerate(square, self.linkage, self.num_clusters, largest)
    assignment = cluster_assignment.ClusterAssignment.from_labels(clients, labels)
    if self.distance_threshold is None:
      return assignment
    return grouping.with_threshold_warning(assignment, self.distance_threshold)
