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
from tests import nightly

# As scikit-learn alone warns, its own fit shows that there is something to be quiet about.
_PROGRAM = """
import sys
import numpy as np
from sklearn import cluster
from clustering_basics import core_count
from dp_clustering import coreset
points = np.random.default_rng(0).random((9, 2))
{
    "coreset": lambda: coreset.fit_coreset(points, np.ones(9), 2, np.random.default_rng(0)),
    "quietly": lambda: [core_count.count_quietly(), cluster.KMeans(2, n_init=1).fit(points)],
    "alone": lambda: cluster.KMeans(2, n_init=1).fit(points),
}[sys.argv[1]]()
"""


class CoreCountTest(parameterized.TestCase):

  @parameterized.parameters(
      ({"cpu.max": "250000 100000\n"}, 3), ({"cpu.max": "max 100000\n"}, 8),
      ({"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
      ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8), ({}, 8),
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

  @parameterized.parameters(("alone", True), ("quietly", False), ("coreset", False))
  def test_where_lscpu_fails_nothing_warns(self, way, warns):
    nightly.skip_by_day(self, way != "coreset")
    folder = self.create_tempdir().full_path
    lscpu = os.path.join(folder, "lscpu")
    with open(lscpu, "w") as file:
      file.write("#!/bin/sh\nexit 1\n")
    os.chmod(lscpu, stat.S_IRWXU)
    path = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM, way], stderr=subprocess.PIPE, text=True, check=True,
        env={**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    self.assertEqual("number of physical cores" in result.stderr, warns)
    self.assertEqual(bool(result.stderr), warns)


if __name__ == "__main__":
  absltest.main()
