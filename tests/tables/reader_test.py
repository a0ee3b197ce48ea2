"""Tests of how files are read: kinds, names of columns, numbers, and what stands beside tables."""

import contextlib
import datetime
import gzip
import io
import os
import re
import sys
import types
import unicodedata
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from fl_clustering.tables import cells
from fl_clustering.tables import client_tables
from fl_clustering.tables import problems
from fl_clustering.tables import table_options
from tests.tables import table_folders as folders


def _parquet(table):
  file = io.BytesIO()
  parquet.write_table(table, file)
  return file.getvalue()


def _npz(**arrays):
  file = io.BytesIO()
  np.savez(file, **arrays)
  return file.getvalue()


class FilesTest(folders.TablesTestCase):

  @parameterized.parameters(
      ([1.5, None, 2],), (["1.5", "?", " 2 "],), (pd.Categorical(["1.5", None, "2"]),),
      (pd.Categorical([1.5, None, 2]),), (pd.array([1.5, None, 2], "Float64"),),
  )
  def test_numbers_in_parquet(self, column):
    tables = self.open({"a.parquet": pd.DataFrame({"x": column})}, missing="mean")
    self.assert_features(tables, {"a": [[1.5], [1.75], [2]]})

  @parameterized.parameters("a.csv", "a.csv.gz", "a.zip", "a.xlsx", "a.parquet", "a.npy")
  def test_a_device_is_not_read(self, name):
    folder = self.write({"b.csv": "x\n1\n"})
    os.symlink(os.devnull, os.path.join(folder, name))
    with self.assertRaisesRegex(ValueError, f"{name}': it is no regular file"):
      client_tables.open_folder(folder, table_options.TableOptions())

  def test_large_integers_in_parquet(self):
    tables = self.open({"a.parquet": pd.DataFrame({"x": [2**53 + 1, 1]})})
    self.assert_features(tables, {"a": [[2.0**53], [1]]})

  def test_ids_names_and_rows(self):
    tables = self.open({
        "leiden.csv": "age,income\n30,1.5\n40,-2e3\n\n",
        "Delft.CSV": "\ufeffage, income\r\n50,0\r\n",
        "site_10.csv": "age,income\n1,2\n",
        "site_9.csv": "age,income\n3,4\n",
        ".hidden": "x", "Desktop.ini": "x", "Thumbs.db": "x", "~$b.xlsx": "x",
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
      ("an_end_of_file", "a.csv", "x,y\r\n1,2\r\n3,4\r\n\x1a", {}),
      ("an_end_of_file_after_a_cell", "a.csv", "x,y\n1,2\n3,4\x1a", {}),
      ("an_end_of_file_after_a_quoted_cell", "a.csv", 'x,y\n1,"2"\n3,"4"\n\x1a', {}),
      ("utf_16_without_a_mark", "a.csv", "x,y\n1,2\n3,4\n".encode("utf-16-le"), {}),
      ("utf_16_of_large_ends_first", "a.csv", "x,y\n1,2\n3,4\n".encode("utf-16-be"), {}),
      ("empty_lines", "a.csv", "\n\nx,y\n1,2\n\n3,4\n\n", {}),
      ("parquet", "a.parquet", pd.DataFrame({"x": [1, 3], "y": [2.0, 4.0]}), {}),
      ("feather", "a.feather", pa.table({"x": [1, 3], "y": [2.0, 4.0]}), {}),
      ("views_of_text", "a.feather",
       pa.table({"x": pa.array(["1", "3"], pa.string_view()), "y": [2, 4]}), {}),
      ("zip", "a.zip", folders.zipped(any="x,y\n1,2\n3,4\n"), {}),
      ("utf_16_in_a_zip", "a.zip", folders.zipped(any="x,y\n1,2\n3,4\n".encode("utf-16")), {}),
      ("named_zip", "a.csv.zip", folders.zipped(any="x;y\n1;2\n3;4\n", ending=".txt"), {}),
      ("parquet_in_a_zip", "a.zip", folders.zipped(
          any=_parquet(pa.table({"x": [1, 3], "y": [2, 4]})), ending=".parquet"), {}),
      ("gzip_in_a_zip", "a.zip", folders.zipped(
          any=gzip.compress(b"x,y\n1,2\n3,4\n"), ending=".csv.gz"), {}),
      ("array_in_a_zip", "a.zip", folders.zipped(
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

  def test_an_end_of_file_within_a_file(self):
    mark = "\x1a"
    with self.assertRaisesRegex(ValueError, "line 3, column 'x': '1.x1a' is not a number"):
      self.open({"a.csv": f"x,y\n1,2\n1{mark},2\n1,2\n"})
    # Arrow's first block, of 2**20 bytes, ends with one.
    tables = self.open({"a.csv": "xx,y\n" + f"1,{mark}\n" * 2**18}, id_column="y")
    self.assertEqual(tables.read("a").row_ids, (mark,) * 2**18)

  @parameterized.parameters(
      ({"a.csv": "1,2,3\n4,5,6\n", "b.csv": "2,4,5\n7,8,9\n", "c.csv": "3,5,7\n1,2,3\n"},),
      ({"a.csv": "1,3,2\n4,5,6\n", "b.csv": "1,3,2\n7,8,9\n", "c.csv": "1,5,2\n1,2,3\n"},),
      ({"a.csv": "1,2\n4,5\n", "b.csv": "1,2\n7,8\n", "c.csv": "4,5\n1,2\n"},),
      ({"a.csv": "1,,2,5\n4,5,6,7\n", "b.csv": "1,,2,5\n7,8,9,9\n", "c.csv": "4,5,1,2\n1,2,3,4\n"}
       ,),
  )
  def test_first_rows_that_some_files_share(self, files):
    self.assertEqual(self.open(files, missing="mean").num_rows, {"a": 2, "b": 2, "c": 2})

  @parameterized.parameters(".csv", ".parquet", ".feather", ".npz")
  def test_names_with_accents_are_the_same_however_they_are_written(self, ending):
    one, other = (unicodedata.normalize(form, "Größe cm") for form in ("NFC", "NFD"))
    self.assertNotEqual(one, other)
    frame = {"x": np.array([1.0, 2]), other: np.array([3.0, 4])}
    content = {
        ".csv": f"x,{other}\n1,3\n2,4\n", ".parquet": pd.DataFrame(frame),
        ".feather": pa.table(frame), ".npz": frame,
    }[ending]
    files = {f"a{ending}": content, "b.csv": f"{one},x\n5,6\n"}
    for name in (one, other):
      tables = self.open(files, exclude=(name,))
      self.assert_features(tables, {"a": [[1], [2]], "b": [[6]]})
    tables = self.open(files)
    self.assertEqual(tables.feature_names, ("x", one))
    self.assert_features(tables, {"a": [[1, 3], [2, 4]], "b": [[6, 5]]})
    np.testing.assert_array_equal(tables.format.features(pd.DataFrame(frame)), [[1, 3], [2, 4]])

  def test_cells_with_accents_are_the_same_however_they_are_written(self):
    one, other = (unicodedata.normalize(form, "Zürich") for form in ("NFC", "NFD"))
    files = {
        f"{other}.csv": f"x,town\n1,{other}\n2,{one}\n3,Basel\n",
        "b.parquet": pd.DataFrame({"x": [4, 5], "town": [one, other]}),
    }
    tables = self.open(files, categories=("town",))
    self.assertEqual(tables.feature_names, ("x", "town=Basel", f"town={one}"))
    self.assertCountEqual(tables.num_rows, [one, "b"])
    self.assertEqual(self.open(files, client_column="town").num_rows, {"Basel": 1, one: 4})
    self.assertEqual(self.open(files, label_column="town").format.classes, ("Basel", one))

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


class WorkbooksTest(folders.TablesTestCase):

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
          {"a.xlsx": folders.zipped(), "b.csv": "x;c;day\n1,5;u;v\n"}, categories=("c",),
          exclude=("day",), missing="mean",
      )
      self.assertEqual(tables.feature_names, ("x", "c=a,b", "c=true", "c=u"))
      np.testing.assert_array_equal(tables.read("a").features[:, 0], [1, 2.5, 5 / 3])
      with self.assertRaisesRegex(ValueError, "line 3, column 'day': '2024-03-01 00:00:00'"):
        self.open({"a.xlsx": folders.zipped()}, categories=("c",), missing="mean")

  def test_a_row_is_a_line(self):
    with self._with(Data=[("x", "crp\n(mg/l)"), ("u\r\nv", 2), ("w", None)]):
      with self.assertRaisesRegex(ValueError, "line 3, column 'crp .mg/l.' is empty"):
        self.open({"a.xlsx": folders.zipped()}, categories=("x",))

  def test_texts_may_hold_any_separator(self):
    with self._with(Data=[("a;b",), ("1;2",), ("3;4",)]):
      tables = self.open({"a.xlsx": folders.zipped()}, categories=("a;b",))
    self.assertEqual(tables.feature_names, ("a;b=1;2", "a;b=3;4"))

  @parameterized.parameters(
      ({"A": [("x",)], "B": [(1,)]}, "it must have one sheet with cells, got A, B"),
      ({"A": [(None,)]}, "it must have one sheet with cells, got none"),
  )
  def test_sheets(self, sheets, message):
    with self._with(**sheets):
      with self.assertRaisesRegex(ValueError, message):
        self.open({"a.xlsx": folders.zipped()})

  @parameterized.parameters(
      ("A4:A5", "a.xlsx': it has merged cells, A4:A5 for one; unmerge them and fill in every row"),
      *((merged, None) for merged in ("A1:B1", "A1:B2", "A3:A4", "AA3:AA5", "B4:B5", "A7:A9")),
  )
  def test_merged_cells(self, cells, message):
    sheet = f'<mergeCells count="2"><mergeCell ref="A1:C1"/><mergeCell ref="{cells}"/></mergeCells>'
    workbook = folders.zipped(".xml", **{"xl/worksheets/sheet1": f"<worksheet>{sheet}</worksheet>"})
    rows = [("Wards",), (), ("ward", "x"), ("ICU", 1), (None, 2)]
    with self._with(Data=rows), contextlib.ExitStack() as stack:
      if message is not None:
        stack.enter_context(self.assertRaisesRegex(ValueError, message))
      tables = self.open(
          {"a.xlsx": workbook}, categories=("ward",), missing="mean", skip_lines=2)
      self.assertEqual(tables.num_rows, {"a": 2})

  @parameterized.parameters(
      ('<c r="B2"><f>A2*2</f><v></v></c>', True), ('<c s="1" r="B2"><f>A2*2</f><v /></c>', True),
      ('<c r="B2" s="1"><f t="shared" si="0"/></c>', True), ('<c r="B2"><f>A2*2</f></c>', True),
      ('<x:c r="B2"><x:f>A2*2</x:f><x:v></x:v></x:c>', True),
      ('<c r="B2" t="str"><f>""</f><v></v></c>', False), ('<c r="B2"><v>2</v></c>', False),
      ('<c r="B2"><f>A2*2</f><v>2</v></c>', False), ('<c r="B2" s="1"/>', False),
  )
  def test_formulas_without_values(self, cell, is_refused):
    workbook = folders.zipped(".xml", **{"xl/worksheets/sheet1": f"<row>{cell}</row>"})
    with self._with(Data=[("x", "y"), (1, None), (2, 4)]), contextlib.ExitStack() as stack:
      if is_refused:
        stack.enter_context(self.assertRaisesRegex(
            ValueError, "a.xlsx': cell B2 has a formula without its value; open the workbook in a"
        ))
      self.assertEqual(self.open({"a.xlsx": workbook}, missing="mean").num_rows, {"a": 2})

  def test_without_the_package(self):
    with mock.patch.dict(sys.modules, openpyxl=None):
      with self.assertRaisesRegex(ValueError, "a.xlsx': it takes the package openpyxl, which is"):
        self.open({"a.xlsx": folders.zipped()})


class HeadersTest(folders.TablesTestCase):

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


  @parameterized.parameters(
      ('age,"crp\n(mg/l)",hb\n1,2,3\n,5,6\n', 4), ('age,"crp \r\n (mg/l)\r\n",hb\r\n,2,3\r\n', 4),
      ('Report;;\n"ag\ne\n";"crp\n(mg/l)";"h;b"\n1;2;3\n;5;6\n', 7, {"skip_lines": 1}),
      ('age,"crp\n(mg/l)",hb\n1,2,3\n"\n",5,6\n', 5, {"header": "yes", "encoding": "cp1252"}),
  )
  def test_names_of_several_lines(self, text, line, options=types.MappingProxyType({})):
    with self.assertRaisesRegex(ValueError, f"a.csv': line {line}, column 'ag ?e' is empty"):
      self.open({"a.csv": text}, **options)
    tables = self.open({"a.csv": text}, columns=("crp (mg/l)",), **options)
    self.assertEqual(tables.read("a").features[0], [2])

  @parameterized.parameters(
      ('1,"2\n",u\n3,4,v\n',), ('x,"y\n1,2\n3,4"\n5,6\n',), ('x,"y\n1\n"\n5,6\n',),
      ('x,"y\nz"\n5,6\n', {"header": "no"}), ('"\n","\n"\n5,6\n',),
  )
  def test_a_first_row_of_several_lines(self, text, options=types.MappingProxyType({})):
    with self.assertRaisesRegex(ValueError, "a.csv': line [2-4] has a line break in a cell"):
      self.open({"a.csv": text}, **options)


class NumbersTest(folders.TablesTestCase):
  """How numbers are written is found for every file; what has two readings is a fault."""

  @parameterized.named_parameters(
      ("each file has its own mark", {"a.csv": "x;y\n1,5;2\n", "b.csv": "x,y\n2.5,3\n"}, {},
       {"a": [[1.5, 2]], "b": [[2.5, 3]]}),
      ("a comma far below", {"a.csv": folders.lines("x;y", *["1;2"] * 5000, "3,25;4")}, {},
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
      ("units at some numbers", {"a.csv": "x,y,z\n5 mg,-$10.5,2k\n0.1,$ -3,3k\n"},
       {"strip_units": True}, {"a": [[5, -10.5, 2], [0.1, -3, 3]]}),
      ("a byte order mark", {"a.csv": "\ufeffx,y\n1,2\n", "b.csv": "x,y\n3,4\n"},
       {"encoding": "UTF-8"}, {"a": [[1, 2]], "b": [[3, 4]]}),
      ("spaces between thousands", {"a.csv": "x;y\n1 911;2\n1\u00a0234,5;3\n"},
       {"thousands": " "}, {"a": [[1911, 2], [1234.5, 3]]}),
      ("units", {"a.csv": "x,y,z\n1.1 mg/dl,85%,<0.5\n2mg/dl,7 %,2\n"}, {"strip_units": True},
       {"a": [[1.1, 85, 0.5], [2, 7, 2]]}),
      ("currencies", {"a.csv": 'x,y,z\n"€ 1,234.50",-2€,$3\n€5,7 €,$ .5\n'},
       {"strip_units": True, "thousands": ","}, {"a": [[1234.5, -2, 3], [5, 7, 0.5]]}),
      ("units after commas", {"a.csv": "x;y\n1,1 mg/dl;>= 2,5\n"}, {"strip_units": True},
       {"a": [[1.1, 2.5]]}),
      ("one unit in several ways", {
          "a.csv": folders.lines("x,y,z,v,w", "1 mmHg,2 €,3 µg/dl,4 mg/dl,5 mL/min/1.73m2"),
          "b.csv": folders.lines("x,y,z,v,w", "1 mm Hg,2 EUR,3 μg/dL,4 mg/dL,5 ml/min/1.73m2"),
      }, {"strip_units": True}, {"a": [[1, 2, 3, 4, 5]], "b": [[1, 2, 3, 4, 5]]}),
      ("powers of ten and multiples everywhere", {
          "a.csv": "x,y,z\n4.5 x10E9/l,1.5 Mio. EUR,2 Cr\n5.5x10E9 /L,2 Mio.EUR,3 Cr\n",
      }, {"strip_units": True}, {"a": [[4.5, 1.5, 2], [5.5, 2, 3]]}),
      ("currencies of three letters", {
          "a.csv": "x;y\nCHF 1'234.50;EUR 2\n7 CHF;€ 2.5\n", "b.csv": "x;y\nCHF 8.50;3 EUR\n",
      }, {"strip_units": True, "thousands": "'"}, {"a": [[1234.5, 2], [7, 2.5]], "b": [[8.5, 3]]}),
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
      ("two currencies", {"a.csv": "x\n€1.1\n97 $\n"},
       "'€1.1' has one of the units \\$, €, and a column must have one"),
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
      ("units that differ in case", {"a.csv": "x\n1 mM\n1 mm\n"},
       "the unit 'mm', and the unit 'mM'"),
      ("megagrams beside milligrams", {"a.csv": "x\n1 Mg/L\n1 mg/l\n"},
       "'mg/l', and the unit 'Mg/l'"),
      ("shares and percentages", {"a.csv": "x\n85%\n", "b.csv": "x\n0.85\n"},
       "b.csv': column 'x' has no unit, and the unit '%' in .*a.csv'"),
      ("thousands beside ones", {"a.csv": "x\n3.5k\n1488.3\n"},
       "a.csv': column 'x' has the unit 'k', and no unit; a column must have one unit"),
      ("millions in one file", {"a.csv": "x\n3.5 Mio. EUR\n", "b.csv": "x\n1488.3\n"},
       "b.csv': column 'x' has no unit, and the unit 'Mio.€' in .*a.csv'"),
      ("grams beside milligrams", {"a.csv": "x\n1.5 g\n2.5 g\n-0.5 g\n", "b.npz": {
          "x": np.array([1500.0, 2500.0, -700.0, 0.0])}},
       "b.npz': column 'x' has no unit, and the unit 'g' in .*a.csv'"),
  )
  def test_units_that_are_not_one(self, files, message):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files, strip_units=True)
    self.assertNotIn("Try:", str(caught.exception))

  @parameterized.parameters(
      "1.2x10^3", "1.2 x10³ CFU", "1.2x10E3", "4.4 mil", "4.4 mil euros", "4.4 miljoonaa", "4 mila",
      "12 tys.", "12 tis", "12 thsd", "12 tusen", "12 duizend", "2.1 mln", "2.1 mio.", "2.1 milj.",
      "2 milioni", "2 miljoen", "2 millones", "2 milhões", "2 milhão", "2 millón", "2 miljarder",
      "2 mld", "2 mia.", "2 bilhões", "2 bn", "2 tn", "2 tkr", "2 kCHF", "2 MioEUR", "5 per cento",
      "5 pour mille", "250 DR", "250 Cr.", "€250 Dr", "250 EUR CR",
  )
  def test_multiples_and_sides_of_an_account_beside_others(self, cell):
    with self.assertRaisesRegex(ValueError, "column 'x' has the unit '.*', and no unit"):
      self.open({"a.csv": f"x\n1.5\n{cell}\n3.5\n"}, strip_units=True)

  @parameterized.parameters(
      "5 mg", "5 mag/s", "12.3 mag", "5 min", "5 d", "5 mD", "5 mol", "5 mmol", "5 mm", "5 decibel",
      "5 marks", "5 sets", "5 mi", "5 miles", "5 milliamp", "5 milliosmol", "5 millilitres", "5 t",
      "5 K/uL", "5 /min", "5 tissues", "5 credits", "12 gen", "3 set", "3 out", "3 junctions",
      "3 abrasions", "3 augmentations",
  )
  def test_units_that_are_no_multiples_and_no_months(self, cell):
    tables = self.open({"a.csv": f"x\n1.5\n{cell}\n3.5\n"}, strip_units=True)
    number = float(cell.split()[0])
    self.assert_features(tables, {"a": [[1.5], [number], [3.5]]})

  @parameterized.parameters(
      "05. Mai", "05/abr", "5/mai", "05/dez", "5 abr", "5 ene", "05 dic", "5-gen", "5/mag", "5 ago",
      "5.set", "5/out", "5 Sep", "5 kwi", "5 mrt", "5. Mär", "5 févr.", "5 maj", "5 des", "5.iun", "5.touko",
      "5 settembre", "5 septiembre", "5 dezembro", "5/Jan/24", "5 abr-24", "2024 May", "250 neg",
      "€250 neg.", "250-", "(250)",
  )
  def test_days_and_amounts_below_zero_are_no_numbers(self, cell):
    with self.assertRaisesRegex(ValueError, f"column 'x': '{re.escape(cell)}' is not a number"):
      self.open({"a.csv": f"x\n1.5\n{cell}\n3.5\n"}, strip_units=True)
    self.assertTrue(np.isnan(cells.Style(strips_units=True).number_of(cell)))

  def test_a_limit_far_below_what_is_measured(self):
    files = {"a.csv": "x\n<0.01 mg/l\n5\n15\n"}
    self.assert_features(self.open(files, strip_units=True), {"a": [[0.01], [5], [15]]})

  @parameterized.named_parameters(
      ("a unit", "1.1 mg/dl", "it has a unit; --strip_units reads", {"strip_units": "true"}),
      ("a currency", "€ 5", "it has a unit; --strip_units", {"strip_units": "true"}),
      ("a percent sign", "85%", "it has a percent sign; column 'x' has the unit '%', and no unit;",
       None),
      ("a comparison", "<0.5", "it has a comparison; --strip_units", {"strip_units": "true"}),
      ("thousands", '"1,234.5"', "it has commas between thousands; --thousands=, reads",
       {"thousands": ","}),
      ("apostrophes", "1'234.5", "it has apostrophes between thousands", {"thousands": "'"}),
      ("a power of ten", "1.1 x10E9/L", "column 'x' has the unit 'x10E9/l', and no unit;", None),
      ("a unit per area", "7 mL/min/1.73m2", "it has a unit; --strip_units",
       {"strip_units": "true"}),
      ("kilograms", "1.1 kg/m2", "it has a unit; --strip_units", {"strip_units": "true"}),
      ("litres a day", "5 l/24h", "it has a unit; --strip_units", {"strip_units": "true"}),
      ("a code", "2D4", "'2D4' is not a number; where most cells", None),
      ("a longer code", "12AB345", "'12AB345' is not a number; where most cells", None),
      ("text", "hemolyzed", "is not a number; where most cells of a column are numbers", None),
      ("a day, as a spreadsheet makes it of 5.5", "05. Mai", "'05. Mai' is not a number; where mo",
       None),
      ("a day in English", "5 December", "'5 December' is not a number; where most", None),
      ("thousands in a letter", "3.5k",
       "column 'x' has the unit 'k', and no unit; a column must", None),
      ("milligrams beside grams", "2500 mg", "column 'x' has the unit 'mg', and no unit", None),
      ("a unit at a number like others", "5 mg", "it has a unit; --strip_units",
       {"strip_units": "true"}),
      ("an amount below zero", "-$5.2", "it has a unit; --strip_units", {"strip_units": "true"}),
  )
  def test_a_cell_among_numbers(self, cell, message, advised):
    files = {"a.csv": folders.lines("x,y", "1.5,1", f"{cell},2", "3.5,4")}
    with self.assertRaisesRegex(ValueError, f"line 3, column 'x': .*{message}") as caught:
      self.open(files)
    self.assertNotRegex(str(caught.exception), "--exclude|--categories")
    has_hint = re.search("Try:|--strip|--thousands", str(caught.exception)) is not None
    self.assertEqual(has_hint, advised is not None)
    if advised is not None:
      self.assertEqual(folders.advised(str(caught.exception)), advised)

  def test_marks_between_thousands_where_files_have_other_decimal_marks(self):
    files = {
        "a.csv": "x;y\n2,383;1.911\n", "b.csv": "x;y\n3.67;2.26\n0.904;4\n",
        "c.csv": 'x,y\n3.675,"1"\n', "d.csv": "x;y\n5,383;2\n",
    }
    with self.assertRaisesRegex(
        ValueError, "d.csv': line 2, column 'x': '5,383' may be 5.383 or 5383; --decimal=, or .* "
        "or --thousands=. where other files have decimal points"
    ):
      self.open({name: text for name, text in files.items() if name != "a.csv"})
    with self.assertRaisesRegex(
        ValueError, "b.csv': line 2, column 'x': '3.67' is not a number: it has a decimal point.*"
        "without --decimal, each file's decimal mark is found out, and --thousands=. says"
    ) as caught:
      self.open({name: text for name, text in files.items() if name != "c.csv"}, decimal=",")
    self.assertNotIn("0.904", str(caught.exception))
    tables = self.open(files, thousands=".")
    self.assert_features(tables, {
        "a": [[2.383, 1911]], "b": [[3.67, 2.26], [0.904, 4]], "c": [[3.675, 1]],
        "d": [[5.383, 2]],
    })
    self.assertEqual(tables.warnings[:1], (
        "--thousands=. is not for files where numbers have it as their decimal mark: b.csv",
    ))
    later = self.open_later(tables.format, {"b.csv": files["b.csv"]})
    self.assert_features(later, {"b": [[3.67, 2.26], [0.904, 4]]})
    # No other cell of its column says what 2.262 is.
    files["b.csv"] = "x;y\n3.67;2.262\n0.904;4\n"
    with self.assertRaisesRegex(
        ValueError, "b.csv': line 2, column 'y': '2.262' may be 2.262 or 2262, as '3.67' in line "
        "2, column 'x', has a decimal point"
    ):
      self.open(files, thousands=".")

  @parameterized.parameters("utf-16-le", "utf-16-be")
  def test_a_last_letter_with_half_an_end_of_file(self, encoding):
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}[encoding]
    text = mark + "x,y\n1,b\n3,\u4e1a".encode(encoding)
    self.assertEqual(self.open({"a.csv": text}, categories=("y",)).num_rows, {"a": 2})

  def test_a_decimal_comma_among_commas_between_thousands(self):
    files = {"a.csv": 'x,n\n"1,234",5\n"2,345",6\n'}
    self.assert_features(self.open(files, thousands=","), {"a": [[1234, 5], [2345, 6]]})
    files["a.csv"] += '"1,23",7\n'
    with self.assertRaisesRegex(ValueError, "line 4, column 'x': '1,23' .*decimal comma"):
      self.open(files, thousands=",")

  @parameterized.parameters({}, {"thousands": "."}, {"thousands": ","})
  def test_other_marks_between_thousands_in_other_files(self, **options):
    files = {
        "a.csv": "x;y\n1.234,5;13,3\n", "b.csv": 'x,y\n"1,234.5",8.1\n', "c.csv": "x;y\n1.5;8.1\n",
    }
    with self.assertRaisesRegex(
        ValueError, "it has points between thousands.*no --thousands reads all files"
    ) as caught:
      self.open(files, **options)
    self.assertIn("it has commas between thousands", str(caught.exception))
    self.assertNotRegex(str(caught.exception), r"Try:|--decimal|13,3|8\.1|--thousands=")

  def test_a_mark_that_another_cell_shows_between_thousands(self):
    files = {"a.csv": folders.lines("x,y", '"1,234",1', '"1,234.5",2', "3.5,4")}
    with self.assertRaisesRegex(ValueError, "line 2, column 'x': '1,234' is not") as caught:
      self.open(files)
    self.assertEqual(folders.advised(str(caught.exception)), {"thousands": ","})
    self.assert_features(self.open(files, thousands=","), {"a": [[1234, 1], [1234.5, 2], [3.5, 4]]})

  def test_codes_are_no_numbers_with_units(self):
    codes = ("12A", "3B", "7C", "9D", "12A", "3B", "7C", "9D", "12A")
    with self.assertRaisesRegex(ValueError, "'12A' is not a number; --categories .*") as caught:
      self.open({"a.csv": folders.lines("ward,y", *(f"{code},1" for code in codes))})
    self.assertEqual(folders.advised(str(caught.exception)), {"categories": ("ward",)})

  def test_a_cell_that_is_missing_among_numbers(self):
    with self.assertRaisesRegex(ValueError, "line 3, column 'x' is empty; --missing=") as caught:
      self.open({"a.csv": "x,y\n1,2\n,3\n", "b.csv": "x,y\n4,5\n"})
    self.assertNotRegex(str(caught.exception), "--exclude|--categories")

  def test_text_at_one_client_of_a_column_of_numbers(self):
    files = {"a.csv": folders.lines("x,y", *["1,2"] * 5), "b.csv": "x,y\nhigh,3\nlow,4\n"}
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
    rows = ("1.234,5;1 mg;", "1.911;<2 g;5%", "-€ 1,5;5/mai;.5")
    files = {"a.csv": folders.lines("x;y;z", *rows)}
    nan = np.nan
    self.assert_features(
        self.open(files, decimal=",", thousands=".", strip_units=True, **options),
        {"a": [[1234.5, 1, nan], [1911, 2, 5], [-1.5, nan, nan]]},
    )
    self.assert_features(
        self.open(files, **options), {"a": [[nan, nan, nan], [1.911, nan, nan], [nan, nan, 0.5]]}
    )


class AboveAndBesideTablesTest(folders.TablesTestCase):
  """Titles, comments and encodings."""

  @parameterized.named_parameters(
      ("a title", {"a.csv": "Report: March\n\nx,y,c\n1,2,u\n1,3,u\n"},
       "line 1, 'Report: March', looks like a title above the table; .*; --skip_lines "
       "leaves out as many lines of every file, --categories",
       {"skip_lines": 2}),
      ("two titles", {"a.csv": "Report\nof all, sites\nx;y;z;c\n1;2;3;u\n4;5;6;u\n"},
       "line 1, 'Report', looks like a title", {"skip_lines": 2}),
      ("a title of a spreadsheet", {"a.csv": "Report;;\n;;\nx;y;c\n1;2;u\n1;3;u\n"},
       "line 1, 'Report', looks like a title", {"skip_lines": 2}),
      ("a comment", {"a.csv": "# site 0\nx,y,c\n1,2,u\n", "b.csv": "x,y,c\n1,2,u\n"},
       "a.csv': line 1, '# site 0', looks like a comment; .*--comment", {"comment": "#"}),
      ("comments of a column", {"a.csv": "# site, 0\nc\nu\n# end\nu\n"},
       "line 1, '# site, 0', looks like a comment", {"comment": "#"}),
      ("a comment far below", {"a.csv": folders.lines("x,c", *["1,u"] * 30, "% end", "2,u")},
       "line 32, '% end', looks like a comment", {"comment": "%"}),
  )
  def test_what_is_no_row(self, files, message, advised):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files)
    given = {name: str(value) for name, value in advised.items()}
    self.assertEqual(
        folders.advised(str(caught.exception)), {**given, "categories": ("c",)}
    )
    tables = self.open(files, categories=("c",), **advised)
    self.assertEqual(tables.feature_names[-1], "c=u")

  @parameterized.named_parameters(
      ("above rows", {"a.csv": "# old, b\nc,x,y\nu v,1,1\n#N/A x,2,2\n"},
       "line 1, .*looks like a comment; line 4, '#N/A x,2,2', begins so too, but looks like a row",
       1),
      ("far above rows", {"a.csv": folders.lines("# old", "# b", "c,x", *["u,1"] * 30, "#2,2")},
       "line 34, '#2,2', begins so too", 2),
      ("below rows", {"a.csv": folders.lines("c,x", "#1,2", *["u,1"] * 30, "# end")},
       "line 33, '# end', looks like a comment; line 2, '#1,2', begins so too", None),
      ("rows of another file",
       {"a.csv": "# old\nc,x\nu,1\n", "b.csv": "c,x\nu,1\n#2,2\n"},
       "a.csv': line 1, .*b.csv': line 3, '#2,2', looks like a row, though it begins with '#'",
       None),
      ("rows of another file with comments",
       {"a.csv": "# old\nc,x\nu,1\n", "b.csv": "# old\nc,x\nu,1\n#2,2\n"},
       "a.csv': line 1, .*b.csv': line 1, .*; line 4, '#2,2', begins so too", 1),
      ("a column", {"a.csv": "# old c\nc\nu\n#2\n"}, "line 4, '#2', begins so too", 1),
      ("rows without names", {"a.csv": "# old\n#2,2\nu,1\n"},
       "line 1, .*; line 2, '#2,2', looks like a row, though it begins with '#'", None, "no"),
      ("titles above other rows",
       {"a.csv": "Report\nu,1\nu,2\n", "b.csv": "v,1\nv,2\n"},
       "b.csv': line 1, 'v,1', looks like part of the table; remove", None, "no"),
      ("comments above rows and none above others",
       {"a.csv": "# old\nc,x\nu,1\n#2,2\n", "b.csv": "c,x\nu,1\n"},
       "b.csv': line 1, 'c,x', looks like part of the table; remove", None),
  )
  def test_no_flag_that_would_leave_out_rows(self, files, message, skipped, header="auto"):
    with self.assertRaisesRegex(ValueError, message) as caught:
      self.open(files, header=header)
    message = str(caught.exception)
    self.assertNotRegex(message, "--comment leaves")
    has_title = "title" in message or "part of the table" in message
    self.assertEqual("remove the lines above the table where not all" in message, has_title)
    if skipped is None:
      self.assertNotRegex(message, "Try:|--skip_lines leaves")
      return
    self.assertEndsWith(message, f"Try: --categories=c --skip_lines={skipped}")
    tables = self.open(files, categories=("c",), skip_lines=skipped)
    num_rows = sum(text.count("\n") - skipped - 1 for text in files.values())
    self.assertEqual(sum(tables.num_rows.values()), num_rows)

  @parameterized.named_parameters(
      ("rows", {"skip_lines": 1}, "Report\nx,y\n1,2\n3,\n", "line 4, column 'y'"),
      ("comments", {"comment": "#"}, "# a\nx,y\n#b\n1,2\n\n# c\n3,\n", "line 7, column 'y'"),
  )
  def test_lines_are_counted_from_the_first(self, options, text, place):
    with self.assertRaisesRegex(ValueError, f"{place} is empty"):
      self.open({"a.csv": text}, **options)

  @parameterized.named_parameters(
      ("two columns", "sep=;\nx;y\n1,5;2\n3;\n", {}),
      ("tabs", "sep=\t\nx\ty\n1.5\t2\n3\t\n", {}),
      ("spaces in quotes", '\ufeff"sep= "\r\nx y\r\n1.5 2\r\n3 \r\n', {}),
      ("commas in utf-16", "sep=,\nx,y\n1.5,2\n3,\n".encode("utf-16"), {}),
      ("commas in cp1252", "sep=,\nx,y\n1.5,2\n3,\né,".encode("cp1252"), {"columns": ("y",)}),
      ("another one is said", "sep=;\nx,y\n1.5,2\n3,\n", {"separator": ","}),
      ("it is skipped too", "sep=;\nx;y\n1,5;2\n3;\n", {"skip_lines": 1}),
      ("with comments", "sep=;\nx;y\n1,5;2\n3;\n#\n", {"comment": "#"}),
      ("no names", "sep=;\n1,5;2\n2;3\n3;\n", {}),
  )
  def test_a_first_line_that_says_the_separator(self, text, options):
    tables = self.open({"a.csv": text}, missing="mean", **options)
    self.assertEqual(tables.read("a").features[0, -1], 2)
    with self.assertRaisesRegex(ValueError, "a.csv': line 4, column '(y|column_2)' is empty"):
      self.open({"a.csv": text}, **options)
    later = self.open_later(tables.format, {"a.csv": text}, options={
        name: value for name, value in options.items() if name == "separator"
    })
    self.assertEqual(later.num_rows, tables.num_rows)

  def test_another_first_line(self):
    tables = self.open({"a.csv": "sep=,\n1,2\n"}, allow_any_number=True, header="yes",
                       columns=("sep=", "column_2"))
    self.assert_features(tables, {"a": [[1, 2]]})
    with self.assertRaisesRegex(ValueError, "it is no text in utf-16, the encoding"):
      self.open({"a.csv": "x\n1\n"}, encoding="utf-16")

  @parameterized.parameters({}, {"missing": "mean"}, {"columns": ("x", "z")})
  def test_lines_of_separators_at_the_end_are_no_rows(self, **options):
    tables = self.open(
        {"a.csv": 'x,y,z\n1,2,3\n4,5,6\n,,\n , ,\n,"",\n', "b.csv": "x,y,z\n7,8,9\n"}, **options
    )
    self.assertEqual(dict(tables.num_rows), {"a": 2, "b": 1})
    np.testing.assert_array_equal(tables.read("a").features[:, -1], [3, 6])
    np.testing.assert_array_equal(tables.read("a").rows, [1, 2])

  @parameterized.parameters({}, {"missing": "mean"}, {"columns": ("x", "z")})
  def test_lines_of_separators_in_between_are_no_rows_and_said(self, **options):
    text = 'x,y,z\n1,2,3\n,,\n4,5,6\n , ,\n,"",\n7,8,8\n,,\n'
    for _ in range(2):
      tables = self.open({"a.csv": text, "b.csv": "x,y,z\n7,8,9\n,,\n"}, **options)
      self.assertEqual(dict(tables.num_rows), {"a": 3, "b": 1})
      np.testing.assert_array_equal(tables.read("a").features[:, -1], [3, 6, 8])
      np.testing.assert_array_equal(tables.read("a").rows, [1, 3, 6])
      self.assertEqual(
          tables.warnings, ("lines with nothing but separators are no rows: 3 in a.csv",))
      text = text.replace("7,8,8", "7,8,0008")
    later = self.open_later(tables.format, {"c.csv": "x,y,z\n1,2,3\n,,\n4,5,6\n"})
    self.assert_features(later, {"c": tables.read("a").features[:2]})
    self.assertEqual(
        later.warnings, ("lines with nothing but separators are no rows: 1 in c.csv",))

  @parameterized.named_parameters(
      ("of separators but for another column", "x,y,z\n1,2,3\n,,0\n3,4,5\n", {"exclude": ("z",)},
       "line 3, column 'x' is empty"),
      ("below a line of separators", "x,y\n1,2\n,\n3,\n", {}, "line 4, column 'y' is empty"),
      ("of one column", 'x\n1\n""\n', {}, "line 3, column 'x' is empty"),
      ("unknown everywhere", "x,y\n1,2\nNA,NA\n", {}, "line 3, column 'x' is empty"),
      ("with another column", "x,y\n1,2\n,5\n", {"columns": ("x",)}, "line 3, column 'x'"),
  )
  def test_a_row_that_is_empty_in_part(self, text, options, place):
    with self.assertRaisesRegex(ValueError, place):
      self.open({"a.csv": text}, **options)

  @parameterized.named_parameters(
      ("a word", lambda table: ["Total", *table[0]], "column 'who': 'Total' looks"),
      ("a word below numbers", lambda table: ["", "MEAN:", 3], "column 'x': 'MEAN:' looks"),
      ("sums", lambda table: ["w", *table.sum(axis=0)],
       "column 'x': [0-9]* looks like the sum of the rows above"),
      ("sums of a column", lambda table: ["w", "", table.sum(axis=0)[1]],
       "column 'y': [0-9]* looks like the sum of the rows above"),
      ("a sum and a mean",
       lambda table: ["w", table.sum(axis=0)[0], table.mean(axis=0)[1].round(1)],
       "column 'x': [0-9]* looks like the sum of the rows above"),
      ("a mean and a sum",
       lambda table: ["w", table.mean(axis=0)[0].round(1), table.sum(axis=0)[1]],
       "column 'x': [0-9.]* looks like the mean of the rows above"),
      ("a sum and another number", lambda table: ["w", table.sum(axis=0)[0], 7], None),
      ("sums but for one", lambda table: ["w", *(table.sum(axis=0) + [0, 9])], None),
      ("a word that others have", lambda table: ["v1", *table[0]], None),
      ("means", lambda table: ["w", *table.mean(axis=0)], None),
      ("another word", lambda table: ["totally", *table[0]], None),
  )
  def test_a_last_row_of_totals(self, last_of, problem):
    table = np.random.default_rng(0).integers(1, 40, (25, 2))
    last = last_of(table)
    rows = [f"v{i},{x},{y}" for i, (x, y) in enumerate(table)]
    files = {"a.csv": folders.lines("who,x,y", *rows, ",".join(map(str, last)))}
    options = {"id_column": "who", "missing": "mean"}
    if not last[0]:
      options["id_column"], files["a.csv"] = None, files["a.csv"].replace("v", "")
    if problem is None:
      self.assertEqual(self.open(files, **options).num_rows, {"a": 26})
      return
    with self.assertRaisesRegex(
        ValueError, f"a.csv': line 27, {problem}"
    ):
      self.open(files, **options)
    format_ = self.open({"b.csv": folders.lines("who,x,y", *rows)}, id_column="who").format
    later = self.open_later(format_, {"c.csv": folders.lines("who,x,y", *rows, ",".join(
        map(str, last)))}, skip_bad_rows=True)
    self.assertEqual(later.num_rows, {"c": 25})

  def test_totals_in_any_row(self):
    rows = [f"v{i},{i % 7},{i % 5}" for i in range(60)]
    text = folders.lines("who,x,y", "Zwischensumme,90,50", *rows, "Total (n=60),180,120")
    with self.assertRaisesRegex(
        ValueError, "line 2, column 'who': 'Zwischensumme' looks like a total of other rows"
    ) as caught:
      self.open({"a.csv": text}, categories=("who",))
    self.assertNotIn("Try:", str(caught.exception))
    # A table of statistics has many such rows.
    rows = [f"{('mean', 'sd')[i % 2]},{i % 7},{i % 5}" for i in range(60)]
    tables = self.open({"a.csv": folders.lines("who,x,y", *rows)}, categories=("who",))
    self.assertEqual(tables.num_rows, {"a": 60})

  @parameterized.parameters("Gesamtergebnis", "Total général")
  def test_words_for_a_total_in_any_column(self, word):
    rows = [f"v{i % 5},{i % 7},{i % 5}" for i in range(60)]
    with self.assertRaisesRegex(
        ValueError, f"line 62, column 'ward': '{word}' looks like a total of other rows"
    ):
      self.open({"a.csv": folders.lines("ward,x,y", *rows, f"{word},9,9")}, categories=("ward",))

  @parameterized.parameters((3, None), (3, 1), (2, None))
  def test_a_last_row_of_means(self, num_columns, changed):
    table = np.random.default_rng(0).normal(50, 9, (25, num_columns)).round(1)
    last = table.mean(axis=0).round(1)
    if changed is not None:
      last[changed] += 0.5
    rows = [",".join(map(str, [*row, 7])) for row in (*table, last)]
    files = {"a.csv": folders.lines(",".join("xyzc"[-num_columns - 1 :]), *rows)}
    if changed is not None or num_columns < 3:
      self.assertEqual(self.open(files).num_rows, {"a": 26})
      return
    with self.assertRaisesRegex(
        ValueError, "a.csv': line 27, column 'x': [0-9.]* looks like the mean of the rows above"
    ):
      self.open(files)

  def test_a_last_row_in_the_middle_of_its_columns_is_no_mean(self):
    rows = [f"{i % 7},{i % 7 + 1},{i % 7 + 2}" for i in range(28)]
    tables = self.open({"a.csv": folders.lines("x,y,z", *rows, "3,4,5")})
    self.assertEqual(tables.num_rows, {"a": 29})

  @parameterized.parameters(
      ({"categories": ("who",)}, "SD"), ({"categories": ("who",)}, "total"),
      ({"label_column": "who"}, "total"), ({"client_column": "who"}, "SD"),
      ({"exclude": ("who",)}, "SD"),
  )
  def test_words_of_totals_may_be_levels_classes_and_names(self, options, word):
    rows = [f"{word if i == 7 else f'v{i % 3}'},{i % 7},{i % 5}" for i in range(60)]
    tables = self.open({"a.csv": folders.lines("who,x,y", *rows)}, **options)
    self.assertEqual(sum(tables.num_rows.values()), 60)

  def test_rare_counts_add_up_by_chance(self):
    rows = ["0,0"] * 40 + ["1,0", "1,0", "2,0"]
    self.assertEqual(self.open({"a.csv": folders.lines("x,y", *rows)}).num_rows, {"a": 43})

  def test_points_between_thousands_of_whole_numbers(self):
    rows = ["300;2", "1.510;5", "6.020;9", "12;1"]
    files = {"a.csv": folders.lines("visits;staff", *rows)}
    with self.assertRaisesRegex(
        ValueError, "line 3, column 'visits': '1.510' may have a decimal point or one between "
        "thousands, as whole numbers stand beside it; --decimal=. or --thousands=. says which"
    ):
      self.open(files)
    for options, expected in (({"thousands": "."}, 1510), ({"decimal": "."}, 1.51)):
      self.assertEqual(self.open(files, **options).read("a").features[1, 0], expected)
    # Each of these says that it is a decimal point, or that there are no thousands.
    for change in (("6.020", "6.02"), ("12;", "1212;"), ("12;", "0.012;"), (";", ",")):
      text = files["a.csv"].replace(*change)
      self.assertEqual(self.open({"a.csv": text}).read("a").features[1, 0], 1.51, change)

  def test_points_in_front_of_three_digits_everywhere(self):
    text = folders.lines("visits;staff", "2.303;65", "1.510;50", "2.000;9")
    files = {"a.csv": text, "b.csv": text.replace(";", "\t"), "c.csv": text.replace(";", ",")}
    tables = self.open(files)
    self.assert_features(tables, dict.fromkeys("abc", [[2.303, 65], [1.51, 50], [2, 9]]))
    self.assertRegex(
        tables.warnings[0], "a.csv', line 2, column 'visits': '2.303' is read with a decimal point,"
        " but may have one between thousands .also '[^']*b.csv'.; --decimal=. or --thousands=. says"
    )
    for decimal in ({"decimal": "."}, {"thousands": "."}):
      self.assertNotIn("visits", " ".join(self.open(files, **decimal).warnings))
    # Each of these says that it is a decimal point.
    for change in (("1.510", "1.51"), ("65", "6.5"), ("2.000", "0.900")):
      self.assertEqual(self.open({"a.csv": text.replace(*change)}).warnings, (), change)

  def test_a_minus_as_printed(self):
    tables = self.open({"a.csv": "x\n\u22124.96\n5\n"})
    np.testing.assert_array_equal(tables.read("a").features[:, 0], [-4.96, 5])

  @parameterized.parameters("temp,hum\n17,0,40,0\n31,1,70,7\n", "x\n8,697\n9,500\n")
  def test_names_above_numbers_with_decimal_commas_are_no_title(self, text):
    with self.assertRaisesRegex(ValueError, "line 2 has") as caught:
      self.open({"a.csv": text})
    self.assertNotIn("skip_lines", str(caught.exception))

  @parameterized.parameters(
      "Mean", "SD", "Gesamt:", "Insgesamt", "Totale", "Suma", "Ø", "Endergebnis", "m1"
  )
  def test_the_first_column_says_it_even_if_it_is_not_used(self, word):
    rows = [f"m{i},{i % 7},{i % 5}" for i in range(9)]
    files = {"a.csv": folders.lines("name,x,y", *rows, f"{word},3.1,2")}
    if word == "m1":
      self.assertEqual(self.open(files, exclude=("name",)).num_rows, {"a": 10})
      return
    with self.assertRaisesRegex(ValueError, f"line 11, column 'name': '{word}' looks like a total"):
      self.open(files, exclude=("name",))
    format_ = self.open({"a.csv": folders.lines("x,y", "1,2", "3,4")}).format
    later = self.open_later(format_, files, skip_bad_rows=True)
    self.assertEqual(later.read("a").features.shape, (9, 2))

  def test_sums_of_few_rows(self):
    self.open({"a.csv": folders.lines("x,y", "1,2", "3,4", "4,6")})

  def test_titles_at_one_client_only(self):
    with self.assertRaisesRegex(
        ValueError, "a.csv': line 1, 'Report', looks like a title .*b.csv': line 1, 'x,y', looks "
        "like part of the table; remove the lines above the table where not all files have as "
        "many.$"
    ) as caught:
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


if __name__ == "__main__":
  absltest.main()
