"""Groups the clients once, by their own weights, and then trains every cluster.

Every cluster starts from the mean of its members' own weights and is a FedAvg of its own
from then on.  Clusters that overlap can train in two ways:

*   `shared`: a client trains once in a round, from the mean of its clusters' models, and
    what it sends counts in each of its clusters.  This is the reading of Helmy, Katerji,
    Muthukrishnan, "Federated Learning through Distance-Based Clustering" (Towards Data
    Science, 2021), where a client's weights become the mean of its clusters' means.
*   `separate`: a client trains a copy of every model of its clusters, as if it were in
    each of them alone.

Without overlap, the two are the same.

Where sketches of the clients' data are grouped, no client's weights are known, and every cluster
starts from the last global model.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from fl_clustering.engine import participation
from fl_clustering.engine import sketch
from fl_clustering.methods import client_weights
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import grouping as grouping_lib
from fl_clustering.methods import method
from fl_clustering.methods import new_clients

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.methods import dynamic_distance
  from fl_clustering.methods import hierarchical


def one_shot(grouping: grouping_lib.Grouping, engine: engine_lib.Engine) -> method.Method:
  """Returns the method that groups once with a grouping."""
  is_of_sketches = grouping.representation == grouping_lib.SKETCH

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    grouped = sketches(engine, engine.clients) if is_of_sketches else pretrained.used_weights
    assignment = grouping(grouped, rng)
    means = np.stack([grouped.mean_of(members) for members in assignment.clusters])
    vectors = np.tile(pretrained.vector, (len(means), 1)) if is_of_sketches else means
    return method.ClusterState(vectors, assignment.clusters, warning=assignment.warning)

  place = (
      _nearest_sketch(engine) if is_of_sketches
      else new_clients.by_weights(grouping.representation)
  )
  return method.Method(
      initialize, method.TrainClusters(engine), place, uses_own_weights=not is_of_sketches
  )


def sketches(engine: engine_lib.Engine, clients: np.ndarray) -> client_weights.ClientWeights:
  """Returns the clients' sketches in place of their weights; not private."""
  found = engine.sketches(clients, sketch.SIZE)
  return client_weights.ClientWeights(clients, found, np.zeros(found.shape[1], np.float32))


def _nearest_sketch(engine: engine_lib.Engine) -> method.Place:
  """Returns the `Method.place` that takes the cluster whose members' mean sketch is nearest."""

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, clients: np.ndarray
  ) -> method.Placement:
    del pretrained
    known = sketches(engine, engine.clients)
    used = np.flatnonzero(list(map(len, state.members)))
    means = [known.mean_of(state.members[k]) for k in used]
    nearest = new_clients.nearest(sketches(engine, clients).vectors, means)
    return new_clients.in_cluster(state.vectors, used[nearest])

  return place


def by_metric(grouping: hierarchical.Hierarchical, engine: engine_lib.Engine) -> method.Method:
  """Returns the method that groups once, and places new clients, by a grouping's `metric`."""
  place = new_clients.by_weights(grouping.representation, grouping.metric)
  return one_shot(grouping, engine)._replace(place=place)


def overlapping(
    grouping: dynamic_distance.DynamicDistance, engine: engine_lib.Engine
) -> method.Method:
  """Returns the method that groups once, into clusters that may overlap."""
  if grouping.overlap_training == "separate":
    return one_shot(grouping, engine)
  return one_shot(grouping, engine)._replace(next=_train_shared(engine))


def _train_shared(engine: engine_lib.Engine) -> method.Next:
  """Returns the `Method.next` in which every client trains once, whatever its clusters."""

  def next_state(state: method.ClusterState, round_: participation.Round) -> method.Trained:
    sums = np.zeros(state.vectors.shape, np.float64)
    totals = np.zeros(len(state.vectors))
    losses_of: list[list[participation.ClientLosses]] = [[] for _ in state.members]
    # Clients of the same clusters start from the same model.
    for alike, starts in cluster_assignment.clients_alike(
        state.vectors, state.members, engine.clients
    ):
      trained, losses = engine.train(starts, list(alike.values()), round_)
      for clusters, vector, of_clients in zip(alike, trained, losses):
        num_examples = engine.num_examples[of_clients.clients].sum()
        for k in clusters:
          sums[k] += np.multiply(num_examples, vector, dtype=np.float64)
          totals[k] += num_examples
          losses_of[k].append(of_clients)
    vectors = state.vectors.copy()
    for k in np.flatnonzero(totals):
      vectors[k] = sums[k] / totals[k]
    return dataclasses.replace(state, vectors=vectors), list(map(participation.joined, losses_of))

  return next_state
