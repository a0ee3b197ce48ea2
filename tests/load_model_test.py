"""Tests for load_model and model_folder: what a damaged or unknown model is refused with."""

import json
import os
import pathlib
import shutil
from unittest import mock

from absl.testing import parameterized
import numpy as np
import pandas as pd

from clustering_basics import file_format
from clustering_basics import model_folder
from dp_clustering import private_centers
from fl_clustering.kmeans import model as model_lib
from fl_clustering import load_model
from fl_clustering.points import fitted
from fl_clustering.points import secure_sums
from fl_clustering.tables import encode
from fl_clustering.tables import saved
from fl_clustering.tables import schema


def _model():
  features, centroids = ("x", "y"), np.array([[0.0, 0.0], [1 / 3, 900.0]])
  # The first column counts most, though its numbers are small.
  scaling = encode.FeatureScaling(np.array([0.5, 1.0]), np.array([1e4, 1.0]), np.zeros(2))
  return load_model.SavedKMeans(
      model_lib.KMeansModel(scaling.apply(centroids)), centroids,
      saved.SavedTables({schema.NO_VIEW: schema.strict(features)}, scaling),
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

  def test_a_columns_scaling_is_saved_once(self):
    _, document, arrays = model_folder.read(self.folder)
    self.assertEqual(list(arrays), ["centroids"])
    self.assertCountEqual(document["tables"]["scaling"], ("shift", "factor", "fill"))
    bounded = schema.Schema((schema.Field("x", minimum=40, maximum=60),))
    tables = saved.SavedTables.private({schema.NO_VIEW: bounded})
    document = tables.to_json()
    self.assertIsNone(document["scaling"])
    scaled = saved.SavedTables.from_json(document).features(np.array([[55.0], [np.nan]]))
    np.testing.assert_array_equal(scaled, [[0.5], [0]])

  def test_private_centers_are_moved_into_the_schemas_bounds(self):
    own, deviations = _model(), np.ones((2, 2))
    scaling = own.tables.scaling
    fields = (schema.Field("x", minimum=-1.0, maximum=0.2), schema.Field("y", minimum=1.0, center=1.0, scale=900.0))
    tables = saved.SavedTables({schema.NO_VIEW: schema.Schema(fields)}, scaling)
    noise = private_centers.PrivateCenters(own.centroids, deviations, np.ones(2), np.ones(2))
    fit = fitted.Fit(
        own.model, secure_sums.Scaling(0, 1), scaling.apply(own.centroids), (), 1, noise=noise
    )
    found = load_model.SavedKMeans.of_fit(fit, tables)
    for centers in (found.centroids, found.noise.centers):
      np.testing.assert_allclose(centers, [[0, 1], [0.2, 900]])

  def test_later_rows_may_have_new_labels(self):
    kind = schema.Field("kind", "string", enum=("known",))
    own = schema.Schema((*schema.strict(("x", "y")).fields, kind), label="kind")
    model = _model()
    fit = fitted.Fit(
        model.model, secure_sums.Scaling(np.zeros(2), np.ones(2)), model.centroids, (), 1
    )
    tables = saved.SavedTables({schema.NO_VIEW: own}, model.tables.scaling)
    found = load_model.SavedKMeans.of_fit(fit, tables)
    folder = self.create_tempdir()
    folder.create_file("a.csv", "x,y,kind\n1,2,unheard of\n")
    (rows,) = found.tables.open_folder(folder.full_path).values()
    np.testing.assert_array_equal(rows.features, [[1, 2]])

  def test_every_kind_has_what_programs_call(self):
    for kind in load_model.KINDS.values():
      for name in ("save", "load", "predict", "predict_tables"):
        self.assertTrue(callable(getattr(kind, name)), (kind, name))

  def _assert_refused(self, name):
    with self.assertRaises((ValueError, OSError)) as caught:
      load_model.load_model(self.run)
    self.assertIn(name, str(caught.exception))
    self.assertNotIn("\n", str(caught.exception))

  @parameterized.parameters(
      (r"fields\[y\]", ("x",), {}), (r"fields\[z\]", ("x", "y", "z"), {}),
      ("client", ("x", "y", "who"), {"client": "who"}),
  )
  def test_rows_of_another_schema_are_refused(self, shown, columns, roles):
    with self.assertRaisesRegex(ValueError, f"`{shown}`"):
      _model().tables.later({schema.NO_VIEW: schema.strict(columns, **roles)})

  def test_later_rows_may_have_another_dialect_and_other_missing_cells(self):
    given = {schema.NO_VIEW: schema.Schema(
        schema.strict(("x", "y")).fields, missing_values=("", "-999"), missing="mean",
        delimiter=";", decimal=",",
    )}
    self.assertEqual(_model().tables.later(given), given)

  def test_no_row_of_the_fit_is_farther_than_the_farthest(self):
    rows = mock.Mock(**{"values.return_value": [mock.Mock(features=None)]})
    for farthest in (8.0, np.nextafter(8.0, 9), np.nextafter(1024.0, 2000), 3.0, 0.0):
      with mock.patch.object(
          load_model.SavedKMeans, "predictions", return_value={"distance": np.array([farthest])}
      ):
        found = _model().knowing_farthest(rows).farthest
      self.assertBetween(found, farthest, 1.5 * farthest)

  def test_no_model(self):
    shutil.rmtree(self.folder)
    self._assert_refused("`run`")

  @parameterized.parameters("model.json", "arrays.npz")
  def test_a_device_is_not_read_and_a_missing_file_is_named(self, name):
    path = os.path.join(self.folder, name)
    os.remove(path)
    self._assert_refused("`run`" if name == "model.json" else name)
    os.symlink(os.devnull, path)
    self._assert_refused("`run`")

  @parameterized.parameters(b'{"kind": "fed', b"[1]", b'{"format": 2}', b"\xff\xfe", b"[" * 10**5)
  def test_a_damaged_document(self, content):
    self._overwrite("model.json", content)
    self._assert_refused("model.json")

  @parameterized.parameters(
      ("format 1", {"format": None}),
      (f"format {file_format.FORMAT + 1}", {"format": file_format.FORMAT + 1}),
      ("'oracle'", {"kind": "oracle"}), ("'tables'", {"tables": None}),
      ("oracle", {"kind": ["oracle"]}), ("radius", {"radius": "1"}), ("radius", {"radius": [1]}),
  )
  def test_a_document_of_another_model(self, shown, changes):
    self._edit(**changes)
    self._assert_refused(shown)

  @parameterized.parameters(
      lambda content: b"PK\x03\x04", lambda content: b"text", lambda content: b"",
      lambda content: content[: len(content) // 2],
      # A byte in the numbers of the first array, after its name and its header of 128 bytes.
      lambda content: (place := content.index(b"NUMPY") + 130) and (
          content[:place] + bytes([content[place] ^ 1]) + content[place + 1:]),
  )
  def test_damaged_arrays(self, damage):
    path = pathlib.Path(self.folder, "arrays.npz")
    path.write_bytes(damage(path.read_bytes()))
    self._assert_refused("arrays.npz")

  @parameterized.parameters(
      ("'centroids'", {"centers": np.zeros(3)}),
      ("arrays.npz", {"centroids": np.array([{}], object)}),  # No pickles.
      ("'centroids'", {"centroids": np.array([["x"]])}),
  )
  def test_arrays_of_another_model(self, shown, arrays):
    np.savez(os.path.join(self.folder, "arrays.npz"), **arrays)
    self._assert_refused(shown)
