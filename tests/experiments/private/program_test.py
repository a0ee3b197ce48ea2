import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from dp_clustering import privacy_calculator
from experiment_shell import launch
from experiments import dp_benchmark
from experiments.private import uci
from tests.experiment_shell import in_process
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


def _run(folder, *arguments):
  return in_process.run_main(dp_benchmark.main, f"--output_dir={folder}", *arguments)


def _read(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8") as file:
    return file.read()


def _losses(folder):
  rows = pd.read_csv(os.path.join(folder, "results.csv"))
  return rows[rows["metric"] == "loss"]


class RunTest(absltest.TestCase):
  """One small run; its files are read, and another one is killed and resumed."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = temporary.name
    cls.folder = os.path.join(cls.base, "run")
    cls.printed = _run(cls.folder, *_SMALL)

  def test_says_what_it_found_and_where(self):
    self.assertIn("data: sklearn_digits, 1,797 x 64: digits", self.printed)
    self.assertRegex(self.printed, r"split and refine +0\.\d+ +0\.\d+\n")
    self.assertEndsWith(self.printed, f"report: {self.folder}/report.html\n")

  def test_leaves_nothing_but_results(self):
    self.assertCountEqual(
        os.listdir(self.folder),
        [
            "config.json", "figures", "releases.csv", "report.html", "results.csv",
            "summary.json", "tables",
        ],
    )

  def test_every_cell_has_a_plausible_loss(self):
    losses = _losses(self.folder)["value"]

    self.assertLen(losses, _NUM_CELLS)
    # One cluster for all would have 0.54; two centers with noise stay near that.
    self.assertBetween(losses.min(), 0.4, 0.7)
    self.assertBetween(losses.max(), 0.4, 0.7)

  def test_config_says_what_was_used(self):
    document = json.loads(_read(self.folder, "config.json"))

    self.assertEqual(document["experiment"], "dp_benchmark")
    self.assertEqual(document["config"]["k_to_try"], [2, 3])
    self.assertEqual(document["inputs"]["datasets"]["sklearn_digits"]["num_points"], 1797)
    self.assertIn("dp-accounting", document["versions"])

  def test_releases_spend_the_budget_and_no_more(self):
    rows = pd.read_csv(os.path.join(self.folder, "releases.csv"))
    mu = rows[rows["metric"] == "mu"].groupby(["method", "k", "epsilon"])["value"]
    spent = mu.agg(lambda values: float(np.hypot.reduce(values)))

    self.assertEqual(set(spent.index.get_level_values("method")), {"lsh", "refine"})
    for (_, _, epsilon), one in spent.items():
      self.assertAlmostEqual(one, privacy_calculator.gaussian_mu(epsilon, 1e-6), places=6)

  def test_a_killed_run_gives_the_same_files(self):
    folder = os.path.join(self.base, "killed")
    path = os.path.join(folder, "cells.jsonl")
    with open(os.path.join(self.base, "killed.log"), "w", encoding="utf-8") as log:
      process = subprocess.Popen(
          _command(*_SMALL, f"--output_dir={folder}"), stdout=log, stderr=log,
          env=_environment(),
      )
      deadline = time.monotonic() + _TIMEOUT_SECONDS
      while time.monotonic() < deadline and process.poll() is None:
        if os.path.exists(path) and "lsh" in _read(folder, "cells.jsonl"):
          break
        time.sleep(0.01)
      self.assertIsNone(process.poll(), "The run ended before it could be killed.")
      process.send_signal(signal.SIGKILL)
      process.wait()
    self.assertNotIn("summary.json", os.listdir(folder))

    _run(folder, *_SMALL, "--resume")

    for path in pathlib.Path(self.folder).rglob("*"):
      if path.is_file():
        name = path.relative_to(self.folder)
        self.assertEqual(path.read_bytes(), pathlib.Path(folder, name).read_bytes(), name)

  def test_a_finished_run_stays_as_it_is(self):
    before = os.stat(os.path.join(self.folder, "report.html")).st_mtime_ns

    printed = _run(self.folder, *_SMALL, "--resume")

    self.assertIn("this run is finished", printed)
    self.assertRegex(printed, r"split and refine +0\.\d+ +0\.\d+\n")
    self.assertEqual(os.stat(os.path.join(self.folder, "report.html")).st_mtime_ns, before)

  def test_another_setting_is_refused(self):
    with self.assertRaisesRegex(launch.InputError, r"^`seed` must be 0,.* got 1\.$"):
      _run(self.folder, *_SMALL, "--resume", "--seed=1")


class InputTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = os.path.join(self.create_tempdir().full_path, "run")

  @parameterized.named_parameters(
      ("of_the_settings", "--datasets=iris", "`datasets` must"),
      ("no_number", "--k_to_try=2,many", "`k_to_try` must .* got '2,many'"),
      ("beyond_the_data", "--k_to_try=2,1798", "`k_to_try` must .*1797"),
      ("data_dir_unused", "--data_dir=uci", "`data_dir` must be left out"),
      ("python_unused", "--diffprivlib_python=py", "`diffprivlib_python` must be left out"),
  )
  def test_bad_flags_are_refused(self, flag, message):
    with self.assertRaisesRegex(launch.InputError, message):
      _run(self.folder, *_SMALL, flag)
    self.assertFalse(os.path.exists(self.folder))

  def test_bad_flags_end_the_program_with_one_line(self):
    result = subprocess.run(
        _command(*_SMALL, f"--output_dir={self.folder}", "--clusters=2"), check=False,
        capture_output=True, text=True, env=_environment(),
    )

    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertIn("Unknown command line flag 'clusters'", result.stderr)
    self.assertFalse(os.path.exists(self.folder))


def _letter(data_dir):
  """Stands for UCI's files: a few points, others for another folder."""
  return np.random.default_rng(len(data_dir)).random((300, 3)), f"letters of {data_dir}"


class ResumeTest(absltest.TestCase):

  def test_other_data_are_refused(self):
    self.enter_context(mock.patch.object(uci, "load_letter", _letter))
    folder = os.path.join(self.create_tempdir().full_path, "run")
    flags = ("--datasets=letter", "--methods=lsh", "--k_to_try=2", "--epsilon_to_try=", "--runs=1")
    _run(folder, *flags, "--data_dir=uci")
    os.remove(os.path.join(folder, "report.html"))

    with self.assertRaisesRegex(launch.InputError, "`output_dir` must .*got another letter"):
      _run(folder, *flags, "--data_dir=elsewhere", "--resume")
    _run(folder, *flags, "--data_dir=uci", "--resume")


class FederatedTest(absltest.TestCase):

  def test_runs_beside_the_central_form(self):
    folder = os.path.join(self.create_tempdir().full_path, "run")
    printed = _run(
        folder, "--datasets=breast_cancer", "--methods=refine,refine_server,refine_none",
        "--k_to_try=2", "--epsilon_to_try=", "--fixed_k=3", "--runs=1", "--fixed_epsilon=50",
    )

    self.assertRegex(printed, r"federated, noise by the clients +0\.\d+\n")
    losses = _losses(folder)["value"]
    # At an epsilon as large as that, the noise hardly matters.
    np.testing.assert_allclose(losses, losses[0], rtol=0.05)

  def test_central_methods_import_no_tff(self):
    code = (
        "import sys; from experiments import dp_benchmark; "
        "from experiments.private import benchmark; print('tensorflow_federated' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env=_environment(),
    )

    self.assertEqual(result.stdout.strip(), "False")


class DiffprivlibTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    base = self.create_tempdir().full_path
    self.folder = os.path.join(base, "run")
    self.flags = (
        "--datasets=sklearn_digits", "--methods=lsh,diffprivlib", "--epsilon_to_try=",
        "--runs=1", f"--diffprivlib_python={fake_diffprivlib.write_python(base)}",
    )

  def test_is_run_by_its_own_python(self):
    printed = _run(self.folder, *self.flags, "--k_to_try=2,4")

    self.assertRegex(printed, r"IBM diffprivlib +0\.\d+ +0\.\d+\n")
    document = json.loads(_read(self.folder, "config.json"))
    self.assertEqual(document["inputs"]["diffprivlib"]["diffprivlib"], "0.0-invented")

  def test_a_cell_whose_process_dies_fails_and_is_tried_again(self):
    flags = (*self.flags, "--k_to_try=2,13,4")
    for again in ((), ("--resume",)):
      with self.assertRaisesRegex(launch.RunFailed, "failures.csv"):
        _run(self.folder, *flags, *again)

      (failure,) = pd.read_csv(os.path.join(self.folder, "failures.csv")).to_dict("records")
      self.assertEqual((failure["method"], failure["k"]), ("diffprivlib", 13))
      self.assertIn("ArithmeticError: thirteen clusters", failure["last words"])
      self.assertIn("thirteen clusters", _read(self.folder, "report.html"))
      self.assertLen(_losses(self.folder), 5)
    with self.assertRaisesRegex(launch.InputError, "`output_dir` must .*got another diffprivlib"):
      _run(self.folder, *flags, "--resume", "--diffprivlib_python=")

  def test_without_any_number_there_is_no_report(self):
    with self.assertRaisesRegex(launch.RunFailed, "all cells failed, see failures.csv"):
      _run(self.folder, *self.flags, "--methods=diffprivlib", "--k_to_try=13")

    self.assertNotIn("report.html", os.listdir(self.folder))


if __name__ == "__main__":
  absltest.main()
