import contextlib
import errno
import fcntl
import json
import os
import subprocess
import sys
from unittest import mock

from absl import logging
from absl.testing import absltest
from absl.testing import parameterized

from clustering_basics import file_format
from experiment_shell import output_folder
from tests.experiment_shell import nfs


class CsvTextTest(absltest.TestCase):

  def test_is_csv(self):
    text = output_folder.csv_text(("a", "b"), [(1, None), ("x,y", 2)])

    self.assertEqual(text, 'a,b\n1,\n"x,y",2\n')


class OutputFolderTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.path = os.path.join(self.create_tempdir().full_path, "run")

  def _open(self, resume=False, overwrite=False):
    return output_folder.OutputFolder(
        self.path, resume, overwrite, files=("rows.csv",), folders=("figures",)
    )

  def _start(self, settings, **how):
    folder = self._open(**how)
    folder.start({"config": settings})
    return folder

  def _settings(self):
    """Returns the settings in `config.json`."""
    with open(os.path.join(self.path, "config.json"), encoding="utf-8") as file:
      return json.load(file)["config"]

  def test_a_report_makes_it_finished(self):
    self._start({"seed": 1})
    self.assertFalse(self._open(resume=True).is_finished)
    self._open(resume=True).write_text("report.html", "all is well")
    self.assertTrue(self._open(resume=True).is_finished)

  @parameterized.product(how=("resume", "overwrite"), locks=(fcntl.flock, nfs.flock))
  def test_two_runs_at_once_are_refused(self, how, locks):
    self.enter_context(mock.patch.object(fcntl, "flock", locks))
    first = self._start({"seed": 1})
    with self.assertRaisesRegex(ValueError, "`output_dir` must not be in use by another"):
      self._start({"seed": 1}, **{how: True})
    first.write_text("rows.csv", "1")
    first.close()
    second = self._start({"seed": 1}, **{how: True})
    self.assertEqual(os.path.exists(second.join("rows.csv")), how == "resume")

  def test_two_runs_that_find_it_empty_are_refused(self):
    first, second = self._open(), self._open()
    first.start({"config": {"seed": 1}})
    del first
    with self.assertRaisesRegex(ValueError, "`output_dir` must not be in use by another"):
      second.start({"config": {"seed": 2}})
    self.assertEqual(self._settings(), {"seed": 1})

  @parameterized.parameters({"resume": True}, {"overwrite": True})
  def test_a_run_that_replaced_meanwhile_what_was_found_is_left_alone(self, **how):
    self._start({"seed": 1}).close()
    slow = self._open(**how)
    self._start({"seed": 2}, overwrite=True).close()
    with self.assertRaisesRegex(ValueError, "`output_dir` must not be in use by another"):
      slow.start({"config": {"seed": 1}})
    self.assertEqual(self._settings(), {"seed": 2})

  def test_a_killed_run_does_not_keep_others_out(self):
    program = (
        "import os, sys\nfrom experiment_shell import output_folder\n"
        "folder = output_folder.OutputFolder(sys.argv[1], False, False, ())\n"
        "folder.start({'config': {'seed': 1}})\nos._exit(3)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    killed = subprocess.run(
        [sys.executable, "-c", program, self.path], check=False, env=environment
    )
    self.assertEqual(killed.returncode, 3)
    folder = self._start({"seed": 1}, resume=True)
    folder.close()
    self.assertEqual(os.listdir(self.path), ["config.json"])
    # Had it been killed before it wrote anything:
    os.remove(folder.join("config.json"))
    with open(folder.join(output_folder.LOCK), "w", encoding="utf-8"):
      pass
    self._start({"seed": 1})

  def test_a_lock_that_its_run_removes_meanwhile_is_none(self):
    first = self._start({"seed": 1})
    flock = fcntl.flock

    def end_and_lock(descriptor, how):
      first.close()
      flock(descriptor, how)

    with mock.patch.object(fcntl, "flock", end_and_lock):
      with self.assertRaisesRegex(ValueError, "`output_dir` must not be in use by another"):
        self._start({"seed": 1}, resume=True)
    second = self._start({"seed": 1}, resume=True)
    with self.assertRaisesRegex(ValueError, "`output_dir` must not be in use by another"):
      self._start({"seed": 1}, resume=True)
    second.close()

  def test_a_file_system_without_locks_is_used_with_a_warning(self):
    error = OSError(errno.ENOLCK, "No locks available")
    with mock.patch.object(fcntl, "flock", side_effect=error):
      with self.assertLogs(level="WARNING") as logs:
        self._start({"seed": 1}).close()
    self.assertIn("No locks available", logs.output[0])
    self.assertEqual(os.listdir(self.path), ["config.json"])

  def test_a_system_without_locks_is_used_with_a_warning(self):
    first, second = self._open(), self._open()
    with mock.patch.dict(sys.modules, {"fcntl": None}), self.assertLogs(level="WARNING") as logs:
      first.start({"config": {"seed": 1}})
      self.assertIn("can't be locked (not on this system)", logs.output[0])
      with self.assertRaisesRegex(ValueError, "`output_dir` must not be in use by another"):
        second.start({"config": {"seed": 2}})
    first.close()

  def test_resume_needs_the_same_settings(self):
    self._start({"seed": 1, "k": [2, 4]})
    folder = self._open(resume=True)
    folder.check_same_config({"seed": 1, "k": [2, 4]})
    for settings, got in (({"seed": 1, "k": [2]}, r"\[2\]"), ({"seed": 1}, "None")):
      with self.assertRaisesRegex(ValueError, rf"`k` must be \[2, 4\], as in the run.*got {got}"):
        folder.check_same_config(settings)

  @parameterized.parameters({"resume": True}, {"overwrite": True})
  def test_a_run_of_another_format_is_left_alone(self, **how):
    folder = self._start({"seed": 1})
    folder.close()
    for document, found in (({}, 1), ({"format": file_format.FORMAT + 1}, file_format.FORMAT + 1)):
      folder.write_text("config.json", json.dumps({"config": {"seed": 1}, **document}))
      with self.assertRaisesRegex(
          ValueError, f"`output_dir` must hold a readable config.json .*is of format {found}, and"
      ):
        self._open(**how)

  @parameterized.parameters({"resume": True}, {"overwrite": True})
  def test_another_programs_run_is_left_alone(self, **how):
    folder = self._open()
    folder.start({"experiment": "mine", "config": {"seed": 1}})
    folder.write_text("report.html", "dear results")
    folder.close()
    for name in ("another", None):
      with self.assertRaisesRegex(ValueError, "`output_dir` must hold a run of this program"):
        self._open(**how).check_same_config({"seed": 1}, name)
    self.assertCountEqual(os.listdir(self.path), ["config.json", "report.html"])

  @parameterized.named_parameters(
      ("other_values", {"seed": 2, "k": 4}), ("one_more", {"seed": 1, "k": 2, "runs": 3}),
      ("one_less", {"seed": 1}),
  )
  def test_overwrite_takes_any_run_of_this_program(self, settings):
    self._start({"seed": 1, "k": 2})
    folder = self._open(overwrite=True)
    folder.check_same_config(settings)
    folder.start({"config": settings})
    self.assertEqual(self._settings(), settings)

  @parameterized.named_parameters(("damaged", "{"), ("someone_elses", '{"model": "bert"}'))
  def test_overwrite_leaves_alone_what_it_does_not_know(self, config):
    os.makedirs(os.path.join(self.path, "figures"))
    with open(os.path.join(self.path, "config.json"), "w", encoding="utf-8") as file:
      file.write(config)
    with self.assertRaisesRegex(ValueError, "`output_dir` must hold a readable config"):
      self._open(overwrite=True)
    self.assertCountEqual(os.listdir(self.path), ["config.json", "figures"])

  def test_what_an_interrupted_overwrite_left_is_not_resumed(self):
    os.makedirs(os.path.join(self.path, "figures"))
    with open(os.path.join(self.path, "rows.csv"), "w", encoding="utf-8") as file:
      file.write("rows of another run")
    self._start({"seed": 2}, resume=True)
    self.assertEqual(os.listdir(self.path), ["config.json"])

  def test_the_settings_are_the_last_to_be_removed(self):
    folder = self._start({"seed": 1})
    folder.write_text("rows.csv", "text")
    path = folder.join("config.json")
    del folder
    with mock.patch.object(os, "remove", side_effect=[None, KeyboardInterrupt]) as remove:
      with self.assertRaises(KeyboardInterrupt):
        self._start({"seed": 2}, overwrite=True)
    self.assertEqual(remove.call_args.args[0], path)

  def test_resume_keeps_the_recorded_config(self):
    self._start({"seed": 1})
    self._start({"seed": 1, "more": 2}, resume=True)
    self.assertEqual(self._open(resume=True).recorded["config"], {"seed": 1})

  def test_overwrite_removes_what_the_experiment_writes_and_nothing_else(self):
    folder = self._start({"seed": 1})
    os.makedirs(folder.join("figures"))
    for name in ("rows.csv", ".rows.csv.7.csv", "summary.json", "report.html", "notes.txt"):
      folder.write_text(name, "text")
    del folder
    self._start({"seed": 2}, overwrite=True)
    self.assertCountEqual(os.listdir(self.path), ["config.json", "notes.txt"])
    self.assertEqual(self._settings(), {"seed": 2})

  @parameterized.named_parameters(
      ("no_json", "{"), ("a_list", "[]"), ("no_settings", "{}"), ("odd", '{"config": 3}')
  )
  def test_resume_of_a_damaged_config(self, text):
    self._start({"seed": 1}).write_text("config.json", text)
    with self.assertRaisesRegex(ValueError, "`output_dir` must hold a readable config"):
      self._open(resume=True)

  def test_looking_changes_nothing(self):
    for how in ({}, {"resume": True}, {"overwrite": True}):
      folder = self._open(**how)
      folder.check_same_config({"seed": 1})
      self.assertIsNone(folder.recorded)
    self.assertFalse(os.path.exists(self.path))

  @parameterized.named_parameters(
      ("empty", []), ("killed_at_the_start", [".config.json.7.json"]),
      ("its_rows_alone", ["rows.csv"]),
  )
  def test_resume_starts_afresh_without_a_config(self, names):
    os.makedirs(self.path)
    for name in names:
      open(os.path.join(self.path, name), "w", encoding="utf-8").close()
    folder = self._start({"seed": 1}, resume=True)
    self.assertIsNone(folder.recorded)
    self.assertEqual(self._settings(), {"seed": 1})

  def test_a_folder_in_use_is_refused(self):
    self._start({"seed": 1})
    with self.assertRaisesRegex(ValueError, "`output_dir` must be empty without .* 1 entries"):
      self._open()

  @parameterized.parameters({"resume": True}, {"overwrite": True})
  def test_someone_elses_folder_is_refused(self, **how):
    os.makedirs(self.path)
    open(os.path.join(self.path, "thesis.txt"), "w", encoding="utf-8").close()
    with self.assertRaisesRegex(ValueError, "must hold a run of this program.*'thesis.txt'"):
      self._open(**how)
    self.assertEqual(os.listdir(self.path), ["thesis.txt"])

  def test_resume_and_overwrite_are_refused_together(self):
    with self.assertRaisesRegex(ValueError, "`resume` must not be given together"):
      self._open(resume=True, overwrite=True)

  def test_overwrite_removes_a_link_and_not_what_it_leads_to(self):
    elsewhere = self.create_tempdir().full_path
    drawing = os.path.join(elsewhere, "drawing.png")
    open(drawing, "w", encoding="utf-8").close()
    folder = self._start({"seed": 1})
    os.symlink(elsewhere, folder.join("figures"))
    os.symlink(drawing, folder.join("rows.csv"))
    del folder

    self._start({"seed": 2}, overwrite=True)

    self.assertEqual(os.listdir(self.path), ["config.json"])
    self.assertTrue(os.path.exists(drawing))

  @parameterized.parameters({}, {"resume": True}, {"overwrite": True})
  def test_a_path_that_is_not_utf_8_is_refused(self, **how):
    self.path = os.fsdecode(os.fsencode(self.path) + b"\xff")
    with self.assertRaisesRegex(ValueError, r"`output_dir` must be in UTF-8, got '.*run.udcff'"):
      self._open(**how)

  def test_resume_with_other_versions_is_told_and_recorded(self):
    first, second = {"python": "3.11.4", "numpy": "1.25"}, {"python": "3.11.4", "numpy": "1.26"}
    third = {"python": "3.12.0", "scipy": "1.11"}
    self._open().start({"config": {"seed": 1}, "versions": first})
    for versions, told in (
        (first, []),
        (second, ["numpy 1.26 (before: 1.25)"]),
        (second, ["numpy 1.26 (before: 1.25)"]),
        (third, ["python 3.12.0 (before: 3.11.4)", "no numpy (before: 1.25)",
                 "scipy 1.11 (before: none)"]),
    ):
      folder = self._open(resume=True)
      with self.assertLogs(level="INFO") as logs:
        logging.info("a line, as there must be one")
        folder.start({"config": {"seed": 1}, "versions": versions})
        folder.close()
      self.assertLen(logs.output, 2 if told else 1)
      for text in told:
        self.assertIn(text, logs.output[-1])

    with open(os.path.join(self.path, "config.json"), encoding="utf-8") as file:
      self.assertEqual(json.load(file), file_format.stamped({
          "config": {"seed": 1}, "versions": first, "resumed_with": [second, third],
      }))

  def test_a_full_disk_at_the_start(self):
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with mock.patch.object(output_folder.atomic_file, "write_text", side_effect=error):
      with self.assertRaisesRegex(
          ValueError, "`output_dir` must be a folder that.*No space left on device"
      ):
        self._start({"seed": 1})

  @parameterized.product(
      how=("resume", "overwrite"), name=("config.json", "rows.csv", "figures/loss.png")
  )
  def test_a_device_is_not_read(self, how, name):
    folder = self._start({"seed": 1})
    folder.close()
    os.makedirs(folder.join("figures"))
    with contextlib.suppress(FileNotFoundError):
      os.remove(folder.join(name))
    os.symlink(os.devnull, folder.join(name))
    with self.assertRaisesRegex(ValueError, f"`output_dir` must hold files .*{name}'"):
      self._open(**{how: True})

  def test_a_file_in_the_place_of_the_folder(self):
    with open(self.path, "w", encoding="utf-8"):
      pass
    with self.assertRaisesRegex(ValueError, "`output_dir` must be a folder that can be"):
      self._open()


if __name__ == "__main__":
  absltest.main()
