import os
import shutil
import signal
import subprocess
import tempfile
import time

from absl.testing import absltest
from absl.testing import parameterized

from tests.integration import three_phase_program as program

_FLAGS = (
    "--dataset=digits", "--num_clients=8", "--pretrain_rounds=4", "--cluster_rounds=4",
    "--num_clusters=2", "--groupings=kmeans,dynamic_distance", "--clients_per_round=5",
)
_TIMEOUT_SECONDS = 120


class SeedAndResumeTest(parameterized.TestCase):
  """The program is killed in every phase and resumed; the numbers stay the same."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = temporary.name
    cls.uninterrupted = os.path.join(cls.base, "uninterrupted")
    result = program.run(*_FLAGS, f"--output_dir={cls.uninterrupted}")
    assert result.returncode == 0, result.stderr
    cls.summary = program.read_text(cls.uninterrupted, "summary.json")

  def _kill_when(self, folder, text, *flags):
    """Starts a run and kills it once `text` stands in its metrics."""
    path = os.path.join(folder, "metrics.csv")
    with open(os.path.join(self.base, "killed.log"), "w") as log:
      process = subprocess.Popen(
          program.command(*_FLAGS, *flags, f"--output_dir={folder}", "--resume"),
          stdout=log, stderr=log, env=program.environment())
      deadline = time.monotonic() + _TIMEOUT_SECONDS
      while time.monotonic() < deadline and process.poll() is None:
        if os.path.exists(path) and text in program.read_text(folder, "metrics.csv"):
          break
        time.sleep(0.01)
      self.assertIsNone(process.poll(), "The run ended before it could be killed.")
      process.send_signal(signal.SIGKILL)
      process.wait()

  @parameterized.named_parameters(
      ("in_phase_1", ["pretrain,pretrain,,2,"]),
      ("in_phase_2", ["cluster,dynamic_distance,,1,"]),
      ("twice", ["pretrain,pretrain,,1,", "cluster,fedavg,,2,"]),
  )
  def test_a_killed_run_gives_the_same_summary(self, moments):
    folder = os.path.join(self.base, self._testMethodName)
    for text in moments:
      self._kill_when(folder, text)
      self.assertFalse(os.path.exists(os.path.join(folder, "summary.json")))
    result = program.run(*_FLAGS, f"--output_dir={folder}", "--resume")
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertEqual(program.read_text(folder, "summary.json"), self.summary)
    self.assertEqual(
        program.read_text(folder, "metrics.csv"),
        program.read_text(self.uninterrupted, "metrics.csv"))

  def test_a_private_run_killed_in_phase_2_gives_the_same_summary(self):
    folder = os.path.join(self.base, "private")
    copy = os.path.join(self.base, "private_copy")
    flags = ("--aggregator=dp", "--noise_multiplier=0.5")
    self._kill_when(folder, "cluster,kmeans,,2,", *flags)
    config = program.read_json(folder, "config.json")
    # Two runs have different noise, so one is ended twice, from where it was killed.
    shutil.copytree(folder, copy)
    for path in (folder, copy):
      result = program.run(*_FLAGS, *flags, f"--output_dir={path}", "--resume")
      self.assertEqual(result.returncode, 0, result.stderr)
    for name in ("summary.json", "metrics.csv"):
      self.assertEqual(program.read_text(folder, name), program.read_text(copy, name))
    summary = program.read_json(folder, "summary.json")
    # What it spends was known, and written, before it started.
    self.assertEqual(summary["privacy"], config["privacy"])
    self.assertNotEqual(
        summary["pretrain"],
        program.read_json(self.uninterrupted, "summary.json")["pretrain"])

  def test_only_the_seed_changes_the_numbers(self):
    again = os.path.join(self.base, "again")
    other = os.path.join(self.base, "other")
    program.run(*_FLAGS, f"--output_dir={again}")
    program.run(*_FLAGS, f"--output_dir={other}", "--seed=1")
    self.assertEqual(program.read_text(again, "summary.json"), self.summary)
    numbers = program.read_json(other, "summary.json")["pretrain"]
    self.assertNotEqual(
        numbers, program.read_json(self.uninterrupted, "summary.json")["pretrain"])

  def test_a_finished_run_stays_as_it_is(self):
    before = {
        name: os.stat(os.path.join(self.uninterrupted, name)).st_mtime_ns
        for name in os.listdir(self.uninterrupted)
    }
    result = program.run(*_FLAGS, f"--output_dir={self.uninterrupted}", "--resume")
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertIn("this run is finished", result.stdout)
    after = {
        name: os.stat(os.path.join(self.uninterrupted, name)).st_mtime_ns
        for name in os.listdir(self.uninterrupted)
    }
    self.assertEqual(before, after)

  def test_another_configuration_is_refused(self):
    result = program.run(
        *_FLAGS, f"--output_dir={self.uninterrupted}", "--resume", "--batch_size=7")
    self.assertEqual(result.returncode, 2)
    self.assertEqual(
        result.stderr,
        "error: `batch_size` must be 20, as in the run to resume, got 7.\n")


if __name__ == "__main__":
  absltest.main()
