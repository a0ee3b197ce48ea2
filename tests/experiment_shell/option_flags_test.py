import dataclasses
import os
import time
from unittest import mock

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver
from absl.testing import parameterized

from clustering_basics import options
from experiment_shell import option_flags
from experiment_shell import program

_SIZES, _COLOR, _ROOMS, _FLOORS = (
    f"option_flags_test_{name}" for name in ("sizes", "color", "rooms", "floors")
)


@dataclasses.dataclass(frozen=True)
class _Config:
  option_flags_test_sizes: tuple[float, ...] = options.option(
      float, "Comma-separated sizes.", (0.5, 2.0), several=True
  )
  option_flags_test_color: str = options.option(
      str, "The color.", "red", values=("red", "blue"), default_text="as the house"
  )
  option_flags_test_rooms: int = options.option(int, "Number of rooms.", 4)
  option_flags_test_floors: int | str | None = options.option(
      int, "Number of floors.", None, word="auto"
  )
  title: str = "house"


option_flags.define(_Config, {_ROOMS: 9}, "Of a castle")


def _parsed(*arguments):
  flags.FLAGS(["program", *arguments])
  return option_flags.given(_Config)


class OptionFlagsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(flagsaver.flagsaver())

  def test_the_values_that_are_given_and_the_defaults_that_no_text_describes(self):
    self.assertEqual(_parsed(), {_SIZES: (0.5, 2.0)})
    self.assertEqual(
        _parsed(f"--{_SIZES}=3,.5", f"--{_COLOR}=blue", f"--{_ROOMS}=4", f"--{_FLOORS}=2"),
        {_SIZES: (3.0, 0.5), _COLOR: "blue", _ROOMS: 4, _FLOORS: 2},
    )
    self.assertEqual(option_flags.numbers(_SIZES), [3.0, 0.5])
    self.assertEqual(_parsed(f"--{_FLOORS}=auto")[_FLOORS], "auto")
    self.assertEqual(_parsed(f"--{_SIZES}=")[_SIZES], ())

  def test_values_that_the_option_can_not_have(self):
    for name in (_SIZES, _FLOORS):
      with flagsaver.flagsaver(), self.assertRaisesRegex(ValueError, f"`{name}`"):
        _parsed(f"--{name}=1,x")
    with self.assertRaisesRegex(flags.IllegalFlagValueError, _COLOR):
      _parsed(f"--{_COLOR}=green")

  def test_flags_to_leave_out(self):
    _parsed()
    option_flags.check_left_out((_SIZES, _COLOR), "here")
    _parsed(f"--{_SIZES}=1,2")
    with self.assertRaisesRegex(ValueError, f"`{_SIZES}` .*'1,2'"):
      option_flags.check_left_out((_SIZES, _COLOR), "here")


class OutputDirTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.addCleanup(os.chdir, os.getcwd())

  def test_new_folders_of_one_second_by_default(self):
    os.chdir(self.create_tempdir())
    with mock.patch.object(time, "strftime", return_value="20250102-030405"):
      found = [program.output_dir("dp_benchmark") for _ in range(3)]
    first = "results/dp_benchmark-20250102-030405"
    self.assertEqual(found, [first, f"{first}-2", f"{first}-3"])

  def test_no_folder_can_be_made(self):
    folder = self.create_tempdir()
    folder.create_file("results")
    os.chdir(folder)
    with self.assertRaisesRegex(ValueError, "`output_dir`"):
      program.output_dir("dp_benchmark")

  @parameterized.parameters("resume", "overwrite")
  def test_an_earlier_run_must_be_named(self, flag):
    with flagsaver.flagsaver(**{"output_dir": "out", flag: True}):
      self.assertEqual(program.output_dir("dp_benchmark"), "out")
    with flagsaver.flagsaver(**{flag: True}), self.assertRaisesRegex(ValueError, "`output_dir`"):
      program.output_dir("dp_benchmark")
