import gzip
import os
import pathlib
import struct

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import idx
from tests.tasks import data_files


def _pipe(path):
  # Whoever reads it waits for ever.
  os.unlink(path)
  os.mkfifo(path)


def _folder(path):
  os.unlink(path)
  os.mkdir(path)


def _wrong_kind(path):
  data = data_files.idx_bytes(data_files.idx_arrays()["train labels"]) + bytes(8)
  pathlib.Path(path).write_bytes(data)


def _gzipped(path):
  pathlib.Path(path).write_bytes(gzip.compress(pathlib.Path(path).read_bytes()))


def _huge(path):
  pathlib.Path(path).write_bytes(struct.pack(">4I", 0x0803, 2**32 - 1, 2**16, 2**16) + b"x")


def _longer(path):
  with open(path, "ab") as file:
    file.write(b"more")


def _truncated(num_bytes):
  return lambda path: os.truncate(path, num_bytes)


def _overwritten(position):
  def change(path):
    data = bytearray(pathlib.Path(path).read_bytes())
    data[position : position + 100] = b"\xff" * 100
    pathlib.Path(path).write_bytes(data)
  return change


class IdxTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self._folder = self.create_tempdir().full_path
    self._arrays = data_files.idx_arrays()

  def _write(self, **options):
    return data_files.write_idx_files(self._folder, self._arrays, **options)

  def _assert_holds_the_arrays(self, pool, transposed=False):
    for examples, split in ((pool.pool, "train"), (pool.global_test, "test")):
      images = self._arrays[f"{split} images"]
      if transposed:
        images = images.transpose(0, 2, 1)
      np.testing.assert_array_equal(examples.features[..., 0], images)
      np.testing.assert_array_equal(examples.labels, self._arrays[f"{split} labels"])

  def _assert_refuses(self, shown):
    with self.assertRaisesRegex(ValueError, "`data_dir`") as caught:
      idx.load(self._folder)
    self.assertIn(shown, str(caught.exception))

  @parameterized.parameters(False, True)
  def test_reads_plain_and_gzipped(self, compress):
    self._arrays["test labels"][0] = 46
    self._write(compress=compress)
    pool = idx.load(self._folder)
    self._assert_holds_the_arrays(pool)
    self.assertEqual(pool.num_classes, 47)  # Of both parts.

  def test_puts_emnist_upright(self):
    paths = self._write(prefix="emnist-digits-", compress=True)
    # EMNIST says "test" where MNIST says "t10k".
    for key in ("test images", "test labels"):
      os.rename(paths[key], paths[key].replace("t10k", "test"))
    pathlib.Path(self._folder, "emnist-digits-mapping.txt").write_text("0 48\n")
    self._assert_holds_the_arrays(idx.load(self._folder), transposed=True)

  def test_home_folder(self):
    self._write()
    home, name = os.path.split(self._folder)
    with absltest.mock.patch.dict(os.environ, {"HOME": home}):
      self._assert_holds_the_arrays(idx.load(f"~/{name}"))

  def test_refuses_no_folder_and_an_empty_one(self):
    self._assert_refuses("train images")
    os.rmdir(self._folder)
    self._assert_refuses(self._folder)

  @parameterized.parameters(*data_files.IDX_NAMES)
  def test_refuses_a_missing_file(self, key):
    os.unlink(self._write()[key])
    self._assert_refuses(key)

  def test_refuses_several_files(self):
    self._write(prefix="emnist-digits-")
    self._write(prefix="emnist-digits-", compress=True)
    self._assert_refuses("emnist-digits-train-images-idx3-ubyte.gz")
    self._write(prefix="emnist-letters-")
    self._assert_refuses("emnist-letters-")

  @parameterized.parameters(
      ("train images", _truncated(1000)), ("test labels", _truncated(5)),
      ("train images", _truncated(0)), ("train labels", _longer), ("train images", _wrong_kind),
      ("train labels", _gzipped), ("train images", _huge), ("train images", _folder),
      ("train images", _pipe),
  )
  def test_refuses_a_damaged_file(self, key, damage):
    path = self._write()[key]
    damage(path)
    self._assert_refuses(path)

  @parameterized.parameters(
      _truncated(10), _truncated(5000),
      # Right after the header, which ends with the file's name, and in the middle of data
      # (incompressible, so stored), where only the checksum tells.
      _overwritten(10 + len("train-images-idx3-ubyte\0")), _overwritten(5000),
      lambda path: pathlib.Path(path).write_bytes(gzip.decompress(pathlib.Path(path).read_bytes())),
  )
  def test_refuses_a_damaged_gzip_file(self, damage):
    path = self._write(compress=True)["train images"]
    damage(path)
    self._assert_refuses(path)

  @parameterized.named_parameters(
      ("counts", data_files.IDX_NAMES["train labels"],
       {"train labels": lambda labels: labels[:-3]}),
      ("sizes", "(20, 28, 1)", {"test images": lambda images: images[:, :20]}),
      ("no_images", data_files.IDX_NAMES["train images"],
       dict.fromkeys(data_files.IDX_NAMES, lambda array: array[:0])),
      ("one_class", "only label 0", dict.fromkeys(("train labels", "test labels"), np.zeros_like)),
  )
  def test_refuses_arrays_that_disagree(self, shown, changes):
    for name, change in changes.items():
      self._arrays[name] = change(self._arrays[name])
    self._write()
    self._assert_refuses(shown)
