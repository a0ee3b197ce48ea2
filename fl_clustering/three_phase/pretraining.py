"""Phase 1: FedAvg over all clients, and then the clients' own weights."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence, TYPE_CHECKING

import numpy as np

from clustering_basics import validate
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import divergence
from fl_clustering.engine import fedavg as fedavg_lib
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.engine import participation
from fl_clustering.methods import client_weights as client_weights_lib
from fl_clustering.methods import method as method_lib
from fl_clustering.three_phase import scoring
from fl_clustering.three_phase import stages

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.tasks import federated_task
  from fl_clustering.three_phase import config as config_lib

STAGE = "pretrain"
_LEAF = "aggregator_"


@dataclasses.dataclass(frozen=True)
class _State:
  """What phase 1 goes on from.

  Attributes:
    fedavg: The state after a round.
    broadcast: The model that the clients were sent in that round, of shape (P,).
    cost: The cost of all rounds so far.
  """

  fedavg: fedavg_lib.FedAvgState
  broadcast: np.ndarray
  cost: cost_lib.Cost


def pretrain(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask,
    engine: engine_lib.Engine, stage_runner: stages.StageRunner, started_from: str,
    keeps_weights: bool = True,
) -> method_lib.Pretrained:
  """Runs phase 1, from its checkpoint if there is one.

  Args:
    started_from: The `stages.digest` of what phase 1 starts from.
    keeps_weights: Whether all clients' own weights are wanted.
  """
  aggregator = config.build_aggregator()
  fedavg = _fedavg(config, task, engine)
  initial = fedavg.initialize()

  evaluated = participation.evaluated(config, len(engine.clients))

  def start() -> tuple[_State, list[stages.Row]]:
    return _State(initial, initial.vector, cost_lib.Cost()), []

  def step(state: _State, round_nums: Sequence[int]) -> tuple[_State, list[stages.Row]]:
    (round_num,) = round_nums
    round_ = participation.round_of(config, len(engine.clients), round_num)
    after, losses = fedavg.next(state.fedavg, round_)
    cost = engine.training_cost(round_.clients, round_.num_epochs)
    vectors = after.vector[None]
    with divergence.told(f"after round {round_num}"):
      clients, _ = scoring.on_clients_and_clusters(engine, vectors, (engine.clients,), evaluated)
      (global_test,) = engine.global_confusions(vectors)
    of_model = metrics_lib.model_metrics(global_test)
    rows = stages.metric_rows(STAGE, STAGE, "", round_num, {
        "train_loss": losses.values.mean(),
        **{f"global_{name}": value for name, value in of_model.items()},
        **metrics_lib.client_metrics(clients),
        **cost.by_name(),
    })
    return _State(after, state.fedavg.vector, state.cost + cost), rows

  def unpack(arrays: Mapping[str, np.ndarray]) -> _State:
    return _unpack(arrays, len(initial.vector))

  state = stage_runner.run(stages.Stage(
      STAGE, started_from, 1, config.pretrain_rounds, start, step, _pack, unpack,
      # Save before reporting, or a resumed run would redraw the noise of a reported round.
      save_all=aggregator.is_private,
  ))
  vector = state.fedavg.vector
  if not keeps_weights:
    return method_lib.Pretrained(initial.vector, vector, None, cost=state.cost)
  last_round = participation.round_of(config, len(engine.clients), config.pretrain_rounds)
  if config.grouping_epochs is None:
    # Every client's training of the last round, repeated with the same random numbers.
    sent, num_epochs, number = state.broadcast, last_round.num_epochs, last_round.number
    # Whoever took part in it has sent its weights already.
    others = np.setdiff1d(engine.clients, last_round.clients)
  else:
    sent, num_epochs = vector, config.grouping_epochs
    number = participation.grouping_round(config)
    others = engine.clients
  grouped = own_weights(engine, engine.clients, sent, number, num_epochs)
  of_new_clients = None
  if len(engine.new_clients):
    of_new_clients = own_weights(engine, engine.new_clients, sent, number, num_epochs)
  cost_of_own = engine.training_cost(others, num_epochs)
  return method_lib.Pretrained(
      initial.vector, vector, grouped, of_new_clients, state.cost + cost_of_own, cost_of_own
  )


def _fedavg(
    config: config_lib.ThreePhaseConfig, task: federated_task.FederatedTask,
    engine: engine_lib.Engine,
) -> Any:
  """Returns phase 1's `fedavg.FedAvg`, or that of a TFF aggregator."""
  aggregator = config.build_aggregator()
  factory = aggregator.build(config.clients_per_round or config.num_training_clients)
  if factory is None:
    return fedavg_lib.FedAvg(engine)
  from fl_clustering.engine.tff import client_update  # Not on top: other engines need no TFF.
  from fl_clustering.engine.tff import engine as tff_engine
  from fl_clustering.engine.tff import federated_training

  assert isinstance(engine, tff_engine.Engine)  # Other engines are refused with an aggregator.
  local_training = client_update.LocalTraining(config.batch_size, config.learning_rate)
  return federated_training.FedAvg(
      task, engine.files, local_training, factory, config.seed, aggregator.is_private
  )


def own_weights(
    engine: engine_lib.Engine, clients: np.ndarray, vector: np.ndarray, round_num: int,
    num_epochs: int,
) -> client_weights_lib.ClientWeights:
  """Trains every client alone, from one model; the clients' weights are not private."""
  starts = np.broadcast_to(vector, (len(clients), len(vector)))
  round_ = participation.Round(round_num, clients, num_epochs)
  vectors, _ = engine.train_each(starts, clients, round_)
  return client_weights_lib.ClientWeights(clients, vectors, vector)


def _pack(state: _State) -> dict[str, np.ndarray]:
  leaves = {f"{_LEAF}{i}": leaf for i, leaf in enumerate(state.fedavg.aggregator_state)}
  return {
      "vectors": state.fedavg.vector[None],
      "broadcast": state.broadcast,
      "cost": np.array(state.cost.values(), np.int64),
      **leaves,
  }


def _unpack(arrays: Mapping[str, np.ndarray], num_parameters: int) -> _State:
  """Returns what `_pack` made the arrays from."""
  for name, shape in (("vectors", (1, num_parameters)), ("broadcast", (num_parameters,))):
    if arrays[name].shape != shape:
      raise validate.error(name, f"have shape {shape}", arrays[name].shape)
  num_leaves = sum(name.startswith(_LEAF) for name in arrays)
  leaves = tuple(arrays[f"{_LEAF}{i}"] for i in range(num_leaves))
  return _State(
      fedavg_lib.FedAvgState(arrays["vectors"][0], leaves),
      arrays["broadcast"],
      cost_lib.Cost(*map(int, arrays["cost"])),
  )
