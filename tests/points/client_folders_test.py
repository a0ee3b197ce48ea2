"""Tests for fl_clustering.points.client_folders."""

import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.points import client_folders


class ReadClientsTest(parameterized.TestCase):

  def _folder(self, files):
    """Writes files, text or arrays by name; returns the folder."""
    folder = self.create_tempdir().full_path
    for name, content in files.items():
      path = os.path.join(folder, name)
      if isinstance(content, np.ndarray):
        np.save(path, content)
      else:
        with open(path, "wb") as file:
          file.write(content if isinstance(content, bytes) else content.encode())
    return folder

  def test_ids_names_and_points(self):
    tables = client_folders.read_clients(self._folder({
        "leiden.csv": "age,income\n30,1.5\n40,-2e3\n\n",
        "Delft.CSV": "\ufeffage, income\r\n50,0\r\n",
        "site.3.npy": np.array([[1, 2], [3, 4]], np.int16),
        ".hidden": "x",
    }))
    self.assertEqual(list(tables.points), ["Delft", "leiden", "site.3"])
    self.assertEqual(tables.column_names, ("age", "income"))
    np.testing.assert_array_equal(tables.points["leiden"], [[30, 1.5], [40, -2000]])
    np.testing.assert_array_equal(tables.points["Delft"], [[50, 0]])
    np.testing.assert_array_equal(tables.points["site.3"], [[1, 2], [3, 4]])
    self.assertEqual(tables.points["site.3"].dtype, np.float64)

  def test_without_names_line_1_is_a_point(self):
    tables = client_folders.read_clients(self._folder({"a.csv": "1,2\n3,4\n"}))
    self.assertIsNone(tables.column_names)
    np.testing.assert_array_equal(tables.points["a"], [[1, 2], [3, 4]])

  @parameterized.named_parameters(
      ("no files", {}, "a CSV or NPY file per client, got none"),
      ("another file", {"a.csv": "1", "b.xlsx": "1"}, "CSV and NPY files only, got .*b.xlsx"),
      ("one client twice", {"a.csv": "1", "a.npy": np.ones((1, 1))},
       "one file per client, got .*a.csv.* and .*a.npy"),
      ("empty", {"a.csv": ""}, "a.csv.*line 1 is empty"),
      ("names only", {"a.csv": "x,y\n"}, "a.csv.*it has no rows"),
      ("no number", {"a.csv": "x,y\n1,2\n3,yes\n"},
       "a.csv.*line 3, column 2, is not a finite number: 'yes'"),
      ("an empty cell", {"a.csv": "1,2\n3,\n"}, "a.csv.*line 2, column 2, .*: ''"),
      ("nan", {"a.csv": "1,2\n\nnan,4\n"}, "a.csv.*line 3, column 1, .*: 'nan'"),
      ("infinity", {"a.csv": "1,2\n3,inf\n"}, "a.csv.*line 2, column 2, .*: 'inf'"),
      ("squares that overflow", {"a.csv": "1,2\n3,1e101\n"},
       "a.csv.*line 2, column 2, is not between -1e.100 and 1e.100: '1e101'"),
      ("a missing cell", {"a.csv": "1,2\n3\n"}, "a.csv.*line 2 has 1 cells, line 1 has 2"),
      ("half a header", {"a.csv": "x,2\n3,4\n"}, "a.csv.*line 1 has numbers and other cells"),
      ("an index column", {"a.csv": ",x\n0,4\n"}, "a.csv.*line 1 has no name for column 1"),
      ("a name twice", {"a.csv": "x,x\n0,4\n"}, "a.csv.*line 1 names a column twice"),
      ("other columns", {"a.csv": "1,2\n", "b.npy": np.ones((2, 3))},
       "b.npy.*it has 3 columns, .*a.csv.* has 2"),
      ("another order", {"a.csv": "x,y\n1,2\n", "b.csv": "y,x\n1,2\n"},
       "b.csv.*its columns are y,x; in .*a.csv' they are x,y"),
      ("not text", {"a.csv": b"\xff\xfe1"}, "a.csv.*it is no CSV file"),
      ("not an array", {"a.npy": "text"}, "a.npy.*it is no NPY file"),
      ("a vector", {"a.npy": np.ones(3)}, "a.npy.*it has no matrix of real numbers"),
      ("no rows", {"a.npy": np.ones((0, 3))}, "a.npy.*it has no rows"),
      ("nan in an array", {"a.npy": np.array([[1, 2], [3, np.nan]])},
       "a.npy.*row 2, column 2, is not a finite number"),
      ("squares that overflow in an array", {"a.npy": np.array([[1, 2], [3, -1e101]])},
       "a.npy.*row 2, column 2, is not between -1e.100 and 1e.100"),
  )
  def test_bad_files(self, files, message):
    folder = self._folder(files)
    with self.assertRaisesRegex(ValueError, f"`data` must hold.*{message}"):
      client_folders.read_clients(folder)

  def test_no_folder(self):
    with self.assertRaisesRegex(ValueError, "`data` must be a folder, got '/no/such/folder'"):
      client_folders.read_clients("/no/such/folder")


class ReadSitesTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    rng = np.random.default_rng(0)
    self.views = {
        site: (rng.random((num_points, 3)), rng.random((num_points, 2)))
        for site, num_points in (("a", 4), ("b", 2))
    }
    for site, (pixels, shape) in self.views.items():
      os.mkdir(self._path(site))
      np.save(self._path(site, "pixels.npy"), pixels)
      np.savetxt(self._path(site, "shape.csv"), shape, delimiter=",")

  def _path(self, *names):
    return os.path.join(self.folder, *names)

  def _write(self, text, *names):
    with open(self._path(*names), "w", encoding="utf-8") as file:
      file.write(text)

  def test_views_by_name(self):
    sites = client_folders.read_sites(self.folder)
    self.assertEqual(sites.view_names, ("pixels", "shape"))
    self.assertIsNone(sites.labels)
    for site, expected in self.views.items():
      for view, array in zip(sites.views[site], expected):
        np.testing.assert_array_equal(view, array)

  def test_a_line_of_column_names_is_skipped(self):
    self._write("width,height\n1,2\n3,4e1\n", "b", "shape.csv")
    np.testing.assert_array_equal(
        client_folders.read_sites(self.folder).views["b"][1], [[1, 2], [3, 40]]
    )

  def test_a_byte_order_mark_is_no_column_name(self):
    self._write("\ufeff1,2\n3,4\n", "b", "shape.csv")
    np.testing.assert_array_equal(
        client_folders.read_sites(self.folder).views["b"][1], [[1, 2], [3, 4]]
    )

  def test_labels_are_no_view(self):
    self._write("class\n0\n1\n0\n2\n", "a", "labels.csv")
    np.save(self._path("b", "labels.npy"), np.array([1, 2]))
    sites = client_folders.read_sites(self.folder)
    self.assertEqual(sites.view_names, ("pixels", "shape"))
    np.testing.assert_array_equal(sites.labels["a"], [0, 1, 0, 2])
    np.testing.assert_array_equal(sites.labels["b"], [1, 2])

  def test_other_files_are_left_alone(self):
    self._write("hello", "readme.txt")
    self._write("hello", "a", ".hidden")
    os.mkdir(self._path(".hidden"))
    self.assertEqual(list(client_folders.read_sites(self.folder).views), ["a", "b"])

  @parameterized.named_parameters(
      ("missing", lambda t: os.remove(t._path("b", "shape.csv")),
       "`sites_dir` must hold the same files for every site, got 'shape' at 'a' but not at 'b'"),
      ("surplus", lambda t: t._write("1\n", "b", "colour.csv"), "got 'colour' at 'b'"),
      ("twice", lambda t: t._write("1\n", "b", "pixels.csv"), "must hold one file per view"),
      ("other_kind", lambda t: t._write("1\n", "b", "depth.txt"), "CSV and NPY files only, got"),
      ("no_view", lambda t: [os.remove(t._path("b", n)) for n in ("pixels.npy", "shape.csv")],
       "must hold a CSV or NPY file per view, got none in .*b'"),
      ("text", lambda t: t._write("1,2\n3,x\n", "b", "shape.csv"),
       "shape.csv': line 2, column 2, is not a finite number: 'x'"),
      ("text_in_line_1", lambda t: t._write("1,x\n3,4\n", "b", "shape.csv"),
       "shape.csv': line 1 has numbers and other cells"),
      ("other_width", lambda t: t._write("1\n2\n", "b", "shape.csv"),
       "shape.csv': it has 1 columns, .*shape.csv' has 2"),
      ("other_order", lambda t: [t._write("x,y\n1,2\n", "a", "shape.csv"),
                                 t._write("y,x\n1,2\n", "b", "shape.csv")],
       "shape.csv': its columns are y,x; in .*shape.csv' they are x,y"),
      ("no_npy", lambda t: t._write("junk", "b", "pixels.npy"), "pixels.npy': it is no NPY file"),
      ("objects", lambda t: np.save(t._path("b", "pixels.npy"), np.array([{}], object)),
       "pixels.npy': it is no NPY file"),
      ("labels", lambda t: [t._write("0.5\n", s, "labels.csv") for s in "ab"],
       "`labels` must hold an integer per point"),
      ("wide_labels", lambda t: [t._write("0,1\n", s, "labels.csv") for s in "ab"],
       "labels.csv': it must have one column, got 2"),
      ("few_labels", lambda t: [t._write("0\n1\n", s, "labels.csv") for s in "ab"],
       "`labels` must have one row per point, got 2 for 4 points in .*labels.csv"),
  )
  def test_refuses(self, spoil, message):
    spoil(self)
    with self.assertRaisesRegex(ValueError, message):
      client_folders.read_sites(self.folder)

  def test_a_folder_without_sites_is_refused(self):
    with self.assertRaisesRegex(ValueError, "`sites_dir` must be a folder, got '/no/such'"):
      client_folders.read_sites("/no/such")
    empty = self.create_tempdir("empty").full_path
    with self.assertRaisesRegex(ValueError, "must hold a folder per site"):
      client_folders.read_sites(empty)
    os.mkdir(os.path.join(empty, "a"))
    np.save(os.path.join(empty, "a", "labels.npy"), [1])
    with self.assertRaisesRegex(ValueError, "CSV or NPY file per view, got none at 'a'"):
      client_folders.read_sites(empty)


if __name__ == "__main__":
  absltest.main()
