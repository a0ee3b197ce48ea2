"""Tests of whole runs on a few clients of two kinds."""

import math
from unittest import mock

from absl.testing import absltest
import numpy as np

from clustering_basics import agreement
from fl_clustering import runtime
from fl_clustering.engine import client_files
from fl_clustering.private_clusters import client_messages
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import slot_sums
from fl_clustering.private_clusters import training
from fl_clustering.tasks import own_clients

_NUM_CLIENTS = 24
_RUNTIME = []


def setUpModule():
  _RUNTIME.append(runtime.LocalRuntime())


def tearDownModule():
  _RUNTIME.pop().close()


def _task():
  """Returns clients of two kinds, which name two classes the other way round."""
  rng = np.random.default_rng(3)
  clients = {}
  for i in range(_NUM_CLIENTS):
    x = rng.normal(size=(40, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0) ^ (i % 2)
    clients[f"{i:02d}"] = (x[:30], y[:30].astype(int)), (x[30:], y[30:].astype(int))
  return own_clients.task_from_arrays(clients, "logistic", num_classes=2)


class FittingTest(absltest.TestCase):

  def _run(self, task, noise_seed=1, epsilon=1000.0, num_clusters=2):
    folder = self.create_tempdir().full_path
    settings = plan.PrivateClusters(num_clusters, epsilon, 1e-5, rounds=6, learning_rate=0.5)
    files = client_files.write_client_files(task, folder)
    releases = releases_lib.Releases(epsilon, 1e-5, noise_seed)
    run = fitting.Run(settings, task.model, files, folder, 0, releases)
    *_, (state, public) = run.states()
    return releases.ledger, state, run.report(public)

  def test_finds_the_kinds_and_reports_them(self):
    task = _task()
    _, state, report = self._run(task)
    np.testing.assert_allclose(report.counts, [12, 12], atol=2)
    self.assertGreater(report.accuracies.min(), 0.85)
    self.assertAlmostEqual(report.accuracy, report.accuracies.mean(), delta=0.05)
    kinds = []
    for client in task.clients:
      logits = client.test.features @ state.vectors[:, :8].reshape(2, 4, 2) + (
          state.vectors[:, np.newaxis, 8:])
      hits = (logits.argmax(axis=2) == client.test.labels).mean(axis=1)
      kinds.append(int(hits.argmax()))
    truth = [i % 2 for i in range(_NUM_CLIENTS)]
    self.assertEqual(agreement.adjusted_rand_index(kinds, truth), 1.0)

  def test_the_same_seed_gives_the_same_bits(self):
    first, second = (self._run(_task(), 2, epsilon=8.0) for _ in range(2))
    np.testing.assert_array_equal(first[1].vectors, second[1].vectors)
    np.testing.assert_array_equal(first[2].counts, second[2].counts)

  def test_all_of_the_budget_is_spent_and_not_more(self):
    ledger, *_ = self._run(_task(), epsilon=2.0)
    spent = math.hypot(*(release.mu for release in ledger.releases))
    self.assertBetween(spent / ledger.mu, 1 - 1e-4, 1)
    names = [release.name for release in ledger.releases]
    self.assertEqual(names[0], "mean of sketches")
    self.assertEqual(names[-8:], ["histogram of norms", *(f"round {i + 1}" for i in range(6)),
                                  "report"])
    self.assertFalse(ledger.is_private)  # The noise is seeded.

  def test_one_cluster_is_fedavg(self):
    ledger, state, _ = self._run(_task(), epsilon=8.0, num_clusters=1)
    self.assertEqual(state.vectors.shape, (1, 10))
    self.assertEqual(ledger.releases[0].name, "histogram of norms")

  def test_stated_noise_is_that_of_all_shares(self):
    task, folder = _task(), self.create_tempdir().full_path
    files = client_files.write_client_files(task, folder)
    self.enter_context(mock.patch.object(
        slot_sums.Door, "ask", lambda self, name, question, public, size, *mu: np.zeros(size)
    ))

    def stated(client_ids, **trust):
      settings = plan.PrivateClusters(2, 8.0, 1e-5, rounds=6, **trust)
      run = fitting.Run(
          settings, task.model, files, folder, 0, releases_lib.Releases(8.0, 1e-5, 1)
      )
      state = training.State.first(np.zeros(10, np.float32), 2, len(client_ids), clip_norm=1.0)
      centers = np.zeros((2, client_messages.SKETCH_DIM))
      with mock.patch.object(training.State, "next") as next_state:
        run.next(state, centers, client_ids)
      report = run.report(run.public(state, centers))
      return next_state.call_args.args[0].count_std, report.count_std, report.accuracy_std

    all_ids = list(files.train)
    expected = stated(all_ids)
    self.assertEqual(stated(all_ids, trust="none"), expected)
    self.assertEqual(stated(all_ids, trust="none", min_clients=24), expected)
    # 12 of 24 clients took part in the round, and all in the report.
    of_round, *of_report = np.array(stated(all_ids[:12], trust="none", min_clients=6)) / expected
    self.assertAlmostEqual(of_round, math.sqrt(12 / 6))
    np.testing.assert_allclose(of_report, math.sqrt(24 / 6))

  def test_more_clusters_than_clients_are_refused(self):
    task, folder = _task(), self.create_tempdir().full_path
    files = client_files.write_client_files(task, folder)
    with self.assertRaisesRegex(ValueError, "^`num_clusters` must be at most the 24 clients"):
      fitting.Run(
          plan.PrivateClusters(25, 8.0, 1e-5), task.model, files, folder, 0,
          releases_lib.Releases(8.0, 1e-5),
      )


if __name__ == "__main__":
  absltest.main()
