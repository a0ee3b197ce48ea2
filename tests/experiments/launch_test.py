import os
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

_PROGRAM = """
import os
from absl import flags
from experiments import launch

flags.DEFINE_integer("number", 1, "A number.")
flags.DEFINE_string("fault", "", "What goes wrong.")


def main():
  fault = flags.FLAGS.fault
  if fault == "value":
    with launch.input_errors():
      raise ValueError("`number` must be odd,\\n got 2.")
  if fault == "file":
    with launch.input_errors():
      open("no/such/file")
  if fault == "disk":
    with launch.run_errors("/results/run"):
      raise OSError("No space left on device")
  if fault == "loss":
    with launch.run_errors("/results/run", ArithmeticError):
      raise ArithmeticError("the loss is nan.")
  if fault == "run":
    raise launch.RunFailed("the loss is nan in round 3.")
  if fault == "interrupt":
    raise KeyboardInterrupt
  if fault == "bug":
    raise ValueError("nobody expected this")
  print(flags.FLAGS.number, os.getcwd())


launch.run(main)
"""


class LaunchTest(parameterized.TestCase):

  def _run(self, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )

  def test_runs_where_the_user_stands(self):
    folder = os.path.realpath(self.create_tempdir().full_path)
    result = self._run("--number=3", BUILD_WORKING_DIRECTORY=folder)
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertEqual(result.stdout, f"3 {folder}\n")

  @parameterized.named_parameters(
      ("unknown_flag", ["--numbr=3"], 2, "numbr"),
      ("bad_flag", ["--number=three"], 2, "number"),
      ("argument", ["three"], 2, "'three'"),
      ("value", ["--fault=value"], 2, "`number` must be odd, got 2."),
      ("file", ["--fault=file"], 2, "no/such/file"),
      ("run", ["--fault=run"], 1, "the loss is nan in round 3."),
      ("disk", ["--fault=disk"], 1, "error: No space left on device. What was computed is in "
       "/results/run; --resume goes on from there."),
      ("loss", ["--fault=loss"], 1, "error: the loss is nan. What was computed is in "),
      ("interrupt", ["--fault=interrupt"], 130, "interrupted"),
  )
  def test_ends_with_one_line(self, arguments, code, message):
    result = self._run(*arguments)
    self.assertEqual(result.returncode, code)
    self.assertEqual(result.stdout, "")
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertIn(message, result.stderr)

  def test_a_bug_keeps_its_traceback(self):
    result = self._run("--fault=bug")
    self.assertEqual(result.returncode, 1)
    self.assertIn("Traceback", result.stderr)

  def test_help_is_no_error(self):
    result = self._run("--helpfull")
    self.assertEqual(result.returncode, 0)
    self.assertIn("A number.", result.stdout)


if __name__ == "__main__":
  absltest.main()
