import os
import shlex
from unittest import mock

from absl import flags
from absl.testing import flagsaver
from absl.testing import parameterized
import numpy as np

from experiments.own_tables import column_flags
from fl_clustering.tables import folder
from fl_clustering.tables import schema as schema_lib


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
      return folder.open_folder(self.folder, {schema_lib.NO_VIEW: schema})

  def _refusal(self, *arguments):
    with self.assertRaises(ValueError) as caught:
      self._open(*arguments)
    self.assertNotIn("\n", str(caught.exception))
    return str(caught.exception)

  def test_a_name_with_a_comma_in_quotes(self):
    self._write(a='"weight, kg","the ""x""",age\n5,u,40\n')
    excluded = '--exclude="weight, kg","the ""x"""'
    self.assertEqual(self._open(excluded).schemas[schema_lib.NO_VIEW].feature_names, ("age",))
    self._write(a='"weight, kg","the ""x""",age\n5,u,old\n')
    self.assertIn(excluded, shlex.split(self._refusal(excluded)))

  @parameterized.parameters(((), "y"), (("--label_column=x1",), "x1"))
  def test_y_of_arrays_is_no_feature(self, arguments, label):
    np.savez(os.path.join(self.folder, "a.npz"), x=np.ones((2, 3)), y=[3, 1])
    flags.FLAGS(["program", *arguments])
    schema = column_flags.schema(self.folder)
    self.assertEqual(schema.label, label)
    self.assertNotIn("y", schema.feature_names)

  @parameterized.parameters(
      ("x;y\n1;2\n",), ("x,y\n1,old\n",), ("x,y\n1,\n",), ('"x";"y"\n1;2\n',), ("x;y\n1,5;2\n",),
      ("x;y\n1;2\n", "--label_column=y"), ("0,1\n1,2\n",),
  )
  def test_a_draft_is_offered(self, text, *arguments):
    self._write(a=text)
    self.assertIn("draft_schema", self._refusal(*arguments))

  @parameterized.product(
      text=("x;y\n1;2\n", '"x";"y"\n1;2\n'), arguments=((), ("--label_column=y",))
  )
  def test_a_delimiter_that_only_a_schema_can_say_is_named(self, text, arguments):
    self._write(a=text)
    self.assertRegex(self._refusal(*arguments), r"a\.csv, line 1: .*';'")

  @parameterized.parameters("id,size|cm", "t;C,h", "a|b|c,d")
  def test_other_delimiters_may_be_in_names(self, header):
    self._write(a=f"{header}\n1,2\n")
    flags.FLAGS(["program"])
    self.assertEqual(column_flags.schema(self.folder).feature_names, tuple(header.split(",")))

  def test_the_command_is_one_of_where_the_program_runs(self):
    self._write(a="x;y\n1;2\n")
    with mock.patch.dict(os.environ, {"BUILD_WORKING_DIRECTORY": "/"}):
      self.assertIn("; ./bazelw run experiments:draft_schema -- ", self._refusal())
    with mock.patch.dict(os.environ):
      os.environ.pop("BUILD_WORKING_DIRECTORY", None)
      self.assertIn("; python -m experiments.draft_schema ", self._refusal())

  def test_all_files_have_the_same_columns(self):
    self._write(a="x,y\n1,2\n", b="y,x,z\n1,2,3\n")
    self.assertIn("b.csv, line 1, column 'z'", self._refusal())
    self._write(b="y,x\n1,2\n")
    self.assertLen(self._open(), 2)
    self._write(b="y\n1\n")
    self.assertIn("b.csv, line 1, column 'x'", self._refusal())
