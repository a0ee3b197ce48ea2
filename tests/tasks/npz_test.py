import io
import os
import pathlib
import zipfile

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import npz
from tests.tasks import data_files


def _of_medmnist(arrays):
  """Returns the arrays by MedMNIST's names, the first training images being for validation."""
  parts = {"val": slice(100), "train": slice(100, None), "test": slice(None)}
  return {
      f"{part}_{kind}": arrays[f"{letter}_{'test' if part == 'test' else 'train'}"][rows]
      for part, rows in parts.items() for kind, letter in (("images", "x"), ("labels", "y"))
  }


class NpzTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self._path = os.path.join(self.create_tempdir().full_path, "photos.npz")
    self._arrays = data_files.photo_arrays()

  def _load(self, **arrays):
    np.savez(self._path, **arrays)
    return npz.load(self._path)

  def _assert_refuses(self, shown):
    with self.assertRaisesRegex(ValueError, "^`data_dir` .*[^\n]*$") as caught:
      npz.load(self._path)
    for part in (self._path, shown):
      self.assertIn(part, str(caught.exception))

  def test_images_of_keras_and_of_medmnist(self):
    pool = self._load(**self._arrays, more=np.zeros(3))
    for part, examples in (("train", pool.pool), ("test", pool.global_test)):
      np.testing.assert_array_equal(examples.features, self._arrays[f"x_{part}"])
      np.testing.assert_array_equal(examples.labels, self._arrays[f"y_{part}"])
    self.assertEqual(pool.num_classes, 4)
    self.assertIn(self._path, pool.source)
    arrays = _of_medmnist(self._arrays)
    for name in ("train_labels", "val_labels", "test_labels"):
      arrays[name] = arrays[name][:, np.newaxis].astype(np.int64)
    pool = self._load(**arrays)
    order = np.roll(np.arange(len(pool.pool)), -100)  # Those for validation at the end.
    np.testing.assert_array_equal(pool.pool.features, self._arrays["x_train"][order])
    np.testing.assert_array_equal(pool.pool.labels, self._arrays["y_train"][order])
    np.testing.assert_array_equal(pool.global_test.labels, self._arrays["y_test"])

  def test_images_without_colors_and_a_compressed_file(self):
    grey = {name: x[..., 0] if x.ndim == 4 else x for name, x in self._arrays.items()}
    np.savez_compressed(self._path, **grey)
    home, name = os.path.split(self._path)
    with absltest.mock.patch.dict(os.environ, {"HOME": home}):
      pool = npz.load(f"~/{name}")
    np.testing.assert_array_equal(pool.pool.features, self._arrays["x_train"][..., :1])

  @parameterized.named_parameters(
      ("floats", "x_train", lambda x: x / 255),
      ("no_height", "x_train", lambda x: x.reshape(len(x), -1)),
      ("no_images", "x_test", lambda x: x[:0]),
      ("no_columns", "x_test", lambda x: x[:, :, :0]),
      ("other_size", "(14, 16, 3)", lambda x: x[:, 2:], "x_test"),
      ("counts", "y_train", lambda y: y[1:]),
      ("several_labels", "y_test", lambda y: np.eye(4, dtype=np.uint8)[y]),
      ("words", "y_test", lambda y: y.astype(str)),
      ("below_zero", "-1", lambda y: y.astype(int) - 1, "y_test"),
      ("too_many", "258", lambda y: y.astype(int) + 255, "y_train"),
      ("objects", "pickle", lambda y: y.astype(object), "y_train"),
  )
  def test_refuses_other_arrays(self, shown, change, name=None):
    name = name or shown
    np.savez(self._path, **{**self._arrays, name: change(self._arrays[name])})
    self._assert_refuses(shown)

  def test_refuses_one_class_and_what_is_not_whole(self):
    np.savez(self._path, **{k: x * (x.ndim == 4) for k, x in self._arrays.items()})
    self._assert_refuses("only label 0")
    del self._arrays["y_test"]
    np.savez(self._path, **self._arrays)
    self._assert_refuses("got ['x_test', 'x_train', 'y_train']")
    arrays = _of_medmnist(data_files.photo_arrays())
    np.savez(self._path, **{**arrays, "val_images": arrays["val_images"][:, 2:]})
    self._assert_refuses("(14, 16, 3)")
    del arrays["val_labels"]
    np.savez(self._path, **arrays)
    self._assert_refuses("'train_images', 'train_labels', 'val_images']")
    np.savez(self._path)
    self._assert_refuses("got []")

  def test_refuses_a_damaged_file(self):
    self._assert_refuses("No such file")
    np.savez_compressed(self._path, **self._arrays)
    whole = pathlib.Path(self._path).read_bytes()
    middle = len(whole) // 2
    for damaged in (b"", whole[:middle], whole[:middle] + b"\xff" * 50 + whole[middle + 50 :]):
      pathlib.Path(self._path).write_bytes(damaged)
      self._assert_refuses("error")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (2**40, 2**20, 4)}
    )
    with zipfile.ZipFile(self._path, "w") as file:
      for name in self._arrays:
        file.writestr(f"{name}.npy", header.getvalue())
    self._assert_refuses("error")

  def test_refuses_what_is_no_file(self):
    for make in (os.mkdir, os.mkfifo):
      make(self._path)
      self._assert_refuses("be a file")
      (os.rmdir if make is os.mkdir else os.unlink)(self._path)
