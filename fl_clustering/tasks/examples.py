"""Labelled examples."""

import dataclasses
import hashlib
import os
from typing import Iterable, Sequence

import numpy as np

from clustering_basics import validate

# From the type of the features to the number of labels that it can tell apart: a client's
# file holds an example's label beside its features, in their type.
MAX_CLASSES = {"uint8": 2**8, "float32": 2**24, "int32": 2**31 - 1}


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
  """Labelled examples.

  Attributes:
    features: Of shape (num_examples, ...).  uint8 are images of shape (num_examples, height,
      width, channels), where 255 is ink, 0 is paper, and the model gets [0, 1]: bytes are
      small on disk and on the wire.  float32, finite, and int32 reach the model as they are.
    labels: Integers >= 0 of shape (num_examples,), of any type of integer.
  """

  features: np.ndarray
  labels: np.ndarray

  def __post_init__(self) -> None:
    _check_type("features", self.features, MAX_CLASSES, " or ".join(MAX_CLASSES))
    _check_type("labels", self.labels, np.typecodes["AllInteger"], "integers")
    shape = self.features.shape
    if self.features.dtype == np.uint8 and len(shape) != 4:
      raise validate.error(
          "features", "have the shape (num_examples, height, width, channels) if uint8", shape
      )
    if len(shape) < 2 or not all(shape[1:]):
      raise validate.error("features", "have numbers in every example", shape)
    if self.labels.shape != shape[:1]:
      raise validate.error(
          "labels", f"have the shape {shape[:1]}, as there are examples", self.labels.shape
      )
    if self.features.dtype == np.float32 and not np.all(np.isfinite(self.features)):
      raise validate.error(
          "features", "be finite", float(self.features[~np.isfinite(self.features)][0])
      )
    if self.labels.size and self.labels.min() < 0:
      raise validate.error("labels", "be >= 0", int(self.labels.min()))

  def __len__(self) -> int:
    return len(self.labels)

  @property
  def feature_shape(self) -> tuple[int, ...]:
    """The shape of one example's features."""
    return self.features.shape[1:]

  @property
  def dtype(self) -> str:
    """The name of the features' type."""
    return self.features.dtype.name

  def take(self, indices: np.ndarray | slice | Sequence[int]) -> "Examples":
    """Returns the examples at `indices` (integers or a mask) as new arrays."""
    return Examples(self.features[indices], self.labels[indices])


def _check_type(name: str, array: object, types: Iterable[str], text: str) -> None:
  if not isinstance(array, np.ndarray) or not any(array.dtype == kind for kind in types):
    kind = getattr(array, "dtype", type(array).__name__)
    raise TypeError(f"`{name}` must be a NumPy array of {text}, got {kind}.")


def update_digest(digest: "hashlib._Hash", *arrays: np.ndarray) -> None:
  """Updates a digest with arrays, such as features and labels."""
  for array in arrays:
    digest.update(repr(array.shape).encode())
    digest.update(np.ascontiguousarray(array).data)


def converted(owner: str, features: np.ndarray, labels: np.ndarray, dtype: str) -> Examples:
  """Returns examples whose features become a type; a ValueError names their owner."""
  with np.errstate(over="ignore"):  # It is told as a number that is not finite.
    changed = features.astype(dtype)
  if dtype == "int32" and not np.array_equal(changed, features):
    raise validate.error("x", f"fit into int32 for {owner!r}", features[changed != features][0])
  try:
    return Examples(changed, labels)
  except ValueError as e:
    raise ValueError(f"{str(e)[:-1]} for {owner!r}.") from e


def pooled(parts: Iterable[Examples]) -> Examples:
  """Returns examples together, in order, with labels of one type."""
  parts = tuple(parts)
  # With an int64, such as a position, NumPy would make uint64 a float.
  labels = np.concatenate([part.labels for part in parts], dtype=np.int64, casting="unsafe")
  return Examples(np.concatenate([part.features for part in parts]), labels)


@dataclasses.dataclass(frozen=True, eq=False)
class ImagePool:
  """Labelled images that belong to no client yet: what a partition splits.

  Attributes:
    name: The data set's name, such as "digits".
    source: One line: what data this is, from where, in which version.
    pool: The examples to be split over the clients.
    global_test: Examples that no client gets.
    global_test_source: One line: where `global_test` is from.
    num_classes: Labels are below this number.
  """

  name: str
  source: str
  pool: Examples
  global_test: Examples
  global_test_source: str
  num_classes: int

  @classmethod
  def of_files(
      cls, name: str, path: str, train: Examples, test: Examples
  ) -> "ImagePool":
    """Returns the pool of a user's images, those for testing being the global test set.

    Raises:
      ValueError: If they are not of one shape, or of one class alone.
    """
    path = os.path.abspath(os.path.expanduser(path))
    shapes = train.feature_shape, test.feature_shape
    if shapes[0] != shapes[1]:
      raise ValueError(f"`data_dir` must hold images of one shape, got {shapes} in {path}.")
    num_classes = 1 + int(max(train.labels.max(), test.labels.max()))
    if num_classes < 2:
      raise ValueError(f"`data_dir` must hold two classes or more, got only label 0 in {path}.")
    return cls(
        name=name,
        source=f"{len(train):,} + {len(test):,} images from {path}",
        pool=train,
        global_test=test,
        global_test_source=f"the data's own {len(test):,} test images, with which no client trains",
        num_classes=num_classes,
    )

  def of_size(self, image_size: int) -> "ImagePool":
    """Returns the pool with images of so many pixels a side, each the mean of a square of pixels.

    Raises:
      ValueError: If the images' sides are not multiples of it.
    """
    side = self.pool.feature_shape[0]
    if self.pool.feature_shape[1] != side or side % image_size:
      height, width = self.pool.feature_shape[:2]
      raise validate.error(
          "image_size", f"divide the sides of square images, of {height} x {width} here",
          image_size,
      )
    pool, global_test = (_of_size(part, image_size) for part in (self.pool, self.global_test))
    return dataclasses.replace(self, pool=pool, global_test=global_test)


def _of_size(examples: Examples, image_size: int) -> Examples:
  number, side, _, channels = examples.features.shape
  square = side // image_size
  blocks = examples.features.reshape(number, image_size, square, image_size, square, channels)
  means = np.rint(blocks.mean(axis=(2, 4), dtype=np.float32))
  return Examples(means.astype(np.uint8), examples.labels)
