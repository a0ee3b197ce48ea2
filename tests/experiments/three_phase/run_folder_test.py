import dataclasses
import json
import os

from absl.testing import absltest
from absl.testing import parameterized

from experiments.three_phase import run_folder
from fl_clustering import client_privacy
from fl_clustering import config as config_lib
from tests import small_task

_CONFIG = config_lib.ThreePhaseConfig(dataset="digits", num_clients=5)


class RunFolderTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.task = small_task.small_task()

  def setUp(self):
    super().setUp()
    self.path = os.path.join(self.create_tempdir().full_path, "run")

  def _open(self, resume=False, overwrite=False):
    return run_folder.open_folder(self.path, resume, overwrite)

  def _start(self, **how):
    folder = self._open(**how)
    run_folder.start(folder, _CONFIG, self.task, None)
    return folder

  def test_looking_changes_nothing(self):
    self._open()
    self.assertFalse(os.path.exists(self.path))

  def test_config_is_written_first(self):
    self._start()
    with open(os.path.join(self.path, "config.json"), encoding="utf-8") as f:
      document = json.load(f)
    self.assertEqual(document["config"], _CONFIG.to_json())
    self.assertEqual(document["dataset"]["fingerprint"], self.task.fingerprint())
    self.assertCountEqual(
        os.listdir(self.path), ["client_data", "clients.csv", "config.json"]
    )

  @parameterized.named_parameters(
      ("absent", None), ("empty", []), ("half_started", ["client_data", "checkpoints"])
  )
  def test_resume_starts_afresh_where_nothing_was(self, entries):
    if entries is not None:
      os.makedirs(self.path)
      for name in entries:
        os.makedirs(os.path.join(self.path, name))
    folder = self._start(resume=True)
    self.assertIsNone(folder.recorded)
    self.assertIn("config.json", os.listdir(self.path))

  def test_resume_goes_on(self):
    self._start()
    folder = self._open(resume=True)
    folder.check_same_config(_CONFIG.to_json())
    self.assertFalse(folder.is_finished)
    with self.assertRaisesRegex(ValueError, "`seed` must be 0, as in the run.*got 1"):
      folder.check_same_config(config_lib.ThreePhaseConfig(
          dataset="digits", num_clients=5, seed=1).to_json())

  def test_resume_keeps_notes_of_the_user(self):
    self._start()
    open(os.path.join(self.path, "notes.txt"), "w").close()
    self._start(resume=True)
    self._start(overwrite=True)
    self.assertIn("notes.txt", os.listdir(self.path))

  def test_resume_with_other_data(self):
    self._start()
    path = os.path.join(self.path, "config.json")
    with open(path, encoding="utf-8") as f:
      text = f.read()
    with open(path, "w", encoding="utf-8") as f:
      f.write(text.replace(self.task.fingerprint(), "0" * 64))
    with self.assertRaisesRegex(ValueError, "`data_dir` must give the same data"):
      self._start(resume=True)

  def test_resume_of_a_damaged_config(self):
    self._start()
    with open(os.path.join(self.path, "config.json"), "w", encoding="utf-8") as f:
      f.write("{")
    with self.assertRaisesRegex(ValueError, "`output_dir` must hold a readable config"):
      self._open(resume=True)

  def test_the_config_says_what_privacy_is_spent(self):
    folder = self._start()
    self.assertIsNone(folder.read_json("config.json")["privacy"])
    del folder
    config = dataclasses.replace(_CONFIG, aggregator="dp")
    folder = self._open(overwrite=True)
    run_folder.start(folder, config, self.task, None)
    privacy = folder.read_json("config.json")["privacy"]
    self.assertEqual(privacy, client_privacy.spent(config))

  def test_overwrite_clears_the_run(self):
    folder = self._start()
    os.makedirs(folder.join("checkpoints"))
    open(folder.join("report.html"), "w").close()
    del folder
    self._start(overwrite=True)
    self.assertCountEqual(
        os.listdir(self.path), ["client_data", "clients.csv", "config.json"]
    )


if __name__ == "__main__":
  absltest.main()
