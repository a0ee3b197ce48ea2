"""Tests for load_model and model_folder: what a damaged or unknown model is refused with."""

import json
import os
import shutil

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from clustering_basics import file_format
from fl_clustering.kmeans import model as model_lib
from fl_clustering import load_model
from fl_clustering.points import secure_sums
from fl_clustering.tables import encode
from fl_clustering.tables import saved
from fl_clustering.tables import schema


def _model():
  features = ("x", "y")
  return load_model.SavedKMeans(
      model_lib.KMeansModel(
          np.array([[0.0, 0.0], [1 / 3, 900.0]]),
          # The first column counts most, though its numbers are small.
          secure_sums.Scaling(np.array([0.5, 1.0]), np.array([1e4, 1.0])),
      ),
      saved.SavedTables(
          schema.strict(features), encode.Scaling(np.zeros(2), np.zeros(2), np.ones(2))
      ),
  )


class LoadModelTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.run = self.create_tempdir().full_path
    self.folder = os.path.join(self.run, "model")
    _model().save(self.folder)

  def _edit(self, **changes):
    path = os.path.join(self.folder, "model.json")
    with open(path, encoding="utf-8") as file:
      document = json.load(file)
    document = {
        name: value for name, value in {**document, **changes}.items()
        if value is not None or name not in changes
    }
    with open(path, "w", encoding="utf-8") as file:
      json.dump(document, file)

  def _overwrite(self, name, content):
    with open(os.path.join(self.folder, name), "wb") as file:
      file.write(content)

  def test_by_the_runs_folder_or_its_own(self):
    # In the data's units the first row is nearer to the second centroid.
    frame = pd.DataFrame({"y": [900.0, 500.0], "x": [0.0, 0.3]})
    for path in (self.run, self.folder):
      model = load_model.load_model(path)
      self.assertIsInstance(model, load_model.SavedKMeans)
      np.testing.assert_array_equal(model.centroids, _model().centroids)
      self.assertEqual(model.predict(frame).tolist(), [0, 1])

  def test_every_kind_has_what_programs_call(self):
    for kind in load_model.KINDS.values():
      for name in ("save", "load", "open_folder", "predict", "predict_tables"):
        self.assertTrue(callable(getattr(kind, name)), (kind, name))

  @parameterized.parameters("model.json", "arrays.npz")
  def test_a_device_is_not_read(self, name):
    os.remove(os.path.join(self.folder, name))
    os.symlink(os.devnull, os.path.join(self.folder, name))
    rule = "be the folder of a finished run" if name == "model.json" else "hold files and folders"
    self.assertIn(f"`run` must {rule}", self._refused())

  def _refused(self):
    """Returns the message that the model is refused with."""
    with self.assertRaises(ValueError) as caught:
      load_model.load_model(self.run)
    message = str(caught.exception)
    self.assertNotIn("\n", message)
    return message

  def test_no_model(self):
    shutil.rmtree(self.folder)
    self.assertRegex(
        self._refused(), "`run` must be the folder of a finished run with a model in it, got '"
    )

  @parameterized.named_parameters(
      ("broken JSON", b'{"kind": "fed', "model.json': Unterminated string"),
      ("no object", b"[1]", "model.json': "),
      ("no kind", b'{"format": 2}', "model.json': 'kind'"),
      ("no text", b"\xff\xfe", "model.json': 'utf-8' codec"),
  )
  def test_a_damaged_document(self, content, message):
    self._overwrite("model.json", content)
    self.assertRegex(self._refused(), f"`run` must hold a model that can be read, got '.*{message}")

  def test_another_format(self):
    for format_, found in ((None, 1), (file_format.FORMAT + 1, file_format.FORMAT + 1)):
      self._edit(format=format_)
      self.assertRegex(
          self._refused(), f"must hold a model that can be read, .*of format {found}, and this"
      )

  def test_an_unknown_kind(self):
    self._edit(kind="oracle")
    self.assertRegex(
        self._refused(),
        f"must hold a model of a kind in {', '.join(load_model.KINDS)}, got 'oracle' in '",
    )

  def test_a_document_without_its_tables(self):
    self._edit(tables=None)
    self.assertRegex(self._refused(), "must hold a model that can be read, .*KeyError: 'tables'")

  @parameterized.named_parameters(("no NPZ", b"PK\x03\x04"), ("text", b"text"), ("empty", b""))
  def test_damaged_arrays(self, content):
    self._overwrite("arrays.npz", content)
    self.assertRegex(self._refused(), "must hold a model that can be read, got '.*arrays.npz': ")

  def test_half_a_file_of_arrays(self):
    path = os.path.join(self.folder, "arrays.npz")
    with open(path, "rb") as file:
      content = file.read()
    self._overwrite("arrays.npz", content[: len(content) // 2])
    self.assertRegex(self._refused(), "arrays.npz': ")

  def test_a_changed_byte_of_the_arrays(self):
    path = os.path.join(self.folder, "arrays.npz")
    with open(path, "rb") as file:
      content = bytearray(file.read())
    # In the numbers of the first array, after its name and its header of 128 bytes.
    place = content.index(b"NUMPY") + 130
    content[place] ^= 1
    self._overwrite("arrays.npz", bytes(content))
    self.assertRegex(self._refused(), "arrays.npz': ")

  def test_arrays_of_another_model(self):
    np.savez(os.path.join(self.folder, "arrays.npz"), centers=np.zeros(3))
    self.assertRegex(self._refused(), "must hold a model that can be read, .*KeyError: 'centroids'")

  def test_no_pickles(self):
    np.savez(os.path.join(self.folder, "arrays.npz"), centroids=np.array([{}], object))
    self.assertRegex(self._refused(), "arrays.npz': Object arrays cannot be loaded")

  def test_no_arrays(self):
    os.remove(os.path.join(self.folder, "arrays.npz"))
    with self.assertRaisesRegex(OSError, "arrays.npz"):
      load_model.load_model(self.run)


if __name__ == "__main__":
  absltest.main()
