import itertools
import os
import signal
import subprocess
import sys
import types
from unittest import mock

from absl.testing import parameterized
import psutil

from fl_clustering.runtime import worker_watch
from tests.runtime import scripts

# Computes until it is told to wait.
_PROGRAM = """
import sys, time
while time.process_time() < 0.2:
  pass
print("done", flush=True)
sys.stdin.readline()
"""


def _count(*polls):
  """Returns how many idle polls there are at the end of `polls`, as of `IdlePolls.add`."""
  idle_polls = worker_watch.IdlePolls()
  for poll in polls:
    idle_polls.add(*poll)
  return idle_polls.count


class IdlePollsTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("between_calls", [(3, 3, 70)] * 9, 0),
      ("in_a_call", [(4, 3, 70)] * 9, 8),
      ("in_a_call_that_computes", [(4, 3, 70 + i) for i in range(9)], 0),
      ("in_calls_that_end", [(4 + i, 3 + i, 70) for i in range(9)], 0),
      ("after_it_computed_again", [(4, 3, 70)] * 9 + [(4, 3, 71)] * 3, 2),
      ("after_another_call", [(4, 3, 70)] * 9 + [(5, 4, 70)] * 3, 2),
      ("after_a_pause", [(4, 3, 70)] * 9 + [(4, 4, 70)] * 5 + [(5, 4, 70)] * 3, 2),
      ("in_one_of_two_calls", [(5, 3, 70)] * 2 + [(5, 4, 70)] * 3, 2),
  )
  def test_count(self, polls, expected):
    self.assertEqual(_count(*polls), expected)


class WorkerWatchTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    self.addCleanup(self.process.communicate)
    self.addCleanup(self.process.kill)

  def _wait(self, *unused_call):
    return self.process.wait(scripts.TIMEOUT_SECONDS)

  @parameterized.named_parameters(("waits", None), ("was_stopped", signal.SIGSTOP))
  def test_a_process_is_ended_that_computes_nothing_during_a_call_and(self, stop):
    self.assertEqual(self.process.stdout.readline(), "done\n")
    if stop:
      self.process.send_signal(stop)
      os.waitpid(self.process.pid, os.WUNTRACED)
    self.enter_context(mock.patch.object(worker_watch, "_POLL_SECONDS", 0.01))
    self.enter_context(mock.patch.object(worker_watch, "_MAX_IDLE_POLLS", 5))
    watch = worker_watch.WorkerWatch(self.process)
    self.addCleanup(watch.close)

    code = watch.intercept_unary_unary(self._wait, None, None)

    self.assertEqual(code, -signal.SIGKILL)
    self.assertStartsWith(watch.reason, "computed nothing for 0.05 s")
    self.assertEqual("stopped by a signal" in watch.reason, bool(stop))

  @parameterized.parameters("user", "system")
  def test_a_process_is_not_ended_while_its_time_grows(self, name):
    self.enter_context(mock.patch.object(worker_watch, "_POLL_SECONDS", 0.01))
    self.enter_context(mock.patch.object(worker_watch, "_MAX_IDLE_POLLS", 2))
    times = [types.SimpleNamespace(**{"user": 0, "system": 0, name: i}) for i in range(20)]
    cpu_times = self.enter_context(mock.patch.object(psutil.Process, "cpu_times"))
    cpu_times.side_effect = itertools.chain(times, itertools.repeat(times[-1]))
    watch = worker_watch.WorkerWatch(self.process)
    self.addCleanup(watch.close)

    watch.intercept_unary_unary(self._wait, None, None)

    self.assertGreaterEqual(cpu_times.call_count, 22)
