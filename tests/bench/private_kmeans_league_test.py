import json
import math
import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from bench import private_kmeans_league
from bench.league import cells
from bench.league import report
from clustering_basics import file_format
from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import output_folder
from tests.experiment_shell import in_process

_SMALL = ("--datasets=iris", "--methods=sklearn,refine", "--runs=2")


def _run(folder, *arguments):
  return in_process.run_main(
      private_kmeans_league.League().main, f"--output_dir={folder}", *arguments
  )


def _text(*path):
  with open(os.path.join(*path), encoding="utf-8") as file:
    return file.read()


def _invented(folder, losses):
  """Returns the run with one row for each (data set, method, epsilon, run) and loss."""
  rows = [[*keys, loss] for keys, loss in losses.items()]
  texts = {
      "config.json": json.dumps(file_format.stamped({"config": {"runs": 2}})),
      cells.MEASUREMENTS: output_folder.csv_text((*cells.KEYS, *cells.VALUES), rows),
  }
  for name, text in texts.items():
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
      file.write(text)
  return finished_run.FinishedRun(folder)


class ProgramTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = os.path.join(self.create_tempdir().full_path, "run")

  def test_a_run_that_is_ended_and_resumed(self):
    printed = _run(self.folder, *_SMALL)
    rows = _text(self.folder, cells.MEASUREMENTS).splitlines()
    os.remove(os.path.join(self.folder, output_folder.REPORT))
    with open(os.path.join(self.folder, cells.MEASUREMENTS), "w", encoding="utf-8") as file:
      file.write("\n".join(rows[:5]) + "\n")
    _run(self.folder, *_SMALL, "--resume")
    resumed = _text(self.folder, cells.MEASUREMENTS).splitlines()

    self.assertLen(rows, 1 + 2 * (1 + len(cells.EPSILONS)))
    self.assertEqual(resumed[:5], rows[:5])
    self.assertLen(resumed, len(rows))
    # The noise is secure, so the losses that were lost are not the same again.
    self.assertNotEqual(resumed[5:], rows[5:])
    self.assertRegex(printed, "PE-means' best")
    self.assertRegex(printed, r"iris +150 +4 +3 +0.13")
    self.assertIn("0.2894", _text(self.folder, output_folder.REPORT))
    self.assertTrue(os.path.exists(os.path.join(self.folder, "figures", "areas.png")))

  @parameterized.named_parameters(
      ("dataset", ("--datasets=mnist",), "`datasets` must be one of sklearn_4_4"),
      ("none", ("--methods=",), "`methods` must have at least one value"),
      ("twice", ("--methods=lsh,lsh",), "`methods` must name nothing twice"),
      ("runs", ("--runs=0",), "`runs` must be an integer >= 1, got 0"),
      ("data", ("--datasets=iris", "--data_dir=x"), "`data_dir` must be left out without letter"),
      ("python", ("--methods=lsh", "--diffprivlib_python=x"),
       "`diffprivlib_python` must be left out without diffprivlib"),
  )
  def test_bad_flags(self, arguments, message):
    with self.assertRaisesRegex(launch.InputError, message):
      _run(self.folder, *arguments)

    self.assertFalse(os.path.exists(self.folder))


class AreasTest(absltest.TestCase):

  def test_area_by_trapezoids(self):
    self.assertAlmostEqual(report.area([1.0] * 5), 3.75)
    # A loss of 4 - epsilon: half of 3.75 squared.
    self.assertAlmostEqual(report.area([4 - e for e in cells.EPSILONS]), 3.75**2 / 2)

  def test_areas_of_a_run(self):
    folder = self.create_tempdir().full_path
    losses = {("iris", "sklearn", math.inf, run): 0.1 for run in range(2)}
    # In reverse order of epsilon.
    losses |= {
        ("iris", "refine", epsilon, run): 0.04 * (4 - epsilon) + 0.02 * run
        for run in range(2) for epsilon in reversed(cells.EPSILONS)
    }
    run = _invented(folder, losses)
    found = report.areas(run).set_index("method")

    self.assertAlmostEqual(found.loc["sklearn", "mean"], 0.375)
    first, second = 0.28125, 0.28125 + 0.075
    self.assertAlmostEqual(found.loc["refine", "mean"], (first + second) / 2)
    self.assertAlmostEqual(found.loc["refine", "sd"], (second - first) / math.sqrt(2))
    self.assertAlmostEqual(found.loc["google", "mean"], 0.6892)
    self.assertIn("0 of 1 data sets", report.verdict(report.areas(run)))

  def test_the_better_form_of_pe_means_is_the_peer(self):
    folder = self.create_tempdir().full_path
    names = ("sklearn_64_64", "sklearn_4_64")
    run = _invented(folder, {
        (name, "refine", epsilon, 0): 0.01 for name in names for epsilon in cells.EPSILONS
    })
    found = report.areas(run).set_index(["dataset", "method"])["mean"]

    self.assertEqual([found[name, "pe"] for name in names], [0.3070, 0.0974])
    self.assertIn("2 of 2 data sets", report.verdict(report.areas(run)))


class CellsTest(parameterized.TestCase):

  def test_published_rows(self):
    self.assertLen(cells.PUBLISHED, 14)
    for name, row in cells.PUBLISHED.items():
      if name.startswith("sklearn"):
        self.assertEqual((name, row.num_points), (f"sklearn_{row.k}_{row.dim}", 20_000))
      # The form with projections is for more than 32 dimensions.
      self.assertEqual("hdpe_means" in row.areas, row.dim > 32)
      # No private method is much better than k-means without privacy.
      self.assertGreater(min(row.areas.values()), 0.95 * row.areas["non_private"])

  def test_data(self):
    found, missing = cells.load_datasets(["iris", "sklearn_4_16"], None)

    self.assertEmpty(missing)
    for name, dataset in found.items():
      published = cells.PUBLISHED[name]
      self.assertEqual(dataset.points.shape, (published.num_points, published.dim))
      self.assertEqual(dataset.public_num_points, published.num_points)
      np.testing.assert_allclose(dataset.points.mean(axis=0), 0, atol=1e-12)
      self.assertAlmostEqual(np.linalg.norm(dataset.points, axis=1).max(), 1)


if __name__ == "__main__":
  absltest.main()
