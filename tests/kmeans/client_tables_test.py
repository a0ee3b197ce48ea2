"""Tests for fl_clustering.kmeans.client_tables."""

import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.kmeans import client_tables


class ReadTablesTest(parameterized.TestCase):

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
    tables = client_tables.read_tables(self._folder({
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
    tables = client_tables.read_tables(self._folder({"a.csv": "1,2\n3,4\n"}))
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
      client_tables.read_tables(folder)

  def test_no_folder(self):
    with self.assertRaisesRegex(ValueError, "`data` must be a folder, got '/no/such/folder'"):
      client_tables.read_tables("/no/such/folder")


if __name__ == "__main__":
  absltest.main()
