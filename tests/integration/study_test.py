import contextlib
import dataclasses
import os
import pathlib
import signal
import tempfile
import time
import unittest
from unittest import mock

from absl.testing import parameterized
import numpy as np
import pandas as pd
import psutil

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiments.study import __main__ as study
from experiments.study import cells as cells_lib
from experiments.three_phase_emnist import data as data_lib
from fl_clustering.engine import engines
from fl_clustering.engine.jax import devices
from fl_clustering.tasks import examples
from fl_clustering.tasks import federated_task
from fl_clustering.three_phase import config as run_config
from tests import nightly
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder
from tests.runtime import scripts
from tests.tasks import data_files

_TABLES = ("results.csv", "rounds.csv", "problems.csv", "summary.json", "tables/cells.csv")
_METHODS = ("--methods=kmeans,ifca", "--num_clusters=2", "--personal=ditto")

_base = None
_flags = None
_uninterrupted = None


def _run(*arguments):
  """Runs Python, which ends well; returns what it printed."""
  code, stdout, stderr = run_folder.ended(*arguments)
  assert code == 0, stderr
  return stdout, stderr


def _study(folder, *flags):
  """Returns the arguments of Python for a study of the small data set."""
  return "-m", "experiments.study", *_flags, *_METHODS, *flags, f"--output_dir={folder}"


def _run_here(folder, *flags):
  """Runs a study in this process, which measures in others; returns what it prints."""
  return in_process.run_main(
      study.main, *in_process.overriding((*_flags, *_METHODS), *flags), f"--output_dir={folder}"
  )


def _cells(folder):
  return pd.read_csv(os.path.join(folder, "tables", "cells.csv"))


def _write_data(name, seed=0):
  """Writes a small data set; returns the flag that names it."""
  folder = os.path.join(_base, name)
  os.mkdir(folder)
  data_files.write_idx_files(folder, data_files.idx_arrays(num_train=120, num_test=20, seed=seed))
  return f"--data_dir={folder}"


def setUpModule():
  """Writes a small data set."""
  global _base, _flags
  temporary = tempfile.TemporaryDirectory()
  unittest.addModuleCleanup(temporary.cleanup)
  _base = temporary.name
  _flags = (
      "--dataset=idx", _write_data("data"), "--num_clients=4", "--pretrain_rounds=1",
      "--cluster_rounds=1", "--settings=iid,rotated", "--num_seeds=1", "--model=logistic",
  )


@nightly.only  # By day, `golden_test` measures a study.
class StudyTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    """Runs a study to the end."""
    super().setUpClass()
    global _uninterrupted
    _uninterrupted = os.path.join(_base, "uninterrupted")
    _run_here(_uninterrupted, "--jobs=1")

  def _assert_same(self, folder):
    for name in _TABLES:
      self.assertEqual(run_folder.read(folder, name), run_folder.read(_uninterrupted, name), name)

  def test_every_cell_has_every_method(self):
    cells = _cells(_uninterrupted)

    methods = (
        "pretrain", "kmeans", "ifca", "fedavg", "finetuned", "local", "ditto", "fedavg_matched"
    )
    self.assertEqual(
        list(cells[["setting", "seed", "fold", "method"]].itertuples(index=False, name=None)),
        [(setting, 0, 0, method) for setting in ("iid", "rotated") for method in methods],
    )
    self.assertTrue(cells["accuracy"].between(0, 1).all())
    # Phase 1 is no choice, so nothing is validated there.
    self.assertEqual(
        (cells["method"] == "pretrain").tolist(), cells["validation_accuracy"].isna().tolist()
    )
    known = (cells["setting"] == "rotated") & cells["method"].isin(["kmeans", "ifca"])
    self.assertEqual(known.tolist(), cells["ari"].notna().tolist())
    self.assertContainsSubset({"config.json", "report.html"}, os.listdir(_uninterrupted))
    # What only serves to go on is gone.
    self.assertEmpty(os.listdir(os.path.join(_uninterrupted, "checkpoints")))

  def _end_when(self, folder, pattern, *flags, signal_num=signal.SIGKILL):
    """Runs a study and ends it while it measures, as soon as there is such a file.

    No process that it started is left.

    Returns:
      Its exit code, and what it printed to standard error.
    """
    with run_folder.started(*_study(folder, *flags)) as process:
      # The file may be there from the start.
      while not (any(pathlib.Path(folder).glob(pattern)) and
                 psutil.Process(process.pid).children()):
        self.assertIsNone(process.poll())
        time.sleep(0.01)
      started = psutil.Process(process.pid).children(recursive=True)
      os.kill(process.pid, signal_num)
      _, stderr = process.communicate()
    _, alive = psutil.wait_procs(started, scripts.TIMEOUT_SECONDS)
    self.assertEmpty(alive)
    self.assertNotIn("report.html", os.listdir(folder))
    return process.returncode, stderr

  def test_a_study_that_is_ended_again_and_again_gives_the_same_bits(self):
    folder = os.path.join(_base, "killed")
    self._end_when(folder, "checkpoints/*/kmeans.npz", "--jobs=2")
    code, stderr = self._end_when(
        folder, "checkpoints/*/fedavg.npz", "--resume", "--jobs=1", signal_num=signal.SIGINT
    )
    self.assertEqual(code, 130, stderr)
    self.assertRegex(stderr, "(?m)^interrupted.*$")
    _, more = _run(*_study(folder, "--jobs=2", "--resume"))

    self.assertNotRegex(stderr + more, "Traceback|Warning")
    self._assert_same(folder)

  def test_a_tuned_study_that_is_ended_again_and_again_gives_the_same_bits(self):
    tuned = ("--learning_rates=0.02,0.3", "--tuning_seeds=1", "--jobs=1")
    undisturbed, folder = (os.path.join(_base, name) for name in ("tuned", "tuned_and_killed"))
    _run_here(undisturbed, *tuned)
    # Tuning has the seed that follows those that are reported.
    self._end_when(folder, "checkpoints/*-seed1-*/*/kmeans.npz", *tuned)
    self._end_when(folder, "checkpoints/*-seed0-*/*/*.npz", "--resume", *tuned)
    _run(*_study(folder, "--resume", *tuned))

    for name in (*_TABLES, "tuning.csv", "chosen.csv"):
      self.assertEqual(run_folder.read(folder, name), run_folder.read(undisturbed, name), name)
    cells, chosen = _cells(folder), pd.read_csv(os.path.join(folder, "chosen.csv"))
    self.assertEqual(set(cells["seed"]), {0})
    taken = chosen[chosen["chosen"] == 1].set_index(["setting", "method"])["candidate"]
    found = cells.set_index(["setting", "method"])["learning_rate"].dropna()
    self.assertEqual(found.to_dict(), taken.to_dict())

  def test_a_method_outside_of_the_repository_is_measured_in_the_studys_processes(self):
    with open("examples/last_layer.py", encoding="utf-8") as file:
      script = file.read()
    path = self.create_tempfile("last_layer.py", script.replace("three_phase_emnist", "study"))
    folder = os.path.join(_base, "own_method")

    # The working folder is none from which the file could be imported.
    _run(path.full_path, *in_process.overriding(
        _flags, "--methods=last_layer,kmeans", "--last_layer_linkage=complete",
        "--num_clusters=2", "--personal=", "--settings=rotated", "--num_seeds=1",
        f"--output_dir={folder}",
    ))

    run = finished_run.FinishedRun(folder)
    self.assertEqual(run.settings["last_layer_linkage"], "complete")
    self.assertEqual(list(run.document["inputs"]["own_code"]), ["last_layer"])
    self.assertEqual(_cells(folder).set_index("method")["clusters"]["last_layer"], 2)

  def test_clients_of_files(self):
    data, folder = os.path.join(_base, "clients"), os.path.join(_base, "of_files")
    os.mkdir(data)
    rng = np.random.default_rng(0)
    for client_id in "abcd":
      frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["x", "y"])
      frame["level"] = np.where(frame["x"] + frame["y"] > 0, "high", "low")
      frame.to_csv(os.path.join(data, f"{client_id}.csv"), index=False)

    stdout, _ = _run(
        "-m", "experiments.study", f"--output_dir={folder}", *_METHODS, "--dataset=files",
        f"--data_dir={data}", "--label_column=level", "--settings=natural", "--num_folds=2",
        "--num_seeds=1", "--pretrain_rounds=2", "--cluster_rounds=2",
    )

    self.assertStartsWith(stdout, "data: 160 rows of tables in clients: 2 features, and 2 classes")
    cells = _cells(folder)
    self.assertLen(cells, 16)
    self.assertTrue(cells["accuracy"].between(0.5, 1).all())
    clients = finished_run.FinishedRun(folder).document["inputs"]["clients"]
    self.assertEqual(list(clients), list("abcd"))


@nightly.only
class TestRowsTest(parameterized.TestCase):

  def test_other_labels_of_all_test_rows_give_the_same_choices(self):
    config = study.config_lib.StudyConfig(
        run_config.ThreePhaseConfig(
            dataset="digits", num_clients=4, model="logistic", pretrain_rounds=1, cluster_rounds=1,
            methods=("kmeans",), personal=("ditto",), num_clusters=2, control_repeats=0,
            engine=engines.usual(),
        ), ("rotated",), num_seeds=1, learning_rates=(0.001, 0.1, 1.0), tuning_seeds=1,
    )
    load = cells_lib.load_task

    def load_with_other_labels(*arguments, **cell):
      task = load(*arguments, **cell)
      return dataclasses.replace(task, clients=federated_task.PooledClients.of([
          dataclasses.replace(one, test=examples.Examples(one.test.features, 9 - one.test.labels))
          for one in task.clients
      ]))

    chosen, accuracies = [], []
    for loaded in (load, load_with_other_labels):
      folder = self.create_tempdir().full_path
      whole = tidy_experiment.Run(config, cells_lib.Machine(None, 1), folder)
      with mock.patch.object(cells_lib, "load_task", loaded):
        found = cells_lib.EXPERIMENT.measure(whole, setting="rotated", seed=1, fold=0)
      table = pd.DataFrame(found["tuning"]).assign(setting="rotated", seed=1, fold=0)
      cells_lib.EXPERIMENT.finish(whole, {"tuning": table})
      chosen.append(run_folder.read(folder, "chosen.csv"))
      accuracies.append(table["value"][table["metric"] == "accuracy"].tolist())

    self.assertEqual(*chosen)
    self.assertNotEqual(*accuracies)


class SettingsTest(parameterized.TestCase):

  @parameterized.parameters(
      (("--engine=jax",), True, 1), (("--engine=jax",), False, 6),
      (("--engine=jax", "--jobs=3"), True, 3), ((), None, 6),
  )
  def test_each_core_measures_a_run_but_an_accelerator_one_alone(
      self, flags, has_accelerator, jobs
  ):
    with mock.patch.object(study.program, "main") as main, mock.patch.object(
        study.cell_processes, "call", return_value=has_accelerator
    ) as call, mock.patch.object(study.core_count, "usable", return_value=6):
      _run_here(os.path.join(_base, "jobs"), *flags)
    of_main = main.call_args.kwargs
    self.assertEqual((of_main["jobs"], of_main["num_cores"]), (jobs, 6 // jobs))
    self.assertEqual(call.called, has_accelerator is not None)

  def test_an_accelerator_is_what_jax_says_is_no_cpu(self):
    for platform in ("cpu", "gpu", "tpu"):
      device = mock.Mock(platform=platform)
      with mock.patch.object(devices, "local", return_value=(device,)):
        self.assertEqual(data_lib.check_engine("jax"), platform != "cpu", platform)
    self.assertFalse(data_lib.check_engine("tff"))

  def test_what_is_tuned_must_not_be_given(self):
    flags = ("--learning_rates=0.1,0.2", "--learning_rate=0.3")
    with self.assertRaisesRegex(launch.InputError, "^`learning_rate`"):
      _run_here(os.path.join(_base, "bad"), *flags)

  def test_an_option_that_is_tuned_decides_what_it_needs(self):
    with mock.patch.object(study.program, "main") as main:
      _run_here(os.path.join(_base, "restarts"), "--tune=ifca_restarts:1,3")
    settings = main.call_args.args[1]
    self.assertEqual(settings.run.ifca_start, "random")
    self.assertEqual(settings.run_config("iid", 0, "3").ifca_restarts, 3)

  def test_a_cluster_gets_the_whole_path_of_the_data(self):
    client = contextlib.nullcontext("client")
    with mock.patch.object(study.program, "main") as main, mock.patch.object(
        study.cell_processes, "connected", return_value=client
    ):
      _run_here(os.path.join(_base, "cluster"), "--cluster=there", "--data_dir=data")
    self.assertEqual(main.call_args.kwargs["client"], "client")
    self.assertEqual(main.call_args.kwargs["data_dir"], os.path.abspath("data"))

  @parameterized.parameters(
      ("settings=iid,sorted", "settings"), ("jobs=0", "jobs"),
      ("partition=iid", "partition"), ("settings=natural", "partition"),
      ("num_clients=61", "num_clients"), ("cluster=nowhere", "cluster"),
      ("learning_rates=0.1", "learning_rates"), ("tune=ifca_restarts:1,few", "ifca_restarts"),
  )
  def test_bad_input_writes_nothing(self, flag, name):
    folder = os.path.join(_base, "bad")

    with self.assertRaisesRegex(launch.InputError, f"^`{name}`"):
      _run_here(folder, f"--{flag}")

    self.assertFalse(os.path.exists(folder))
