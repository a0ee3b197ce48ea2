"""Tests for fl_clustering.multiview.site_folders."""

import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.multiview import site_folders


class SiteFoldersTest(parameterized.TestCase):

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
    sites = site_folders.read_sites(self.folder)
    self.assertEqual(sites.view_names, ("pixels", "shape"))
    self.assertIsNone(sites.labels)
    for site, expected in self.views.items():
      for view, array in zip(sites.views[site], expected):
        np.testing.assert_array_equal(view, array)

  def test_a_line_of_column_names_is_skipped(self):
    self._write("width,height\n1,2\n3,4e1\n", "b", "shape.csv")
    np.testing.assert_array_equal(
        site_folders.read_sites(self.folder).views["b"][1], [[1, 2], [3, 40]]
    )

  def test_a_byte_order_mark_is_no_column_name(self):
    self._write("\ufeff1,2\n3,4\n", "b", "shape.csv")
    np.testing.assert_array_equal(
        site_folders.read_sites(self.folder).views["b"][1], [[1, 2], [3, 4]]
    )

  def test_labels_are_no_view(self):
    self._write("class\n0\n1\n0\n2\n", "a", "labels.csv")
    np.save(self._path("b", "labels.npy"), np.array([1, 2]))
    sites = site_folders.read_sites(self.folder)
    self.assertEqual(sites.view_names, ("pixels", "shape"))
    np.testing.assert_array_equal(sites.labels["a"], [0, 1, 0, 2])
    np.testing.assert_array_equal(sites.labels["b"], [1, 2])

  def test_other_files_are_left_alone(self):
    self._write("hello", "readme.txt")
    self._write("hello", "a", ".hidden")
    os.mkdir(self._path(".hidden"))
    self.assertEqual(list(site_folders.read_sites(self.folder).views), ["a", "b"])

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
      site_folders.read_sites(self.folder)

  def test_a_folder_without_sites_is_refused(self):
    with self.assertRaisesRegex(ValueError, "`sites_dir` must be a folder, got '/no/such'"):
      site_folders.read_sites("/no/such")
    empty = self.create_tempdir("empty").full_path
    with self.assertRaisesRegex(ValueError, "must hold a folder per site"):
      site_folders.read_sites(empty)
    os.mkdir(os.path.join(empty, "a"))
    np.save(os.path.join(empty, "a", "labels.npy"), [1])
    with self.assertRaisesRegex(ValueError, "CSV or NPY file per view, got none at 'a'"):
      site_folders.read_sites(empty)


if __name__ == "__main__":
  absltest.main()
