import contextlib
import io
import sys
from unittest import mock

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver

from experiment_shell import program_help

flags.DEFINE_string("colour", None, "Colour of the thing. It is seen from far away.")
flags.DEFINE_enum("size", "m", ["m", "xl"], "`m`: medium; `xl`: very large, for those who like it.")
flags.DEFINE_integer("weight", None, "Weight " + "in grams or so " * 20 + ".")
flags.DEFINE_bool("shiny", False, "Whether it shines.")

_HELP = program_help.Help(
    {"output": ("shiny",), "data": ("colour", "size")},
    {"privacy": ("shiny",), "data": ("weight", "colour")},
)
_DOCSTRING = """A thing.

  make thing

More about it.
"""


class ProgramHelpTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(mock.patch.object(sys.modules["__main__"], "__doc__", _DOCSTRING))

  def test_a_flag_has_one_topic_and_those_used_most_come_first(self):
    self.assertEqual(
        _HELP.names(), {"data": ["colour", "size", "weight"], "output": ["shiny"]}
    )

  def test_help_is_short(self):
    self.assertEqual(program_help.short_text(_HELP), """A thing.

  make thing

The flags used most; --helpfull explains all 4.
output:
  --shiny                 Whether it shines.
data:
  --colour                Colour of the thing.
  --size=m                One of: m, xl.""")

  def test_a_long_text_takes_two_lines(self):
    text = program_help.short_text(program_help.Help({"data": ("weight",)}, {}))
    *_, first, second = text.splitlines()
    self.assertStartsWith(first, "  --weight                Weight in grams or so")
    self.assertEndsWith(second, " ...")
    self.assertLessEqual(max(map(len, (first, second))), 80)

  def test_helpfull_explains_all_by_topic(self):
    text = program_help.full_text(_HELP)
    before, of_data = text.split("data:\n")
    of_data, of_output = of_data.split("output:\n")
    self.assertStartsWith(before, "A thing.\n\n  make thing\n\nMore about it.")
    self.assertIn("It is seen from far away.", of_data)
    self.assertIn("very large, for those who like it", of_data)
    self.assertIn("--weight", of_data)
    of_output, of_all = of_output.split("of all programs:\n")
    self.assertIn("--[no]shiny", of_output)
    self.assertNotIn("--colour", of_all)

  @flagsaver.flagsaver
  def test_the_flag_ends_the_program(self):
    values = flags.FlagValues()
    with mock.patch.object(flags, "DEFINE_flag", lambda flag: values.__setitem__(flag.name, flag)):
      program_help.define_flags(_HELP)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
      with self.assertRaises(SystemExit) as ended:
        values(["program", "--help"])
    self.assertEqual(ended.exception.code, 0)
    self.assertEqual(printed.getvalue(), program_help.short_text(_HELP) + "\n")


if __name__ == "__main__":
  absltest.main()
