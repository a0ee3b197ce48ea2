"""Tests of files that come after a model."""

import re

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tables import table_format
from fl_clustering.tables import table_options
from tests.tables import table_folders as folders

_SKIPPING = {"skip_bad_rows": True}


class ForAModelTest(folders.TablesTestCase):
  """Files that come after a model, in the format of the files that it was made of."""

  FILES = {
      "a.csv": "key;x;c;sick;part;note\np;1,5;red;no;train;n\nq;;blue;yes;test;n\n",
      "b.csv": "key;x;c;sick;part;note\nr;4,5;red;yes;train;n\n",
  }
  OPTIONS = {
      "decimal": ",", "missing": "indicator", "categories": ("c",), "exclude": ("note",),
      "id_column": "key", "label_column": "sick", "split_column": "part",
  }

  def open_for_model(self, files, later={}, **options):
    format_ = self.open(self.FILES, **{**self.OPTIONS, **options}).format
    return self.open_later(format_, files, **later)

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
    if expected is None:
      with self.assertRaisesRegex(
          ValueError, "'1.911' may have a decimal point or one between thousands, as the model's "
          "files have decimal commas; --decimal gives all files one decimal mark.$"
      ):
        self.open_later(format_, {"new.csv": text})
    else:
      self.assert_features(self.open_later(format_, {"new.csv": text}), {"new": expected})

  _COSTS = {"x": [(40, 2500, 1400), (2, 4500, 0)]}
  _DOSES = {"x": [(40, 2.5, 1)], "y": [(40, 300, 900)]}

  @parameterized.named_parameters(
      ("thousands in the run", "x;y\n1.871;2\n", _COSTS, True),
      ("several rows", "x;y\n1.871;2\n1.950;9\n", _COSTS, True),
      ("four deviations from the run", "x;y\n1.871;2\n", {"x": [(40, 700, 300)]}, True),
      ("nearer than as it stands", "x;y\n1.871;2\n", {"x": [(40, 1500, 10)]}, True),
      ("nothing known of the run", "x;y\n1.871;2\n", {}, True),
      ("ones in the run", "x;y\n1.871;2\n", _DOSES, False),
      ("another column with ones in the run", "x;y\n1.871;2.310\n", _DOSES, False),
      ("a decimal point elsewhere", "x;y\n1.871;2.5\n", _COSTS, False),
      ("commas between cells", "x,y\n1.871,2\n", _COSTS, False),
      ("other numbers", "x;y\n1.871;2\n1871;2\n", _COSTS, False),
  )
  def test_points_that_may_stand_between_thousands(self, text, moments, is_told):
    format_ = self.open({"a.csv": "x,y\n1,2\n3,4.5\n"}).format
    tables = self.open_later(format_, {"new.csv": text}, moments=moments)
    self.assertEqual(tables.read("new").features[0, 0], 1.871)
    found = ("line 2, column 'x': '1.871' is read with a decimal point, but may have one between "
             "thousands; --decimal=. or --thousands=. says which")
    self.assertEqual([found in text for text in tables.warnings], [True] * is_told)
    for options in ({"decimal": "."}, {"thousands": "."}) if is_told else ():
      tables = self.open_later(format_, {"new.csv": text}, moments=moments, options=options)
      self.assertEqual(tables.warnings, ())

  def test_points_between_thousands_beside_whole_numbers(self):
    format_ = self.open({"a.csv": "x,y\n1,2\n3,4.5\n"}).format
    tables = self.open_later(format_, {"new.csv": "x;y\n1.871;2\n950;3\n"}, moments=self._COSTS)
    self.assertRegex(tables.warnings[0], "'1.871' is read with a decimal point.*--thousands=. says")
    tables = self.open_later(format_, {"new.csv": "x;y\n1.871;2\n3;3\n"}, moments=self._DOSES)
    self.assert_features(tables, {"new": [[1.871, 2], [3, 3]]})

  def test_levels_with_points_that_may_stand_between_thousands(self):
    format_ = self.open({"a.csv": "x,c\n1,1.500\n2,3\n"}, categories=("c",)).format
    tables = self.open_later(format_, {"new.csv": "x;c\n1;1.500\n2;3\n"})
    self.assert_features(tables, {"new": [[1, 1, 0], [2, 0, 1]]})
    self.assertEqual(tables.warnings, ())

  def test_commas_that_may_be_a_decimal_mark(self):
    format_ = self.open({"a.csv": "x;y\n1;12.5\n2;2.5\n"}).format
    files = {"new.csv": "x;y\n6050;6,519\n7424;15,544\n"}
    with self.assertRaisesRegex(
        ValueError, "'6,519' may be 6.519 or 6519; --decimal=, or --thousands=, says which"
    ):
      self.open_later(format_, files)
    for flag, factor in (("decimal", 1), ("thousands", 1000)):
      tables = self.open_later(format_, files, options={flag: ","})
      self.assert_features(tables, {"new": [[6050, 6.519 * factor], [7424, 15.544 * factor]]})

  @parameterized.parameters(
      ('x;y\n1.234,5;13,3\n', {}), ('x;y\n1.234,5;13,3\n', {"thousands": "."}),
      ('x;y\n1.234,5;13,3\n', {"thousands": ","}), ('x;y\n1.911;13,3\n', {}),
      ("x;y\n1 234,5;13,3\n", {"thousands": ","}), ("x;y\n1'234,5;13,3\n", {"thousands": ","}),
  )
  def test_other_marks_between_thousands_in_other_files(self, text, options):
    format_ = self.open({"a.csv": "x,y\n1.5,8.1\n"}).format
    files = {"a.csv": text, "b.csv": 'x,y\n"1,234.5",8.1\n'}
    with self.assertRaisesRegex(ValueError, "no --thousands reads all files") as caught:
      self.open_later(format_, files, options=options)
    self.assertNotIn("--thousands=", str(caught.exception))
    with self.assertRaisesRegex(ValueError, "; --thousands=, reads such"):
      self.open_later(format_, {"b.csv": files["b.csv"]})

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

  def test_columns_that_were_not_chosen_are_left_alone(self):
    tables = self.open_for_model(
        {"new.csv": "x;z;c\n1;text;red\n"}, columns=("x", "c"), exclude=()
    )
    np.testing.assert_array_equal(tables.read("new").features, [[1, 0, 1, 0]])

  @parameterized.named_parameters(
      ("a level", "x;c\n1;green\n", "new.csv': line 2, column 'c' must be one of blue, red, got"),
      ("a class", "x;c;sick\n1;red;no\n1;red;maybe\n",
       "new.csv': line 3, column 'sick' must be one of no, yes, got 'maybe'"),
      ("a column too few", "x\n1\n", "new.csv': it has no column 'c', and the model has.$"),
      ("others that are not used", "key;x;more\nu;1;2\n",
       "new.csv': it has no column 'c', and the model has.$"),
      ("a column of another name", "x;C\n1;red\n",
       "it has a column 'C', and the model has 'c'; all files must have the same names.$"),
      ("text", "x;c\nmuch;red\n", "line 2, column 'x': 'much' is not a number.$"),
      ("cells", "x;c\n1\n", "with ';' between cells; --separator names another one.$"),
      ("no rows", "x;c\n", "new.csv': it has no rows"),
  )
  def test_refuses(self, text, message):
    with self.assertRaisesRegex(ValueError, message):
      self.open_for_model({"new.csv": text})

  @parameterized.parameters(
      ("u,1\nv,3\n", "line 2, u,1, has numbers and text; it may be a row or the columns' names"),
      ("v,1\n", "line 2, v,1, has numbers and text; it may be a row or the columns' names"),
  )
  def test_files_without_the_lines_above_those_of_the_model(self, rows, message):
    options = {"skip_lines": 1, "categories": ("c",)}
    format_ = self.open({"a.csv": "Title\nc,x\nu,1\nv,2\n"}, **options).format
    with self.assertRaisesRegex(
        ValueError, f"{message}; --skip_lines=0 reads files that begin with the table.$"
    ):
      self.open_later(format_, {"new.csv": f"c,x\n{rows}"})
    tables = self.open_later(format_, {"new.csv": f"c,x\n{rows}"}, options={"skip_lines": 0})
    self.assertLen(tables.read("new").rows, rows.count("\n"))
    lines = f"c,x\n{rows}w,1\n"
    for text, hint in ((f"Title\n{lines}", "--unknown_levels"), (lines, "--header")):
      with self.assertRaisesRegex(ValueError, hint) as caught:
        self.open_later(format_, {"new.csv": text})
      self.assertNotIn("--skip_lines", str(caught.exception))

  def test_a_row_in_place_of_the_lines_above_those_of_the_model(self):
    format_ = self.open({"a.csv": "Title\n1,2\n3,5\n"}, skip_lines=1, header="no").format
    with self.assertRaisesRegex(
        ValueError, "line 1, '1,7', looks like a row, which --skip_lines=1 of the run leaves out; "
        "--skip_lines=0 reads files that begin with the table.$"
    ):
      self.open_later(format_, {"new.csv": "1,7\n3,4\n"})
    for first in ("x,y\n", "Title\n", "Title,2\n"):
      self.assertEqual(self.open_later(format_, {"new.csv": f"{first}3,4\n"}).num_rows, {"new": 1})
    for skipped, count in ((0, 2), (1, 1)):
      tables = self.open_later(
          format_, {"new.csv": "1,7\n3,4\n"}, options={"skip_lines": skipped}
      )
      self.assertEqual(tables.num_rows, {"new": count})

  def test_the_row_of_a_level_in_a_file_of_several_clients(self):
    options = {"client_column": "who", "categories": ("c",)}
    format_ = self.open({"a.csv": "who,c\nu,red\nv,blue\n"}, **options).format
    with self.assertRaisesRegex(ValueError, "a.csv': line 4, column 'c' must be one of blue, red"):
      self.open_later(format_, {"a.csv": "who,c\nu,red\nv,blue\nv,green\n"})

  def test_a_level_in_one_of_several_files_of_several_clients(self):
    options = {"client_column": "who", "categories": ("c",)}
    format_ = self.open({"a.csv": "who,c,x\nu,red,1\nv,blue,1\n"}, **options).format
    with self.assertRaisesRegex(ValueError, "b.csv': line 3, column 'c' must be one of blue, red"):
      files = {"a.csv": "who,c,x\nu,red,1\n", "b.csv": "who,c,x\nu,red,1\nu,w,1\n"}
      self.open_later(format_, files)

  def test_a_missing_cell(self):
    format_ = self.open({"a.csv": "x,y\n1,2\n"}).format
    with self.assertRaisesRegex(ValueError, "a.csv': line 2, column 'y' is empty.$"):
      self.open_later(format_, {"a.csv": "x,y\n1,\n"})

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
    files = {"w.csv": "x\n3\n"}
    self.assert_features(self.open_later(format_, files), {"w": [[3]]})
    with self.assertRaisesRegex(ValueError, "w.csv': it has no column 'who', and the model has"):
      self.open_later(format_, {**files, "b.csv": "x,who\n4,y\n"})

  def test_further_columns_are_said_and_not_used(self):
    tables = self.open_for_model({
        "a.csv": "z;x;c;note\n1;2;red;n\n", "b.csv": "x;c;w\n5;blue;secret\n"
    })
    self.assert_features(tables, {"a": [[2, 0, 1, 0]], "b": [[5, 1, 0, 0]]})
    self.assertEqual(
        tables.warnings, ("columns that the model does not have are not used: 'z', 'w'",)
    )

  @parameterized.named_parameters(
      ("Fahrenheit", lambda x: x * 1.8 + 32, "98.6"), ("Kelvin", lambda x: x + 273.15, "310.1"),
      ("far", lambda x: x + 9, "46"), ("near", lambda x: x + 2, None),
      ("a few", lambda x: np.where(np.arange(len(x)) < 3, x * 1.8 + 32, np.nan), None),
      ("one in ten", lambda x: np.where(np.arange(len(x)) % 10 < 1, x * 1.8 + 32, x), None),
  )
  def test_columns_in_another_unit_than_those_of_the_run(self, changed, mean):
    usual = np.linspace(35, 39, 41)

    def text(column):
      return folders.lines("x,y,n", *(
          f"{x:.3f},{i % 5},{i}".replace("nan", "") for i, x in enumerate(column)))

    options = {"exclude": ("n",), "missing": "mean"}
    tables = self.open({"a.csv": text(usual), "b.csv": text(usual + 0.1)}, **options)
    chosen = lambda client_id, table: np.full(len(table.rows), True)
    scaled, files = tables.standardized(chosen).format, {"c.csv": text(changed(usual))}
    moments = {"x": [(41, 36, 0.6), (41, 38.1, 0.6)], "y": [(82, 2, 1.4)]}
    for format_, later in ((scaled, {}), (tables.format, {"moments": moments})):
      found = self.open_later(format_, files, **later).warnings
      self.assertLen(found, mean is not None)
      if mean is not None:
        self.assertRegex(found[0], (
            f"^the column x may have another unit: its mean is {mean} in '.*/c.csv', and was 37.05 "
            "in the run$"
        ))
    self.assertEmpty(self.open_later(tables.format, files).warnings)

  def test_an_empty_cell_of_the_split(self):
    format_ = self.open({"a.csv": "x,p\n1,train\n2,test\n"}, split_column="p").format
    with self.assertRaisesRegex(ValueError, "line 3, column 'p' must be train or test, got ''"):
      self.open_later(format_, {"a.csv": "x,p\n1,train\n2,\n"})

  def test_spaces_between_thousands(self):
    format_ = self.open({"a.csv": "x,y\n1.5,8.1\n"}).format
    with self.assertRaisesRegex(ValueError, "; --thousands=' ' reads such numbers"):
      self.open_later(format_, {"b.csv": "x,y\n1 234.5,8.1\n"})

  def test_rows_without_values(self):
    format_ = self.open({"a.csv": "k,x,y\nu,1,2\nv,3,\n"}, missing="mean", id_column="k").format
    tables = self.open_later(format_, {"b.csv": "k,x,y\nu,1,\nMade by m.,,\n"})
    self.assertEqual(tables.warnings, (
        "the last rows have no value in any feature, as a note below a table has none, and are "
        "filled in: b (row 2)",
    ))

  @parameterized.named_parameters(
      ("large", [(50, 110, 70)], [0.5, 0.8, 1.1, 1.3, 2], True),
      ("small", [(50, 1.1, 0.9)], [50, 80, 110, 130, 200], True),
      ("both signs", [(50, 0, 2)], [9, 11, 12, 12, 13], True),
      ("near both signs", [(50, 0, 2)], [3, 5, 6, 6, 7], False),
      ("constant", [(50, 5, 0)], [6, 6, 6, 6, 7], False),
      ("between the clusters", [(50, 5, 1), (50, 500, 1)], [90, 91, 92, 93, 94], False),
      ("counting up", [(50, 110, 20)], range(1000, 1020), False),
      ("ids", [(50, 6e7, 2e7)], [8_000_000 + 7 * i for i in range(50)], False),
      ("days in place of years", [(50, 52, 20)], [6600 + 471 * i for i in range(50)], True),
      ("few integers", [(50, 110, 20)], range(1000, 1005), True),
  )
  def test_columns_of_other_sizes(self, moments, column, is_told):
    format_ = self.open({"a.csv": "x,y\n1,2\n"}).format
    files = {"c.csv": folders.lines("x,y", *(f"{x},{i}" for i, x in enumerate(column)))}
    self.assertLen(self.open_later(format_, files, moments={"x": moments}).warnings, is_told)

  def test_unknown_levels(self):
    files = {"a.csv": "x;c\n1;green\n2;red\n", "b.csv": "x;c\n3;grey\n4;\n"}
    tables = self.open_for_model(files, {"unknown_levels": "ignore"})
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
    tables = self.open_later(format_, {
        **files, "b.csv": f"x;c\n2.5;{red}\n", "d.csv": f"c,x\n{red},3.5\n".encode("cp865"),
        "e.csv": f"x\tc\n4,5\t{red}\n".encode("utf-16"),
        # What is read of it first is UTF-8, too.
        "f.csv": ("x;c\n" + 5000 * "2.5;o\n" + f"5.5;{red}\n").encode("cp865"),
    })
    own = [float(level == red) for level in levels["c"]]
    for client_id, x in (("a", 1.5), ("b", 2.5), ("d", 3.5), ("e", 4.5)):
      self.assertEqual(tables.read(client_id).features[0].tolist(), [x, *own], client_id)
    self.assertEqual(tables.read("f").features[-1].tolist(), [5.5, *own])

  def test_flags_of_their_own(self):
    files = {"a.csv": "Title\nx;c\n# told\n1.234,5 kg;red\n"}
    with self.assertRaisesRegex(ValueError, "line 3, '# told', .*; --comment leaves out[^;]*.$"):
      self.open_for_model(files)
    rows = {"a.csv": "# told\nx;c\n1;red\n#2;red\n"}
    message = "line 4, '#2;red', begins so too.*; --skip_lines [^;]*$"
    with self.assertRaisesRegex(ValueError, message):
      self.open_for_model(rows)
    options = {
        "skip_lines": 1, "comment": "#", "thousands": ".", "strip_units": True, "decimal": ","
    }
    tables = self.open_for_model(files, {"options": options})
    self.assert_features(tables, {"a": [[1234.5, 0, 1, 0]]})
    options = {"decimal": "."}  # Not both are the run's.
    tables = self.open_for_model(
        {"a.csv": "x;c\n1.234;red\n"}, {"options": options}, thousands="."
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
    tables = self.open_later(format_, {"a.csv": "x;y\n1.5;2\n1,5;3\n"})
    self.assert_features(tables, {"a": [[np.nan, 2], [1.5, 3]]})

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
    text = f"x;c;sick\n1,5;red;no\n2;red;\n{row}\n3;blue;yes\n"
    with self.assertRaisesRegex(ValueError, "a.csv': (row 3|line 4)"):
      self.open_for_model({"a.csv": text})
    tables = self.open_for_model({"a.csv": text, "b.csv": "x;c\n1;red\n"}, _SKIPPING)
    for _ in range(2):  # A file is read again.
      table = tables.read("a")
      np.testing.assert_array_equal(table.features, [[1.5, 0, 1, 0], [2, 0, 1, 0], [3, 1, 0, 0]])
      np.testing.assert_array_equal(table.labels, [0, -1, 1])
      np.testing.assert_array_equal(table.rows, [1, 2, 4])
    self.assertEqual(tables.num_rows, {"a": 3, "b": 1})
    self.assertLen(tables.warnings, 1)
    self.assertRegex(tables.warnings[0], f"^1 row is left out of '.*a.csv': {problem}$")

  @parameterized.named_parameters(
      ("a level", "x;c\n1;red\n2;green\n", ("--unknown_levels=ignore", "--skip_bad_rows")),
      ("a level alone", "x;c\n1;green\n", ("--unknown_levels=ignore",)),
      ("text", "x;c\n1;red\nmuch;red\n", ("--skip_bad_rows",)),
      ("a cell too many", "x;c\n1;red\n1;red;4\n", ("--skip_bad_rows",)),
      ("a column too few", "x\n1\n", ()),
  )
  def test_flags_that_help_are_named(self, text, flags):
    with self.assertRaises(ValueError) as caught:
      self.open_for_model({"a.csv": text})
    self.assertEqual(tuple(re.findall("--[a-z_=]*", str(caught.exception))), flags)
    for flag in set(flags) - {"--separator"}:
      name, _, value = flag[2:].partition("=")
      self.open_for_model({"a.csv": text}, {name: value or True})

  def test_bad_rows_where_no_cell_may_be_missing(self):
    format_ = self.open({"a.csv": "x,y\n1,2\n"}).format
    rows = "".join("1,\n" if i % 2 else "u,1,2\n" for i in range(14))
    tables = self.open_later(format_, {"a.csv": f"x,y\n{rows}5,6\n"}, **_SKIPPING)
    self.assert_features(tables, {"a": [[5, 6]]})
    np.testing.assert_array_equal(tables.read("a").rows, [15])
    self.assertRegex(
        tables.warnings[0], "^14 rows are left out .*row 2, .*'y' is empty.* and 4 more$"
    )

  @parameterized.parameters(("x;c\nmuch;red\n", "'much' is not a number"),
                            ("x;c\n1;green\n", "no row that can be used: row 1, column 'c'"))
  def test_bad_rows_only(self, text, message):
    with self.assertRaisesRegex(ValueError, message):
      self.open_for_model({"a.csv": text}, _SKIPPING)

  @parameterized.named_parameters(
      ("in one file", {"a.csv": "who,c,x\nu,red,1\nv,green,2\n,red,3\nv,red,4\nu,red,\n"},
       {"u": [[0, 1, 1]], "v": [[0, 1, 4]]}, 4, "3 rows are"),
      ("in several files", {"a.csv": "who,c,x\nu,green,1\nu,red,2\n",
                            "b.csv": "who,c,x\nu,red,3\nv,blue,4\n"},
       {"u": [[0, 1, 2], [0, 1, 3]], "v": [[1, 0, 4]]}, 2, "1 row is"),
  )
  def test_bad_rows_of_several_clients(self, files, features, row_of_v, count):
    options = {"client_column": "who", "categories": ("c",)}
    format_ = self.open({"a.csv": "who,c,x\nu,red,1\nv,blue,1\n"}, **options).format
    tables = self.open_later(format_, files, **_SKIPPING)
    self.assert_features(tables, features)
    np.testing.assert_array_equal(tables.read("v").rows, [row_of_v])
    self.assertRegex(tables.warnings[0], f"^{count} left out of .*a.csv")

  def test_bad_cells_that_others_hide(self):
    format_ = self.open({"a.csv": "x,y\n1,2\n"}).format
    tables = self.open_later(format_, {"a.csv": "x,y\nmuch,1\n,2\n1e300,3\n4,4\n"}, **_SKIPPING)
    self.assert_features(tables, {"a": [[4, 4]]})
    self.assertRegex(tables.warnings[0], "^3 rows are left out of .*a.csv")


if __name__ == "__main__":
  absltest.main()
