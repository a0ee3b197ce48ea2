"""Tests of whole runs on a few clients of two kinds."""

import math

from absl.testing import absltest
import numpy as np

from clustering_basics import agreement
from fl_clustering import runtime
from fl_clustering.engine import client_files
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import slot_sums
from fl_clustering.tasks import own_clients

_NUM_CLIENTS = 24
_RUNTIME = []


def setUpModule():
  _RUNTIME.append(runtime.LocalRuntime())


def tearDownModule():
  _RUNTIME.pop().close()


def _task(garbage=None):
  """Returns clients of two kinds, which name two classes the other way round.

  Args:
    garbage: A seed for other examples of the last client.
  """
  rng = np.random.default_rng(3)
  clients = {}
  for i in range(_NUM_CLIENTS):
    x = rng.normal(size=(40, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0) ^ (i % 2)
    if garbage is not None and i == _NUM_CLIENTS - 1:
      other = np.random.default_rng(garbage)
      x = other.normal(size=x.shape).astype(np.float32) * 50
      y = other.integers(2, size=len(y))
    clients[f"{i:02d}"] = (x[:30], y[:30].astype(int)), (x[30:], y[30:].astype(int))
  return own_clients.task_from_arrays(clients, "logistic", num_classes=2)


class _Door(slot_sums.SlotSums):
  """A door that records what the last client and the others send, and can replay its answers."""

  def __init__(self, *args):
    super().__init__(*args)
    self.others, self.own, self.answers, self.replayed = [], [], [], None

  def _total(self, question, public, draw_share):
    def total(clients):
      shares = [{"client": client, "share": 0 * draw_share()} for client in clients]
      return np.asarray(question(public, shares))

    *others, last = self._clients
    self.others.append(total(others))
    self.own.append(total([last]))
    return self.others[-1] + self.own[-1]

  def ask(self, *args):
    answer = super().ask(*args)
    if self.replayed is not None:
      answer = self.replayed[len(self.answers)]
    self.answers.append(answer)
    return answer


class FittingTest(absltest.TestCase):

  def _run(self, task, noise_seed=1, door=None, epsilon=1000.0, num_clusters=2):
    folder = self.create_tempdir().full_path
    settings = plan.PrivateClusters(num_clusters, epsilon, 1e-5, rounds=6, learning_rate=0.5)
    files = client_files.write_client_files(task, folder)
    releases = releases_lib.Releases(epsilon, 1e-5, noise_seed)
    run = fitting.Run(settings, task.model, files, folder, 0, releases)
    if door is not None:
      run._door = door(run, releases)  # pylint: disable=protected-access
    *_, (state, public) = run.states()
    return releases.ledger, state, run.report(public)

  def _watched(self, replayed=None):
    def make(run, releases):
      door = _Door(run.clients, releases, "server")
      door.replayed = replayed
      return door
    return make

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

  def test_replay_no_other_client_sends_anything_else(self):
    doors = []

    def keep(make):
      return lambda *args: doors.append(make(*args)) or doors[-1]

    self._run(_task(garbage=1), door=keep(self._watched()), epsilon=8.0)
    first = doors[0]
    self._run(
        _task(garbage=2), door=keep(self._watched(first.answers)), epsilon=8.0
    )
    self.assertLen(first.others, 9)  # The mean, the histogram, six rounds, the report.
    for before, after in zip(first.others, doors[1].others):
      np.testing.assert_array_equal(before, after)
    self.assertTrue(any((a != b).any() for a, b in zip(first.own, doors[1].own)))

  def test_no_message_costs_more_than_the_ledger_says(self):
    doors = []
    make = lambda *args: doors.append(self._watched()(*args)) or doors[-1]
    ledger, *_ = self._run(_task(garbage=1), door=make, epsilon=8.0)
    asked = [
        release for release in ledger.releases
        if not release.name.startswith(("split", "refine"))
    ]
    for release, own in zip(asked, doors[0].own, strict=True):
      norm = math.sqrt(sum(int(step) ** 2 for step in own)) / 2**20
      self.assertLessEqual(norm / release.std, release.mu, release.name)

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
