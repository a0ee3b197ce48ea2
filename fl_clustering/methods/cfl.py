"""CFL: splits a cluster in two where its clients pull its model in different directions.

Felix Sattler, Klaus-Robert Mueller, Wojciech Samek: "Clustered Federated Learning:
Model-Agnostic Distributed Multitask Optimization Under Privacy Constraints", IEEE
Transactions on Neural Networks and Learning Systems, 2020,
https://arxiv.org/abs/1910.01991.  All clients begin in one cluster, which is FedAvg.  After
a round, a cluster is split where its model has come to a stop, though its clients have not:
where the mean of their updates is small and their updates are not.  The two halves follow
from the cosine similarity of the updates.  They train on their own and may be split
again.  The server sees every client's update in every round.

Where this differs from the paper, or the paper leaves a choice:

*   By default, the *median* update must be large (`cfl_norm`).  The paper asks it of the
    largest.  But a local training that goes astray for a round gives a large update too, and
    clusters of clients that belong together were split for it, a few clients at a time.
*   Both norms are in units of the norm of the cluster's model, so that they mean the same for
    models of different sizes.  The defaults fit updates of about 40 steps with a learning rate
    of .05; they have to grow and fall with both.
*   The halves are those of complete linkage, as in the authors' program
    (https://github.com/felisat/clustered-federated-learning).  The paper describes the cut
    with the least similarity between the halves, which is single linkage: it likes to cut
    off single clients.  The paper's further condition on that similarity (gamma) is left
    out, as in the program.
*   Where only some clients take part in the round, all members of a cluster that is to be
    split are asked for an update.  It is split only if that holds with all updates, too.

`cfl_as_copied` has the mistake of the authors' program, which others took over with it
(issue 2 there): from the second split on, it takes a client's position *within the cluster*
for its position among all clients.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering import options
from fl_clustering.engine import participation
from fl_clustering.methods import distances as distances_lib
from fl_clustering.methods import hierarchical
from fl_clustering.methods import method
from fl_clustering.methods import new_clients

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib

# From its name to a function of the norms of a cluster's updates.
NORMS: dict[str, Callable[[Any], float]] = {"largest": np.max, "median": np.median}


@dataclasses.dataclass(frozen=True)
class Cfl:
  """The settings of CFL; `cfl_eps1` and `cfl_eps2` are the paper's epsilon 1 and 2."""

  cfl_eps1: float = options.option(
      float,
      "A cluster is split only if the norm of its clients' mean update is below this share "
      "of the norm of its model.",
      default=0.03,
      rule=validate.positive,
  )
  cfl_eps2: float = options.option(
      float,
      "A cluster is split only if the norm of its clients' updates exceeds this share of the "
      "norm of its model.",
      default=0.047,
      rule=validate.not_negative,
  )
  cfl_norm: str = options.option(
      str,
      "Which norm must exceed --cfl_eps2: the `median`, or that of the `largest` update, as in "
      "the paper, for which a single client whose training is unstable splits a cluster.",
      default="median",
      values=tuple(NORMS),
  )
  cfl_min_clients: int = options.option(
      int, "Least number of clients of a cluster that is split.", default=3,
      rule=functools.partial(validate.integer, 2),
  )

  def __post_init__(self) -> None:
    options.check(self)

  def asks_for_split(
      self, vector: np.ndarray, updates: Sequence[np.ndarray], num_examples: Sequence[float]
  ) -> bool:
    """Returns whether a cluster's model has come to a stop and its clients have not.

    Args:
      vector: The cluster's model before the round, float32 of shape (P,).
      updates: The updates of some or all of its clients, n vectors of shape (P,).
      num_examples: The clients' weights in the mean, > 0.
    """
    if len(updates) < 2:
      return False
    unit = np.linalg.norm(vector.astype(np.float64))
    total, norms = np.zeros_like(vector, np.float64), []
    # One at a time: all of them in float64 are gigabytes for large models.
    for update, weight in zip(updates, num_examples):
      update = update.astype(np.float64)
      total += weight * update
      norms.append(np.linalg.norm(update))
    has_stopped = np.linalg.norm(total / sum(num_examples)) < self.cfl_eps1 * unit
    return bool(has_stopped and NORMS[self.cfl_norm](norms) > self.cfl_eps2 * unit)


def bipartition(updates: Sequence[np.ndarray]) -> tuple[list[int], list[int]]:
  """Returns the two halves of a cluster by the cosine similarity of its clients' updates.

  These are two or more float32 vectors of shape (P,).  The halves are increasing positions of
  them; the first begins with 0.
  """
  distances = distances_lib.square(distances_lib.METRICS["cosine"](distances_lib.Rows(updates)))
  labels = hierarchical.agglomerate(distances, "complete", 2)
  is_first = labels == labels[0]
  return np.flatnonzero(is_first).tolist(), np.flatnonzero(~is_first).tolist()


def _mean_direction(updates: Sequence[np.ndarray]) -> np.ndarray:
  """Returns the mean of the updates' directions, float64 of shape (P,)."""
  total = np.zeros(len(updates[0]))
  for update in updates:
    update = update.astype(np.float64)
    total += update / (np.linalg.norm(update) or 1.0)
  return total / len(updates)


# The memory: one row per split, in the order in which they were made.
_CLUSTER = "split_cluster"  # The cluster that was split, and kept its first half.
_APPENDED = "split_appended"  # The new cluster, with the other half.
_ROUND = "split_round"  # The round's number, and its number of epochs.
_MODEL = "split_model"  # The model from which the clients' updates were.
_DIRECTION = "split_direction"  # From the second half's mean direction to the first one's.
# And one entry per cluster: whether it is of clients that are in no cluster.
_LEFT_OUT = "is_left_out"


def _first_memory(num_parameters: int) -> dict[str, np.ndarray]:
  return {
      _CLUSTER: np.zeros(0, np.int64),
      _APPENDED: np.zeros(0, np.int64),
      _ROUND: np.zeros((0, 2), np.int64),
      _MODEL: np.zeros((0, num_parameters), np.float32),
      _DIRECTION: np.zeros((0, num_parameters), np.float32),
      _LEFT_OUT: np.zeros(1, bool),
  }


def _remember_split(
    memory: Mapping[str, np.ndarray], cluster: int, appended: int, round_: participation.Round,
    vector: np.ndarray, updates: Sequence[np.ndarray], positions: Sequence[Sequence[int]],
) -> dict[str, np.ndarray]:
  """Returns the memory with one more split."""
  first, second = (_mean_direction([updates[i] for i in part]) for part in positions)
  row = {
      _CLUSTER: cluster,
      _APPENDED: appended,
      _ROUND: (round_.number, round_.num_epochs),
      _MODEL: vector,
      _DIRECTION: (first - second).astype(np.float32),
      _LEFT_OUT: False,
  }
  return {
      name: np.concatenate([array, np.asarray([row[name]], array.dtype)])
      for name, array in memory.items()
  }


def _split(
    state: method.ClusterState, cluster: int, halves: Sequence[Sequence[str]]
) -> method.ClusterState:
  """Returns the state with the first half in place of a cluster and the second appended."""
  members = [*state.members, tuple(halves[1])]
  members[cluster] = tuple(halves[0])
  vectors = np.concatenate([state.vectors, state.vectors[[cluster]]])
  return dataclasses.replace(state, vectors=vectors, members=tuple(members))


def _with_left_out(
    state: method.ClusterState, cluster: int, client_ids: Sequence[str]
) -> method.ClusterState:
  """Moves clients that a split left without a cluster to one that no one trains.

  Args:
    state: The state, of which one cluster was just split.
    cluster: That cluster; its model is the one that these clients had.
  """
  is_left_out = state.memory[_LEFT_OUT]
  trained = {c for k in np.flatnonzero(~is_left_out) for c in state.members[k]}
  # Who was left out before may be in a cluster again.
  members = [
      tuple(c for c in one if c not in trained) if left_out else one
      for one, left_out in zip(state.members, is_left_out)
  ]
  covered = {c for one in members for c in one}
  left_out = tuple(c for c in client_ids if c not in covered)
  vectors, memory = state.vectors, state.memory
  if left_out:
    members.append(left_out)
    vectors = np.concatenate([vectors, vectors[[cluster]]])
    memory = {**memory, _LEFT_OUT: np.append(is_left_out, True)}
  return dataclasses.replace(state, vectors=vectors, members=tuple(members), memory=memory)


def cfl(settings: Cfl, engine: engine_lib.Engine, as_copied: bool = False) -> method.Method:
  """Returns CFL.

  A cluster that is split keeps its place with the half of its first client.  Both halves go
  on from the cluster's new model.

  A new client follows the splits, as in the paper's section on clients that join late: at
  each it trains once from the model that was split, and goes to the half whose updates are
  more similar to its own.  The paper compares it with the most similar client of either
  half, for which the server would have to keep all updates.  Here it is the mean cosine
  over a half, for which the mean direction of its updates is enough.

  Args:
    as_copied: Whether it takes a client's position in a cluster for that among all clients.
  """

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del rng  # Nothing here is random.
    weights = pretrained.client_weights
    start = weights.mean_of(weights.client_ids)
    return method.ClusterState(
        start[None], (weights.client_ids,), _first_memory(len(start))
    )

  def asks_for_split(vector: np.ndarray, updates: Mapping[str, np.ndarray]) -> bool:
    weights = [engine.num_examples[c] for c in updates]
    return settings.asks_for_split(vector, list(updates.values()), weights)

  def updates_of_all(
      vector: np.ndarray, updates: Mapping[str, np.ndarray], members: Sequence[str],
      round_: participation.Round,
  ) -> dict[str, np.ndarray]:
    missing = tuple(c for c in members if c not in updates)
    found = dict(updates)
    if missing:
      starts = np.broadcast_to(vector, (len(missing), len(vector)))
      own, _ = engine.train_each(starts, missing, round_)
      own -= vector
      found.update(zip(missing, own))
    return {c: found[c] for c in members}

  def split_if_asked(
      state: method.ClusterState, before: method.ClusterState, cluster: int,
      updates: Mapping[str, np.ndarray], round_: participation.Round,
  ) -> method.ClusterState:
    members, vector = before.members[cluster], before.vectors[cluster]
    if len(members) < settings.cfl_min_clients or not asks_for_split(vector, updates):
      return state
    of_all = updates_of_all(vector, updates, members, round_)
    if not asks_for_split(vector, of_all):
      return state
    of_members = list(of_all.values())
    positions = bipartition(of_members)
    client_of_position = engine.client_ids if as_copied else members
    halves = [[client_of_position[i] for i in part] for part in positions]
    memory = _remember_split(
        state.memory, cluster, len(state.members), round_, vector, of_members, positions
    )
    split = _split(state, cluster, halves)
    return _with_left_out(
        dataclasses.replace(split, memory=memory), cluster, engine.client_ids
    )

  def next_state(
      state: method.ClusterState, round_: participation.Round
  ) -> tuple[method.ClusterState, method.Losses]:
    trained_by = [
        () if left_out else members
        for members, left_out in zip(state.members, state.memory[_LEFT_OUT])
    ]
    vectors, own, losses = engine.train_members(state.vectors, trained_by, round_)
    after = dataclasses.replace(state, vectors=vectors)
    for cluster, trained in enumerate(own):
      # One at a time, in place of the clients' weights: both of all are gigabytes.
      for client_id in trained:
        trained[client_id] = trained[client_id] - state.vectors[cluster]
      after = split_if_asked(after, state, cluster, trained, round_)
    return after, losses

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, new_client_ids: Sequence[str]
  ) -> method.Placement:
    del pretrained  # The splits decide.
    found = np.zeros(len(new_client_ids), np.int64)
    memory = state.memory
    for split, cluster in enumerate(memory[_CLUSTER]):
      here = np.flatnonzero(found == cluster)
      if not len(here):
        continue
      number, num_epochs = map(int, memory[_ROUND][split])
      ids = tuple(new_client_ids[i] for i in here)
      model = memory[_MODEL][split]
      starts = np.broadcast_to(model, (len(ids), len(model)))
      own, _ = engine.train_each(starts, ids, participation.Round(number, ids, num_epochs))
      is_second = (own - model) @ memory[_DIRECTION][split] < 0
      found[here[is_second]] = memory[_APPENDED][split]
    return new_clients.in_cluster(state.vectors, found)

  return method.Method(initialize, next_state, place)


def cfl_as_copied(settings: Cfl, engine: engine_lib.Engine) -> method.Method:
  """Returns CFL with the mistake of the copied program.

  This is reproduced: when a cluster of n clients is split, its halves are positions 0 to
  n - 1, and the *first n of all clients* are put into the halves.  So from the second split
  on, clients are in two clusters, and others are in none.

  Not reproduced is that every client of the program has weights of its own, to which the
  mean updates of all its clusters are added.  Here a cluster has one model; a client in
  several clusters trains, and is scored with, each of theirs.  A client in none keeps the
  model that it had last: such clients are in a cluster that no one trains.
  """
  return cfl(settings, engine, as_copied=True)
