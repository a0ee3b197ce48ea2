"""Tests for dp_clustering.data_frames."""

import decimal
import warnings

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
from scipy import sparse

from dp_clustering import data_frames

_LEVELS = pd.MultiIndex.from_product([["a"], [1, 2]])
_FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})


class _ArrowStream:
  """What has Arrow's stream, an attribute `columns` and no `__dataframe__`, as polars' frames."""

  columns = ["a", "b"]

  def __arrow_c_stream__(self, requested_schema=None):
    raise NotImplementedError

  def __array__(self, dtype=None):
    return _FRAME.to_numpy(dtype)


class _Interchanged:
  """What has the interchange protocol and no attribute `columns`."""

  def __dataframe__(self):
    return _FRAME.__dataframe__()


class ColumnNamesTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("frame", _FRAME, ["a", "b"]),
      ("arrow_stream", _ArrowStream(), ["a", "b"]),
      ("interchanged", _Interchanged(), ["a", "b"]),
      ("numbered", pd.DataFrame([[1, 2]]), None),
      ("numbered_anew", pd.DataFrame([[1, 2]], columns=[1, 0]), [1, 0]),
      ("part_of_numbered", pd.DataFrame([[1, 2, 3]])[[0, 2]], [0, 2]),
      ("years", pd.DataFrame([[1, 2]], columns=[2019, 2020]), [2019, 2020]),
      ("floats", pd.DataFrame([[1, 2]], columns=[0.0, 1.0]), [0.0, 1.0]),
      ("truth_values", pd.DataFrame([[1, 2]], columns=[False, True]), [False, True]),
      ("times", pd.DataFrame([[1]], columns=[pd.Timestamp(0)]), [pd.Timestamp(0)]),
      ("levels", pd.DataFrame([[1, 2]], columns=_LEVELS), [("a", 1), ("a", 2)]),
      ("mixed", pd.DataFrame([[1, 2]], columns=["a", 1]), ["a", 1]),
      ("array", np.ones((2, 2)), None),
      ("rows", [[1, 2]], None),
      ("no_columns", pd.DataFrame(), None),
  )
  def test_names(self, table, expected):
    self.assertEqual(data_frames.column_names(table, "`X`"), expected)

  @parameterized.named_parameters(
      ("twice", ["a", "b", "a"], "different names, got 'a' twice"),
      ("years_twice", [2019, 2020, np.int64(2019)], "different names, got 2019 twice"),
      ("zeros", [0, 0, 1], "different names, got 0 twice"),
      ("nan", [1.0, np.nan, 2.0], "a name for every column, got nan"),
      ("none", ["a", None, "b"], "a name for every column, got None"),
      ("na", ["a", "b", pd.NA], "a name for every column, got <NA>"),
      ("part", [("a", 1), ("a", np.nan), ("b", 1)], r"a name for every column, got \('a', nan\)"),
      ("no_time", pd.DatetimeIndex([0, 1, None]), "a name for every column, got NaT"),
  )
  def test_refuses(self, columns, message):
    with self.assertRaisesRegex(ValueError, f"`X` must have .*{message}"):
      data_frames.column_names(pd.DataFrame([[1, 2, 3]], columns=columns), "`X`")


class NumbersTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("floats", _FRAME),
      ("arrow_stream", _ArrowStream()),
      ("nullable", _FRAME.astype("Int64")),
      ("objects", _FRAME.astype(object)),
      ("decimals", _FRAME.map(lambda x: decimal.Decimal(int(x)))),
  )
  def test_frames(self, frame):
    found = data_frames.numbers(frame, "`X`")
    self.assertIn(found.dtype.kind, "if")
    np.testing.assert_array_equal(found, [[1, 3], [2, 4]])

  def test_missing_numbers_are_nan(self):
    frame = _FRAME.astype("Int64")
    frame.loc[1, "a"] = pd.NA
    np.testing.assert_array_equal(data_frames.numbers(frame, "`X`"), [[1, 3], [np.nan, 4]])

  def test_truth_values_beside_floats_are_numbers(self):
    frame = _FRAME.assign(b=[True, False])
    np.testing.assert_array_equal(data_frames.numbers(frame, "`X`"), [[1, 1], [2, 0]])

  def test_a_signaling_nan_warns_of_nothing(self):
    narrow = np.array([0x7FA00000, 0], np.uint32).view(np.float32)
    frame = pd.DataFrame({"narrow": narrow, "wide": [1.0, 2.0]})
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      found = data_frames.numbers(frame, "`points`")
    np.testing.assert_array_equal(found, [[np.nan, 1], [0, 2]])

  def test_no_rows(self):
    self.assertEqual(data_frames.numbers(_FRAME.astype("Int64")[:0], "`X`").shape, (0, 2))
    self.assertEqual(data_frames.numbers(pd.DataFrame(), "`X`").shape, (0, 0))

  def test_what_is_no_frame_stays(self):
    rows = [[1, 2]]
    self.assertIs(data_frames.numbers(rows, "`X`"), rows)

  @parameterized.named_parameters(
      ("text", _FRAME.assign(b="1"), "column 'b',` must hold real numbers"),
      ("dates", _FRAME.assign(b=pd.Timestamp(0)), "column 'b',` must hold real numbers"),
      ("sparse", sparse.csr_matrix(np.eye(2)), "must be dense, got a sparse csr_matrix"),
  )
  def test_refuses(self, table, message):
    with self.assertRaisesRegex(TypeError, f"`X.*{message}"):
      data_frames.numbers(table, "`X`")


class CheckOrderTest(parameterized.TestCase):

  def test_same_columns(self):
    data_frames.check_order(_FRAME, np.array(["a", "b"], object), "`X`")
    data_frames.check_order(np.ones((2, 2)), None, "`X`")
    with self.assertWarnsRegex(UserWarning, "only `X` has column names"):
      data_frames.check_order(_FRAME, None, "`X`")
    with self.assertWarnsRegex(UserWarning, "only the fit has column names"):
      data_frames.check_order(np.ones((2, 2)), ["b", "c"], "`X`")

  def test_names_without_order_are_those_of_the_fit(self):
    names = data_frames.name_array(list(_LEVELS))
    self.assertEqual(names.shape, (2,))
    data_frames.check_order(pd.DataFrame([[1, 2]], columns=_LEVELS), names, "`X`")

  @parameterized.named_parameters(
      ("years", [2019, 2020, 2021], [2020, 2021, 2019]),
      ("renumbered", None, [2, 0, 1]),
      ("numbered", [2, 0, 1], [0, 1, 2]),
      ("another_part", None, [0, 1, 3]),
      ("part", [0, 1, 3], [0, 1, 2]),
      ("levels", [("a", 1), ("a", 2), ("b", 1)], [("a", 1), ("b", 1), ("a", 2)]),
      ("text_of_numbers", ["2019", "2020", "2021"], [2019, 2020, 2021]),
      ("numbers_of_text", [2019, 2020, 2021], ["2019", "2020", "2021"]),
  )
  def test_refuses_names_of_any_kind(self, fitted, columns):
    frame = pd.DataFrame([[1, 2, 3]], columns=pd.Index(columns))
    with self.assertRaisesRegex(ValueError, "`X` must have .* of the fit"):
      data_frames.check_order(frame, data_frames.name_array(fitted), "`X`")

  @parameterized.named_parameters(
      ("order", ["b", "a"], "in the order of the fit, got 'a' in the place of 'b'."),
      ("more", ["a"], r"the columns of the fit, but has \['b'\] besides."),
      ("fewer", ["a", "b", "c", "d"], r"the columns of the fit, but lacks \['c', 'd'\]\."),
      ("other", ["a", "c"], r"but lacks \['c'\] and has \['b'\] besides\."),
  )
  def test_refuses(self, fitted, message):
    with self.assertRaisesRegex(ValueError, f"`X` must have .*{message}"):
      data_frames.check_order(_FRAME, fitted, "`X`")


if __name__ == "__main__":
  absltest.main()
