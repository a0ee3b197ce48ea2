"""Phase 1: FedAvg over all clients, and then the clients' own weights."""

import dataclasses

import numpy as np

from clustering_basics import validate
from fl_clustering.engine import cost as cost_lib
from fl_clustering.engine import federated_training
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.engine import participation
from fl_clustering.methods import client_weights as client_weights_lib
from fl_clustering.methods import method as method_lib
from fl_clustering.three_phase import stages

STAGE = "pretrain"
_LEAF = "aggregator_"


@dataclasses.dataclass(frozen=True)
class _State:
  """What phase 1 goes on from.

  Attributes:
    fedavg: The `FedAvgState` after a round.
    broadcast: The model that the clients were sent in that round, of shape (P,).
    cost: The `Cost` of all rounds so far.
  """

  fedavg: federated_training.FedAvgState
  broadcast: np.ndarray
  cost: cost_lib.Cost


def pretrain(config, fedavg, engine, scorer, stage_runner, started_from):
  """Runs phase 1, from its checkpoint if there is one.

  Args:
    config: The run's `ThreePhaseConfig`.
    fedavg: A `federated_training.FedAvg` with the run's aggregator.
    engine: The run's `engine.Engine`.
    scorer: The run's `scoring.Scoring`.
    stage_runner: The run's `stages.StageRunner`.
    started_from: The `stages.digest` of what phase 1 starts from.

  Returns:
    A `methods.method.Pretrained`.
  """
  initial = fedavg.initialize()

  def start():
    return _State(initial, initial.vector, cost_lib.Cost()), []

  def step(state, round_num):
    round_ = participation.round_of(config, engine.client_ids, round_num)
    after, losses = fedavg.next(state.fedavg, round_)
    cost = engine.training_cost(round_.client_ids, round_.num_epochs)
    rows = _rows(after.vector[None], losses, cost, round_num, engine, scorer)
    return _State(after, state.fedavg.vector, state.cost + cost), rows

  def unpack(arrays):
    return _unpack(arrays, len(initial.vector))

  state = stage_runner.run(stages.Stage(
      STAGE, started_from, 1, config.pretrain_rounds, start, step, _pack, unpack,
      # Other noise must not be drawn for a round that was told.
      save_all=config.build_aggregator().is_private,
  ))
  vector = state.fedavg.vector
  last_round = participation.round_of(config, engine.client_ids, config.pretrain_rounds)
  if config.grouping_epochs is None:
    # Every client's training of the last round, repeated with the same random numbers.
    sent, num_epochs, number = state.broadcast, last_round.num_epochs, last_round.number
    # Whoever took part in it has sent its weights already.
    others = set(engine.client_ids).difference(last_round.client_ids)
  else:
    sent, num_epochs = vector, config.grouping_epochs
    number = participation.grouping_round(config)
    others = engine.client_ids
  own_weights = [
      client_ids and _train_all_alone(engine, client_ids, sent, num_epochs, number)
      for client_ids in (engine.client_ids, engine.new_client_ids)
  ]
  return method_lib.Pretrained(
      initial.vector, vector, own_weights[0], own_weights[1] or None,
      state.cost + engine.training_cost(others, num_epochs),
  )


def local_weights(config, engine, vector, num_epochs):
  """Trains every client alone from the final global model, as `grouping_epochs` does.

  Args:
    config: The run's `ThreePhaseConfig`.
    engine: The run's `engine.Engine`.
    vector: The global model, float32 of shape (P,).
    num_epochs: Passes of a client over its data.

  Returns:
    The clients' own weights, a `ClientWeights`; not private.
  """
  number = participation.grouping_round(config)
  return _train_all_alone(engine, engine.client_ids, vector, num_epochs, number)


def _train_all_alone(engine, client_ids, vector, num_epochs, round_num):
  starts = np.broadcast_to(vector, (len(client_ids), len(vector)))
  round_ = participation.Round(round_num, client_ids, num_epochs)
  vectors, _ = engine.train_each(starts, client_ids, round_)
  return client_weights_lib.ClientWeights(client_ids, vectors, vector)


def _rows(vectors, losses, cost, round_num, engine, scorer):
  """Returns the `stages.Row`s of a round, for the global model of shape (1, P)."""
  clients, _ = scorer.on_clients_and_clusters(vectors, (engine.client_ids,))
  (global_test,) = scorer.on_global_test(vectors)
  of_model = metrics_lib.model_metrics(global_test)
  return stages.metric_rows(STAGE, STAGE, "", round_num, {
      "train_loss": np.mean(list(losses.values())),
      **{f"global_{name}": value for name, value in of_model.items()},
      **metrics_lib.client_metrics(clients),
      **cost.by_name(),
  })


def _pack(state):
  """Returns a `_State` as arrays by name."""
  leaves = {f"{_LEAF}{i}": leaf for i, leaf in enumerate(state.fedavg.aggregator_state)}
  return {
      "vectors": state.fedavg.vector[None],
      "broadcast": state.broadcast,
      "cost": np.array(state.cost.values(), np.int64),
      **leaves,
  }


def _unpack(arrays, num_parameters):
  """Returns the `_State` that `_pack` made the arrays from."""
  for name, shape in (("vectors", (1, num_parameters)), ("broadcast", (num_parameters,))):
    if arrays[name].shape != shape:
      raise validate.error(name, f"have shape {shape}", arrays[name].shape)
  num_leaves = sum(name.startswith(_LEAF) for name in arrays)
  leaves = tuple(arrays[f"{_LEAF}{i}"] for i in range(num_leaves))
  return _State(
      federated_training.FedAvgState(arrays["vectors"][0], leaves),
      arrays["broadcast"],
      cost_lib.Cost(*map(int, arrays["cost"])),
  )
