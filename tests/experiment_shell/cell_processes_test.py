import contextlib
import gc
import importlib.util
import os
import sys
import threading
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import threadpoolctl

from experiment_shell import cell_processes
from experiment_shell import output_folder
from tests import nightly


def _measure(run, name):
  del run
  has_module = "colorsys" in sys.modules
  # Of a library that this process has loaded before.
  openmp = threadpoolctl.ThreadpoolController().select(user_api="openmp").info()
  return {"results": [{
      "pid": os.getpid(), "variable": os.environ.get(name), "has_module": has_module,
      "threads": sorted({pool["num_threads"] for pool in openmp}),
  }]}


def _unpickled():
  assert "colorsys" in sys.modules


class _Needing:
  """What can be unpickled only where a module is imported."""

  def __reduce__(self):
    return _unpickled, ()


def _halved(run, number):
  del run
  return {"results": [{"value": 1 / number}]}


def _outcomes(cells, jobs, processes):
  return cell_processes.outcomes(_measure, None, cells, (), jobs, processes)


class CellProcessesTest(absltest.TestCase):

  def test_a_single_job_is_in_this_process_unless_processes_are_given(self):
    cells = [{"name": "OF_CELLS"}, {"name": "OF_NONE"}]
    here, elsewhere = (
        [found["results"][0] for _, found in _outcomes(cells, 1, processes)]
        for processes in (None, cell_processes.Processes({"OF_CELLS": "1"}, ["colorsys"]))
    )

    self.assertEqual({one["pid"] for one in here}, {os.getpid()})
    (pid,) = {one["pid"] for one in elsewhere}
    self.assertNotEqual(pid, os.getpid())
    self.assertEqual([one["variable"] for one in elsewhere], ["1", None])
    self.assertTrue(elsewhere[0]["has_module"])
    self.assertFalse(here[0]["has_module"])

  def test_ended_early_it_tells_of_no_failure_of_its_own(self):
    cells = [{"name": str(number)} for number in range(200)]
    with mock.patch.object(threading, "excepthook") as failed:
      for _ in range(nightly.either(2, 8)):
        # `dict` is there where no module of tests is imported, which takes longer than all else.
        outcomes = cell_processes.outcomes(dict, (), cells, (), 2)
        next(outcomes)
        outcomes.close()

    failed.assert_not_called()

  def test_refuses_a_cluster_without_dask(self):
    with mock.patch.dict(sys.modules, distributed=None):
      with self.assertRaisesRegex(ValueError, "^`cluster`.*extra"):
        cell_processes.connected("tcp://127.0.0.1:8786")


@absltest.skipUnless(importlib.util.find_spec("distributed"), "Dask is an extra")
class ClusterTest(parameterized.TestCase):

  @contextlib.contextmanager
  def _cluster(self, num_threads, num_workers=1):
    import distributed

    with distributed.LocalCluster(
        n_workers=num_workers, threads_per_worker=num_threads, processes=False, protocol="tcp://",
        dashboard_address=None,
    ) as cluster:
      yield cluster.scheduler_address

  def test_measures_all_cells_and_tells_of_those_that_fail(self):
    cells = [{"number": number} for number in range(3)]
    with self._cluster(1) as address, cell_processes.connected(address) as client:
      found = cell_processes.outcomes(
          _halved, None, cells, (ZeroDivisionError,), 1, client=client
      )
      by_number = {cell["number"]: value for cell, value in found}
      with self.assertRaises(ZeroDivisionError):
        list(cell_processes.outcomes(_halved, None, cells, (), 1, client=client))
    self.assertEqual(by_number[1], {"results": [{"value": 1.0}]})
    self.assertEqual(by_number[2], {"results": [{"value": 0.5}]})
    self.assertIsInstance(by_number[0], ZeroDivisionError)

  def test_has_modules_and_variables_before_what_it_measures_with(self):
    # It loads OpenMP.  Not above, as every process that measures would wait for it.
    import sklearn.cluster  # pylint: disable=unused-import

    sys.modules.pop("colorsys", None)
    processes = cell_processes.Processes({"OMP_NUM_THREADS": "1", "OF_CELLS": "2"}, ["colorsys"])
    self.enter_context(mock.patch.dict(os.environ))
    with self._cluster(1) as address, cell_processes.connected(address) as client:
      ((_, found),) = cell_processes.outcomes(
          _measure, _Needing(), [{"name": "OF_CELLS"}], (), 1, processes, client
      )
    self.assertEqual(found["results"][0]["variable"], "2")
    self.assertEqual(found["results"][0]["threads"], [1])

  def test_ends_where_a_worker_lacks_a_module_or_the_scheduler_is_lost(self):
    import distributed

    def measured(client, modules=()):
      processes = cell_processes.Processes(modules=modules)
      return list(cell_processes.outcomes(dict, (), [{}], (), 1, processes, client))

    with self._cluster(1) as address, cell_processes.connected(address) as client:
      with self.assertRaisesRegex(ConnectionError, "not_there"):
        measured(client, ["not_there"])
    with self._cluster(1, num_workers=0) as address:
      client = self.enter_context(distributed.Client(address))
      # In which it connects again, but not the first time.
      client._timeout = 1  # pylint: disable=protected-access
    for _ in range(2):  # At first it tries again, then it gives up.
      with self.assertRaisesRegex(ConnectionError, "scheduler"):
        measured(client)

  @parameterized.parameters(
      ({"python": "3.11.4", "numpy": "1.2"}, "numpy 1.2"), ({"python": "3.9.1"}, r"python 3\.9 "),
      (ModuleNotFoundError("No module named 'project'"), "'project'"),
  )
  def test_refuses_workers_that_have_something_else_installed(self, found, words):
    here = {"python": "3.11.3"}
    with self._cluster(1) as address:
      with mock.patch.object(output_folder, "versions", side_effect=[here, found, here]):
        with self.assertRaisesRegex(ValueError, f"^`cluster`.*{words}"):
          cell_processes.connected(address)

  def test_refuses_what_does_not_answer_and_workers_of_several_threads(self):
    import distributed

    with mock.patch.object(cell_processes, "_SECONDS_TO_CONNECT", 1):
      for address in ("tcp://127.0.0.1:9", "pigeon://here"):
        with self.assertRaisesRegex(ValueError, f"^`cluster`.*{address}"):
          cell_processes.connected(address)
        # One that is collected later may wait for itself.
        clients = [one for one in gc.get_objects() if isinstance(one, distributed.Client)]
        self.assertNotIn("connecting", [one.status for one in clients])
    for num_threads, num_workers in ((2, 1), (1, 0)):
      with self._cluster(num_threads, num_workers) as address:
        with self.assertRaisesRegex(ValueError, "^`cluster`.*have workers"):
          cell_processes.connected(address)


class CallTest(absltest.TestCase):

  def test_a_call_in_a_process_of_its_own(self):
    self.assertNotEqual(cell_processes.call(os.getpid), os.getpid())
    with self.assertRaisesRegex(ValueError, "'x'"):
      cell_processes.call(int, "x")
    with self.assertRaises(ChildProcessError):
      cell_processes.call(os._exit, 3)
