import fcntl
import functools
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import temporary_folder
from tests.experiment_shell import nfs

_PROGRAM = """
import atexit
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
  if fault == "loss":
    with launch.run_errors("/results/run", ArithmeticError):
      raise ArithmeticError("the loss is nan.")
  if fault == "worker_pipe":
    with launch.run_errors("/results/run"):
      raise BrokenPipeError("that of a worker")
  if fault == "run":
    raise launch.RunFailed("the loss is nan in round 3.")
  if fault == "extra":
    raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow.python")
  if fault == "module":
    raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
  if fault == "bug":
    raise ValueError("nobody expected this")
  if fault == "interrupt":
    raise KeyboardInterrupt
  if fault == "home":
    import matplotlib
    matplotlib.get_cachedir()
  if fault == "letters":
    print("größer – 中文 \\udce9")
  if fault == "lines":
    print_lines()
  if fault == "run_lines":
    with launch.run_errors("/results/run"):
      print_lines()
  if fault == "sleep":
    try:
      print("asleep", flush=True)
      time.sleep(60)
    except KeyboardInterrupt:
      # As where a worker ends by the same Ctrl-C.
      raise ValueError("lost the worker")
  if fault == "files":
    for _ in range(2):
      tempfile.NamedTemporaryFile(delete=False).close()
    subprocess.run([sys.executable, "-c", "import tempfile; tempfile.mkdtemp()"], check=True)
    print("asleep", flush=True)
    time.sleep(flags.FLAGS.number)
  if fault == "slow_end":
    atexit.register(time.sleep, 60)
    print("asleep", flush=True)
    time.sleep(60)
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
      ("--numbr=3", 2, "numbr"), ("--number=three", 2, "number"), ("three", 2, "'three'"),
      ("--noswitch=3", 2, "noswitch"), ("--flagfile=no/such.flags", 2, "no/such.flags"),
      ("--fault=value", 2, "`number`"), ("--fault=file", 2, "no/such/file"),
      ("--fault=run", 1, "round 3"), ("--fault=disk", 1, "/results/run; --resume"),
      ("--fault=loss", 1, "/results/run; --resume"),
      ("--fault=worker_pipe", 1, "/results/run; --resume"), ("--fault=extra", 1, "tensorflow"),
      ("--fault=interrupt", 130, "interrupted"),
  )
  def test_ends_with_one_line(self, argument, code, message):
    result = self._run(argument)
    self.assertEqual((result.returncode, result.stdout), (code, ""))
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertIn(message, result.stderr)

  @parameterized.parameters("bug", "module")
  def test_what_nobody_expects_keeps_its_traceback(self, fault):
    result = self._run(f"--fault={fault}")
    self.assertEqual(result.returncode, 1)
    self.assertIn("Traceback", result.stderr)

  @parameterized.product(fault=("sleep", "files"), signal_code=((signal.SIGINT, 130),
                                                               (signal.SIGTERM, 143)))
  def test_ends_with_one_line_by_a_signal(self, fault, signal_code):
    process = self._start(f"--fault={fault}", "--number=60")
    process.send_signal(signal_code[0])
    _, errors = process.communicate(timeout=50)
    self.assertEqual(process.returncode, signal_code[1], errors)
    self.assertRegex(errors, "^interrupted.*\n$")

  def test_asked_twice_it_ends_at_once(self):
    process = self._start("--fault=slow_end")
    process.send_signal(signal.SIGINT)
    self.assertStartsWith(process.stderr.readline(), "interrupted")
    process.send_signal(signal.SIGINT)
    self.assertEqual(process.wait(50), -signal.SIGINT)

  def test_an_ignored_interrupt_stays_ignored(self):
    # As in a shell script that puts the program into the background.
    program = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + _PROGRAM
    process = self._start("--fault=sleep", program=program)
    process.send_signal(signal.SIGINT)
    with self.assertRaises(subprocess.TimeoutExpired):
      process.wait(0.5)
    process.kill()

  @parameterized.parameters((None, 1), (signal.SIGTERM, 60), (signal.SIGKILL, 60))
  def test_no_temporary_file_is_left(self, number, seconds):
    with mock.patch.dict(os.environ, {"TMPDIR": self.folder}):
      process, other = (self._start("--fault=files", f"--number={n}") for n in (seconds, 60))
      folders = os.listdir(self.folder)
      self.assertLen(folders, 2)
      for folder in folders:
        self.assertLen(os.listdir(os.path.join(self.folder, folder)), 4)  # With its mark.
      if number is not None:
        process.send_signal(number)
      process.communicate(timeout=50)
      if number == signal.SIGKILL:
        self.assertLen(os.listdir(self.folder), 2)
        self._run()
      (folder,) = os.listdir(self.folder)  # That of the other program.
      self.assertLen(os.listdir(os.path.join(self.folder, folder)), 4)
      other.terminate()
      other.communicate(timeout=50)
    self.assertEmpty(os.listdir(self.folder))

  def test_temporary_files_on_a_network(self):
    before = tempfile.gettempdir()
    with mock.patch.object(fcntl, "flock", nfs.flock), temporary_folder.own():
      folder = tempfile.gettempdir()
      self.assertEqual(os.path.dirname(folder), before)
    temporary_folder.remove()
    self.assertFalse(os.path.exists(folder))

  def test_folders_of_others_stay(self):
    os.mkdir(os.path.join(self.folder, "fl_clustering_results"))
    self.assertEqual(self._run(TMPDIR=self.folder).returncode, 0)
    self.assertEqual(os.listdir(self.folder), ["fl_clustering_results"])

  @parameterized.parameters(("/no/such", None), ("/proc", None), (None, 0))
  def test_no_room_for_temporary_files(self, folder, most_bytes):
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    options = {} if most_bytes is None else {"preexec_fn": limit}
    # A killed program's, which may be what fills it.
    self.create_tempfile(f"{self.folder}/fl_clustering_x/.lock_of_fl_clustering")
    for arguments, code in ((["--help"], 0), ([], 2)):
      result = self._run(*arguments, options=options, TMPDIR=folder or self.folder)
      self.assertEqual(result.returncode, code, result.stderr)
    self.assertRegex(result.stderr, f"^error: `TMPDIR` .*{re.escape(folder or self.folder)}.*\n$")
    if folder is None:
      self.assertEmpty(os.listdir(self.folder))

  def test_a_folder_for_temporary_files_that_is_not_utf_8(self):
    folder = os.path.join(self.folder, os.fsdecode(b"caf\xe9"))
    os.mkdir(folder)
    result = self._run(TMPDIR=folder)
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertRegex(result.stderr, r"^error: `TMPDIR` .*caf.udce9'\.\n$")

  def test_no_home(self):
    result = self._run("--fault=home", HOME="/dev/null/home", TMPDIR=self.folder)
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertRegex(result.stderr, "^(warning: .*\n)+$")
    self.assertEmpty(os.listdir(self.folder))

  @parameterized.parameters(({}, False), ({"TQDM_DELAY": "0.2", "TQDM_MININTERVAL": "0.4"}, True))
  def test_bars_in_a_pipe(self, changes, has_bars):
    self.assertEqual("bar" in self._run(program=_BARS, **changes).stderr, has_bars)

  @parameterized.parameters("ascii", "latin-1", "utf-8")
  def test_any_letters_can_be_printed(self, encoding):
    options = {"encoding": encoding}
    result = self._run("--fault=letters", options=options, PYTHONIOENCODING=encoding)
    self.assertEqual(result.returncode, 0, result.stderr)

  @parameterized.parameters(("--fault=lines", 141), ("", 141), ("--helpfull", 141),
                            ("--fault=run", 1))
  def test_nobody_reads_the_output_anymore(self, argument, code):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as stdout:
      result = self._run(*filter(None, [argument]), stdout=stdout)
    self.assertEqual(result.returncode, code, result.stderr)
    self.assertLen(result.stderr.splitlines(), int(code == 1), result.stderr)

  @parameterized.parameters("--fault=lines", "--fault=run_lines", "", "--helpfull")
  def test_output_to_a_full_disk(self, argument):
    with open("/dev/full", "w", encoding="utf-8") as full:
      result = self._run(*filter(None, [argument]), stdout=full)
    self.assertEqual(result.returncode, 1, result.stderr)
    self.assertRegex(result.stderr, "^error: .*No space left on device.*\n$")
    self.assertEqual("--resume" in result.stderr, argument == "--fault=run_lines")

  @parameterized.parameters("", "--helpfull")
  def test_output_that_is_closed(self, argument):
    result = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" $2 >&-', sys.executable, _PROGRAM, argument],
        check=False, stderr=subprocess.PIPE, text=True, env=_environment(),
    )
    self.assertEqual((result.returncode, result.stderr), (0, ""))

  def test_help_explains_the_flags_used_most_or_all(self):
    program = _PROGRAM.replace("launch.run(main)", "launch.run(main, ['number'])")
    for argument, has_all in (("--help", False), ("--helpfull", True)):
      result = self._run(argument, program=program)
      self.assertEqual(result.returncode, 0)
      self.assertIn("A number.", result.stdout)
      self.assertEqual("switch" in result.stdout, has_all)


if __name__ == "__main__":
  absltest.main()
