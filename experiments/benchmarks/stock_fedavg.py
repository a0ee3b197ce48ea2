"""TFF's own `build_weighted_fed_avg` with a Keras model, for `engine_benchmark.py`."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


def _keras_model(task):
  """Returns a Keras model of the same layers, for TFF's own FedAvg."""
  layers = tf.keras.layers
  shape = task.model.input_shape
  if task.model.name == "cnn":
    hidden = [
        layers.Conv2D(32, 3, activation="relu", input_shape=shape),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPool2D(2),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.5),
    ]
  else:
    hidden = [
        layers.Conv2D(16, 3, activation="relu", input_shape=shape),
        layers.MaxPool2D(2),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPool2D(2),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
    ]
  return tf.keras.Sequential([*hidden, layers.Dense(task.num_classes)])


def build_round(task, batch_size, learning_rate):
  """Returns a function without arguments that runs one round.

  Args:
    task: A `FederatedTask`.
    batch_size: Examples per step.
    learning_rate: Step size.
  """

  def model_fn():
    return tff.learning.models.from_keras_model(
        _keras_model(task),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(
            tf.TensorSpec([None, *task.model.input_shape]), tf.TensorSpec([None], tf.int32)
        ),
    )

  process = tff.learning.algorithms.build_weighted_fed_avg(
      model_fn, tff.learning.optimizers.build_sgdm(learning_rate)
  )
  datasets = [
      tf.data.Dataset.from_tensor_slices((
          client.train.features.astype(np.float32) / 255,
          client.train.labels.astype(np.int32),
      )).batch(batch_size)
      for client in task.clients
  ]
  state = process.initialize()
  return lambda: process.next(state, datasets)
