import json
import os
from unittest import mock

from absl.testing import parameterized

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import tidy_report
from experiments import registry
from experiments import report
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder
from tests.experiments.dp_benchmark import sample_benchmark


class ReportProgramTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.run = sample_benchmark.write(self.create_tempdir().full_path)
    self._write("summary.json", "{}")

  def _write(self, name, text):
    with open(self.run.join(name), "w", encoding="utf-8") as file:
      file.write(text)

  def _refused(self, message):
    with self.assertRaisesRegex(launch.InputError, f"^`run` .*{message}"):
      in_process.run_main(report.main, f"--run={self.run.path}")
    self.assertFalse(self.run.has("report.html"))

  def test_draws_again_and_changes_nothing_else(self):
    measured = ("config.json", "results.csv")
    before = {name: os.stat(self.run.join(name)).st_mtime_ns for name in measured}
    home, name = os.path.split(self.run.path)

    with mock.patch.dict(os.environ, {"HOME": home}):
      printed = in_process.run_main(report.main, f"--run=~/{name}")

    self.assertEqual(printed, f"report: {self.run.path}/report.html\n")
    self.assertEqual(
        {name: os.stat(self.run.join(name)).st_mtime_ns for name in measured}, before
    )
    self.assertCountEqual(
        os.listdir(self.run.path), [*before, "figures", "report.html", "summary.json", "tables"]
    )

  @parameterized.parameters("config.json", "summary.json", "results.csv")
  def test_a_missing_file_is_named_and_a_device_is_not_read(self, name):
    os.remove(self.run.join(name))
    self._refused(name)
    os.symlink(os.devnull, self.run.join(name))
    self._refused(name)

  @parameterized.parameters(
      ({"format": 1}, "config.json.*format 1"), ({"experiment": None}, "one of"),
      ({"config": {"seed": 0}}, "config.json .*'"),
  )
  def test_a_run_that_is_none(self, changes, message):
    self._write("config.json", json.dumps({**self.run.document, **changes}))
    self._refused(message)

  @parameterized.parameters("config.json", "results.csv")
  def test_a_damaged_file_is_refused(self, name):
    self._write(name, "[]")
    self._refused(name)

  @parameterized.parameters(*registry.MODULES)
  def test_every_experiment_can_be_drawn_again(self, name):
    experiment = registry.experiment(name)
    self.assertEqual(experiment.name, name)
    # It is the run's files that are missing.
    with self.assertRaises((FileNotFoundError, finished_run.DamagedFile)):
      tidy_report.report(experiment, finished_run.FinishedRun(self.create_tempdir().full_path))

  def test_without_the_flag_it_ends_with_one_line_and_code_2(self):
    code, _, stderr = run_folder.ended("-m", "experiments.report")
    self.assertEqual(code, 2)
    self.assertRegex(stderr, "^error: `run` .*\n$")
