import gzip
import os
import pathlib
import struct

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import idx
from tests.tasks import data_files


class IdxTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self._folder = self.create_tempdir().full_path
    self._arrays = data_files.idx_arrays()

  def _write(self, folder=None, **options):
    return data_files.write_idx_files(folder or self._folder, self._arrays, **options)

  def _assert_holds_the_arrays(self, pool, transposed=False):
    for examples, split in ((pool.pool, "train"), (pool.global_test, "test")):
      images = self._arrays[f"{split} images"]
      if transposed:
        images = images.transpose(0, 2, 1)
      np.testing.assert_array_equal(examples.features[..., 0], images)
      np.testing.assert_array_equal(examples.labels, self._arrays[f"{split} labels"])

  @parameterized.parameters(False, True)
  def test_reads_plain_and_gzipped(self, compress):
    self._write(compress=compress)
    pool = idx.load(self._folder)
    self._assert_holds_the_arrays(pool)
    self.assertEqual(pool.name, "idx")
    self.assertEqual(pool.num_classes, 10)
    self.assertIn(self._folder, pool.source)
    self.assertIn("40 + 10 images", pool.source)

  def test_reads_the_folder_of_the_npm_package(self):
    folder = pathlib.Path(self._folder, "package", "data")
    folder.mkdir(parents=True)
    for name, key in (
        ("t10k-images-idx3-ubyte", "test images"),
        ("t10k-labels-idx1-ubyte", "test labels"),
        ("train-images-idx3-ubyte", "train images"),
        ("train-labels-idx1-ubyte", "train labels"),
    ):
      (folder / name).write_bytes(data_files.idx_bytes(self._arrays[key]))
    self._assert_holds_the_arrays(idx.load(str(folder)))

  def test_puts_emnist_upright(self):
    paths = self._write(prefix="emnist-digits-", compress=True)
    # EMNIST says "test" where MNIST says "t10k".
    for key in ("test images", "test labels"):
      os.rename(paths[key], paths[key].replace("t10k", "test"))
    pathlib.Path(self._folder, "emnist-digits-mapping.txt").write_text("0 48\n")
    pool = idx.load(self._folder)
    self._assert_holds_the_arrays(pool, transposed=True)
    self.assertIn("emnist-digits", pool.source)

  def test_counts_classes_over_both_splits(self):
    self._arrays["test labels"][0] = 46
    self._write()
    self.assertEqual(idx.load(self._folder).num_classes, 47)

  def test_home_folder(self):
    self._write()
    home, name = os.path.split(self._folder)
    with absltest.mock.patch.dict(os.environ, {"HOME": home}):
      self._assert_holds_the_arrays(idx.load(f"~/{name}"))

  def test_missing_folder(self):
    missing = os.path.join(self._folder, "missing")
    with self.assertRaisesRegex(ValueError, "`data_dir` .*readable folder .*missing.*No such"):
      idx.load(missing)

  def test_empty_folder(self):
    with self.assertRaisesRegex(ValueError, "`data_dir` must hold one file of train images .*none"):
      idx.load(self._folder)

  @parameterized.parameters(*data_files.IDX_NAMES)
  def test_missing_file(self, key):
    os.unlink(self._write()[key])
    with self.assertRaisesRegex(ValueError, f"`data_dir` must hold one file of {key} .*got none"):
      idx.load(self._folder)

  def test_plain_and_gzipped_side_by_side(self):
    self._write()
    self._write(compress=True)
    with self.assertRaisesRegex(ValueError, r"one file of train images .*ubyte, train.*ubyte.gz"):
      idx.load(self._folder)

  def test_several_data_sets(self):
    self._write(prefix="emnist-digits-")
    self._write(prefix="emnist-letters-")
    with self.assertRaisesRegex(
        ValueError, "`data_dir` .* one data set .*'emnist-digits-', 'emnist-letters-'"
    ):
      idx.load(self._folder)

  def test_truncated(self):
    path = self._write()["train images"]
    os.truncate(path, 1000)
    # 40 images of 28x28; 16 of the 1000 bytes are header.
    with self.assertRaisesRegex(
        ValueError, f"`data_dir` .*{path} must hold the 31360 bytes .*got 984 .*cut short"
    ):
      idx.load(self._folder)

  def test_truncated_in_the_header(self):
    path = self._write()["test labels"]
    os.truncate(path, 5)
    with self.assertRaisesRegex(ValueError, f"{path} must begin with 8 bytes of header, got 5"):
      idx.load(self._folder)

  def test_longer_than_its_header_says(self):
    path = self._write()["train labels"]
    with open(path, "ab") as file:
      file.write(b"more")
    with self.assertRaisesRegex(ValueError, f"{path} must hold the 40 bytes .*got 44"):
      idx.load(self._folder)

  @parameterized.parameters(10, 200, 5000)
  def test_truncated_gzip(self, num_bytes):
    path = self._write(compress=True)["train images"]
    os.truncate(path, num_bytes)
    with self.assertRaisesRegex(ValueError, f"{path} must be a whole gzip .*got .*ended before"):
      idx.load(self._folder)

  @parameterized.parameters(
      # Right after the header, which ends with the file's name, and in the middle
      # of data (incompressible, so stored), where only the checksum tells.
      (10 + len("train-images-idx3-ubyte\0"), "invalid"),
      (5000, "CRC"),
  )
  def test_damaged_gzip(self, position, cause):
    path = self._write(compress=True)["train images"]
    data = bytearray(pathlib.Path(path).read_bytes())
    data[position : position + 100] = b"\xff" * 100
    pathlib.Path(path).write_bytes(data)
    with self.assertRaisesRegex(ValueError, f"{path} must be a whole gzip .*{cause}"):
      idx.load(self._folder)

  def test_gzip_in_name_only(self):
    path = self._write()["train images"]
    os.rename(path, path + ".gz")
    with self.assertRaisesRegex(ValueError, f"{path}.gz must be a whole gzip .*Not a gzipped"):
      idx.load(self._folder)

  def test_empty_file(self):
    path = self._write()["train images"]
    os.truncate(path, 0)
    with self.assertRaisesRegex(ValueError, f"{path} must begin with 16 bytes .*got 0"):
      idx.load(self._folder)

  def test_wrong_magic_number(self):
    paths = self._write()
    pathlib.Path(paths["train images"]).write_bytes(
        data_files.idx_bytes(self._arrays["train labels"]) + bytes(8)
    )
    with self.assertRaisesRegex(ValueError, "must begin with the number 2051, .*got 2049"):
      idx.load(self._folder)

  def test_gzipped_without_saying_so(self):
    path = self._write()["train labels"]
    pathlib.Path(path).write_bytes(gzip.compress(pathlib.Path(path).read_bytes()))
    with self.assertRaisesRegex(ValueError, f"{path} must begin with the number 2049"):
      idx.load(self._folder)

  def test_huge_dimensions_are_an_error_and_no_allocation(self):
    path = self._write()["train images"]
    pathlib.Path(path).write_bytes(struct.pack(">4I", 0x0803, 2**32 - 1, 2**16, 2**16) + b"x")
    with self.assertRaisesRegex(ValueError, f"{path} must hold the .*got 1 "):
      idx.load(self._folder)

  def test_counts_that_disagree(self):
    self._arrays["train labels"] = self._arrays["train labels"][:-3]
    path = self._write()["train labels"]
    with self.assertRaisesRegex(ValueError, f"{path} must hold one label .* 40 images, got 37"):
      idx.load(self._folder)

  def test_sizes_that_disagree(self):
    self._arrays["test images"] = self._arrays["test images"][:, :20]
    path = self._write()["test images"]
    with self.assertRaisesRegex(ValueError, f"{path} must hold images of 28x28 .*got 20x28"):
      idx.load(self._folder)

  def test_no_images(self):
    for key in self._arrays:
      self._arrays[key] = self._arrays[key][:0]
    path = self._write()["train images"]
    with self.assertRaisesRegex(ValueError, f"{path} must hold at least one image"):
      idx.load(self._folder)

  def test_one_class(self):
    for key in ("train labels", "test labels"):
      self._arrays[key] = np.zeros_like(self._arrays[key])
    path = self._write()["train labels"]
    with self.assertRaisesRegex(ValueError, f"{path} must hold labels of at least two classes"):
      idx.load(self._folder)

  @parameterized.named_parameters(("folder", os.mkdir), ("pipe", os.mkfifo))
  def test_something_else_in_place_of_a_file(self, make):
    # Whoever reads the pipe waits for ever.
    path = self._write()["train images"]
    os.unlink(path)
    make(path)
    with self.assertRaisesRegex(ValueError, f"{path} must be a file, got something else"):
      idx.load(self._folder)


if __name__ == "__main__":
  absltest.main()
