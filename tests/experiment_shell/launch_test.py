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

from clustering_basics import extras
from experiment_shell import temporary_folder
from tests.experiment_shell import nfs

_PROGRAM = """
import errno
import os
import time
from absl import flags
from experiment_shell import launch

flags.DEFINE_integer("number", 1, "A number.")
flags.DEFINE_bool("switch", False, "A switch.")
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
      raise OSError(errno.ENOSPC, "No space left on device")
  if fault == "home":
    import matplotlib
    matplotlib.get_cachedir()
  if fault == "letters":
    print("größer – 中文 \\udce9")
  if fault == "loss":
    with launch.run_errors("/results/run", ArithmeticError):
      raise ArithmeticError("the loss is nan.")
  if fault == "run":
    raise launch.RunFailed("the loss is nan in round 3.")
  if fault == "extra":
    raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow.python")
  if fault == "module":
    raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
  if fault == "interrupt":
    raise KeyboardInterrupt
  if fault == "worker_pipe":
    with launch.run_errors("/results/run"):
      raise BrokenPipeError("that of a worker")
  if fault == "lines":
    with launch.input_errors():
      for _ in range(100_000):
        print("a line of text")
  if fault == "bare_lines":
    for _ in range(100_000):
      print("a line of text")
  if fault == "run_lines":
    with launch.run_errors("/results/run"):
      for _ in range(100_000):
        print("a line of text")
  if fault == "sleep":
    try:
      print("asleep", flush=True)
      time.sleep(60)
    except KeyboardInterrupt:
      # As where a worker ends by the same Ctrl-C.
      raise ValueError("lost the worker")
  if fault == "files":
    import subprocess
    import sys
    import tempfile
    for _ in range(2):
      tempfile.NamedTemporaryFile(delete=False).close()
    make = "import tempfile, time; tempfile.mkdtemp()"
    subprocess.run([sys.executable, "-c", make], check=True)
    print("asleep", flush=True)
    time.sleep(flags.FLAGS.number)
  if fault == "slow_end":
    import atexit
    atexit.register(time.sleep, 60)
    print("asleep", flush=True)
    time.sleep(60)
  if fault == "bug":
    raise ValueError("nobody expected this")
  print(flags.FLAGS.number, os.getcwd())


launch.run(main)
"""

def _environment(*folders):
  """Returns a program's environment: it finds modules here, and buffers its output."""
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, *sys.path])}
  # Matplotlib sets its own one where there is no home.
  for name in ("PYTHONUNBUFFERED", "MPLCONFIGDIR"):
    environment.pop(name, None)
  return environment


class LaunchTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self._folder = self.create_tempdir().full_path

  def _run(self, *arguments, options=None, **environment):
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**_environment(), **environment},
        **(options or {}),
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
      ("flag_twice", ["--number=3", "--number=4"], 2, "`number` must be given once"),
      ("switch_with_value", ["--noswitch=3"], 2, "noswitch"),
      ("flag_file", ["--flagfile=no/such.flags"], 2, "no/such.flags"),
      ("value", ["--fault=value"], 2, "`number` must be odd, got 2."),
      ("file", ["--fault=file"], 2, "no/such/file"),
      ("run", ["--fault=run"], 1, "the loss is nan in round 3."),
      ("disk", ["--fault=disk"], 1,
       "Results so far are in /results/run; --resume continues from there."),
      ("loss", ["--fault=loss"], 1, "error: the loss is nan. Results so far are in "),
      ("extra", ["--fault=extra"], 1,
       f"error: tensorflow must be installed for this, and isn't; {extras.advice()}."),
      ("interrupt", ["--fault=interrupt"], 130, "interrupted"),
  )
  def test_ends_with_one_line(self, arguments, code, message):
    result = self._run(*arguments)
    self.assertEqual(result.returncode, code)
    self.assertEqual(result.stdout, "")
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertIn(message, result.stderr)

  def test_a_missing_module_of_no_extra_is_a_bug(self):
    self.assertIn("Traceback", self._run("--fault=module").stderr)

  def _start(self, program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(self._folder),
    )

  def _interrupt(self, process, sign, number=signal.SIGINT, code=130):
    """Interrupts a process once it has printed `sign`; returns its errors' lines."""
    with process:
      self.assertEqual(process.stdout.readline().strip(), sign)
      process.send_signal(number)
      _, errors = process.communicate(timeout=50)
    self.assertEqual(process.returncode, code, errors)
    return errors.splitlines()

  @parameterized.parameters("sleep", "files")
  def test_terminated(self, fault):
    process = self._start(_PROGRAM, f"--fault={fault}", "--number=60")
    lines = self._interrupt(process, "asleep", signal.SIGTERM, 143)
    self.assertEqual(lines, ["interrupted: everything saved so far is kept."])

  def test_asked_twice_it_ends_at_once(self):
    process = self._start(_PROGRAM, "--fault=slow_end")
    with process:
      self.assertEqual(process.stdout.readline(), "asleep\n")
      process.send_signal(signal.SIGINT)
      self.assertStartsWith(process.stderr.readline(), "interrupted")
      process.send_signal(signal.SIGINT)
      self.assertEqual(process.wait(50), -signal.SIGINT)

  @parameterized.parameters(
      ((), 1), ((signal.SIGINT,), 60), ((signal.SIGTERM,), 60), ((signal.SIGKILL,), 60),
  )
  def test_no_temporary_file_is_left(self, numbers, seconds):
    temporary = self.create_tempdir().full_path
    with mock.patch.dict(os.environ, {"TMPDIR": temporary}):
      process, other = (
          self._start(_PROGRAM, "--fault=files", f"--number={n}") for n in (seconds, 60)
      )
      with other:
        self.assertEqual(other.stdout.readline(), "asleep\n")
        with process:
          self.assertEqual(process.stdout.readline(), "asleep\n")
          folders = os.listdir(temporary)
          self.assertLen(folders, 2)
          for folder in folders:
            self.assertLen(os.listdir(os.path.join(temporary, folder)), 4)  # With its mark.
          for number in numbers:
            process.send_signal(number)
          process.communicate(timeout=50)
        if numbers == (signal.SIGKILL,):
          self.assertLen(os.listdir(temporary), 2)
          self._run()
        # That of the other program.
        self.assertLen(os.listdir(temporary), 1)
        (folder,) = os.listdir(temporary)
        self.assertLen(os.listdir(os.path.join(temporary, folder)), 4)  # With its mark.
        other.terminate()
      self.assertEmpty(os.listdir(temporary))

  def test_temporary_files_on_a_network(self):
    before = tempfile.gettempdir()
    with mock.patch.object(fcntl, "flock", nfs.flock), temporary_folder.own():
      folder = tempfile.gettempdir()
      self.assertEqual(os.path.dirname(folder), before)
    temporary_folder.remove()
    self.assertFalse(os.path.exists(folder))

  def test_folders_of_others_stay(self):
    temporary = self.create_tempdir().full_path
    result = os.path.join(temporary, "fl_clustering_results")
    os.mkdir(result)
    self.assertEqual(self._run(TMPDIR=temporary).returncode, 0)
    self.assertEqual(os.listdir(temporary), ["fl_clustering_results"])

  def test_bars_in_a_pipe(self):
    program = (
        "from experiment_shell import launch\nimport time\nimport tqdm\n"
        "def main():\n  for _ in tqdm.trange(20, desc='bar'):\n    time.sleep(0.05)\n"
        "launch.run(main)"
    )
    environment = {**_environment(), "TQDM_DELAY": "0.2", "TQDM_MININTERVAL": "0.4"}
    for changes, has_bars in (({}, False), (environment, True)):
      process = subprocess.run(
          [sys.executable, "-c", program], check=True, capture_output=True, text=True,
          env=_environment() | changes,
      )
      self.assertEqual("bar" in process.stderr, has_bars, process.stderr)

  @parameterized.named_parameters(
      ("missing", "/no/such", None), ("read_only", "/proc", None), ("no_folder", "/dev/null", None),
      ("full", None, 0),
  )
  def test_no_room_for_temporary_files(self, folder, most_bytes):
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    options = {} if most_bytes is None else {"preexec_fn": limit}
    if folder is None:
      folder = self._folder
      self.create_tempfile(  # A killed program's, which may be what fills it.
          f"{folder}/fl_clustering_x/.lock_of_fl_clustering"
      )
    for arguments, code in ((["--help"], 0), ([], 2)):
      result = self._run(*arguments, options=options, TMPDIR=folder)
      self.assertEqual(result.returncode, code, result.stderr)
    self.assertRegex(result.stderr, f"^error: `TMPDIR` must .*{re.escape(repr(folder))}.*\n$")
    self.assertEmpty(os.listdir(self._folder))

  def test_a_folder_for_temporary_files_that_is_not_utf_8(self):
    folder = os.path.join(self._folder, os.fsdecode(b"caf\xe9"))
    os.mkdir(folder)
    result = self._run(TMPDIR=folder)
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertRegex(result.stderr, r"^error: `TMPDIR` must .*UTF-8, got '.*caf.udce9'\.\n$")

  def test_no_home(self):
    result = self._run("--fault=home", HOME="/dev/null/home", TMPDIR=self._folder)
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertRegex(result.stderr, "^(warning: .*\n)+$")
    self.assertEmpty(os.listdir(self._folder))

  @parameterized.parameters("ascii", "latin-1", "utf-8")
  def test_any_letters_can_be_printed(self, encoding):
    result = self._run(
        "--fault=letters", options={"encoding": encoding}, PYTHONIOENCODING=encoding
    )
    self.assertEqual(result.returncode, 0, result.stderr)

  def test_interrupted_where_it_becomes_another_error(self):
    lines = self._interrupt(self._start(_PROGRAM, "--fault=sleep"), "asleep")

    self.assertEqual(lines, ["interrupted: everything saved so far is kept."])

  def test_an_ignored_interrupt_stays_ignored(self):
    # As in a shell script that puts the program into the background.
    program = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + _PROGRAM
    process = self._start(program, "--fault=sleep")
    with process:
      self.assertEqual(process.stdout.readline(), "asleep\n")
      process.send_signal(signal.SIGINT)
      with self.assertRaises(subprocess.TimeoutExpired):
        process.wait(0.5)
      process.kill()

  @parameterized.named_parameters(
      ("printing", ["--fault=lines"]),
      ("at_the_end", []),
      ("help", ["--helpfull"]),
      ("error", ["--fault=run"]),
  )
  def test_nobody_reads_the_output_anymore(self, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as stdout:
      result = subprocess.run(
          [sys.executable, "-c", _PROGRAM, *arguments],
          check=False, stdout=stdout, stderr=subprocess.PIPE, text=True,
          env=_environment(),
      )
    failed = arguments == ["--fault=run"]
    self.assertEqual(result.returncode, 1 if failed else 141, result.stderr)
    self.assertLen(result.stderr.splitlines(), 1 if failed else 0, result.stderr)

  def test_a_worker_s_broken_pipe_is_no_reader_s(self):
    result = self._run("--fault=worker_pipe")
    self.assertEqual(result.returncode, 1)
    self.assertIn("error: that of a worker. Results so far", result.stderr)

  @parameterized.named_parameters(
      ("printing", ["--fault=bare_lines"]), ("printing_in_a_run", ["--fault=run_lines"]),
      ("at_the_end", []), ("help", ["--helpfull"]),
  )
  def test_output_to_a_full_disk(self, arguments):
    with open("/dev/full", "w", encoding="utf-8") as full:
      result = subprocess.run(
          [sys.executable, "-c", _PROGRAM, *arguments],
          check=False, stdout=full, stderr=subprocess.PIPE, text=True, env=_environment(),
      )
    self.assertEqual(result.returncode, 1, result.stderr)
    self.assertRegex(result.stderr, "^error: .*No space left on device")
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertEqual("--resume continues" in result.stderr, arguments == ["--fault=run_lines"])

  @parameterized.parameters("", "--helpfull")
  def test_output_that_is_closed(self, argument):
    result = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" $2 >&-', sys.executable, _PROGRAM, argument],
        check=False, stderr=subprocess.PIPE, text=True, env=_environment(),
    )
    self.assertEqual((result.returncode, result.stderr), (0, ""))

  def test_a_bug_keeps_its_traceback(self):
    result = self._run("--fault=bug")
    self.assertEqual(result.returncode, 1)
    self.assertIn("Traceback", result.stderr)

  def test_help_explains_the_flags_used_most(self):
    program = _PROGRAM.replace("launch.run(main)", "launch.run(main, ['number'])")
    result = subprocess.run(
        [sys.executable, "-c", program, "--help"], check=True, capture_output=True, text=True,
        env=_environment(),
    )
    self.assertIn("--number: A number.", result.stdout)
    self.assertNotIn("switch", result.stdout)

  def test_help_is_no_error(self):
    result = self._run("--helpfull")
    self.assertEqual(result.returncode, 0)
    self.assertIn("A number.", result.stdout)


if __name__ == "__main__":
  absltest.main()
