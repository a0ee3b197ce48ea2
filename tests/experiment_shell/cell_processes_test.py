import os
import sys
import threading
from unittest import mock

from absl.testing import absltest

from experiment_shell import cell_processes


def _measure(run, name):
  del run
  has_module = "colorsys" in sys.modules
  return {"results": [
      {"pid": os.getpid(), "variable": os.environ.get(name), "has_module": has_module}
  ]}


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
      for _ in range(8):
        outcomes = _outcomes(cells, 2, None)
        next(outcomes)
        outcomes.close()

    failed.assert_not_called()


if __name__ == "__main__":
  absltest.main()
