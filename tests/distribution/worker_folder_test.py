"""Tests for fl_clustering.distribution.worker_folder."""

import os
from unittest import mock

from absl.testing import absltest

from fl_clustering.distribution import worker_folder


class ClaimTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _claim(self, mode):
    os.chmod(self.folder, mode)
    with worker_folder.claim(self.folder):
      pass

  def _assert_refused(self, mode):
    with self.assertRaisesRegex(
        ValueError, "^`cache_dir` must be a folder of this user that no other user or group may "
    ):
      self._claim(mode)
    self.assertEmpty(os.listdir(self.folder))

  def test_a_folder_that_others_may_write(self):
    self._assert_refused(0o777)
    self._assert_refused(0o702)

  def test_a_folder_of_another_user(self):
    with mock.patch.object(os, "geteuid", return_value=os.geteuid() + 1):
      self._assert_refused(0o700)

  def test_a_folder_that_a_group_may_write(self):
    # A Kubernetes volume with an `fsGroup` is one of the process's own group.
    self._claim(0o2770)
    os.unlink(os.path.join(self.folder, "worker.lock"))
    with mock.patch.object(os, "getegid", return_value=os.getegid() + 1):
      self._assert_refused(0o770)


if __name__ == "__main__":
  absltest.main()
