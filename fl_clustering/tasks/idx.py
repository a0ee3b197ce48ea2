"""A folder of images and labels in the IDX format of MNIST, plain or gzipped.

MNIST, Fashion-MNIST and EMNIST come as four such files: images and labels to
train on and to test on.  The format: two zero bytes, the type (8: unsigned
bytes), the number of dimensions, each dimension as a big-endian 32-bit integer,
then the data.

References:
  Yann LeCun, Corinna Cortes, Christopher Burges. The MNIST database of
  handwritten digits. http://yann.lecun.com/exdb/mnist/
  Gregory Cohen, Saeed Afshar, Jonathan Tapson, Andre van Schaik. EMNIST: an
  extension of MNIST to handwritten letters. 2017.
  https://arxiv.org/abs/1702.05373
"""

import gzip
import itertools
import math
import os
import re
import struct
import zlib
from typing import Any

import numpy as np

from fl_clustering.tasks import examples as examples_lib

_FILE_NAME = re.compile(
    r"(?P<set>.*?)(?P<split>train|t10k|test)-(?P<kind>images|labels)[-.]idx[13]-ubyte(\.gz)?"
)

# Type and number of dimensions are the last two bytes of the magic number.
_MAGIC = {"images": 0x0803, "labels": 0x0801}

_EXPECTED_NAMES = "train-images-idx3-ubyte, train-labels-idx1-ubyte, and t10k- or test- likewise"


def load(data_dir: str) -> examples_lib.ImagePool:
  """Returns the folder's training files as pool and its test files as global test set.

  Args:
    data_dir: A folder with one data set.  EMNIST's own files
      (`emnist-*-images-idx3-ubyte`) hold every image transposed; they are put
      upright.

  Raises:
    ValueError: If a file is missing, not readable, not in the format or cut
      short, if there is more than one data set, or if counts or sizes disagree.
  """
  set_name, paths = _find_files(data_dir)
  transposed = set_name.startswith("emnist-")
  train = _read_examples(paths["train", "images"], paths["train", "labels"], transposed)
  test = _read_examples(paths["test", "images"], paths["test", "labels"], transposed)
  return examples_lib.ImagePool.of_files("idx", data_dir, train, test)


def _error(path: str, rule: str, value: Any) -> ValueError:
  """Returns the ValueError for a file that breaks a rule."""
  return ValueError(f"`data_dir` must hold whole IDX files: {path} must {rule}, got {value}.")


def _find_files(data_dir: str) -> tuple[str, dict[tuple[str, str], str]]:
  """Returns the set's name and the four paths by ("train" or "test", kind)."""
  try:
    names = sorted(os.listdir(os.path.expanduser(data_dir)))
  except OSError as error:
    raise ValueError(
        f"`data_dir` must be a readable folder of IDX files, got {data_dir!r} ({error.strerror})."
    ) from error
  matches = [match for match in map(_FILE_NAME.fullmatch, names) if match]
  set_names = sorted({match["set"] for match in matches})
  if len(set_names) > 1:
    raise ValueError(
        "`data_dir` must hold the IDX files of one data set (give each a folder of its own), got "
        f"file names beginning with {', '.join(map(repr, set_names))} in {data_dir!r}."
    )
  paths = {}
  for split, kind in itertools.product(("train", "test"), _MAGIC):
    found = [
        match.string for match in matches
        if match["kind"] == kind and (match["split"] == "train") == (split == "train")
    ]
    if len(found) != 1:
      raise ValueError(
          f"`data_dir` must hold one file of {split} {kind} ({_EXPECTED_NAMES}, plain or .gz), "
          f"got {', '.join(found) or 'none'} in {data_dir!r}."
      )
    paths[split, kind] = os.path.join(os.path.expanduser(data_dir), found[0])
  return set_names[0], paths


def _read_examples(
    images_path: str, labels_path: str, transposed: bool
) -> examples_lib.Examples:
  images = _read_array(images_path, "images")
  labels = _read_array(labels_path, "labels")
  if len(images) != len(labels):
    raise _error(
        labels_path, f"hold one label for each of the {len(images)} images", len(labels)
    )
  if not images.size:
    raise _error(images_path, "hold at least one image", f"the shape {images.shape}")
  if transposed:
    images = images.transpose(0, 2, 1)
  return examples_lib.Examples(np.ascontiguousarray(images)[..., np.newaxis], labels)


def _read_array(path: str, kind: str) -> np.ndarray:
  """Returns the uint8 array in one IDX file."""
  data = _read_bytes(path)
  num_dims = _MAGIC[kind] & 0xFF
  header = struct.Struct(f">{1 + num_dims}I")
  if len(data) < header.size:
    raise _error(path, f"begin with {header.size} bytes of header", f"{len(data)} bytes in all")
  magic, *shape = header.unpack_from(data)
  if magic != _MAGIC[kind]:
    raise _error(path, f"begin with the number {_MAGIC[kind]}, as {kind} of bytes do", magic)
  num_bytes = len(data) - header.size
  if num_bytes != math.prod(shape):
    raise _error(
        path,
        f"hold the {math.prod(shape)} bytes of data that its header announces",
        f"{num_bytes} (is it cut short?)" if num_bytes < math.prod(shape) else num_bytes,
    )
  return np.frombuffer(data, np.uint8, offset=header.size).reshape(shape)


def _read_bytes(path: str) -> bytes:
  opener: Any = gzip.open if path.endswith(".gz") else open
  if os.path.exists(path) and not os.path.isfile(path):
    # Reading a named pipe would wait for ever.
    raise _error(path, "be a file", "something else")
  try:
    with opener(path, "rb") as file:
      return file.read()
  except (gzip.BadGzipFile, EOFError, zlib.error) as error:
    raise _error(path, "be a whole gzip file, as its name says", f"the error '{error}'") from error
  except OSError as error:
    raise _error(path, "be readable", f"the error {error.strerror!r}") from error
