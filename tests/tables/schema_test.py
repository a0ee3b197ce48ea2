import json
import os

from absl.testing import parameterized

from fl_clustering.tables import schema as schema_lib

_DOCUMENT = {
    "fields": [
        {"name": "patient", "type": "string"},
        {"name": "age", "type": "number", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "beds", "type": "integer", "center": 10, "scale": 5, "title": "of the ward"},
        {"name": "smoker", "type": "string", "constraints": {"enum": ["no", "yes"]}},
        {"name": "urgent", "type": "boolean"},
        {"name": "diagnosis", "type": "string", "constraints": {"enum": ["0", "1.5", "ill"]}},
    ],
    "primaryKey": "patient", "label": "diagnosis", "missingValues": ["", "NA"], "missing": "mean",
    "dialect": {"delimiter": ";", "decimalChar": ","}, "title": "Patients",
}


def _changed(*path, value=None):
  """Returns the document with another value at a place, or without one."""
  document = json.loads(json.dumps(_DOCUMENT))
  *above, last = path
  part = document
  for key in above:
    part = part.setdefault(key, {}) if isinstance(part, dict) else part[key]
  if value is None:
    del part[last]
  else:
    part[last] = value
  return document


class SchemaTest(parameterized.TestCase):

  def test_reads_a_document(self):
    schema = schema_lib.Schema.from_json(_DOCUMENT)
    self.assertEqual(
        schema.feature_names, ("age", "beds", "smoker=no", "smoker=yes", "urgent")
    )
    self.assertEqual(schema.classes, ("0", "1.5", "ill"))
    self.assertEqual(schema.roles, {"label": "diagnosis", "key": "patient"})
    self.assertEqual((schema.delimiter, schema.decimal, schema.missing), (";", ",", "mean"))
    scalings = [field.public_scaling for field in schema.features]
    # Each of two levels that are equally likely has a variance of a quarter.
    self.assertEqual(scalings, [(60, 60), (10, 5), (0, 0.5**0.5), (0.5, 0.5)])
    for levels, variance in (("a", 1), ("abcd", 3 / 4), ("abcde", 4 / 5)):
      field = schema_lib.Field("ward", "string", enum=tuple(levels))
      self.assertAlmostEqual(field.public_scaling[1] ** 2, variance)
    self.assertEqual(schema.field_widths, (1, 1, 2, 1))
    schema.check_private()
    self.assertEqual(schema_lib.Schema.from_json(schema.to_json()), schema)

  def test_files(self):
    schema = schema_lib.Schema.from_json(_DOCUMENT)
    path = os.path.join(self.create_tempdir(), "schema.json")
    schema.write(path)
    self.assertEqual(schema_lib.load(path), schema)
    with open(path, "r+", encoding="utf-8-sig") as file:
      text = file.read()
      file.seek(0)
      file.write(text)
    self.assertEqual(schema_lib.load(path), schema)

  # Of a document, and the key that the error names.
  @parameterized.parameters(
      ([], "schema"), ({}, "fields"), (_changed("fields", value={}), "fields"),
      (_changed("fields", value=[]), "fields"), (_changed("foreignKeys", value=[]), "foreignKeys"),
      (_changed("fields", 2, value="beds"), r"fields\[2\]"),
      (_changed("fields", 2, "name"), r"fields\[2\].*name"),
      (_changed("fields", 0, "name", value=""), "fields"),
      (_changed("fields", 3, "constraints", "enum", value=["NA", "no"]), r"\[smoker\].*enum.*NA"),
      (_changed("fields", 1, "type"), r"fields\[age\].*type"),
      (_changed("fields", 1, "type", value="date"), r"fields\[age\].type"),
      (_changed("fields", 1, "format", value="default"), r"fields\[age\].*format"),
      (_changed("fields", 1, "constraints", value=[]), r"fields\[age\].constraints"),
      (_changed("fields", 1, "constraints", "pattern", value="x"), r"\[age\].*pattern"),
      (_changed("fields", 1, "constraints", "minimum", value="0"), r"\[age\].*minimum"),
      (_changed("fields", 1, "constraints", "minimum", value=120), r"\[age\].*maximum"),
      (_changed("fields", 1, "constraints", value={"minimum": 0, "maximum": 5e-324}), "maximum"),
      (_changed("fields", 1, "name", value="smoker=no"), "fields.*smoker=no"),
      (_changed("fields", 1, "constraints", "minimum", value=float("nan")), r"\[age\].*minimum"),
      (_changed("fields", 1, "constraints", "enum", value=["1"]), r"\[age\].*enum"),
      (_changed("fields", 2, "scale"), r"\[beds\].scale"),
      *((_changed("fields", 2, "scale", value=v), r"\[beds\].scale") for v in (0.0, 1e-101)),
      (_changed("fields", 2, "center", value=True), r"\[beds\].center"),
      (_changed("fields", 3, "constraints"), r"\[smoker\].constraints.enum"),
      (_changed("fields", 3, "constraints", "enum", value=[]), r"\[smoker\].*enum"),
      (_changed("fields", 3, "constraints", "enum", value=["no", "no"]), r"\[smoker\].*enum"),
      (_changed("fields", 3, "constraints", "enum", value=["no", ""]), r"\[smoker\].*enum"),
      (_changed("fields", 3, "constraints", "enum", value=["no", None]), r"\[smoker\].*enum"),
      (_changed("fields", 3, "constraints", "enum", value="no"), r"\[smoker\].*enum"),
      (_changed("fields", 3, "constraints", "minimum", value=1), r"\[smoker\].*minimum"),
      (_changed("fields", 4, "center", value=1), r"\[urgent\].center"),
      (_changed("fields", 2, "name", value="age"), "fields"),
      (_changed("primaryKey", value="id"), "primaryKey"),
      (_changed("primaryKey", value=["patient", "age"]), "primaryKey"),
      *(({**_DOCUMENT, role: "beds"}, rf"\[beds\].type.*{role}") for role in (
          "primaryKey", "client", "split", "label")),
      (_changed("fields", 3, "constraints", "enum", value=["1", 2]), r"\[smoker\].*enum"),
      (_changed("label", value="patient"), "primaryKey"), (_changed("split", value=1), "split"),
      (_changed("missingValues", value=""), "missingValues"),
      (_changed("missingValues", value=[-999]), "missingValues"),
      (_changed("missing", value="median"), "missing"), (_changed("dialect", value=";"), "dialect"),
      (_changed("dialect", "quoteChar", value="'"), "quoteChar"),
      *((_changed("dialect", "delimiter", value=v), "delimiter")
        for v in (";;", "1", "e", "-", ".")),
      (_changed("dialect", "decimalChar", value="'"), "decimalChar"),
  )
  def test_refuses(self, document, key):
    with self.assertRaisesRegex(ValueError, key):
      schema_lib.Schema.from_json(document)

  @parameterized.parameters(
      "", "{", json.dumps(_DOCUMENT).replace('"label"', '"label": "smoker", "label"', 1),
      "[" * 100_000,
  )
  def test_refuses_files(self, text):
    path = self.create_tempfile(content=text).full_path
    with self.assertRaisesRegex(ValueError, "schema"):
      schema_lib.load(path)
    with self.assertRaisesRegex(ValueError, "schema"):
      schema_lib.load(os.path.dirname(path))

  @parameterized.parameters(
      ("age", {"constraints": {"minimum": 0}}, r"\[age\]\.constraints.*got {'minimum': 0}"),
      ("age", {}, r"\[age\]\.constraints.*got None"), ("diagnosis", {}, "diagnosis"),
      ("age", {"constraints": {"minimum": 80}, "center": 20, "scale": 10}, r"\[age\]\.center"),
      ("age", {"constraints": {"maximum": 20}, "center": 80, "scale": 10}, r"\[age\]\.center"),
  )
  def test_private_runs_ask_for_all_that_is_public(self, name, rest, shown):
    fields = [
        {"name": name, "type": field["type"], **rest} if field["name"] == name else field
        for field in _DOCUMENT["fields"]
    ]
    schema = schema_lib.Schema.from_json({**_DOCUMENT, "fields": fields})
    with self.assertRaisesRegex(ValueError, shown):
      schema.check_private()

  def test_strict(self):
    schema = schema_lib.strict(
        ("a", "who", "b", "id", "y"), label="y", client="who", key="id", exclude=("b",)
    )
    self.assertEqual(schema.feature_names, ("a",))
    self.assertEqual(schema.roles, {"label": "y", "client": "who", "key": "id"})
    self.assertEqual(schema.without("label", "split").roles, {"client": "who", "key": "id"})
    with self.assertRaisesRegex(ValueError, "exclude"):
      schema_lib.strict(("a",), exclude=("b",))
    with self.assertRaisesRegex(ValueError, "label"):
      schema_lib.strict(("a",), label="b")
    with self.assertRaisesRegex(ValueError, "fields"):
      schema_lib.strict(("a",), label="a")

  def test_names_are_not_numbers_alone(self):
    self.assertEqual(schema_lib.strict(("1", "2.5", "a")).feature_names, ("1", "2.5", "a"))
    self.assertLen(schema_lib.strict(("2019_1", "2019_2", "inf")).fields, 3)
    with self.assertRaisesRegex(ValueError, "names"):
      schema_lib.strict(("1", "-2.5e3", " 7"))
