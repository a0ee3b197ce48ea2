import contextlib
import errno
import functools
import os
import resource
import signal
import subprocess
import textwrap
from unittest import mock

from absl.testing import parameterized

from experiment_shell import launch
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder
from tests.runtime import scripts

_PROGRAM = """
'''Sleeps.'''
import os, subprocess, sys, tempfile, time
from absl import flags
from experiment_shell import launch
import tqdm

flags.DEFINE_integer("number", 1, "A number.")


def main():
{body}


launch.run(main)
"""
_LINES = """
for _ in range(100_000):
  print("a line of text")
"""
_LINES_OF_RUN = f"""
with launch.run_errors("/results/run"):
{textwrap.indent(_LINES, "  ")}
"""
_WITH_FILES = """
for _ in range(2):
  tempfile.NamedTemporaryFile(delete=False).close()
subprocess.run([sys.executable, "-c", "import tempfile; tempfile.mkdtemp()"], check=True)
try:
  print("asleep", flush=True)
  time.sleep(10_000)
except KeyboardInterrupt:
  raise ValueError("lost the worker")  # As where a worker ends by the same Ctrl-C.
"""
_BARS = """
for _ in tqdm.trange(20, desc="bar"):
  time.sleep(0.05)
"""
_OF_RUN = functools.partial(launch.run_errors, "/results/run")


def _program(body):
  return _PROGRAM.format(body=textwrap.indent(body, "  "))


def _raising(error, guard=contextlib.nullcontext):
  """Returns a `main` that fails."""
  def main():
    with guard():
      raise error
  return main


class InProcessTest(parameterized.TestCase):

  @parameterized.parameters(
      (ValueError("`number` must be odd,\n got 2."), launch.input_errors, 2, "`number`"),
      (FileNotFoundError("no/such/file"), launch.input_errors, 2, "no/such/file"),
      (launch.RunFailed("the loss is nan in round 3."), contextlib.nullcontext, 1, "round 3"),
      (OSError(errno.ENOSPC, "No space"), _OF_RUN, 1, "/results/run; --resume"),
      (BrokenPipeError("that of a worker"), _OF_RUN, 1, "/results/run; --resume"),
      (ModuleNotFoundError("No module", name="tensorflow.python"), contextlib.nullcontext, 1,
       "tensorflow"),
      (ModuleNotFoundError("`nvflare` must be installed"), contextlib.nullcontext, 1, "nvflare"),
      (KeyboardInterrupt(), contextlib.nullcontext, 130, "interrupted"),
  )
  def test_a_failure_ends_with_one_line(self, error, guard, code, message):
    found, printed, errors = in_process.run_program(_raising(error, guard))
    self.assertEqual((found, printed), (code, ""))
    self.assertLen(errors.splitlines(), 1, errors)
    self.assertIn(message, errors)

  @parameterized.parameters(("--numbr=3", "numbr"), ("three", "three"), ("--flagfile=no", "no"))
  def test_bad_flags_end_with_one_line(self, argument, word):
    code, printed, errors = in_process.run_program(lambda: None, argument)
    self.assertEqual((code, printed), (2, ""))
    self.assertLen(errors.splitlines(), 1, errors)
    self.assertIn(word, errors)

  def test_what_nobody_expects_keeps_its_traceback(self):
    with self.assertRaisesRegex(ValueError, "nobody"):
      in_process.run_program(_raising(ValueError("nobody expected this")))


class LaunchTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.enter_context(mock.patch.dict(os.environ))
    # As of a user: Python buffers its output, and Matplotlib sets its own where there is no home.
    for name in ("PYTHONUNBUFFERED", "MPLCONFIGDIR"):
      os.environ.pop(name, None)

  def _run(self, body, *arguments, environment=None, **options):
    """Runs a program; returns its code, and what it printed."""
    with mock.patch.dict(os.environ, environment or {}):
      return run_folder.ended("-c", _program(body), *arguments, **options)

  def _start(self, program):
    """Starts a program and waits until it says that it is asleep."""
    process = self.enter_context(run_folder.started("-c", program))
    self.assertEqual(process.stdout.readline(), "asleep\n")
    return process

  def test_runs_where_the_user_stands(self):
    folder = os.path.realpath(self.folder)
    body = "print(flags.FLAGS.number, os.getcwd())"
    found = self._run(body, "--number=3", environment={"BUILD_WORKING_DIRECTORY": folder})
    self.assertEqual(found[:2], (0, f"3 {folder}\n"))

  def test_an_ignored_signal_stays_ignored(self):
    # As in a shell script that puts the program into the background, and by `nohup`.
    numbers = signal.SIGINT, signal.SIGHUP
    ignored = "".join(f"signal.signal({int(one)}, signal.SIG_IGN)\n" for one in numbers)
    process = self._start("import signal\n" + ignored + _program(_WITH_FILES))
    for number in numbers:
      process.send_signal(number)
    with self.assertRaises(subprocess.TimeoutExpired):
      process.wait(0.5)
    process.kill()

  @parameterized.parameters((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129))
  def test_ends_with_one_line_by_a_signal_and_leaves_no_temporary_file(self, number, code):
    with mock.patch.dict(os.environ, {"TMPDIR": self.folder}):
      process = self._start(_program(_WITH_FILES))
    (folder,) = os.listdir(self.folder)
    self.assertLen(os.listdir(os.path.join(self.folder, folder)), 3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=scripts.TIMEOUT_SECONDS)
    self.assertEqual(process.returncode, code, errors)
    self.assertRegex(errors, "^interrupted.*\n$")
    self.assertEmpty(os.listdir(self.folder))

  @parameterized.parameters(("/no/such", None), (os.fsdecode(b"caf\xe9"), None), ("", 0))
  def test_no_room_for_temporary_files(self, name, most_bytes):
    folder = os.path.join(self.folder, name)
    if not name.startswith("/"):
      os.makedirs(folder, exist_ok=True)
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    options = {} if most_bytes is None else {"preexec_fn": limit}
    code, _, errors = self._run("pass", environment={"TMPDIR": folder}, **options)
    self.assertEqual(code, 2, errors)
    self.assertRegex(errors, "^error: `TMPDIR` .*\n$")

  def test_figures_are_drawn_whatever_matplotlib_is_told(self):
    settings = os.path.join(self.folder, "matplotlibrc")
    with open(settings, "wb") as file:
      file.write(b"font.family: \xff")
    environment = {"MPLBACKEND": "not_installed_here", "MATPLOTLIBRC": settings}
    code, _, errors = self._run(
        "from experiment_shell import figure_style", environment=environment
    )
    self.assertEqual(code, 0, errors)

  def test_any_letters_can_be_printed(self):
    code, _, errors = self._run(
        'print("größer – 中文 \\udce9")', environment={"PYTHONIOENCODING": "ascii"}
    )
    self.assertEqual(code, 0, errors)

  @parameterized.parameters(
      (_LINES, (), 141), ("pass", ("--helpfull",), 141),
      ("raise launch.RunFailed('the loss is nan')", (), 1),
  )
  def test_nobody_reads_the_output_anymore(self, body, arguments, code):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as stdout:
      found, _, errors = self._run(body, *arguments, stdout=stdout)
    self.assertEqual(found, code, errors)
    self.assertLen(errors.splitlines(), int(code == 1), errors)

  @parameterized.parameters(_LINES_OF_RUN, "print(1)")
  def test_output_to_a_full_disk(self, body):
    with open("/dev/full", "w", encoding="utf-8") as full:
      code, _, errors = self._run(body, stdout=full)
    self.assertEqual(code, 1, errors)
    self.assertRegex(errors, "^error: .*No space left on device.*\n$")
    self.assertEqual("--resume" in errors, body == _LINES_OF_RUN)

  @parameterized.parameters(({}, False), ({"TQDM_DELAY": "0.2", "TQDM_MININTERVAL": "0.4"}, True))
  def test_bars_in_a_pipe(self, changes, has_bars):
    _, _, errors = self._run(_BARS, environment=changes)
    self.assertEqual("bar" in errors, has_bars)

  @parameterized.parameters(("--help", False), ("--helpfull", True))
  def test_help_is_the_docstring_with_the_programs_own_flags_or_all(self, argument, has_all):
    code, printed, _ = self._run("pass", argument)
    self.assertEqual(code, 0)
    self.assertRegex(printed, r"^Sleeps\.\n[^$]*--number: A number\.")
    self.assertEqual("--[no]logtostderr" in printed, has_all)
