"""Tests of folders of clients' tables in several views."""

import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tables import bad_table
from fl_clustering.tables import folder as folder_lib
from fl_clustering.tables import saved
from fl_clustering.tables import views


class ViewsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _write(self, client, view, header, rows):
    folder = os.path.join(self.folder, site)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{view}.csv"), "w", encoding="utf-8") as file:
      file.write("\n".join([header, *map(str, rows), ""]))

  def _write_clients(self, labels=None):
    for client, size in (("a", 3), ("b", 2)):
      self._write(client, "x", "u,v", [f"{size},{size}"] * size)
      self._write(client, "y", "w", [-size] * size)
      if labels is not None:
        self._write(client, "labels", "kind", labels[:size])

  def _load(self, **options):
    return folder_lib.open_folder(self.folder, views.strict(self.folder, True, **options))

  def _labels(self, rows):
    return [label for own in rows.values() for label in own.labels]

  def _refused(self, where):
    return self.assertRaisesRegex(ValueError, where)

  def test_clients(self):
    self._write_clients(["u", "w", "v"])
    own = self._load()
    self.assertEqual(list(own.schemas), ["x", "y"])
    self.assertEqual(self._labels(own), ["u", "w", "v", "u", "w"])
    self.assertEqual(own.classes(), ("u", "v", "w"))
    np.testing.assert_array_equal(own["b"].features, [[2, 2, -2]] * 2)
    self.assertEqual(own.num_rows, {"a": 3, "b": 2})
    self.assertCountEqual(own.digests, [f"{c}/{view}" for c in "ab" for view in ("x", "y", "labels")])

  def test_rows_are_joined_by_their_key(self):
    labels = "key,kind", ["k2,two", "k3,three", "k1,one"]
    self._write("a", "x", "key,u", ["k1,1", "k2,2", "k3,3"])
    self._write("a", "y", "w,key", ["30,k3", "10,k1", "20,k2"])
    self._write("a", "labels", *labels)
    own = self._load(key="key")
    np.testing.assert_array_equal(own["a"].features, [[1, 10], [2, 20], [3, 30]])
    self.assertEqual(self._labels(own), ["one", "two", "three"])
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
  )
  def test_refuses_clients_that_are_not_alike(self, client, view, header, rows, where):
    self._write_clients()
    self._load()
    self._write(client, view, header, rows)
    with self._refused(where):
      self._load()

  @parameterized.parameters(
      ("kind", ["u"], ""), ("kind,other", ["u,1"] * 3, ""), ("kind", ["u"] * 4, ""),
      ("kind", ["u", '""', "w"], ", line 3"),
  )
  def test_refuses_labels(self, header, rows, where):
    self._write_clients(["u", "w", "v"])
    self._write("a", "labels", header, rows)
    with self._refused(f"a.*labels.csv{where}"):
      self._load()

  def test_schemas(self):
    self._write_clients()
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
    self._write_clients()
    self._write("a", "y", "x0", [-3] * 3)
    self._write("b", "y", "x0", ['""', -8])
    document = views.to_json(views.strict(self.folder, True))
    for resource in document["resources"]:
      resource["schema"]["missing"] = "mean"
    if kind == ".npz":
      os.remove(os.path.join(self.folder, "b", "y.csv"))
      np.savez(os.path.join(self.folder, "b", "y.npz"), x=np.array([[np.nan], [-8]]))
    own = folder_lib.open_folder(self.folder, views.from_json(document))
    self.assertEqual(own.missing, {"y: x0": 1})
    own.scale(saved.SavedTables.of(own, False).features)
    found = np.concatenate([rows.features for rows in own.values()])
    np.testing.assert_allclose(found[:, 2], [-3, -3, -3, -17 / 4, -8])


if __name__ == "__main__":
  absltest.main()
