from absl.testing import parameterized
import numpy as np
import pandas as pd
import pyarrow as pa

from dp_clustering import data_frames

_LEVELS = pd.MultiIndex.from_product([["a"], [1, 2]])
_FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})


class _Query:
  """As polars' frames that are not computed."""

  columns = ["a", "b"]


class ColumnNamesTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("frame", _FRAME, ["a", "b"]),
      ("numbered", pd.DataFrame([[1, 2]]), None),
      ("numbered_anew", pd.DataFrame([[1, 2]], columns=[1, 0]), [1, 0]),
      ("part_of_numbered", pd.DataFrame([[1, 2, 3]])[[0, 2]], [0, 2]),
      ("years", pd.DataFrame([[1, 2]], columns=[2019, 2020]), [2019, 2020]),
      ("floats", pd.DataFrame([[1, 2]], columns=[0.5, 1.5]), [0.5, 1.5]),
      ("truth_values", pd.DataFrame([[1, 2]], columns=[False, True]), [False, True]),
      ("times", pd.DataFrame([[1]], columns=[pd.Timestamp(0)]), [pd.Timestamp(0)]),
      ("levels", pd.DataFrame([[1, 2]], columns=_LEVELS), [("a", 1), ("a", 2)]),
      ("mixed", pd.DataFrame([[1, 2]], columns=["a", 1]), ["a", 1]),
      ("arrow", pa.table({"b": [1.0], "a": [2.0]}), ["b", "a"]),
      ("array", np.ones((2, 2)), None),
      ("rows", [[1, 2]], None),
      ("no_columns", pd.DataFrame(), None),
  )
  def test_names(self, table, expected):
    self.assertEqual(data_frames.column_names(table, "`X`"), expected)

  @parameterized.parameters(
      (["a", "b", "a"], "'a'"), ([2019, 2020, np.int64(2019)], "2019"), ([0, 0, 1], "0")
  )
  def test_refuses_names_that_are_there_twice(self, columns, name):
    with self.assertRaisesRegex(ValueError, f"`X`.* {name} "):
      data_frames.column_names(pd.DataFrame([[1, 2, 3]], columns=columns), "`X`")

  def test_what_is_not_computed_is_refused(self):
    with self.assertRaisesRegex(TypeError, "`X`"):
      data_frames.column_names(_Query(), "`X`")


class CheckOrderTest(parameterized.TestCase):

  def test_same_columns(self):
    data_frames.check_order(_FRAME, np.array(["a", "b"], object), "`X`")
    data_frames.check_order(np.ones((2, 2)), None, "`X`")
    for table, fitted, who in ((_FRAME, None, "`X`"), (np.ones((2, 2)), ["b", "c"], "the fit")):
      with self.assertWarnsRegex(UserWarning, f"only {who} has"):
        data_frames.check_order(table, fitted, "`X`")

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
    with self.assertRaisesRegex(ValueError, "`X`"):
      data_frames.check_order(frame, data_frames.name_array(fitted), "`X`")

  @parameterized.parameters(
      (["b", "a"], "'a'.*'b'"), (["a"], r"\['b'\]"), (["a", "b", "c", "d"], r"\['c', 'd'\]"),
      (["a", "c"], r"\['c'\].*\['b'\]"),
  )
  def test_says_which_columns_are_others(self, fitted, which):
    with self.assertRaisesRegex(ValueError, f"`X`.*{which}"):
      data_frames.check_order(_FRAME, fitted, "`X`")
