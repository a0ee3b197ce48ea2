import dataclasses

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver
from absl.testing import parameterized

from clustering_basics import options
from experiment_shell import option_flags


@dataclasses.dataclass(frozen=True)
class _Config:
  sizes: tuple[float, ...] = options.option(
      float, "Comma-separated sizes.", (0.5, 2.0), several=True, flag="option_flags_test_size"
  )
  option_flags_test_color: str = options.option(
      str, "The color.", "red", values=("red", "blue"), default_text="as the house"
  )
  option_flags_test_rooms: int = options.option(int, "Number of rooms.", 4)
  title: str = "house"


option_flags.define(_Config, {"option_flags_test_rooms": 9}, "Of a castle")


def _parsed(*arguments):
  flags.FLAGS(["program", *arguments])
  return option_flags.given(_Config)


class OptionFlagsTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(flagsaver.flagsaver())

  def test_without_flags_the_defaults_that_no_text_describes(self):
    self.assertEqual(_parsed(), {"sizes": (0.5, 2.0)})

  def test_the_values_that_are_given_by_field(self):
    self.assertEqual(
        _parsed("--option_flags_test_size=3,.5", "--option_flags_test_color=blue"),
        {"sizes": (3.0, 0.5), "option_flags_test_color": "blue"},
    )
    self.assertEqual(_parsed("--option_flags_test_size="), {
        "sizes": (), "option_flags_test_color": "blue",
    })

  def test_a_list_of_something_else(self):
    with self.assertRaisesRegex(ValueError, "`option_flags_test_size` must be numbers, got '1,x'"):
      _parsed("--option_flags_test_size=1,x")

  def test_a_value_that_the_option_can_not_have(self):
    with self.assertRaisesRegex(flags.IllegalFlagValueError, "option_flags_test_color=green"):
      _parsed("--option_flags_test_color=green")

  def test_help_says_the_default_where_the_flag_has_none(self):
    flag = flags.FLAGS["option_flags_test_color"]
    self.assertEndsWith(flag.help, "The color. Default: as the house.")
    self.assertIsNone(flag.default)

  def test_a_special_default_is_said_and_leaves_the_flag_without_value(self):
    flag = flags.FLAGS["option_flags_test_rooms"]
    self.assertEndsWith(flag.help, "Number of rooms. Default: 4. Of a castle: 9.")
    self.assertIsNone(flag.default)
    self.assertEqual(_parsed("--option_flags_test_rooms=4")["option_flags_test_rooms"], 4)

  @parameterized.parameters(("{!r}", "'1,2'"), ("{}", "1,2"))
  def test_flags_to_leave_out(self, form, shown):
    names = ("option_flags_test_size", "option_flags_test_color")
    _parsed()
    option_flags.check_left_out(names, "here")
    _parsed("--option_flags_test_size=1,2")
    with self.assertRaisesRegex(ValueError, f"`{names[0]}` must be left out here, got {shown}."):
      option_flags.check_left_out(names, "here", form)


if __name__ == "__main__":
  absltest.main()
