"""TFF's own `build_weighted_fed_avg`, with a Keras model."""

from typing import Any, Callable

import tensorflow as tf
import tensorflow_federated as tff

from bench import plain_tensorflow
from bench.peers import job as job_lib
from bench.peers import keras_model
from fl_clustering import runtime


def main(job: job_lib.Job) -> None:
  num_cores = plain_tensorflow.limit_threads()

  def model_fn() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
        keras_model.build(job),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(tf.TensorSpec([None, *job.images.shape[1:]]), tf.TensorSpec([None], tf.int32)),
    )

  with runtime.LocalRuntime(num_cores):
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(job_lib.LEARNING_RATE)
    )
    state = process.set_model_weights(
        process.initialize(), tff.learning.models.ModelWeights(job.parameters, [])
    )

    def prepare(number: int) -> Callable[[], Any]:
      data_sets = [
          tf.data.Dataset.from_tensor_slices(job.examples(client, number)).batch(job_lib.BATCH_SIZE)
          for client in job.clients
      ]

      def run_round() -> Any:
        nonlocal state
        state = process.next(state, data_sets).state
        return process.get_model_weights(state).trainable

      return run_round

    job.run(prepare)
