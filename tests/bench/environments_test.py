import dataclasses
import os
import sys
from unittest import mock

from absl.testing import absltest
import numpy as np

from bench.contest import contestants
from bench.contest import environments
from tests import nightly
from tests.bench import fake_contestant


class EnvironmentsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = os.path.join(self.create_tempdir().full_path, "environments")
    # No test asks a package index.
    self.enter_context(mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1"}))

  def _locked(self, text):
    lock = self.create_tempfile(content=text).full_path
    return dataclasses.replace(fake_contestant.contestant("well"), requirements=lock)

  def test_every_lock_file_is_there_with_hashes(self):
    names = {one.requirements for one in contestants.CONTESTANTS.values()} - {None}

    self.assertNotEmpty(names)
    for name in names:
      with open(name, encoding="utf-8") as file:
        lines = file.read().split("\n")
      pins = [line for line in lines if "==" in line]
      hashes = [line for line in lines if "--hash=sha256:" in line]
      self.assertNotEmpty(pins, name)
      self.assertGreaterEqual(len(hashes), len(pins), name)

  def test_this_projects_own(self):
    found = environments.get("fake", fake_contestant.contestant("well"), self.folder)

    self.assertEqual(found.python, sys.executable)
    self.assertIsNone(found.install_seconds)
    self.assertFalse(os.path.exists(self.folder))
    self.assertEqual(
        environments.versions(found, fake_contestant.contestant("well"))["numpy"],
        np.__version__,
    )

  @nightly.only
  def test_what_can_not_be_installed_is_told_and_removed(self):
    contestant = self._locked(f"no-such-package==1.0 --hash=sha256:{64 * '0'}\n")

    with self.assertRaisesRegex(
        environments.EnvironmentUnavailable, "^ERROR: .*no-such-package==1.0"):
      environments.get("fake", contestant, self.folder)

    self.assertEqual(os.listdir(self.folder), [])

  def test_is_installed_once(self):
    contestant = self._locked("# Nothing.\n")

    first = environments.get("fake", contestant, self.folder)
    again = environments.get("fake", contestant, self.folder)

    self.assertEqual(first, again)
    self.assertStartsWith(first.python, self.folder)
    self.assertGreater(first.install_seconds, 0)
    self.assertGreater(first.megabytes, 1)
    with self.assertRaisesRegex(
        environments.EnvironmentUnavailable, "PackageNotFoundError: .*numpy"):
      environments.versions(first, contestant)

  @nightly.only
  def test_one_that_was_interrupted_is_installed_anew(self):
    contestant = self._locked("# Nothing.\n")
    first = environments.get("fake", contestant, self.folder)
    path = os.path.dirname(os.path.dirname(first.python))
    os.remove(os.path.join(path, "installed.json"))
    stale = os.path.join(path, "stale")
    open(stale, "w", encoding="utf-8").close()

    environments.get("fake", contestant, self.folder)

    self.assertFalse(os.path.exists(stale))

  def test_a_lock_file_that_is_not_there(self):
    contestant = dataclasses.replace(
        fake_contestant.contestant("well"), requirements="/no/such/lock.txt"
    )

    with self.assertRaisesRegex(environments.EnvironmentUnavailable, "lock.txt can't be read"):
      environments.get("fake", contestant, self.folder)

  def test_a_folder_that_can_not_be_made(self):
    contestant = self._locked("# Nothing.\n")

    with self.assertRaisesRegex(environments.EnvironmentUnavailable, "can't be made"):
      environments.get("fake", contestant, "/dev/null/environments")


if __name__ == "__main__":
  absltest.main()
