"""FlexCFL: groups clients once, by the main directions of their updates.

Moming Duan, Duo Liu, Xinyuan Ji, Renping Liu, Liang Liang, Xianzhang Chen, Yujuan Tan:
"FedGroup: Efficient Federated Learning via Decomposed Similarity-Based Clustering", ISPA 2021,
https://arxiv.org/abs/2010.06870, whose cold start is that of Moming Duan, Duo Liu, Xinyuan Ji,
Yu Wu, Liang Liang, Xianzhang Chen, Yujuan Tan, Ao Ren: "Flexible Clustered Federated Learning
for Client-Level Data Distribution Shift", IEEE TPDS, 2022, https://arxiv.org/abs/2108.09749.  A
truncated singular value decomposition of all clients' updates has the K directions in which
these differ most.  A client is described by the cosines of its update with them, and K-means
groups the clients by Euclidean distances of these (decomposed cosine similarity, EDC).  Every
cluster starts from the mean of its members' own weights.

Where this differs:

*   An update is what the client's last local training in phase 1 added to the global model,
    and all clients have one.  In the papers, some 20 clients per cluster train from the initial
    model for this alone, and the others are placed as new clients are.
*   A new client is compared with the mean update of a cluster's members in phase 1.  In the
    authors' program (https://github.com/morningD/FlexCFL), it is the cluster's newest update.
*   Clients don't move later: FlexCFL's answer to a client's data that change is left out, and so
    is the exchange between clusters, which the papers' main results are without too.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import single_thread_kmeans
from fl_clustering.methods import client_weights as client_weights_lib
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import distances as distances_lib
from fl_clustering.methods import grouping
from fl_clustering.methods import kmeans
from fl_clustering.methods import method
from fl_clustering.methods import new_clients
from fl_clustering.methods import one_shot

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib


def cosines_with_directions(
    cosines: np.ndarray, norms: np.ndarray, num_directions: int
) -> np.ndarray:
  """Returns the cosines of N vectors with the first right singular vectors of their matrix.

  Those follow from the vectors' inner products, of which there are far fewer than of numbers.

  Args:
    cosines: The cosine of every two vectors, of shape (N, N).
    norms: The vectors' L2 norms, of shape (N,).
    num_directions: The number of singular vectors; no more than N.

  Returns:
    float64 of shape (N, num_directions), the largest singular value first.  A vector of zeros
    has cosines of zero.
  """
  squares, left = np.linalg.eigh(cosines * np.outer(norms, norms))
  products = left * np.sqrt(np.maximum(squares, 0))
  return products[:, ::-1][:, :num_directions] / np.where(norms, norms, 1)[:, None]


@dataclasses.dataclass(frozen=True)
class FlexCfl(options.Settings):
  """The grouping of FlexCFL.

  As with K-means, clients with identical updates are never separated.
  """

  num_clusters: int = grouping.num_clusters_option("Number of clusters.")

  @property
  def representation(self) -> str:
    return "update"

  def __call__(
      self, client_weights: client_weights_lib.ClientWeights, rng: np.random.Generator
  ) -> cluster_assignment.ClusterAssignment:
    """Groups the clients."""
    grouping.check_num_clusters(self.num_clusters, len(client_weights.clients))
    clients, condensed = distances_lib.client_distances(
        client_weights, self.representation, "cosine"
    )
    distances = distances_lib.square(condensed)
    norms = client_weights_lib.norms_of(
        client_weights.represented(self.representation, clients)
    )
    points = cosines_with_directions(1 - distances, norms, self.num_clusters)
    labels = single_thread_kmeans.fit(
        # Rounding must not tell equal clients apart.
        points[np.argmax(distances == 0, axis=1)],
        self.num_clusters, n_init=10, random_state=int(rng.integers(2**32)),
    ).labels_
    return kmeans.assignment(clients, labels, self.num_clusters, "update")


def flexcfl(settings: FlexCfl, engine: engine_lib.Engine) -> method.Method:
  """Returns FlexCFL.

  A new client joins the cluster whose mean update has the largest cosine with its own.
  """
  place = new_clients.by_weights(settings.representation, "cosine")
  return one_shot.one_shot(settings, engine)._replace(place=place)
