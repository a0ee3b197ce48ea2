"""Phase 2: the rounds of one method, whichever it is.

Every round is scored on the clients' test data and saved.
"""

import dataclasses
import json

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.engine import participation
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import method as method_lib
from fl_clustering.three_phase import stages

_PHASE = "cluster"
_MEMORY = "memory_"


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
  """What a method's rounds come to.

  Attributes:
    state: The `ClusterState` after the last round, of K clusters.
    best_accuracy: The highest accuracy that every cluster reached in any round on its
      members' test data, float64 of shape (K,); 0 for a cluster that never had any.
    cost: The `Cost` of the method so far.
  """

  state: method_lib.ClusterState
  best_accuracy: np.ndarray
  cost: cost_lib.Cost


@dataclasses.dataclass(frozen=True, eq=False)
class Start:
  """What a method's rounds start from.

  Attributes:
    state: The `ClusterState` that its `initialize` returned.
    cost: The `Cost` of everything before the first round.
    initialize_cost: The part of it that is the method's own.
    digest: The `stages.digest` of everything that it follows from.
  """

  state: method_lib.ClusterState
  cost: cost_lib.Cost
  initialize_cost: cost_lib.Cost
  digest: str


def start(name, method, pretrained, config, engine, settings):
  """Returns the `Start` of a method.

  Args:
    name: The method's name.
    method: A `methods.method.Method`.
    pretrained: The run's `methods.method.Pretrained`.
    config: The run's `ThreePhaseConfig`.
    engine: The run's `engine.Engine`.
    settings: The `stages.digest` of the data and of the settings that all methods share.
  """
  cost_before = engine.cost
  state = method.initialize(pretrained, randomness.generator(config.seed, "grouping"))
  own_cost = engine.cost - cost_before
  parts = [settings, name, config.options_of(name)]
  if method.from_start:
    return Start(state, own_cost, own_cost, stages.digest(*parts))
  parts += [pretrained.vector, pretrained.client_weights.global_vector]
  return Start(state, pretrained.cost + own_cost, own_cost, stages.digest(*parts))


def go_on(outcome, start_of):
  """Returns the `Start` of more rounds after an `Outcome`.

  Args:
    outcome: The `Outcome`.
    start_of: Its `Start`.
  """
  digest = stages.digest(start_of.digest, outcome.state.vectors)
  return Start(outcome.state, outcome.cost, cost_lib.Cost(), digest)


def run(name, method, start_from, numbers, config, engine, scorer, stage_runner):
  """Runs a method's rounds, from its checkpoint if there is one.

  Args:
    name: The method's name.
    method: A `methods.method.Method`.
    start_from: Its `Start`.
    numbers: The numbers of its rounds, as of `participation.round_of`.
    config: The run's `ThreePhaseConfig`.
    engine: The run's `engine.Engine`.
    scorer: The run's `scoring.Scoring`.
    stage_runner: The run's `stages.StageRunner`.

  Returns:
    The `Outcome`.

  Raises:
    ValueError: If the method leaves a client without a cluster, or drops a cluster.
  """

  def score(state, before, round_num, losses, cost):
    clients, of_clusters = scorer.on_clients_and_clusters(state.vectors, state.members)
    accuracy = metrics_lib.accuracy(of_clusters)
    of_all = {**metrics_lib.client_metrics(clients), **cost.by_name()}
    rows = stages.metric_rows(_PHASE, name, "", round_num, of_all)
    for k, members in enumerate(state.members):
      # What an empty or untrained cluster doesn't have is left out.
      metrics = {"accuracy": accuracy[k]} if members else {}
      if k < len(losses) and losses[k]:
        metrics["train_loss"] = np.mean(list(losses[k].values()))
      rows += stages.metric_rows(_PHASE, name, k, round_num, metrics)
    best = np.zeros(len(accuracy))
    best[: len(before.best_accuracy)] = before.best_accuracy
    return Outcome(state, np.fmax(best, accuracy), before.cost + cost), rows

  def begin():
    before = Outcome(start_from.state, np.zeros(0), start_from.cost - start_from.initialize_cost)
    return score(start_from.state, before, 0, (), start_from.initialize_cost)

  def step(before, round_num):
    round_ = participation.round_of(config, engine.client_ids, numbers[round_num - 1])
    cost_before = engine.cost
    state, losses = method.next(before.state, round_)
    num_before = len(before.state.members)
    if len(state.members) < num_before:
      raise validate.error(
          "members", f"have at least {num_before} clusters, as before", len(state.members)
      )
    cost = engine.cost - cost_before
    if method.at_clients:
      cost = dataclasses.replace(cost, bytes_down=0, bytes_up=0)
    return score(state, before, round_num, losses, cost)

  def unpack(arrays):
    outcome = _unpack(arrays)
    shape = (len(outcome.state.members), start_from.state.vectors.shape[1])
    if outcome.state.vectors.shape != shape:
      raise validate.error("vectors", f"have shape {shape}", outcome.state.vectors.shape)
    cluster_assignment.check_covers(
        cluster_assignment.clusters_of(outcome.state.members), engine.client_ids
    )
    return outcome

  return stage_runner.run(
      stages.Stage(name, start_from.digest, 0, len(numbers), begin, step, _pack, unpack)
  )


def _pack(outcome):
  """Returns an `Outcome` as arrays by name."""
  state = outcome.state
  clusters = {"members": state.members, "warning": state.warning}
  return {
      "vectors": state.vectors,
      "best_accuracy": outcome.best_accuracy,
      "cost": np.array(outcome.cost.values(), np.int64),
      "clusters": np.array(json.dumps(clusters)),
      **{_MEMORY + name: array for name, array in state.memory.items()},
  }


def _unpack(arrays):
  """Returns the `Outcome` that `_pack` made the arrays from."""
  memory = {
      name[len(_MEMORY) :]: array
      for name, array in arrays.items()
      if name.startswith(_MEMORY)
  }
  clusters = json.loads(arrays["clusters"].item())
  state = method_lib.ClusterState(arrays["vectors"], memory=memory, **clusters)
  return Outcome(state, arrays["best_accuracy"], cost_lib.Cost(*map(int, arrays["cost"])))
