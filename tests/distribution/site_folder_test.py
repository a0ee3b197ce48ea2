"""Tests for fl_clustering.distribution.site_folder."""

import errno
import os
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.distribution import site as site_lib
from fl_clustering.distribution import site_folder
from fl_clustering.tables import client_tables
from fl_clustering.tables import table_options
from fl_clustering.tables import view_tables
from tests.distribution import data_folders

_TABLES = {
    "north.csv": "age,sex,died,part\n50,f,yes,test\n61.5,m,no,train\n43,f,no,test\n",
    "east.csv": "part,age,sex,died\ntrain,70,m,yes\n",
}
_ROLES = {"categories": ("sex",), "label_column": "died", "split_column": "part"}
_VIEWS = {
    "a/x.csv": "u,v\n1,2\n3,4\n", "a/y.npy": np.array([[5.5], [6]]), "a/labels.csv": "c\n7\n8\n",
    "b/x.csv": "v,u\n8,7\n", "b/y.npy": np.array([[9.0]]), "b/labels.csv": "c\n8\n",
}


class SiteFolderTestCase(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def open(self, files, classes=None, levels=None, folder=None, **options):
    """Opens a site of some files, in the test's folder by default."""
    self.data = data_folders.write(self, files)
    self.options = table_options.TableOptions(**options)
    return site_folder.open_site(
        self.data, folder or self.folder, self.options, classes, levels
    )

  def read(self, client, ending, dtype, num_columns):
    values = np.fromfile(os.path.join(self.folder, client.name + ending), dtype)
    return values.reshape(client.num_rows, num_columns)

  def names(self):
    return {name for name in os.listdir(self.folder) if name != site_folder.KEY_FILE}


class FilesTest(SiteFolderTestCase):

  def test_oddities_are_told_here_and_not_by_the_site(self):
    told = []
    data = data_folders.write(self, {"a.csv": "x,y\n1,2\n1,3\n"})
    site = site_folder.open_site(
        data, self.folder, table_options.TableOptions(), tell=told.append
    )
    self.assertEqual(told, ["the column x has the same value everywhere"])
    self.assertNotIn("everywhere", str(site.to_json()))

  def test_tables(self):
    site = self.open(_TABLES, **_ROLES)
    tables = client_tables.open_folder(self.data, self.options)
    self.assertEqual(list(site.clients), ["east", "north"])
    self.assertEqual(site.format.to_json(), tables.format.to_json())
    for client_id, client in site.clients.items():
      table = tables.read(client_id)
      points = self.read(client, site_lib.POINTS, np.float64, 3)
      np.testing.assert_array_equal(points, table.features)
      labels = self.read(client, site_lib.LABELS, np.int64, 2)
      np.testing.assert_array_equal(labels, np.stack([table.labels, table.is_test], axis=1))
    self.assertEqual([client.num_test for client in site.clients.values()], [0, 2])

  @parameterized.named_parameters(
      ("labels_only", {"label_column": "died", "exclude": ("part",)}, [[1, 0], [0, 0], [0, 0]]),
      ("split_only", {"split_column": "part", "exclude": ("died",)}, [[0, 1], [0, 0], [0, 1]]),
  )
  def test_without(self, roles, expected):
    site = self.open(_TABLES, categories=("sex",), **roles)
    labels = self.read(site.clients["north"], site_lib.LABELS, np.int64, 2)
    np.testing.assert_array_equal(labels, expected)

  def test_neither_labels_nor_split(self):
    site = self.open({"a.csv": "u\n1\n"})
    self.assertEqual(self.names(), {site.clients["a"].name + site_lib.POINTS})
    self.assertIsNone(site.clients["a"].num_test)

  def test_several_clients_in_a_table(self):
    site = self.open({"all.csv": "who,u\nb,1\na,2\nb,3\n"}, client_column="who")
    self.assertEqual({i: client.num_rows for i, client in site.clients.items()}, {"a": 1, "b": 2})
    points = self.read(site.clients["b"], site_lib.POINTS, np.float64, 1)
    np.testing.assert_array_equal(points, [[1], [3]])

  def test_views_side_by_side(self):
    site = self.open(_VIEWS)
    tables = view_tables.open_folder(self.data, self.options)
    self.assertEqual(site.format.to_json(), tables.format.to_json())
    for client_id, client in site.clients.items():
      points = self.read(client, site_lib.POINTS, np.float64, 3)
      np.testing.assert_array_equal(points, tables.read(client_id).features)
      self.assertIsNone(client.num_test)
    self.assertEqual(
        self.names(), {client.name + site_lib.POINTS for client in site.clients.values()}
    )

  def test_classes_that_the_site_lacks(self):
    text = "u,label\n1,9\n2,10\n"
    site = self.open({"a.csv": text}, classes=["11", "10.0", "9"], label_column="label")
    self.assertEqual(site.format.classes, ("9", "10", "11"))
    labels = self.read(site.clients["a"], site_lib.LABELS, np.int64, 2)
    np.testing.assert_array_equal(labels[:, 0], [0, 1])

  def test_levels_that_the_site_lacks(self):
    site = self.open(
        {"a.csv": "sex,u,size\nm,1,10\nm,2,9\n"}, categories=("sex", "size"),
        levels={"sex": ["m", "x", "f"]},
    )
    self.assertEqual(
        site.format.encoding.feature_names,
        ("sex=f", "sex=m", "sex=x", "u", "size=9", "size=10"),
    )
    np.testing.assert_array_equal(
        self.read(site.clients["a"], site_lib.POINTS, np.float64, 6),
        [[0, 1, 0, 1, 0, 1], [0, 1, 0, 2, 1, 0]],
    )

  def test_levels_of_views_that_the_site_lacks(self):
    site = self.open(
        {"a/x.csv": "sex\nm\n", "a/y.csv": "u\n2\n"}, categories=("sex",),
        levels={"sex": ["f", "m"]},
    )
    self.assertEqual(site.format.feature_names, ("x: sex=f", "x: sex=m", "y: u"))

  def test_only_files_of_the_site_s_rows_stay(self):
    self.open(_TABLES, **_ROLES)
    left = f".{'0' * 64}.points.123.points"  # What an earlier process that was killed was writing.
    gone = [f"{'2' * 64}.{'3' * 32}.{part}" for part in site_lib.PARTS]
    others = {"worker.json", f"{'1' * 64}.client", "mine.points"}
    for name in (left, *gone, *others):
      with open(os.path.join(self.folder, name), "wb"):
        pass
    site = self.open({"a.csv": "u\n1\n"})
    self.assertEqual(self.names(), {site.clients["a"].name + site_lib.POINTS, *others})


class KeyTest(SiteFolderTestCase):

  def _all(self, site):
    return {site.digest, *(client.name for client in site.clients.values())}

  def test_the_same_rows_have_the_same_names_again(self):
    first, second = (self.open(_TABLES, **_ROLES) for _ in range(2))
    self.assertEqual(first.to_json(), second.to_json())

  def test_other_rows_have_others(self):
    first = self.open({"a.csv": "u\n1\n", "b.csv": "u\n1\n"})
    second = self.open({"a.csv": "u\n1\n", "b.csv": "u\n2\n"})
    self.assertEqual(first.clients["a"], second.clients["a"])
    # Equal rows of two clients are not told, either.
    self.assertLen(self._all(first) | self._all(second), 5)

  def test_other_labels_have_others(self):
    first, second = (
        self.open({"a.csv": f"u,v\n1,{label}\n"}, classes=["x", "y"], label_column="v")
        for label in "xy"
    )
    self.assertEmpty(self._all(first) & self._all(second))

  def test_another_key_gives_others(self):
    first = self.open({"a.csv": "u\n1\n"})
    second = self.open({"a.csv": "u\n1\n"}, folder=self.create_tempdir().full_path)
    self.assertEmpty(self._all(first) & self._all(second))

  def test_the_key_has_as_many_bytes_as_its_digest(self):
    self.open({"a.csv": "u\n1\n"})
    self.assertEqual(os.path.getsize(os.path.join(self.folder, site_folder.KEY_FILE)), 32)

  def test_a_key_that_was_cut_off_is_replaced(self):
    path = os.path.join(self.folder, site_folder.KEY_FILE)
    with open(path, "wb"):
      pass
    self.open({"a.csv": "u\n1\n"})
    self.assertEqual(os.path.getsize(path), 32)


class RefusedTest(SiteFolderTestCase):

  @parameterized.named_parameters(
      ("means", {"a.csv": "u\n1\n"}, {"missing": "mean"},
       "`missing` must be 'error' at a site, since the means of columns would need all sites, got "
       "'mean'"),
      ("a_missing_cell", {"a.csv": "u,v\n1,\n2,3\n"}, {},
       "got '.*a.csv': line 2, column 'v' is empty; a site can't fill in missing cells; "
       "--exclude leaves columns out\\.$"),
      ("classes_without_labels", {"a.csv": "u\n1\n"}, {"classes": ["x"]},
       "`classes` must be left out without `label_column`, got"),
      ("another_class", {"a.csv": "u,v\n1,x\n2,z\n"}, {"classes": ["x", "y"], "label_column": "v"},
       "got '.*a.csv': row 2, column 'v' must be one of x, y, got 'z'"),
      ("levels_of_no_category", {"a.csv": "u,v\n1,x\n"},
       {"levels": {"u": ["1"]}, "categories": ("v",)},
       "`levels` must be of a column of `categories`, got 'u'"),
      ("another_level", {"a.csv": "u,v\n1,x\n2,z\n"},
       {"levels": {"v": ["x", "y"]}, "categories": ("v",)},
       "got '.*a.csv': row 2, column 'v' must be one of x, y, got 'z'"),
      ("labels_of_views", _VIEWS, {"label_column": "c"}, "`label_column` must be left out: "),
      ("files_and_folders", {"a.csv": "u\n1\n", "b/x.csv": "u\n1\n"}, {},
       "`data_dir` must hold a file per client, or a folder per client with a file per view, got "
       "files and folders"),
      ("nothing", {}, {}, "`data_dir` must hold a file per client .*, got none"),
  )
  def test_refused(self, files, options, message):
    with self.assertRaisesRegex(ValueError, message) as raised:
      self.open(files, **options)
    self.assertLen(str(raised.exception).splitlines(), 1)

  def test_a_full_disk(self):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with mock.patch.object(os, "replace", side_effect=full):
      with self.assertRaisesRegex(ValueError, r"`cache_dir` must take the features of all clients \(No space left"):
        self.open({"a.csv": "u\n1\n"})
    self.assertEmpty(self.names())

  def test_no_folder(self):
    missing = os.path.join(self.folder, "missing")
    with self.assertRaisesRegex(ValueError, "`data_dir` must be a folder, got '.*missing'"):
      site_folder.open_site(missing, self.folder, table_options.TableOptions())


if __name__ == "__main__":
  absltest.main()
