"""Clients whose examples are hard to compute with."""

import math

import numpy as np

from fl_clustering.engine import bounded_sums
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task

NUM_FEATURES, NUM_CLASSES = 4, 3
QUESTIONS = (
    bounded_sums.SKETCH, bounded_sums.NORM, bounded_sums.ROUND, bounded_sums.REPORT,
)
_SPECIAL = (0.0, -0.0, 1.0, -1e-45, 1e-30, 1e30, -3e38, math.inf, -math.inf, math.nan)


def _features(rng, num_examples):
  """Returns features: ordinary, special, or of one number alone."""
  size = num_examples, NUM_FEATURES
  if rng.random() < 0.1:
    return np.eye(1, NUM_FEATURES).repeat(num_examples, axis=0) * 10.0 ** rng.uniform(-40, 38)
  some = rng.choice(_SPECIAL, 3)  # Otherwise, nearly every client would have a NaN.
  is_special = rng.random(size) < rng.random() ** 3
  scale = 10.0 ** rng.choice([0, rng.uniform(-40, 37)])
  return np.where(is_special, rng.choice(some, size), scale * rng.normal(size=size))


def examples(rng):
  """Returns features and labels of one client, for training and for testing, or none of these."""
  num_train, num_test = rng.integers(11), rng.integers(5)
  features = _features(rng, num_train + num_test).astype(np.float32)
  labels = rng.integers(1 + rng.integers(NUM_CLASSES), size=len(features))
  return (
      (features[:num_train], labels[:num_train]), (features[num_train:], labels[num_train:])
  )


def pooled(parts_of_clients):
  """Returns clients as a task has them, also with features that `Examples` would refuse.

  Args:
    parts_of_clients: For every client, features and labels for training and for testing.
  """
  found = federated_task.PooledClients.of([
      federated_task.ClientData(
          str(number),
          *(examples_lib.Examples(np.zeros_like(x), labels) for x, labels in parts)
      )
      for number, parts in enumerate(parts_of_clients)
  ])
  for place, part in enumerate((found.train, found.test)):
    part.pool.features[part.rows] = np.concatenate([own[place][0] for own in parts_of_clients])
  return found


def clients(rng, num_clients):
  """Returns such clients."""
  return pooled([examples(rng) for _ in range(num_clients)])


def public(rng, num_parameters, centers):
  """Returns public numbers of models that may be large, before or after clients chose."""
  vectors = rng.normal(size=(len(centers), num_parameters)) * 10 ** rng.uniform(-9, 30)
  return bounded_sums.Public(
      vectors.astype(np.float32), bool(rng.integers(2)), centers, 10 ** rng.uniform(-12, 3)
  )
