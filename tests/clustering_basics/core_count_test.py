"""Tests that scikit-learn counts cores without a warning where `lscpu` does not work."""

import os
import stat
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

_POINTS = "import numpy as np; points = np.random.default_rng(0).random((9, 2))\n"
_CORESET = """
from dp_clustering import coreset
coreset.fit_coreset(points, np.ones(9), 2, np.random.default_rng(0))
"""
_SCIKIT_LEARN = """
from sklearn import cluster
cluster.KMeans(2, n_init=1).fit(points)
"""


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
