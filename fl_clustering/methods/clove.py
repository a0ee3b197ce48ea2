"""CLoVE: in every round, clients whose losses under all models are alike train one model.

Randeep Bhatia, Nikos Papadis, Murali Kodialam, T. V. Lakshman, Sayak Chakrabarty: "CLoVE:
Personalized Federated Learning through Clustering of Loss Vector Embeddings", ICML 2026, the
algorithm with averaged models, https://arxiv.org/abs/2506.22427.  The server sends all K models
to the clients of a round.  Each answers with the K losses on its training data.  K-means groups
these vectors, and every group trains one model: groups are matched to models so that the sum of
the losses is least.  IFCA, in which each client decides alone, needs a good start.  Here clients of
one kind need only have losses that are alike, and the paper starts from random models.  Where
clients differ in their shares of labels too, these may weigh more in the losses.

Where this differs:

*   Clients are grouped by their losses in the first round too.  In the authors' experiments with
    labels, they have a model at random in that round; their program's default is as here.
*   Clients are grouped in all rounds.  The authors' program stops when nobody has moved in three.
*   The models train by this run's SGD, not by Adam.
*   K-means groups the clients of a round.  Those that don't take part stay where they are.  If
    there are fewer of them than models, each trains one of its own.
*   All clients are grouped before the first round too, which costs one more evaluation.
*   A new client takes the model with the least loss on its training data, as in IFCA.  In the
    authors' program, it joins the group whose mean vector of losses is nearest to its own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from clustering_basics import options
from clustering_basics import single_thread_kmeans
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import grouping
from fl_clustering.methods import method
from fl_clustering.methods import new_clients

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.engine import participation


@dataclasses.dataclass(frozen=True)
class Clove(options.Settings):
  """The settings of CLoVE."""

  num_clusters: int = grouping.num_clusters_option("Number of clusters.")


def models_of(losses: np.ndarray, random_state: int) -> np.ndarray:
  """Returns the index of the model that each client trains, of shape (N,).

  Args:
    losses: The clients' losses under all models, of shape (N, K).
  """
  from scipy import optimize  # pylint: disable=g-import-not-at-top

  num_groups = min(losses.shape)
  # A model that has no finite loss on some data is far from all others, and no error.
  points = np.minimum(losses, np.finfo(np.float32).max).astype(np.float64)
  labels = single_thread_kmeans.fit(
      points, num_groups, n_init=10, random_state=random_state
  ).labels_
  sums = np.stack([points[labels == group].sum(axis=0) for group in range(num_groups)])
  _, model_of_group = optimize.linear_sum_assignment(sums)
  return model_of_group[labels]


def clove(settings: Clove, engine: engine_lib.Engine) -> method.Method:
  """Returns CLoVE, which starts from random models and doesn't use phase 1."""

  def group(
      vectors: np.ndarray, clients: np.ndarray, state: method.ClusterState
  ) -> method.ClusterState:
    """Returns the state in which these clients are grouped anew by their losses."""
    model_of = cluster_assignment.labels_of(state.members)
    losses = engine.losses(vectors, clients).T
    model_of[clients] = models_of(losses, int(state.memory["random_state"]))
    members = cluster_assignment.of_labels(model_of, len(vectors))
    return dataclasses.replace(state, members=members)

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del pretrained  # The paper has no phase before.
    grouping.check_num_clusters(settings.num_clusters, len(engine.clients))
    vectors = engine.initial_vectors(settings.num_clusters, rng)
    memory = {"random_state": np.array(rng.integers(2**32))}
    # All are grouped at once, so it doesn't matter where they are before.
    nobody = (engine.clients[:0],) * (len(vectors) - 1)
    state = method.ClusterState(vectors, (engine.clients, *nobody), memory)
    return group(vectors, engine.clients, state)

  def next_state(state: method.ClusterState, round_: participation.Round) -> method.Trained:
    grouped = group(state.vectors, round_.clients, state)
    # Whoever takes part got all models with the request for its losses.
    vectors, losses = engine.train(
        grouped.vectors, grouped.members, round_, already_sent=True
    )
    return dataclasses.replace(grouped, vectors=vectors), losses

  return method.Method(initialize, next_state, new_clients.by_loss(engine), from_start=True)
