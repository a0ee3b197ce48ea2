"""Apple's pfl: federated averaging with a Keras model in its simulated backend."""

from typing import Any, Callable, Iterator

from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.tensorflow import TFTensorDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.model.tensorflow import TFModel
import tensorflow as tf

from bench.peers import job as job_lib
from bench.peers import keras_model


def main(job: job_lib.Job) -> None:
  trained = keras_model.build(job)
  trained.compile(
      optimizer=tf.keras.optimizers.SGD(job_lib.LEARNING_RATE),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  )
  model = TFModel(trained, {}, tf.keras.optimizers.SGD(1.0))
  # With Keras 3 variables share their names, by which pfl knows them: it would train some alone.
  assert len(model.variable_map) == len(trained.trainable_variables)
  data_sets: dict[int, TFTensorDataset] = {}
  clients: Iterator[int] = iter(())
  data = FederatedDataset(data_sets.__getitem__, lambda: next(clients))
  backend = SimulatedBackend(data, data, [WeightByDatapoints()])
  algorithm = FederatedAveraging()
  training = NNTrainHyperParams(job_lib.BATCH_SIZE, 1, job_lib.LEARNING_RATE)

  def prepare(number: int) -> Callable[[], Any]:
    nonlocal clients
    clients = iter(job.clients)
    for client in job.clients:
      tensors = map(tf.constant, job.examples(client, number))
      data_sets[client] = TFTensorDataset(*tensors, user_id=client)
      # pfl keeps the batches of a client that does not reshuffle, so they are not timed.
      list(data_sets[client].iter(job_lib.BATCH_SIZE))
    # It goes on with the next iteration, and evaluates in the first alone.
    up_to_this = NNAlgorithmParams(
        central_num_iterations=number, evaluation_frequency=len(job.orders),
        train_cohort_size=len(job.clients), val_cohort_size=0,
    )

    def run_round() -> Any:
      algorithm.run(up_to_this, backend, model, training, send_metrics_to_platform=False)
      return trained.get_weights()

    return run_round

  job.run(prepare)
