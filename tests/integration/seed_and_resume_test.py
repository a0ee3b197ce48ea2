import contextlib
import functools
import os
import shutil
import tempfile
import unittest
from unittest import mock

from absl.testing import parameterized
import psutil

from fl_clustering import runtime
from fl_clustering.runtime import worker_watch
from fl_clustering.three_phase import checkpoint
from tests import nightly
from tests.experiment_shell import damaged_files
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder
from tests.integration import three_phase_program as program
from tests.tasks import data_files

_METHODS = (
    "--methods=kmeans,ifca,cfl", "--num_clusters=2", "--control_repeats=2",
    # So that CFL splits its cluster.
    "--cfl_ratio=1e9", "--cfl_gap=-2",
)
# All tables of a run, and what was printed of it.
_TABLES = (
    "clients.csv", "curves.csv", "distances.csv", "examples.csv", "group_recovery.csv",
    "num_clusters.csv", "results.csv", "summary.json", "warnings.csv",
)
# All files of an interrupted run: whether a run that is resumed is refused where they are damaged.
_FILES = {
    "config.json": True,
    "checkpoints/pretrain.npz": True,
    "checkpoints/kmeans.npz": True,
    "checkpoints/ifca.npz": True,
    # The journal of cells, the curves so far, and the clients' data and weights.
    "c[elu]*": False,
}

_base = None
_flags = None
_uninterrupted = None


class _SharedWorker(runtime.LocalRuntime):
  """A worker for all runs of this process: most of a short run would go by starting one."""

  def __exit__(self, *unused_exception):
    pass


_worker = functools.cache(_SharedWorker)


def _end_worker():
  _worker().close()
  _worker.cache_clear()


def setUpModule():
  """Writes a small data set, and runs the program on it to the end.

  The reports have no figures, which take much of the time.
  """
  global _base, _flags, _uninterrupted
  temporary = tempfile.TemporaryDirectory()
  unittest.addModuleCleanup(temporary.cleanup)
  _base = temporary.name
  data = os.path.join(_base, "data")
  os.mkdir(data)
  data_files.write_idx_files(data, data_files.idx_arrays(num_train=180, num_test=20))
  _flags = (
      "--dataset=idx", f"--data_dir={data}", "--partition=iid", "--num_clients=6",
      "--pretrain_rounds=3", "--cluster_rounds=2", "--clients_per_round=4", "--model=logistic",
  )
  for patch in (program.without_figures(), mock.patch.object(runtime, "LocalRuntime", _worker)):
    unittest.enterModuleContext(patch)
  unittest.addModuleCleanup(_end_worker)
  _uninterrupted = os.path.join(_base, "uninterrupted")
  result = _run(_uninterrupted, *_METHODS)
  assert result.code == 0, result.stderr


def _run(folder, *flags):
  return program.run(*in_process.overriding(_flags, *flags), f"--output_dir={folder}")


def _losses(folder):
  """Returns the losses of training in phase 1, a value per round."""
  return list(program.table(folder, "curves", method="pretrain", metric="train_loss")["value"])


def _of_clients(folder, method):
  return list(program.table(folder, "clients", method=method, phase="cluster")["value"])


class _RunsTest(parameterized.TestCase):

  def _check_ended(self, result, code, message):
    """Checks that a run ended with a line."""
    self.assertEqual(result.code, code, result.stderr)
    self.assertNotIn("Traceback", result.stderr)
    self.assertRegex(result.stderr.splitlines()[-1], message)


class SeedAndResumeTest(_RunsTest):
  """Runs end early and are resumed, and the numbers stay the same."""

  def _kill_in_phase_2(self, folder):
    """Resumes a run, and leaves on the disk what is there when a signal kills it in IFCA."""
    killed = f"{folder}_killed"

    def kill():
      shutil.copytree(folder, killed)
      raise KeyboardInterrupt

    with program.after("ifca", 1, kill):
      _run(folder, *_METHODS, "--resume")
    self.assertIn("ifca.npz", os.listdir(os.path.join(killed, "checkpoints")))
    # Nothing of how the program ends.
    shutil.rmtree(folder)
    os.rename(killed, folder)

  def test_a_run_that_ends_early_in_every_phase_gives_the_same_numbers(self):
    folder = os.path.join(_base, "ended_early")
    whole = run_folder.read(_uninterrupted, "curves.csv").splitlines()
    stops = (("pretrain", 1), ("pretrain", 3), ("kmeans", 1), ("cfl", 1), ("fedavg", 2))
    # By day, one in each phase; `method_runs_contract_test` stops runs of all methods.
    for stage, round_num in nightly.either(stops[1:3], stops):
      resume = ("--resume",) if os.path.exists(folder) else ()
      with program.interrupted_after(stage, round_num):
        self._check_ended(_run(folder, *_METHODS, *resume), 130, "^interrupted.*--resume")
      so_far = run_folder.read(folder, "curves.csv").splitlines()
      self.assertContainsSubset(so_far, whole)
      self.assertRegex(so_far[-1], f"^0,{stage},[^,]*,{round_num},")
      if stage == "kmeans":
        self._kill_in_phase_2(folder)
      self.assertNotIn("summary.json", os.listdir(folder))
    result = _run(folder, *_METHODS, "--resume")

    self.assertEqual(result.code, 0, result.stderr)
    for name in _TABLES:
      self.assertEqual(
          run_folder.read(folder, name), run_folder.read(_uninterrupted, name), name
      )

  def test_another_seed_changes_the_numbers(self):
    folder = os.path.join(_base, "other_seed")

    result = _run(folder, "--methods=", "--control_repeats=0", "--seed=1", "--cluster_rounds=1")

    self.assertEqual(result.code, 0, result.stderr)
    losses, others = (_losses(run) for run in (folder, _uninterrupted))
    self.assertLen(losses, 3)
    self.assertNoCommonElements(losses, others)

  def test_other_methods_are_told_how_to_keep_stages(self):
    before = run_folder.times(_uninterrupted)
    other = ("--methods=kmeans,fesem", "--num_clusters=2", "--control_repeats=2")

    result = _run(_uninterrupted, *other, "--resume")

    self._check_ended(
        result, 2, rf"^error: `methods` .*--reuse={_uninterrupted} keeps the stages "
    )
    self.assertEqual(run_folder.times(_uninterrupted), before)

    folder, trained = os.path.join(_base, "reused"), set()
    save = checkpoint.Checkpoints.save

    def record(checkpoints, stage, *arguments):
      trained.add(stage)
      save(checkpoints, stage, *arguments)

    with mock.patch.object(checkpoint.Checkpoints, "save", record):
      result = _run(folder, *other, f"--reuse={_uninterrupted}")

    self.assertEqual(result.code, 0, result.stderr)
    self.assertEqual(trained, {"fesem", "fesem_repeat_1", "fesem_repeat_2"})
    for name in ("kmeans", "fedavg", "local"):
      self.assertEqual(_of_clients(folder, name), _of_clients(_uninterrupted, name))

  def test_a_finished_run_stays_as_it_is(self):
    before = run_folder.times(_uninterrupted)

    result = _run(_uninterrupted, *_METHODS, "--resume")

    self.assertEqual(result.code, 0, result.stderr)
    self.assertStartsWith(result.stdout, f"this run is finished: {_uninterrupted}\n")
    self.assertEqual(run_folder.times(_uninterrupted), before)
    other = _run(_uninterrupted, *_METHODS, "--resume", "--batch_size=7")
    self._check_ended(other, 2, r"^error: `batch_size` .*20.* 7\.")


class DamagedFilesTest(_RunsTest):

  @nightly.only  # Each takes a run; by day, `checkpoint_test` damages checkpoints.
  def test_a_damaged_file_is_named_or_made_again(self):
    interrupted = os.path.join(_base, "interrupted")
    with program.interrupted_after("ifca", 1):
      _run(interrupted, *_METHODS)
    self.assertEmpty(damaged_files.without_pattern(interrupted, _FILES))
    for _, pattern, damage, is_refused in damaged_files.parameters(_FILES):
      if damage != "halved" and not is_refused:
        continue
      with self.subTest(pattern, damage=damage):
        folder = os.path.join(self.create_tempdir().full_path, "run")
        damaged_files.damaged_copy(interrupted, folder, pattern, damage)

        result = _run(folder, *_METHODS, "--resume")

        if is_refused:
          self._check_ended(result, 2, f"^error: .*{pattern}")
          continue
        self.assertEqual(result.code, 0, result.stderr)
        results = [run_folder.read(one, "results.csv") for one in (folder, _uninterrupted)]
        self.assertEqual(*results)


class FailureTest(_RunsTest):

  def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_it(self):
    folder = os.path.join(_base, "diverges")
    # Softmax regression alone does not diverge.
    flags = ("--learning_rate=1e30", "--methods=", "--model=mlp")

    result = _run(folder, *flags)

    self._check_ended(result, 1, r"^error: the .*round [12].*learning rate.*diverges; another")
    self.assertIn("config.json", os.listdir(folder))

  def test_what_ends_a_run_from_outside_is_named_and_the_run_resumes(self):
    folder = os.path.join(_base, "disturbed")
    client_data = os.path.join(folder, "client_data")

    with program.after("pretrain", 1, lambda: shutil.rmtree(client_data)):
      result = _run(folder, "--methods=")
    self._check_ended(
        result, 1, rf"^error: .*'{client_data}/client_\d+\.\w+' .*in {folder}; --resume"
    )
    with contextlib.ExitStack() as short, program.after(
        "fedavg", 1, lambda: self._stop_worker(short)
    ):
      result = _run(folder, "--methods=", "--resume")
    self._check_ended(result, 1, f"^error: .*stopped by a signal.*in {folder}; --resume")
    _end_worker()

    result = _run(folder, "--methods=", "--resume")
    self.assertEqual(result.code, 0, result.stderr)
    self.assertEqual(_of_clients(folder, "fedavg"), _of_clients(_uninterrupted, "fedavg"))

  def _stop_worker(self, short):
    """Stops TFF's worker, which is given up soon in this context, as no other worker may be."""
    (worker,) = [p for p in psutil.Process().children() if p.name() == "worker_binary"]
    worker.suspend()
    short.enter_context(mock.patch.multiple(worker_watch, _POLL_SECONDS=0.1, _MAX_IDLE_POLLS=2))
