"""A study on a Dask cluster has the table of one in a single process, also if a worker dies."""

import importlib.util
import os
import pathlib
import signal

from absl.testing import absltest
from absl.testing import parameterized

from tests import nightly
from tests.experiment_shell import run_folder

_STUDY = (
    "-m", "experiments.study", "--settings=iid", "--num_seeds=3", "--num_clients=8",
    "--model=logistic", "--engine=jax", "--methods=kmeans", "--num_clusters=2", "--personal=",
    "--pretrain_rounds=2", "--cluster_rounds=2",
)
_DASK = "distributed.cli.dask_"


@nightly.only  # By day, `cells_test` measures a study on a cluster, without its training.
@absltest.skipUnless(
    all(map(importlib.util.find_spec, ("distributed", "jax"))), "Dask and JAX are extras"
)
class ClusterTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.alone = cls._results("--jobs=1", f"--output_dir={cls._folder('alone')}")

  @classmethod
  def _folder(cls, name):
    return os.path.join(absltest.get_default_test_tmpdir(), f"cluster_test_{name}")

  @classmethod
  def _results(cls, *arguments):
    code, _, stderr = run_folder.ended(*_STUDY, *arguments, "--overwrite")
    assert not code, stderr
    return run_folder.read(arguments[-1].partition("=")[2], "results.csv")

  def _start(self, program, *arguments):
    started = run_folder.started("-m", f"{_DASK}{program}", *arguments, stdout=None, stderr=None)
    self.addCleanup(started.wait)
    self.addCleanup(started.kill)
    return started

  @parameterized.parameters(False, True)
  def test_same_table(self, is_one_killed):
    file = pathlib.Path(self.create_tempdir().full_path) / "scheduler.json"
    self._start(
        "scheduler", "--host=127.0.0.1", "--port=0", "--no-dashboard", f"--scheduler-file={file}"
    )
    for _ in range(2):
      self._start(
          "worker", f"--scheduler-file={file}", "--nthreads=1", "--no-nanny", "--no-dashboard"
      )
    import distributed

    with distributed.Client(scheduler_file=str(file)) as client:
      client.wait_for_workers(2)
      address, pids = client.scheduler.address, client.run(os.getpid)
      output = self._folder(f"cluster_{is_one_killed}")
      arguments = f"--cluster={address}", f"--output_dir={output}"
      if not is_one_killed:
        self.assertEqual(self._results(*arguments), self.alone)
        return
      with run_folder.started(*_STUDY, *arguments, "--overwrite") as study:
        holding = []  # Workers with a cell.
        while not holding and study.poll() is None:
          holding = [worker for worker, cells in client.processing().items() if cells]
        self.assertNotEmpty(holding)
        os.kill(pids[holding[0]], signal.SIGKILL)
        _, stderr = study.communicate()
      self.assertEqual(study.returncode, 0, stderr)
      self.assertEqual(run_folder.read(output, "results.csv"), self.alone)
