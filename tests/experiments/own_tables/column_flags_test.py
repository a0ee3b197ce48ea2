"""Tests for experiments.own_tables.column_flags."""

import os
import shlex
from unittest import mock

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver
from absl.testing import parameterized
import numpy as np

from experiments.own_tables import column_flags
from fl_clustering.tables import clients


class ColumnFlagsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["program"])
    self.enter_context(flagsaver.flagsaver())

  def _write(self, **files):
    for name, text in files.items():
      with open(os.path.join(self.folder, f"{name}.csv"), "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)

  def _open(self, *arguments):
    """Returns the clients of the folder, as programs open it."""
    flags.FLAGS(["program", *arguments])
    schema = column_flags.schema(self.folder)
    with column_flags.naming_draft(self.folder):
      return clients.open_folder(self.folder, schema)

  def _refusal(self, *arguments):
    with self.assertRaises(ValueError) as caught:
      self._open(*arguments)
    self.assertNotIn("\n", str(caught.exception))
    return str(caught.exception)

  def test_a_name_with_a_comma_in_quotes(self):
    self._write(a='"weight, kg","the ""x""",age\n5,u,40\n')
    excluded = '--exclude="weight, kg","the ""x"""'
    self.assertEqual(list(self._open(excluded)["a"]), ["age"])
    self._write(a='"weight, kg","the ""x""",age\n5,u,old\n')
    self.assertIn(excluded, shlex.split(self._refusal(excluded)))

  @parameterized.parameters(((), "y"), (("--label_column=x1",), "x1"))
  def test_y_of_arrays_is_no_feature(self, arguments, label):
    np.savez(os.path.join(self.folder, "a.npz"), x=np.ones((2, 3)), y=[3, 1])
    flags.FLAGS(["program", *arguments])
    schema = column_flags.schema(self.folder)
    self.assertEqual(schema.label, label)
    self.assertNotIn("y", schema.feature_names)

  # What a schema by `draft_schema` may mend, and what none does.
  @parameterized.parameters(
      ("x;y\n1;2\n", True, ()), ("x,y\n1,old\n", True, ()), ("x,y\n1,\n", True, ()),
      ('"x";"y"\n1;2\n', True, ()), ("x;y\n1,5;2\n", True, ()),
      ("x;y\n1;2\n", True, ("--label_column=y",)), ("x,y\n1,2,3\n", False, ()),
      ("0,1\n1,2\n", True, ()), ("x,\n1,2\n", False, ()),
      ("# made by x\nx,y\n1,2\n", False, ()), ('x,y\n"1\n",2\n', False, ()),
      (b"x,y\n1,\xff\n", False, ()), (b"x\xff,y\n1,2\n", False, ()), ("x,y\n1,2\0\n", False, ()),
      ("x,y\n1,2\n\n3,4\n", False, ()), ("", False, ()), ("x,y\n", False, ()),
      ("x,y\n1,2\n3,2\n", False, ("--row_key=y",)), ("x,y\n1,\n", False, ("--label_column=y",)),
      ("x,y\n1,no\n", False, ("--split_column=y",)),
  )
  def test_a_draft_is_offered_where_it_may_help(self, text, is_offered, arguments):
    self._write(a=text)
    self.assertEqual("draft_schema" in self._refusal(*arguments), is_offered)

  def test_the_command_is_one_of_where_the_program_runs(self):
    self._write(a="x;y\n1;2\n")
    with mock.patch.dict(os.environ, {"BUILD_WORKING_DIRECTORY": "/"}):
      self.assertIn("; ./bazelw run experiments:draft_schema -- ", self._refusal())
    with mock.patch.dict(os.environ):
      os.environ.pop("BUILD_WORKING_DIRECTORY", None)
      self.assertIn("; python -m experiments.draft_schema ", self._refusal())

  @parameterized.parameters(
      ("x,my id\n1,p7\n", True, ()), ("x,my id\n1,\n", False, ()), ("x;my id\n1;2\n", False, ()),
      ("x,my id\nold,p7\n", False, ("--row_key=my id",)),
  )
  def test_text_may_be_a_key(self, text, is_offered, arguments):
    self._write(a=text)
    self.assertEqual("'--row_key=my id' if" in self._refusal(*arguments), is_offered)

  @parameterized.parameters(
      "gro\u0308\u00dfe", "Gr\u00f6\u00dfe", "gr\u00f6\u00dfe ", "gr\u00f6\u00dfe\u200b"
  )
  def test_shows_the_name_that_looks_alike(self, name):
    self._write(a=f"{name},y\n1,2\n", b="gr\u00f6\u00dfe,y\n1,2\n")
    message = self._refusal()
    self.assertIn(ascii(name), message)
    self.assertNotIn("draft_schema", message)  # It would refuse them, too.
    self._write(b=f"{name},y\n1,2\n")
    for flag in ("label_column", "exclude"):
      message = self._refusal(f"--{flag}=gr\u00f6\u00dfe")
      self.assertIn(flag, message)
      self.assertIn(ascii(name), message)


if __name__ == "__main__":
  absltest.main()
