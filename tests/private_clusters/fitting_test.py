"""Tests of whole runs on a few clients of two kinds."""

import math
import unittest
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import agreement
from fl_clustering import runtime
from fl_clustering.engine.tff import client_files
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import slot_sums
from fl_clustering.private_clusters import training
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import own_clients

_NUM_CLIENTS = 24


def setUpModule():
  unittest.addModuleCleanup(runtime.LocalRuntime().close)


def _clients():
  """Returns clients of two kinds, which name two classes the other way round."""
  rng = np.random.default_rng(3)
  clients = {}
  for i in range(_NUM_CLIENTS):
    x = rng.normal(size=(40, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0) ^ (i % 2)
    clients[f"{i:02d}"] = (x[:30], y[:30].astype(int)), (x[30:], y[30:].astype(int))
  return clients


def _task():
  return own_clients.task_from_arrays(_clients(), "logistic", num_classes=2)


class ReportTest(parameterized.TestCase):

  @parameterized.parameters((0.75, 100, 3.0), (0.4, 60, 2.0))
  def test_stated_noise_is_that_of_many_draws(self, accuracy, count, std):
    exact = count * np.array([[accuracy - 0.5, 0.5], [accuracy - 0.7, 0.5]])
    stated = fitting.Report.of_sums(exact, std)
    np.testing.assert_allclose(stated.counts, [count, count, 2 * count])
    np.testing.assert_allclose(stated.accuracies, accuracy - np.array([0, 0.2, 0.1]))
    rng = np.random.default_rng(0)
    drawn = [
        fitting.Report.of_sums(exact + rng.normal(0, std, (2, 2)), std) for _ in range(5000)
    ]
    # The standard error is 1%; the delta method leaves out terms of higher order.
    for values, std_stated in (
        ([one.counts for one in drawn], stated.count_stds),
        ([one.accuracies for one in drawn], stated.accuracy_stds),
    ):
      np.testing.assert_allclose(np.std(values, axis=0), std_stated, rtol=0.05)

  def test_a_count_that_is_no_divisor_gives_no_accuracy(self):
    report = fitting.Report.of_sums(np.array([[0.1, 0.2], [-0.2, -3.0], [2.0, 4.0]]), 1.0)
    np.testing.assert_array_equal(np.isnan(report.accuracies), [True, True, False, False])
    np.testing.assert_array_equal(np.isnan(report.accuracy_stds), [True, True, False, False])


class FittingTest(absltest.TestCase):

  def test_finds_the_kinds_and_reports_those_with_test_rows_and_spends_the_budget(self):
    clients = _clients()
    for name in list(clients)[:_NUM_CLIENTS // 2]:
      train, (x, y) = clients[name]
      clients[name] = train, (x[:0], y[:0])
    examples = {
        part: {name: examples_lib.Examples(*both[i]) for name, both in clients.items()}
        for i, part in enumerate(("train", "test"))
    }
    folder = self.create_tempdir().full_path
    files = client_files.write_examples(examples["train"], examples["test"], folder)
    settings = plan.PrivateClusters(2, 1e4, 1e-5, rounds=6, learning_rate=0.5)
    releases = releases_lib.Releases(1e4, 1e-5, 1)
    run = fitting.Run(settings, _task().model, files, folder, 0, releases)
    *_, (state, public) = run.states()
    report = run.report(public)

    np.testing.assert_allclose(report.counts, [6, 6, 12], atol=0.5)
    self.assertGreater(report.accuracies.min(), 0.85)
    self.assertAlmostEqual(report.accuracies[2], report.accuracies[:2].mean(), delta=0.05)
    kinds = []
    for (x, y), _ in clients.values():
      logits = x @ state.vectors[:, :8].reshape(2, 4, 2) + state.vectors[:, np.newaxis, 8:]
      kinds.append(int((logits.argmax(axis=2) == y).mean(axis=1).argmax()))
    truth = [i % 2 for i in range(_NUM_CLIENTS)]
    self.assertEqual(agreement.adjusted_rand_index(kinds, truth), 1.0)
    ledger = releases.ledger
    spent = math.hypot(*(release.mu for release in ledger.releases))
    self.assertBetween(spent / ledger.mu, 1 - 1e-4, 1)
    names = [release.name for release in ledger.releases]
    self.assertEqual(names[0], "mean of sketches")
    self.assertEqual(names[-8:], ["histogram of norms", *(f"round {i + 1}" for i in range(6)),
                                  "report"])
    self.assertFalse(ledger.is_private)  # The noise is seeded.

  def test_stated_noise_is_that_of_all_shares(self):
    task, folder = _task(), self.create_tempdir().full_path
    files = client_files.write_client_files(task, folder)
    self.enter_context(mock.patch.object(
        slot_sums.Door, "ask", lambda self, name, question, public, size, *mu: np.zeros(size)
    ))

    def stated(**trust):
      settings = plan.PrivateClusters(2, 8.0, 1e-5, rounds=6, **trust)
      run = fitting.Run(
          settings, task.model, files, folder, 0, releases_lib.Releases(8.0, 1e-5, 1)
      )
      next_state = mock.create_autospec(training.State.next, side_effect=training.State.next)
      with mock.patch.object(training.State, "next", next_state):
        *_, (_, public) = run.states()
      return next_state.call_args.args[1].count_std, *run.report(public).count_stds

    expected = stated()
    self.assertEqual(stated(trust="none"), expected)
    self.assertEqual(stated(trust="none", min_clients=24), expected)
    found = np.array(stated(trust="none", min_clients=6))
    np.testing.assert_allclose(found / expected, math.sqrt(24 / 6))


if __name__ == "__main__":
  absltest.main()
