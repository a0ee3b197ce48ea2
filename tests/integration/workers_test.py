"""The three-phase program with workers that end and come back."""

import os
import tempfile
import unittest
from unittest import mock

from absl.testing import absltest

from experiments.three_phase import report
from tests.distribution import started_workers
from tests.integration import three_phase_program as program
from tests.tasks import data_files

_flags = None
_expected = None


def setUpModule():
  """Writes a small data set, and runs the program on it on this machine alone."""
  global _flags, _expected
  temporary = tempfile.TemporaryDirectory()
  unittest.addModuleCleanup(temporary.cleanup)
  data = os.path.join(temporary.name, "data")
  os.mkdir(data)
  data_files.write_idx_files(data, data_files.idx_arrays(num_train=180, num_test=20))
  _flags = (
      "--dataset=idx", f"--data_dir={data}", "--partition=iid", "--num_clients=6",
      "--pretrain_rounds=2", "--cluster_rounds=2", "--methods=kmeans,ifca,cfl,pacfl",
      "--num_clusters=2", "--cfl_ratio=1e9", "--cfl_gap=-2", "--model=logistic",
      "--personal=ditto,apfl,mr_mtl",
  )
  for name in ("FIRST_FIGURES", "FIGURES"):  # They take much of the time.
    patch = mock.patch.object(report, name, ())
    patch.start()
    unittest.addModuleCleanup(patch.stop)
  folder = os.path.join(temporary.name, "alone")
  result = program.run(*_flags, f"--output_dir={folder}")
  assert result.code == 0, result.stderr
  _expected = program.read_text(folder, "summary.json")


class WorkersTest(absltest.TestCase):

  def _start(self, number):
    return [started_workers.StartedWorker(self) for _ in range(number)]

  def _run(self, folder, workers, *flags, timeout=30):
    addresses = ",".join(worker.address for worker in workers)
    return program.run(
        *_flags, f"--output_dir={folder}", f"--workers={addresses}",
        f"--worker_timeout={timeout}", *flags,
    )

  def test_a_worker_that_ends_and_comes_back_changes_no_digit(self):
    folder = self.create_tempdir().full_path
    workers = self._start(2)
    with (
        program.after("pretrain", 1, workers[0].kill),
        program.after("kmeans", 1, workers[0].start),
    ):
      result = self._run(folder, workers)

    self.assertEqual(result.code, 0, result.stderr)
    self.assertRegex(result.stderr, f"the worker at {workers[0].address} ended")
    self.assertEqual(program.read_text(folder, "summary.json"), _expected)

  def test_a_run_that_lost_all_workers_goes_on_with_others(self):
    folder = self.create_tempdir().full_path
    workers = self._start(2)

    def kill_all():
      for worker in workers:
        worker.kill()

    with program.after("ifca", 1, kill_all):
      result = self._run(folder, workers, timeout=1)
    self.assertEqual(result.code, 1, result.stderr)
    *_, line = result.stderr.splitlines()
    for worker in workers:
      self.assertRegex(line, rf"^error: no worker is left: .*{worker.address} ")
    self.assertIn("--resume", line)

    result = self._run(folder, self._start(1), "--resume")
    self.assertEqual(result.code, 0, result.stderr)
    self.assertEqual(program.read_text(folder, "summary.json"), _expected)

  def test_bad_workers(self):
    folder = self.create_tempdir().full_path
    (worker,) = self._start(1)
    worker.kill()
    result = self._run(folder, [worker], timeout=1)
    self.assertEqual(
        (result.code, result.stderr.splitlines()[-1]),
        (2, f"error: the worker at {worker.address} refused the connection."),
    )
    for value, message in (
        ("a", "must be host:port,..., got 'a'."), ("a:0", "got 'a:0'."), ("", "name every worker"),
        ("a:1,a:1", "must name every worker once, got 'a:1,a:1'."), ("a:65536", "got 'a:65536'"),
    ):
      result = program.run(*_flags, f"--output_dir={folder}", f"--workers={value}")
      self.assertEqual(result.code, 2)
      (line,) = result.stderr.splitlines()
      self.assertIn(message, line)


if __name__ == "__main__":
  absltest.main()
