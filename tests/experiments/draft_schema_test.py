"""Tests for experiments.draft_schema and fl_clustering.tables.draft."""

import csv
import dataclasses
import os
import re

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiment_shell import launch
from experiments import draft_schema
from fl_clustering.tables import bad_table
from fl_clustering.tables import clients as clients_lib
from fl_clustering.tables import encode
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views as views_lib
from tests.experiment_shell import in_process


class DraftSchemaTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.sample = os.path.join(self.folder, "sample")
    self.output = os.path.join(self.folder, "schema.json")
    os.mkdir(self.sample)
    self._write("a.csv", "id;age;sex;ill;city\n7;40,5;f;0;\n8;;m;3;\n9;41,5;f;1;x\n")

  def _write(self, name, text):
    with open(os.path.join(self.sample, name), "w", encoding="utf-8") as file:
      file.write(text)

  def _run(self, *arguments):
    return in_process.run_main(
        draft_schema.main, f"--data_dir={self.sample}", f"--output={self.output}", *arguments
    )

  def test_drafts(self):
    printed = self._run("--label_column=ill", "--row_key=id", "--exclude=city")
    schema = schema_lib.load(self.output)
    self.assertEqual(schema, schema_lib.Schema(
        (
            schema_lib.Field("id", "string"), schema_lib.Field("age"),
            schema_lib.Field("sex", "string", enum=("f", "m")),
            schema_lib.Field("ill", "string", enum=("0", "1", "3")),
        ),
        label="ill", key="id", missing="mean", delimiter=";", decimal=",",
    ))
    names = [line.split(":")[0] for line in printed.splitlines()[:-1]]
    self.assertEqual(names, ["dialect", "id", "age", "sex", "ill"])
    table = clients_lib.open_folder(self.sample, schema)["a"]
    np.testing.assert_array_equal(
        encode.numbers(table, schema), [[40.5, 1, 0], [np.nan, 0, 1], [41.5, 1, 0]]
    )

  def test_of_a_public_sample(self):
    self._write("b.csv", "id;age;sex;ill;city\n8;n/a;f;1;x\n")
    self._run("--label_column=ill", "--public_sample")
    schema = schema_lib.load(self.output)
    schema.check_private()
    scalings = [field.public_scaling for field in schema.features[:2]]
    self.assertEqual(scalings, [(8, 0.5**0.5), (41, 0.5)])

  def test_leaves_out_what_it_does_not_know_and_names_it(self):
    texts = "".join(f"{i};1;f;0;text {i}\n" for i in range(30))
    self._write("b.csv", "id;age;sex;ill;city\n" + texts)
    self._write("c.csv", "id;age;ill;city\n1;2;0;x\n")
    printed = self._run()
    schema = schema_lib.load(self.output)
    self.assertEqual([field.name for field in schema.fields], ["id", "age", "ill"])
    lines = dict(line.split(":", 1) for line in printed.splitlines())
    self.assertRegex(lines["sex"], "left out.*c.csv")
    self.assertIn("left out", lines["city"])

  def test_names_a_likely_key(self):
    lines = dict(line.split(":", 1) for line in self._run().splitlines())
    self.assertEqual([name for name, about in lines.items() if "--row_key" in about], ["id", "ill"])

  @parameterized.parameters(
      (["007", "12"], "007"), (["2.345", "17"], "2.345"), (["2.345", "1.7", "5"], None),
      (["1.234", "2.345"], "1.234"), (["1,234", "2,345"], "1,234"), (["0.234", "2.345"], None),
      (["12,345", "7", "n/a"], "12,345"), (["yes", "no"], None), (["x", ""], "empty"),
      (["true", ""], "empty"), (["1", ""], "empty"),
      (["70", "0"], None), (["1", "2", "3", "NA"], "'NA'"), (["0,5", "1.5", "2.5"], "','"),
      (["1", "2", "3", "u", "v", "w", "x"], None),
  )
  def test_hints_at_what_may_be_meant_otherwise(self, cells, doubtful):
    self._write("a.csv", "".join(f"{cell};1\n" for cell in ["x", *cells, cells[0]]))
    lines = dict(line.split(":", 1) for line in self._run().splitlines())
    self.assertEqual(";" in lines["x"], doubtful is not None)
    self.assertIn(doubtful or "", lines["x"])

  def test_marks_of_thousands_do_not_decide_on_the_decimal_mark(self):
    rows = "".join(f"{i},{500 + i}\t{i % 7}.5\n" for i in range(1, 30))
    self._write("a.csv", f"cost\tsize\n{rows}")
    lines = dict(line.split(":", 1) for line in self._run().splitlines())
    self.assertNotIn(";", lines["size"])
    self.assertRegex(lines["cost"], r"'1,501' \(.*a.csv, line 2\).*thousands")
    self.assertEqual(schema_lib.load(self.output).decimal, ".")

  def test_true_and_false(self):
    self._write("a.csv", "x,y\nTrue,1\nFalse,0\n,1\n")
    pd.DataFrame({"x": [True], "y": [0]}).to_parquet(os.path.join(self.sample, "b.parquet"))
    self._run()
    schema = schema_lib.load(self.output)
    self.assertEqual([field.type for field in schema.fields], ["boolean", "number"])
    self.assertLen(clients_lib.open_folder(self.sample, schema)["a"], 3)

  def test_the_index_of_a_frame_is_left_out_unless_it_is_named(self):
    os.remove(os.path.join(self.sample, "a.csv"))
    frame = pd.DataFrame({"x": [0.5, 1.5]}, index=pd.Index([7, 8], name="id"))
    frame.to_parquet(os.path.join(self.sample, "a.parquet"))
    for roles, names in ((), ["x"]), (("--row_key=id",), ["x", "id"]):
      self._run(*roles)
      self.assertEqual([field.name for field in schema_lib.load(self.output).fields], names)
      os.remove(self.output)

  def test_views(self):
    for client in ("a", "b"):
      os.mkdir(os.path.join(self.sample, client))
      self._write(f"{client}/one.csv", "id;x;kind\n7;1,5;u\n8;2,5;v\n")
      self._write(f"{client}/two.csv", "id\ty\tnote\n8\t1\t\n7\t2\t\n")
      self._write(f"{client}/labels.csv", "id;y\n8;1\n7;2\n")
    os.remove(os.path.join(self.sample, "a.csv"))
    printed = self._run("--row_key=id", "--exclude=note")
    self.assertIn("one: kind: ", printed)
    schemas = views_lib.load(self.output)
    self.assertEqual({view: one.feature_names for view, one in schemas.items()},
                     {"one": ("x", "kind=u", "kind=v"), "two": ("y",)})
    opened = views_lib.open_folder(self.sample, schemas)
    np.testing.assert_array_equal(opened["b"]["two"]["y"], [2, 1])
    os.remove(self.output)
    for argument, name in ("--label_column=id", "label_column"), ("--exclude=kid", "exclude"):
      with self.assertRaisesRegex(launch.InputError, name):
        self._run(argument)

  @parameterized.parameters(
      ('\ufeff"weight, kg";"height, cm, or 0";age', ";"), ("weight, kg;age", ";"), ("a;b,c,d", ","),
      ("age", ","), ('"a\tb"|"c\td"|e', "|"),
  )
  def test_finds_the_delimiter(self, header, delimiter):
    num_cells = len(next(csv.reader([header], delimiter=delimiter)))
    self._write("a.csv", f"{header}\n{delimiter.join('1' * num_cells)}\n")
    self._run()
    self.assertEqual(schema_lib.load(self.output).delimiter, delimiter)

  def test_names_a_file_with_another_delimiter(self):
    self._write("b.csv", "id,age,sex,ill,city\n7,40,f,0,x\n")
    with self.assertRaisesRegex(launch.InputError, "b.csv, line 1: .*its delimiter may be ','"):
      self._run("--label_column=ill")

  def test_refuses_folders_beside_files(self):
    for name in ("0", "b"):
      os.mkdir(os.path.join(self.sample, name))
      with self.assertRaisesRegex(launch.InputError, f"data_dir.*sample/{name}.*a.csv"):
        self._run()
      os.rmdir(os.path.join(self.sample, name))

  def test_a_column_that_a_file_lacks(self):
    self._write("b.csv", "id;age;sex\n7;40;f\n")
    with self.assertRaisesRegex(launch.InputError, "b.csv, line 1, column 'ill'"):
      self._run("--label_column=ill")
    self.assertNotIn("ill:", self._run("--exclude=ill"))

  def test_says_why_no_column_is_a_feature(self):
    texts = "".join(f"text {i};\n" for i in range(30))
    self._write("a.csv", "note;empty\n" + texts)
    with self.assertRaisesRegex(launch.InputError, "data_dir.*note: .*; empty: "):
      self._run()

  def test_parquet(self):
    os.remove(os.path.join(self.sample, "a.csv"))
    pd.DataFrame({"x": [0.5, None], "c": ["u", "v"], "n": [1, 2]}).to_parquet(
        os.path.join(self.sample, "a.parquet")
    )
    self._run()
    schema = schema_lib.load(self.output)
    self.assertEqual(schema.feature_names, ("x", "c=u", "c=v", "n"))
    self.assertEqual(schema.missing, "mean")
    self.assertLen(clients_lib.open_folder(self.sample, schema)["a"], 2)

  def test_hints_at_codes_of_parquet_files(self):
    os.remove(os.path.join(self.sample, "a.csv"))
    pd.DataFrame({"x": ["007", "12", "12"]}).to_parquet(os.path.join(self.sample, "a.parquet"))
    self.assertIn("x: a number; '007'", self._run())

  def test_hints_at_names_that_are_numbers(self):
    self.assertNotIn("the names", self._run("--exclude=city"))
    os.remove(self.output)
    self._write("a.csv", "0,1\n7,8\n")
    self.assertIn("the names", self._run())
    self.assertEqual(schema_lib.load(self.output).feature_names, ("0", "1"))

  def test_arrays(self):
    os.remove(os.path.join(self.sample, "a.csv"))
    x = np.arange(12.0).reshape(2, 2, 3)
    np.savez(os.path.join(self.sample, "a.npz"), x=x, y=[3, 1])
    for flags, label in (((), "y"), (("--row_key=y",), None), (("--exclude=y",), None)):
      self._run(*flags)
      schema = schema_lib.load(self.output)
      self.assertEqual((schema.label, schema.feature_shape), (label, (2, 3, 1)))
      table = clients_lib.open_folder(self.sample, schema)["a"]
      np.testing.assert_array_equal(encode.numbers(table, schema), x.reshape(2, 6))
      os.remove(self.output)

  def test_cells_that_are_no_numbers_are_left_to_a_person(self):
    numbers = "".join(f"{i};{i}.5;0\n" for i in range(30))
    for cells in (("?", "n/a"), ("?",) * 2):
      self._write("a.csv", f"x;y;z\n{numbers}1;{cells[0]};0\n2;{cells[1]};0\n")
      printed = self._run("--label_column=x")
      self.assertRegex(printed, r"\ny: a number, but .*'\?' \(.*a.csv, line 32")
      schema = schema_lib.load(self.output)
      self.assertEqual(schema.feature_names, ("y", "z"))
      with self.assertRaisesRegex(bad_table.BadTable, "a.csv, line 32, column 'y'.*missingValues"):
        clients_lib.open_folder(self.sample, schema)
      schema = dataclasses.replace(schema, missing_values=("", *{*cells}))
      table = clients_lib.open_folder(self.sample, schema)["a"]
      self.assertEqual(int(table["y"].isna().sum()), 2)
      os.remove(self.output)

  def test_an_example_stands_in_the_line_that_is_named(self):
    numbers = "".join(f"{i};0\n" for i in range(30))
    self._write("a.csv", f"x;y\nm;0\n{numbers}b;1\nz;1\n")
    self.assertRegex(self._run(), r"\nx: .*'b' \(.*a.csv, line 33\) and 'z'")

  def test_numbers_with_other_decimal_marks_are_left_to_a_person(self):
    rows = "".join(f"{i},5;{i}.5;{i},7\n" for i in range(30))
    self._write("a.csv", f"x;y;z\n{rows}1;n/a;2\n")
    printed = self._run()
    self.assertRegex(printed, r"\ny: a number, but .*'0\.5'.*a.csv, line 2.*'\.'")
    with self.assertRaisesRegex(bad_table.BadTable, "a.csv, line 2, column 'y'"):
      clients_lib.open_folder(self.sample, schema_lib.load(self.output))

  def test_decimal_commas_in_quotes_are_left_to_a_person(self):
    self._write("a.csv", 'x,y\n"1,5",2\n"2,5",3\n')
    self._run()
    schema = schema_lib.load(self.output)
    self.assertEqual(schema.feature_names, ("x", "y"))
    with self.assertRaisesRegex(bad_table.BadTable, "a.csv, line 2, column 'x'"):
      clients_lib.open_folder(self.sample, schema)

  @parameterized.parameters("gro\u0308\u00dfe", "Gr\u00f6\u00dfe", " gr\u00f6\u00dfe")
  def test_refuses_names_that_look_alike(self, name):
    self._write("a.csv", "gr\u00f6\u00dfe,y\n1,2\n")
    self._write("b.csv", f"{name},y\n1,2\n")
    with self.assertRaises(launch.InputError) as caught:
      self._run()
    self.assertIn("b.csv, line 1, column ", str(caught.exception))
    self.assertIn(ascii(name), str(caught.exception))
    self.assertFalse(os.path.exists(self.output))
    header = f"gr\u00f6\u00dfe,{name}\n1,2\n"
    self._write("a.csv", header)
    self._write("b.csv", header)
    self._run()

  @parameterized.parameters("South", "south\u200b", "so\u00aduth")
  def test_leaves_classes_that_look_alike_to_a_person(self, name):
    self._write("a.csv", f"x,where\n1,south\n2,{name}\n3,n/a\n")
    printed = self._run("--label_column=where")
    (about,) = [line for line in printed.splitlines() if line.startswith("where: ")]
    self.assertRegex(about, fr"\(.*n/a.*\).*{re.escape(ascii(name))}")
    schema = schema_lib.load(self.output)
    self.assertIsNone(schema.classes)
    with self.assertRaisesRegex(bad_table.BadTable, "a.csv, line 3, column 'where'"):
      clients_lib.open_folder(self.sample, schema).classes()

  @parameterized.parameters("Yes ", "yes\u200b")
  def test_refuses_levels_that_look_alike(self, name):
    self._write("a.csv", f"x,c\n1,yes\n2,no\n3,{name}\n")
    with self.assertRaises(launch.InputError) as caught:
      self._run()
    for shown in ("a.csv, line 4, column 'c'", ascii(name), "a.csv, line 2"):
      self.assertIn(shown, str(caught.exception))
    self._run("--exclude=c")

  def test_shows_the_first_and_the_last_of_many_classes(self):
    labels = "".join(f"{i},{i}\n" for i in range(50))
    self._write("a.csv", f"x,where\n1,n/a\n{labels}")
    self.assertRegex(self._run("--label_column=where"), r"where: .*\(0, 1, .*, \.\.\., n/a\)")

  def test_hints_at_clients_that_look_alike(self):
    self._write("a.csv", "x,who\n1,south\n2,South\n")
    self.assertIn("'south'", self._run("--client_column=who"))

  def test_a_name_with_a_comma_in_quotes(self):
    self._write("a.csv", '"weight, kg",age\n5,40\n')
    self._run('--exclude="weight, kg"')
    self.assertEqual(schema_lib.load(self.output).feature_names, ("age",))

  def test_parquet_files_have_points_beside_text_files_with_commas(self):
    frame = pd.DataFrame({"id": 1, "age": [30.5], "sex": "f", "ill": 0, "city": "1,5"})
    frame.to_parquet(os.path.join(self.sample, "b.parquet"))
    self._run("--exclude=city")
    schema = schema_lib.load(self.output)
    self.assertEqual(schema.feature_names[:2], ("id", "age"))
    table = clients_lib.open_folder(self.sample, schema)["b"]
    np.testing.assert_array_equal(encode.numbers(table, schema)[:, :2], [[1, 30.5]])

  @parameterized.parameters((["5\n", "2", "u"],), (["nan", "x", "inf", "-2"],))
  def test_what_is_no_number_has_levels(self, cells):
    os.remove(os.path.join(self.sample, "a.csv"))
    pd.DataFrame({"x": cells}).to_parquet(os.path.join(self.sample, "a.parquet"))
    self._run()
    schema = schema_lib.load(self.output)
    self.assertEqual(schema.features[0].enum, tuple(sorted(cells)))
    self.assertLen(clients_lib.open_folder(self.sample, schema)["a"], len(cells))

  @parameterized.parameters(
      ("--label_column=other", "`label_column`"), ("--client_column=other", "`client_column`"),
      ("--split_column=other", "`split_column`"), ("--row_key=other", "`row_key`"),
      ("--exclude=other", "exclude"),
      ("--data_dir=/no/folder", "data_dir"), ("--data_dir=", "data_dir"),
  )
  def test_refuses(self, argument, name):
    with self.assertRaisesRegex(launch.InputError, name):
      self._run(argument)
    self.assertFalse(os.path.exists(self.output))

  @parameterized.parameters("x;y\n1;2\n3\n4;5\n6;7\n", "x;y;\n1;2;\n3;5;6\n")
  def test_refuses_files_and_says_where(self, text):
    self._write("a.csv", text)
    with self.assertRaisesRegex(launch.InputError, "a.csv, line 3"):
      self._run()

  def test_keeps_a_file(self):
    with open(self.output, "w", encoding="utf-8") as file:
      file.write("kept")
    with self.assertRaisesRegex(launch.InputError, "output"):
      self._run()
    with open(self.output, encoding="utf-8") as file:
      self.assertEqual(file.read(), "kept")

  def test_a_pipe_is_no_output(self):
    self.output = os.path.join(self.folder, "pipe")
    os.mkfifo(self.output)
    with self.assertRaisesRegex(launch.InputError, "output"):
      self._run()


if __name__ == "__main__":
  absltest.main()
