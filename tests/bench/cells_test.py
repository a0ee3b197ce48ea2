import json
import sys

from absl.testing import absltest
import numpy as np

from bench.contest import cells
from bench.contest import contestants
from tests import nightly
from tests.bench import fake_contestant
from tests.bench import sample_job

_ANSWER_SECONDS = 20


def _measure(job, **behaviours):
  registry = {name: fake_contestant.contestant(how) for name, how in behaviours.items()}
  pythons = dict.fromkeys(behaviours, sys.executable)
  return cells.measure_launch(
      job, pythons, sample_job.first_weights, _ANSWER_SECONDS, registry
  )


class MeasureLaunchTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    _, self.job = sample_job.small_job()

  def test_every_round_of_every_contestant_is_measured(self):
    measured = _measure(self.job, plain="well", other="well")

    self.assertEqual(list(measured), ["plain", "other"])
    for values in measured.values():
      self.assertEqual(tuple(values), cells.VALUES)
      self.assertIsNone(values["problem"])
      self.assertLen(json.loads(values["seconds"]), 3)
      np.testing.assert_allclose(
          json.loads(values["accuracies"]), self.job.vector[0] + np.arange(1, 4), rtol=1e-6
      )
      self.assertEqual(values["first_difference"], 0)
      self.assertEqual(values["last_difference"], 0)

  @nightly.only
  def test_those_that_fail_are_told_and_the_others_go_on(self):
    measured = _measure(
        self.job, plain="well", crashing="crash", hanging="hang", broken="broken", last="well"
    )

    for name in ("plain", "last"):
      self.assertIsNone(measured[name]["problem"])
      self.assertLen(json.loads(measured[name]["seconds"]), 3)
    self.assertEqual(
        measured["crashing"]["problem"],
        "failed in round 2: it ended with code 1: ArithmeticError: round two",
    )
    self.assertLen(json.loads(measured["crashing"]["accuracies"]), 1)
    self.assertEqual(measured["hanging"]["problem"], "failed in round 2: no answer in 20 s")
    self.assertStartsWith(measured["broken"]["problem"], "did not start: it ended with code 1")
    self.assertIsNone(measured["broken"]["first_difference"])
    self.assertEqual(measured["broken"]["seconds"], "[]")

  def test_without_the_limit_there_are_no_differences(self):
    measured = _measure(self.job, plain="broken", other="well")

    self.assertIsNone(measured["other"]["problem"])
    self.assertIsNone(measured["other"]["first_difference"])


class TurnOrderTest(absltest.TestCase):

  def test_everybody_is_first_in_turn(self):
    orders = ["".join(cells.turn_order(["a", "b", "c"], number)) for number in (1, 2, 3, 4)]

    self.assertEqual(orders, ["bca", "cab", "abc", "bca"])

  def test_of_nobody(self):
    self.assertEqual(cells.turn_order([], 1), [])


class ByCellTest(absltest.TestCase):

  def test_a_launch_is_measured_once_for_all_its_contestants(self):
    measured = []

    def measure(workload, launch):
      measured.append((workload, launch))
      return {name: {"value": f"{workload} {launch} {name}"} for name in ("a", "b")}

    of_cell = cells.by_cell(measure)
    values = [
        of_cell(workload=workload, launch=launch, contestant=name)["value"]
        for workload in ("w", "v") for launch in (1, 2) for name in ("a", "b")
    ]

    self.assertEqual(measured, [("w", 1), ("w", 2), ("v", 1), ("v", 2)])
    self.assertEqual(values[:3], ["w 1 a", "w 1 b", "w 2 a"])


class EvaluateTest(absltest.TestCase):

  def test_accuracy_and_loss_on_the_global_test_set(self):
    task, job = sample_job.small_job(model="logistic")
    kernel, bias = job.parameters(job.vector)
    logits = task.global_test.features.reshape(len(task.global_test), -1) / 255 @ kernel + bias
    labels = task.global_test.labels
    log_sums = np.log(np.exp(logits).sum(1))

    accuracy, loss = cells.build_evaluate(task)(job.vector)

    self.assertAlmostEqual(accuracy, np.mean(logits.argmax(1) == labels), places=6)
    expected = np.mean(log_sums - logits[np.arange(len(labels)), labels])
    self.assertAlmostEqual(loss, expected, places=4)


class ContestantsTest(absltest.TestCase):

  def test_the_limit_comes_first_so_that_others_are_compared_with_it(self):
    self.assertEqual(next(iter(contestants.CONTESTANTS)), contestants.PLAIN)


if __name__ == "__main__":
  absltest.main()
