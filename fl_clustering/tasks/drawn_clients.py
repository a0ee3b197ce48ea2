"""Clients that draw so many images each, where sharing out a pool would not give enough.

Every client draws its training images from the pool and its test images from the data's own test
images, with its own proportions of the labels.  An image may be at several clients, and at one of
them twice.  So there can be any number of clients of any size, whose guarantee of privacy, for one
client, is about the images that it holds, wherever else they are.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
from typing import Sequence

import numpy as np

from clustering_basics import child_process
from clustering_basics import core_count
from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import known_groups
from fl_clustering.tasks import pooled_examples

# Test images per training image.
_TEST_SHARE = 0.4
# So many take a second or two.
_CLIENTS_AT_ONCE = 25_000


class _Drawing:
  """Draws rows of examples, with replacement, as many as a client has of them."""

  def __init__(self, examples: examples_lib.Examples, num_classes: int, number: int):
    self._rows_by_label = np.argsort(examples.labels, kind="stable")
    self.sizes = np.bincount(examples.labels, minlength=num_classes)
    self._starts = np.cumsum(self.sizes) - self.sizes
    self.number = number

  def rows(self, proportions: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Returns rows whose labels have these proportions, or any."""
    if proportions is None:
      return rng.integers(len(self._rows_by_label), size=self.number)
    # A label that no example has can't be drawn.
    there = proportions * (self.sizes > 0)
    # What `rng.choice` draws, without the time of its checks.
    upto = (there / there.sum()).cumsum()
    drawn = (upto / upto[-1]).searchsorted(rng.random(self.number), "right")
    places = self._starts[drawn] + rng.integers(self.sizes[drawn])
    return self._rows_by_label[places]


def _drawn_in_turn(
    drawings: Sequence[_Drawing], ids: Sequence[str], alpha: float | None, seed: int
) -> list[np.ndarray]:
  """Returns every client's rows, int32 of shape (num_clients, n), of each drawing.

  Args:
    ids: The clients' ids, from which their random numbers follow.
    alpha: The concentration of a Dirichlet distribution of the labels; None for rows of any label.
  """
  num_classes = len(drawings[0].sizes)
  found = [np.empty((len(ids), drawing.number), np.int32) for drawing in drawings]
  for place, client_id in enumerate(ids):
    rng = randomness.generator(seed, "drawn examples", client_id=client_id)
    proportions = None if alpha is None else rng.dirichlet(np.full(num_classes, alpha))
    for rows, drawing in zip(found, drawings):
      if proportions is not None and not proportions[drawing.sizes > 0].any():
        raise validate.error(
            "dirichlet_alpha", "leave every client a label of which there are images", alpha
        )
      rows[place] = drawing.rows(proportions, rng)
  return found


def _drawn(
    drawings: Sequence[_Drawing], ids: Sequence[str], alpha: float | None, seed: int
) -> list[np.ndarray]:
  """Returns the rows of `_drawn_in_turn`; many clients draw theirs on all cores."""
  of_part = functools.partial(_drawn_in_turn, drawings, alpha=alpha, seed=seed)
  # A daemonic process, such as one of a cluster's workers, can't have processes.
  if len(ids) <= _CLIENTS_AT_ONCE or multiprocessing.current_process().daemon:
    return of_part(ids)
  from joblib.externals import loky  # It takes long to import.

  parts = [ids[i : i + _CLIENTS_AT_ONCE] for i in range(0, len(ids), _CLIENTS_AT_ONCE)]
  with loky.ProcessPoolExecutor(
      min(len(parts), core_count.usable()), initializer=child_process.serve_parent,
      initargs=(os.getpid(),),
  ) as processes:
    return [np.concatenate(rows) for rows in zip(*processes.map(of_part, parts))]


def draw(
    pool: examples_lib.ImagePool, ids: Sequence[str], groups: np.ndarray,
    transformations: Sequence[known_groups.Transformation], examples_per_client: int,
    dirichlet_alpha: float | None, seed: int,
) -> tuple[pooled_examples.PooledExamples, pooled_examples.PooledExamples]:
  """Returns the examples for training and for testing that clients draw.

  Args:
    groups: The clients' groups, of shape (num_clients,).
    transformations: The groups' transformations.
    examples_per_client: How many training images each client draws, and 2/5 of that for testing.
    dirichlet_alpha: The concentration of a client's labels; None for images of any label.
    seed: Decides who draws what.
  """
  num_test = max(1, round(_TEST_SHARE * examples_per_client))
  drawings = [
      _Drawing(pool.pool, pool.num_classes, examples_per_client),
      _Drawing(pool.global_test, pool.num_classes, num_test),
  ]
  train, test = _drawn(drawings, ids, dirichlet_alpha, seed)
  return (
      _of_groups(pool.pool, transformations, train, groups),
      _of_groups(pool.global_test, transformations, test, groups),
  )


def _of_groups(
    examples: examples_lib.Examples, transformations: Sequence[known_groups.Transformation],
    rows: np.ndarray, groups: np.ndarray,
) -> pooled_examples.PooledExamples:
  """Returns the clients' examples, transformed as the client's group transforms them.

  Args:
    rows: Every client's rows of the examples, of shape (num_clients, n).
    groups: The clients' groups.
  """
  pool = examples_lib.pooled(transform(examples) for transform in transformations)
  first = (groups * len(examples)).astype(np.int32)
  counts = np.full(len(rows), rows.shape[1], np.int64)
  return pooled_examples.PooledExamples(pool, (rows + first[:, None]).ravel(), counts)
