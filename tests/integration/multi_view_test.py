"""Tests of the multi-view program as a user runs it, on a few points in files."""

import json
import os
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

_SMALL = ("--seeds=2", "--n_init=1", "--num_rounds=5")


def _run(*flags, cwd=None):
  return subprocess.run(
      [sys.executable, "-m", "experiments.multi_view", *flags],
      check=False,
      capture_output=True,
      text=True,
      env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
      cwd=cwd,
  )


class MultiViewProgramTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.sites = os.path.join(self.folder, "sites")
    self.output = os.path.join(self.folder, "out")

  def _write_sites(self, labelled=True):
    rng = np.random.default_rng(0)
    for site, size in (("north", 30), ("south", 20)):
      folder = os.path.join(self.sites, site)
      os.makedirs(folder)
      labels = rng.integers(3, size=size)
      np.save(os.path.join(folder, "x.npy"), 9 * np.eye(3)[labels] + rng.random((size, 3)))
      np.savetxt(
          os.path.join(folder, "y.csv"), 9 * labels[:, None] + rng.random((size, 2)),
          delimiter=",",
      )
      if labelled:
        np.savetxt(os.path.join(folder, "labels.csv"), labels, "%d")

  def _run_sites(self, *flags):
    result = _run(f"--sites_dir={self.sites}", f"--output_dir={self.output}", *_SMALL, *flags)
    self.assertEqual(result.returncode, 0, result.stderr)
    return result.stdout

  def _read(self, name):
    with open(os.path.join(self.output, name), "rb") as file:
      return file.read()

  def test_sites_with_labels(self):
    self._write_sites()
    text = self._run_sites()
    self.assertRegex(text, r"equal weights +federated +1\.000 ± 0\.000 +1\.000 ± 0\.000")
    names = sorted(os.listdir(self.output))
    self.assertEqual(
        names,
        ["clusters.csv", "config.json", "figures", "measurements.csv", "report.html",
         "summary.json"],
    )
    self.assertEqual(
        json.loads(self._read("summary.json"))["sites"]["equal"]["as given"]["ari"]["mean"], 1.0
    )
    self.assertLen(self._read("clusters.csv").splitlines(), 51)

  def test_a_run_that_was_cut_off_ends_the_same(self):
    self._write_sites()
    self._run_sites()
    files = {name: self._read(name) for name in ("measurements.csv", "summary.json")}
    os.remove(os.path.join(self.output, "report.html"))
    # A killed program leaves half a line.
    with open(os.path.join(self.output, "measurements.csv"), "wb") as file:
      file.write(files["measurements.csv"][: len(files["measurements.csv"]) // 2])
    self._run_sites("--resume")
    for name, content in files.items():
      self.assertEqual(self._read(name), content, name)
    self.assertIn("this run is finished", self._run_sites("--resume"))

  def test_sites_without_labels(self):
    self._write_sites(labelled=False)
    text = self._run_sites("--num_clusters=3")
    self.assertIn("objective", text)
    self.assertIn(b"nothing is scored", self._read("report.html"))
    self.assertLen(self._read("clusters.csv").splitlines(), 51)

  @parameterized.named_parameters(
      ("dataset", ["--datasets=mnist"], "`datasets` must be one of"),
      ("features", ["--datasets=multiple_features", "--data_dir=/no/such"],
       "`data_dir` must hold mfeat-fac.csv, got '/no/such'"),
      ("unused_data_dir", ["--datasets=digits", "--data_dir=x"], "`data_dir` must be left out"),
      ("unused_clusters", ["--num_clusters=3"], "`num_clusters` must be left out"),
      ("sites_and_datasets", ["--sites_dir=x", "--datasets=digits"], "`datasets` must be left"),
      ("sites_and_skew", ["--sites_dir=x", "--dirichlet_alpha=1"], "`dirichlet_alpha` must be"),
      ("no_sites", ["--sites_dir=/no/such"], "/no/such"),
      ("alpha", ["--alpha=1"], "`alpha` must be > 1"),
      ("number", ["--seeds=many"], "seeds"),
  )
  def test_bad_flags_end_with_one_line_and_code_2(self, flags, message):
    result = _run(f"--output_dir={self.output}", *flags)
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertLen(result.stderr.splitlines(), 1)
    self.assertRegex(result.stderr, message)
    self.assertFalse(os.path.exists(self.output))

  def test_sites_that_do_not_fit_are_named(self):
    self._write_sites()
    os.remove(os.path.join(self.sites, "south", "y.csv"))
    result = _run(f"--sites_dir={self.sites}", f"--output_dir={self.output}")
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertRegex(result.stderr, "got 'y' at 'north' but not at 'south'")


if __name__ == "__main__":
  absltest.main()
