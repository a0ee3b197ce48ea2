"""TFF's own `build_weighted_fed_avg` with a Keras model, for the benchmarks."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bench import keras_layers


def build_process(model, batch_size, learning_rate):
  """Returns TFF's process, and a function that makes a client's data set.

  Args:
    model: A `model.Model` whose layers the Keras model gets.
    batch_size: Examples per step.
    learning_rate: Step size.

  Returns:
    The process; and a function of float32 images and int32 labels that returns the
    `tf.data.Dataset` of batches which the process takes for a client.
  """

  def model_fn():
    return tff.learning.models.from_keras_model(
        keras_layers.build(model.name, model.input_shape, model.num_classes),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(
            tf.TensorSpec([None, *model.input_shape]), tf.TensorSpec([None], tf.int32)
        ),
    )

  def data_set(images, labels):
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(batch_size)

  process = tff.learning.algorithms.build_weighted_fed_avg(
      model_fn, tff.learning.optimizers.build_sgdm(learning_rate)
  )
  return process, data_set


def build_round(task, batch_size, learning_rate):
  """Returns a function without arguments that runs one round.

  Args:
    task: A `FederatedTask`.
    batch_size: Examples per step.
    learning_rate: Step size.
  """
  process, data_set = build_process(task.model, batch_size, learning_rate)
  data_sets = [
      data_set(
          client.train.features.astype(np.float32) / 255, client.train.labels.astype(np.int32)
      )
      for client in task.clients
  ]
  state = process.initialize()
  return lambda: process.next(state, data_sets)
