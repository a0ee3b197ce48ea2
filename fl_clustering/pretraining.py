"""Phase 1: FedAvg over all clients, and then the clients' own weights."""

import numpy as np

from fl_clustering import client_weights as client_weights_lib
from fl_clustering.engine import federated_training
from fl_clustering.methods import method as method_lib
from fl_clustering import metrics as metrics_lib
from fl_clustering import participation
from fl_clustering import stages

STAGE = "pretrain"


def pretrain(config, fedavg, engine, scorer, stage_runner):
  """Runs phase 1, from its checkpoint if there is one.

  Args:
    config: The run's `ThreePhaseConfig`.
    fedavg: A `federated_training.FedAvg` with the run's aggregator.
    engine: The run's `engine.Engine`.
    scorer: The run's `scoring.Scoring`.
    stage_runner: The run's `stages.StageRunner`.

  Returns:
    A `methods.method.Pretrained`.
  """
  initial = fedavg.initialize()

  def start():
    return _pack(initial), []

  def step(arrays, round_num):
    before = _unpack(arrays)
    round_ = participation.round_of(config, engine.client_ids, round_num)
    after, losses = fedavg.next(before, round_)
    rows = _rows(after.vector[None], losses, round_num, engine, scorer)
    return {**_pack(after), "broadcast": before.vector}, rows

  # Other noise must not be drawn for a round that was told.
  save_all = config.build_aggregator().is_private
  arrays = stage_runner.run(STAGE, 1, config.pretrain_rounds, start, step, save_all)
  vector = _unpack(arrays).vector
  if config.grouping_epochs is None:
    # Every client's training of the last round, repeated with the same random numbers.
    own_weights = _train_all_alone(
        engine, arrays["broadcast"], config.client_epochs_per_round, config.pretrain_rounds
    )
  else:
    own_weights = local_weights(config, engine, vector, config.grouping_epochs)
  return method_lib.Pretrained(initial.vector, vector, own_weights)


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
  return _train_all_alone(engine, vector, num_epochs, participation.grouping_round(config))


def _train_all_alone(engine, vector, num_epochs, round_num):
  client_ids = engine.client_ids
  starts = np.broadcast_to(vector, (len(client_ids), len(vector)))
  round_ = participation.Round(round_num, client_ids, num_epochs)
  vectors, _ = engine.train_each(starts, client_ids, round_)
  return client_weights_lib.ClientWeights(client_ids, vectors, vector)


def _rows(vectors, losses, round_num, engine, scorer):
  """Returns the `stages.Row`s of a round, for the global model of shape (1, P)."""
  clients, _ = scorer.on_clients_and_clusters(vectors, (engine.client_ids,))
  (global_test,) = scorer.on_global_test(vectors)
  of_model = metrics_lib.model_metrics(global_test)
  return stages.metric_rows(STAGE, STAGE, "", round_num, {
      "train_loss": np.mean(list(losses.values())),
      **{f"global_{name}": value for name, value in of_model.items()},
      **metrics_lib.client_metrics(clients),
  })


def _pack(state):
  """Returns a `FedAvgState` as arrays by name."""
  leaves = {f"aggregator_{i}": leaf for i, leaf in enumerate(state.aggregator_state)}
  return {"vectors": state.vector[None], **leaves}


def _unpack(arrays):
  """Returns the `FedAvgState` that `_pack` made the arrays from."""
  num_leaves = sum(name.startswith("aggregator_") for name in arrays)
  return federated_training.FedAvgState(
      arrays["vectors"][0], tuple(arrays[f"aggregator_{i}"] for i in range(num_leaves))
  )
