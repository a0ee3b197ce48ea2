"""Tests that counting the cores prints nothing."""

import os
import stat
import subprocess
import sys

from absl.testing import parameterized

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

  @parameterized.parameters(("alone", True), ("quietly", False), ("coreset", False))
  def test_where_lscpu_fails_nothing_warns(self, way, warns):
    # By day, what a user calls.
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
