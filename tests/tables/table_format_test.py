"""Tests for fl_clustering.tables.table_format: what a model remembers of tables."""

import json

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering.tables import columns
from fl_clustering.tables import table_format
from fl_clustering.tables import table_options


def _format(**options):
  """Returns the format of two columns of numbers, one of levels, ids and labels."""
  options = table_options.TableOptions(
      categories=("c",), id_column="key", label_column="y", **options
  )
  fills = options.missing != table_options.ERROR
  features = ("x", "c", "z")
  return table_format.TableFormat(
      options,
      columns.Columns(features, ("c",), options.roles),
      table_format.FeatureEncoding(
          features, {"c": ("1", "red")},
          means=np.array([1 / 3, 0.25, 0.75, 9.0]) if fills else None,
          indicators=("c", "z") if fills else (),
      ),
      ("no", "yes"),
      ",",
  )


class JsonTest(parameterized.TestCase):

  @parameterized.parameters(
      {},
      {"skip_lines": 2, "comment": "#", "encoding": "latin-1", "thousands": "'",
       "strip_units": True},
      {"missing": "indicator", "separator": ";", "decimal": ",", "header": "yes",
       "exclude": ("a", "b"), "client_column": "who", "split_column": "part"},
      {"columns": ("x", "c", "z"), "missing": "mean"},
      {"allow_any_number": True},
  )
  def test_comes_back_the_same(self, **options):
    format_ = _format(**options)
    again = table_format.TableFormat.from_json(json.loads(json.dumps(format_.to_json())))
    self.assertEqual(again.options, format_.options)
    self.assertEqual(again.columns, format_.columns)
    self.assertEqual(again.classes, format_.classes)
    self.assertEqual(again.decimal, ",")
    encoding = again.encoding
    for name in ("columns", "levels", "indicators", "feature_names"):
      self.assertEqual(getattr(encoding, name), getattr(format_.encoding, name), name)
    if format_.encoding.means is None:
      self.assertIsNone(encoding.means)
    else:
      np.testing.assert_array_equal(encoding.means, format_.encoding.means)

  def test_only_what_is_not_a_default_is_written(self):
    options = _format(missing="mean").to_json()["options"]
    self.assertEqual(
        options, {"missing": "mean", "categories": ["c"], "id_column": "key", "label_column": "y"}
    )

  def test_without_classes(self):
    options = table_options.TableOptions()
    format_ = table_format.TableFormat(
        options, columns.Columns(("x",), (), {}), table_format.FeatureEncoding(("x",), {})
    )
    again = table_format.TableFormat.from_json(json.loads(json.dumps(format_.to_json())))
    self.assertIsNone(again.classes)
    self.assertEqual(again.columns, format_.columns)


  def test_levels_told(self):
    format_ = _format()
    self.assertEqual(format_.levels_told, "c (1, red)")
    views = table_format.ViewFormat({"one": format_, "two": format_})
    self.assertEqual(views.levels_told, "view one: c (1, red); view two: c (1, red)")


class LevelOfTest(parameterized.TestCase):

  @parameterized.parameters(
      ("01", "1"), ("1.0", "1"), ("0.7", "0.7"), ("0.70", "0.7"), ("1e-1", "0.1"),
      ("-2.50", "-2.5"), ("1e16", "10000000000000000"), ("12345678901234568", "12345678901234568"),
      ("1e300", "1e+300"), ("True", "true"), ("1,5", "1,5"), ("x", "x"),
  )
  def test_level_of(self, text, level):
    self.assertEqual(table_format.level_of(text), level)
    self.assertEqual(table_format.level_of(level), level)


class WithoutRolesTest(absltest.TestCase):

  def test_what_belongs_to_the_role_goes_too(self):
    format_ = _format().without_roles({"label_column"})
    self.assertEqual(format_.columns.roles, {"id_column": "key"})
    self.assertEqual(format_.options.roles, {"id_column": "key"})


class FeaturesTest(parameterized.TestCase):

  def test_columns_in_any_order_and_others_left_alone(self):
    frame = pd.DataFrame({"z": [5, 6], "name": ["a", "b"], "c": ["red", 1.0], "x": [1.5, 2]})
    np.testing.assert_array_equal(
        _format().features(frame), [[1.5, 0, 1, 5], [2, 1, 0, 6]]
    )

  def test_numbers_as_text(self):
    frame = pd.DataFrame({"x": ["1"], "c": ["01"], "z": ["2.5"]})
    np.testing.assert_array_equal(_format().features(frame), [[1, 1, 0, 2.5]])

  def test_missing_cells(self):
    frame = pd.DataFrame({"x": [1, np.nan], "c": [None, "red"], "z": [np.nan, 2]})
    np.testing.assert_array_equal(
        _format(missing="indicator").features(frame),
        [[1, 0.25, 0.75, 9, 1, 1], [1 / 3, 0, 1, 2, 0, 0]],
    )
    np.testing.assert_array_equal(
        _format(allow_any_number=True).features(frame),
        [[1, np.nan, np.nan, np.nan], [np.nan, 0, 1, 2]],
    )

  @parameterized.named_parameters(
      ("a missing column", {"z": None},
       "`frame` must have the column 'z' once, got ['x', 'c']."),
      ("text", {"x": ["1", "much"]}, "`frame` must hold numbers in column 'x': "),
      ("a level", {"c": ["red", "blue"]},
       "`frame` must be like the tables of the fit: row 2, column 'c' must be one of 1, red, got"),
      ("a missing number", {"x": [1.0, np.nan]},
       "`frame` must hold finite numbers, got nan in row 2, column 'x'."),
      ("a missing level", {"c": [None, "red"]}, "got nan in row 1, column 'c=1'."),
      ("infinity", {"z": [1.0, -np.inf]}, "got -inf in row 2, column 'z'."),
  )
  def test_refuses(self, other, message):
    columns_ = {"x": [1.0, 2.0], "c": ["red", "1"], "z": [3, 4], **other}
    frame = pd.DataFrame({name: c for name, c in columns_.items() if c is not None})
    with self.assertRaises(ValueError) as caught:
      _format().features(frame)
    self.assertIn(message, str(caught.exception))

  @parameterized.named_parameters(("number", 2019), ("the same", "2019"))
  def test_names_are_compared_as_text(self, other):
    format_ = table_format.TableFormat(
        table_options.TableOptions(), columns.Columns(("2019",), (), {}),
        table_format.FeatureEncoding(("2019",), {}),
    )
    frame = pd.DataFrame([[1.0, 2.0]], columns=[2018, other])
    np.testing.assert_array_equal(format_.features(frame), [[2.0]])
    with self.assertRaisesRegex(ValueError, "`frame` must .*'2019'.* once"):
      format_.features(frame.set_axis(["2019", other], axis=1))


if __name__ == "__main__":
  absltest.main()
