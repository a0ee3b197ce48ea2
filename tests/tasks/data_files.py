"""Small data files for tests, in the formats that the readers read."""

import gzip
import os
import sqlite3
import struct
from unittest import mock
import urllib.error
import urllib.request

import numpy as np
from sklearn import datasets

from fl_clustering.tasks import emnist
from fl_clustering.tasks import examples as examples_lib

IDX_NAMES = {
    "train images": "train-images-idx3-ubyte",
    "train labels": "train-labels-idx1-ubyte",
    "test images": "t10k-images-idx3-ubyte",
    "test labels": "t10k-labels-idx1-ubyte",
}


def idx_bytes(array):
  """Returns a uint8 array as the contents of an IDX file."""
  header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
  return header + array.astype(np.uint8).tobytes()


def idx_arrays(num_train=40, num_test=10, size=28, num_classes=10, seed=0):
  """Returns random images and labels by the keys of `IDX_NAMES`."""
  rng = np.random.default_rng(seed)
  return {
      "train images": rng.integers(0, 256, (num_train, size, size), dtype=np.uint8),
      "train labels": (np.arange(num_train) % num_classes).astype(np.uint8),
      "test images": rng.integers(0, 256, (num_test, size, size), dtype=np.uint8),
      "test labels": (np.arange(num_test) % num_classes).astype(np.uint8),
  }


def write_idx_files(folder, arrays, prefix="", compress=False):
  """Writes the four files of a data set, returns their paths by key."""
  paths = {}
  for key, name in IDX_NAMES.items():
    paths[key] = os.path.join(folder, prefix + name + (".gz" if compress else ""))
    with (gzip.open if compress else open)(paths[key], "wb") as file:
      file.write(idx_bytes(arrays[key]))
  return paths


def pool_of(everything, num_examples, num_classes=10):
  """Returns examples as a pool, of which the last ones are the global test set."""
  return examples_lib.ImagePool(
      "examples", "made up", everything.take(slice(num_examples)),
      everything.take(slice(num_examples, None)), "made up", num_classes,
  )


def photo_arrays(num_train=400, num_test=50, size=16):
  """Returns pieces of the two photos that scikit-learn has, as Keras names arrays.

  The label says of which half of which photo, of four, an image is a piece.
  """
  pieces = []
  for photo in datasets.load_sample_images().images:
    for half in np.array_split(photo, 2):
      places = np.ndindex(half.shape[0] // size, half.shape[1] // size)
      pieces.append([half[y * size :, x * size :][:size, :size] for y, x in places])
  number = num_train + num_test
  chosen = np.random.default_rng(0).permutation(len(pieces[0]))[: -(-number // 4)]
  images = np.array(pieces)[:, chosen].swapaxes(0, 1).reshape(-1, size, size, 3)[:number]
  labels = (np.arange(number) % 4).astype(np.uint8)
  return {
      "x_train": images[:num_train], "y_train": labels[:num_train],
      "x_test": images[num_train:], "y_test": labels[num_train:],
  }


def writer_examples(num_writers=6, num_train=8, num_test=3, seed=0):
  """Returns {split: {writer: (pixels, labels)}} of random digits, paper being 1."""
  rng = np.random.default_rng(seed)
  splits = {}
  for split, num_examples in (("digits_only_train", num_train), ("digits_only_test", num_test)):
    splits[split] = {
        f"f{i:04d}_{i % 3:02d}": (
            # Bytes as floats, as in the real file.
            (rng.integers(0, 256, (num_examples, 28, 28)) / 255).astype(np.float32),
            rng.integers(0, 10, num_examples).astype(np.int32),
        )
        for i in range(num_writers)
    }
  return splits


def no_network():
  """Returns a context in which no download is answered."""
  error = urllib.error.URLError(ConnectionRefusedError("refused"))
  return mock.patch.object(urllib.request, "urlopen", side_effect=error)


def write_emnist_file(folder, splits):
  """Writes `emnist_all.sqlite` in TFF's own schema, returns its path."""
  import tensorflow as tf
  import tensorflow_federated as tff

  path = os.path.join(folder, emnist.FILE_NAME)
  for split, examples_by_writer in splits.items():

    def dataset_fn(writer, examples_by_writer=examples_by_writer):
      pixels, labels = examples_by_writer[writer]
      return tf.data.Dataset.from_tensor_slices({"label": labels, "pixels": pixels})

    # TFF's function gives each client one split: one file a split, then merged.
    split_path = f"{path}.{split}"
    tff.simulation.datasets.save_to_sql_client_data(
        client_ids=list(examples_by_writer),
        dataset_fn=dataset_fn,
        database_filepath=split_path,
        split_names_by_client_id={writer: split for writer in examples_by_writer},
    )
    if not os.path.exists(path):
      os.rename(split_path, path)
      continue
    database = sqlite3.connect(path)
    with database:
      database.execute("ATTACH ? AS other", (split_path,))
      database.execute("INSERT INTO examples SELECT * FROM other.examples")
      database.execute("INSERT INTO client_metadata SELECT * FROM other.client_metadata")
    database.close()
    os.unlink(split_path)
  return path
