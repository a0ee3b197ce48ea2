"""Phase 2: the rounds of one method, whichever it is.

Every round is scored on the clients' test data and saved.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import divergence
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.engine import participation
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import method as method_lib
from fl_clustering.three_phase import own_code
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import scoring
from fl_clustering.three_phase import stages

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.three_phase import config as config_lib

# More models, such as those of thousands of clients, are not kept in memory.
MOST_MODELS_KEPT = 200
_MEMORY = "memory_"


@dataclasses.dataclass(frozen=True, eq=False)
class Start:
  """A method, and what its rounds start from.

  Attributes:
    state: What its `initialize` returned.
    cost: The cost of everything before the first round.
    initialize_cost: The part of it that is the method's own.
    digest: The `stages.digest` of everything that it follows from.
  """

  name: str
  method: method_lib.Method
  state: method_lib.ClusterState
  cost: cost_lib.Cost
  initialize_cost: cost_lib.Cost
  digest: str


def start(
    name: str, method: method_lib.Method, pretrained: method_lib.Pretrained,
    config: config_lib.ThreePhaseConfig, engine: engine_lib.Engine, settings: str,
    repeat: int = 0,
) -> Start:
  """Lets a method make its first clusters.

  Args:
    settings: The `stages.digest` of the data and of the settings that all methods share.
    repeat: Which repeat of the method it is (see `repeats.py`); 0 is the method itself.
  """
  cost_before = engine.cost
  purpose = ("grouping", repeat) if repeat else ("grouping",)
  state = method.initialize(pretrained, randomness.generator(config.seed, *purpose))
  own_cost = engine.cost - cost_before
  parts: list[Any] = [settings, name, config.options_of(name)]
  parts += own_code.digests([name]).values()
  if repeat:
    parts.append(repeat)
    name = f"{name}_repeat_{repeat}"
  has_chosen_number = pretrained.chose_num_clusters and "num_clusters" in config.options_of(name)
  cost = own_cost
  if has_chosen_number or not method.from_start:
    cost += pretrained.cost
    if not (has_chosen_number or method.uses_own_weights):
      cost -= pretrained.own_weights_cost
  if not method.from_start:
    parts.append(pretrained.vector)
    if method.uses_own_weights and pretrained.client_weights is not None:
      parts.append(pretrained.client_weights.global_vector)
  return Start(name, method, state, cost, own_cost, stages.digest(*parts))


def go_on(before: Start, result: result_lib.MethodResult, name: str) -> Start:
  """Returns the start of more rounds, under another name, of a method that moves no client."""
  return Start(
      name, before.method, dataclasses.replace(before.state, vectors=result.vectors),
      result.cost, cost_lib.Cost(), stages.digest(before.digest, result.vectors),
  )


def run(
    start_from: Start, numbers: Sequence[int], config: config_lib.ThreePhaseConfig,
    engine: engine_lib.Engine, stage_runner: stages.StageRunner, is_scored: bool = True,
) -> result_lib.Outcome:
  """Runs a method's rounds, from its checkpoint if there is one.

  Args:
    numbers: The numbers of its rounds, as of `participation.round_of`.
    is_scored: Whether every round is scored.  If not, `best_accuracy` is NaN.

  Raises:
    ValueError: If the method leaves a client without a cluster, or drops a cluster.
  """
  name, method = start_from.name, start_from.method
  evaluated = participation.evaluated(config, len(engine.clients))

  def score(
      state: method_lib.ClusterState, before: result_lib.Outcome, round_num: int,
      losses: np.ndarray, cost: cost_lib.Cost,
  ) -> tuple[result_lib.Outcome, list[stages.Row]]:
    if not is_scored:
      return result_lib.Outcome(state, np.full(len(state.members), np.nan), before.cost + cost), []
    # The number by which errors of training tell a round.
    where = f"after round {numbers[round_num - 1]}" if round_num else "before the first round"
    with divergence.told(where):
      clients, of_clusters = scoring.on_clients_and_clusters(
          engine, state.vectors, state.members, evaluated
      )
    accuracy = metrics_lib.accuracy(of_clusters)
    of_all = {**metrics_lib.client_metrics(clients), **cost.by_name()}
    rows = stages.metric_rows(name, "", round_num, of_all)
    for k in range(len(state.members)):
      # What a cluster that is empty, untrained or not evaluated doesn't have is left out.
      metrics = {} if np.isnan(accuracy[k]) else {"accuracy": accuracy[k]}
      if k < len(losses) and not np.isnan(losses[k]):
        metrics["train_loss"] = losses[k]
      rows += stages.metric_rows(name, k, round_num, metrics)
    best = np.full(len(accuracy), np.nan)
    best[: len(before.best_accuracy)] = before.best_accuracy
    return result_lib.Outcome(state, np.fmax(best, accuracy), before.cost + cost), rows

  def begin() -> tuple[result_lib.Outcome, list[stages.Row]]:
    cost = start_from.cost - start_from.initialize_cost
    before = result_lib.Outcome(start_from.state, np.zeros(0), cost)
    return score(start_from.state, before, 0, np.zeros(0), start_from.initialize_cost)

  def step(
      before: result_lib.Outcome, round_num: int
  ) -> tuple[result_lib.Outcome, list[stages.Row]]:
    round_ = participation.round_of(config, len(engine.clients), numbers[round_num - 1])
    cost_before = engine.cost
    state, losses = method.next(before.state, round_)
    num_before = len(before.state.members)
    if len(state.members) < num_before:
      raise validate.error(
          "members", f"have at least {num_before} clusters, as before", len(state.members)
      )
    means = [one.values.mean() if len(one.values) else np.nan for one in losses]
    return score(state, before, round_num, np.array(means), engine.cost - cost_before)

  def unpack(arrays: Mapping[str, np.ndarray]) -> result_lib.Outcome:
    outcome = _unpack(arrays)
    shape = (len(outcome.state.members), start_from.state.vectors.shape[1])
    if outcome.state.vectors.shape != shape:
      raise validate.error("vectors", f"have shape {shape}", outcome.state.vectors.shape)
    cluster_assignment.check_covers(outcome.state.members, engine.clients)
    return outcome

  def to_alike(last: result_lib.Outcome) -> result_lib.Outcome:
    return dataclasses.replace(last, cost=last.cost - start_from.cost)

  def of_alike(of_rounds: result_lib.Outcome) -> result_lib.Outcome:
    state = dataclasses.replace(start_from.state, vectors=of_rounds.state.vectors)
    return dataclasses.replace(of_rounds, state=state, cost=start_from.cost + of_rounds.cost)

  return stage_runner.run(stages.Stage(
      name, start_from.digest, 0, len(numbers), begin, step, _pack, unpack,
      alike=_alike(start_from, numbers, is_scored), to_alike=to_alike, of_alike=of_alike,
  ))


def _alike(start_from: Start, numbers: Sequence[int], is_scored: bool) -> str | None:
  """Returns the `stages.digest` of what the rounds follow from.

  Clusters whose clients stay train in the same way, whichever method made them.  A method's own
  rounds, and those of many models, have none.
  """
  method, state = start_from.method, start_from.state
  keeps_clients = isinstance(method.next, method_lib.TrainClusters)
  if not keeps_clients or len(state.vectors) > MOST_MODELS_KEPT:
    return None
  return stages.digest(
      state.vectors, np.concatenate(state.members), list(map(len, state.members)), list(numbers),
      is_scored,
  )


def _pack(outcome: result_lib.Outcome) -> dict[str, np.ndarray]:
  state = outcome.state
  return {
      "vectors": state.vectors,
      "best_accuracy": outcome.best_accuracy,
      "cost": np.array(outcome.cost.values(), np.int64),
      "members": np.concatenate(state.members),
      "sizes": np.array(list(map(len, state.members))),
      "warning": np.array(state.warning or ""),
      **{_MEMORY + name: array for name, array in state.memory.items()},
  }


def _unpack(arrays: Mapping[str, np.ndarray]) -> result_lib.Outcome:
  """Returns what `_pack` made the arrays from."""
  memory = {
      name[len(_MEMORY) :]: array
      for name, array in arrays.items()
      if name.startswith(_MEMORY)
  }
  members = np.split(arrays["members"], np.cumsum(arrays["sizes"])[:-1])
  state = method_lib.ClusterState(
      arrays["vectors"], tuple(members), memory, arrays["warning"].item() or None
  )
  cost = cost_lib.Cost(*map(int, arrays["cost"]))
  return result_lib.Outcome(state, arrays["best_accuracy"], cost)
