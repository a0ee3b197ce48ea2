"""Tests for fl_clustering.tables.view_tables."""

import os
import re

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering.tables import table_options
from fl_clustering.tables import table_format
from fl_clustering.tables import view_tables
from tests.tables import table_folders as folders

_FILES = {
    "a/x.csv": "u,v\n1,2\n3,4\n", "a/y.npy": np.array([[5], [6]]),
    "b/x.csv": "v,u\n8,7\n", "b/y.npy": np.array([[9]]),
}
_IDS = {
    "a/x.csv": "key,u\n7,1\nz,2\n", "a/y.csv": "w,key\n3,7.0\n4,z\n",
    "b/x.csv": "key,u\n9,5\n", "b/y.csv": "w,key\n6,9\n",
}


class ViewTablesTestCase(parameterized.TestCase):

  def write(self, files):
    """Writes text or arrays by path into a new folder; returns it."""
    folder = self.create_tempdir().full_path
    for name, content in files.items():
      path = os.path.join(folder, name)
      os.makedirs(os.path.dirname(path), exist_ok=True)
      if isinstance(content, np.ndarray):
        np.save(path, content)
      else:
        with open(path, "w", encoding="utf-8") as file:
          file.write(content)
    return folder

  def open(self, files, **options):
    options = table_options.TableOptions(**options)
    return view_tables.open_folder(self.write(files), options).filled()


class OpenFolderTest(ViewTablesTestCase):

  def test_views_side_by_side_with_columns_by_name(self):
    tables = self.open(_FILES)
    self.assertEqual(list(tables.views), ["x", "y"])
    self.assertEqual(tables.num_rows, {"a": 2, "b": 1})
    self.assertEqual(tables.format.widths, (2, 1))
    self.assertEqual(tables.format.feature_names, ("x: u", "x: v", "y: column_1"))
    np.testing.assert_array_equal(tables.read("a").features, [[1, 2, 5], [3, 4, 6]])
    np.testing.assert_array_equal(tables.read("b").features, [[7, 8, 9]])
    np.testing.assert_array_equal(tables.read("a").rows, [1, 2])
    self.assertIsNone(tables.read("a").row_ids)
    self.assertIsNone(tables.labels)

  def test_clients_are_in_the_order_of_their_numbers(self):
    self.assertEqual(
        self.open({"s10/x.csv": "1\n", "s9/x.csv": "2\n"}).client_ids, ("s9", "s10")
    )

  def test_other_files_are_left_alone(self):
    tables = self.open({**_FILES, "readme.md": "", "a/.hidden": "", ".git/x": "", "a/old/z": ""})
    self.assertEqual(tables.client_ids, ("a", "b"))

  def test_options_for_the_views_that_have_such_columns(self):
    tables = self.open(
        {"a/x.csv": "u;c;note\n1,5;red;n\n;blue;n\n", "a/y.csv": "w\n3\n4\n"},
        separator=";", decimal=",", categories=("c",), exclude=("note",), missing="indicator",
    )
    self.assertEqual(
        tables.format.feature_names, ("x: u", "x: c=blue", "x: c=red", "x: u is missing", "y: w")
    )
    np.testing.assert_array_equal(
        tables.read("a").features, [[1.5, 0, 1, 0, 3], [1.5, 1, 0, 1, 4]]
    )

  def test_ids_are_no_features(self):
    tables = self.open(_IDS, id_column="key")
    self.assertEqual(tables.format.feature_names, ("x: u", "y: w"))
    self.assertEqual(tables.read("a").row_ids, ("7", "z"))

  def test_the_digest_is_of_values_labels_and_names(self):
    same = self.open({**_FILES, "b/x.csv": "u,v\n7,8\n"}).sha256
    self.assertEqual(self.open(_FILES).sha256, same)
    labels = [
        {"a/labels.csv": text, "b/labels.csv": "0\n"} for text in ("0\n1\n", "1\n0\n", "0\n2\n")
    ]
    others = [
        self.open(files).sha256 for files in (
            {**_FILES, "b/y.npy": np.array([[8]])}, *({**_FILES, **files} for files in labels),
            {name.replace("y", "z"): content for name, content in _FILES.items()},
        )
    ]
    self.assertLen({same, *others}, 6)

  def test_warnings_name_the_view(self):
    self.assertEqual(self.open(_FILES).warnings, ())
    tables = self.open({**_FILES, "a/y.npy": np.array([[9], [9]])})
    self.assertEqual(
        tables.warnings, ("view y: the column column_1 has the same value everywhere",)
    )

  def test_another_unit_in_a_view(self):
    files = {"a/x.csv": "u\n1\n2\n3\n2\n1\n", "a/y.csv": "u\n1\n2\n3\n2\n1\n"}
    later = table_options.LaterFiles(moments={"y: u": [(9, 100, 5)]})
    tables = view_tables.open_folder_for(self.open(files).format, self.write(files), later=later)
    self.assertLen(tables.warnings, 1)
    self.assertRegex(tables.warnings[0], "view y: the column u may have another unit: .*a/y.csv")

  def test_a_line_of_separators_in_all_views_is_no_row(self):
    files = {"a/x.csv": "u,v\n1,2\n,\n3,4\n,\n", "a/y.csv": "w,z\n5,6\n,\n9,1\n"}
    tables = self.open(files)
    features = [[1, 2, 5, 6], [3, 4, 9, 1]]
    np.testing.assert_array_equal(tables.read("a").features, features)
    np.testing.assert_array_equal(tables.read("a").rows, [1, 3])
    self.assertEqual(tables.warnings, tuple(
        f"view {view}: lines with nothing but separators are no rows: 1 in {view}.csv"
        for view in "xy"
    ))
    later = view_tables.open_folder_for(tables.format, self.write(files))
    np.testing.assert_array_equal(later.read("a").features, features)

  @parameterized.named_parameters(
      ("another row of it", "w,z\n5,6\n9,1\n,\n7,8\n", 3),
      ("more of it", "w,z\n5,6\n7,8\n9,1\n", 3),
      ("none of it", "w\n5\n7\n", 3), ("a further line", "w,z\n5,6\n,\n,\n7,8\n", 4),
  )
  def test_a_line_of_separators_in_one_view(self, view, line):
    files = {"a/x.csv": "u,v\n1,2\n,\n3,4\n", "a/y.csv": view}
    for missing in ("error", "mean"):
      with self.assertRaisesRegex(
          ValueError, f"line {line} has nothing but separators, and the same row of .*; such a "
          "line must stand in all views or in none"
      ) as caught:
        self.open(files, missing=missing)
      self.assertNotRegex(str(caught.exception), "Try:|--missing")
    format_ = self.open({"a/x.csv": "u,v\n1,2\n3,4\n", "a/y.csv": "w,z\n5,6\n7,8\n"}).format
    if "z" in view:
      with self.assertRaisesRegex(ValueError, f"line {line} has nothing but separators"):
        view_tables.open_folder_for(
            format_, self.write(files), later=table_options.LaterFiles(skip_bad_rows=True)
        )
    # Where a row is unknown in one view, cells say so.
    files = {"a/x.csv": "u,v\n1,2\n?,?\n3,4\n", "a/y.csv": "w,z\n5,6\n7,8\n9,1\n"}
    table = self.open(files, missing="mean").read("a")
    np.testing.assert_array_equal(table.features, [[1, 2, 5, 6], [2, 3, 7, 8], [3, 4, 9, 1]])

  def test_flags_that_leave_a_column_out_leave_out_those_of_other_views_too(self):
    ids = np.random.default_rng(0).choice(900_000, 60, False)
    files = {"a/x.csv": "u,k\n" + "".join(f"{i % 7},{key}\n" for i, key in enumerate(ids)),
             "a/y.csv": "v,w\n" + "".join(f"{i % 5},{i % 3}\n" for i in range(60))}
    self.assertEqual(self.open(files, exclude=("w",)).warnings, (
        "view x: the column k looks like the rows' ids: no number occurs twice at a client; "
        "--exclude=w,k leaves it out",
    ))
    self.assertEqual(self.open(files, exclude=("w", "k")).format.feature_names, ("x: u", "y: v"))


class LabelsTest(ViewTablesTestCase):

  @parameterized.named_parameters(
      ("numbers", "2\n10\n", "2\n", ("2", "10")),
      ("named", "kind\n2\n10\n", "kind\n2\n", ("2", "10")),
      ("text", "sick\nwell\n", "ill\n", ("ill", "sick", "well")),
      ("named_text", "kind\nsick\nwell\n", "kind\nill\n", ("ill", "sick", "well")),
      ("vectors", np.array([2, 10]), np.array([2.0]), ("2", "10")),
  )
  def test_classes_of_all_clients(self, first, second, classes):
    ending = "npy" if isinstance(first, np.ndarray) else "csv"
    tables = self.open({**_FILES, f"a/labels.{ending}": first, f"b/labels.{ending}": second})
    self.assertEqual(list(tables.views), ["x", "y"])
    labels = tables.labels
    self.assertEqual(labels.classes, classes)
    found = [[classes[i] for i in labels.by_client[client_id]] for client_id in "ab"]
    self.assertEqual(found[0], list(classes[-2:]))
    self.assertEqual(found[1], [classes[0]])

  def test_ids_in_the_labels_of_one_client(self):
    labels = {"a/labels.csv": "key,kind\n7,p\nz,q\n", "b/labels.csv": "kind\nq\n"}
    for options in ({"id_column": "key"}, {"exclude": ("key",)}):
      self.assertEqual(self.open({**_IDS, **labels}, **options).labels.classes, ("p", "q"))

  def test_classes_that_may_be_one(self):
    tables = self.open({**_FILES, "a/labels.csv": "sick\nwell\n", "b/labels.csv": "Sick\n"})
    self.assertEqual(tables.classes_told, "Sick, sick, well")
    self.assertIn("the classes 'sick', 'Sick' differ only in case or spaces", tables.warnings)
    silent = {"allow_any_number": True, "header": "yes"}
    files = {name: folders.lines(*"abc") for name in ("a/x.csv", "a/y.csv")}
    tables = self.open({**files, "a/labels.csv": "y\nsick\nSick\n"}, **silent)
    self.assertEmpty(tables.warnings)
    tables = self.open({"a/x.csv": "a\n1\n2\n", "a/labels.csv": "y\nsick\nwell\n"})
    self.assertEmpty(tables.warnings)

  def test_with_ids(self):
    labels = {"a/labels.csv": "key,kind\n7,p\nz,q\n", "b/labels.csv": "key,kind\n9,q\n"}
    tables = self.open({**_IDS, **labels}, id_column="key")
    np.testing.assert_array_equal(tables.labels.by_client["a"], [0, 1])
    np.testing.assert_array_equal(tables.labels.by_client["b"], [1])


def _with(files, **spoilt):
  return {**files, **{name.replace("_", "/", 1) + ".csv": text for name, text in spoilt.items()}}


class BadFoldersTest(ViewTablesTestCase):

  def test_the_first_client_lacks_the_ids(self):
    files = {**_IDS, "a/x.csv": _IDS["a/x.csv"].replace("key", "name")}
    with self.assertRaisesRegex(ValueError, "a/x.csv': it has no column 'key', and .*b/x.csv' has"):
      self.open(files, id_column="key")

  @parameterized.named_parameters(
      ("empty", {}, {}, "must hold a folder per client with a file per view in it, got no folder"),
      ("a file per client", {"a.csv": "x\n1\n"}, {}, "must hold a folder per client"),
      ("an empty folder", {**_FILES, "c/.hidden": ""}, {}, "a file per view .*, got none in .*c'"),
      ("labels only", {"a/labels.csv": "1\n"}, {}, "must hold a file per view, got 'labels' only"),
      ("a missing view", {n: t for n, t in _FILES.items() if n != "b/y.npy"}, {},
       "the same files for every client, got 'y' at 'a' but not at 'b'"),
      ("a view too many", _with(_FILES, b_z="1\n"), {}, "got 'z' at 'b' but not at 'a'"),
      ("labels of one client", _with(_FILES, b_labels="1\n"), {}, "got 'labels' at 'b' but not"),
      ("a view twice", _with(_FILES, b_y="1\n"), {},
       "one file per view, got .*y.csv.* and .*y.npy"),
      ("a name not in UTF-8", {**_FILES, "a/\udce9.csv": "w\n1\n2\n", "b/\udce9.csv": "w\n1\n"},
       {}, r"UTF-8, got '.*a/.udce9\.csv'"),
      ("another kind", {**_FILES, "b/y.json": ""}, {},
       "got '.*b/y.json': it is of no kind that can be read; kinds are .csv, "),
      ("a column too few", _with(_FILES, b_x="u\n1\n"), {},
       "b/x.csv': it has no column 'v', and .*a/x.csv' has"),
      ("a column too many", _with(_FILES, b_x="u,v,t\n1,2,3\n"), {},
       "b/x.csv': it has a column 't', .*--exclude=t"),
      ("a title at one client", _with(_FILES, a_x="u,v,w\n1,2,5\n3,4,5\n", b_x="X\nu,v,w\n8,7,5\n"),
       {}, "b/x.csv': line 1, 'X', looks [^;]*; '.*a/x.csv': line 1, 'u,v,w', looks like part of "),
      ("a row too many", _with(_FILES, a_x="u,v\n1,2\n3,4\n5,6\n"), {},
       "a/y.npy': it has 2 rows, and .*a/x.csv' has 3; all views must have the same rows"),
      ("a label too few", _with(_FILES, a_labels="0\n", b_labels="0\n"), {},
       "a/labels.csv': it has 1 rows, and .*a/x.csv' has 2"),
      ("two columns of labels", _with(_FILES, a_labels="p,q\n1,2\n3,4\n", b_labels="p,q\n1,2\n"),
       {}, "a/labels.csv': it must have one column of classes, got 2; --id_column .*--exclude"),
      ("a label that is no integer", _with(_FILES, a_labels="0\n.5\n", b_labels="0\n"), {},
       "a/labels.csv': row 2 must be an integer or text, got '.5'"),
      ("no label", _with(_FILES, a_labels="0\nNA\n", b_labels="0\n"), {},
       "a/labels.csv': line 2, column 'column_1' is empty, and every row must have one"),
      ("ids of one view only", _with(_IDS, a_y="w\n3\n4\n", b_y="w\n6\n"), {"id_column": "key"},
       "`id_column` must name columns of the tables, got 'key'; .*y.csv' has w"),
      ("ids in another order", _with(_IDS, a_y="w,key\n4,z\n3,7\n"), {"id_column": "key"},
       "a/y.csv': row 1 has the id 'z', and in .*a/x.csv' it has '7'; all views"),
      ("another id in the end", _with(_IDS, a_y="w,key\n4,7\n3,q\n5,r\n"), {"id_column": "key"},
       "a/y.csv': row 2 has the id 'q', and in .*a/x.csv' it has 'z'"),
      ("an id too many", _with(_IDS, a_y="w,key\n4,7\n3,z\n5,r\n"), {"id_column": "key"},
       "a/y.csv': it has 3 rows, and .*a/x.csv' has 2"),
      ("labels in another order",
       _with(_IDS, a_labels="key,p\nz,1\n7,2\n", b_labels="key,p\n9,1\n"), {"id_column": "key"},
       "a/labels.csv': row 1 has the id 'z', and in .*a/x.csv' it has '7'"),
      ("an unknown column", _FILES, {"exclude": ("u", "t")},
       "`exclude` must name columns of the tables, got 't'; .*a/x.csv' has u, v"),
      ("columns", _FILES, {"columns": ("u",)}, "`columns` must be left out: views have all"),
      ("clients in a column", _FILES, {"client_column": "u"}, "`client_column` must be left out"),
      ("a label column", _FILES, {"label_column": "u"},
       "`label_column` must be left out: classes are in the files 'labels'"),
      ("a split", _FILES, {"split_column": "u"}, "`split_column` must be left out"),
      ("all missing", _with(_FILES, a_x="u,v\n1,\n1,\n", b_x="u,v\n1,\n"), {"missing": "mean"},
       "x.csv': column 'v' is empty everywhere; .*Try: --exclude=v$"),
  )
  def test_refuses(self, files, options, message):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files, **options)
    self.assertNotIn("\n", str(caught.exception))

  def test_all_views_at_once(self):
    files = _with(
        _FILES, a_x="id;u\n1;2,5\n2;\n", b_x="id;u\n1;2,5\n", a_y="w\nred\nred\n", b_y="w\nblue\n"
    )
    files = {name: text for name, text in files.items() if not name.endswith(".npy")}
    with self.assertRaisesRegex(
        ValueError,
        "a/x.csv': column 1, 'id', looks .*a/y.csv': line 2, column 'w': 'red' .*a/x.csv': line 3, "
        "column 'u' is empty; .* Try: --exclude=id --categories=w --missing=mean$",
    ):
      self.open(files)
    tables = self.open(files, exclude=("id",), categories=("w",), missing="mean")
    np.testing.assert_array_equal(tables.read("a").features, [[2.5, 0, 1], [2.5, 0, 1]])

  @parameterized.named_parameters(
      ("text", "pid", "p{}", ""), ("like ids", "patient_id", "{}", ""),
      ("text beside", "pid", "p{}", "r"),
  )
  def test_ids_of_all_views_are_compared(self, name, cell, level):
    ids = [cell.format(i) for i in range(30)]
    views = {
        order: folders.lines(
            f"{name},u,v", *(f"{pid},{level or i},{i % 7}" for i, pid in enumerate(pids))
        ) for order, pids in (("same", ids), ("other", ids[::-1]))
    }
    advice = "Try: " + "--categories=u " * bool(level) + f"--id_column={name}"
    refusal = f"a/y.csv': row 1 has the id '{ids[-1]}', and in .*a/x.csv' it has '{ids[0]}'"
    for order, view in views.items():
      with self.assertRaisesRegex(
          ValueError, f"--id_column={name} compares the rows of all views"
      ) as caught:
        self.open({"a/x.csv": views["same"], "a/y.csv": view})
      message = str(caught.exception)
      self.assertNotIn("--exclude", message)
      self.assertEqual(message.endswith(advice), order == "same")
      self.assertEqual(bool(re.search(refusal, message)), order == "other")

  _KEYS = [f"{66876 - 7 * i % 50}" for i in range(9)]

  def _of_keys(self, other, name="key", **others):
    """Returns files of two clients, whose second view has its rows in the same order or not."""
    found, last = {}, self._KEYS[4:]
    for client_id, keys, of_other in (("a", self._KEYS[:5], other[:5]), ("b", last, last)):
      for view, own in (("x", keys), ("y", of_other), *((n, keys) for n in others)):
        rows = (f"{key},{i % 2 + ord(client_id)}" for i, key in enumerate(own))
        found[f"{client_id}/{view}.csv"] = folders.lines(f"{others.get(view, name)},{view}v", *rows)
    return found

  @parameterized.named_parameters(("in all views", {}), ("not in all views", {"z": "other"}))
  def test_the_same_values_in_another_order(self, others):
    files = self._of_keys(self._KEYS[4::-1], **others)
    problem = (
        "a/y.csv': the column 'key' has the same values as in '.*a/x.csv' in another order, "
        f"{self._KEYS[4]} where that has {self._KEYS[0]}; all views must have the same rows in the "
        "same order"
    )
    with self.assertRaisesRegex(ValueError, problem + ".$" * bool(others)) as caught:
      self.open(files)
    self.assertEqual("--id_column=key compares" in str(caught.exception), not others)
    tables = self.open(self._of_keys(self._KEYS, **others))
    told = ("the column key looks like the rows' ids: all views have the same numbers in the same "
            "order, none twice; --id_column=key compares the rows of all views",)
    self.assertEqual(tables.warnings, () if others else told)
    later = table_options.LaterFiles()
    with self.assertRaisesRegex(ValueError, "a/y.csv': the column 'key' has the same .*order.$"):
      view_tables.open_folder_for(tables.format, self.write(files), later=later)

    tables = self.open(files, exclude=("key",))
    self.assertLen(tables.warnings, 1)
    self.assertRegex(tables.warnings[0], problem + "$")
    found = view_tables.open_folder_for(tables.format, self.write(files), later=later).warnings
    self.assertRegex(found[0], problem + "$")
    tables = self.open(self._of_keys(self._KEYS, **others), exclude=("key",))
    self.assertEqual(tables.warnings, ())

  @parameterized.named_parameters(
      ("others", ["1", "2", "3", "4", "5"], "key"), ("one twice", _KEYS[:4] * 2, "key"),
      ("one missing", ["NA", *_KEYS[3::-1]], "key"), ("no name", _KEYS[4::-1], "column_1"),
  )
  def test_other_values_of_columns_with_one_name(self, other, name):
    tables = self.open(self._of_keys(other, name), missing="mean")
    self.assertNotIn("rows' ids", str(tables.warnings))

  @parameterized.named_parameters(
      ("twice in a file", ["n1", "n1"], ["n1", "n2"]), ("a missing one", ["n1", ""], ["n1", "n2"])
  )
  def test_what_names_no_rows_is_left_out(self, *ends):
    rows = [f"m{i}" for i in range(50)]
    files = {
        f"a/{view}.csv": folders.lines("note,u", *(f"{note},1" for note in rows + end))
        for view, end in zip("xy", ends)
    }
    with self.assertRaisesRegex(ValueError, "Try: --exclude=note"):
      self.open(files)

  def test_no_flag_that_would_drop_numbers_of_another_view(self):
    files = {"a/x.csv": "u,v\n1,2\n", "b/x.csv": "u\n1\n", "a/y.csv": "v,w\n1,2\n"}
    for numbers, is_said in (("v,w\n1,2\n", False), ("t,w\n1,2\n", True)):
      with self.assertRaisesRegex(ValueError, "b/x.csv': it has no column 'v', and") as caught:
        self.open({**files, "a/y.csv": numbers, "b/y.csv": numbers})
      self.assertEqual("Try: --exclude=v" in str(caught.exception), is_said)

  def test_no_folder(self):
    with self.assertRaisesRegex(ValueError, "`here` must be a folder, got '/no/such'"):
      view_tables.open_folder("/no/such", table_options.TableOptions(), "here")


class ForAModelTest(ViewTablesTestCase):

  def setUp(self):
    super().setUp()
    self.format = self.open(_IDS, id_column="key").format

  def _open(self, files, **later):
    later = table_options.LaterFiles(**later)
    return view_tables.open_folder_for(self.format, self.write(files), later=later)

  def test_rows_that_come_later(self):
    tables = self._open({"new/y.csv": "key,w\n1,2\n", "new/x.csv": "u,key\n3,1\n"})
    np.testing.assert_array_equal(tables.read("new").features, [[3, 2]])
    self.assertEqual(tables.read("new").row_ids, ("1",))

  def test_a_row_that_one_view_leaves_out_is_left_out_of_all(self):
    files = {
        "c/x.csv": "key,u\n1,1\n2,u\n3,3\n4,4\n", "c/y.csv": "w,key,z\n5,1,\n6,2,\n,3,\n8,4,\n",
    }
    with self.assertRaisesRegex(ValueError, "x.csv': line 3, .*'u' is not a number"):
      self._open(files)
    tables = self._open(files, skip_bad_rows=True)
    np.testing.assert_array_equal(tables.read("c").features, [[1, 5], [4, 8]])
    np.testing.assert_array_equal(tables.read("c").rows, [1, 4])
    self.assertEqual(tables.read("c").row_ids, ("1", "4"))
    self.assertRegex(" ".join(tables.warnings), "view x: 1 row is .*view y: columns that .*'z'")
    files["c/y.csv"] = "w,key\n5,1\n6,2\n7,3\n8,5\n"
    with self.assertRaisesRegex(ValueError, "row 4 has the id '5', and in .*x.csv' it has '4'"):
      self._open(files, skip_bad_rows=True)

  @parameterized.parameters("x", "y")
  def test_ids_of_one_client_or_view(self, without):
    texts = {"x": "key,u\nk,3\n", "y": "key,w\nk,4\n"}
    lacking = {"x": "u\n3\n", "y": "w\n4\n"}
    files = {f"c/{name}.csv": text for name, text in {**texts, without: lacking[without]}.items()}
    files.update({f"d/{name}.csv": text for name, text in texts.items()})
    files.update({f"e/{name}.csv": text for name, text in lacking.items()})
    tables = self._open(files)
    found = [tables.read(client_id).row_ids for client_id in "cde"]
    self.assertEqual(found, [("k",), ("k",), None])

  def test_an_id_that_one_view_lacks(self):
    files = {"c/x.csv": "key,u\n,3\nk,3\n", "c/y.csv": "key,w\nj,4\nk,4\n"}
    self.assertEqual(self._open(files).read("c").row_ids, (None, "k"))
    files["c/y.csv"] = "key,w\nj,4\nj,4\n"
    with self.assertRaisesRegex(ValueError, "row 2 has the id 'j', and in .*x.csv' it has 'k'"):
      self._open(files)

  def test_ids_may_be_absent_and_labels_are_left_alone(self):
    tables = self._open({
        "c/x.csv": "u\n3\n", "c/y.csv": "w\n3\n", "c/labels.csv": "nonsense",
        "d/x.csv": "u\n3\n", "d/y.csv": "w\n3\n",
    })
    self.assertEqual(tables.client_ids, ("c", "d"))
    self.assertIsNone(tables.read("c").row_ids)
    self.assertIsNone(tables.labels)

  @parameterized.named_parameters(
      ("a missing view", {"c/x.csv": "u\n1\n"},
       "`data_dir` must hold the model's views, x, y, got x in"),
      ("a view too many", {"c/x.csv": "u\n1\n", "c/y.csv": "w\n1\n", "c/z.csv": "w\n1\n"},
       "the model's views, x, y, got x, y, z in"),
      ("another column", {"c/x.csv": "t\n1\n", "c/y.csv": "w\n1\n"},
       "x.csv': it has no column 'u', and the model has"),
      ("other rows", {"c/x.csv": "u\n1\n", "c/y.csv": "w\n1\n2\n"},
       "y.csv': it has 2 rows, and .* must have the same rows; --header says whether [^;]*$"),
      ("another order", {"c/x.csv": "key,u\n1,1\n2,1\n", "c/y.csv": "key,w\n2,1\n1,1\n"},
       "row 1 has the id '2', and in .*x.csv' it has '1'"),
      ("labels only", {"c/labels.csv": "1\n"}, "views, x, y, got none"),
  )
  def test_refuses(self, files, message):
    with self.assertRaisesRegex(ValueError, message):
      self._open(files)


class ViewFormatTest(ViewTablesTestCase):

  def setUp(self):
    super().setUp()
    self.format = self.open(_FILES).format
    self.frames = {
        "y": pd.DataFrame({"column_1": [5.0, 6]}), "x": pd.DataFrame({"v": [2, 4], "u": [1, 3]}),
        "z": None,
    }

  def test_frames_by_name_or_in_order(self):
    expected = [[1, 2, 5], [3, 4, 6]]
    np.testing.assert_array_equal(self.format.features(self.frames), expected)
    in_order = [self.frames["x"], self.frames["y"]]
    np.testing.assert_array_equal(self.format.features(in_order), expected)

  def test_json(self):
    again = table_format.ViewFormat.from_json(self.format.to_json())
    self.assertEqual(again.feature_names, self.format.feature_names)
    np.testing.assert_array_equal(
        again.features(self.frames), self.format.features(self.frames)
    )

  def test_refuses(self):
    x, y = self.frames["x"], self.frames["y"]
    for frames, message in (
        ([x], "`frames` must be one for each of the views x, y, got 1"),
        ({"x": x}, r"`frames` must have the view 'y', got \['x'\]"),
        ([y, x], "`frames` must fit the model, got view 'x': `frame` must have the column 'u'"),
        ([x, y[:1]], "`frames` must have the same rows, got 1 in view 'y' and 2 in view 'x'"),
    ):
      with self.assertRaisesRegex(ValueError, message):
        self.format.features(frames)
    with self.assertRaisesRegex(TypeError, "must be a list of frames or a mapping.*DataFrame"):
      self.format.features(x)


if __name__ == "__main__":
  absltest.main()
