import contextlib
import csv
import dataclasses
import gzip
import io
import os
import pickle
from unittest import mock
import zipfile

from absl.testing import parameterized
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from fl_clustering.tables import bad_table
from fl_clustering.tables import read
from fl_clustering.tables import schema as schema_lib

_FIELDS = (
    schema_lib.Field("x"), schema_lib.Field("n", "integer", minimum=0, maximum=120),
    schema_lib.Field("b", "boolean"), schema_lib.Field("c", "string", enum=("u", "v")),
)
_SCHEMA = schema_lib.Schema(_FIELDS)
_WITH_ROLES = schema_lib.Schema(
    (*_FIELDS, *(schema_lib.Field(name, "string") for name in ("who", "part", "y", "id"))),
    label="y", client="who", split="part", key="id",
)
_LINE = b"1,2,true,u"
_HEADER = b"x,n,b,c"


def _table(path, schema, **options):
  return pd.DataFrame(read.joined(read.blocks(path, schema, **options), schema))


def _by_line():
  """Reads without the shortcut for files without a problem."""
  return mock.patch.object(read, "_is_plain", return_value=False)


class _ReadTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _read(self, data, schema=_SCHEMA, *, name="a.csv", **options):
    path = os.path.join(self.folder, name)
    with open(path, "wb") as file:
      file.write(data)
    return _table(path, schema, **options)

  def _text(self, *lines, header=_HEADER):
    return b"".join(line + b"\n" for line in (header, *lines))


class StrictTest(_ReadTest):

  @parameterized.named_parameters(
      ("plain", b"x,n,b,c\n1.5,2,true,u\n-3e2,120,0,v\n"),
      ("no_last_line_end", b"x,n,b,c\n1.5,2,true,u\n-3e2,120,0,v"),
      ("carriage_returns", b"x,n,b,c\r\n1.5,2,true,u\r\n-3e2,120,0,v\r\n"),
      ("byte_order_mark", b"\xef\xbb\xbfx,n,b,c\n1.5,2,true,u\n-3e2,120,0,v\n"),
      ("quotes", b'"x",n,b,"c"\n"1.5",2,"true","u"\n-3e2,120,0,v\n'),
      ("blanks_and_signs", b"x,n,b,c\n 1.5 ,+2,TRUE,u\n-300.,\t120,False,v\n"),
      ("index_of_pandas", b",x,n,b,c\n0,1.5,2,true,u\n1,-3e2,120,0,v\n"),
      ("index_of_two_columns", b",,x,n,b,c\n0,u,1.5,2,true,u\n0,,-3e2,120,0,v\n"),
      ("other_columns", b"\xc3\xa9,c,b,n,x\n\",\",u,1,2,1.5\n'\",v,0,120,-.3e3\n"),
  )
  def test_reads(self, data):
    table = self._read(data)
    self.assertEqual(list(table), ["x", "n", "b", "c"])
    np.testing.assert_array_equal(table[["x", "n", "b"]], [[1.5, 2, 1], [-300, 120, 0]])
    self.assertEqual(list(table["c"]), ["u", "v"])
    with _by_line():
      pd.testing.assert_frame_equal(self._read(data), table)

  def test_reads_other_dialects(self):
    schema = schema_lib.Schema(_FIELDS, delimiter=";", decimal=",")
    table = self._read(b"x;n;b;c\n1,5;2;1;u\n", schema)
    self.assertEqual(table["x"][0], 1.5)
    with self.assertRaises(bad_table.BadTable) as caught:
      self._read(b"x;n;b;c\n1.5;2;1;u\n", schema)
    self.assertEqual((caught.exception.line, caught.exception.column), (2, "x"))

  def test_decimal_commas_between_commas_are_in_quotes(self):
    schema = schema_lib.Schema(_FIELDS, decimal=",")
    data = b'x,n,b,c\n"1,5",2,1,u\n'
    self.assertEqual(self._read(data, schema)["x"][0], 1.5)
    with _by_line():
      self.assertEqual(self._read(data, schema)["x"][0], 1.5)
    with self.assertRaises(bad_table.BadTable) as caught:
      self._read(data + b"1,5,2,1,u\n", schema)
    self.assertEqual(caught.exception.line, 3)

  def test_reads_compressed_files(self):
    table = self._read(gzip.compress(self._text(_LINE)), name="a.csv.gz")
    self.assertEqual(table["n"][0], 2)

  def test_missing_cells_where_the_schema_allows_them(self):
    schema = schema_lib.Schema(_FIELDS, missing="mean", missing_values=("", "NA"))
    for patch in (mock.MagicMock(), _by_line()):
      with patch:
        table = self._read(self._text(b'NA,,"",NA', b"1,2,0,v"), schema)
      self.assertTrue(np.isnan(table[["x", "n", "b"]].to_numpy()[0].astype(float)).all())
      self.assertEqual(list(table["c"].fillna("missing")), ["missing", "v"])

  @parameterized.parameters(b"-999", b"-999.0", b"-9.99e2", b" -999", b"NA")
  def test_a_missing_number_is_missing_however_it_is_written(self, cell):
    data = self._text(cell + b",2,true,u")
    for missing in ("mean", "error"):
      schema = schema_lib.Schema(_FIELDS, missing=missing, missing_values=("", "NA", "-999"))
      for patch in (contextlib.nullcontext(), _by_line()):
        with patch:
          if missing == "mean":
            self.assertTrue(np.isnan(self._read(data, schema)["x"][0]))
            continue
          with self.assertRaises(bad_table.BadTable) as caught:
            self._read(data, schema)
          self.assertEqual((caught.exception.line, caught.exception.column), (2, "x"))

  # Of the bytes of a file, and where the first problem is.
  @parameterized.named_parameters(
      ("empty", b"", 1, None),
      ("without_rows", _HEADER, None, None),
      ("byte_order_mark_alone", b"\xef\xbb\xbf", 1, None),
      ("header_without_names", b",,\n1,2,3\n", 1, None),
      ("header_without_a_name", b"x,,n,b,c\n1,,2,1,u\n", 1, None),
      ("header_without_the_last_name", b"x,n,b,c,\n1,2,1,u,\n", 1, None),
      ("header_with_a_name_twice", b"x,n,b,c,x\n", 1, "x"),
      ("header_without_a_column", b"x,n,c\n", 1, "b"),
      ("header_in_another_case", b"X,n,b,c\n", 1, "x"),
      ("header_not_utf_8", b"x,n,b,c,\xff\n", 1, None),
      ("header_with_an_open_quote", b'"x,n,b,c\n', 1, None),
      ("mark_for_excel", b"sep=,\nx,n,b,c\n1,2,1,u\n", 1, None),
      ("other_delimiter", b"x;n;b;c\n1;2;1;u\n", 1, "x"),
      ("utf_16", "x,n,b,c\n1,2,1,u\n".encode("utf-16"), 1, None),
      ("long_word", b"x,n,b,c\n" + b"n" * 9000 + b",2,1,u\n", 2, "x"),
      ("word", b"x,n,b,c\n1,2,1,u\nn/a,2,1,u\n", 3, "x"),
      ("empty_cell", b"x,n,b,c\n1,2,1,u\n,2,1,u\n", 3, "x"),
      ("blank_cell", b"x,n,b,c\n ,2,1,u\n", 2, "x"),
      ("nan", b"x,n,b,c\nnan,2,1,u\n", 2, "x"),
      ("infinite", b"x,n,b,c\n1,2,1,u\ninf,2,1,u\n", 3, "x"),
      ("too_large", b"x,n,b,c\n1e999,2,1,u\n", 2, "x"),
      ("hexadecimal", b"x,n,b,c\n0x10,2,1,u\n", 2, "x"),
      ("underscore", b"x,n,b,c\n1_000,2,1,u\n", 2, "x"),
      ("thousands", b'x,n,b,c\n"1,000",2,1,u\n', 2, "x"),
      ("decimal_comma", b'x,n,b,c\n"1,5",2,1,u\n', 2, "x"),
      ("unit", b"x,n,b,c\n5 mg,2,1,u\n", 2, "x"),
      ("arabic_digits", "x,n,b,c\n\u0661,2,1,u\n".encode(), 2, "x"),
      ("minus_sign", "x,n,b,c\n\u22121,2,1,u\n".encode(), 2, "x"),
      ("no_break_space", b"x,n,b,c\n1\xc2\xa0000,2,1,u\n", 2, "x"),
      ("fraction", b"x,n,b,c\n1,2.0,1,u\n", 2, "n"),
      ("exponent", b"x,n,b,c\n1,1e1,1,u\n", 2, "n"),
      ("below_the_minimum", b"x,n,b,c\n1,-1,1,u\n", 2, "n"),
      ("above_the_maximum", b"x,n,b,c\n1,121,1,u\n", 2, "n"),
      ("no_boolean", b"x,n,b,c\n1,2,yes,u\n", 2, "b"),
      ("no_level", b"x,n,b,c\n1,2,1,u\n1,2,1,w\n", 3, "c"),
      ("level_with_a_blank", b"x,n,b,c\n1,2,1,u \n", 2, "c"),
      ("few_cells", b"x,n,b,c\n1,2,1,u\n1,2,1\n", 3, None),
      ("many_cells", b"x,n,b,c\n1,2,1,u\n1,2,1,u,\n", 3, None),
      ("empty_line", b"x,n,b,c\n1,2,1,u\n\n1,2,1,u\n", 3, None),
      ("empty_last_line", b"x,n,b,c\n1,2,1,u\n\n", 3, None),
      ("not_utf_8", b"x,n,b,c,d\n1,2,1,u,caf\xe9\n", 2, None),
      ("nul_byte", b"x,n,b,c,d\n1,2,1,u,\n1,2,1,u,\0\n", 3, None),
      ("open_quote", b'x,n,b,c,d\n1,2,1,u,"a\n1,2,1,u,b"\n', 2, None),
      ("text_after_a_quote", b'x,n,b,c\n1,2,1,"u"v\n', 2, None),
      ("carriage_return_in_a_line", b"x,n,b,c\n1,2,1,u\r1,2,1,u\n", 2, None),
      ("long_cell", b"x,n,b,c,d\n1,2,1,u," + b"9" * 200_000 + b"\n", 2, None),
      ("the_first_of_two", b"x,n,b,c\n1,2,1,u\n1,2,no,u\n?,2,1,u\n", 3, "b"),
      ("the_first_of_a_line", b"x,n,b,c\n?,2,no,u\n", 2, "x"),
      ("a_cell_before_a_line", b"x,n,b,c\n1,2,no,u\n1,2\n", 2, "b"),
  )
  def test_refuses(self, data, line, column):
    with self.assertRaises(bad_table.BadTable) as caught:
      self._read(data)
    self.assertEqual((caught.exception.line, caught.exception.column), (line, column))
    self.assertNotIn("\n", str(caught.exception))
    self.assertLess(len(str(caught.exception).removeprefix(caught.exception.path)), 300)

  @parameterized.parameters(
      (b"east,train,ill,1", None), (b",train,ill,1", "who"), (b"east,,ill,1", "part"),
      (b"east,training,ill,1", "part"), (b"east,train,,1", "y"), (b"east,train,ill,", "id"),
      (b"east,train,ill,0", "id"),
  )
  def test_roles_are_never_missing_and_keys_are_unique(self, cells, column):
    header = _HEADER + b",who,part,y,id"
    data = self._text(_LINE + b",east,test,well,0", _LINE + b"," + cells, header=header)
    if column is None:
      self.assertEqual(list(self._read(data, _WITH_ROLES)["y"]), ["well", "ill"])
      return
    with self.assertRaises(bad_table.BadTable) as caught:
      self._read(data, _WITH_ROLES)
    self.assertEqual((caught.exception.line, caught.exception.column), (3, column))

  def test_a_damaged_file(self):
    data = gzip.compress(self._text(*[_LINE] * 100))
    for damaged in (data[:-9], data[:20] + b"\xff" * 20, b"x"):
      with self.assertRaises(bad_table.BadTable) as caught:
        self._read(damaged, name="a.csv.gz")
      self.assertIsNone(caught.exception.line)

  def test_says_why(self):
    schema = schema_lib.Schema(_FIELDS, delimiter=";", decimal=",")
    for cell, is_of_size in (("7.9", False), ("nan", False), ("1e999", True)):
      with self.assertRaises(read.bad_table.BadTable) as caught:
        self._read(f"x;n;b;c\n{cell};2;1;u\n".encode(), schema)
      self.assertEqual("between" in str(caught.exception), is_of_size, cell)

  def test_wide_lines_are_read_at_once(self):
    names = [f"gene_{place}" for place in range(12_000)]
    line = b",".join(b"-0.123456789" for _ in names)
    self.assertGreater(len(line), csv.field_size_limit())
    schema = schema_lib.strict(names)
    by_line = mock.patch.object(read._Reader, "_by_line", side_effect=AssertionError)
    for one in (line, b'"-0.123456789"' + line[12:]):
      with by_line:
        table = self._read(self._text(*[one] * 50, header=",".join(names).encode()), schema)
      np.testing.assert_array_equal(table, np.full((50, 12_000), -0.123456789))

  def test_the_line_is_right_beyond_a_block(self):
    with mock.patch.object(read, "_BLOCK", 30), self.assertRaises(bad_table.BadTable) as caught:
      self._read(self._text(*[_LINE] * 7, b"1,2,1,w"))
    self.assertEqual(caught.exception.line, 9)


class ParquetTest(_ReadTest):

  def _parquet(self, frame, schema=_SCHEMA, **options):
    path = os.path.join(self.folder, "a.parquet")
    frame.to_parquet(path)
    return _table(path, schema, **options)

  @parameterized.parameters(np.float32, np.int8, str, object)
  def test_reads_cells_of_any_type_that_mean_the_same(self, dtype):
    frame = pd.DataFrame({
        "c": ["u", "v"], "b": [True, False], "n": np.array([2, 120]).astype(dtype),
        "x": np.array([1, -3]).astype(dtype), "other": [b"\xff", None],
    })
    table = self._parquet(frame)
    np.testing.assert_array_equal(table[["x", "n", "b"]], [[1, 2, 1], [-3, 120, 0]])

  @parameterized.parameters(
      ({"x": [1.0, None]}, 2, "x"), ({"x": [np.inf, 1]}, 1, "x"), ({"n": [2, 121]}, 2, "n"),
      ({"n": [2, 2.5]}, 2, "n"), ({"b": ["yes", "1"]}, 1, "b"), ({"c": ["u", None]}, 2, "c"),
      ({"x": ["1", "tall"]}, 2, "x"),
  )
  def test_refuses(self, columns, row, column):
    good = {"x": [1.0, 2.0], "n": [1, 2], "b": [True, False], "c": ["u", "v"]}
    with self.assertRaises(bad_table.BadTable) as caught:
      self._parquet(pd.DataFrame({**good, **columns}))
    self.assertEqual((caught.exception.line, caught.exception.column), (row, column))

  @parameterized.parameters(
      (["1", "NA", ""],), ([1.0, -999.0, None],), ([1, -999, -999],), ([1.0, -999.0, np.nan],),
      ([1.0, np.inf, -np.inf],),
  )
  def test_missing_values_are_those_of_text_files(self, cells):
    schema = schema_lib.Schema(
        _FIELDS[:1], missing="mean", missing_values=("", "NA", "-999", "-999.0", "inf", "-inf")
    )
    frame = pd.DataFrame({"x": cells})
    expected = [1, np.nan, np.nan]
    np.testing.assert_array_equal(self._parquet(frame, schema)["x"], expected)
    np.testing.assert_array_equal(read.from_frame(frame, schema)["x"], expected)
    strict = schema_lib.Schema(_FIELDS[:1], missing_values=schema.missing_values)
    with self.assertRaises(bad_table.BadTable) as caught:
      self._parquet(frame, strict)
    self.assertEqual((caught.exception.line, caught.exception.column), (2, "x"))

  def test_the_index_of_a_frame_is_no_column(self):
    path = os.path.join(self.folder, "a.parquet")
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    frame[frame["x"] > 1].to_parquet(path)
    self.assertEqual(read.header(path), ("x",))
    self.assertEqual(read.texts(path, ",", ("x",))["x"].tolist(), ["2", "3"])
    frame.set_index(pd.Index([7, 9, 8], name="id")).to_parquet(path)
    self.assertEqual(read.header(path), ("x",))
    with self.assertRaises(bad_table.BadTable) as caught:
      _table(path, schema_lib.strict(("x", "id"), key="id"))
    self.assertEqual((caught.exception.line, caught.exception.column), (None, "id"))
    path = os.path.join(self.folder, "a.csv")
    frame.to_csv(path)
    self.assertEqual(read.header(path), ("x",))

  def test_names_of_columns_are_in_no_row(self):
    path = os.path.join(self.folder, "a.parquet")
    column = pa.array([1.0])
    for names, column_name in ((("x", "x"), "x"), (("", ""), None)):
      parquet.write_table(pa.Table.from_arrays([column, column], names), path)
      with self.assertRaises(bad_table.BadTable) as caught:
        read.header(path)
      self.assertEqual((caught.exception.line, caught.exception.column), (None, column_name))

  def test_an_empty_text_names_no_client(self):
    frame = pd.DataFrame({"x": [1.0, 2.0], "who": ["a", ""]})
    with self.assertRaises(bad_table.BadTable) as caught:
      self._parquet(frame, schema_lib.strict(("x", "who"), client="who"))
    self.assertEqual((caught.exception.line, caught.exception.column), (2, "who"))

  @parameterized.parameters([["a", 1]], [[0, 1]], [[("x", 1), None]])
  def test_names_the_column_that_a_frame_lacks_whatever_its_own_are(self, names):
    with self.assertRaises(bad_table.BadTable) as caught:
      read.from_frame(pd.DataFrame(np.zeros((1, 2)), columns=names), schema_lib.strict(("x",)))
    self.assertEqual(caught.exception.column, "x")

  # Text that is typed otherwise.
  @parameterized.named_parameters(
      ("dictionary", lambda texts: pa.array(texts).dictionary_encode()),
      ("large_string", lambda texts: pa.array(texts, pa.large_string())),
  )
  def test_text_of_other_types(self, typed):
    path = os.path.join(self.folder, "a.parquet")
    numbers, texts = ["1.5", "-02"], ["abc", "d\u00e9"]
    parquet.write_table(pa.table({"x": typed(numbers), "k": typed(texts)}), path)
    schema = schema_lib.strict(("x", "k"), label="k")
    arrow = parquet.read_table(path)
    frames = (arrow, arrow.to_pandas())  # Any library's, and that of pandas.
    for table in (_table(path, schema), *(read.from_frame(one, schema) for one in frames)):
      table = pd.DataFrame(table)
      self.assertEqual(table.to_numpy().tolist(), [[1.5, "abc"], [-2.0, "d\u00e9"]])
    self.assertEqual(read.texts(path, ",", ("k",))["k"].tolist(), texts)

  def test_a_frame_in_parts(self):
    parts = [pa.table({"x": cells}) for cells in (["1", "2"], ["3", "tall"])]
    frame, wrong = pa.concat_tables([parts[0], parts[0]]), pa.concat_tables(parts)
    schema = schema_lib.strict(("x",))
    self.assertEqual(read.from_frame(frame, schema)["x"].tolist(), [1, 2, 1, 2])
    with self.assertRaises(bad_table.BadTable) as caught:
      read.from_frame(wrong, schema)
    self.assertEqual((caught.exception.line, caught.exception.column), (4, "x"))

  # Cells that only Python would write as texts.
  @parameterized.named_parameters(
      ("bytes", pa.array([b"u", b"v"])), ("list", pa.array([[1], [2]])),
      ("struct", pa.array([{"a": 1}, {"a": 2}])),
      ("duration", pa.array([1, 2], pa.duration("s"))),
      ("period", pa.array(pd.period_range("2020", periods=2, freq="M").array)),
      ("interval", pa.array(pd.interval_range(0, 2).array)),
  )
  def test_refuses_types_without_a_text(self, column):
    path, numbers = os.path.join(self.folder, "a.parquet"), pa.array([1.0, 2.0])
    parquet.write_table(pa.table({"x": numbers, "k": column}), path)
    frame = pd.DataFrame({"x": numbers.to_pandas(), "k": column.to_pandas()})
    number, text = (
        schema_lib.Schema((schema_lib.Field("x"), schema_lib.Field("k", kind)), label=label)
        for kind, label in (("number", None), ("string", "k"))
    )
    for read_it in (
        lambda: _table(path, number), lambda: _table(path, text),
        lambda: read.from_frame(frame, number), lambda: read.from_frame(frame, text),
        lambda: _table(path, text, private=True), lambda: read.texts(path, ",", ("x", "k")),
    ):
      with self.assertRaises(bad_table.BadTable) as caught:
        read_it()
      self.assertEqual((caught.exception.line, caught.exception.column), (None, "k"))
      self.assertNotIn("\n", str(caught.exception))
    self.assertEqual(_table(path, schema_lib.strict(("x",)))["x"].tolist(), [1, 2])
    self.assertEqual(read.texts(path, ",", ("x",))["x"].tolist(), ["1", "2"])

  @parameterized.parameters([[[1.0, 2.0]]], [{"x": [1.0]}], [pd.Series([1.0], name="x")])
  def test_refuses_what_is_no_frame(self, rows):
    with self.assertRaisesRegex(TypeError, "frame"):
      read.from_frame(rows, schema_lib.strict(("x",)))

  @parameterized.parameters([[1, "tall"]], [["tall", 1]])
  def test_refuses_a_frame_with_cells_of_several_types(self, cells):
    with self.assertRaisesRegex(bad_table.BadTable, "several types"):
      read.from_frame(pd.DataFrame({"x": cells}), schema_lib.strict(("x",)))

  def test_a_damaged_file(self):
    path = os.path.join(self.folder, "a.parquet")
    pd.DataFrame({"x": ["long text"] * 9, "y": np.arange(9)}).to_parquet(path, compression="gzip")
    with open(path, "r+b") as file:
      file.seek(10)
      file.write(b"\xff" * 60)
    schema = schema_lib.strict(("x",))
    for read_it in (lambda: _table(path, schema), lambda: read.texts(path, ",", ("x",))):
      with self.assertRaises(bad_table.BadTable) as caught:
        read_it()
      self.assertIsNone(caught.exception.line)

  def test_refuses_what_is_no_parquet_file(self):
    with self.assertRaises(bad_table.BadTable) as caught:
      self._read(b"PAR1", name="a.parquet")
    self.assertIsNone(caught.exception.line)


class NpzTest(_ReadTest):

  def _npz(self, schema=None, *, compressed=False, private=False, **arrays):
    path = os.path.join(self.folder, "a.npz")
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    names = read.header(path)
    if schema is None:
      schema = schema_lib.strict(names, label="y" if "y" in names else None)
    return _table(path, schema, private=private)

  @parameterized.product(
      dtype=("float16", "float32", "float64", ">f4", "int8", "uint8", "uint64", ">i4", "bool"),
      labels=([3, 1, 10], [2.0, 1.0, 0.5]), compressed=(False, True),
  )
  def test_reads_what_a_parquet_file_with_these_columns_holds(self, dtype, labels, compressed):
    x = np.array([[0, 1], [3, 0], [5, 100]]).astype(dtype)
    found = self._npz(x=x, y=np.array(labels), compressed=compressed)
    path = os.path.join(self.folder, "a.parquet")
    frame = pd.DataFrame(x.astype(float), columns=["x0", "x1"]).assign(y=labels)
    frame.to_parquet(path)
    expected = _table(path, schema_lib.strict(("x0", "x1", "y"), label="y"))
    pd.testing.assert_frame_equal(found, expected)
    of_both = [read.texts(f"{self.folder}/{name}", ",", ("y",)) for name in ("a.npz", "a.parquet")]
    pd.testing.assert_frame_equal(*of_both)

  def test_pixels_are_columns_row_by_row(self):
    x = np.arange(2 * 3 * 4 * 2).reshape(2, 3, 4, 2)
    table = self._npz(x=x)
    np.testing.assert_array_equal(table, x.reshape(2, 24))
    self.assertEqual(list(table)[:3], ["x0_0_0", "x0_0_1", "x0_1_0"])
    schema = schema_lib.strict(tuple(table))
    self.assertEqual(schema.feature_shape, (3, 4, 2))
    np.testing.assert_array_equal(self._npz(schema, x=x[:1]), x[:1].reshape(1, 24))
    grey = self._npz(x=x[..., 0])
    pd.testing.assert_frame_equal(self._npz(x=x[..., :1]), grey)
    self.assertEqual(schema_lib.strict(tuple(grey)).feature_shape, (3, 4, 1))
    self.assertEqual(schema_lib.strict(tuple(grey)[1:]).feature_shape, (11,))

  @parameterized.parameters((3,), (3, 4), (4, 3, 2), (2, 12), (3, 5, 2), (3, 4, 3), (25,), (24,))
  def test_refuses_examples_of_another_shape(self, *shape):
    for own in ((3, 4, 2), (24,)):
      self._npz(x=np.ones((1, *own)))
      schema = schema_lib.strict(read.header(os.path.join(self.folder, "a.npz")))
      if shape != own:
        with self.assertRaisesRegex(bad_table.BadTable, "a.npz"):
          self._npz(schema, x=np.ones((1, *shape)), y=[1])

  def test_reads_the_columns_that_a_schema_names(self):
    schema = schema_lib.Schema(
        (schema_lib.Field("x2", "integer", maximum=9), schema_lib.Field("x0", "boolean")),
        missing="mean",
    )
    x = [[1, 2, 3], [0, 5, np.nan]]
    np.testing.assert_array_equal(self._npz(schema, x=x, y=[1, 2]), [[3, 1], [np.nan, 0]])

  @parameterized.parameters(
      ({"x": [[1, 2], [np.nan, 3]]}, 2, "x0"), ({"x": [[1, np.inf]]}, 1, "x1"),
      ({"x": np.array([[np.nan]], np.float16)}, 1, "x0"), ({"y": [1, np.nan]}, 2, "y"),
      ({"y": ["a", "b"]}, None, None),
      ({"x": [[1j]]}, None, None), ({"x": np.ones((2, 1), np.longdouble)}, None, None),
      ({"x": [["1"]]}, None, None), ({"x": [[None], [1]]}, None, None),
      ({"x": np.ones((2, 1), "M8[s]")}, None, None), ({"x": np.ones(2, "i4,i4")}, None, None),
      ({"x": [1, 2]}, None, None), ({"x": 1}, None, None), ({"x": np.ones((2, 0))}, None, None),
      ({"x": np.ones((0, 2))}, None, None), ({"x": np.ones((2, 3, 0))}, None, None),
      ({"x": np.ones((2, 1, 1, 1, 1))}, None, None),
      ({"x": None}, None, None), ({"z": [1, 2]}, None, None), ({"y": [1]}, None, None),
      ({"y": [[1], [2]]}, None, None), ({"y": 1}, None, None), ({"y": [1j, 2]}, None, None),
      ({"y": [b"a", b"b"]}, None, None), ({"y": [None, "a"]}, None, None),
  )
  def test_refuses(self, arrays, row, column):
    arrays = {"x": np.ones((2, 1)), **arrays}
    num_rows = len(arrays["x"]) if np.ndim(arrays["x"]) else 2
    arrays = {"y": np.arange(num_rows), **arrays}
    if arrays["x"] is None:
      del arrays["x"]
    with self.assertRaises(bad_table.BadTable) as caught:
      self._npz(**arrays)
    self.assertEqual((caught.exception.line, caught.exception.column), (row, column))
    self.assertNotIn("\n", str(caught.exception))
    self.assertLess(len(str(caught.exception).removeprefix(caught.exception.path)), 300)

  def test_refuses_what_is_no_such_file(self):
    path = os.path.join(self.folder, "a.npz")
    np.savez(path, x=np.ones((50, 2)))
    with open(path, "rb") as file:
      data = file.read()
    array, archive = io.BytesIO(), io.BytesIO()
    np.save(array, np.ones((2, 1)))
    with zipfile.ZipFile(archive, "w") as file:
      file.writestr("x.npy", b"1 2")
    others = (b"", b"PK", data[:-9], data[:300] + data[600:], data[:10] + b"\xff" * 99 + data[109:],
              array.getvalue(), pickle.dumps([[1]]), archive.getvalue())
    for other in others:
      for read_it in (lambda: read.header(path), lambda: read.texts(path, ",", ("x0",))):
        with open(path, "wb") as file:
          file.write(other)
        with self.assertRaises(bad_table.BadTable) as caught:
          read_it()
        self.assertIsNone(caught.exception.line)
        self.assertNotIn("\n", str(caught.exception))

  def test_a_message_lists_the_first_of_many_columns(self):
    schema = schema_lib.strict((*(f"x{i}" for i in range(5000)), "y"), label="y")
    with self.assertRaises(bad_table.BadTable) as caught:
      self._npz(schema, x=np.ones((1, 5000)))
    self.assertEqual(caught.exception.column, "y")
    self.assertLess(len(str(caught.exception).removeprefix(caught.exception.path)), 300)

  @parameterized.product(
      number=(np.nan, np.inf, -1e300, 7, 2.5), label=(np.nan, 2, 3, 1e99),
      dtype=("float64", "float16"),
  )
  def test_no_private_row_changes_another_one(self, number, label, dtype):
    schema = schema_lib.Schema(
        (schema_lib.Field("x0", minimum=0, maximum=4), schema_lib.Field("x1", "integer"),
         schema_lib.Field("y", "string", enum=("1", "2"))), label="y",
    )
    with np.errstate(over="ignore"):
      x = np.array([[1, 2], [number, number], [3, 4]]).astype(dtype)
    table = self._npz(schema, x=x, y=[1, label, 2], private=True)
    self.assertEqual(table.iloc[[0, 2]].to_numpy().tolist(), [[1, 2, "1"], [3, 4, "2"]])


# Rows that are odd, each on its own; of several lines if a quoted cell goes on.
_ODD = (
    b"", b",", b",,,", b"1,2,3,4,5", b'"', b'1,"2,true,u', b'"1,2\n3",4', b'1,2,true,u"', b'""',
    b"nan,2,true,u", b"1e999,2,true,u", b"-1e999,2,true,u", b"tall,2,true,u", b"1,2.5,true,u",
    b"1,121,true,u", b"1,-1,true,u", b"1,2,yes,u", b"1,2,true,w", b"1,2,true,", b"1,2,true,\xff",
    b"1,2,true,\0", b"\0", b"1;2;true;u", b"1\t2\ttrue\tu", b"9" * 5000 + b",2,true,u",
    b"9" * 200_000 + b",2,true,u", b"1,2,true,u\r", b"1\r2", b"x,n,b,c", b"# a note", b"Total,,,",
    "\u2603,2,true,u".encode(), b"\xef\xbb\xbf1,2,true,u", b" 1 ,2,true,u", b"1,2,1,v",
    b'"1","2","true","u"', b"1_0,2,true,u", b"0x1,2,true,u", b"+1,+2,true,u", b"1,2,true,u,",
    b'1,2,true,"u\n3,4,0,v"', b'"\r\n",2,true,u\r',
    b"1,0x10,true,u", b"1,2,true,u\r3,4,0,v", b"\r\r", b"1,2,true,u\r\r",
)


class PrivateTest(_ReadTest):

  _ROWS = (b"1,2,true,u", b"3,4,0,v", b"5,6,1,u")

  @parameterized.parameters(*((row, place) for row in _ODD for place in (0, 3)))
  def test_no_row_changes_how_another_one_is_read(self, odd, place):
    expected = self._read(self._text(*self._ROWS), private=True)
    lines = [*self._ROWS]
    lines.insert(place, odd)
    table = self._read(self._text(*lines), private=True)
    self.assertLen(table, 4)
    pd.testing.assert_frame_equal(table.drop(place).reset_index(drop=True), expected)

  @parameterized.product(end=("\n", "\r\n"), block=(1, 2**20), seed=(1, 2, 3))
  def test_a_record_is_a_row_whatever_is_in_its_cells(self, end, block, seed):
    rng = np.random.default_rng(seed)
    parts = ('"', '""', ",", "\n", "\r\n", "\r", "u", "1,2,true,u\n", "\0", "\udcff", "\u2028",
             "9" * 200_000)
    # Lines that no CSV writer writes, but that leave no quoted cell open.
    lines = [line + b"\n" for line in _ODD if line.count(b'"') % 2 == 0 or line.endswith(b'u"')]

    def record():
      if rng.random() < 0.2:
        return lines[rng.integers(len(lines))]
      cells = [f"{rng.integers(9)}", "2", "true", "u", *rng.choice(parts, rng.integers(4))]
      note = "".join(rng.choice(parts[:-1], rng.integers(9)))
      row, text = [*cells[:4], note] if rng.random() < 0.7 else cells, io.StringIO()
      csv.writer(text, lineterminator=end).writerow(row)
      return text.getvalue().encode(errors="surrogateescape")

    records, header = [record() for _ in range(12)], b"x,n,b,c,note\n"
    with mock.patch.object(read, "_BLOCK", block):
      expected = self._read(header + b"".join(records), private=True)
      self.assertLen(expected, 12)
      for place, one in enumerate(records):
        table = self._read(
            header + b"".join([*records[:place], *records[place + 1 :]]), private=True
        )
        others = expected.drop(place).reset_index(drop=True)
        pd.testing.assert_frame_equal(table, others, obj=f"{one}")

  def test_a_record_of_several_lines_has_its_cells(self):
    data = self._text(b'1,"2",true,u,"a\r\n""b"",\n3,4,0,v"', _LINE + b",", header=_HEADER + b",d")
    for patch in (mock.patch.object(read, "_BLOCK", 1), contextlib.nullcontext()):
      with patch:
        table = self._read(data, private=True)
      self.assertEqual(table.to_numpy().tolist(), [[1, 2, 1, "u"]] * 2)

  @parameterized.product(place=(0, 1, 5), stray=(b'1,2,true,u,"a', b'"', b'1,"2,true,u,'))
  def test_a_quote_that_never_closes_ends_with_its_line(self, place, stray):
    lines = [_LINE + b",ok", _LINE + b',"a,b"', b'1,2,true,"u",""', _LINE + b',"a\nb"',
             _LINE + b',"""a"" b"']
    self.assertLen(lines, 5)
    expected = self._read(self._text(*lines, header=_HEADER + b",d"), private=True)
    self.assertEqual(list(expected["c"]), ["u"] * 5)
    lines.insert(place, stray)
    for patch in (mock.patch.object(read, "_BLOCK", 1), contextlib.nullcontext()):
      with patch:
        table = self._read(self._text(*lines, header=_HEADER + b",d"), private=True)
      self.assertTrue(table.loc[place].isna().all())
      pd.testing.assert_frame_equal(table.drop(place).reset_index(drop=True), expected)

  def test_counts_for_the_owner(self):
    data = self._text(_LINE, b'"1\n2",2,true,u', b"1,2", b"tall,121,,u", b"", header=_HEADER)
    counts = read.Counts()
    self._read(data, private=True, counts=counts)
    self.assertEqual(counts, read.Counts(5, 2, 3))

  @parameterized.product(
      cell=(b"inf", b"nan", b"1e999", b"0x10", b" 5 ", b"+5", b"1_0", b"5.", b"7.5", b""),
      other=(b"tall", b"inf", b"1e999", b"0x1"),
  )
  def test_no_cell_changes_another_one_of_its_column(self, cell, other):
    alone, beside = (
        self._read(self._text(*(one + b"," + one + b",1,u" for one in cells)), private=True)
        for cells in ((cell,), (cell, other))
    )
    pd.testing.assert_frame_equal(beside[:1], alone)

  def test_a_file_without_rows(self):
    table = self._read(_HEADER, private=True)
    self.assertEqual(table.shape, (0, 4))
    self.assertEqual(table["x"].dtype, np.float64)

  def test_an_empty_line_is_no_empty_cell(self):
    schema = schema_lib.Schema(_FIELDS[:1], missing="mean")
    self.assertLen(self._read(b'x\n1\n""\n', schema), 2)
    for lines in (b"1\n\n", b"\r\n1\n"):
      with self.assertRaises(bad_table.BadTable):
        self._read(b"x\n" + lines, schema)
      self.assertLen(self._read(b"x\n" + lines, schema, private=True), 2)

  def test_what_cant_be_read_is_missing(self):
    table = self._read(self._text(b"tall,121,yes,w", b"1,2", b"1e999,-5,1,u"), private=True)
    np.testing.assert_array_equal(
        table[["x", "n", "b"]],
        [[np.nan, 120, np.nan], [np.nan] * 3, [schema_lib.LARGEST, 0, 1]],
    )
    self.assertEqual(list(table["c"].fillna("missing")), ["missing", "missing", "u"])

  @parameterized.parameters(
      (["1", "tall", None],), ([1.0, 2.5, np.inf],), ([1.0, np.nan, None],), (["1", "", "\0"],)
  )
  def test_no_row_of_a_parquet_file_changes_another_one(self, cells):
    path = os.path.join(self.folder, "a.parquet")
    frame = pd.DataFrame({"x": cells, "n": cells, "b": cells, "c": ["u"] * 3})
    frame.to_parquet(path)
    table = _table(path, _SCHEMA, private=True)
    self.assertEqual(list(table.iloc[0]), [1, 1, 1, "u"])
    frame.assign(x=[1.0, np.inf, 1e300], n=1, b=True).to_parquet(path)
    table = _table(path, _SCHEMA, private=True)  # As of texts.
    np.testing.assert_array_equal(table["x"], [1, np.nan, schema_lib.LARGEST])

  @parameterized.parameters(
      (pa.array([b"u", b"\xff"], pa.binary()).view(pa.string()),),
      (pa.array([0, 2**60], pa.int64()).view(pa.timestamp("us")),),
      (pa.array([None, 0], pa.timestamp("us", "No/Where")),),
  )
  def test_no_cell_that_python_cant_hold_changes_another_one(self, column):
    path = os.path.join(self.folder, "a.parquet")
    parquet.write_table(pa.table({"x": [1.0, 2.0], "k": column}), path)
    schema = schema_lib.Schema(
        (schema_lib.Field("x"), schema_lib.Field("k", "string")), label="k"
    )
    table = _table(path, schema, private=True)
    self.assertEqual(list(table["x"]), [1, 2])
    self.assertEqual(list(table["k"].isna()), [not column[0].is_valid, True])
    with self.assertRaises(bad_table.BadTable) as caught:
      _table(path, dataclasses.replace(schema, is_later=True))
    self.assertEqual((caught.exception.line, caught.exception.column), (2, "k"))
    with self.assertRaises(bad_table.BadTable):
      read.texts(path, ",", ("k",))


class ShortcutTest(_ReadTest):
  """What is read at once is what is read by line."""

  @parameterized.product(
      odd=(*_ODD, _LINE), missing=("error", "mean"), private=(False, True), ends=(False, True)
  )
  def test_reads_the_same(self, odd, missing, private, ends):
    data = self._text(_LINE, b"-.5e3,0,0,v", odd, b'"7",120,"1",u', b" 2,3 ,FALSE,v\r")
    data = data if ends else data[:-1]
    schema = schema_lib.Schema(_FIELDS, missing=missing)

    def outcome():
      try:
        return self._read(data, schema, private=private)
      except bad_table.BadTable as e:
        return e.line, e.column

    found = outcome()
    with _by_line():
      expected = outcome()
    if isinstance(expected, tuple):
      self.assertEqual(found, expected)
    else:
      pd.testing.assert_frame_equal(found, expected)
