"""Tests of the multi-view program, on a few points in files."""

import json
import os
import subprocess
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import launch
from experiments import multi_view
from experiments import report
from tests.experiment_shell import in_process

_SMALL = ("--seeds=2", "--n_init=1", "--num_rounds=5")


def _write_sites(folder, labelled=True):
  rng = np.random.default_rng(0)
  for site, size in (("north", 30), ("south", 20)):
    site_folder = os.path.join(folder, site)
    os.makedirs(site_folder)
    labels = rng.integers(3, size=size)
    np.save(os.path.join(site_folder, "x.npy"), 9 * np.eye(3)[labels] + rng.random((size, 3)))
    np.savetxt(
        os.path.join(site_folder, "y.csv"), 9 * labels[:, None] + rng.random((size, 2)),
        delimiter=",",
    )
    if labelled:
      np.savetxt(os.path.join(site_folder, "labels.csv"), labels, "%d")


def _run(output, *arguments):
  return in_process.run(multi_view.EXPERIMENT, f"--output_dir={output}", *arguments)


def _read(folder, name):
  with open(os.path.join(folder, name), "rb") as file:
    return file.read()


class SitesTest(absltest.TestCase):
  """One run on sites with labels; its files are read, and it is cut off and resumed."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    sites = os.path.join(temporary.name, "sites")
    _write_sites(sites)
    cls.output = os.path.join(temporary.name, "out")
    cls.flags = (f"--sites_dir={sites}", *_SMALL)
    cls.printed = _run(cls.output, *cls.flags)

  def test_prints_scores_and_where_the_report_is(self):
    self.assertRegex(
        self.printed, r"equal weights +federated +1\.000 ± 0\.000 +1\.000 ± 0\.000"
    )
    self.assertEndsWith(self.printed, f"\n\nreport: {self.output}/report.html\n")

  def test_leaves_results_and_nothing_else(self):
    self.assertCountEqual(
        os.listdir(self.output),
        ["clusters.csv", "config.json", "figures", "measurements.csv", "report.html",
         "summary.json"],
    )
    summary = json.loads(_read(self.output, "summary.json"))
    self.assertEqual(summary["sites"]["equal"]["as given"]["ari"]["mean"], 1.0)
    self.assertLen(_read(self.output, "clusters.csv").splitlines(), 51)

  def test_the_report_can_be_drawn_again(self):
    before = _read(self.output, "report.html")
    in_process.run_main(report.main, f"--run={self.output}")
    self.assertEqual(_read(self.output, "report.html"), before)

  def test_a_run_that_was_cut_off_ends_the_same(self):
    files = {name: _read(self.output, name) for name in ("measurements.csv", "summary.json")}
    os.remove(os.path.join(self.output, "report.html"))
    # A killed program leaves half a line.
    with open(os.path.join(self.output, "measurements.csv"), "wb") as file:
      file.write(files["measurements.csv"][: len(files["measurements.csv"]) // 2])
    _run(self.output, *self.flags, "--resume")
    for name, content in files.items():
      self.assertEqual(_read(self.output, name), content, name)
    self.assertIn("this run is finished", _run(self.output, *self.flags, "--resume"))


class ProgramTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.sites = os.path.join(self.folder, "sites")
    self.output = os.path.join(self.folder, "out")

  def test_sites_without_labels(self):
    _write_sites(self.sites, labelled=False)
    printed = _run(
        self.output, f"--sites_dir={self.sites}", "--num_clusters=3", "--seeds=1", "--n_init=1",
        "--num_rounds=2",
    )
    self.assertIn("objective", printed)
    self.assertIn(b"nothing is scored", _read(self.output, "report.html"))
    self.assertLen(_read(self.output, "clusters.csv").splitlines(), 51)

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
  )
  def test_refuses(self, flags, message):
    with self.assertRaisesRegex(launch.InputError, message):
      _run(self.output, *flags)
    self.assertFalse(os.path.exists(self.output))

  def test_bad_flags_end_the_program_with_one_line_and_code_2(self):
    result = subprocess.run(
        [sys.executable, "-m", "experiments.multi_view", f"--output_dir={self.output}",
         "--seeds=many"],
        check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertLen(result.stderr.splitlines(), 1)
    self.assertIn("seeds", result.stderr)
    self.assertFalse(os.path.exists(self.output))

  def test_sites_that_do_not_fit_are_named(self):
    _write_sites(self.sites)
    os.remove(os.path.join(self.sites, "south", "y.csv"))
    with self.assertRaisesRegex(launch.InputError, "got 'y' at 'north' but not at 'south'"):
      _run(self.output, f"--sites_dir={self.sites}")


if __name__ == "__main__":
  absltest.main()
