"""A task's examples as files that clients read themselves.

A TFF client's value is the *path* of its data, and the client's computation reads
the file.  So no data go through TFF's messages, as with a real device, and it is
the fastest way to run a simulation (see `bench/speed.py`).

File format: rows of numbers of one type, one example each: its features, then its label.
So files that stand one after the other are a file again.
"""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Iterable, Mapping

import numpy as np

from clustering_basics import randomness
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task

# The global test set is cut into files of this size, so that all cores can
# evaluate one model.
GLOBAL_TEST_FILE_EXAMPLES = 500


@dataclasses.dataclass(frozen=True)
class ExampleFile:
  """A file of examples.

  Attributes:
    path: Where it is, as TFF clients are told.  TFF would send text as ASCII.
    num_examples: How many it holds.
  """

  path: bytes
  num_examples: int


@dataclasses.dataclass(frozen=True)
class ClientFiles:
  """The files of one task, in which a client is its place.

  Attributes:
    client_ids: The clients' ids, new clients at the end.
    train: Their training examples.
    test: Their test examples.
    global_test: Files that together are the global test set.
    validation: The validation examples of the clients that have some.
  """

  client_ids: tuple[str, ...]
  train: tuple[ExampleFile, ...]
  test: tuple[ExampleFile, ...]
  global_test: tuple[ExampleFile, ...] = ()
  validation: Mapping[int, ExampleFile] = dataclasses.field(default_factory=dict)

  def train_paths(self, clients: Iterable[int]) -> np.ndarray:
    """Returns where clients' training examples are."""
    return np.array([self.train[client].path for client in clients], np.bytes_)

  def seeds(self, seed: int, number: int, clients: Iterable[int]) -> np.ndarray:
    """Returns the seeds of clients' training in the round of this number, int32 of shape (n, 2)."""
    found = [
        randomness.stateless_seed(seed, "local_training", number, self.client_ids[client])
        for client in clients
    ]
    return np.array(found, np.int32).reshape(-1, 2)


def _write(path: str, examples: examples_lib.Examples) -> ExampleFile:
  rows = np.concatenate(
      [
          # Also where there are no examples.
          examples.features.reshape(len(examples), math.prod(examples.feature_shape)),
          examples.labels[:, None],
      ],
      axis=1,
      dtype=examples.features.dtype,
      casting="unsafe",  # `examples.MAX_CLASSES` are exact.
  )
  with open(path, "wb") as f:
    f.write(rows.tobytes())
  return ExampleFile(os.fsencode(path), len(examples))


def write_examples(
    clients: Iterable[federated_task.ClientData], directory: str
) -> ClientFiles:
  """Writes clients' examples to files, of which those of one client at a time are in memory.

  Files are named by position, as ids may hold any character.  Those of an earlier run are
  overwritten.  The file of a client without examples is empty.

  Args:
    directory: An existing folder.

  Returns:
    Files without a global test set.
  """
  directory = os.path.abspath(directory)
  ids: list[str] = []
  files: dict[str, dict[int, ExampleFile]] = {"train": {}, "test": {}, "validation": {}}
  for place, client in enumerate(clients):
    ids.append(client.client_id)
    for part, written in files.items():
      examples = getattr(client, part)
      if examples is not None:
        path = os.path.join(directory, f"client_{place:05d}.{part}")
        written[place] = _write(path, examples)
  train, test = (tuple(files[part].values()) for part in ("train", "test"))
  return ClientFiles(tuple(ids), train, test, validation=files["validation"])


def write_client_files(task: federated_task.FederatedTask, directory: str) -> ClientFiles:
  """Writes the examples of a task as `write_examples` does, and its global test set, cut."""
  directory, examples = os.path.abspath(directory), task.global_test
  global_test = tuple(
      _write(
          os.path.join(directory, f"global_{i:05d}.test"),
          examples.take(slice(start, start + GLOBAL_TEST_FILE_EXAMPLES)),
      )
      for i, start in enumerate(range(0, len(examples), GLOBAL_TEST_FILE_EXAMPLES))
  )
  found = write_examples(task.all_clients, directory)
  return dataclasses.replace(found, global_test=global_test)
