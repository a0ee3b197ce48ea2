import contextlib
import os
from unittest import mock

from absl.testing import absltest

from bench import speed
from experiment_shell import launch
from tests import nightly
from tests.experiment_shell import in_process


def _times(ours, limit):
  return speed._Times(ours, limit, None)


class SpeedTest(absltest.TestCase):

  def test_cases_and_limits_take_turns(self):
    order, now = [], [0.0]

    def call(name, seconds):
      def called(turn):
        order.append(f"{name}{turn}")
        now[0] += seconds * (1 + turn)

      return called

    @contextlib.contextmanager
    def group(model):
      limit = call(model, 0.5)
      yield {"one": (call("a", 1.0), limit), "other": (call("b", 0.0), limit)}, os.getpid()

    with (
        mock.patch.dict(speed._GROUPS, {"toy": group}),
        mock.patch.object(speed.time, "perf_counter", lambda: now[0]),
    ):
      found = speed.measure("toy", "limit", 2)

    self.assertEqual(
        order,
        ["limit0", "a0", "b0", "limit1", "a1", "b1", "limit2", "a2", "b2"],
    )
    # Medians of the turns 1 and 2.
    self.assertEqual(found["one"][:2], (2.5, 1.25))
    self.assertEqual(found["other"][:2], (0.0, 1.25))
    self.assertGreater(found["other"].megabytes, 1)

  def test_ratios_are_of_one_launch(self):
    launches = iter([{"case": _times(*both)} for both in ((1.0, 1.0), (4.0, 2.0), (9.0, 3.0))])
    with mock.patch.object(speed, "_in_new_process", lambda *unused: next(launches)):
      printed = in_process.run_main(speed.main, "--only=first_run", "--launches=3")

    self.assertRegex(printed, r"\ncase +4\.000 +2\.000 +2\.00 \(1\.00 - 3\.00\)\n$")

  def test_unknown_group(self):
    with self.assertRaisesRegex(launch.InputError, "`only` must be one of engine"):
      in_process.run_main(speed.main, "--only=peers")

  @nightly.only  # By day, measurements are stand-ins, as above.
  def test_the_engine_is_timed(self):  # The other groups install an environment.
    printed = in_process.run_main(
        speed.main, "--only=engine", "--model=cnn_small", "--launches=1", "--repetitions=1",
    )

    for case in ("FedAvg round", "phase 2 round", "personal training"):
      self.assertRegex(printed, rf"\n{case}.* +\d+\.\d+ +\d+\.\d+ +\d+\.\d\d \(")
