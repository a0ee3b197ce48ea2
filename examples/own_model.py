"""Clients that are arrays, and a model of Keras: three phases from Python.

docs/own_model.md says more.

  PYTHONPATH=. python examples/own_model.py
"""

import sys

import numpy as np
from sklearn import datasets

from clustering_basics import extras

if not extras.has_tff():
  sys.exit(f"error: TensorFlow Federated must be installed for this, and isn't; {extras.advice()}.")

import tensorflow as tf

from fl_clustering import local_run
from fl_clustering.engine import metrics
from fl_clustering.tasks import keras_model, own_clients
from fl_clustering.three_phase import config

# Real digits, 8x8, over twelve sites.  The odd sites number the classes the other way round.
x, y = datasets.load_digits(return_X_y=True)
shares = np.array_split(np.random.default_rng(0).permutation(len(y)), 12)
clients = {
    f"site {i}": (x[share] / 16, 9 - y[share] if i % 2 else y[share])
    for i, share in enumerate(shares)
}


def build():
  return tf.keras.Sequential([
      tf.keras.layers.Input((64,)),
      tf.keras.layers.Dense(32, "relu"),
      tf.keras.layers.Dropout(0.1),
      tf.keras.layers.Dense(10),  # Logits: no softmax.
  ])


task = own_clients.task_from_arrays(clients, keras_model.keras_model(build))
settings = config.ThreePhaseConfig.for_task(
    task, methods=("kmeans", "ifca"), num_clusters=2, representation="update",
    pretrain_rounds=5, cluster_rounds=10, client_epochs_per_round=5,
)
result = local_run.run(settings, task)

for name, method in result.methods.items():
  print(f"{name:12}{metrics.accuracy(method.clients).mean():.3f}")
for members in result.methods["kmeans"].assignment.clusters:
  print("cluster:", ", ".join(task.client_ids[place] for place in members))
