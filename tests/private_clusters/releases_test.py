"""Tests of the books of a run, interrupted at every place."""

import os
from unittest import mock

from absl.testing import parameterized
import numpy as np

from fl_clustering.private_clusters import releases as releases_lib

_MU = 0.1


def _with_compression(content, kind):
  """Returns an archive of one file, the list of which says that it is compressed."""
  place = content.index(b"PK\x01\x02") + 10
  return content[:place] + bytes([kind]) + content[place + 1:]


class ReleasesTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = os.path.realpath(self.create_tempdir().full_path)
    self.entries = os.path.join(self.folder, "releases.jsonl")

  def _releases(self, epsilon=8.0):
    return releases_lib.Releases(epsilon, 1e-5, 3, self.folder)

  def _ask(self, releases, number, asked=None):
    releases.ledger.record(f"question {number}", _MU, 1.0, 1 / _MU, f"pass {number // 2}")

    def question():
      if asked is not None:
        asked.append(number)
      return releases.discrete_gaussian(3, 10.0)

    return releases.answer(question)

  def test_a_resumed_run_asks_nothing_twice_and_draws_the_same_noise(self):
    whole = releases_lib.Releases(8.0, 1e-5, 3)
    expected = [self._ask(whole, number) for number in range(4)]
    self.assertLen(np.unique(expected, axis=0), 4)  # Each has noise of its own.
    self._asked(2)
    resumed, found, asked = self._resumed(4)
    np.testing.assert_array_equal(found, expected)
    self.assertEqual(asked, [2, 3])
    self.assertEqual(resumed.ledger.releases, whole.ledger.releases)

  def test_without_privacy_there_is_no_noise(self):
    np.testing.assert_array_equal(self._ask(self._releases(np.inf), 0), np.zeros(3))

  def _refused(self):
    return self.assertRaisesRegex(releases_lib.UnusableJournal, "^`journal`")

  def _asked(self, num_releases):
    """Asks so many questions; returns their answers and the lines of the journal."""
    releases = self._releases()
    found = [self._ask(releases, number) for number in range(num_releases)]
    with open(self.entries, "rb") as file:
      return found, file.read().splitlines(keepends=True)

  def _resumed(self, num_releases):
    """Resumes; returns the books, the answers and the numbers of the questions that were asked."""
    releases, asked = self._releases(), []
    return releases, [self._ask(releases, number, asked) for number in range(num_releases)], asked

  @parameterized.named_parameters(
      ("empty", lambda content, numbers: b""),
      ("halved", lambda content, numbers: content[: len(content) // 2]),
      ("of_zeros", lambda content, numbers: bytes(len(content))),
      ("ends_in_zeros", lambda content, numbers: content[:-40] + bytes(40)),
      ("begins_with_zeros", lambda content, numbers: bytes(40) + content[40:]),
      # As where one page never came to the disk: all around it is whole.
      ("with_zeros_for_numbers", lambda content, numbers: content.replace(numbers, bytes(24))),
      ("of_text", lambda content, numbers: b"nonsense"),
      # Of the zip archive: where its list of files begins, and how they are compressed.
      ("with_its_list_elsewhere", lambda content, numbers: content[:-3] + b"\xff" + content[-2:]),
      ("compressed", lambda content, numbers: _with_compression(content, 12)),
  )
  def test_an_answer_that_cant_be_read_is_lost_and_stays_charged(self, damage):
    expected, _ = self._asked(3)
    path = os.path.join(self.folder, "answer_00001.npz")
    with open(path, "rb") as file:
      content = file.read()
    damaged = damage(content, expected[1].tobytes())
    self.assertNotEqual(damaged, content)
    with open(path, "wb") as file:
      file.write(damaged)

    releases, found, asked = self._resumed(4)

    self.assertIsNone(found[1])
    np.testing.assert_array_equal([found[0], found[2]], [expected[0], expected[2]])
    self.assertEqual(asked, [3])
    self.assertEqual(releases.lost, ["question 1"])
    self.assertLen(releases.ledger.releases, 4)

  @parameterized.named_parameters(
      ("torn", lambda line: line[:30]),
      ("without_its_end", lambda line: line[:-1]),
      ("torn_before_zeros", lambda line: line[:30] + bytes(len(line) - 30)),
      ("of_zeros", lambda line: bytes(len(line))),
  )
  def test_a_line_that_is_not_whole_may_have_been_asked_so_it_is_charged(self, torn):
    _, (line, next_line) = self._asked(2)
    os.remove(os.path.join(self.folder, "answer_00001.npz"))
    with open(self.entries, "wb") as file:
      file.write(line + torn(next_line))

    releases, found, asked = self._resumed(3)

    self.assertIsNone(found[1])
    self.assertEqual((releases.lost, asked), (["question 1"], [2]))
    with open(self.entries, "rb") as file:
      self.assertEqual(file.read().splitlines(keepends=True)[:2], [line, next_line])

  @parameterized.named_parameters(
      ("nonsense", lambda lines: b"nonsense\n"),
      ("zeros_in_a_line", lambda lines: bytes(len(lines[0])) + lines[1]),
      ("zeros_longer_than_a_line", lambda lines: bytes(len(lines[0] + lines[1]))),
      ("another_beginning", lambda lines: lines[0] + b'{"name": "other'),
      ("no_object", lambda lines: b"1\n"),
      ("other_keys", lambda lines: b'{"name": "question 0"}\n'),
      ("no_text", lambda lines: b"\xff\xfe\n"),
  )
  def test_a_damaged_journal_is_refused_before_anything_is_asked(self, damage):
    _, lines = self._asked(2)
    for number in range(2):
      os.remove(os.path.join(self.folder, f"answer_{number:05d}.npz"))
    with open(self.entries, "wb") as file:
      file.write(damage(lines))

    asked = []
    with self._refused():
      releases = self._releases()
      for number in range(3):
        self._ask(releases, number, asked)

    self.assertEmpty(asked)

  @parameterized.parameters(0, 1, None)
  def test_a_journal_without_the_line_of_an_answer_is_refused(self, num_lines):
    _, lines = self._asked(2)
    if num_lines is None:
      os.remove(self.entries)
    else:
      with open(self.entries, "wb") as file:
        file.writelines(lines[:num_lines])
    with self._refused():
      self._releases()

  def test_a_journal_without_releases_is_resumed_but_none_that_was_emptied(self):
    self._releases()  # A run that was killed before it asked anything.
    self.assertEqual(self._resumed(1)[2], [0])
    os.remove(os.path.join(self.folder, "answer_00000.npz"))
    with open(self.entries, "wb"):
      pass
    with self._refused():
      self._resumed(1)

  def test_a_complete_journal_is_asked_nothing_more(self):
    expected, _ = self._asked(2)
    releases = releases_lib.Releases(8.0, 1e-5, 3, self.folder, is_complete=True)
    asked = []
    found = [self._ask(releases, number, asked) for number in range(2)]
    np.testing.assert_array_equal(found, expected)
    with self._refused():
      self._ask(releases, 2, asked)
    self.assertEmpty(asked)

  def test_the_journal_of_another_run_is_refused(self):
    self._asked(1)
    with self._refused():
      self._ask(self._releases(), 7)

  def test_the_journal_and_its_name_are_on_disk_before_the_clients_are_asked(self):
    synced = []
    releases = self._releases()
    releases.ledger.record("question 0", _MU, 1.0, 1 / _MU)

    def sync(descriptor):
      synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
      with open(self.entries, "rb") as file:
        self.assertEndsWith(file.read(), b"}\n")  # Nothing waits in the program's memory.

    with mock.patch.object(os, "fsync", sync):

      def question():
        self.assertEqual(synced, [self.entries, self.folder])
        return np.zeros(3, np.int64)

      releases.answer(question)
