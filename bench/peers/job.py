"""What every peer is given and what it answers, as files.

A peer is a module with a function `main(job)`, which calls `job.run(prepare)`.  It runs in a
process of its own, and maybe in an environment with other packages: NumPy alone is needed here.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Any, Callable, Iterable

import numpy as np

BATCH_SIZE = 20
LEARNING_RATE = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
  """Clients, the model to start from, and all that a round leaves open; rounds count from 1.

  Attributes:
    model: A name in `fl_clustering.tasks.models.MODELS`.
    seed: The seed from which our engine draws orders and dropout.
    images: Training images of all clients, uint8 of shape (num_examples, height, width, 1).
    labels: Their labels, uint8.
    bounds: Client i has the examples from `bounds[i]` to `bounds[i + 1]`.
    orders: Every client's examples in the order of each round, int32 of shape (rounds,
      num_examples).
    seeds: Seed of each client's dropout in each round, int32 of shape (rounds, num_clients, 2).
    parameters: The model to start from.
  """

  model: str
  seed: int
  images: np.ndarray
  labels: np.ndarray
  bounds: np.ndarray
  orders: np.ndarray
  seeds: np.ndarray
  parameters: list[np.ndarray]

  @property
  def clients(self) -> range:
    return range(len(self.bounds) - 1)

  def examples(self, client: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a client's images, float32 in [0, 1], and int32 labels, in the order of a round."""
    own = self.orders[number - 1, self.bounds[client] : self.bounds[client + 1]]
    images = self.images[own].astype(np.float32) / np.float32(255)
    return images, self.labels[own].astype(np.int32)

  def build_model(self) -> Any:
    """Returns our own model, for what is written in plain TensorFlow."""
    from fl_clustering.tasks import models  # pylint: disable=g-import-not-at-top

    return models.build(self.model, self.images.shape[1:], len(self.parameters[-1]))

  def run(self, prepare: Callable[[int], Callable[[], Iterable[np.ndarray]]]) -> None:
    """Runs all rounds, one after another, and writes the seconds of each and the last model.

    Args:
      prepare: A function of a round's number that does what nobody would time, and returns the
        function that is timed: it runs the round and returns the model after it.
    """
    seconds = []
    for number in range(1, len(self.orders) + 1):
      run_round = prepare(number)
      start = time.perf_counter()
      vector = np.concatenate([np.ravel(p) for p in run_round()])
      seconds.append(time.perf_counter() - start)
    np.savez(sys.argv[2], seconds=seconds, vector=vector)

  def write(self, path: str) -> None:
    values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
    np.savez(path, *values.pop("parameters"), **values)


def load_task(model: str, seed: int, num_clients: int) -> Any:
  """Returns the comparison's `FederatedTask`, whose clients have labels of few kinds."""
  from fl_clustering.tasks import registry  # pylint: disable=g-import-not-at-top

  return registry.load_task(registry.TaskOptions(
      dataset="digits", num_clients=num_clients, partition="dirichlet", model=model, seed=seed
  ))


def read(path: str) -> Job:
  with np.load(path) as arrays:
    values = {name: array for name, array in arrays.items() if not name.startswith("arr_")}
    parameters = [arrays[f"arr_{i}"] for i in range(len(arrays.files) - len(values))]
  model, seed = str(values.pop("model")), int(values.pop("seed"))
  return Job(model, seed, parameters=parameters, **values)
