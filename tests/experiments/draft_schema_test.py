"""Tests for experiments.draft_schema and fl_clustering.tables.draft."""

import csv
import dataclasses
import os

from absl.testing import parameterized
import numpy as np

from experiment_shell import launch
from experiments import draft_schema
from fl_clustering.tables import folder as folder_lib
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
    """Drafts anew; returns the schema, and what is printed of each column."""
    if os.path.exists(self.output):
      os.remove(self.output)
    self.printed = in_process.run_main(
        draft_schema.main, f"--data_dir={self.sample}", f"--output={self.output}", *arguments
    )
    lines = dict(line.split(":", 1) for line in self.printed.splitlines() if ":" in line)
    return schema_lib.load(self.output), lines

  def _features(self, schema):
    folder = folder_lib.open_folder(self.sample, {schema_lib.NO_VIEW: schema})
    return folder["a"].features

  def _refused(self, message, *arguments):
    with self.assertRaisesRegex(launch.InputError, message):
      self._run(*arguments)
    self.assertFalse(os.path.exists(self.output))

  def test_drafts(self):
    schema, lines = self._run("--label_column=ill", "--row_key=id", "--exclude=city")
    self.assertEqual(schema, schema_lib.Schema(
        (
            schema_lib.Field("id", "string"), schema_lib.Field("age"),
            schema_lib.Field("sex", "string", enum=("f", "m")),
            schema_lib.Field("ill", "string", enum=("0", "1", "3")),
        ),
        label="ill", key="id", missing="mean", delimiter=";", decimal=",",
    ))
    self.assertEqual(list(lines)[:-1], ["dialect", "id", "age", "sex", "ill"])
    self.assertIn("missing cells become", self.printed)
    np.testing.assert_array_equal(
        self._features(schema), [[40.5, 1, 0], [np.nan, 0, 1], [41.5, 1, 0]]
    )

  def test_of_a_public_sample(self):
    self._write("b.csv", "id;age;sex;ill;city\n8;n/a;f;1;x\n")
    schema, _ = self._run("--label_column=ill", "--public_sample")
    schema.check_private()
    scalings = [field.public_scaling for field in schema.features[:2]]
    self.assertEqual(scalings, [(8, 0.5**0.5), (41, 0.5)])

  def test_constant_columns_of_a_public_sample_keep_their_scale(self):
    self._write("a.csv", "x;y;z\n" + "".join(f"0.1;3;{i}\n" for i in range(7)))
    schema, _ = self._run("--public_sample")
    self.assertEqual([field.scale for field in schema.features], [1, 1, 2])

  def test_leaves_out_what_it_does_not_know_and_names_it(self):
    _, lines = self._run()
    # It names likely keys.
    self.assertEqual([name for name, about in lines.items() if "--row_key" in about], ["id", "ill"])
    texts = "".join(f"{i};1;f;0;text {i}\n" for i in range(30))
    self._write("b.csv", "id;age;sex;ill;city\n" + texts)
    self._write("c.csv", "id;age;ill;city\n1;2;0;x\n")
    schema, lines = self._run()
    self.assertEqual([field.name for field in schema.fields], ["id", "age", "ill"])
    self.assertRegex(lines["sex"], "left out.*c.csv")
    self.assertIn("left out", lines["city"])

  # Of cells, what the column becomes; between commas, a comma is no decimal mark.
  @parameterized.parameters(
      (";", ["1", "2.5", "7"], "number"), (";", ["1", "2,5", "7"], "number"),
      (",", ['"1,501"', '"2,502"'], "string"), (";", ["1", "2", "n/a"], "number"),
      (";", ["1", "n/a", "?"], "string"), (";", ["true", "False"], "boolean"),
      (";", ["0", "1"], "number"), (";", ["yes", ""], "string"), (";", ["1", "n/a"], "number"),
  )
  def test_what_a_column_becomes(self, delimiter, cells, kind):
    self._write("a.csv", "".join(f"{cell}{delimiter}1\n" for cell in ["x", *cells]))
    schema, lines = self._run()
    self.assertEqual(schema.fields[0].type, kind)
    for odd in {"n/a"}.intersection(cells):
      self.assertIn(odd, lines["x"])

  def test_a_text_has_twenty_levels_at_most(self):
    for num_texts, names in ((20, ["x", "y"]), (21, ["y"])):
      self._write("a.csv", "x;y\n" + "".join(f"t{i};1\n" for i in range(num_texts)))
      schema, _ = self._run()
      self.assertEqual([field.name for field in schema.fields], names)

  def test_views(self):
    for client in ("a", "b"):
      os.mkdir(os.path.join(self.sample, client))
      self._write(f"{client}/one.csv", "id;x;kind\n7;1,5;u\n8;2,5;v\n")
      self._write(f"{client}/two.csv", "id\ty\tnote\n8\t1\t\n7\t2\t\n")
      self._write(f"{client}/labels.csv", "id;y\n8;1\n7;2\n")
    self._refused("data_dir.*a.csv")  # A folder is for a client, or a file is.
    os.remove(os.path.join(self.sample, "a.csv"))
    for argument, name in ("--label_column=id", "label_column"), ("--exclude=kid", "exclude"):
      self._refused(name, argument)
    printed = in_process.run_main(
        draft_schema.main, f"--data_dir={self.sample}", f"--output={self.output}", "--row_key=id",
        "--exclude=note",
    )
    self.assertIn("one: kind: ", printed)
    schemas = views_lib.load(self.output)
    self.assertEqual({view: one.feature_names for view, one in schemas.items()},
                     {"one": ("x", "kind=u", "kind=v"), "two": ("y",)})
    folder = folder_lib.open_folder(self.sample, schemas)
    np.testing.assert_array_equal(folder["b"].features[:, 3], [2, 1])

  @parameterized.parameters(
      ('\ufeff"weight, kg";"height, cm, or 0";age', ";"), ("weight, kg;age", ";"), ("a;b,c,d", ","),
      ("age", ","), ('"a\tb"|"c\td"|e', "|"),
  )
  def test_finds_the_delimiter(self, header, delimiter):
    num_cells = len(next(csv.reader([header], delimiter=delimiter)))
    self._write("a.csv", f"{header}\n{delimiter.join('1' * num_cells)}\n")
    self.assertEqual(self._run()[0].delimiter, delimiter)

  @parameterized.parameters(
      ("id,age,sex,ill,city\n7,40,f,0,x\n", "b.csv, line 1, column 'ill'"),
      ('"id","age","sex","ill"\n7,40,f,0\n', "b.csv, line 1"),
      ("id;age;sex\n7;40;f\n", "b.csv, line 1, column 'ill'"),
      ("id;age;sex;ill;city\n7;40;f;1;\n7;40\n8;40;f;1;\n", "b.csv, line 3"),
  )
  def test_refuses_files_and_says_where(self, text, where):
    self._write("b.csv", text)
    self._refused(where, "--label_column=ill")

  def test_says_how_many_rows_have_a_level(self):
    self._write("b.csv", "id;age;sex;ill;city\n7;40,5;f;0;\n8;4;F;1;\n")
    _, lines = self._run("--label_column=ill")
    self.assertIn("'F': 1, 'f': 3, 'm': 1", lines["sex"])
    self.assertIn("'0': 2, '1': 2, '3': 1", lines["ill"])

  def test_a_column_without_cells_is_no_feature(self):
    self._write("a.csv", "ill;age;city\n1;2;\n;3;\n")
    schema, lines = self._run("--label_column=ill")
    self.assertEqual((schema.feature_names, schema.missing), (("age",), "error"))
    self.assertIn("left out", lines["city"])
    self._write("a.csv", "ill;city\n1;\n0;\n")
    self._refused("`data_dir`.*city", "--label_column=ill")

  @parameterized.parameters(("y",), (None, "--row_key=y"), (None, "--exclude=y"))
  def test_arrays(self, label, *flags):
    os.remove(os.path.join(self.sample, "a.csv"))
    x = np.arange(12.0).reshape(2, 2, 3)
    np.savez(os.path.join(self.sample, "a.npz"), x=x, y=[3, 1])
    schema, _ = self._run(*flags)
    self.assertEqual((schema.label, schema.feature_shape), (label, (2, 3, 1)))
    np.testing.assert_array_equal(self._features(schema), x.reshape(2, 6))

  def test_cells_that_are_no_numbers_are_left_to_a_person(self):
    numbers = "".join(f"{i};{i}.5;0\n" for i in range(30))
    self._write("a.csv", f"x;y;z\n{numbers}1;?;0\n2;n/a;0\n")
    schema, lines = self._run("--label_column=x")
    self.assertRegex(lines["y"], r"a number, but .*'\?', 'n/a'")
    self.assertEqual(schema.feature_names, ("y", "z"))
    with self.assertRaisesRegex(ValueError, "a.csv, line 32, column 'y'.*missingValues"):
      self._features(schema)
    schema = dataclasses.replace(schema, missing_values=("", "?", "n/a"), missing="mean")
    self.assertEqual(np.isnan(self._features(schema)).sum(), 2)

  @parameterized.parameters(
      "label_column=other", "client_column=other", "split_column=other", "row_key=other",
      "exclude=other", "data_dir=/no/folder", "data_dir=",
  )
  def test_refuses(self, argument):
    self._refused(argument.split("=")[0], f"--{argument}")

  def test_keeps_a_file_and_a_pipe(self):
    paths = [os.path.join(self.folder, name) for name in ("kept", "pipe")]
    with open(paths[0], "w", encoding="utf-8") as file:
      file.write("kept")
    os.mkfifo(paths[1])
    for path in paths:
      with self.assertRaisesRegex(launch.InputError, "output"):
        in_process.run_main(draft_schema.main, f"--data_dir={self.sample}", f"--output={path}")
    with open(paths[0], encoding="utf-8") as file:
      self.assertEqual(file.read(), "kept")
