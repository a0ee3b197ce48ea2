"""Interrupts a whole run at every release: what was asked is charged once and never asked again."""

import dataclasses
import os
import shutil
import tempfile

from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import engines
from fl_clustering.private_clusters import clients as clients_lib
from fl_clustering.private_clusters import fitting
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.tasks import models
from tests import hostile_clients
from tests import nightly

# Each client takes part in every other round.
_SETTINGS = plan.PrivateClusters(2, epsilon=8.0, delta=1e-5, rounds=4, clients_per_round=10)
_NUM_CLIENTS = 20
_NUM_RELEASES = 17
# By day, the sketches' mean, a round and the report.
_SOME_RELEASES = nightly.either((0, 12, 16), range(_NUM_RELEASES))
_ENTRIES = "releases.jsonl"


class _Interrupted(Exception):
  pass


class _Books(releases_lib.Releases):
  """Notes the numbers of the releases that are asked, and may stop before an answer is kept."""

  def __init__(self, journal, stop_at=None, settings=_SETTINGS):
    super().__init__(settings.epsilon, settings.delta, noise_seed=1, journal=journal)
    self.asked, self._stop_at = [], stop_at

  def answer(self, question):
    number = len(self.ledger.releases) - 1

    def noted():
      self.asked.append(number)
      found = question()
      if number == self._stop_at:
        raise _Interrupted
      return found

    return super().answer(noted)


def _played(books, settings=_SETTINGS):
  """Returns the last state and the report of a run on the same clients."""
  model = models.build(
      "logistic", (hostile_clients.NUM_FEATURES,), hostile_clients.NUM_CLASSES, "float32"
  )
  clients = hostile_clients.clients(np.random.default_rng(0), _NUM_CLIENTS)
  with clients_lib.opened(engines.JAX, settings, model, clients) as sums:
    run = fitting.Run(settings, sums, 0, books)
    *_, (state, public) = run.states()
    return state, run.report(public)


def _entries(folder):
  with open(os.path.join(folder, _ENTRIES), encoding="utf-8") as file:
    return file.readlines()


class ResumeTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.journal = os.path.join(cls.enterClassContext(tempfile.TemporaryDirectory()), "journal")
    cls.books = _Books(cls.journal)
    cls.state, cls.report = _played(cls.books)

  def _journal(self, num_entries):
    """Returns a copy of the whole run's journal when it had so many entries, all answered."""
    folder = self.create_tempdir().full_path
    if num_entries:
      with open(os.path.join(folder, _ENTRIES), "w", encoding="utf-8") as file:
        file.writelines(_entries(self.journal)[:num_entries])
    for number in range(num_entries):
      shutil.copy(os.path.join(self.journal, f"answer_{number:05d}.npz"), folder)
    return folder

  def _check_ledger(self, books, folder):
    """Everything is charged once, in the journal too, and the books are closed."""
    self.assertEqual(books.ledger.releases, self.books.ledger.releases)
    self.assertLessEqual(books.ledger.mu_spent, books.ledger.mu)
    self.assertEqual(_entries(folder), _entries(self.journal))
    with self.assertRaisesRegex(RuntimeError, "closed"):
      books.ledger.record("one more", 1e-9, 1.0, 1e9)

  def test_the_whole_run(self):
    self.assertEqual(self.books.asked, list(range(_NUM_RELEASES)))
    self._check_ledger(self.books, self.journal)
    self.assertGreater(self.books.ledger.mu_spent, (1 - 1e-6) * self.books.ledger.mu)

  @parameterized.parameters(*_SOME_RELEASES)
  def test_a_lost_answer_is_charged_and_not_asked_again(self, number):
    folder = self._journal(number)
    first = _Books(folder, stop_at=number)
    with self.assertRaises(_Interrupted):
      _played(first)
    self.assertEqual(first.asked, [number])
    self.assertLen(_entries(folder), number + 1)

    second = _Books(folder)
    state, report = _played(second)
    self.assertEqual(second.asked, list(range(number + 1, _NUM_RELEASES)))
    self.assertEqual(second.lost, [self.books.ledger.releases[number].name])
    self._check_ledger(second, folder)
    self.assertTrue(np.isfinite(state.vectors).all())
    self.assertEqual(np.isnan(report.accuracies[-1]), number == _NUM_RELEASES - 1)

    third = _Books(folder)
    again, _ = _played(third)
    self.assertEqual((third.asked, third.lost), ([], second.lost))
    np.testing.assert_array_equal(again.vectors, state.vectors)

  @parameterized.parameters(*(number + 1 for number in _SOME_RELEASES))
  def test_after_an_answer_the_run_goes_on_as_if_nothing_had_happened(self, num_entries):
    folder = self._journal(num_entries)
    books = _Books(folder)
    state, report = _played(books)
    self.assertEqual(books.asked, list(range(num_entries, _NUM_RELEASES)))
    self.assertEqual(books.lost, [])
    self._check_ledger(books, folder)
    np.testing.assert_array_equal(state.vectors, self.state.vectors)
    np.testing.assert_array_equal(report.counts, self.report.counts)

  @parameterized.parameters(
      {"epsilon": 7.9}, {"num_clusters": 3}, {"num_clusters": 1}, {"rounds": 6},
      {"clients_per_round": None}, {"clients_per_round": 5},
  )
  def test_other_settings_are_refused_before_anything_is_asked(self, **changes):
    settings = dataclasses.replace(_SETTINGS, **changes)
    folder = self._journal(_NUM_RELEASES)
    books = _Books(folder, settings=settings)
    with self.assertRaises(releases_lib.UnusableJournal):
      _played(books, settings)
    self.assertEqual(books.asked, [])
    self.assertEqual(_entries(folder), _entries(self.journal))
