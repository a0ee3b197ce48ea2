"""Tests for fl_clustering.tables.client_tables and what it is made of."""

import csv
import datetime
import gzip
import io
import os
import re
import shlex
import sys
import types
from unittest import mock
import zipfile

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
from pyarrow import feather
from pyarrow import parquet

from fl_clustering.tables import client_tables
from fl_clustering.tables import problems
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options


def _zipped(ending=".csv", **contents):
  """Returns the bytes of an archive of files, plain where they are not small."""
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    for name, content in contents.items():
      archive.writestr(name + ending, content)
    archive.writestr("__MACOSX/x", "")
    archive.writestr("data/.hidden", "")
  return file.getvalue()


def _parquet(table):
  file = io.BytesIO()
  parquet.write_table(table, file)
  return file.getvalue()


def _npz(**arrays):
  file = io.BytesIO()
  np.savez(file, **arrays)
  return file.getvalue()


def _write(path, content):
  if isinstance(content, pd.DataFrame):
    content.to_parquet(path)
  elif path.endswith(".feather") and isinstance(content, pa.Table):
    feather.write_feather(content, path)
  elif isinstance(content, pa.Table):
    parquet.write_table(content, path)
  elif isinstance(content, np.ndarray):
    np.save(path, content)
  elif isinstance(content, dict):
    np.savez(path, **content)
  elif isinstance(content, bytes):
    with open(path, "wb") as file:
      file.write(content)
  elif path.endswith(".gz"):
    with gzip.open(path, "wt") as file:
      file.write(content)
  else:
    with open(path, "w", encoding="utf-8") as file:
      file.write(content)


def _advised(message):
  """Returns the options of the flags that a message ends with."""
  given = shlex.split(message.split(" Try: ")[1])
  values = dict(f"{flag}=true".removeprefix("--").split("=")[:2] for flag in given)
  lists = ("columns", "exclude", "categories")
  return {
      name: tuple(next(csv.reader([value]))) if name in lists else value
      for name, value in values.items()
  }


def _rows(*rows):
  return "".join(f"{row}\n" for row in rows)


class TablesTestCase(parameterized.TestCase):

  def open(self, files, **options):
    """Returns the `ClientTables` of files, text or arrays by name, in a new folder."""
    self.folder = self.create_tempdir().full_path
    for name, content in files.items():
      _write(os.path.join(self.folder, name), content)
    options = table_options.TableOptions(**options)
    return client_tables.open_folder(self.folder, options).filled()

  def assert_features(self, tables, expected):
    self.assertEqual(list(tables.client_ids), list(expected))
    for client_id, rows in expected.items():
      np.testing.assert_allclose(tables.read(client_id).features, rows, rtol=1e-12)


class FilesTest(TablesTestCase):

  @parameterized.parameters(
      ([1.5, None, 2],), (["1.5", "?", " 2 "],), (pd.Categorical(["1.5", None, "2"]),),
      (pd.Categorical([1.5, None, 2]),), (pd.array([1.5, None, 2], "Float64"),),
  )
  def test_numbers_in_parquet(self, column):
    tables = self.open({"a.parquet": pd.DataFrame({"x": column})}, missing="mean")
    self.assert_features(tables, {"a": [[1.5], [1.75], [2]]})

  def test_large_integers_in_parquet(self):
    tables = self.open({"a.parquet": pd.DataFrame({"x": [2**53 + 1, 1]})})
    self.assert_features(tables, {"a": [[2.0**53], [1]]})

  def test_ids_names_and_rows(self):
    tables = self.open({
        "leiden.csv": "age,income\n30,1.5\n40,-2e3\n\n",
        "Delft.CSV": "\ufeffage, income\r\n50,0\r\n",
        "site_10.csv": "age,income\n1,2\n",
        "site_9.csv": "age,income\n3,4\n",
        ".hidden": "x",
    })
    self.assertEqual(tables.feature_names, ("age", "income"))
    self.assert_features(tables, {
        "Delft": [[50, 0]], "leiden": [[30, 1.5], [40, -2000]], "site_9": [[3, 4]],
        "site_10": [[1, 2]],
    })
    self.assertEqual(tables.num_rows, {"Delft": 1, "leiden": 2, "site_9": 1, "site_10": 1})
    self.assertEqual(tables.read("leiden").features.dtype, np.float64)
    np.testing.assert_array_equal(tables.read("leiden").rows, [1, 2])

  @parameterized.named_parameters(
      ("comma", "a.csv", "x,y\n1,2\n3,4\n", {}),
      ("semicolon", "a.csv", "x;y\n1;2\n3;4\n", {}),
      ("semicolon_and_decimal_comma", "a.csv", "x;y\n1,0;2,0\n3,0;4,0\n", {"decimal": ","}),
      ("decimal_comma_that_is_found", "a.csv", "x;y\n1,0;2\n3;4,0\n", {}),
      ("quoted_decimal_commas", "a.csv", 'x,y\n"1,0","2,0"\n"3,0","4,0"\n', {}),
      ("decimal_commas_in_parquet", "a.parquet",
       pd.DataFrame({"x": ["1,0", "3,0"], "y": ["2", "4"]}), {}),
      ("bar", "a.txt", "x|y\n1|2\n3|4\n", {}),
      ("tab", "a.tsv", "x\ty\n1\t2\n3\t4\n", {}),
      ("a_separator_of_the_users", "a.csv", "x:y\n1:2\n3:4\n", {"separator": ":"}),
      ("gzip", "a.csv.gz", "x,y\n1,2\n3,4\n", {}),
      ("quotes", "a.csv", '"x","y"\n"1","2"\n"3","4"\n', {}),
      ("spaces", "a.csv", " x , y\n 1, 2 \n3 ,4\n", {}),
      ("empty_lines", "a.csv", "\n\nx,y\n1,2\n\n3,4\n\n", {}),
      ("parquet", "a.parquet", pd.DataFrame({"x": [1, 3], "y": [2.0, 4.0]}), {}),
      ("feather", "a.feather", pa.table({"x": [1, 3], "y": [2.0, 4.0]}), {}),
      ("views_of_text", "a.feather",
       pa.table({"x": pa.array(["1", "3"], pa.string_view()), "y": [2, 4]}), {}),
      ("zip", "a.zip", _zipped(any="x,y\n1,2\n3,4\n"), {}),
      ("named_zip", "a.csv.zip", _zipped(any="x;y\n1;2\n3;4\n", ending=".txt"), {}),
      ("parquet_in_a_zip", "a.zip", _zipped(
          any=_parquet(pa.table({"x": [1, 3], "y": [2, 4]})), ending=".parquet"), {}),
      ("gzip_in_a_zip", "a.zip", _zipped(
          any=gzip.compress(b"x,y\n1,2\n3,4\n"), ending=".csv.gz"), {}),
      ("array_in_a_zip", "a.zip", _zipped(
          any=_npz(x=np.array([1, 3]), y=np.array([2, 4])), ending=".npz"), {}),
      ("npz_of_columns", "a.npz", {"x": np.array([1, 3]), "y": np.array([2.0, 4.0])}, {}),
  )
  def test_kinds_of_files(self, name, content, options):
    tables = self.open({name: content}, **options)
    self.assertEqual(tables.feature_names, ("x", "y"))
    self.assert_features(tables, {"a": [[1, 2], [3, 4]]})

  @parameterized.named_parameters(
      ("csv", "a.csv", "1,2\n3,4\n"),
      ("csv_that_begins_like_names", "a.csv", "0,0\n3,4\n"),
      ("npy", "a.npy", np.array([[1, 2], [3, 4]], np.int16)),
      ("npz", "a.npz", {"points": np.array([[1, 2], [3, 4]])}),
  )
  def test_without_names(self, name, content):
    tables = self.open({name: content})
    self.assertEqual(tables.feature_names, ("column_1", "column_2"))
    self.assertEqual(tables.num_rows, {"a": 2})

  def test_a_vector_is_a_column(self):
    self.assert_features(self.open({"a.npy": np.array([1, 2])}), {"a": [[1], [2]]})

  def test_columns_are_known_by_name(self):
    tables = self.open({"a.csv": "x,y\n1,2\n", "b.csv": "y,x\n20,10\n"})
    self.assert_features(tables, {"a": [[1, 2]], "b": [[10, 20]]})

  def test_numbers_are_read_exactly(self):
    numbers = np.random.default_rng(0).standard_normal((500, 3)) * 1e-3
    text = "\n".join(",".join(map(repr, row)) for row in numbers.tolist())
    read = self.open({"a.csv": text}).read("a").features
    np.testing.assert_array_equal(read, numbers)


class WorkbooksTest(TablesTestCase):

  def _with(self, **sheets):
    """Returns a context with a package that reads sheets, lists of rows by name, in any file."""
    worksheets = [
        mock.Mock(title=title, iter_rows=mock.Mock(side_effect=lambda rows=rows, **_: iter(rows)))
        for title, rows in sheets.items()
    ]
    book = mock.Mock(worksheets=worksheets)
    package = types.SimpleNamespace(load_workbook=mock.Mock(return_value=book))
    return mock.patch.dict(sys.modules, openpyxl=package)

  def test_cells_of_a_sheet(self):
    rows = [
        (None, None), ("x", "c", "day", None),
        (1, True, datetime.datetime(2024, 3, 1)), (), (2.5, "a,b", datetime.date(2024, 3, 2)),
        (None, "a,b", "2024"), (None,),
    ]
    with self._with(Empty=[], Data=rows):
      tables = self.open(
          {"a.xlsx": "", "b.csv": "x;c;day\n1,5;u;v\n"}, categories=("c",), exclude=("day",),
          missing="mean",
      )
      self.assertEqual(tables.feature_names, ("x", "c=a,b", "c=true", "c=u"))
      np.testing.assert_array_equal(tables.read("a").features[:, 0], [1, 2.5, 5 / 3])
      with self.assertRaisesRegex(ValueError, "line 3, column 'day': '2024-03-01 00:00:00'"):
        self.open({"a.xlsx": ""}, categories=("c",), missing="mean")

  def test_texts_may_hold_any_separator(self):
    with self._with(Data=[("a;b",), ("1;2",), ("3;4",)]):
      tables = self.open({"a.xlsx": ""}, categories=("a;b",))
    self.assertEqual(tables.feature_names, ("a;b=1;2", "a;b=3;4"))

  @parameterized.parameters(
      ({"A": [("x",)], "B": [(1,)]}, "it must have one sheet with cells, got A, B"),
      ({"A": [(None,)]}, "it must have one sheet with cells, got none"),
  )
  def test_sheets(self, sheets, message):
    with self._with(**sheets):
      with self.assertRaisesRegex(ValueError, message):
        self.open({"a.xlsx": ""})

  def test_without_the_package(self):
    with mock.patch.dict(sys.modules, openpyxl=None):
      with self.assertRaisesRegex(ValueError, "a.xlsx': it takes the package openpyxl, which is"):
        self.open({"a.xlsx": ""})


class HeadersTest(TablesTestCase):

  @parameterized.named_parameters(
      ("numbers_in_all_files", {"a.csv": "0,1,2\n5,6,7\n", "b.csv": "0,1,2\n8,9,1\n"}, {}),
      ("and_an_index", {"a.csv": ",0,1,2\n5,6,7,8\n", "b.csv": ",0,1,2\n8,9,1,1\n"},
       {"exclude": ("column_1",)}),
      ("said", {"a.csv": "0,1,2\n5,6,7\n"}, {"header": "yes"}),
      ("numbers_and_text", {"a.csv": "0,1,x\n5,6,7\n", "b.csv": "x,0,1\n5,6,7\n"},
       {"columns": ("0", "1", "x")}),
  )
  def test_a_line_of_names(self, files, options):
    tables = self.open(files, **options)
    self.assertEqual(tables.feature_names[:2], ("0", "1"))
    self.assertEqual(tables.num_rows["a"], 1)

  @parameterized.named_parameters(
      ("other_rows", {"a.csv": "0,1,2\n5,6,7\n", "b.csv": "0,1,3\n8,9,1\n"}, {}),
      ("equal_numbers", {"a.csv": "1,1\n5,6\n", "b.csv": "1,1\n8,9\n"}, {}),
      ("one_column", {"a.csv": "0\n5\n", "b.csv": "0\n8\n"}, {}),
      ("said", {"a.csv": "0,1,2\n5,6,7\n", "b.csv": "0,1,2\n8,9,1\n"}, {"header": "no"}),
  )
  def test_a_row(self, files, options):
    self.assertEqual(self.open(files, **options).num_rows, {"a": 2, "b": 2})


class NumbersTest(TablesTestCase):
  """How numbers are written is found for every file; what has two readings is a fault."""

  @parameterized.named_parameters(
      ("each file has its own mark", {"a.csv": "x;y\n1,5;2\n", "b.csv": "x,y\n2.5,3\n"}, {},
       {"a": [[1.5, 2]], "b": [[2.5, 3]]}),
      ("a comma far below", {"a.csv": _rows("x;y", *["1;2"] * 5000, "3,25;4")}, {},
       {"a": [[1, 2]] * 5000 + [[3.25, 4]]}),
      ("three decimals beside fewer", {"a.csv": "x\n1,911\n7,86\n"}, {"separator": ";"},
       {"a": [[1.911], [7.86]]}),
      ("three decimals below one", {"a.csv": "x\n1,911\n0,866\n"}, {"separator": ";"},
       {"a": [[1.911], [0.866]]}),
      ("points between commas", {"a.csv": "x,y\n1.911,2\n", "b.csv": "x;y\n1,5;2\n"}, {},
       {"a": [[1.911, 2]], "b": [[1.5, 2]]}),
      ("signs, exponents and spaces", {"a.csv": "x;y\n+1,5; -2E-3 \n ,5;NA\n"},
       {"missing": "mean"}, {"a": [[1.5, -0.002], [0.5, -0.002]]}),
      ("commas between thousands", {"a.csv": 'x,y\n"1,234.5",2\n"12,345,678",3\n"1,234",4\n'},
       {"thousands": ","}, {"a": [[1234.5, 2], [12345678, 3], [1234, 4]]}),
      ("points between thousands", {"a.csv": "x;y\n1.911;2\n7,86;3\n"}, {"thousands": "."},
       {"a": [[1911, 2], [7.86, 3]]}),
      ("points between thousands, but where commas stand between cells",
       {"a.csv": "x;y\n1,5;1.234,5\n", "b.csv": "x,y\n2,3.250\n"}, {"thousands": "."},
       {"a": [[1.5, 1234.5]], "b": [[2, 3.25]]}),
      ("points between thousands of the only column", {"a.csv": "x\n1.911\n"},
       {"thousands": "."}, {"a": [[1911]]}),
      ("a byte order mark", {"a.csv": "\ufeffx,y\n1,2\n", "b.csv": "x,y\n3,4\n"},
       {"encoding": "UTF-8"}, {"a": [[1, 2]], "b": [[3, 4]]}),
      ("spaces between thousands", {"a.csv": "x;y\n1 911;2\n1\u00a0234,5;3\n"},
       {"thousands": " "}, {"a": [[1911, 2], [1234.5, 3]]}),
      ("units", {"a.csv": "x,y,z\n1.1 mg/dl,85%,<0.5\n2mg/dl,7 %,2\n"}, {"strip_units": True},
       {"a": [[1.1, 85, 0.5], [2, 7, 2]]}),
      ("units after commas", {"a.csv": "x;y\n1,1 mg/dl;>= 2,5\n"}, {"strip_units": True},
       {"a": [[1.1, 2.5]]}),
      ("units and thousands", {"a.parquet": pd.DataFrame({"x": ["1,234 U/l", "5.5 U/l"]})},
       {"strip_units": True, "thousands": ","}, {"a": [[1234], [5.5]]}),
  )
  def test_reads(self, files, options, expected):
    self.assert_features(self.open(files, **options), expected)

  @parameterized.named_parameters(
      ("a point beside a comma", {"a.csv": "x;y\n1.911;2\n7,86;3\n"},
       "line 2, column 'x': '1.911' may be 1.911 or 1911, as '7,86' in line 3, column 'x', has a "
       "decimal comma; --thousands=. reads it as 1911"),
      ("in another column", {"a.csv": "x;y\n1.911;2\n2.500;7,86\n"},
       "line 2, column 'x': '1.911' may be .*, as '7,86' in line 3, column 'y', has"),
      ("commas alone", {"a.csv": "x;y\n1,911;2\n2,500;3\n"},
       "line 2, column 'x': '1,911' may be 1.911 or 1911; --decimal=, or --thousands=, says"),
      ("a comma beside a point", {"a.csv": 'x,y\n"1,911",0.5\n'},
       "'1,911' may be 1.911 or 1911, as '0.5' in line 2, column 'y', has a decimal point"),
      ("both marks in a column", {"a.csv": "x;y\n1.5;2\n2,25;3\n"},
       "line 2, column 'x': '1.5' has a decimal point, and '2,25' in line 3, column 'x', a decimal "
       "comma; a file must have one"),
      ("both marks in two columns", {"a.csv": "x;y\n1.5;2,25\n"},
       "'1.5' has a decimal point, and '2,25' in line 2, column 'y', a decimal comma"),
      ("points that a file leaves open", {"a.csv": "x;y\n1.911;2\n", "b.csv": "x;y\n1,5;2\n"},
       "a.csv': line 2, column 'x': '1.911' may have a decimal point or one between thousands, as "
       "'.*b.csv' has decimal commas; --decimal gives"),
      ("two units", {"a.csv": "x\n1.1 mg/dl\n97 mmol/l\n"},
       "'1.1 mg/dl' has one of the units mg/dl, mmol/l, and a column must have one"),
  )
  def test_two_readings_are_a_fault_without_a_try(self, files, message):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files)
    self.assertNotRegex(str(caught.exception), "Try:|--exclude|--categories")

  @parameterized.named_parameters(
      ("two files", {"a.csv": "x\n1 mg/dl\n", "b.csv": "x\n1 mmol/l\n"},
       "b.csv': column 'x' has the unit 'mmol/l', and the unit 'mg/dl' in .*a.csv'; a column must"),
      ("shares and percentages", {"a.csv": "x\n85%\n", "b.csv": "x\n0.85\n"},
       "b.csv': column 'x' has no unit, and the unit '%' in .*a.csv'"),
  )
  def test_units_that_are_not_one(self, files, message):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files, strip_units=True)
    self.assertNotIn("Try:", str(caught.exception))

  @parameterized.named_parameters(
      ("a unit", "1.1 mg/dl", "it has a unit; --strip_units reads", {"strip_units": "true"}),
      ("a percent sign", "85%", "it has a percent sign; column 'x' has the unit '%', and no unit;",
       None),
      ("a comparison", "<0.5", "it has a comparison; --strip_units", {"strip_units": "true"}),
      ("thousands", '"1,234.5"', "it has commas between thousands; --thousands=, reads",
       {"thousands": ","}),
      ("apostrophes", "1'234.5", "it has apostrophes between thousands", {"thousands": "'"}),
      ("text", "hemolyzed", "is not a number; where most cells of a column are numbers", None),
  )
  def test_a_cell_among_numbers(self, cell, message, advised):
    files = {"a.csv": _rows("x,y", "1.5,1", f"{cell},2", "3.5,4")}
    with self.assertRaisesRegex(ValueError, f"line 3, column 'x': .*{message}") as caught:
      self.open(files)
    self.assertNotRegex(str(caught.exception), "--exclude|--categories")
    self.assertEqual("Try:" in str(caught.exception), advised is not None)
    if advised is not None:
      self.assertEqual(_advised(str(caught.exception)), advised)

  def test_a_mark_that_another_cell_shows_between_thousands(self):
    files = {"a.csv": _rows("x,y", '"1,234",1', '"1,234.5",2', "3.5,4")}
    with self.assertRaisesRegex(ValueError, "line 2, column 'x': '1,234' is not") as caught:
      self.open(files)
    self.assertEqual(_advised(str(caught.exception)), {"thousands": ","})
    self.assert_features(self.open(files, thousands=","), {"a": [[1234, 1], [1234.5, 2], [3.5, 4]]})

  def test_codes_are_no_numbers_with_units(self):
    codes = ("12A", "3B", "7C", "9D", "12A", "3B", "7C", "9D", "12A")
    with self.assertRaisesRegex(ValueError, "'12A' is not a number; --categories .*") as caught:
      self.open({"a.csv": _rows("ward,y", *(f"{code},1" for code in codes))})
    self.assertEqual(_advised(str(caught.exception)), {"categories": ("ward",)})

  def test_a_cell_that_is_missing_among_numbers(self):
    with self.assertRaisesRegex(ValueError, "line 3, column 'x' is empty; --missing=") as caught:
      self.open({"a.csv": "x,y\n1,2\n,3\n", "b.csv": "x,y\n4,5\n"})
    self.assertNotRegex(str(caught.exception), "--exclude|--categories")

  def test_text_at_one_client_of_a_column_of_numbers(self):
    files = {"a.csv": _rows("x,y", *["1,2"] * 5), "b.csv": "x,y\nhigh,3\nlow,4\n"}
    with self.assertRaisesRegex(ValueError, "b.csv': line 2, column 'x': 'high' is") as caught:
      self.open(files)
    self.assertNotRegex(str(caught.exception), "Try:|--exclude|--categories")

  def test_flags_that_would_drop_numbers_are_not_said(self):
    # What helps with `c` in one view would drop the numbers of the same name in another one.
    problem = problems.Finding("it is bad", "a.csv", fix={"exclude": ("c",)})

    def open_with(options):
      if "c" in options.exclude:
        return mock.Mock(number_columns=frozenset({"x"}))
      raise problems.BadTable.of([problem], {"x", "c"})

    with self.assertRaisesRegex(ValueError, "it is bad.$"):
      problems.open_tables(open_with, table_options.TableOptions(), "data_dir")

  def test_private_runs_read_every_cell_on_its_own(self):
    options = {"allow_any_number": True, "header": "yes"}
    rows = ("1.234,5;1 mg;", "1.911;<2 g;5%", "1,5;x;.5")
    files = {"a.csv": _rows("x;y;z", *rows)}
    nan = np.nan
    self.assert_features(
        self.open(files, decimal=",", thousands=".", strip_units=True, **options),
        {"a": [[1234.5, 1, nan], [1911, 2, 5], [1.5, nan, nan]]},
    )
    self.assert_features(
        self.open(files, **options), {"a": [[nan, nan, nan], [1.911, nan, nan], [nan, nan, 0.5]]}
    )


class AboveAndBesideTablesTest(TablesTestCase):
  """Titles, comments and encodings."""

  @parameterized.named_parameters(
      ("a title", {"a.csv": "Report: March\n\nx,y,c\n1,2,u\n1,3,u\n"},
       "line 1, 'Report: March', looks like a title above the table; .*--skip_lines",
       {"skip_lines": 2}),
      ("two titles", {"a.csv": "Report\nof all, sites\nx;y;z;c\n1;2;3;u\n4;5;6;u\n"},
       "line 1, 'Report', looks like a title", {"skip_lines": 2}),
      ("a title of a spreadsheet", {"a.csv": "Report;;\n;;\nx;y;c\n1;2;u\n1;3;u\n"},
       "line 1, 'Report', looks like a title", {"skip_lines": 2}),
      ("a comment", {"a.csv": "# site 0\nx,y,c\n1,2,u\n", "b.csv": "x,y,c\n1,2,u\n"},
       "a.csv': line 1, '# site 0', looks like a comment; .*--comment", {"comment": "#"}),
      ("comments of a column", {"a.csv": "# site, 0\nc\nu\n# end\nu\n"},
       "line 1, '# site, 0', looks like a comment", {"comment": "#"}),
      ("a comment far below", {"a.csv": _rows("x,c", *["1,u"] * 30, "% end", "2,u")},
       "line 32, '% end', looks like a comment", {"comment": "%"}),
  )
  def test_what_is_no_row(self, files, message, advised):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files)
    given = {name: str(value) for name, value in advised.items()}
    self.assertEqual(
        _advised(str(caught.exception)), {**given, "categories": ("c",)}
    )
    tables = self.open(files, categories=("c",), **advised)
    self.assertEqual(tables.feature_names[-1], "c=u")

  @parameterized.named_parameters(
      ("rows", {"skip_lines": 1}, "Report\nx,y\n1,2\n3,\n", "line 4, column 'y'"),
      ("comments", {"comment": "#"}, "# a\nx,y\n#b\n1,2\n\n# c\n3,\n", "line 7, column 'y'"),
  )
  def test_lines_are_counted_from_the_first(self, options, text, place):
    with self.assertRaisesRegex(ValueError, f"{place} is empty"):
      self.open({"a.csv": text}, **options)

  def test_titles_at_one_client_only(self):
    with self.assertRaisesRegex(ValueError, "a.csv': line 1, 'Report', looks like") as caught:
      self.open({"a.csv": "Report\nx,y\n1,2\n3,4\n", "b.csv": "x,y\n1,2\n3,4\n"})
    self.assertNotIn("Try:", str(caught.exception))

  def test_other_numbers_of_titles(self):
    with self.assertRaisesRegex(ValueError, "a.csv': line 1, .*b.csv': line 1") as caught:
      self.open({"a.csv": "R\nx,y\n1,2\n3,4\n", "b.csv": "R\nS\nx,y\n1,2\n3,4\n"})
    self.assertNotIn("Try:", str(caught.exception))

  @parameterized.named_parameters(
      ("names that begin like comments", "#x,y\n1,2\n"), ("a name of one column", "#x\n1\n"),
      ("a row with one cell of text", "u,,\nv,1,2\nw,3,4\n", "no"),
  )
  def test_names_and_rows(self, text, header="auto"):
    tables = self.open(
        {"a.csv": text}, header=header, missing="mean",
        exclude=("column_1",) if header == "no" else (),
    )
    self.assertEqual(tables.num_rows["a"], 3 if header == "no" else 1)

  @parameterized.named_parameters(
      ("cp1252", "caf\u00e9,\u2019".encode("cp1252"), {}),
      ("utf-8", "caf\u00e9,\u2019".encode(), {}),
      ("utf-16", None, {}),
      ("latin-1", "caf\u00e9,\u0092".encode("latin-1"), {"encoding": "latin-1"}),
  )
  def test_encodings(self, cells, options):
    rows = b"c,d,x\n" + b"u,v,1\n" * 5000 + (cells or b"") + b",2\n"
    if cells is None:
      rows = ("c,d,x\n" + "u,v,1\n" * 5000 + "caf\u00e9,\u2019,2\n").encode("utf-16")
    for files in ({"a.csv": rows}, {"a.csv": rows, "b.csv": b"c,d,x\nu,v,3\n"}):
      tables = self.open(files, categories=("c", "d"), **options)
      self.assertIn("c=caf\u00e9", tables.feature_names)
      self.assertLen(tables.read("a").rows, 5001)

  def test_private_runs_leave_out_what_options_say(self):
    tables = self.open(
        {"a.csv": b"title\n# note\nx,y\n1,2\n#3,4\n5,\xe9\n"}, allow_any_number=True,
        header="yes", skip_lines=1, comment="#", encoding="latin-1",
    )
    self.assert_features(tables, {"a": [[1, 2], [5, np.nan]]})


class RolesTest(TablesTestCase):

  def test_roles(self):
    tables = self.open(
        {
            "a.csv": "patient_id,age,sick,part,x\n007,30,no,train,9\n8,40,yes,Test,9\n",
            "b.csv": "part,age,sick,patient_id\ntrain,50,maybe,z\n",
        },
        id_column="patient_id", label_column="sick", split_column="part", columns=("age",),
    )
    self.assertEqual(tables.feature_names, ("age",))
    self.assertEqual(tables.format.classes, ("maybe", "no", "yes"))
    table = tables.read("a")
    self.assertEqual(table.row_ids, ("007", "8"))
    np.testing.assert_array_equal(table.labels, [1, 2])
    np.testing.assert_array_equal(table.is_test, [False, True])
    np.testing.assert_array_equal(tables.read("b").labels, [0])

  def test_classes_are_numbers_by_size(self):
    tables = self.open(
        {"a.csv": "x,y\n1,10\n1,9\n", "b.csv": "x,y\n1,9.0\n1,2\n"}, label_column="y"
    )
    self.assertEqual(tables.format.classes, ("2", "9", "10"))
    np.testing.assert_array_equal(tables.read("b").labels, [1, 0])

  def test_two_classes_of_numbers(self):
    tables = self.open({"a.csv": "x,y\n1,0\n2,3\n"}, label_column="y", label_above=0)
    self.assertEqual(tables.format.classes, ("<= 0", "> 0"))
    np.testing.assert_array_equal(tables.read("a").labels, [0, 1])

  def test_one_table_of_several_clients(self):
    tables = self.open(
        {"1.csv": "x,who\n1,b\n2,a\n3,b\n", "2.csv": "who,x\na,4\n"}, client_column="who"
    )
    self.assert_features(tables, {"a": [[2], [4]], "b": [[1], [3]]})
    np.testing.assert_array_equal(tables.read("b").rows, [1, 3])

  def test_exclude(self):
    tables = self.open({"a.csv": "x,y\n1,text\n", "b.csv": "x\n2\n"}, exclude=("y",))
    self.assert_features(tables, {"a": [[1]], "b": [[2]]})

  def test_levels_of_all_clients(self):
    tables = self.open(
        {"a.csv": "x,n\nred,1\nblue,2\n", "b.csv": "x,n\ngreen,1.0\n"}, categories=("x", "n")
    )
    self.assertEqual(tables.feature_names, ("x=blue", "x=green", "x=red", "n=1", "n=2"))
    self.assert_features(
        tables, {"a": [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]], "b": [[0, 1, 0, 1, 0]]}
    )

  def test_levels_are_written_in_many_ways(self):
    tables = self.open(
        {
            "a.csv": "x\nTRUE\nfalse\n", "b.csv": "x\nTrue\n",
            "c.parquet": pd.DataFrame({"x": [False]}),
        },
        categories=("x",),
    )
    self.assertEqual(tables.feature_names, ("x=false", "x=true"))
    frame = pd.DataFrame({"x": [True, False]})
    np.testing.assert_array_equal(tables.format.features(frame), [[0, 1], [1, 0]])

  def test_other_values_other_digest(self):
    texts = ("x,y\n1,2\n", "x,y\n1,3\n", "y,x\n2,1\n")
    digests = [self.open({"a.csv": text}).sha256 for text in texts]
    self.assertNotEqual(digests[0], digests[1])
    self.assertEqual(digests[0], digests[2])


class WarningsTest(TablesTestCase):
  """What can be read, but is odd, is said."""

  def _off(self, **columns):
    """Returns what is said of clients with these columns, of which all have another one."""
    files = {
        f"{client}.csv": _rows("x,y", *(f"{x},{i}" for i, x in enumerate(column)))
        for client, column in columns.items()
    }
    return list(self.open(files).warnings)

  @parameterized.named_parameters(
      ("Fahrenheit", lambda x: x * 1.8 + 32, "98.96"), ("kPa", lambda x: x / 7.5, "4.96"),
      ("an odd row", lambda x: np.where(x == x[0], x, x * 10), "356.4"),
  )
  def test_a_clients_column_off_by_a_factor(self, changed, mean):
    usual = np.linspace(36.4, 38, 21)
    found = self._off(a=usual, b=usual + 0.1, c=usual - 0.1, hot=changed(usual))
    self.assertLen(found, 1)
    start, means = found[0].split("; ")
    self.assertEqual(start, "the column x may have another unit at hot")
    self.assertRegex(means, f"^the clients' means are .*{mean} \\(hot\\)")
    self.assertIn("37.1 (c), 37.2 (a), 37.3 (b)", means)

  @parameterized.named_parameters(
      ("alike", [10, 11, 12, 13, 14], [14, 15, 16, 17, 18]),
      ("apart, but near", [10, 11, 12, 13, 14], [15, 16, 17, 18, 19]),
      ("wide", [1, 2, 3, 4, 5], [4, 8, 12, 16, 20]),
      ("not positive", [-1, 11, 12, 13, 14], [100, 110, 120, 130, 140]),
      ("codes", [10, 10, 10, 10, 10], [20, 20, 20, 20, 20]),
      ("few rows", [10, 11, 12, 13, 14], [100, 110, 120, 130]),
      ("missing", [10, 11, 12, 13, 14], [100, 110, 120, 130, ""]),
  )
  def test_clients_that_only_differ(self, one, other):
    self.open({"a.csv": "x\n1\n"})  # The folder is another one for each.
    files = {"a.csv": _rows("x,y", *(f"{x},1" for x in one)),
             "b.csv": _rows("x,y", *(f"{x},2" for x in other))}
    self.assertEmpty([
        text for text in self.open(files, missing="mean").warnings if "unit" in text
    ])

  @parameterized.named_parameters(
      ("nothing", "x,y\n1,u\n2,v\n", "x,y\n3,u\n4,v\n", {"label_column": "y"}, []),
      ("classes alike", "x,y\n1,Heart failure\n2,no\n", "x,y\n1,heart  failure\n2,no\n",
       {"label_column": "y"},
       ["the classes 'Heart failure', 'heart  failure' differ only in case or spaces",
        "only one client has each of the classes 'Heart failure', 'heart  failure'"]),
      ("a class of one client", "x,y\n1,u\n2,v\n", "x,y\n3,u\n4,u\n", {"label_column": "y"},
       ["only one client has the class 'v'"]),
      ("many classes", _rows("x,y", *(f"{i},c{i}" for i in range(51))),
       _rows("x,y", *(f"{i},c{i}" for i in range(51))), {"label_column": "y"},
       ["there are 51 classes"]),
      ("ids", "x,k\n1,u\n2,u\n3,u\n", "x,k\n3,u\n4,v\n", {"id_column": "k"},
       ["ids in the column k are not unique: 2 of them repeat another one of the same client (a)"]),
      ("constants", "x,y,z\n1,0,5\n1,0,6\n", "x,y,z\n1,0,5\n1,,7\n", {"missing": "mean"},
       ["the columns x, y have the same value everywhere"]),
      ("dates", "x,day\n1,20240131\n", "x,day\n2,20231201\n", {},
       ["the column day looks like dates written as integers"]),
      ("no dates", "x,n\n1,20240131\n", "x,n\n2,20231301\n", {}, []),
      ("large integers", "x,k\n1,9007199254740993\n", "x,k\n2,3\n", {},
       ["the column k has numbers of 2^53 or more, which are rounded"]),
      ("large numbers", "x,k\n1,1e30\n", "x,k\n2,3\n", {}, []),
      ("an encoding", b"x,c\n1,caf\xe9\n", "x,c\n2,u\n", {"categories": ("c",)},
       ["text that is no UTF-8 is read as cp1252: a.csv"]),
      ("an encoding that was given", b"x,c\n1,caf\xe9\n", "x,c\n2,u\n",
       {"categories": ("c",), "encoding": "cp1252"}, []),
  )
  def test_warnings(self, first, second, options, warnings):
    tables = self.open({"a.csv": first, "b.csv": second}, **options)
    self.assertEqual(list(tables.warnings), warnings)

  def test_none_of_it_in_a_private_run(self):
    files = {"a.csv": "x,k\n20240131,u\n20240131,u\n"}
    for header in ("yes", "auto"):
      tables = self.open(files, id_column="k", allow_any_number=True, header=header)
      self.assertEqual(tables.warnings, ())

  @parameterized.parameters(("y", 21, True), ("y", 20, False), ("x", 60, False))
  def test_numbers_that_are_no_classes(self, column, count, is_refused):
    rows = [f"{i % 30},{i / 8}" for i in range(count)]
    options = {"label_column": column, "exclude": {"x", "y"} - {column}}
    files = {"a.csv": _rows("x,y,z", *(f"{row},{i}" for i, row in enumerate(rows)))}
    options["exclude"] = tuple(options["exclude"])
    if not is_refused:
      self.assertIsNone(self.open(files, **options).format.options.task)
      return
    with self.assertRaisesRegex(
        ValueError, "column 'y' has 21 different numbers in 21 rows, which are no classes; "
        "--label_above makes two classes of them, --task=regression learns the numbers"
    ) as caught:
      self.open(files, task="classification", **options)
    self.assertNotIn("Try:", str(caught.exception))
    tables = self.open(files, label_column=column, exclude=("x",), label_above=1)
    self.assertLen(tables.format.classes, 2)


class RegressionTest(TablesTestCase):

  def _tables(self, labels, **options):
    rows = [f"{i},{label}" for i, label in enumerate(labels)]
    half = len(rows) // 2
    files = {"a.csv": _rows("x,y", *rows[:half]),
             "b.csv": _rows("x,y", *rows[half:])}
    return self.open(files, label_column="y", **options)

  @parameterized.named_parameters(
      ("distinct integers", range(21), True),
      ("many integers", [i % 60 for i in range(180)], True),
      ("integers with many rows", [i % 60 for i in range(300)], False),
      ("few numbers", [i % 20 / 10 for i in range(40)], False),
      ("fractions that repeat", [i % 21 / 10 for i in range(300)], True),
      ("text", [f"c{i}" for i in range(30)], False),
  )
  def test_what_is_found(self, labels, is_regression):
    tables = self._tables(labels)
    self.assertEqual(tables.format.options.is_regression, is_regression)
    self.assertEqual(tables.format.classes is None, is_regression)

  def test_few_numbers_are_learned_where_that_is_asked(self):
    tables = self._tables([1, 2, 1, 2], task="regression")
    self.assertIsNone(tables.format.classes)
    self.assertEqual(tables.read("b").labels.tolist(), [1.0, 2.0])

  def test_labels_have_the_decimal_mark_of_their_file(self):
    files = {"a.csv": _rows("x;y", *(f"{i},5;{i},25" for i in range(30)))}
    tables = self.open(files, label_column="y")
    self.assertEqual(tables.read("a").labels.tolist(), [i + 0.25 for i in range(30)])

  def test_the_scale_is_that_of_the_chosen_rows(self):
    tables = self._tables([1, 3, 50, 5, 7, 90], task="regression")
    tables = tables.standardized(lambda _, table: table.features[:, 0] % 3 < 2)
    scale = tables.format.label_scale
    self.assertAlmostEqual(scale.mean, 4)
    self.assertAlmostEqual(scale.deviation, np.std([1, 3, 5, 7]))
    np.testing.assert_allclose(scale.in_units(tables.read("b").labels), [5, 7, 90])
    again = table_format.TableFormat.from_json(tables.format.to_json())
    self.assertEqual(again.label_scale, scale)
    self.assertEqual(again.columns, tables.format.columns)

  def test_labels_that_are_all_the_same(self):
    with self.assertRaisesRegex(ValueError, "`label_column` must hold different numbers.*got 3 ev"):
      self._tables([3, 3, 3, 9], task="regression").standardized(
          lambda _, table: table.features[:, 0] < 3
      )

  @parameterized.named_parameters(
      ("nan", "nan", "line 2, column 'y' is empty, and every row must have one"),
      ("text", "high", "line 2, column 'y': 'high' is not a number"),
      ("infinite", "inf", "inf"),
  )
  def test_a_label_that_is_no_number(self, cell, message):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self._tables([cell, 2, 3, 4.5], task="regression")
    self.assertNotIn("Try:", str(caught.exception))

  def test_text_can_not_be_learned(self):
    with self.assertRaisesRegex(ValueError, "column 'y': 'a' is not a number") as caught:
      self._tables(["a", "b", "a", "b"], task="regression")
    self.assertNotIn("Try:", str(caught.exception))

  def test_options_that_contradict_it(self):
    with self.assertRaisesRegex(ValueError, "`label_above` must be left out for a regression"):
      self._tables([1, 2], task="regression", label_above=1)
    with self.assertRaisesRegex(ValueError, "`task` must be left out without `label_column`"):
      self.open({"a.csv": "x\n1\n"}, task="regression")

  def test_files_without_labels_can_be_predicted(self):
    tables = self._tables([1, 2, 3, 4], task="regression").standardized(
        lambda _, table: np.ones(len(table.rows), bool)
    )
    path = os.path.join(self.create_tempdir().full_path, "c.csv")
    with open(path, "w", encoding="utf-8") as file:
      file.write("x\n1\n2\n")
    opened = client_tables.open_files_for(tables.format, {"c": path})
    self.assertIsNone(opened.read("c").labels)


class MissingTest(TablesTestCase):
  FILES = {"a.csv": "x,c\n1,u\n,v\nNA,?\n", "b.csv": "x,c\n4,u\n7,u\n"}

  def test_mean_over_all_clients(self):
    tables = self.open(self.FILES, missing="mean", categories=("c",))
    self.assertEqual(tables.feature_names, ("x", "c=u", "c=v"))
    self.assert_features(tables, {
        "a": [[1, 1, 0], [4, 0, 1], [4, 0.75, 0.25]], "b": [[4, 1, 0], [7, 1, 0]],
    })

  def test_indicator(self):
    tables = self.open(self.FILES, missing="indicator", categories=("c",))
    self.assertEqual(tables.feature_names[3:], ("x is missing", "c is missing"))
    np.testing.assert_array_equal(
        tables.read("a").features[:, 3:], [[0, 0], [1, 0], [1, 1]]
    )
    np.testing.assert_array_equal(tables.read("b").features[:, 3:], np.zeros((2, 2)))

  def test_means_of_the_chosen_rows(self):
    options = table_options.TableOptions(missing="mean", exclude=("c",))
    self.open(self.FILES, missing="mean", exclude=("c",))
    opened = client_tables.open_folder(self.folder, options)
    tables = opened.filled(lambda client_id, table: table.rows < 2)
    self.assertEqual(tables.read("a").features[1, 0], 2.5)

  def test_any_number(self):
    tables = self.open(
        {"a.csv": "x,y\n1,inf\nnan,1e300\n", "b.csv": "x,y\n"}, allow_any_number=True
    )
    self.assert_features(tables, {"a": [[1, np.inf], [np.nan, 1e300]], "b": np.zeros((0, 2))})


class PrivateTest(TablesTestCase):
  """How tables are read so that no row causes an error or changes another one."""

  _NAMED = {"allow_any_number": True, "header": "yes"}
  _UNNAMED = {
      "allow_any_number": True, "header": "no", "separator": ",",
      "columns": ("column_1", "column_3"),
  }

  def test_every_line_is_a_row_on_its_own(self):
    rows = (
        '"1",2', '1,"2', "1", "1,2,3", ",NA", "u,1e400", "-0,+.5e1", "1_0,0x10", "\u0663,9",
        "x" * 200_000 + ",1", "  ", "", "3,-inf",
    )
    nan, inf = np.nan, np.inf
    tables = self.open({"a.csv": _rows("x,y", *rows)}, **self._NAMED)
    self.assert_features(tables, {"a": [
        [1, 2], [1, 2], [nan, nan], [nan, nan], [nan, nan], [nan, inf], [-0.0, 5], [nan, nan],
        [nan, 9], [nan, nan], [nan, nan], [3, -inf],
    ]})

  def test_bytes_that_are_no_text(self):
    text = b"\xef\xbb\xbfx,y\n1,\xff\n\xff\xfe\n3,4\r5,6\r\n"
    tables = self.open({"a.csv": text}, **self._NAMED)
    nan = np.nan
    self.assert_features(tables, {"a": [[1, nan], [nan, nan], [3, 4], [5, 6]]})

  def test_numbers_are_those_of_other_runs(self):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(200, 3)) * 10.0 ** rng.integers(-300, 300, size=(200, 3))
    lines = [";".join(map(repr, row)).replace(".", ",") for row in numbers.tolist()]
    for header in ("yes", "auto"):  # The latter is not for private runs.
      tables = self.open(
          {"a.csv": _rows("x;y;z", *lines)}, allow_any_number=True, header=header, decimal=",")
      self.assertEqual(tables.read("a").features.tobytes(), numbers.tobytes())

  def test_without_names_only_the_options_say_which_columns_there_are(self):
    tables = self.open(
        {"a.csv": "1,2\n1,2,3\n1,2,3,4\n", "b.csv": "", "c.csv": "x,y,z\n"}, **self._UNNAMED)
    self.assertEqual(tables.feature_names, ("column_1", "column_3"))
    nan = np.nan
    self.assert_features(tables, {
        "a": [[nan, nan], [1, 3], [1, 3]], "b": np.zeros((0, 2)), "c": [[nan, nan]],
    })

  def test_the_line_of_names_says_what_stands_between_cells(self):
    tables = self.open({"a.csv": "x;y\n1,2\n", "b.csv": "x,y\n1;2\n3,4\n"}, **self._NAMED)
    nan = np.nan
    self.assert_features(tables, {"a": [[nan, nan]], "b": [[nan, nan], [3, 4]]})

  def test_an_empty_file_is_a_client_without_rows(self):
    tables = self.open({"a.csv": "", "b.csv": "y,x\n", "c.csv": "x,y\n1,2\n"}, **self._NAMED)
    self.assertEqual(tables.feature_names, ("y", "x"))
    none = np.zeros((0, 2))
    self.assert_features(tables, {"a": none, "b": none, "c": [[2, 1]]})

  def test_ids_may_be_missing(self):
    tables = self.open({"a.csv": "x,who\n1,\n2,u\n"}, id_column="who", **self._NAMED)
    self.assertEqual(tables.read("a").row_ids, (None, "u"))

  @parameterized.named_parameters(
      ("text", pa.array(["1", " 2 ", None, "u", "1e400"]), [1, 2, np.nan, np.nan, np.inf]),
      ("views", pa.array(["1", "u", None], pa.string_view()), [1, np.nan, np.nan]),
      ("categories", pa.array(["1", "u"]).dictionary_encode(), [1, np.nan]),
      ("integers", pa.array([1, None, 2**60]), [1, np.nan, 2.0**60]),
      ("nothing", pa.array([None, None]), [np.nan, np.nan]),
  )
  def test_parquet(self, column, expected):
    tables = self.open({"a.parquet": pa.table({"x": column})}, allow_any_number=True)
    self.assert_features(tables, {"a": np.reshape(expected, (-1, 1))})

  @parameterized.named_parameters(
      ("text", "parquet", pa.array([" u ", "", None, "\u2603"]), ("u", None, None, "\u2603")),
      ("text that is no UTF-8", "parquet",
       pa.Array.from_buffers(
           pa.string(), 2,
           [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pa.py_buffer(b"\xffuv")]),
       ("\ufffd", "uv")),
      ("views", "parquet", pa.array(["u", None], pa.string_view()), ("u", None)),
      ("categories", "parquet", pa.array(["u", "v"]).dictionary_encode(), ("u", "v")),
      ("numbers", "parquet", pa.array([1, 2**60]), ("1", f"{2**60}")),
      ("booleans", "parquet", pa.array([True, None]), ("true", None)),
      ("days", "parquet", pa.array([0, 2**31 - 1], pa.date32()), (None, None)),
      ("text in arrays", "npz", np.array(["u", " ", "\u2603"]), ("u", None, "\u2603")),
      ("bytes", "npz", np.array([b"u", b"\xff"]), ("u", "\ufffd")),
      ("numbers in arrays", "npz", np.array([1.5, np.nan]), ("1.5", None)),
      ("days in arrays", "npz", np.array([0, 2**62], "M8[D]"), (None, None)),
  )
  def test_texts(self, kind, column, expected):
    columns = {"who": column, "x": np.ones(len(column))}
    columns = pa.table(columns) if kind == "parquet" else columns
    tables = self.open({f"a.{kind}": columns}, allow_any_number=True, id_column="who")
    self.assertEqual(tables.read("a").row_ids, expected)

  def test_characters_that_are_none(self):
    # A test's parameter can't hold them.
    names = np.array([0xD800, 0x61, 0x110000, 0], "<u4").view("<U2")
    tables = self.open(
        {"a.npz": {"who": names, "x": np.ones(2)}}, allow_any_number=True, id_column="who")
    self.assertEqual(tables.read("a").row_ids, ("\ufffda", "\ufffd"))

  def test_a_long_cell_takes_no_long_time(self):
    # Seconds at most; it was more than ten minutes.
    tables = self.open({"a.csv": _rows("x", "9" * 130_000 + "x")}, **self._NAMED)
    self.assert_features(tables, {"a": [[np.nan]]})

  @parameterized.named_parameters(
      ("no file has names", {"a.csv": "", "b.csv": ""}, _NAMED,
       "'.*a.csv': it is empty, and no file has the columns' names"),
      ("names that are no text", {"a.csv": b"x,\xff\n1,2\n"}, _NAMED,
       "its line of names is no text in UTF-8"),
      ("names with a line break", {"a.csv": '"x\n1",y\n1,2\n'}, _NAMED,
       "its line of names has a line break in a cell"),
      ("no gzip file", {"a.csv.gz": b"secret"}, _NAMED, "it is no gzip file, or not all of one.$"),
      ("no zip file", {"a.csv.zip": b"secret"}, _NAMED, "it is no zip file, or not all of one.$"),
      ("a damaged zip file",
       {"a.zip": _zipped(b="x,y\n" + "1,secret\n" * 99).replace(b"x,y\n1,s", b"u,y\n2,s")}, _NAMED,
       "it is no zip file, or not all of one.$"),
      ("a workbook", {"a.xlsx": b"secret"}, _NAMED, "a.xlsx': it is of no kind that can be read"),
      ("no column of an unnamed file", {"a.csv": "1,2\n"}, {**_UNNAMED, "columns": ("x",)},
       "it has no columns"),
      ("clients", {"a.csv": "hospital,x\nu,1\n"}, _NAMED,
       "looks like the clients' names; --exclude leaves columns out. Try: --exclude=hospital$"),
      ("text in arrays", {"a.npz": {"x": np.array(["u", "secret"]), "y": np.ones(2)}},
       {"allow_any_number": True},
       "column 'x' has a type other than numbers; --exclude leaves columns out.*exclude=x$"),
      ("text in arrays without rows", {"a.npz": {"x": np.array([], "U6")}},
       {"allow_any_number": True}, "column 'x' has a type other than numbers"),
      ("days in frames", {"a.parquet": pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])})},
       {"allow_any_number": True}, "column 'x' has a type other than numbers"),
      ("arrays of other shapes", {"a.npy": np.zeros((98765, 2, 3))}, {"allow_any_number": True},
       "one vector for each column, got others.$"),
  )
  def test_what_is_refused_depends_on_no_row(self, files, options, message):
    with self.assertRaisesRegex(ValueError, message) as raised:
      self.open(files, **options)
    self.assertNotRegex(str(raised.exception), "secret|98765|2020-")


class BadFilesTest(TablesTestCase):

  @parameterized.named_parameters(
      ("no files", {}, {}, "a file per client .*, got none"),
      ("another kind", {"a.csv": "x\n1\n", "b.json": "1"}, {},
       "got '.*b.json': it is of no kind that can be read; kinds are .csv, .*.zip"),
      ("other kinds alone", {"a.json": "{}", "b.docx": ""}, {},
       r"a file per client \(.csv, .*\), got only a.json, b.docx in"),
      ("a note", {"a.csv": "x,y\n1,2\n", "b.csv": "x,y\n3,4\n",
                  "notes.txt": "Exported by Bob, in March\nsee the wiki\n"}, {},
       "notes.txt': it looks like no table: line 1 is 'Exported by Bob,in March', and no table .*"
       "a folder must hold nothing but tables.$"),
      ("a note of one line", {"a.csv": "x,y\n1,2\n", "notes.txt": "All sites but the last\n"}, {},
       "notes.txt': it looks like no table"),
      ("a note beside arrays", {"a.npz": {"x": np.ones(2), "y": np.ones(2)}, "b.txt": "Hello\n"},
       {}, "b.txt': it looks like no table"),
      ("no zip", {"a.zip": b"x"}, {}, "a.zip': it is no zip file, or not all of one"),
      ("two files in a zip", {"a.zip": _zipped(b="1,2\n", c="1,2\n")}, {},
       "a.zip': it must hold one file, got 2"),
      ("another kind in a zip", {"a.zip": _zipped(b="{}", ending=".json")}, {},
       "a.zip': it holds 'b.json', which is of no kind that can be read"),
      ("half a zip", {"a.zip": _zipped(b="x,y\n1,2\n" * 999)[:-9]}, {}, "it is no zip file"),
      ("no feather", {"a.feather": b"x"}, {}, "a.feather': it can't be read as Feather"),
      ("one client twice", {"a.csv": "1", "a.npy": np.ones((1, 1))}, {},
       "one file per client, got .*a.csv.* and .*a.npy"),
      ("empty", {"a.csv": ""}, {}, "a.csv': it is empty"),
      ("names only", {"a.csv": "x,y\n"}, {}, "a.csv': it has no rows"),
      ("text", {"a.csv": "x,y,z\n1,2,3\n3,yes,u\n1,yes,no\n"}, {},
       "a.csv': line 3, column 'y': 'yes' is not a number .also 'z'.; --categories makes .*"
       "--exclude leaves .* Try: --exclude=z --categories=y$"),
      ("a name with a space", {"a.csv": "a b\n1\nyes\n"}, {}, "Try: --categories='a b'$"),
      ("a name with a comma", {"a.csv": '"a, b",c\n1,2\nyes,3\n'}, {},
       """Try: --categories='"a, b"'$"""),
      ("text in a quoted cell of two lines", {"a.csv": 'x,y\n1,"\n"\n3,yes\n'}, {},
       "line 4, column 'y': 'yes'"),
      ("a decimal comma", {"a.csv": "x;y\n1,5;2\n"}, {"decimal": "."},
       "'1,5' is not a number: it has a decimal comma; without --decimal, each file's .*out"),
      ("points between thousands", {"a.csv": "x;y\n1,5;1.234,5\n"}, {"decimal": ","},
       "'1.234,5' is not a number: it has points between thousands; .*Try: --thousands=.$"),
      ("a decimal point", {"a.csv": "x;y\n1,5;1.2\n"}, {"decimal": ","},
       "'1.2' is not a number: it has a decimal point; without --decimal, each file's"),
      ("commas between thousands", {"a.csv": 'x,y\n1.5,"1,234.5"\n'}, {},
       "'1,234.5' is not a number: it has commas between thousands; .*Try: --thousands=,$"),
      ("true", {"a.csv": "x\n1\nTrue\n"}, {}, "line 3, column 'x': 'True' is not a number"),
      ("a digit separator", {"a.csv": "x\n1\n1_000\n"}, {}, "'1_000' is not a number"),
      ("missing", {"a.csv": "x,y\n1,2\n\n3,\n,1\n"}, {},
       "line 4, column 'y' is empty .also 'x'.; --missing=mean or .* fills .*Try: --missing=mean$"),
      ("nan", {"a.csv": "x,y\n1,2\nnan,4\n"}, {}, "line 3, column 'x' is empty"),
      ("infinity", {"a.csv": "x\n1\n-inf\n"}, {}, "line 3, column 'x': -inf is not a finite"),
      ("too large", {"a.csv": "x\n1\n1e101\n"}, {}, "line 3, .*1e.101 is not between -1e.100 and"),
      ("larger than any", {"a.csv": "x\n1\n1e400\n"}, {}, "line 3, .*inf is not a finite number"),
      ("a cell too few", {"a.csv": "x,y\n1,2\n3\n"}, {},
       "line 3 has 1 cells, line 1 has 2, with ',' between cells; --separator"),
      ("a cell too many", {"a.csv": "x,y\n1,2\n3,4,5\n"}, {}, "line 3 has 3 cells, line 1 has 2"),
      ("names without a cell", {"a.csv": "x,y\n1,2,3\n"}, {}, "line 2 has 3 cells, line 1 has 2"),
      ("half a header", {"a.csv": "x,2\n3,4\n"}, {},
       "line 1, x,2, has numbers and text; .*--header="),
      ("names or a row", {"a.csv": "0,1,2\n3,4,5\n"}, {},
       "line 1, 0,1,2, may be a row .*--header="),
      ("names or the same row", {"a.csv": "1,5,7\n3,4,5\n", "b.csv": "1,5,7\n3,4,5\n"}, {},
       "line 1, 1,5,7, may be a row .*--header="),
      ("one file without names", {"a.csv": "x,y\n1,2\n", "b.csv": "1,2\n3,4\n"}, {},
       "b.csv': line 1 holds numbers, and that of .*a.csv' names; either all"),
      ("an array without names", {"a.csv": "x,y\n1,2\n", "b.npy": np.ones((2, 2))}, {},
       "b.npy': it has no column names, and .*a.csv' has"),
      ("the rows' numbers", {"a.csv": ",x\n0,4\n"}, {},
       "column 1, 'column_1', looks like the rows' ids; --id_column=column_1 .*"
       "Try: --exclude=column_1$"),
      ("ids", {"a.csv": "x,patient_id\n0,4\n"}, {}, "column 2, 'patient_id', looks like"),
      ("ids in one word", {"a.csv": "x,PatientId\n0,4\n", "b.csv": "x,PatientId\n0,4\n"}, {},
       "column 2, 'PatientId', looks like"),
      ("ids in one small word", {"a.csv": "rowid,x\n0,4\n"}, {}, "column 1, 'rowid', looks like"),
      ("ids in camel case", {"a.csv": "x,patientID\n0,4\n"}, {},
       "column 2, 'patientID', looks like"),
      ("ids with a space in their name", {"a.csv": "x,Patient ID\n0,4\n"}, {},
       "--id_column='Patient ID' names .*Try: --exclude='Patient ID'$"),
      ("the rows' names in a frame",
       {"a.parquet": pd.DataFrame({"x": [1, 2]}, index=[4, 2])}, {},
       "column 2, '__index_level_0__', looks like the rows' ids"),
      ("a name twice", {"a.csv": "x,x\n0,4\n"}, {}, "line 1 names the column 'x' twice"),
      ("a column too few", {"a.csv": "x,y\n1,2\n", "b.csv": "x\n1\n"}, {},
       "b.csv': it has no column 'y', and '.*a.csv' has; --exclude leaves .*Try: --exclude=y$"),
      ("a name in another spelling", {"a.csv": "Age y,z\n1,2\n", "b.csv": "z,age_y\n1,2\n"}, {},
       "b.csv': it has a column 'age_y', and '.*a.csv' has 'Age y'; all files must have the same "
       "names.$"),
      ("a chosen column too few", {"a.csv": "x,y\n1,2\n", "b.csv": "x\n1\n"},
       {"columns": ("x", "y")}, "it has no column 'y', and '.*a.csv' has; .*Try: --columns=x$"),
      ("a label too few", {"a.csv": "x,y\n1,2\n", "b.csv": "x\n1\n"}, {"label_column": "y"},
       "b.csv': it has no column 'y', and '.*a.csv' has.$"),
      ("a column too many", {"a.csv": "x\n1\n", "b.csv": "x,y\n1,2\n"}, {},
       "b.csv': it has a column 'y', and .*a.csv' has none; .*Try: --exclude=y$"),
      ("arrays of other widths", {"a.npy": np.ones((2, 2)), "b.npy": np.ones((2, 3))}, {},
       "b.npy': it has a column 'column_3'"),
      ("an unknown column", {"a.csv": "x,y\n1,2\n"}, {"exclude": ("z",)},
       "`exclude` must name columns of the tables, got 'z'; .*a.csv' has x, y"),
      ("an unknown role", {"a.csv": "x,y\n1,2\n"}, {"label_column": "z"},
       "`label_column` must name"),
      ("nothing left", {"a.csv": "x,y\n1,2\n"}, {"exclude": ("x", "y")}, "no column is left"),
      ("no label", {"a.csv": "x,y\n1,2\n1,\n"}, {"label_column": "y"},
       "line 3, column 'y' is empty, and every row must have one"),
      ("no id", {"a.csv": "x,y\n1,2\n1,\n"}, {"id_column": "y", "missing": "mean"},
       "every row must"),
      ("another split", {"a.csv": "x,y\n1,train\n2,dev\n"}, {"split_column": "y"},
       "a.csv': row 2, column 'y' must be train or test, got 'dev'"),
      ("a label that is no number", {"a.csv": "x,y\n1,2\n2,b\n"},
       {"label_column": "y", "label_above": 1}, "row 2, column 'y' must be a number with --label"),
      ("all missing", {"a.csv": "x,y\n1,\n2,NA\n"}, {"missing": "mean"},
       "a.csv': column 'y' is empty everywhere; .*Try: --exclude=y$"),
      ("no text", {"a.csv": b"x,y\n1,caf\x81\n"}, {},
       "a.csv': it is no text in UTF-8, nor in cp1252; --encoding names another one"),
      ("no text below", {"a.csv": b"x,y\n" + b"1,c\n" * 9999 + b"1,caf\x81\n"},
       {"categories": ("y",)}, "a.csv': it is no text in UTF-8, nor in cp1252"),
      ("another encoding", {"a.csv": b"x,y\n1,caf\xe9\n"}, {"encoding": "utf-8"},
       "a.csv': it is no text in utf-8, the encoding"),
      ("no gzip", {"a.csv.gz": b"x,y\n1,2\n"}, {}, "a.csv.gz': it can't be read as a table"),
      ("half a gzip", {"a.csv.gz": gzip.compress(b"x,y\n1,2\n" * 99)[:-9]}, {},
       "a.csv.gz': it can't be read"),
      ("no parquet", {"a.parquet": b"x"}, {}, "a.parquet': it can't be read as Parquet"),
      ("text in parquet",
       {"a.parquet": pd.DataFrame({"x": [1, 2], "y": ["u", "v"], "z": ["1", "w"]})}, {},
       "a.parquet': row 1, column 'y': 'u' is not a number .also 'z'.; .*Try: --categories=y,z$"),
      ("text after numbers in parquet", {"a.parquet": pd.DataFrame({"x": ["1", None, "u"]})}, {},
       "a.parquet': row 3, column 'x': 'u' is not a number"),
      ("nan in parquet", {"a.parquet": pd.DataFrame({"x": [1, np.nan]})}, {},
       "a.parquet': row 2, column 'x' is empty"),
      ("no npy", {"a.npy": "text"[:0] + "x"}, {}, "a.npy': it can't be read as an array"),
      ("three axes", {"a.npy": np.ones((3, 2, 1))}, {}, "a.npy': it must hold one matrix"),
      ("vectors of other lengths", {"a.npz": {"x": np.ones(3), "y": np.ones(2)}}, {},
       "a.npz': its vectors, which are columns, must have the same length"),
      ("no rows in an array", {"a.npy": np.ones((0, 3))}, {}, "a.npy': it has no rows"),
      ("no columns in an array", {"a.npy": np.ones((3, 0))}, {}, "a.npy': it has no columns"),
      ("no rows of text", {"a.npz": {"x": np.array([], str)}}, {}, "a.npz': it has no rows"),
      ("text in an array", {"a.npy": np.array([["u"]])}, {}, "'u' is not a number"),
  )
  def test_refuses(self, files, options, message):
    files = {
        name: content.encode() if name.endswith(".npy") and isinstance(content, str) else content
        for name, content in files.items()
    }
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files, **options)
    self.assertNotIn("\n", str(caught.exception))

  @parameterized.parameters(({}, 1e5, 1.5e5), ({"client_column": "y"}, 1.5e5, 2.5e5))
  def test_more_than_memory(self, options, too_little, enough):
    files = {name: "x,y\n" + "1,2\n" * 12_500 for name in ("a.csv", "b.csv")}
    for available in (too_little, enough):
      memory = mock.Mock(available=available)
      with mock.patch.object(psutil, "virtual_memory", return_value=memory):
        if available == enough:
          self.open(files, **options)
          continue
        with self.assertRaisesRegex(
            ValueError, "`data_dir` must hold tables that fit into memory, of which 0.0 GB"
        ):
          self.open(files, **options)

  def test_no_folder(self):
    with self.assertRaisesRegex(ValueError, "`data_dir` must be a folder, got '/no/such/folder'"):
      client_tables.open_folder("/no/such/folder", table_options.TableOptions())


class AllAtOnceTest(TablesTestCase):
  """A message says all that is wrong, and the flags that it ends with work."""

  @parameterized.named_parameters(
      ("ids, text and missing cells",
       {"a.csv": "id;sex;age;sick\n1;f;30;no\n2;m;;yes\n", "b.csv": "id;sex;age;sick\n1;f;3;no\n"},
       {"label_column": "sick"},
       "a.csv': column 1, 'id', looks like the rows' ids; line 2, column 'sex': 'f' is not a "
       "number; line 3, column 'age' is empty; --id_column=id .*--exclude.*--categories.*"
       "--missing=",
       {"exclude": ("id",), "categories": ("sex",), "missing": "mean"}, ("sex=f", "sex=m", "age")),
      ("further flags go with those that are given",
       {"a.csv": "u,v,s,x\n1,a,b,1\n1,a,b,\n"}, {"exclude": ("u",), "categories": ("v",)},
       "", {"categories": ("v", "s"), "missing": "mean"}, ("v=a", "s=b", "x")),
      ("chosen columns", {"a.csv": "x,y,z\n1,,3\n2,,4\n"},
       {"columns": ("x", "y"), "missing": "mean"}, "", {"columns": ("x",)}, ("x",)),
      ("a column of levels that one file lacks", {"a.csv": "x,c\n1,u\n", "b.csv": "x\n2\n"},
       {"categories": ("c",)}, "", {"exclude": ("c",), "categories": ()}, ("x",)),
      ("names and dates are no levels",
       {"a.csv": _rows("name,day,x", *(f"n{i},2021-01-{i % 28:02},{i}" for i in range(50)))}, {},
       "", {"exclude": ("name", "day")}, ("x",)),
      ("something has to be left", {"a.csv": "id,name\n1,u\n2,v\n3,w\n"}, {}, "",
       {"exclude": ("id",), "categories": ("name",)}, ("name=u", "name=v", "name=w")),
      ("other columns in every file",
       {"a.csv": "x,y,z\n1,2,3\n", "b.csv": "x,y,u\n1,2,3\n", "c.csv": "x,z,v\n1,2,3\n"}, {},
       "b.csv': it has no column 'z', and '.*a.csv' has;",
       {"exclude": ("z", "y", "u", "v")}, ("x",)),
      ("text in other columns of other files",
       {"a.csv": "x,y\nt,2\nu,3\n", "b.csv": "x,y\n1,v\n2,w\n"}, {},
       "a.csv': line 2, column 'x': .*b.csv': line 2, column 'y':", {"categories": ("x", "y")},
       ("x=1", "x=2", "x=t", "x=u", "y=2", "y=3", "y=v", "y=w")),
      ("decimal commas after text",
       {"a.csv": "c;x;y\nu;1,5;\nu;2;3,5\n"}, {}, "column 'c': 'u' .*column 'y' is empty",
       {"categories": ("c",), "missing": "mean"}, ("c=u", "x", "y")),
      ("commas between thousands after text",
       {"a.csv": 'c,x,y\nu,"1,234.5",1\nu,"2",2\n'}, {}, "",
       {"thousands": ",", "categories": ("c",)}, ("c=u", "x", "y")),
      ("no levels where names are secret", {"a.csv": "c,x,y\nu,,1\nu,2,inf\n"},
       {"allow_any_number": True}, "", {"exclude": ("c",)}, ("x", "y")),
      ("nothing but empty cells",
       {"a.csv": "x,y,z\n1,,\n2,,\n", "b.csv": "x,y,z\n1,,\n"}, {},
       "line 2, column 'y' is empty .also 'z'.; column 'y' is empty everywhere",
       {"exclude": ("y", "z"), "missing": "mean"}, ("x",)),
      ("text in frames", {"a.parquet": pd.DataFrame({"id": [1, 2], "c": ["u", None], "x": 3})}, {},
       "", {"exclude": ("id",), "categories": ("c",), "missing": "mean"}, ("c=u", "x")),
      ("names that are partly numbers",
       {"a.csv": "name,2020\nu,1\n", "b.csv": "name,2020,2021\nv,1,2\n"}, {},
       "numbers and text.*'2021'.*column 'name'",
       {"header": "yes", "exclude": ("2021",), "categories": ("name",)},
       ("name=u", "name=v", "2020")),
      ("rows of numbers and text", {"a.csv": "u,1\nu,2\n", "b.csv": "u,3\nu,4\n"}, {}, "",
       {"header": "no", "categories": ("column_1",)}, ("column_1=u", "column_2")),
      ("several clients in a table", {"a.csv": "who,id,x\na,1,5\nb,2,\n"},
       {"client_column": "who"}, "", {"exclude": ("id",), "missing": "mean"}, ("x",)),
      ("clients and text in a table", {"a.csv": "Hospital,c,x\na,1,5\nb,u,\n"}, {},
       "column 1, 'Hospital', looks like the clients' names; ",
       {"client_column": "Hospital", "categories": ("c",), "missing": "mean"},
       ("c=1", "c=u", "x")),
      ("numbers of patients", {"a.csv": "patient_no,x\n4,5\n"}, {}, "",
       {"exclude": ("patient_no",)}, ("x",)),
  )
  def test_the_second_try_works(self, files, options, message, advised, features):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files, **options)
    self.assertEqual(_advised(str(caught.exception)), advised)
    tables = self.open(files, **{**options, **advised})
    self.assertEqual(tables.feature_names, features)

  def test_what_no_flag_helps_with_is_said_too(self):
    with self.assertRaisesRegex(
        ValueError,
        "a.csv': line 2, column 'c': 'u' .*b.csv': it has no rows.*; .*c.csv': line 2, column 'y' "
        "is empty, and every row must have one; [^T]*$",
    ) as caught:
      self.open(
          {"a.csv": "c,y\nu,1\nu,2\n", "b.csv": "c,y\n", "c.csv": "c,y\nu,\n"},
          label_column="y",
      )
    self.assertLen(re.findall("it has no rows", str(caught.exception)), 1)

  def test_all_unreadable_files(self):
    with self.assertRaisesRegex(ValueError, "a.csv': it is empty; '.*b.csv': it is no text"):
      self.open({"a.csv": "", "b.csv": b"caf\x81", "c.csv": "x\n1\n"})

  def test_files_of_other_kinds_hide_nothing(self):
    with self.assertRaisesRegex(
        ValueError, "got '.*a.docx': it is of no kind .*'.*b.md': it is .*'.*c.csv': column 1"
    ):
      self.open({"a.docx": "", "b.md": "", "c.csv": "id,x\n1,2\n"})

  def test_many_problems_are_counted(self):
    with self.assertRaises(ValueError) as caught:
      self.open({f"{i}.csv": "" for i in range(12)})
    self.assertLen(re.findall("it is empty", str(caught.exception)), 10)
    self.assertIn("; and 2 more problems.", str(caught.exception))

  @parameterized.parameters(({"a.csv": "id,x\n1,2\n"}, True),
                            ({"a.csv": "id,x\n1,2\n", "b.csv": "id,x\n1,2\n"}, False))
  def test_one_table_may_hold_several_clients(self, files, is_said):
    with self.assertRaisesRegex(ValueError, "looks like") as caught:
      self.open(files)
    self.assertEqual("--client_column says whose row it is" in str(caught.exception), is_said)

  @parameterized.parameters(
      {"exclude": ("site",)}, {"categories": ("site",)}, {"columns": ("x", "site")},
      {"label_column": "site"},
  )
  def test_one_client_with_a_column_like_clients(self, **options):
    self.assertEqual(self.open({"a.csv": "site,x\n1,2\n"}, **options).client_ids, ("a",))

  def test_no_rows_of_several_clients(self):
    with self.assertRaisesRegex(ValueError, "a.csv': it has no rows"):
      self.open({"a.csv": "x,who\n"}, client_column="who")


class ForAModelTest(TablesTestCase):
  """Files that come after a model, in the format of the files that it was made of."""

  FILES = {
      "a.csv": "key;x;c;sick;part;note\np;1,5;red;no;train;n\nq;;blue;yes;test;n\n",
      "b.csv": "key;x;c;sick;part;note\nr;4,5;red;yes;train;n\n",
  }
  OPTIONS = {
      "decimal": ",", "missing": "indicator", "categories": ("c",), "exclude": ("note",),
      "id_column": "key", "label_column": "sick", "split_column": "part",
  }

  def open_for_model(self, files, later=table_options.LaterFiles(), **options):
    format_ = self.open(self.FILES, **{**self.OPTIONS, **options}).format
    self.later_folder = self.create_tempdir().full_path
    for name, content in files.items():
      _write(os.path.join(self.later_folder, name), content)
    return client_tables.open_folder_for(format_, self.later_folder, later=later)

  def test_the_models_means_levels_and_classes_in_any_order_of_columns(self):
    tables = self.open_for_model(
        {"new.csv": "sick;c;key;note;x;part\nyes;blue;s;n;100,5;test\nno;red;t;n;;train\n"}
    )
    self.assertEqual(tables.feature_names, ("x", "c=blue", "c=red", "x is missing"))
    table = tables.read("new")
    np.testing.assert_array_equal(table.features, [[100.5, 1, 0, 0], [3, 0, 1, 1]])
    np.testing.assert_array_equal(table.labels, [1, 0])
    np.testing.assert_array_equal(table.is_test, [True, False])
    self.assertEqual(table.row_ids, ("s", "t"))

  @parameterized.named_parameters(
      ("with the mark of the model's files", "x;y\n1,911;2\n", [[1.911, 2]]),
      ("with another one", "x;y\n1.5;2\n", [[1.5, 2]]),
      ("with commas between cells", "x,y\n1.911,2\n", [[1.911, 2]]),
      ("with another separator", "x|y\n1,911|2\n", [[1.911, 2]]),
      ("with a point that may stand between thousands", "x;y\n1.911;2\n", None),
  )
  def test_numbers_that_leave_their_decimal_mark_open(self, text, expected):
    format_ = self.open({"a.csv": "x;y\n1,5;2\n", "b.csv": "x;y\n2,5;3\n"}).format
    format_ = table_format.TableFormat.from_json(format_.to_json())
    folder = self.create_tempdir().full_path
    _write(os.path.join(folder, "new.csv"), text)
    if expected is None:
      with self.assertRaisesRegex(
          ValueError, "'1.911' may have a decimal point or one between thousands, as the model's "
          "files have decimal commas; --decimal gives all files one decimal mark.$"
      ):
        client_tables.open_folder_for(format_, folder)
    else:
      self.assert_features(client_tables.open_folder_for(format_, folder), {"new": expected})

  def test_columns_with_a_role_may_be_absent(self):
    tables = self.open_for_model({"new.csv": "c;x\nred;1\n", "newer.csv": "x;c\n2;blue\n"})
    table = tables.read("newer")
    np.testing.assert_array_equal(table.features, [[2, 1, 0, 0]])
    self.assertIsNone(table.labels)
    self.assertIsNone(table.is_test)
    self.assertIsNone(table.row_ids)
    self.assertIsNone(tables.format.options.label_column)

  def test_a_column_that_was_left_out_is_no_column_of_levels(self):
    many = "".join(f"text {i},{i}\n" for i in range(60))
    files = {"a.csv": f"x,y\n{many}", "b.csv": "x,y\n" + "u,1\nv,2\n" * 5}
    with self.assertRaisesRegex(ValueError, "a.csv': line 2, column 'x': 'text 0' is no"):
      self.open(files, columns=("x", "y"))

  def test_a_threshold_of_labels_goes_with_them(self):
    format_ = self.open({"a.csv": "x,y\n1,0\n2,3\n"}, label_column="y", label_above=1).format
    os.remove(os.path.join(self.folder, "a.csv"))
    _write(os.path.join(self.folder, "b.csv"), "x\n5\n")
    tables = client_tables.open_folder_for(format_, self.folder)
    np.testing.assert_array_equal(tables.read("b").features, [[5]])

  def test_columns_that_were_not_chosen_are_left_alone(self):
    tables = self.open_for_model(
        {"new.csv": "x;z;c\n1;text;red\n"}, columns=("x", "c"), exclude=()
    )
    np.testing.assert_array_equal(tables.read("new").features, [[1, 0, 1, 0]])

  @parameterized.named_parameters(
      ("a level", "x;c\n1;green\n", "new.csv': row 1, column 'c' must be one of blue, red, got"),
      ("a class", "x;c;sick\n1;red;no\n1;red;maybe\n",
       "new.csv': row 2, column 'sick' must be one of no, yes, got 'maybe'"),
      ("a column too few", "x\n1\n", "new.csv': it has no column 'c', and the model has.$"),
      ("a column of another name", "x;C\n1;red\n",
       "it has a column 'C', and the model has 'c'; all files must have the same names.$"),
      ("text", "x;c\nmuch;red\n", "line 2, column 'x': 'much' is not a number.$"),
      ("cells", "x;c\n1\n", "with ';' between cells; --separator names another one.$"),
      ("no rows", "x;c\n", "new.csv': it has no rows"),
  )
  def test_refuses(self, text, message):
    with self.assertRaisesRegex(ValueError, message):
      self.open_for_model({"new.csv": text})

  def test_the_row_of_a_level_in_a_file_of_several_clients(self):
    options = {"client_column": "who", "categories": ("c",)}
    format_ = self.open({"a.csv": "who,c\nu,red\nv,blue\n"}, **options).format
    _write(os.path.join(self.folder, "a.csv"), "who,c\nu,red\nv,blue\nv,green\n")
    with self.assertRaisesRegex(ValueError, "a.csv': row 3, column 'c' must be one of blue, red"):
      client_tables.open_folder_for(format_, self.folder)

  def test_a_missing_cell(self):
    format_ = self.open({"a.csv": "x,y\n1,2\n"}).format
    _write(os.path.join(self.folder, "a.csv"), "x,y\n1,\n")
    with self.assertRaisesRegex(ValueError, "a.csv': line 2, column 'y' is empty.$"):
      client_tables.open_folder_for(format_, self.folder)

  def test_roles_of_some_files_and_rows_only(self):
    tables = self.open_for_model({
        "a.csv": "x;c;key;sick\n1;red;u;yes\n1;red;;\n", "b.csv": "x;c\n1;red\n",
        "d.csv": "x;c;sick;part\n1;red;;\n",
    })
    np.testing.assert_array_equal(tables.read("a").labels, [1, -1])
    np.testing.assert_array_equal(tables.read("b").labels, [-1])
    self.assertEqual(tables.read("a").row_ids, ("u", None))
    self.assertEqual(tables.unlabelled, {"b", "d"})
    self.assertIsNone(tables.read("d").is_test)

  def test_clients_in_a_file_each_that_shared_one(self):
    format_ = self.open({"a.csv": "who,x\nu,1\nv,2\n"}, client_column="who").format
    folder = self.create_tempdir().full_path
    _write(os.path.join(folder, "w.csv"), "x\n3\n")
    self.assert_features(client_tables.open_folder_for(format_, folder), {"w": [[3]]})
    _write(os.path.join(folder, "b.csv"), "x,who\n4,y\n")
    with self.assertRaisesRegex(ValueError, "w.csv': it has no column 'who', and the model has"):
      client_tables.open_folder_for(format_, folder)

  def test_further_columns_are_said_and_not_used(self):
    tables = self.open_for_model({
        "a.csv": "z;x;c;note\n1;2;red;n\n", "b.csv": "x;c;w\n5;blue;secret\n"
    })
    self.assert_features(tables, {"a": [[2, 0, 1, 0]], "b": [[5, 1, 0, 0]]})
    self.assertEqual(
        tables.warnings, ("columns that the model does not have are not used: 'z', 'w'",)
    )

  def test_unknown_levels(self):
    files = {"a.csv": "x;c\n1;green\n2;red\n", "b.csv": "x;c\n3;grey\n4;\n"}
    tables = self.open_for_model(files, table_options.LaterFiles(unknown_levels="ignore"))
    self.assert_features(
        tables, {"a": [[1, 0, 0, 0], [2, 0, 1, 0]], "b": [[3, 0, 0, 0], [4, 1 / 3, 2 / 3, 0]]}
    )
    self.assertEqual(
        tables.warnings,
        ("the column 'c' has levels that the model does not know: 'green', 'grey'",),
    )

  def test_each_files_separator_encoding_and_decimal_mark_are_found_again(self):
    files = {"a.csv": "x:c\n1,5:rød\n2:blå\n2:o\n".encode("latin-1")}
    format_ = self.open(
        files, categories=("c",), separator=":", encoding="cp865", decimal=","
    ).format
    format_ = table_format.TableFormat.from_json(format_.to_json())
    levels = dict(format_.encoding.levels)
    red = next(level for level in levels["c"] if level.startswith("r"))
    folder = self.create_tempdir().full_path
    for name, content in {
        **files, "b.csv": f"x;c\n2.5;{red}\n", "d.csv": f"c,x\n{red},3.5\n".encode("cp865"),
        "e.csv": f"x\tc\n4,5\t{red}\n".encode("utf-16"),
        # What is read of it first is UTF-8, too.
        "f.csv": ("x;c\n" + 5000 * "2.5;o\n" + f"5.5;{red}\n").encode("cp865"),
    }.items():
      _write(os.path.join(folder, name), content)
    tables = client_tables.open_folder_for(format_, folder)
    own = [float(level == red) for level in levels["c"]]
    for client_id, x in (("a", 1.5), ("b", 2.5), ("d", 3.5), ("e", 4.5)):
      self.assertEqual(tables.read(client_id).features[0].tolist(), [x, *own], client_id)
    self.assertEqual(tables.read("f").features[-1].tolist(), [5.5, *own])

  def test_flags_of_their_own(self):
    files = {"a.csv": "Title\nx;c\n# told\n1.234,5 kg;red\n"}
    with self.assertRaisesRegex(ValueError, "line 3, '# told', .*; --comment leaves out[^;]*.$"):
      self.open_for_model(files)
    options = {
        "skip_lines": 1, "comment": "#", "thousands": ".", "strip_units": True, "decimal": ","
    }
    tables = self.open_for_model(files, table_options.LaterFiles(options))
    self.assert_features(tables, {"a": [[1234.5, 0, 1, 0]]})
    options = {"decimal": "."}  # Not both are the run's.
    tables = self.open_for_model(
        {"a.csv": "x;c\n1.234;red\n"}, table_options.LaterFiles(options), thousands="."
    )
    self.assert_features(tables, {"a": [[1.234, 0, 1, 0]]})
    with self.assertRaisesRegex(ValueError, "`exclude` must be left out, as the model says it"):
      table_options.LaterFiles({"exclude": ("x",)})
    with self.assertRaisesRegex(ValueError, "`unknown_levels` must be one of error, ignore, got"):
      table_options.LaterFiles(unknown_levels="maybe")

  def test_private_models_find_nothing_out(self):
    format_ = self.open(
        {"a.csv": "x;y\n1,5;2\n"}, allow_any_number=True, header="yes", separator=";", decimal=","
    ).format
    folder = self.create_tempdir().full_path
    _write(os.path.join(folder, "a.csv"), "x;y\n1.5;2\n1,5;3\n")
    np.testing.assert_array_equal(
        client_tables.open_folder_for(format_, folder).read("a").features, [[np.nan, 2], [1.5, 3]]
    )

  @parameterized.named_parameters(
      ("text", "much;red", "row 3, column 'x': 'much' is not a number"),
      ("too large", "1e200;red", r"row 3, column 'x': 1e\+200 is too large"),
      ("not finite", "-inf;red", "row 3, column 'x': -inf is too large"),
      ("a level", "1;green", "row 3, column 'c' must be one of blue, red, got 'green'"),
      ("a class", "1;red;maybe", "row 3, column 'sick' must be one of no, yes, got 'maybe'"),
      ("cells", "1;red;no;4", "row 3 has too few or too many cells"),
      ("a unit", "1 kg;red", "row 3, column 'x': '1 kg' is not a number"),
  )
  def test_one_bad_row_is_left_out_and_named(self, row, problem):
    row += ";" * (2 - row.count(";"))
    later = table_options.LaterFiles(skip_bad_rows=True)
    text = f"x;c;sick\n1,5;red;no\n2;red;\n{row}\n3;blue;yes\n"
    with self.assertRaisesRegex(ValueError, "a.csv': (row 3|line 4)"):
      self.open_for_model({"a.csv": text})
    tables = self.open_for_model({"a.csv": text, "b.csv": "x;c\n1;red\n"}, later)
    for _ in range(2):  # A file is read again.
      table = tables.read("a")
      np.testing.assert_array_equal(table.features, [[1.5, 0, 1, 0], [2, 0, 1, 0], [3, 1, 0, 0]])
      np.testing.assert_array_equal(table.labels, [0, -1, 1])
      np.testing.assert_array_equal(table.rows, [1, 2, 4])
    self.assertEqual(tables.num_rows, {"a": 3, "b": 1})
    self.assertLen(tables.warnings, 1)
    self.assertRegex(tables.warnings[0], f"^1 row is left out of '.*a.csv': {problem}$")

  def test_bad_rows_where_no_cell_may_be_missing(self):
    format_ = self.open({"a.csv": "x,y\n1,2\n"}).format
    folder = self.create_tempdir().full_path
    rows = "".join("1,\n" if i % 2 else "u,1,2\n" for i in range(14))
    _write(os.path.join(folder, "a.csv"), f"x,y\n{rows}5,6\n")
    later = table_options.LaterFiles(skip_bad_rows=True)
    tables = client_tables.open_folder_for(format_, folder, later=later)
    self.assert_features(tables, {"a": [[5, 6]]})
    np.testing.assert_array_equal(tables.read("a").rows, [15])
    self.assertRegex(
        tables.warnings[0], "^14 rows are left out .*row 2, .*'y' is empty.* and 4 more$"
    )

  @parameterized.parameters(("x;c\nmuch;red\n", "'much' is not a number"),
                            ("x;c\n1;green\n", "no row that can be used: row 1, column 'c'"))
  def test_bad_rows_only(self, text, message):
    with self.assertRaisesRegex(ValueError, message):
      self.open_for_model({"a.csv": text}, table_options.LaterFiles(skip_bad_rows=True))

  def test_a_bad_row_of_several_clients(self):
    options = {"client_column": "who", "categories": ("c",)}
    format_ = self.open({"a.csv": "who,c,x\nu,red,1\nv,blue,1\n"}, **options).format
    folder = self.create_tempdir().full_path
    rows = "u,red,1\nv,green,2\n,red,3\nv,red,4\nu,red,\n"
    _write(os.path.join(folder, "a.csv"), f"who,c,x\n{rows}")
    tables = client_tables.open_folder_for(
        format_, folder, later=table_options.LaterFiles(skip_bad_rows=True)
    )
    self.assert_features(tables, {"u": [[0, 1, 1]], "v": [[0, 1, 4]]})
    np.testing.assert_array_equal(tables.read("v").rows, [4])
    self.assertRegex(tables.warnings[0], "^3 rows are left out of .*a.csv")

  def test_a_bad_row_of_a_client_with_rows_in_several_files(self):
    options = {"client_column": "who", "categories": ("c",)}
    format_ = self.open({"a.csv": "who,c,x\nu,red,1\nv,blue,1\n"}, **options).format
    folder = self.create_tempdir().full_path
    _write(os.path.join(folder, "a.csv"), "who,c,x\nu,green,1\nu,red,2\n")
    _write(os.path.join(folder, "b.csv"), "who,c,x\nu,red,3\nv,blue,4\n")
    tables = client_tables.open_folder_for(
        format_, folder, later=table_options.LaterFiles(skip_bad_rows=True)
    )
    self.assert_features(tables, {"u": [[0, 1, 2], [0, 1, 3]], "v": [[1, 0, 4]]})
    self.assertRegex(tables.warnings[0], "^1 row is left out of .*a.csv")

  def test_bad_cells_that_others_hide(self):
    format_ = self.open({"a.csv": "x,y\n1,2\n"}).format
    folder = self.create_tempdir().full_path
    _write(os.path.join(folder, "a.csv"), "x,y\nmuch,1\n,2\n1e300,3\n4,4\n")
    tables = client_tables.open_folder_for(
        format_, folder, later=table_options.LaterFiles(skip_bad_rows=True)
    )
    self.assert_features(tables, {"a": [[4, 4]]})
    self.assertRegex(tables.warnings[0], "^3 rows are left out of .*a.csv")

  def test_bad_rows_of_a_regression(self):
    options = {"label_column": "y", "task": "regression"}
    format_ = self.open({"a.csv": "x,y\n1,2.5\n2,3.5\n"}, **options).format
    folder = self.create_tempdir().full_path
    _write(os.path.join(folder, "a.csv"), "x,y\n1,2.5\nmuch,1\n")
    tables = client_tables.open_folder_for(
        format_, folder, later=table_options.LaterFiles(skip_bad_rows=True)
    )
    np.testing.assert_array_equal(tables.read("a").rows, [1])


class OptionsTest(parameterized.TestCase):

  @parameterized.parameters(
      ({"missing": "zero"}, "`missing` must be one of"),
      ({"header": "maybe"}, "`header` must be one of"),
      ({"decimal": "'"}, "`decimal` must be one of"),
      ({"separator": ",,"}, "`separator` must be one character, got ',,'"),
      ({"separator": "."}, "`separator` must differ from `decimal`"),
      ({"skip_lines": -1}, "`skip_lines` must be an integer >= 0"),
      ({"comment": " "}, "`comment` must be a character or several, got ' '"),
      ({"encoding": "utf-9"}, "`encoding` must be one that Python knows, .* got 'utf-9'"),
      ({"encoding": "hex"}, "`encoding` must be one that Python knows"),
      ({"encoding": "utf-16", "allow_any_number": True}, "`encoding` must be UTF-8 or have one"),
      ({"encoding": "shift_jis", "allow_any_number": True}, "`encoding` must be UTF-8 or have"),
      ({"thousands": ";"}, "`thousands` must be one of ,, .,  , ', got ';'"),
      ({"thousands": ".", "decimal": "."}, "`thousands` must differ from `decimal`, got '.'"),
      ({"label_above": 1}, "`label_above` must be left out without `label_column`, got 1"),
      ({"label_column": "x", "label_above": float("nan")}, "`label_above` must be a finite number"),
      ({"label_column": "x", "id_column": "x"}, "`label_column` must not name a column that is in"),
      ({"exclude": ("x",), "columns": ("x",)}, "`columns` must not name a column .*`exclude`"),
      ({"exclude": ("x",), "categories": ("x",)}, "`categories` must not name a column"),
      ({"columns": ("x",), "categories": ("y",)}, "`categories` must be among `columns`, got 'y'"),
  )
  def test_refuses(self, options, message):
    with self.assertRaisesRegex(ValueError, message):
      table_options.TableOptions(**options)


if __name__ == "__main__":
  absltest.main()
