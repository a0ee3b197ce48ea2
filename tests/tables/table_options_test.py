"""Tests for fl_clustering.tables.table_options."""

from absl.testing import absltest
from absl.testing import parameterized

from fl_clustering.tables import table_options


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
