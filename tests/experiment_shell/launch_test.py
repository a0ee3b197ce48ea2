import functools
import os
import resource
import signal
import subprocess
import sys
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

_PROGRAM = """
import errno
import os
import subprocess
import sys
import tempfile
import time
from absl import flags
from experiment_shell import launch

flags.DEFINE_integer("number", 1, "A number.")
flags.DEFINE_bool("switch", False, "A switch.")
flags.DEFINE_string("fault", "", "What goes wrong.")


def print_lines():
  for _ in range(100_000):
    print("a line of text")


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
      raise OSError(errno.ENOSPC, "No space left on device")
  if fault == "worker_pipe":
    with launch.run_errors("/results/run"):
      raise BrokenPipeError("that of a worker")
  if fault == "run":
    raise launch.RunFailed("the loss is nan in round 3.")
  if fault == "extra":
    raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow.python")
  if fault == "bug":
    raise ValueError("nobody expected this")
  if fault == "interrupt":
    raise KeyboardInterrupt
  if fault == "letters":
    print("größer – 中文 \\udce9")
  if fault == "lines":
    print_lines()
  if fault == "run_lines":
    with launch.run_errors("/results/run"):
      print_lines()
  if fault == "files":
    for _ in range(2):
      tempfile.NamedTemporaryFile(delete=False).close()
    subprocess.run([sys.executable, "-c", "import tempfile; tempfile.mkdtemp()"], check=True)
    try:
      print("asleep", flush=True)
      time.sleep(flags.FLAGS.number)
    except KeyboardInterrupt:
      # As where a worker ends by the same Ctrl-C.
      raise ValueError("lost the worker")
  print(flags.FLAGS.number, os.getcwd())


launch.run(main)
"""
_BARS = """
import time
from experiment_shell import launch
import tqdm


def main():
  for _ in tqdm.trange(20, desc="bar"):
    time.sleep(0.05)


launch.run(main)
"""


def _environment():
  """Returns a program's environment: it finds modules here, and buffers its output."""
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
  # Matplotlib sets its own one where there is no home.
  for name in ("PYTHONUNBUFFERED", "MPLCONFIGDIR"):
    environment.pop(name, None)
  return environment


class LaunchTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _run(self, *arguments, program=_PROGRAM, stdout=subprocess.PIPE, options=None, **environment):
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], check=False, stdout=stdout,
        stderr=subprocess.PIPE, text=True, env={**_environment(), **environment}, **(options or {}),
    )

  def _start(self, *arguments, program=_PROGRAM):
    """Starts a program and waits until it says that it is asleep."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=_environment(),
    )
    self.enter_context(process)
    self.assertEqual(process.stdout.readline(), "asleep\n")
    return process

  def test_runs_where_the_user_stands(self):
    folder = os.path.realpath(self.folder)
    result = self._run("--number=3", BUILD_WORKING_DIRECTORY=folder)
    self.assertEqual((result.returncode, result.stdout), (0, f"3 {folder}\n"), result.stderr)

  @parameterized.parameters(
      ("--numbr=3", 2, "numbr"), ("three", 2, "'three'"), ("--flagfile=no/file", 2, "no/file"),
      ("--fault=value", 2, "`number`"), ("--fault=file", 2, "no/such/file"),
      ("--fault=run", 1, "round 3"), ("--fault=disk", 1, "/results/run; --resume"),
      ("--fault=worker_pipe", 1, "/results/run; --resume"), ("--fault=extra", 1, "tensorflow"),
      ("--fault=interrupt", 130, "interrupted"),
  )
  def test_ends_with_one_line(self, argument, code, message):
    result = self._run(argument)
    self.assertEqual((result.returncode, result.stdout), (code, ""))
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertIn(message, result.stderr)

  def test_what_nobody_expects_keeps_its_traceback(self):
    result = self._run("--fault=bug")
    self.assertEqual(result.returncode, 1)
    self.assertIn("Traceback", result.stderr)

  def test_an_ignored_interrupt_stays_ignored(self):
    # As in a shell script that puts the program into the background.
    program = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + _PROGRAM
    process = self._start("--fault=files", "--number=60", program=program)
    process.send_signal(signal.SIGINT)
    with self.assertRaises(subprocess.TimeoutExpired):
      process.wait(0.5)
    process.kill()

  @parameterized.parameters((signal.SIGINT, 130), (signal.SIGTERM, 143))
  def test_ends_with_one_line_by_a_signal_and_leaves_no_temporary_file(self, number, code):
    with mock.patch.dict(os.environ, {"TMPDIR": self.folder}):
      process = self._start("--fault=files", "--number=60")
    (folder,) = os.listdir(self.folder)
    self.assertLen(os.listdir(os.path.join(self.folder, folder)), 3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=50)
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
    result = self._run(options=options, TMPDIR=folder)
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertRegex(result.stderr, "^error: `TMPDIR` .*\n$")

  def test_any_letters_can_be_printed(self):
    result = self._run("--fault=letters", PYTHONIOENCODING="ascii")
    self.assertEqual(result.returncode, 0, result.stderr)

  @parameterized.parameters(("--fault=lines", 141), ("--helpfull", 141), ("--fault=run", 1))
  def test_nobody_reads_the_output_anymore(self, argument, code):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as stdout:
      result = self._run(argument, stdout=stdout)
    self.assertEqual(result.returncode, code, result.stderr)
    self.assertLen(result.stderr.splitlines(), int(code == 1), result.stderr)

  @parameterized.parameters("--fault=run_lines", "--number=1")
  def test_output_to_a_full_disk(self, argument):
    with open("/dev/full", "w", encoding="utf-8") as full:
      result = self._run(argument, stdout=full)
    self.assertEqual(result.returncode, 1, result.stderr)
    self.assertRegex(result.stderr, "^error: .*No space left on device.*\n$")
    self.assertEqual("--resume" in result.stderr, argument == "--fault=run_lines")

  @parameterized.parameters(({}, False), ({"TQDM_DELAY": "0.2", "TQDM_MININTERVAL": "0.4"}, True))
  def test_bars_in_a_pipe(self, changes, has_bars):
    self.assertEqual("bar" in self._run(program=_BARS, **changes).stderr, has_bars)

  def test_help_explains_the_flags_used_most_or_all(self):
    program = _PROGRAM.replace("launch.run(main)", "launch.run(main, ['number'])")
    for argument, has_all in (("--help", False), ("--helpfull", True)):
      result = self._run(argument, program=program)
      self.assertEqual(result.returncode, 0)
      self.assertIn("A number.", result.stdout)
      self.assertEqual("switch" in result.stdout, has_all)


if __name__ == "__main__":
  absltest.main()
