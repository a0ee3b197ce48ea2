"""A partition and a data set that are in no registry, as a user would add them.

The contracts run over them as over all rows: what a contract must know of a row stands in the row.
"""

import contextlib
import dataclasses
import functools
from unittest import mock

import numpy as np
from sklearn import datasets

from clustering_basics import options
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import partition
from fl_clustering.tasks import registry


def _mirror(examples):
  return examples_lib.Examples(np.flip(examples.features, axis=2), examples.labels)


@dataclasses.dataclass(frozen=True)
class Mirrored(partition.KnownGroups):
  """Known groups: half of the clients have their images mirrored."""

  most_groups = 2
  num_groups: int = options.option(int, "Number of true groups.", default=2)

  @staticmethod
  def build_transformations(pool, num_groups, rng):
    del pool, num_groups, rng
    return [lambda examples: examples, _mirror]


class SmallDigits:
  """The 1,797 digits of 8 x 8 pixels that scikit-learn has."""

  @staticmethod
  def load():
    images, labels = datasets.load_digits(return_X_y=True)
    examples = examples_lib.Examples(
        (images.reshape(-1, 8, 8, 1) * 255 / 16).astype(np.uint8), labels.astype(np.uint8)
    )
    return examples_lib.ImagePool(
        name="small_digits",
        source="1,797 digits from the package scikit-learn",
        pool=examples.take(slice(1500)),
        global_test=examples.take(slice(1500, None)),
        global_test_source="297 digits that no client has",
        num_classes=10,
    )


PARTITIONS = {**partition.PARTITIONS, "mirrored": Mirrored}
DATASETS = {
    **registry.DATASETS,
    "small_digits": registry.DataSet(
        functools.partial(registry.packaged_task, SmallDigits), "8 x 8 digits",
        default_model="logistic",
    ),
}
PARTITION_NAMES = (registry.NATURAL, *PARTITIONS)


@contextlib.contextmanager
def registered():
  """Adds them to the registries for as long as it is open."""
  with contextlib.ExitStack() as stack:
    stack.enter_context(mock.patch.dict(partition.PARTITIONS, PARTITIONS))
    stack.enter_context(mock.patch.dict(registry.DATASETS, DATASETS))
    yield
