"""Tests of how tables are read for private algorithms."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
import pyarrow as pa

from tests.tables import table_folders as folders


class PrivateTest(folders.TablesTestCase):
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
    tables = self.open({"a.csv": folders.lines("x,y", *rows)}, **self._NAMED)
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
          {"a.csv": folders.lines("x;y;z", *lines)}, allow_any_number=True, header=header,
          decimal=",",
      )
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
    tables = self.open({"a.csv": folders.lines("x", "9" * 130_000 + "x")}, **self._NAMED)
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
       {"a.zip": folders.zipped(b="x,y\n" + "1,secret\n" * 99).replace(b"x,y\n1,s", b"u,y\n2,s")},
       _NAMED,
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


if __name__ == "__main__":
  absltest.main()
