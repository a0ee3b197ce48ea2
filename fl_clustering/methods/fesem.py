"""FeSEM: K centers, and in every round each client moves to the center nearest its weights.

Guodong Long, Ming Xie, Tao Shen, Tianyi Zhou, Xianzhi Wang, Jing Jiang, Chengqi Zhang:
"Multi-center Federated Learning: Clients Clustering for Better Personalization", World Wide
Web, 2023, https://arxiv.org/abs/2005.01026.  It is K-means in rounds: the clients train
from their center, every center becomes the mean of what its clients trained, and each of
these clients moves to the center with the least L2 distance from its own weights.  The server
sees the clients' own weights in every round.

Where this differs:

*   The paper moves each client first, to the nearest of the centers from before the round, and
    then takes the means of those that have come together.  Here, the means are taken before the
    clients move.
*   The means are weighted by the number of examples, as in this run's FedAvg.  FlexCFL's authors
    read the paper so that all clients count alike (https://github.com/morningD/FlexCFL).
*   The centers start from K-means on the clients' own weights after phase 1.
*   The paper has no new clients.  Here, one joins the center whose clients it resembles most, by
    its own weights and theirs before the first round, as with `kmeans`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from clustering_basics import options
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import grouping
from fl_clustering.methods import kmeans
from fl_clustering.methods import method
from fl_clustering.methods import new_clients
from fl_clustering.methods import one_shot

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.engine import participation


@dataclasses.dataclass(frozen=True)
class Fesem(options.Settings):
  """The settings of FeSEM; K-means groups the `representation` for the start."""

  num_clusters: int = grouping.num_clusters_option("Number of clusters.")
  representation: str = grouping.representation_option()


def fesem(settings: Fesem, engine: engine_lib.Engine) -> method.Method:
  """Returns FeSEM.

  A client that doesn't take part in a round stays where it is, and a center without clients keeps
  its weights.
  """
  group = kmeans.KMeans(settings.num_clusters, settings.representation)
  grouped = one_shot.one_shot(group, engine)

  def next_state(state: method.ClusterState, round_: participation.Round) -> method.Trained:
    vectors, own, losses = engine.train_members(state.vectors, state.members, round_)
    center_of = cluster_assignment.labels_of(state.members)
    for trained, of_center in zip(own, losses):
      center_of[of_center.clients] = new_clients.nearest(trained, vectors)
    members = cluster_assignment.of_labels(center_of, len(vectors))
    return dataclasses.replace(state, vectors=vectors, members=members), losses

  return grouped._replace(next=next_state)
