"""TFF's own `build_weighted_fed_avg`, with a Keras model."""

from __future__ import annotations

from typing import Any, Callable, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bench.contest import contestant_process
from bench.contest import job as job_lib
from bench.contest import keras_layers
from fl_clustering import runtime

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib


def build_process(
    model: model_lib.Model, batch_size: int, learning_rate: float
) -> tuple[tff.learning.templates.LearningProcess, Callable[..., tf.data.Dataset]]:
  """Returns TFF's process for a Keras model of the same layers.

  And a function of a client's float32 images and int32 labels that returns its data set, which
  the process takes.
  """

  def model_fn() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
        keras_layers.build(model.name, model.input_shape, model.num_classes),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(
            tf.TensorSpec([None, *model.input_shape]), tf.TensorSpec([None], tf.int32)
        ),
    )

  def data_set(images: np.ndarray, labels: np.ndarray) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch_size)

  process = tff.learning.algorithms.build_weighted_fed_avg(
      model_fn, tff.learning.optimizers.build_sgdm(learning_rate)
  )
  return process, data_set


def serve(job: job_lib.Job, answer_requests: Callable[[Any], None]) -> None:
  """Answers requests; see `contestant_process.py`."""
  num_cores = contestant_process.limit_threads(tf)
  with runtime.LocalRuntime(num_cores):
    process, data_set = build_process(job.model(), job.batch_size, job.learning_rate)
    state = process.set_model_weights(
        process.initialize(), tff.learning.models.ModelWeights(job.parameters(job.vector), [])
    )

    def prepare(number: int) -> Callable[[], np.ndarray]:
      data_sets = [
          data_set(*job.examples(client, number)) for client in job.clients_of(number)
      ]

      def run_round() -> np.ndarray:
        nonlocal state
        state = process.next(state, data_sets).state
        return job_lib.flat(process.get_model_weights(state).trainable)

      return run_round

    answer_requests(prepare)
