"""Small tasks that are no images: clients in two groups with a table or with tokens.

Each is made once: TFF's computations are built once per model.
"""

import functools

import numpy as np
import tensorflow as tf

from fl_clustering.tasks import keras_model
from fl_clustering.tasks import own_clients

# One client has a single batch of 20, others several.
SIZES = {"a": 12, "b": 25, "c": 40, "d": 45, "e": 60}
_NUM_COLUMNS = 6
_NUM_CLASSES = 3


def _clients(draw):
  """Returns clients whose labels are a linear rule, which c and e have the other way up."""
  rng = np.random.default_rng(0)
  rule = rng.normal(size=(_NUM_COLUMNS, _NUM_CLASSES))
  clients = {}
  for client_id, size in SIZES.items():
    x = draw(rng, (size, _NUM_COLUMNS))
    sign = -1 if client_id in "ce" else 1
    clients[client_id] = x, np.argmax(sign * (x - x.mean(axis=0)) @ rule, axis=1)
  return clients


@functools.cache
def table_task(model="logistic", **arguments):
  """Returns a task of float32 rows.

  Args:
    model: The model's name, or a `model.Model`.
    **arguments: Further arguments of `own_clients.task_from_arrays`.
  """
  rows = _clients(lambda rng, shape: 1 + 2 * rng.normal(size=shape))
  return own_clients.task_from_arrays(
      rows, model, groups={client_id: int(client_id in "ce") for client_id in rows}, **arguments
  )


def build_keras_table():
  """Returns a Keras model of the table's rows, with dropout."""
  layers = tf.keras.layers
  return tf.keras.Sequential([
      layers.Input((_NUM_COLUMNS,)), layers.Dense(8, "relu"), layers.LayerNormalization(),
      layers.Dropout(0.2), layers.Dense(_NUM_CLASSES),
  ])


@functools.cache
def token_task():
  """Returns a task of int32 tokens with a Keras model that embeds them."""
  layers = tf.keras.layers
  model = keras_model.keras_model(lambda: tf.keras.Sequential([
      layers.Input((_NUM_COLUMNS,), dtype=tf.int32), layers.Embedding(9, 4),
      layers.GRU(5), layers.Dense(_NUM_CLASSES),
  ]))
  return own_clients.task_from_arrays(
      _clients(lambda rng, shape: rng.integers(9, size=shape)), model
  )


@functools.cache
def keras_table_task():
  """Returns a task of float32 rows with a Keras model."""
  return table_task(keras_model.keras_model(build_keras_table))


# From a name to a function that returns the task.
TASKS = {
    "table_logistic": table_task,
    "table_mlp": lambda: table_task("mlp", hidden_units="7,5"),
    "table_keras": keras_table_task,
    "tokens_keras": token_task,
}
