"""Known groups of clients that differ in kind: each group transforms its examples.

References:
  Avishek Ghosh, Jichan Chung, Dong Yin, Kannan Ramchandran. An Efficient
  Framework for Clustered Federated Learning. NeurIPS 2020 (rotated images as
  known groups). https://arxiv.org/abs/2006.04088
"""

import functools
import math

import numpy as np

from clustering_basics import validate
from fl_clustering.tasks import federated_task


def rotations(pool, num_groups, rng):
  """Returns a transformation per group: group g turns its images by g * 90 degrees.

  Args:
    pool: A `federated_task.ImagePool`.
    num_groups: Number of groups.
    rng: A `np.random.Generator`, not used.
  """
  del rng  # The angles are not drawn.
  height, width = pool.pool.features.shape[1:3]
  if height != width:
    raise ValueError(
        "`partition` must not be 'rotated' where the images are not square, got images of "
        f"{height}x{width} from {pool.source}."
    )
  return [functools.partial(_rotate, quarter_turns) for quarter_turns in range(num_groups)]


def _rotate(quarter_turns, examples):
  images = np.ascontiguousarray(np.rot90(examples.features, quarter_turns, axes=(1, 2)))
  return federated_task.Examples(images, examples.labels)


def label_permutations(pool, num_groups, rng):
  """Returns a transformation per group: each group has its own label permutation.

  Group 0 keeps its labels, and no two groups have the same permutation.

  Args:
    pool: A `federated_task.ImagePool`.
    num_groups: Number of groups.
    rng: A `np.random.Generator`.
  """
  num_classes = pool.num_classes
  if num_groups > math.factorial(num_classes):
    raise validate.error(
        "num_groups", f"be at most the permutations of {num_classes} labels", num_groups
    )
  permutations = [tuple(range(num_classes))]
  while len(permutations) < num_groups:
    permutation = tuple(map(int, rng.permutation(num_classes)))
    if permutation not in permutations:
      permutations.append(permutation)
  return [
      functools.partial(_relabel, np.array(permutation, np.uint8)) for permutation in permutations
  ]


def _relabel(permutation, examples):
  return federated_task.Examples(examples.features, permutation[examples.labels])
