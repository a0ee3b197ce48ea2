"""One .npz file of images and labels, as Keras' data sets and MedMNIST's have them.

Keras' files hold `x_train`, `y_train`, `x_test` and `y_test`; MedMNIST's `train_images`,
`train_labels`, and the same of `val` and `test`.  Its images for validation are for training here,
since every run holds out some of its own.

References:
  Jiancheng Yang, Rui Shi, Donglai Wei, Zequan Liu, Lin Zhao, Bilian Ke, Hanspeter Pfister,
  Bingbing Ni. MedMNIST v2 - A large-scale lightweight benchmark for 2D and 3D biomedical image
  classification. Scientific Data 2023. https://arxiv.org/abs/2110.14795
"""

import itertools
import os
import reprlib
from typing import Any

import numpy as np

from fl_clustering.tasks import examples as examples_lib

# The arrays of images and of labels; the last ones are for testing.
_KERAS = (("x_train", "y_train"), ("x_test", "y_test"))
_VALIDATION = ("val_images", "val_labels")
_MEDMNIST = (("train_images", "train_labels"), _VALIDATION, ("test_images", "test_labels"))

_EXPECTED_NAMES = (
    "x_train, y_train, x_test, y_test, or train_images, train_labels, test_images, test_labels, "
    "and perhaps val_images, val_labels"
)


def load(data_dir: str) -> examples_lib.ImagePool:
  """Returns the file's images for training as pool and those for testing as global test set.

  Args:
    data_dir: The file.

  Raises:
    ValueError: If it can't be read, or does not hold these arrays.
  """
  *train, test = _read_parts(os.path.expanduser(data_dir))
  for part in train[1:]:
    if part.feature_shape != train[0].feature_shape:
      raise _error(
          data_dir, f"hold images for validation of shape {train[0].feature_shape}",
          part.feature_shape,
      )
  return examples_lib.ImagePool.of_files("npz", data_dir, examples_lib.pooled(train), test)


def _error(path: str, rule: str, value: Any) -> ValueError:
  """Returns the ValueError for a file that breaks a rule."""
  return ValueError(f"`data_dir` must be an .npz file of images: {path} must {rule}, got {value}.")


def _read_parts(path: str) -> list[examples_lib.Examples]:
  """Returns the examples of the file's parts, those for testing at the end."""
  if os.path.exists(path) and not os.path.isfile(path):
    raise _error(path, "be a file", "something else")  # Reading a named pipe would wait for ever.
  archive: Any = path  # NumPy's types have no paths here.
  try:
    with np.lib.npyio.NpzFile(archive, allow_pickle=False) as file:
      names = set(file.files)
      pairs = [
          pair for pair in (_MEDMNIST if "train_images" in names else _KERAS)
          if pair != _VALIDATION or names.intersection(pair)
      ]
      is_whole = names.issuperset(itertools.chain(*pairs))
      arrays = [[np.asarray(file[name]) for name in pair] for pair in pairs if is_whole]
  except Exception as e:  # pylint: disable=broad-exception-caught
    # A file may hold any bytes, which NumPy meets with any exception.
    cause = getattr(e, "strerror", None) or f"{e}".partition("\n")[0]
    raise _error(path, "be readable", f"the error {cause!r}") from e
  if not is_whole:
    raise _error(path, f"hold {_EXPECTED_NAMES}", reprlib.repr(sorted(names)))
  return [_examples(path, *pair, *found) for pair, found in zip(pairs, arrays)]


def _examples(
    path: str, of_images: str, of_labels: str, images: np.ndarray, labels: np.ndarray
) -> examples_lib.Examples:
  """Returns the examples of arrays, whose names are for messages."""
  if images.dtype != np.uint8 or images.ndim not in (3, 4) or not images.size:
    raise _error(
        path,
        f"hold {of_images} of uint8 and of shape (n, height, width) or (n, height, width, "
        "channels), none of these 0", f"{images.dtype} of shape {images.shape}",
    )
  if labels.dtype.kind not in "iu" or labels.shape not in (images.shape[:1], (len(images), 1)):
    raise _error(
        path,
        f"hold {of_labels} of integers, one for each of the {len(images)} images",
        f"{labels.dtype} of shape {labels.shape}",
    )
  most = examples_lib.MAX_CLASSES["uint8"] - 1
  for label in (labels.min(), labels.max()):
    if not 0 <= label <= most:
      raise _error(path, f"hold {of_labels} in [0, {most}]", label)
  images = images.reshape(*images.shape[:3], -1)
  return examples_lib.Examples(images, labels.reshape(-1).astype(np.uint8))
