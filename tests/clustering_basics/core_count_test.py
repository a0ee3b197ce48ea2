"""Tests what number of cores is used, and that counting them prints nothing."""

import builtins
import io
import os
import stat
import subprocess
import sys
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from clustering_basics import core_count

_POINTS = "import numpy as np; points = np.random.default_rng(0).random((9, 2))\n"
_CORESET = """
from dp_clustering import coreset
coreset.fit_coreset(points, np.ones(9), 2, np.random.default_rng(0))
"""
_SCIKIT_LEARN = """
from sklearn import cluster
cluster.KMeans(2, n_init=1).fit(points)
"""


class UsableTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("cgroup_2", {"cpu.max": "250000 100000\n"}, 3),
      ("cgroup_2_without_a_limit", {"cpu.max": "max 100000\n"}, 8),
      ("cgroup_1", {"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
      ("cgroup_1_without_a_limit",
       {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
      ("no_cgroup", {}, 8),
  )
  def test_a_containers_quota_counts(self, limits, expected):
    files = {f"/sys/fs/cgroup/{name}": text for name, text in limits.items()}
    exists, open_ = os.path.exists, open

    def is_there(path):
      return path in files if str(path).startswith("/sys/fs/cgroup/") else exists(path)

    def opened(path, *args, **kwargs):
      return io.StringIO(files[path]) if path in files else open_(path, *args, **kwargs)

    with (
        mock.patch.object(os.path, "exists", is_there), mock.patch.object(builtins, "open", opened),
        mock.patch.object(os, "sched_getaffinity", return_value=set(range(8))),
        mock.patch.object(os, "cpu_count", return_value=16),
    ):
      self.assertEqual(core_count.usable(), expected)


class CountQuietlyTest(parameterized.TestCase):

  def _errors(self, program):
    """Returns what a program prints to standard error where `lscpu` fails."""
    folder = self.create_tempdir().full_path
    lscpu = os.path.join(folder, "lscpu")
    with open(lscpu, "w") as file:
      file.write("#!/bin/sh\nexit 1\n")
    os.chmod(lscpu, stat.S_IRWXU)
    path = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])
    result = subprocess.run(
        [sys.executable, "-c", _POINTS + program],
        env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE, text=True, check=False,
    )
    self.assertEqual(result.returncode, 0, result.stderr)
    return result.stderr

  def test_scikit_learn_alone_warns(self):
    self.assertIn("number of physical cores", self._errors(_SCIKIT_LEARN))

  @parameterized.named_parameters(
      ("then_scikit_learn",
       "from clustering_basics import core_count; core_count.count_quietly()" + _SCIKIT_LEARN),
      ("private_clustering", _CORESET),
  )
  def test_no_warning(self, program):
    self.assertEqual(self._errors(program), "")


if __name__ == "__main__":
  absltest.main()
