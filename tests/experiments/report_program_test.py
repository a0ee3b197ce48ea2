import json
import os
import subprocess
import sys
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import finished_run
from experiment_shell import launch
from experiments import report
from experiments import reports
from tests.experiment_shell import in_process
from tests.experiments.private import sample_benchmark


class ReportProgramTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.run = sample_benchmark.write(self.create_tempdir().full_path)
    self._write("summary.json", "{}")

  def _write(self, name, text):
    with open(self.run.join(name), "w", encoding="utf-8") as file:
      file.write(text)

  def _report(self, path):
    """Returns what the program prints for `--run=path`."""
    return in_process.run_main(report.main, f"--run={path}")

  def _refused(self, message):
    with self.assertRaisesRegex(launch.InputError, f"^`run` must {message}.*, got '"):
      self._report(self.run.path)
    self.assertFalse(self.run.has("report.html"))

  def test_draws_again_and_changes_nothing_else(self):
    measured = ("config.json", "releases.csv", "results.csv")
    before = {name: os.stat(self.run.join(name)).st_mtime_ns for name in measured}

    printed = self._report(self.run.path)

    self.assertEqual(printed, f"report: {self.run.path}/report.html\n")
    for name, time in before.items():
      self.assertEqual(os.stat(self.run.join(name)).st_mtime_ns, time, name)
    self.assertCountEqual(
        os.listdir(self.run.path), [*before, "figures", "report.html", "summary.json", "tables"]
    )

  @parameterized.parameters("config.json", "summary.json", "results.csv", "releases.csv")
  def test_a_missing_file_is_named(self, name):
    os.remove(self.run.join(name))

    self._refused(f"be the folder of a finished run, with {name} in it")

  def test_a_run_of_another_format_is_refused(self):
    self._write("config.json", json.dumps({**self.run.document, "format": 1}))

    self._refused(r"hold a readable config.json \(it is of format 1, ")

  def test_a_run_without_an_experiment_is_refused(self):
    self._write("config.json", json.dumps({**self.run.document, "experiment": None}))

    self._refused("be of one of ")

  @parameterized.parameters("{", "[]")
  def test_a_damaged_config_is_refused(self, text):
    self._write("config.json", text)

    self._refused("hold a readable config.json")

  @parameterized.parameters("{", "[]")
  def test_a_damaged_summary_is_refused(self, text):
    self._write("summary.json", text)

    self._refused("hold a readable summary.json")

  def test_a_config_without_a_setting_is_refused(self):
    document = dict(self.run.document)
    document["config"] = {k: v for k, v in self.run.settings.items() if k != "delta"}
    self._write("config.json", json.dumps(document))

    self._refused(r"hold a readable config.json \(it has no 'delta'\)")

  @parameterized.parameters("config.json", "summary.json", "results.csv")
  def test_a_device_is_not_read(self, name):
    os.remove(self.run.join(name))
    os.symlink(os.devnull, self.run.join(name))

    self._refused("hold files and folders")

  def test_a_tilde_is_the_home_folder(self):
    home, name = os.path.split(self.run.path)
    with mock.patch.dict(os.environ, {"HOME": home}):
      self.assertEqual(self._report(f"~/{name}"), f"report: {self.run.path}/report.html\n")

  def test_a_truncated_table_is_refused(self):
    with open(self.run.join("results.csv"), encoding="utf-8") as file:
      self._write("results.csv", file.read()[:-10])

    self._refused(r"hold a readable results.csv \(its last line is not complete\)")

  @parameterized.parameters(*reports.MODULES)
  def test_every_experiment_can_be_drawn_again(self, experiment):
    self.assertIn("report.html", reports.files(experiment))
    # It is the run's files that are missing.
    with self.assertRaises((FileNotFoundError, finished_run.DamagedFile)):
      reports.write_report(experiment, finished_run.FinishedRun(self.create_tempdir().full_path))

  def test_without_the_flag_it_ends_with_one_line_and_code_2(self):
    result = subprocess.run(
        [sys.executable, "-m", "experiments.report"], check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    self.assertEqual(
        (result.returncode, result.stderr),
        (2, "error: `run` must name the folder of a finished run, got None.\n"),
    )


if __name__ == "__main__":
  absltest.main()
