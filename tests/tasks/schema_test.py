"""Tests for fl_clustering.tasks.schema."""

import dataclasses
import json
import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from fl_clustering.tables import table_options
from fl_clustering.tasks import private_clients
from fl_clustering.tasks import schema as schema_lib

_DOCUMENT = {
    "note": "Of a public sample.",
    "features": [
        {"name": "age", "kind": "number", "center": 50.5, "scale": 10},
        {"name": "sex", "kind": "levels", "levels": ["f", "m"]},
    ],
    "label_column": "ill",
    "classes": ["no", "yes"],
    "header": "yes",
}


def _changed(path, value):
  """Returns the document with another value at a path of keys; without the key for None."""
  document = json.loads(json.dumps(_DOCUMENT))
  place = document
  for key in path[:-1]:
    place = place[key]
  if value is None:
    del place[path[-1]]
  else:
    place[path[-1]] = value
  return document


class SchemaTest(parameterized.TestCase):

  def test_what_it_says(self):
    schema = schema_lib.Schema.from_json(_DOCUMENT)
    self.assertEqual(schema.feature_names, ("age", "sex=f", "sex=m"))
    self.assertEqual(schema.classes, ("no", "yes"))
    self.assertEqual(schema.columns.numbers, ("age",))
    self.assertEqual(schema.columns.texts, ("sex", "ill"))
    model = schema.build_model("logistic")
    self.assertEqual((model.input_shape, model.num_classes), ((3,), 2))
    with self.assertRaisesRegex(ValueError, "`model` must be .*mlp.* for features of sh"):
      schema.build_model("cnn")

  @parameterized.named_parameters(
      ("least", {}),
      ("split column", {"split_column": "part"}),
      ("test share", {"test_share": 0.25, "client_column": "who"}),
      ("text files", {"separator": ";", "decimal": ","}),
      ("without names", {
          "header": "no", "separator": "\t", "label_column": "column_3",
          "features": [{"name": "column_10", "kind": "number", "center": -1.0, "scale": 0.5}],
      }),
  )
  def test_round_trip(self, changes):
    document = {**_DOCUMENT, **changes}
    schema = schema_lib.Schema.from_json(document)
    self.assertEqual(schema.to_json(), document)
    path = self.create_tempfile().full_path
    schema.write(path)
    self.assertEqual(schema_lib.Schema.read(path), schema)

  def test_levels_are_those_that_cells_stand_for(self):
    document = _changed(["classes"], [1, "02", True, 0.5, " u "])
    schema = schema_lib.Schema.from_json(document)
    self.assertEqual(schema.classes, ("1", "2", "true", "0.5", "u"))

  def test_keys_that_are_null_have_defaults(self):
    document = {**_DOCUMENT, "split_column": None, "test_share": None, "decimal": None}
    self.assertEqual(schema_lib.Schema.from_json(document).to_json(), _DOCUMENT)

  def test_letters_are_readable_and_a_byte_order_mark_is_left_out(self):
    path = self.create_tempfile().full_path
    schema = schema_lib.Schema.from_json({**_DOCUMENT, "label_column": "größe"})
    schema.write(path)
    with open(path, encoding="utf-8") as file:
      text = file.read()
    self.assertIn("größe", text)
    with open(path, "w", encoding="utf-8-sig") as file:
      file.write(text)
    self.assertEqual(schema_lib.Schema.read(path), schema)

  @parameterized.named_parameters(
      ("no object", [1], "`schema` must be an object, got [1]."),
      ("no features", _changed(["features"], None), "`features` must be given, got None."),
      ("features of none", _changed(["features"], []),
       "`features` must hold at least one column, got []."),
      ("features by name", _changed(["features"], {"a": 1}), "`features` must be a list, got {'a'"),
      ("a feature's name", _changed(["features", 0], "age"),
       "`features[0]` must be an object, got 'age'."),
      ("another kind", _changed(["features", 1, "kind"], "text"),
       "`features[1].kind` must be one of number, levels, got 'text'."),
      ("kinds", _changed(["features", 1, "kind"], []),
       "`features[1].kind` must be one of number, levels, got []."),
      ("no center", _changed(["features", 0, "center"], None),
       "`features[0].center` must be given, got None."),
      ("text as center", _changed(["features", 0, "center"], "50"),
       "`features[0].center` must be a number in [-1e+100, 1e+100], got '50'."),
      ("no finite center", _changed(["features", 0, "center"], float("nan")),
       "`features[0].center` must be a number in [-1e+100, 1e+100], got nan."),
      ("a large center", _changed(["features", 0, "center"], 10**400),
       "`features[0].center` must be a number in [-1e+100, 1e+100], got 1000"),
      ("no scale", _changed(["features", 0, "scale"], 0),
       "`features[0].scale` must be a number in [1e-100, 1e+100], got 0."),
      ("levels of a number", _changed(["features", 0, "levels"], ["1"]),
       "`features[0]` must have no keys but name, kind, center, scale, got 'levels'."),
      ("no levels", _changed(["features", 1, "levels"], []),
       "`features[1].levels` must hold at least 1, got []."),
      ("a level twice", _changed(["features", 1, "levels"], [1, "1.0"]),
       "`features[1].levels` must hold each only once, got '1'."),
      ("a missing level", _changed(["features", 1, "levels"], ["f", "NA"]),
       "`features[1].levels` must hold none that means a missing cell, got 'NA'."),
      ("levels in lists", _changed(["features", 1, "levels"], [["f"]]),
       "`features[1].levels` must hold texts or numbers, got ['f']."),
      ("a column twice", _changed(["features", 1, "name"], "age"),
       "`features[1].name` must name another column than `features[0].name`, got 'age'."),
      ("the label as a feature", _changed(["label_column"], "sex"),
       "`label_column` must name another column than `features[1].name`, got 'sex'."),
      ("a name in blanks", _changed(["label_column"], "ill "),
       "`label_column` must be text without blanks at its ends, got 'ill '."),
      ("a number as name", _changed(["features", 0, "name"], 3),
       "`features[0].name` must be text without blanks at its ends, got 3."),
      ("one class", _changed(["classes"], ["no"]), "`classes` must hold at least 2, got ['no']."),
      ("no classes", _changed(["classes"], None),
       "`classes` must be given, got None."),
      ("a share of all", {**_DOCUMENT, "test_share": 1},
       "`test_share` must be a number in (0, 1), got 1."),
      ("a share and a column", {**_DOCUMENT, "test_share": 0.5, "split_column": "part"},
       "`test_share` must be left out with `split_column`, got 0.5."),
      ("header found out", _changed(["header"], "auto"),
       "`header` must be one of yes, no, got 'auto'."),
      ("no header", _changed(["header"], None), "`header` must be given, got None."),
      ("names without a header", _changed(["header"], "no") | {"separator": ","},
       "`features[0].name` must be column_1, column_2, or so on with `header` no, got 'age'."),
      ("a separator found out in rows", _changed(["header"], "no"),
       "`separator` must be given with `header` no, got None."),
      ("a long separator", {**_DOCUMENT, "separator": "::"},
       "`separator` must be one character, got '::'."),
      ("a number as separator", {**_DOCUMENT, "separator": 0},
       "`separator` must be one character, got 0."),
      ("another decimal mark", {**_DOCUMENT, "decimal": "'"},
       "`decimal` must be one of ., ,, got \"'\"."),
      ("one mark for both", {**_DOCUMENT, "separator": ",", "decimal": ","},
       "`separator` must differ from `decimal`, got ','."),
      ("a number as note", _changed(["note"], 1), "`note` must be text, got 1."),
      ("a key too many", {**_DOCUMENT, "labels": ["a"]},
       "`schema` must have no keys but note, features, label_column, classes, "),
  )
  def test_faults(self, document, message):
    path = self.create_tempfile().full_path
    with open(path, "w", encoding="utf-8") as file:
      json.dump(document, file)
    with self.assertRaises(ValueError) as caught:
      schema_lib.Schema.read(path)
    beginning = f"`schema` must follow the format of schemas, got {path!r}: "
    self.assertStartsWith(str(caught.exception), (beginning + message).rstrip("."))
    self.assertEndsWith(str(caught.exception), ".")
    self.assertLen(str(caught.exception).splitlines(), 1)

  @parameterized.named_parameters(
      ("no JSON", b"{", "Expecting property name"),
      ("no text", b"\xff", "can't decode byte 0xff"),
      ("a key twice", b'{"header": "yes", "header": "no"}',
       "`header` must be a key once, got \\['yes', 'no'\\]"),
      ("much in each other", b"[" * 100_000, "recursion"),
  )
  def test_files_that_hold_no_schema(self, content, message):
    path = self.create_tempfile(content=content, mode="wb").full_path
    with self.assertRaisesRegex(
        ValueError, f"^`schema` must follow the format of schemas, got {path!r}: .*{message}.*$"
    ):
      schema_lib.Schema.read(path)

  def test_no_file(self):
    with self.assertRaisesRegex(
        ValueError, "^`schema` must be a file that can be read, got '/no/file': No such file or "
        "directory.$"):
      schema_lib.Schema.read("/no/file")

  def test_levels_in_python(self):
    schema = schema_lib.Schema.from_json(_DOCUMENT)
    with self.assertRaisesRegex(ValueError, "`classes` must hold '1' instead, got '01'"):
      dataclasses.replace(schema, classes=("01", "2"))
    with self.assertRaisesRegex(ValueError, "`label_column` must be text .*, got None"):
      dataclasses.replace(schema, label_column=None)


class DraftTest(parameterized.TestCase):

  def _folder(self, files):
    folder = self.create_tempdir().full_path
    for name, text in files.items():
      with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
    return folder

  def test_draft(self):
    folder = self._folder({
        "a.csv": "name;age;fixed;sex;ill;part\nu;1,5;7;m;1;train\nv;2,5;7;f;0;test\n",
        "b.csv": "name;age;fixed;sex;ill;part\nw;;7;;2.0;train\nx;8;7;f;1;test\n",
    })
    schema = schema_lib.draft(folder, table_options.TableOptions(
        exclude=("name",), categories=("sex",), missing="mean", label_column="ill",
        split_column="part", decimal=",",
    ))
    self.assertEqual(schema, schema_lib.Schema(
        note=schema.note,
        features=(
            schema_lib.Number("age", 4.0, np.std([1.5, 2.5, 8])), schema_lib.Number("fixed", 7.0, 1.0),
            schema_lib.Levels("sex", ("f", "m")),
        ),
        label_column="ill", classes=("0", "1", "2"), split_column="part", header="yes",
        separator=";", decimal=",",
    ))
    self.assertRegex(schema.note, "^Drafted from a sample of 4 rows.*sample must be public")
    path = self.create_tempfile().full_path
    schema.write(path)
    self.assertEqual(schema_lib.Schema.read(path), schema)
    clients = private_clients.load(schema, folder, 0)
    scaled = (np.array([1.5, 2.5]) - 4) / np.std([1.5, 2.5, 8])
    np.testing.assert_allclose(clients.train["a"].features, [[scaled[0], 0, 0, 1]], rtol=1e-6)
    np.testing.assert_allclose(clients.test["a"].features, [[scaled[1], 0, 1, 0]], rtol=1e-6)
    np.testing.assert_array_equal(clients.train["b"].features, [[0, 0, 0, 0]])
    np.testing.assert_array_equal(clients.train["b"].labels, [2])

  def test_files_without_names(self):
    folder = self._folder({"a.csv": "1|5|u\n2|7|v\n", "b.csv": "3|6|u\n"})
    options = table_options.TableOptions(label_column="column_3", header="no")
    schema = schema_lib.draft(folder, options, test_share=0.5)
    self.assertEqual((schema.header, schema.separator, schema.test_share), ("no", "|", 0.5))
    self.assertEqual(schema.feature_names, ("column_1", "column_2"))
    self.assertLen(private_clients.load(schema, folder, 0).train["a"], 1)

  def test_clients_that_share_a_table(self):
    folder = self._folder({"all.csv": "who,x,y\na,1,0\nb,2,3\n"})
    schema = schema_lib.draft(
        folder, table_options.TableOptions(client_column="who", label_column="y")
    )
    self.assertEqual(schema.client_column, "who")
    self.assertEqual(schema.classes, ("0", "3"))
    clients = private_clients.load(schema, folder, 0)
    self.assertEqual(clients.client_ids, ("a", "b"))
    self.assertEqual([clients.train[c].labels.tolist() for c in "ab"], [[0], [1]])

  def test_parquet(self):
    folder = self.create_tempdir().full_path
    pd.DataFrame({"x": [1.0, 3.0], "c": ["u", "v"], "y": [0, 1]}).to_parquet(
        os.path.join(folder, "a.parquet"))
    schema = schema_lib.draft(
        folder, table_options.TableOptions(categories=("c",), label_column="y"))
    self.assertEqual((schema.header, schema.separator), ("yes", None))
    clients = private_clients.load(schema, folder, 0)
    rows = np.concatenate([part["a"].features for part in (clients.train, clients.test)])
    np.testing.assert_array_equal(np.unique(rows, axis=0), [[-1, 1, 0], [1, 0, 1]])

  @parameterized.named_parameters(
      ("units", "x,y\n1 kg,0\n2 kg,1\n", "strip_units"),
      ("thousands", 'x,y\n"1,234.5",0\n2,1\n', "thousands"),
      ("titles", "Report\nx,y\n1,0\n2,1\n", "skip_lines"),
      ("thousands beside a fraction", 'x,y\n1.5,0\n"1,234",1\n', "thousands"),
  )
  def test_no_hint_at_what_a_schema_can_not_say(self, text, name):
    folder = self._folder({"a.csv": text})
    options = table_options.TableOptions(label_column="y")
    with self.assertRaisesRegex(
        ValueError, f"[^;]*a.csv': line [^;]*; a schema can't say --{name}, so the files must be ch"
    ) as caught:
      schema_lib.draft(folder, options)
    self.assertNotIn("Try:", str(caught.exception))

  @parameterized.named_parameters(
      ("no labels", {}, "`label_column` must be given for a schema"),
      ("indicators", {"label_column": "y", "missing": "indicator"},
       "`missing` must be error or mean for a schema, got 'indicator'"),
      ("a missing cell", {"label_column": "y"}, "column 'x' is empty; --missing=mean or"),
      ("one class", {"label_column": "z", "missing": "mean"}, "`classes` must hold at least 2"),
      ("another column", {"label_column": "u"}, "`label_column` must name columns of the tables"),
  )
  def test_samples_that_can_not_be_used(self, options, message):
    folder = self._folder({"a.csv": "x,y,z\n1,0,5\n,1,5\n"})
    with self.assertRaisesRegex(ValueError, message):
      schema_lib.draft(folder, table_options.TableOptions(**options))


if __name__ == "__main__":
  absltest.main()
