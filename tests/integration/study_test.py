import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import psutil

from experiment_shell import finished_run
from experiment_shell import launch
from experiments.grouping_study import cells
from experiments.grouping_study import jobs
from experiments import study
from tests.experiment_shell import damaged_files
from tests.experiment_shell import in_process
from tests import nightly
from tests.tasks import data_files

_TABLES = ("results.csv", "rounds.csv")
_METHODS = ("--methods=kmeans,ifca", "--num_clusters=2", "--personal=ditto")
# All files of a study without its report: whether it is refused where they are damaged.
_FILES = {
    "config.json": True, "cells/*/results.csv": True, "cells/*/rounds.csv": True, "r*.csv": False,
}

_base = None
_flags = None
_uninterrupted = None


def _start_process(*arguments):
  """Starts Python in a process of its own; returns its `Popen`."""
  return subprocess.Popen(
      [sys.executable, *arguments],
      env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
  )


def _start_program(folder, *flags):
  return _start_process("-m", "experiments.study", *flags, f"--output_dir={folder}")


def _start(folder, *flags):
  """Starts a study of the small data set; returns its `Popen`."""
  return _start_program(folder, *_flags, *flags)


def _ended(process):
  """Waits for a program; returns its exit code, standard output and standard error."""
  with process:
    stdout, stderr = process.communicate()
  return process.returncode, stdout, stderr


def _run(folder, *flags):
  """Runs a study of the small data set; returns what `_ended` does."""
  return _ended(_start(folder, *flags))


def _run_here(folder, *flags):
  """Runs a study in this process, which measures in others; returns what it prints."""
  return in_process.run_main(study.Study().main, *_flags, *flags, f"--output_dir={folder}")


def _read(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8") as file:
    return file.read()


def setUpModule():
  """Writes a small data set, and runs a study on it to the end."""
  global _base, _flags, _uninterrupted
  temporary = tempfile.TemporaryDirectory()
  unittest.addModuleCleanup(temporary.cleanup)
  _base = temporary.name
  data = os.path.join(_base, "data")
  os.mkdir(data)
  data_files.write_idx_files(data, data_files.idx_arrays(num_train=120, num_test=20))
  _flags = (
      "--dataset=idx", f"--data_dir={data}", "--num_clients=4", "--pretrain_rounds=2",
      "--cluster_rounds=2", "--settings=iid,rotated", "--num_seeds=2",
  )
  _uninterrupted = os.path.join(_base, "uninterrupted")
  _run_here(_uninterrupted, *_METHODS, "--jobs=1")


class StudyTest(parameterized.TestCase):

  def test_every_cell_has_a_row(self):
    run = finished_run.FinishedRun(_uninterrupted)

    rows = run.rows("results.csv", ("problem",))

    methods = (
        "pretrain", "kmeans", "ifca", "fedavg", "finetuned", "local", "ditto", "fedavg_matched"
    )
    self.assertEqual(
        [(row["setting"], row["seed"], row["method"]) for row in rows],
        [(setting, seed, method) for setting in ("iid", "rotated") for seed in (0, 1)
         for method in methods],
    )
    for row in rows:
      self.assertEqual(row["problem"], "")
      self.assertIsNone(row["fold"])
      self.assertBetween(row["accuracy"], 0, 1)
      # Phase 1 is no choice, so nothing is validated there.
      self.assertEqual(row["validation_accuracy"] is None, row["method"] == "pretrain")
      known = row["setting"] == "rotated" and row["method"] in ("kmeans", "ifca")
      self.assertEqual(row["adjusted_rand_index"] is not None, known, row)
    self.assertEqual(run.json("summary.json")["failures"], [])
    self.assertTrue(run.has("report.html"))
    # What only serves to go on is gone.
    for name in os.listdir(run.join("cells")):
      self.assertCountEqual(os.listdir(run.join(os.path.join("cells", name))), _TABLES)

  def test_costs_of_rounds_end_with_those_of_the_cell(self):
    run = finished_run.FinishedRun(_uninterrupted)
    last = {}
    for row in run.rows("rounds.csv"):
      last[row["setting"], row["seed"], row["method"]] = row

    for row in run.rows("results.csv"):
      end = last[row["setting"], row["seed"], row["method"]]
      self.assertEqual(end["client_steps"], row["client_steps"])
      self.assertEqual(end["bytes"], row["bytes_down"] + row["bytes_up"])
      self.assertEqual(end["accuracy"], row["accuracy"])

  def _end_when(self, folder, is_time, *flags, signal_num=signal.SIGKILL):
    """Runs a study and ends it while it measures, as soon as `is_time()` is true.

    No process that it started is left.

    Returns:
      Its exit code, and what it printed to standard error.
    """
    with _start(folder, *_METHODS, *flags) as process:
      # What `is_time` looks at may be there from the start.
      while not (is_time() and psutil.Process(process.pid).children()):
        self.assertIsNone(process.poll())
        time.sleep(0.01)
      started = psutil.Process(process.pid).children(recursive=True)
      os.kill(process.pid, signal_num)
      _, stderr = process.communicate()
    _, alive = psutil.wait_procs(started, timeout=60)
    self.assertEmpty(alive)
    self.assertNotIn("report.html", os.listdir(folder))
    return process.returncode, stderr

  @nightly.only
  def test_a_study_that_is_ended_again_and_again_gives_the_same_bits(self):
    folder = os.path.join(_base, "killed")
    groups = os.path.join(folder, "cells")

    def has(name):
      return lambda: os.path.isdir(groups) and any(
          os.path.exists(os.path.join(groups, group, name)) for group in os.listdir(groups)
      )

    self._end_when(folder, has(os.path.join("checkpoints", "kmeans.npz")), "--jobs=2")
    self._end_when(folder, has("results.csv"), "--jobs=2", "--resume")
    code, stderr = self._end_when(
        folder, has(os.path.join("checkpoints", "fedavg.npz")), "--resume", "--jobs=1",
        signal_num=signal.SIGINT,
    )
    self.assertEqual(code, 130, stderr)
    self.assertEndsWith(stderr, "\ninterrupted: everything saved so far is kept.\n")
    code, _, stderr = _run(folder, *_METHODS, "--jobs=2", "--resume")

    self.assertEqual(code, 0, stderr)
    for name in (*_TABLES, "summary.json"):
      self.assertEqual(_read(folder, name), _read(_uninterrupted, name), name)

  def test_cells_that_fail_are_rows_and_the_study_ends_with_code_1(self):
    folder = os.path.join(_base, "failing")
    flags = in_process.overriding(
        _flags, "--methods=kmeans", "--num_clusters=2", "--personal=", "--learning_rate=1e30",
        "--settings=iid", "--num_folds=2", "--num_seeds=1", f"--output_dir={folder}",
    )

    code, stdout, stderr = in_process.run_program(study.Study().main, *flags, "--jobs=1")

    self.assertEqual(code, 1, stderr)
    self.assertEndsWith(stderr, "error: 10 of 10 cells failed; they are listed above.\n")
    self.assertRegex(stdout, "\niid, kmeans, seed 0, fold 1: .*round 1.* not finite")
    self.assertIn("report.html", os.listdir(folder))
    rows = finished_run.FinishedRun(folder).rows("results.csv", ("problem",))
    self.assertEqual([row["fold"] for row in rows], [0] * 5 + [1] * 5)
    self.assertEqual({row["accuracy"] for row in rows}, {None})
    # It is finished, but its cells have still failed.
    with self.assertRaisesRegex(launch.RunFailed, "^10 of 10 cells failed"):
      in_process.run_main(study.Study().main, *flags, "--resume")

  def test_a_method_outside_of_the_repository_is_measured_in_the_studys_processes(self):
    with open("docs/own_method.md", encoding="utf-8") as file:
      script = re.search(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)[1]
    path = self.create_tempfile("last_layer.py", script.replace("three_phase_emnist", "study"))
    folder = os.path.join(_base, "own_method")

    # The working folder is none from which the file could be imported.
    code, _, stderr = _ended(_start_process(path.full_path, *in_process.overriding(
        _flags, "--methods=last_layer,kmeans", "--last_layer_linkage=complete",
        "--num_clusters=2", "--personal=", "--settings=rotated", "--num_seeds=1",
        f"--output_dir={folder}",
    )))

    self.assertEqual(code, 0, stderr)
    run = finished_run.FinishedRun(folder)
    self.assertEqual(run.settings["last_layer_linkage"], "complete")
    (row,) = (row for row in run.rows("results.csv", ("problem",)) if row["method"] == "last_layer")
    self.assertEqual((row["problem"], row["num_clusters"]), ("", 2))

  def _lost(self, name):
    """Returns the folder of the study as if IFCA's process had ended twice in a group."""
    folder = os.path.join(_base, name)
    shutil.copytree(_uninterrupted, folder)
    for path in (os.path.join("cells", "rotated-seed0", "results.csv"), "results.csv"):
      lines = _read(folder, path).split("\n")
      lines = [
          "rotated,0,,ifca" + "," * (line.count(",") - 3) + f"{cells.PROCESS_ENDED} with code -9"
          if line.startswith("rotated,0,,ifca,") else line for line in lines
      ]
      with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    return folder

  def test_a_resumed_study_measures_again_what_ended_its_process(self):
    folder = self._lost("lost")

    with self.assertRaisesRegex(RuntimeError, "^measures rotated-seed0$"):
      with self._measuring_raises():
        _run_here(folder, *_METHODS, "--jobs=1", "--resume")

  @nightly.only
  def test_what_is_measured_again_gives_the_same_bits(self):
    folder = self._lost("lost_and_found")

    printed = _run_here(folder, *_METHODS, "--jobs=1", "--resume")

    self.assertStartsWith(printed, "data: ")
    for name in (*_TABLES, "summary.json"):
      self.assertEqual(_read(folder, name), _read(_uninterrupted, name), name)

  def _unfinished(self):
    folder = os.path.join(self.create_tempdir().full_path, "unfinished")
    shutil.copytree(_uninterrupted, folder, ignore=shutil.ignore_patterns("figures"))
    for name in ("report.html", "summary.json"):
      os.remove(os.path.join(folder, name))
    return folder

  def test_these_are_all_files(self):
    self.assertEmpty(damaged_files.without_pattern(self._unfinished(), _FILES))

  @parameterized.named_parameters(*damaged_files.parameters(_FILES))
  def test_a_damaged_file_is_named_or_made_again(self, pattern, damage, is_refused):
    folder = os.path.join(self.create_tempdir().full_path, "run")
    damaged_files.damaged_copy(self._unfinished(), folder, pattern, damage)
    refused = contextlib.nullcontext()
    if is_refused:
      refused = self.assertRaisesRegex(launch.InputError, pattern.replace("*", ".+"))

    with refused:
      _run_here(folder, *_METHODS, "--resume")

    if not is_refused:
      for name in (*_TABLES, "summary.json"):
        self.assertEqual(_read(folder, name), _read(_uninterrupted, name), name)

  @parameterized.named_parameters(
      ("more_seeds", ("--num_seeds=3",), "`num_seeds` must be 2, as in the run to resume, got 3"),
      ("folds", ("--num_folds=2",), "`num_folds` must be None, as in the run to resume, got 2"),
      ("other_setting", ("--settings=iid",), "`settings` must be "),
      ("other_rate", ("--learning_rate=0.2",), "`learning_rate` must be 0.1"),
  )
  def test_other_settings_are_refused(self, flags, message):
    with self.assertRaisesRegex(launch.InputError, f"^{message}"):
      _run_here(_uninterrupted, *_METHODS, *flags, "--resume")

  def test_other_data_are_refused(self):
    unfinished = os.path.join(_base, "unfinished")
    shutil.copytree(_uninterrupted, unfinished)
    os.remove(os.path.join(unfinished, "report.html"))
    data = os.path.join(_base, "other_data")
    os.mkdir(data)
    data_files.write_idx_files(data, data_files.idx_arrays(num_train=120, num_test=20, seed=1))

    with self.assertRaisesRegex(
        launch.InputError, "^`data_dir` must give the same data as in the study to resume"
    ):
      _run_here(unfinished, *_METHODS, f"--data_dir={data}", "--resume")

  def test_what_a_part_has_measured_is_taken_over(self):
    folder = os.path.join(_base, "whole")
    part = os.path.join(_base, "part")
    shutil.copytree(_uninterrupted, part)
    shutil.rmtree(os.path.join(part, "cells", "rotated-seed1"))

    with self.assertRaisesRegex(RuntimeError, "^measures rotated-seed1$"):
      with self._measuring_raises():
        _run_here(folder, *_METHODS, "--settings=rotated,iid", f"--parts={part}")
    _run_here(
        folder, *_METHODS, "--settings=rotated,iid", f"--parts={_uninterrupted}", "--resume"
    )

    whole = finished_run.FinishedRun(folder).rows("results.csv", ("problem",))
    expected = finished_run.FinishedRun(_uninterrupted).rows("results.csv", ("problem",))
    self.assertEqual(whole, sorted(expected, key=lambda row: row["setting"], reverse=True))
    self.assertIn("report.html", os.listdir(folder))

  def test_a_part_may_have_other_seeds_of_the_same_data(self):
    flags = (*_METHODS, "--seed=1", f"--parts={_uninterrupted}")

    with self.assertRaisesRegex(RuntimeError, "^measures iid-seed2, rotated-seed2$"):
      with self._measuring_raises():
        _run_here(os.path.join(_base, "seeds"), *flags)
    data = os.path.join(_base, "data_of_other_seeds")
    os.mkdir(data)
    data_files.write_idx_files(data, data_files.idx_arrays(num_train=120, num_test=20, seed=1))
    with self.assertRaisesRegex(launch.InputError, "other examples for the setting 'iid'"):
      _run_here(os.path.join(_base, "refused"), *flags, f"--data_dir={data}")

  def _measuring_raises(self):
    def measure(study, groups, *unused_args):
      raise RuntimeError(f"measures {', '.join(group.name for group in groups)}")

    return mock.patch.object(jobs, "measure", measure)

  def test_what_is_there_is_not_taken_over_again(self):
    folder = os.path.join(_base, "twice")
    shutil.copytree(_uninterrupted, folder)
    os.remove(os.path.join(folder, "report.html"))
    before = os.stat(os.path.join(folder, "cells", "iid-seed0", "results.csv"))

    _run_here(folder, *_METHODS, f"--parts={_uninterrupted}", "--resume")

    after = os.stat(os.path.join(folder, "cells", "iid-seed0", "results.csv"))
    self.assertEqual(after.st_ino, before.st_ino)

  @nightly.only
  def test_clients_of_files(self):
    data, folder = os.path.join(_base, "clients"), os.path.join(_base, "of_files")
    os.mkdir(data)
    rng = np.random.default_rng(0)
    for client_id in ("a", "b", "c", "d"):
      values = rng.normal(size=(40, 2))
      lines = [f"{x},{y},{'high' if x + y > 0 else 'low'}" for x, y in values]
      with open(os.path.join(data, f"{client_id}.csv"), "w", encoding="utf-8") as file:
        file.write("\n".join(["x,y,level", *lines]) + "\n")

    code, stdout, stderr = _ended(_start_program(
        folder, *_METHODS, "--dataset=files", f"--data_dir={data}", "--label_column=level",
        "--settings=natural", "--num_folds=2", "--num_seeds=1", "--pretrain_rounds=2",
        "--cluster_rounds=2",
    ))

    self.assertEqual(code, 0, stderr)
    self.assertStartsWith(stdout, "data: 160 rows of tables in clients: 2 features, and 2 classes")
    rows = finished_run.FinishedRun(folder).rows("results.csv", ("problem",))
    self.assertLen(rows, 16)
    for row in rows:
      self.assertEqual((row["setting"], row["problem"]), ("natural", ""))
      self.assertBetween(row["accuracy"], 0.5, 1)

  def test_a_tilde_is_the_home_folder(self):
    folder = os.path.join(_base, "of_home")

    with mock.patch.dict(os.environ, {"HOME": _base}):
      text = _run_here(
          folder, *_METHODS, "--data_dir=~/data", f"--parts=~/{os.path.basename(_uninterrupted)}"
      )

    self.assertIn("taken over: 4 of these runs", text)

  def test_a_study_is_no_part_of_itself(self):
    folder = os.path.join(_base, "itself")
    shutil.copytree(_uninterrupted, folder)

    with self.assertRaisesRegex(launch.InputError, "^`parts` must be other folders than "):
      _run_here(folder, *_METHODS, f"--parts={folder}/", "--overwrite")

    self.assertEqual(_read(folder, "results.csv"), _read(_uninterrupted, "results.csv"))

  @parameterized.named_parameters(
      ("none", "nowhere", "`parts` must name folders of studies, got "),
      ("other_rate", "", "`parts` must be of the same study but for its settings and seeds, "
       "got .* with learning_rate=0.1 instead of 0.2"),
  )
  def test_other_parts_are_refused(self, name, message):
    folder = os.path.join(_base, "bad_parts")

    with self.assertRaisesRegex(launch.InputError, f"^{message}"):
      _run_here(
          folder, *_METHODS, "--learning_rate=0.2",
          f"--parts={os.path.join(_uninterrupted, name)}",
      )

    self.assertFalse(os.path.exists(folder))

  @parameterized.named_parameters(
      ("unknown_setting", "--settings=iid,sorted", "`settings` must be one of "),
      ("jobs", "--jobs=0", "`jobs` must be "),
      ("reuse", "--reuse=somewhere", "`reuse` must be left out in a study"),
      ("partition", "--partition=iid", "`partition` must be left to the study's settings"),
      ("own_clients", "--settings=natural", "`partition` must be one of "),
      ("many_clients", "--num_clients=61", "`num_clients` must be at most 60"),
  )
  def test_bad_input_writes_nothing(self, flag, message):
    folder = os.path.join(_base, "bad")

    with self.assertRaisesRegex(launch.InputError, f"^{message}"):
      _run_here(folder, *_METHODS, flag)

    self.assertFalse(os.path.exists(folder))

  def test_bad_input_ends_with_one_line_and_code_2(self):
    process = _start_program(os.path.join(_base, "bad"), *_METHODS, "--settings=sorted")
    code, _, stderr = _ended(process)

    self.assertEqual(code, 2)
    self.assertStartsWith(stderr, "error: `settings` must be one of ")
    self.assertEqual(stderr.count("\n"), 1)


if __name__ == "__main__":
  absltest.main()
