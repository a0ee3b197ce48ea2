"""Clients that draw so many images each, where sharing out a pool would not give enough.

Every client draws its training images from the pool and its test images from the data's own test
images, with its own proportions of the labels.  An image may be at several clients, and at one of
them twice.  So there can be any number of clients of any size, whose guarantee of privacy, for one
client, is about the images that it holds, wherever else they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from fl_clustering.tasks import partition as partition_lib

# Test images per training image.
_TEST_SHARE = 0.4


def _drawn(
    examples: examples_lib.Examples, proportions: np.ndarray | None, number: int,
    rng: np.random.Generator,
) -> examples_lib.Examples:
  """Returns so many examples, with replacement, whose labels have these proportions, or any."""
  if proportions is None:
    return examples.take(rng.integers(len(examples), size=number))
  places = [np.flatnonzero(examples.labels == label) for label in range(len(proportions))]
  # A label that no example has can't be drawn.
  there = proportions * np.array(list(map(bool, map(len, places))))
  drawn = rng.choice(len(places), number, p=there / there.sum())
  return examples.take([int(rng.choice(places[label])) for label in drawn])


def split(
    partition: Any, pool: examples_lib.ImagePool, num_clients: int, examples_per_client: int,
    seed: int,
) -> partition_lib.Split:
  """Returns the `Split` of clients that draw their images.

  Args:
    partition: One of `partition.PARTITIONS` with known groups.
    examples_per_client: How many training images each client draws, and 2/5 of that for testing.
    seed: Decides who draws what.
  """
  if not isinstance(partition, partition_lib.KnownGroups):
    raise validate.error(
        "examples_per_client", "be left out but for partitions with known groups",
        examples_per_client,
    )
  validate.integer(minimum=2, examples_per_client=examples_per_client)
  groups, transformations = partition.groups_of(pool, num_clients, seed)
  width = len(str(num_clients - 1))
  num_test = max(1, round(_TEST_SHARE * examples_per_client))
  clients = []
  for index, group in enumerate(groups.tolist()):
    client_id = f"client_{index:0{width}d}"
    rng = randomness.generator(seed, "drawn examples", client_id=client_id)
    proportions = None
    if partition.dirichlet_alpha is not None:
      proportions = rng.dirichlet(np.full(pool.num_classes, partition.dirichlet_alpha))
    train, test = (
        transformations[group](_drawn(examples, proportions, number, rng))
        for examples, number in ((pool.pool, examples_per_client), (pool.global_test, num_test))
    )
    clients.append(federated_task.ClientData(client_id, train, test, group))
  return partition_lib.Split(
      tuple(clients), partition.transformed_mix(pool.global_test, transformations, seed)
  )
