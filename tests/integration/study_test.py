import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
import psutil

from experiment_shell import finished_run
from experiment_shell import launch
from experiments import study
from tests.experiment_shell import damaged_files
from tests.experiment_shell import in_process
from tests import nightly
from tests.tasks import data_files

_TABLES = ("results.csv", "rounds.csv", "problems.csv", "summary.json", "tables/cells.csv")
_METHODS = ("--methods=kmeans,ifca", "--num_clusters=2", "--personal=ditto")
# All files of a study without its report: whether it is refused where they are damaged.
_FILES = {"config.json": True, "*.csv": False}

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


def _ended(process):
  """Waits for a program; returns its exit code, standard output and standard error."""
  with process:
    stdout, stderr = process.communicate()
  return process.returncode, stdout, stderr


def _run(folder, *flags):
  """Runs a study of the small data set; returns what `_ended` does."""
  return _ended(_start_program(folder, *_flags, *flags))


def _run_here(folder, *flags):
  """Runs a study in this process, which measures in others; returns what it prints."""
  return in_process.run_main(study.main, *_flags, *flags, f"--output_dir={folder}")


def _read(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8") as file:
    return file.read()


def _cells(folder):
  return pd.read_csv(os.path.join(folder, "tables", "cells.csv"))


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

  def _assert_same(self, folder):
    for name in _TABLES:
      self.assertEqual(_read(folder, name), _read(_uninterrupted, name), name)

  def test_every_cell_has_every_method(self):
    cells = _cells(_uninterrupted)

    methods = (
        "pretrain", "kmeans", "ifca", "fedavg", "finetuned", "local", "ditto", "fedavg_matched"
    )
    self.assertEqual(
        list(cells[["setting", "seed", "fold", "method"]].itertuples(index=False, name=None)),
        [(setting, seed, 0, method) for setting in ("iid", "rotated") for seed in (0, 1)
         for method in methods],
    )
    self.assertTrue(cells["accuracy"].between(0, 1).all())
    # Phase 1 is no choice, so nothing is validated there.
    self.assertEqual(
        (cells["method"] == "pretrain").tolist(), cells["validation_accuracy"].isna().tolist()
    )
    known = (cells["setting"] == "rotated") & cells["method"].isin(["kmeans", "ifca"])
    self.assertEqual(known.tolist(), cells["adjusted_rand_index"].notna().tolist())
    self.assertIn("report.html", os.listdir(_uninterrupted))
    # What only serves to go on is gone.
    self.assertEmpty(os.listdir(os.path.join(_uninterrupted, "checkpoints")))

  def test_costs_of_rounds_end_with_those_of_the_cell(self):
    rounds = pd.read_csv(os.path.join(_uninterrupted, "rounds.csv"))
    keys = ["setting", "seed", "method"]
    last = rounds.groupby([*keys, "metric"])["value"].last().unstack()
    cells = _cells(_uninterrupted).set_index(keys).loc[last.index]

    np.testing.assert_array_equal(last["client_steps"], cells["client_steps"])
    np.testing.assert_array_equal(last["bytes"], cells["bytes_down"] + cells["bytes_up"])
    np.testing.assert_array_equal(last["accuracy"], cells["accuracy"])

  def _end_when(self, folder, is_time, *flags, signal_num=signal.SIGKILL):
    """Runs a study and ends it while it measures, as soon as `is_time()` is true.

    No process that it started is left.

    Returns:
      Its exit code, and what it printed to standard error.
    """
    with _start_program(folder, *_flags, *_METHODS, *flags) as process:
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

    def has(pattern):
      return lambda: next(pathlib.Path(folder).glob(pattern), None) is not None

    def has_measured():
      return os.path.exists(f"{folder}/cells.jsonl") and "\n" in _read(folder, "cells.jsonl")

    self._end_when(folder, has("checkpoints/*/kmeans.npz"), "--jobs=2")
    self._end_when(folder, has_measured, "--jobs=2", "--resume")
    code, stderr = self._end_when(
        folder, has("checkpoints/*/fedavg.npz"), "--resume", "--jobs=1",
        signal_num=signal.SIGINT,
    )
    self.assertEqual(code, 130, stderr)
    self.assertEndsWith(stderr, "interrupted: everything saved so far is kept.\n")
    self.assertNotRegex(stderr, "Traceback|Warning")
    code, _, stderr = _run(folder, *_METHODS, "--jobs=2", "--resume")

    self.assertEqual(code, 0, stderr)
    self.assertNotRegex(stderr, "Traceback|Warning")
    self._assert_same(folder)

  def test_a_cell_whose_process_is_killed_fails_and_is_tried_again(self):
    folder = os.path.join(_base, "lost")
    with _start_program(folder, *_flags, *_METHODS, "--jobs=1") as process:
      while not (found := list(pathlib.Path(folder).glob("checkpoints/*/kmeans.npz"))):
        self.assertIsNone(process.poll())
        time.sleep(0.01)
      measuring = max(
          psutil.Process(process.pid).children(), key=lambda child: child.memory_info().rss
      )
      measuring.kill()
      _, stderr = process.communicate()

    self.assertEqual(process.returncode, 1, stderr)
    self.assertRegex(stderr, "(?m)^error: some cells failed, see failures.csv in .*--resume")
    (failure,) = pd.read_csv(os.path.join(folder, "failures.csv")).to_dict("records")
    self.assertStartsWith(found[0].parent.name, f"{failure['setting']}-seed{failure['seed']}")
    self.assertIn("SIGKILL", failure["last words"])
    _run_here(folder, *_METHODS, "--jobs=1", "--resume")
    self.assertNotIn("failures.csv", os.listdir(folder))
    self._assert_same(folder)

  def test_cells_whose_phase_1_diverges_fail(self):
    folder = os.path.join(_base, "failing")
    flags = in_process.overriding(
        _flags, "--methods=kmeans", "--num_clusters=2", "--personal=", "--learning_rate=1e30",
        "--settings=iid", "--num_folds=2", "--num_seeds=1", f"--output_dir={folder}",
    )

    with self.assertRaisesRegex(launch.RunFailed, "^all cells failed, see failures.csv"):
      in_process.run_main(study.main, *flags)

    failures = pd.read_csv(os.path.join(folder, "failures.csv"))
    self.assertEqual(failures["fold"].tolist(), [1, 2])
    self.assertRegex(failures["last words"][0], "round 1.* not finite")

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
    self.assertEqual(list(run.document["inputs"]["own_methods"]), ["last_layer"])
    self.assertEqual(_cells(folder).set_index("method")["num_clusters"]["last_layer"], 2)

  def _unfinished(self):
    """Returns the folder of a study that is measured and not drawn."""
    folder = os.path.join(self.create_tempdir().full_path, "unfinished")
    shutil.copytree(_uninterrupted, folder, ignore=shutil.ignore_patterns("figures", "tables"))
    for name in ("report.html", "summary.json"):
      os.remove(os.path.join(folder, name))
    return folder

  def test_these_are_all_files(self):
    self.assertEmpty(damaged_files.without_pattern(self._unfinished(), _FILES))

  @parameterized.named_parameters(*damaged_files.parameters({"config.json": True}))
  def test_a_damaged_file_is_named(self, pattern, damage, unused_is_refused):
    folder = os.path.join(self.create_tempdir().full_path, "run")
    damaged_files.damaged_copy(self._unfinished(), folder, pattern, damage)

    with self.assertRaisesRegex(launch.InputError, pattern):
      _run_here(folder, *_METHODS, "--resume")

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
    data = os.path.join(_base, "other_data")
    os.mkdir(data)
    data_files.write_idx_files(data, data_files.idx_arrays(num_train=120, num_test=20, seed=1))

    with self.assertRaisesRegex(
        launch.InputError, "^`output_dir` must hold a run with the same examples"
    ):
      _run_here(self._unfinished(), *_METHODS, f"--data_dir={data}", "--resume")

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
    cells = _cells(folder)
    self.assertLen(cells, 16)
    self.assertTrue(cells["accuracy"].between(0.5, 1).all())
    self.assertEqual(
        list(finished_run.FinishedRun(folder).document["inputs"]["clients"]), list("abcd")
    )

  @parameterized.named_parameters(
      ("unknown_setting", "--settings=iid,sorted", "`settings` must be one of "),
      ("jobs", "--jobs=0", "`jobs` must be "),
      ("reuse", "--reuse=somewhere", "`reuse` must be left out in a study"),
      ("engine", "--engine=jax", "`engine` must be left out in a study"),
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
