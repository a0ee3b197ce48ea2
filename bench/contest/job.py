"""What every contestant of the comparison of peers is given, as files in a folder.

A contestant may run in an environment with other packages, so this module needs NumPy
alone, and the description of the models.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from typing import Any, Iterable, TYPE_CHECKING

import numpy as np

from fl_clustering.tasks import models

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib

_ARRAYS = "job.npz"
_SETTINGS = "job.json"


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
  """Clients, a model to start from, and everything that a round leaves open.

  Rounds are numbered from 1.

  Attributes:
    model_name: A name in `models.MODELS`.
    seed: The seed from which our engine draws the orders and the dropout.
    images: Training images of all clients, uint8 of shape (num_examples, height, width, 1).
    labels: Their labels, uint8.
    bounds: Client i has the examples from `bounds[i]` to `bounds[i + 1]`.
    vector: The model to start from, float32 of shape (P,).
    orders: Order of a client's examples in each round, int32 of shape (rounds,
      num_examples): positions among the client's own examples.
    seeds: Seed of each client's dropout in each round, int32 of shape (rounds, num_clients,
      2).
    participants: Clients of each round as positions in `client_ids`, int32 of shape
      (rounds, clients_per_round).
  """

  model_name: str
  num_classes: int
  batch_size: int
  learning_rate: float
  seed: int
  client_ids: tuple[str, ...]
  images: np.ndarray
  labels: np.ndarray
  bounds: np.ndarray
  vector: np.ndarray
  orders: np.ndarray
  seeds: np.ndarray
  participants: np.ndarray

  @property
  def num_rounds(self) -> int:
    return len(self.participants)

  def model(self) -> model_lib.Model:
    return models.build(self.model_name, self.images.shape[1:], self.num_classes)

  def parameters(self, vector: np.ndarray) -> list[np.ndarray]:
    """Returns a flat vector as arrays with the shapes of the model."""
    shapes = list(self.model().parameter_shapes.values())
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes)]

  def clients_of(self, round_number: int) -> list[int]:
    """Returns the positions of the clients that take part in a round."""
    return self.participants[round_number - 1].tolist()

  def order(self, client: int, round_number: int) -> np.ndarray:
    """Returns the order of the examples of a client, given by position, in a round."""
    return self.orders[round_number - 1, self.bounds[client] : self.bounds[client + 1]]

  def dropout_seed(self, client: int, round_number: int) -> np.ndarray:
    """Returns the seed of the dropout of a client, given by position, in a round."""
    return self.seeds[round_number - 1, client]

  def examples(self, client: int, round_number: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a client's images, float32 in [0, 1], and its int32 labels, in a round's order."""
    positions = self.bounds[client] + self.order(client, round_number)
    images = self.images[positions].astype(np.float32) / np.float32(255)
    return images, self.labels[positions].astype(np.int32)

  def write(self, folder: str) -> None:
    """Writes the job to a folder."""
    values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
    arrays: dict[str, Any] = {
        name: value for name, value in values.items() if isinstance(value, np.ndarray)
    }
    settings = {name: value for name, value in values.items() if name not in arrays}
    np.savez(os.path.join(folder, _ARRAYS), **arrays)
    with open(os.path.join(folder, _SETTINGS), "w", encoding="utf-8") as file:
      json.dump(settings, file)


def flat(parameters: Iterable[np.ndarray]) -> np.ndarray:
  """Returns arrays as one float32 vector."""
  return np.concatenate([np.ravel(p) for p in parameters]).astype(np.float32, copy=False)


def read(folder: str) -> Job:
  """Returns the `Job` in a folder."""
  with open(os.path.join(folder, _SETTINGS), encoding="utf-8") as file:
    settings = json.load(file)
  with np.load(os.path.join(folder, _ARRAYS)) as arrays:
    return Job(**{**settings, "client_ids": tuple(settings["client_ids"])}, **arrays)
