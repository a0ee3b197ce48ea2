"""Tests of the books of a run, interrupted at every place."""

import os

from absl.testing import absltest
import numpy as np

from fl_clustering.private_clusters import releases as releases_lib

_MU = 0.1


class ReleasesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _releases(self, epsilon=8.0):
    return releases_lib.Releases(epsilon, 1e-5, 3, self.folder)

  def _ask(self, releases, number, asked=None):
    releases.ledger.record(f"question {number}", _MU, 1.0, 1 / _MU)

    def question():
      if asked is not None:
        asked.append(number)
      return releases.discrete_gaussian(3, 10.0)

    return releases.answer(question)

  def test_a_resumed_run_asks_nothing_twice_and_draws_the_same_noise(self):
    whole = releases_lib.Releases(8.0, 1e-5, 3)
    expected = [self._ask(whole, number) for number in range(4)]
    first = self._releases()
    for number in range(2):
      self._ask(first, number)
    asked = []
    second = self._releases()
    found = [self._ask(second, number, asked) for number in range(4)]
    np.testing.assert_array_equal(found, expected)
    self.assertEqual(asked, [2, 3])
    self.assertEqual(second.ledger.releases, whole.ledger.releases)

  def test_a_release_is_on_disk_before_it_is_asked_and_is_lost_without_an_answer(self):
    first = self._releases()
    self._ask(first, 0)
    first.ledger.record("question 1", _MU, 1.0, 1 / _MU)

    def interrupted():
      with open(os.path.join(self.folder, "releases.jsonl"), encoding="utf-8") as file:
        self.assertLen(file.readlines(), 2)
      raise KeyboardInterrupt

    with self.assertRaises(KeyboardInterrupt):
      first.answer(interrupted)
    asked = []
    second = self._releases()
    found = [self._ask(second, number, asked) for number in range(3)]
    self.assertIsNone(found[1])
    self.assertEqual(asked, [2])
    self.assertEqual(second.lost, ["question 1"])
    self.assertLen(second.ledger.releases, 3)  # It is charged.

  def test_a_line_that_is_not_whole_was_not_asked(self):
    self._ask(self._releases(), 0)
    path = os.path.join(self.folder, "releases.jsonl")
    with open(path, "a", encoding="utf-8") as file:
      file.write('{"name": "question 1", "sens')
    releases = self._releases()
    asked = []
    for number in range(2):
      self._ask(releases, number, asked)
    self.assertEqual(asked, [1])
    with open(path, encoding="utf-8") as file:
      self.assertLen(file.readlines(), 2)

  def test_refuses_the_journal_of_another_run(self):
    self._ask(self._releases(), 0)
    with self.assertRaisesRegex(
        releases_lib.OtherReleases, "^`journal` must be of a run with the same settings"
    ):
      self._ask(self._releases(), 7)

  def test_refuses_a_damaged_journal(self):
    with open(os.path.join(self.folder, "releases.jsonl"), "w", encoding="utf-8") as file:
      file.write("nonsense\n")
    with self.assertRaisesRegex(ValueError, "^`journal` must hold a release in every line"):
      self._releases()

  def test_noise_differs_between_releases(self):
    releases = self._releases()
    first, second = (self._ask(releases, number) for number in range(2))
    self.assertFalse((first == second).all())


if __name__ == "__main__":
  absltest.main()
