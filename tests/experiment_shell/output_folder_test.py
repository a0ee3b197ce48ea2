import contextlib
import errno
import fcntl
import json
import os
from unittest import mock

from absl.testing import parameterized

from clustering_basics import file_format
from experiment_shell import output_folder
from tests.experiment_shell import nfs
from tests.experiment_shell import run_folder

_EITHER = ({"resume": True}, {"overwrite": True})


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

  def _write(self, name, text=""):
    os.makedirs(self.path, exist_ok=True)
    with open(os.path.join(self.path, name), "w", encoding="utf-8") as file:
      file.write(text)

  def _refused(self):
    return self.assertRaisesRegex(ValueError, "`output_dir`")

  def _in_use(self):
    return self.assertRaisesRegex(ValueError, "`output_dir` .*in use")

  def _document(self):
    with open(os.path.join(self.path, "config.json"), encoding="utf-8") as file:
      return json.load(file)

  @parameterized.product(how=("resume", "overwrite"), locks=(fcntl.flock, nfs.flock))
  def test_two_runs_at_once_are_refused(self, how, locks):
    self.enter_context(mock.patch.object(fcntl, "flock", locks))
    first = self._start({"seed": 1})
    with self._in_use():
      self._start({"seed": 1}, **{how: True})
    first.write_text("rows.csv", "1")
    first.close()
    second = self._start({"seed": 1}, **{how: True})
    self.assertEqual(os.path.exists(second.join("rows.csv")), how == "resume")

  @parameterized.parameters(*_EITHER)
  def test_a_run_that_replaced_meanwhile_what_was_found_is_left_alone(self, **how):
    self._start({"seed": 1}).close()
    slow = self._open(**how)
    self._start({"seed": 2}, overwrite=True).close()
    with self._in_use():
      slow.start({"config": {"seed": 1}})
    self.assertEqual(self._document()["config"], {"seed": 2})

  def test_a_killed_run_does_not_keep_others_out(self):
    program = (
        "import os, sys\nfrom experiment_shell import output_folder\n"
        "folder = output_folder.OutputFolder(sys.argv[1], False, False, ())\n"
        "folder.start({'config': {'seed': 1}})\nos._exit(3)"
    )
    self.assertEqual(run_folder.ended("-c", program, self.path)[0], 3)
    # As if it had been killed before it wrote anything.
    os.remove(os.path.join(self.path, "config.json"))
    self.assertEqual(os.listdir(self.path), [output_folder.LOCK])
    self._start({"seed": 1}).close()

  def test_a_lock_that_its_run_removes_meanwhile_is_none(self):
    first = self._start({"seed": 1})
    flock = fcntl.flock

    def end_and_lock(descriptor, how):
      first.close()
      flock(descriptor, how)

    with mock.patch.object(fcntl, "flock", end_and_lock), self._in_use():
      self._start({"seed": 1}, resume=True)
    second = self._start({"seed": 1}, resume=True)
    with self._in_use():
      self._start({"seed": 1}, resume=True)
    second.close()

  def test_without_locks_it_is_used_with_a_warning(self):
    first, second = self._open(), self._open()
    error = OSError(errno.ENOLCK, "No locks available")
    with (
        mock.patch.object(fcntl, "flock", side_effect=error), self.assertLogs(level="WARNING"),
    ):
      first.start({"config": {"seed": 1}})
      with self._in_use():
        second.start({"config": {"seed": 2}})
      first.close()
    self.assertIn("config.json", os.listdir(self.path))

  def test_without_locks_a_run_whose_releases_count_does_not_start(self):
    error = OSError(errno.ENOLCK, "No locks available")
    with mock.patch.object(fcntl, "flock", side_effect=error):
      with self.assertRaisesRegex(ValueError, "`output_dir` .*locks"):
        self._open().start({"config": {"seed": 1}}, charged_in="journal.csv")

  @parameterized.parameters(({"seed": 1, "k": [2]}, "k"), ({"seed": 1}, "k"),
                            ({"seed": 1, "k": [2, 4], "runs": 3}, "runs"))
  def test_resume_needs_the_same_settings_and_overwrite_none(self, settings, name):
    self._start({"seed": 1, "k": [2, 4]}).close()
    folder = self._open(resume=True)
    folder.check_same_config({"seed": 1, "k": [2, 4]})
    with self.assertRaisesRegex(output_folder.OtherConfig, f"`{name}`"):
      folder.check_same_config(settings)
    folder = self._open(overwrite=True)
    folder.check_same_config(settings)
    folder.start({"config": settings})
    self.assertEqual(self._document()["config"], settings)

  def test_a_run_that_goes_on_has_no_report_any_more(self):
    self._start({"seed": 1}).close()
    for name in ("rows.csv", "summary.json", "report.html"):
      self._write(name)
    self._start({"seed": 1}, resume=True).close()
    self.assertCountEqual(os.listdir(self.path), ["config.json", "rows.csv"])

  @parameterized.parameters(*_EITHER)
  def test_another_programs_run_is_left_alone(self, **how):
    folder = self._open()
    folder.start({"experiment": "mine", "config": {"seed": 1}})
    folder.close()
    for name in ("another", None):
      with self._refused():
        self._open(**how).check_same_config({"seed": 1}, name)
    self.assertEqual(os.listdir(self.path), ["config.json"])

  @parameterized.parameters(
      "{", "[]", '{"config": 3}', json.dumps({"config": {}, "format": file_format.FORMAT + 1}),
  )
  def test_settings_that_can_not_be_read(self, text):
    self._write("config.json", text)
    for how in _EITHER:
      with self.assertRaisesRegex(ValueError, "`output_dir` .*config.json"):
        self._open(**how)
    self.assertEqual(os.listdir(self.path), ["config.json"])

  def test_the_settings_are_the_last_to_be_removed(self):
    folder = self._start({"seed": 1})
    folder.write_text("rows.csv", "text")
    folder.close()
    with mock.patch.object(os, "remove", side_effect=[None, KeyboardInterrupt]) as remove:
      with self.assertRaises(KeyboardInterrupt):
        self._start({"seed": 2}, overwrite=True)
    self.assertEqual(remove.call_args.args[0], folder.join("config.json"))

  def test_overwrite_removes_what_the_experiment_writes_and_nothing_else(self):
    elsewhere = self.create_tempdir()
    drawing = elsewhere.create_file("drawing.png").full_path
    self._start({"seed": 1}).close()
    for name in (".rows.csv.7.csv", "summary.json", "report.html", "notes.txt"):
      self._write(name)
    # Of a link, only the link is its own.
    os.symlink(elsewhere.full_path, os.path.join(self.path, "figures"))
    os.symlink(drawing, os.path.join(self.path, "rows.csv"))
    self._start({"seed": 2}, overwrite=True).close()
    self.assertCountEqual(os.listdir(self.path), ["config.json", "notes.txt"])
    self.assertTrue(os.path.exists(drawing))

  # The last is what a run leaves that was killed while it began.
  @parameterized.product(how=_EITHER, name=("", ".config.json.7.json"))
  def test_an_empty_folder_is_begun_afresh(self, how, name):
    os.makedirs(self.path)
    if name:
      self._write(name)
    folder = self._start({"seed": 1}, **how)
    self.assertIsNone(folder.recorded)
    folder.close()
    self.assertEqual(os.listdir(self.path), ["config.json"])

  @parameterized.product(how=({}, *_EITHER), name=(
      "report.html", "summary.json", "rows.csv", ".rows.csv.7.csv", "figures/loss.png", "notes.txt",
  ))
  def test_what_was_left_of_a_run_without_its_settings_stays(self, how, name):
    os.makedirs(os.path.join(self.path, os.path.dirname(name)))
    self._write(name)
    with self._refused():
      self._start({"seed": 1}, **how)
    self.assertEqual(list(run_folder.files(self.path)), [name])

  @parameterized.parameters(None, "rows.csv", "figures/loss.png")
  def test_a_charged_run_stays_and_is_resumed_with_the_file_it_needs_alone(self, lost):
    def start(**how):
      folder = self._open(**how)
      folder.start({"config": {"seed": 1}}, "rows.csv")
      folder.close()

    start()
    os.mkdir(os.path.join(self.path, "figures"))
    for name in ("rows.csv", "figures/loss.png", "summary.json"):
      self._write(name)
    if lost is not None:
      os.remove(os.path.join(self.path, lost))
    before = run_folder.files(self.path)
    with self._refused():
      start(overwrite=True)
    with self._refused():  # By another run that is not charged.
      self._start({"seed": 2}, overwrite=True)
    if lost == "rows.csv":
      with self._refused():
        start(resume=True)
    self.assertEqual(run_folder.files(self.path), before)
    if lost != "rows.csv":
      start(resume=True)

  def test_resume_with_other_versions_is_told_and_recorded(self):
    first, second = {"python": "3.11.4", "numpy": "1.25"}, {"python": "3.11.4", "numpy": "1.26"}
    third = {"python": "3.12.0", "scipy": "1.11"}
    self._open().start({"config": {"seed": 1}, "versions": first})
    for versions in (first, second, second, third):
      folder = self._open(resume=True)
      told = contextlib.nullcontext() if versions == first else self.assertLogs(level="WARNING")
      with told:
        folder.start({"config": {"seed": 1}, "versions": versions})
        folder.close()

    self.assertEqual(self._document(), file_format.stamped({
        "config": {"seed": 1}, "versions": first, "charged": False,
        "resumed_with": [second, third],
    }))
    # Another one, one that is there no more, and a new one; the same ones are not named.
    told = output_folder.version_changes(second, third)
    for name in ("python 3.12.0", "no numpy", "scipy 1.11"):
      self.assertIn(name, told)
    self.assertEqual(output_folder.version_changes(first, first), "")

  def test_a_full_disk_at_the_start(self):
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with mock.patch.object(output_folder.atomic_file, "write_text", side_effect=error):
      with self._refused():
        self._start({"seed": 1})
