"""Phase 1: FedAvg over all clients, and then the clients' own weights.

FedAvg (McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, Algorithm 1): every client trains the model it is sent on its own examples, the server
averages the results weighted by the number of examples.  That is the training of one cluster.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping, TYPE_CHECKING

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import divergence
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.engine import participation
from fl_clustering.methods import client_weights as client_weights_lib
from fl_clustering.methods import method as method_lib
from fl_clustering.three_phase import scoring
from fl_clustering.three_phase import stages

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib
  from fl_clustering.three_phase import config as config_lib

STAGE = "pretrain"


@dataclasses.dataclass(frozen=True)
class _State:
  """What phase 1 goes on from.

  Attributes:
    vector: The global model after a round, float32 of shape (P,).
    broadcast: The model that the clients were sent in that round, of shape (P,).
    cost: The cost of all rounds so far.
  """

  vector: np.ndarray
  broadcast: np.ndarray
  cost: cost_lib.Cost


def pretrain(
    config: config_lib.ThreePhaseConfig, engine: engine_lib.Engine,
    stage_runner: stages.StageRunner, started_from: str, keeps_weights: bool = True,
) -> method_lib.Pretrained:
  """Runs phase 1, from its checkpoint if there is one.

  Args:
    started_from: The `stages.digest` of what phase 1 starts from.
    keeps_weights: Whether all clients' own weights are wanted.
  """
  rng = randomness.generator(config.seed, "initial_parameters")
  (initial,) = engine.initial_vectors(1, rng)
  evaluated = participation.evaluated(config, len(engine.clients))

  def start() -> tuple[_State, list[stages.Row]]:
    return _State(initial, initial, cost_lib.Cost()), []

  def step(state: _State, round_num: int) -> tuple[_State, list[stages.Row]]:
    round_ = participation.round_of(config, len(engine.clients), round_num)
    vectors, (losses,) = engine.train(state.vector[None], (engine.clients,), round_)
    cost = engine.training_cost(round_.clients, round_.num_epochs)
    with divergence.told(f"after round {round_num}"):
      clients, _ = scoring.on_clients_and_clusters(engine, vectors, (engine.clients,), evaluated)
      (global_test,) = engine.global_confusions(vectors)
    of_model = metrics_lib.model_metrics(global_test)
    rows = stages.metric_rows(STAGE, "", round_num, {
        "train_loss": losses.values.mean(),
        **{f"global_{name}": value for name, value in of_model.items()},
        **metrics_lib.client_metrics(clients),
        **cost.by_name(),
    })
    return _State(vectors[0], state.vector, state.cost + cost), rows

  def unpack(arrays: Mapping[str, np.ndarray]) -> _State:
    return _unpack(arrays, len(initial))

  state = stage_runner.run(stages.Stage(
      STAGE, started_from, 1, config.pretrain_rounds, start, step, _pack, unpack
  ))
  vector = state.vector
  if not keeps_weights:
    return method_lib.Pretrained(initial, vector, None, cost=state.cost)
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
      initial, vector, grouped, of_new_clients, state.cost + cost_of_own, cost_of_own
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
  return {
      "vectors": state.vector[None],
      "broadcast": state.broadcast,
      "cost": np.array(state.cost.values(), np.int64),
  }


def _unpack(arrays: Mapping[str, np.ndarray], num_parameters: int) -> _State:
  """Returns what `_pack` made the arrays from."""
  for name, shape in (("vectors", (1, num_parameters)), ("broadcast", (num_parameters,))):
    if arrays[name].shape != shape:
      raise validate.error(name, f"have shape {shape}", arrays[name].shape)
  cost = cost_lib.Cost(*map(int, arrays["cost"]))
  return _State(arrays["vectors"][0], arrays["broadcast"], cost)
