"""Tests for the multi-view data sets."""

import os
import re

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.multi_view import config as config_lib
from experiments.multi_view import data
from fl_clustering.tables import bad_table
from fl_clustering.tables import views

_WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}


class DigitViewsTest(absltest.TestCase):

  def test_a_leaning_stroke_is_set_upright_in_the_middle(self):
    image = np.zeros((1, 28, 28))
    for row in range(4, 20):
      image[0, row, 3 + row // 2 : 6 + row // 2] = 1.0
    stroke = data.upright(image)[0]
    np.testing.assert_allclose(stroke.sum(), image.sum(), rtol=0.01)
    # Three columns wide, and what lies between two columns.
    self.assertGreater(stroke[:, 11:17].sum(), 0.99 * stroke.sum())
    for places in np.indices(stroke.shape):
      np.testing.assert_allclose((places * stroke).sum() / stroke.sum(), 13.5, atol=0.05)

  def test_an_empty_picture_has_finite_views(self):
    found = data.digit_views(np.zeros((1, 28, 28)))
    widths = {name: view.shape[1] for name, view in found.items()}
    self.assertEqual(
        widths, {"pixels": 196, "fourier": 120, "gradients": 128, "projections": 166}
    )
    for view in found.values():
      np.testing.assert_allclose(view, 0)


class DatasetsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _check_features(self, features):
    self.assertEqual([v.shape[1] for v in features.views.values()], list(_WIDTHS.values()))
    np.testing.assert_array_equal(np.bincount(features.labels), [200] * 10)

  def test_multiple_features(self):
    with self.assertRaisesRegex(ValueError, "`features_dir`.*mfeat-fac"):
      data.load_multiple_features(self.folder)
    for name, width in _WIDTHS.items():
      table = np.column_stack([np.zeros((2000, width)), np.repeat(np.arange(10), 200)])
      header = ",".join(map(str, [*range(width), 0]))
      path = os.path.join(self.folder, f"mfeat-{name}.csv")
      np.savetxt(path, table, "%d", delimiter=",", header=header, comments="")
    self._check_features(data.load_multiple_features(self.folder))
    for shape in ((1, 2), (1999, 48), (2000, 47)):
      np.savetxt(path, np.ones(shape), "%d", delimiter=",", header="0,1", comments="")
      with self.assertRaisesRegex(ValueError, rf"`features_dir`.*zer.csv.*{re.escape(f'{shape}')}"):
        data.load_multiple_features(self.folder)

  def test_other_points_are_described_otherwise(self):
    def described(first):
      views_ = {"x": np.array([[first], [2.0]]), "y": np.eye(2)}
      return data.describe([data.MultiViewData("few", "two points", views_, np.array([0, 1]), 2)])

    self.assertEqual(described(1.0), described(1.0))
    self.assertNotEqual(described(1.0), described(1.5))


class FolderTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _write(self, site, view, header, rows):
    folder = os.path.join(self.folder, site)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{view}.csv"), "w", encoding="utf-8") as file:
      file.write("\n".join([header, *map(str, rows), ""]))

  def _write_sites(self, labels=None):
    for site, size in (("a", 3), ("b", 2)):
      self._write(site, "x", "u,v", [f"{size},{size}"] * size)
      self._write(site, "y", "w", [-size] * size)
      if labels is not None:
        self._write(site, "labels", "kind", labels[:size])

  def _load(self, num_clusters=None, **options):
    return data.load_folder(self.folder, views.strict(self.folder, True, **options), num_clusters)

  def _refused(self, where):
    return self.assertRaisesRegex(ValueError, where)

  def test_sites(self):
    self._write_sites(["u", "w", "v"])
    own = self._load()
    self.assertEqual(list(own.views), ["x", "y"])
    self.assertEqual(own.num_clusters, 3)
    np.testing.assert_array_equal(own.labels, [0, 2, 1, 0, 2])
    np.testing.assert_array_equal(own.views["x"][own.clients["b"]], np.full((2, 2), 2))
    np.testing.assert_array_equal(own.views["y"], [[-3], [-3], [-3], [-2], [-2]])
    described = data.describe([own])["datasets"]["sites"]
    self.assertEqual(described["classes"], ["u", "v", "w"])
    self.assertEqual(described["sites"], {"a": 3, "b": 2})

  def test_rows_are_joined_by_their_key(self):
    labels = "key,kind", ["k2,two", "k3,three", "k1,one"]
    self._write("a", "x", "key,u", ["k1,1", "k2,2", "k3,3"])
    self._write("a", "y", "w,key", ["30,k3", "10,k1", "20,k2"])
    self._write("a", "labels", *labels)
    own = self._load(key="key")
    np.testing.assert_array_equal(own.views["y"][:, 0], 10 * own.views["x"][:, 0])
    self.assertEqual([own.classes[label] for label in own.labels], ["one", "two", "three"])
    self._write("a", "labels", "kind", ["one", "two", "three"])
    with self._refused("labels.csv, line 1, column 'key'"):
      self._load(key="key")
    self._write("a", "labels", *labels)
    for rows in (["30,k3", "10,k1", "20,k4"], ["30,k3", "10,k1"], ["30,k3", "10,k1", "20,k1"]):
      self._write("a", "y", "w,key", rows)
      with self.assertRaises(bad_table.BadTable) as caught:
        self._load(key="key")
      self.assertIn("y.csv", caught.exception.path)

  @parameterized.parameters(
      ("b", "y", "w", [1, 2, 3], "b.*y.csv"), ("b", "z", "w", [1, 2], "'b'"),
      ("b", "y", "w", [1, "?"], "b.*y.csv, line 3, column 'w'"),
      ("b", "y", "u", [1, 2], "b.*y.csv, line 1, column 'u'"),
      ("b", "labels", "kind", [1, 2], "'b'"), ("b", "x", "u,v", [], "'b'|b.*csv"),
      ("b", "y", "w", [-3, -3], "data_dir.*'y'"),  # It is the same everywhere.
  )
  def test_refuses_sites_that_are_not_alike(self, site, view, header, rows, where):
    self._write_sites()
    self._load(2)
    self._write(site, view, header, rows)
    with self._refused(where):
      self._load(2)

  @parameterized.parameters(
      ("kind", ["u"], ""), ("kind,other", ["u,1"] * 3, ""), ("kind", ["u"] * 4, ""),
      ("kind", ["u", '""', "w"], ", line 3"),
  )
  def test_refuses_labels(self, header, rows, where):
    self._write_sites(["u", "w", "v"])
    self._write("a", "labels", header, rows)
    with self._refused(f"a.*labels.csv{where}"):
      self._load()

  def test_schemas(self):
    self._write_sites()
    schemas = views.strict(self.folder, True, exclude=["v"])
    self.assertEqual({view: one.feature_names for view, one in schemas.items()},
                     {"x": ("u",), "y": ("w",)})
    self.assertEqual(views.from_json(views.to_json(schemas)), schemas)
    fields = [{"name": "a", "type": "number"}, {"name": "b", "type": "string"}]
    for document in (
        {}, {"resources": []}, {"resources": [{"name": "x"}]}, {"resources": [], "title": "t"},
        {"resources": views.to_json(schemas)["resources"] * 2},
        {"resources": [{"name": "x", "schema": {"fields": fields, "label": "b"}}]},
    ):
      with self.assertRaises(ValueError):
        views.from_json(document)
    for options, name in (({"exclude": ["t"]}, "exclude"), ({"key": "t"}, "row_key")):
      with self._refused(name):
        views.strict(self.folder, True, **options)

  @parameterized.parameters(".csv", ".npz")
  def test_missing_cells_of_any_file_become_means_over_all_clients(self, kind):
    self._write_sites()
    self._write("a", "y", "x0", [-3] * 3)
    self._write("b", "y", "x0", ['""', -8])
    document = views.to_json(views.strict(self.folder, True))
    for resource in document["resources"]:
      resource["schema"]["missing"] = "mean"
    if kind == ".npz":
      os.remove(os.path.join(self.folder, "b", "y.csv"))
      np.savez(os.path.join(self.folder, "b", "y.npz"), x=np.array([[np.nan], [-8]]))
    own = data.load_folder(self.folder, views.from_json(document), 2)
    np.testing.assert_allclose(own.views["y"][:, 0], [-3, -3, -3, -17 / 4, -8])

  def test_sites_without_labels_need_a_number_of_clusters(self):
    self._write_sites()
    self.assertIsNone(self._load(2).labels)
    for number in (None, 6):
      with self._refused("`num_clusters`"):
        self._load(number)


class ConfigTest(parameterized.TestCase):

  @parameterized.parameters(
      ("datasets", ("mnist",)), ("num_clients", 0), ("dirichlet_alpha", 0.0),
      ("num_seeds", 0), ("seed", -1), ("num_clusters", 3), ("alpha", 1.0), ("tol", -1.0),
  )
  def test_refuses(self, name, value):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      config_lib.MultiViewStudyConfig(**{name: value})


if __name__ == "__main__":
  absltest.main()
