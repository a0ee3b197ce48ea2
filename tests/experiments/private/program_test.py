import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from absl.testing import absltest
from absl.testing import parameterized

from tests.experiments.private import fake_diffprivlib

_SMALL = (
    "--datasets=sklearn_digits", "--methods=sklearn,lsh,refine", "--k_to_try=2,3",
    "--epsilon_to_try=0.5,1", "--fixed_k=3", "--runs=2",
)
_NUM_CELLS = 2 * (2 + 3 + 3)
_TIMEOUT_SECONDS = 120


def _command(*arguments):
  return [sys.executable, "-m", "experiments.dp_benchmark", *arguments]


def _environment():
  return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def _run(*arguments):
  return subprocess.run(
      _command(*arguments), check=False, capture_output=True, text=True, env=_environment()
  )


def _read(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8") as file:
    return file.read()


class RunTest(parameterized.TestCase):
  """One small run; its files are read, and it is killed and resumed."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = temporary.name
    cls.folder = os.path.join(cls.base, "run")
    cls.result = _run(*_SMALL, f"--output_dir={cls.folder}")
    assert cls.result.returncode == 0, cls.result.stderr

  def test_says_what_it_found_and_where(self):
    self.assertIn("data: sklearn_digits, 1,797 x 64: digits", self.result.stdout)
    self.assertRegex(self.result.stdout, r"split and refine +0\.\d+ +0\.\d+\n")
    self.assertEndsWith(self.result.stdout, f"report: {self.folder}/report.html\n")

  def test_leaves_nothing_but_results(self):
    self.assertCountEqual(
        os.listdir(self.folder),
        [
            "config.json", "figures", "ledgers.json", "measurements.csv", "report.html",
            "summary.json",
        ],
    )

  def test_every_cell_has_a_plausible_loss(self):
    rows = list(csv.DictReader(_read(self.folder, "measurements.csv").splitlines()))

    self.assertLen(rows, _NUM_CELLS)
    for row in rows:
      # All in one cluster would have 0.54, which two centers with noise stay near.
      self.assertBetween(float(row["loss"]), 0.4, 0.7, row)

  def test_config_says_what_was_used(self):
    document = json.loads(_read(self.folder, "config.json"))

    self.assertEqual(document["config"]["k_to_try"], [2, 3])
    self.assertEqual(document["datasets"]["sklearn_digits"]["num_points"], 1797)
    self.assertEqual(document["methods"], ["sklearn", "lsh", "refine"])
    self.assertIn("opendp", document["versions"])

  def test_ledgers_spend_the_budget_and_no_more(self):
    ledgers = json.loads(_read(self.folder, "ledgers.json"))

    self.assertCountEqual(ledgers, ["lsh", "refine"])
    for ledger in ledgers.values():
      self.assertBetween(ledger["epsilon_spent"], 0.5, 1 + 1e-9)
      self.assertIn("NOT private", ledger["noise_source"])

  def test_a_killed_run_gives_the_same_files(self):
    folder = os.path.join(self.base, "killed")
    path = os.path.join(folder, "measurements.csv")
    with open(os.path.join(self.base, "killed.log"), "w", encoding="utf-8") as log:
      process = subprocess.Popen(
          _command(*_SMALL, f"--output_dir={folder}"), stdout=log, stderr=log,
          env=_environment(),
      )
      deadline = time.monotonic() + _TIMEOUT_SECONDS
      while time.monotonic() < deadline and process.poll() is None:
        if os.path.exists(path) and ",lsh," in _read(folder, "measurements.csv"):
          break
        time.sleep(0.01)
      self.assertIsNone(process.poll(), "The run ended before it could be killed.")
      process.send_signal(signal.SIGKILL)
      process.wait()
    self.assertNotIn("summary.json", os.listdir(folder))

    result = _run(*_SMALL, f"--output_dir={folder}", "--resume")

    self.assertEqual(result.returncode, 0, result.stderr)
    for name in ("measurements.csv", "summary.json", "ledgers.json", "config.json"):
      self.assertEqual(_read(folder, name), _read(self.folder, name), name)

  def test_a_finished_run_stays_as_it_is(self):
    before = os.stat(os.path.join(self.folder, "report.html")).st_mtime_ns

    result = _run(*_SMALL, f"--output_dir={self.folder}", "--resume")

    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertIn("this run is finished", result.stdout)
    self.assertEqual(os.stat(os.path.join(self.folder, "report.html")).st_mtime_ns, before)

  def test_another_setting_is_refused(self):
    result = _run(*_SMALL, f"--output_dir={self.folder}", "--resume", "--seed=1")

    self.assertEqual(
        (result.returncode, result.stderr),
        (2, "error: `seed` must be 0, as in the run to resume, got 1.\n"),
    )


class InputTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = os.path.join(self.create_tempdir().full_path, "run")

  def _end(self, *arguments):
    """Runs the program with flags that it refuses; returns its one line."""
    result = _run(f"--output_dir={self.folder}", *arguments)
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertFalse(os.path.exists(self.folder))
    return result.stderr

  @parameterized.named_parameters(
      ("unknown_data_set", "--datasets=iris", "`datasets` must be one of synthetic"),
      ("k_no_number", "--k_to_try=2,many", "`k_to_try` must be whole numbers, got '2,many'"),
      ("k_above_n", "--k_to_try=2,1798", "`k_to_try` must be at most 1797"),
      ("fixed_k_above_n", "--fixed_k=1798", "`fixed_k` must be at most 1797"),
      ("epsilon", "--fixed_epsilon=-1", "`fixed_epsilon` must be a finite number > 0"),
      ("epsilon_no_number", "--epsilon_to_try=x", "`epsilon_to_try` must be numbers"),
      ("runs", "--runs=0", "`runs` must be an integer >= 1"),
      ("data_dir_unused", "--data_dir=uci", "`data_dir` must be left out without letter or"),
      ("python_unused", "--diffprivlib_python=py", "`diffprivlib_python` must be left out"),
      ("unknown_flag", "--clusters=2", "Unknown command line flag 'clusters'"),
  )
  def test_bad_flags_end_with_one_line(self, flag, message):
    self.assertIn(message, self._end(*_SMALL, flag))

  def test_a_damaged_file(self):
    folder = self.create_tempdir().full_path
    with open(os.path.join(folder, "letter-recognition.data"), "w", encoding="utf-8") as file:
      file.write("T,2,8\n")

    line = self._end("--datasets=letter", f"--data_dir={folder}")

    self.assertIn("`data_dir` must hold letter-recognition.data with 16 columns", line)

  def test_a_python_without_diffprivlib(self):
    line = self._end(
        "--datasets=sklearn_digits", "--methods=diffprivlib", "--diffprivlib_python=/bin/false"
    )

    self.assertIn("`diffprivlib_python` must have diffprivlib", line)


class DiffprivlibTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.base = self.create_tempdir().full_path
    self.folder = os.path.join(self.base, "run")
    self.flags = (
        "--datasets=sklearn_digits", "--methods=sklearn,diffprivlib", "--epsilon_to_try=",
        "--runs=1", f"--output_dir={self.folder}",
        f"--diffprivlib_python={fake_diffprivlib.write_python(self.base)}",
    )

  def test_is_run_by_its_own_python(self):
    result = _run(*self.flags, "--k_to_try=2,4")

    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertRegex(result.stdout, r"IBM diffprivlib +0\.\d+ +0\.\d+\n")
    document = json.loads(_read(self.folder, "config.json"))
    self.assertEqual(document["diffprivlib_versions"]["diffprivlib"], "0.0-invented")

  def test_what_was_measured_before_it_failed_is_kept(self):
    result = _run(*self.flags, "--k_to_try=2,13")

    self.assertEqual(result.returncode, 1)
    self.assertRegex(
        result.stderr.splitlines()[-1],
        r"error: the process of diffprivlib ended \(code 1: ArithmeticError: thirteen "
        r"clusters\)\. What was computed is in .*run; --resume goes on from there\.",
    )
    rows = list(csv.DictReader(_read(self.folder, "measurements.csv").splitlines()))
    self.assertLen(rows, 3)


if __name__ == "__main__":
  absltest.main()
