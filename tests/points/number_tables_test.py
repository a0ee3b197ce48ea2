"""Tests for fl_clustering.points.number_tables; client_folders_test.py has the bad files."""

import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.points import number_tables


class NumberTablesTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _write(self, name, content):
    path = os.path.join(self.folder, name)
    if isinstance(content, np.ndarray):
      np.save(path, content)
    else:
      with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return path

  @parameterized.named_parameters(
      ("csv", "a.csv", "3\n-1\n"),
      ("csv_with_name", "a.csv", "class\n3\n-1\n"),
      ("vector", "a.npy", np.array([3, -1])),
      ("matrix", "a.npy", np.array([[3], [-1]])),
  )
  def test_a_column(self, name, content):
    column = number_tables.read_column(self._write(name, content), "here")
    np.testing.assert_array_equal(column, [3.0, -1.0])

  @parameterized.named_parameters(
      ("two_columns", "a.csv", "3,1\n", "it must have one column, got 2"),
      ("three_axes", "a.npy", np.ones((2, 1, 1)), "it has no matrix of real numbers"),
      ("nan", "a.npy", np.array([1, np.nan]), "row 2, column 1, is not a finite number"),
  )
  def test_no_column(self, name, content, message):
    path = self._write(name, content)
    with self.assertRaisesRegex(ValueError, f"`here` must hold tables.*{name}': {message}"):
      number_tables.read_column(path, "here")

  def test_tables_under_their_keys(self):
    paths = {
        7: self._write("a.csv", "x,y\n1,2\n"), "b": self._write("b.npy", np.array([[3, 4]]))
    }
    tables, names = number_tables.read_tables(paths, "here")
    self.assertEqual(list(tables), [7, "b"])
    np.testing.assert_array_equal(tables["b"], [[3, 4]])
    self.assertEqual(names, ("x", "y"))

  def test_paths_by_name(self):
    paths = [self._write(name, "1") for name in ("z.csv", "a.b.NPY")]
    os.mkdir(os.path.join(self.folder, "folder"))
    self._write(".hidden", "")
    self.assertEqual(
        number_tables.table_paths(self.folder, "here", "thing"),
        {"a.b": paths[1], "z": paths[0]},
    )
    self._write("z.npy", np.ones((1, 1)))
    with self.assertRaisesRegex(ValueError, "`here` must hold one file per thing, got .*z.csv"):
      number_tables.table_paths(self.folder, "here", "thing")


if __name__ == "__main__":
  absltest.main()
