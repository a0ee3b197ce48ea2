"""Apple's pfl: federated averaging with a Keras model in its simulated backend.

pfl keys a model's variables by their names, which Keras 3 does not make unique: it would
train on, with most of the variables left out.  With TF_USE_LEGACY_KERAS=1 they are unique.
"""

from typing import Any, Callable, Iterator

import numpy as np
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.tensorflow import TFTensorDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.model.tensorflow import TFModel
import tensorflow as tf

from bench.contest import job as job_lib
from bench.contest import keras_layers


def _build_model(job: job_lib.Job) -> tuple[tf.keras.Model, TFModel]:
  keras_model = keras_layers.build(job.model_name, job.images.shape[1:], job.num_classes)
  keras_model.set_weights(job.parameters(job.vector))
  keras_model.compile(
      optimizer=tf.keras.optimizers.SGD(job.learning_rate),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  )
  model = TFModel(keras_model, {}, tf.keras.optimizers.SGD(1.0))
  if len(model.variable_map) != len(keras_model.trainable_variables):
    raise RuntimeError("variables share their names, so pfl would leave some out")
  return keras_model, model


def serve(job: job_lib.Job, answer_requests: Callable[[Any], None]) -> None:
  """Answers requests; see `contestant_process.py`."""
  keras_model, model = _build_model(job)
  round_clients: dict[int, TFTensorDataset] = {}
  positions: Iterator[int] = iter(())
  data = FederatedDataset(round_clients.__getitem__, lambda: next(positions))
  backend = SimulatedBackend(data, data, [WeightByDatapoints()])
  algorithm = FederatedAveraging()
  training = NNTrainHyperParams(
      local_batch_size=job.batch_size, local_num_epochs=1, local_learning_rate=job.learning_rate
  )

  def prepare(number: int) -> Callable[[], np.ndarray]:
    nonlocal positions
    clients = job.clients_of(number)
    positions = iter(clients)
    round_clients.clear()
    for client in clients:
      images, labels = job.examples(client, number)
      data_set = TFTensorDataset(tf.constant(images), tf.constant(labels), user_id=client)
      # pfl keeps the batches of a client that does not reshuffle, so they are not timed.
      for _ in data_set.iter(job.batch_size):
        pass
      round_clients[client] = data_set

    def run_round() -> np.ndarray:
      # It goes on with the next iteration, and evaluates in the first alone.
      algorithm.run(
          NNAlgorithmParams(
              central_num_iterations=number,
              evaluation_frequency=job.num_rounds,
              train_cohort_size=len(clients),
              val_cohort_size=0,
          ),
          backend, model, training, send_metrics_to_platform=False,
      )
      return job_lib.flat(keras_model.get_weights())

    return run_round

  answer_requests(prepare)
