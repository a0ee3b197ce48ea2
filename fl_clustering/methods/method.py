"""What a method is: three functions over the state of its clusters.

Grouping once and then training, training everyone together, training every client alone,
and methods that move clients between clusters in every round are all of this kind.  The
loop around them (`three_phase/rounds.py`) scores, saves and reports them, and knows none by
name.

A method is built by a function of an `engine.Engine`, which does what needs the clients'
data.  The rest is NumPy.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Mapping, NamedTuple, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.engine import cost as cost_lib
from fl_clustering.methods import cluster_assignment

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.engine import participation
  from fl_clustering.methods import client_weights as client_weights_lib


@dataclasses.dataclass(frozen=True, eq=False)
class Pretrained:
  """What phase 1 hands to every method.

  Attributes:
    initial_vector: The model before any training, float32 of shape (P,).
    vector: The global model after the last round, float32 of shape (P,).
    client_weights: Every client's own weights, not private; `None` where no method of the run uses
      them.
    new_client_weights: The same of the clients that did not take part, as if they had
      trained last; `None` without such clients.
    cost: What phase 1 asked of the clients.
    own_weights_cost: The part of it that was for `client_weights` alone, after the rounds.
    chose_num_clusters: Whether the number of clusters was chosen by `client_weights`.
  """

  initial_vector: np.ndarray
  vector: np.ndarray
  client_weights: client_weights_lib.ClientWeights | None
  new_client_weights: client_weights_lib.ClientWeights | None = None
  cost: cost_lib.Cost = cost_lib.Cost()
  own_weights_cost: cost_lib.Cost = cost_lib.Cost()
  chose_num_clusters: bool = False

  @property
  def used_weights(self) -> client_weights_lib.ClientWeights:
    """The `client_weights`, for methods that say that they use them."""
    assert self.client_weights is not None
    return self.client_weights


@dataclasses.dataclass(frozen=True, eq=False)
class ClusterState:
  """A method's clusters between two rounds.

  A cluster keeps its place: later rounds may add clusters at the end and may leave
  clusters empty, but they don't reorder or remove any.

  Attributes:
    vectors: One model per cluster, float32 of shape (K, P).
    members: The clients per cluster, int64 arrays.  Clusters may overlap or be empty, but every
      client that trains is in at least one.
    memory: Whatever else the method must remember.  Checkpoints hold it as it is.
    warning: What a reader of the clusters should know about them, or `None`.
  """

  vectors: np.ndarray
  members: tuple[np.ndarray, ...]
  memory: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
  warning: str | None = None

  def __post_init__(self) -> None:
    object.__setattr__(self, "members", cluster_assignment.as_arrays(self.members))
    if self.vectors.ndim != 2 or len(self.vectors) != len(self.members):
      raise validate.error(
          "vectors",
          f"have shape (num_clusters={len(self.members)}, num_parameters)",
          self.vectors.shape,
      )
    if self.vectors.dtype != np.float32:
      raise validate.error("vectors", "be of type float32", self.vectors.dtype.name)

  def reported_clusters(self) -> tuple[list[int], cluster_assignment.ClusterAssignment]:
    """Returns the places of the clusters that are reported, and their assignment.

    Empty clusters are left out, and so are clusters that are part of another one; of
    equal clusters the first is kept.
    """
    places = cluster_assignment.whole_clusters(self.members)
    clusters = tuple(self.members[k] for k in places)
    return places, cluster_assignment.ClusterAssignment(clusters, self.warning)


# Per cluster the training losses of the members that trained its model.  A client that trained
# several clusters' models has a loss in each.
Losses = Sequence["participation.ClientLosses"]
# The state after a round, and the round's losses.
Trained = tuple[ClusterState, Losses]


class Placement(NamedTuple):
  """What a method gives to clients that were not there in training.

  Attributes:
    clusters: Per client the indices of its clusters; empty for a client that belongs to
      none.
    vectors: The model that each of them uses, float32 of shape (num_clients, P).
  """

  clusters: tuple[tuple[int, ...], ...]
  vectors: np.ndarray


Initialize = Callable[[Pretrained, np.random.Generator], ClusterState]
Next = Callable[[ClusterState, "participation.Round"], Trained]
Place = Callable[[Pretrained, ClusterState, np.ndarray], Placement]


class Method(NamedTuple):
  """A method: `initialize` once, `next` in every round, `place` after the last one.

  Attributes:
    initialize: Returns the state before the first round.
    next: Returns the state after a round and the round's losses.  It depends on the state
      before and on the round alone, so a run can go on from any saved state.  It may write
      into the arrays of the state before the round, but not into those that `initialize`
      returned.
    place: Places clients that were not there in training, after the last round.
    from_start: Whether it doesn't build on phase 1 and trains in its place too, from
      `Pretrained.initial_vector`: for as many rounds as both phases have.
    uses_own_weights: Whether it starts from `Pretrained.client_weights`, and so pays for them;
      without effect if it is `from_start`.
  """

  initialize: Initialize
  next: Next
  place: Place
  from_start: bool = False
  uses_own_weights: bool = True

  def place_new(
      self, pretrained: Pretrained, state: ClusterState, clients: np.ndarray
  ) -> Placement | None:
    """Returns what `place` returns, checked; `None` without clients."""
    if not len(clients):
      return None
    placement = self.place(pretrained, state, clients)
    if len(placement.clusters) != len(clients):
      rule = f"have an item for each of {len(clients)} new clients"
      raise validate.error("clusters", rule, placement.clusters)
    for clusters in placement.clusters:
      for k in clusters:
        validate.integer(0, len(state.members) - 1, clusters=k)
    return placement


@dataclasses.dataclass(frozen=True)
class TrainClusters:
  """The `Method.next` that trains the clusters' models and moves no client."""

  engine: engine_lib.Engine

  def __call__(self, state: ClusterState, round_: participation.Round) -> Trained:
    vectors, losses = self.engine.train(state.vectors, state.members, round_)
    return dataclasses.replace(state, vectors=vectors), losses
