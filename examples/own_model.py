"""Clients that are arrays, and a model of one's own: three phases from Python.

The model is Keras' where TensorFlow Federated is installed, and else one of plain JAX.
docs/own_model.md says more.

  PYTHONPATH=. python examples/own_model.py
"""

import sys

import numpy as np
from sklearn import datasets

from fl_clustering import local_run
from fl_clustering.engine import engines, metrics
from fl_clustering.tasks import own_clients
from fl_clustering.three_phase import config

try:
  engines.check_installed(engines.usual())
except ValueError as e:
  sys.exit(f"error: {e}")

# Real digits, 8x8, over twelve sites.  The odd sites number the classes the other way round.
x, y = datasets.load_digits(return_X_y=True)
shares = np.array_split(np.random.default_rng(0).permutation(len(y)), 12)
clients = {
    f"site {i}": (x[share] / 16, 9 - y[share] if i % 2 else y[share])
    for i, share in enumerate(shares)
}


def of_keras():  # For TFF.
  import tensorflow as tf
  from fl_clustering.tasks import keras_model

  def build():
    return tf.keras.Sequential([
        tf.keras.layers.Input((64,)),
        tf.keras.layers.Dense(32, "relu"),
        tf.keras.layers.Dropout(0.1),
        tf.keras.layers.Dense(10),  # Logits: no softmax.
    ])

  return keras_model.keras_model(build)


def of_jax():  # On any Python.
  import jax
  from fl_clustering.tasks import own_model

  def init(key):
    first, last = jax.random.split(key)
    draw = jax.nn.initializers.glorot_uniform()
    return draw(first, (64, 32)), jax.numpy.zeros(32), draw(last, (32, 10)), jax.numpy.zeros(10)

  def apply(parameters, inputs, key):
    kernel, bias, last_kernel, last_bias = parameters
    hidden = jax.nn.relu(inputs @ kernel + bias)
    if key is not None:  # A step of training, with dropout.
      hidden *= jax.random.bernoulli(key, 0.9, hidden.shape) / 0.9
    return hidden @ last_kernel + last_bias  # Logits: no softmax.

  return own_model.jax_model(init, apply, (64,))


model = of_keras() if engines.usual() == engines.TFF else of_jax()
task = own_clients.task_from_arrays(clients, model)
settings = config.ThreePhaseConfig.for_task(
    task, methods=("kmeans", "ifca"), num_clusters=2, representation="update",
    pretrain_rounds=5, cluster_rounds=10, client_epochs_per_round=5,
)
result = local_run.run(settings, task)

for name, method in result.methods.items():
  print(f"{name:12}{metrics.accuracy(method.clients).mean():.3f}")
for members in result.methods["kmeans"].assignment.clusters:
  print("cluster:", ", ".join(task.client_ids[place] for place in members))
