import csv
import math
import os
import sys
from unittest import mock
import warnings

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from bench import private_kmeans_league as league
from experiment_shell import launch
from tests.experiment_shell import in_process


class ProgramTest(parameterized.TestCase):

  def test_a_run(self):
    path = os.path.join(self.create_tempdir().full_path, "league.csv")
    printed = in_process.run_main(
        league.main, "--datasets=iris", "--methods=sklearn,refine", "--runs=2", f"--csv={path}"
    )
    with open(path, encoding="utf-8") as file:
      rows = list(csv.DictReader(file))

    self.assertLen(rows, 2 * (1 + len(league.EPSILONS)))
    self.assertRegex(printed, r"iris +150 +4 +3 +0\.13\d\d ± 0\.00\d\d +.* +0\.6892 +0\.2894\n")
    of_run = [
        float(row["loss"]) for row in rows if (row["method"], row["run"]) == ("refine", "0")
    ]
    self.assertGreater(league.area(of_run), 0.133)

  def test_of_one_run_the_spread_is_unknown_and_nothing_is_warned_of(self):
    with warnings.catch_warnings():
      warnings.simplefilter("error", UserWarning)
      printed = in_process.run_main(
          league.main, "--datasets=iris", "--methods=refine", "--runs=1"
      )
    self.assertRegex(printed, r"iris +150 +4 +3 +\d\.\d{4} ± unknown +0\.6892 +0\.2894\n")

  @parameterized.named_parameters(
      ("dataset", ("--datasets=mnist",), "`datasets` must be one of sklearn_4_4"),
      ("none", ("--methods=",), "`methods` must have at least one value"),
      ("twice", ("--methods=lsh,lsh",), "`methods` must .* none twice"),
      ("runs", ("--runs=0",), "runs"),
  )
  def test_bad_flags(self, arguments, message):
    with self.assertRaisesRegex(launch.InputError, message):
      in_process.run_main(league.main, *arguments)


class AreasTest(absltest.TestCase):

  def test_area_by_trapezoids(self):
    self.assertAlmostEqual(league.area([1.0] * 5), 3.75)
    # A loss of 4 - epsilon: half of 3.75 squared.
    self.assertAlmostEqual(league.area([4 - e for e in league.EPSILONS]), 3.75**2 / 2)
    # Without privacy, the loss is the same for every epsilon.
    self.assertAlmostEqual(league.area([0.1]), 0.375)

  def test_the_better_form_of_pe_means_is_the_peer(self):
    self.assertEqual(
        [league.PUBLISHED[name].pe_means for name in ("sklearn_64_64", "sklearn_4_64", "iris")],
        [0.3070, 0.0974, 0.2894],
    )

  def test_epsilon_delta_and_seed_of_every_run(self):
    asked, seeds = [], set()

    def method(dataset, k, epsilon, delta, seed):
      asked.append((epsilon, seed is None))
      seeds.add(seed)
      self.assertEqual((k, delta), (3, 150**-1.1))
      return dataset.points[:k]

    iris = league.load_dataset("iris")
    row = league.methods_lib.Method("", method)
    self.enter_context(mock.patch.dict(
        league.methods_lib.METHODS, dict.fromkeys(("lsh", "sklearn"), row)
    ))
    ours, other = (dict(league.losses(iris, name, 0, 0)) for name in ("lsh", "sklearn"))

    self.assertEqual(asked, [*((e, True) for e in league.EPSILONS), (math.inf, False)])
    distances = np.linalg.norm(iris.points[:, np.newaxis] - iris.points[:3], axis=2).min(axis=1)
    for loss in (*ours.values(), *other.values()):
      self.assertAlmostEqual(loss, (distances**2).mean())
    list(league.losses(iris, "sklearn", 1, 0))
    self.assertLen(seeds, 3)  # None, and one of each run.

  def test_diffprivlib_is_asked_in_a_process_of_its_own_for_all_epsilons(self):
    folder = self.create_tempdir().full_path
    # Its k-means here: the epsilon, the seed and the bound stand in the centers.
    os.makedirs(os.path.join(folder, "diffprivlib"))
    with open(os.path.join(folder, "diffprivlib", "__init__.py"), "w", encoding="utf-8"):
      pass
    with open(os.path.join(folder, "diffprivlib", "models.py"), "w", encoding="utf-8") as file:
      file.write("""
import numpy as np

class KMeans:
  def __init__(self, n_clusters, epsilon, bounds, random_state):
    self.cluster_centers_ = np.zeros((n_clusters, 4))
    self.cluster_centers_[0] = (epsilon, random_state, *bounds)

  def fit(self, points):
    return self
""")
    python = os.path.join(folder, "python")
    with open(python, "w", encoding="utf-8") as file:
      file.write(f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    os.chmod(python, 0o700)
    iris = league.load_dataset("iris")
    with mock.patch.object(league.peer_environments, "python", return_value=python):
      centers = league._of_diffprivlib(iris, 3, {0.25: 7, 2.0: 8})
    bound = np.abs(iris.points).max()
    np.testing.assert_array_equal(
        centers[:, 0], [(0.25, 7, -bound, bound), (2.0, 8, -bound, bound)]
    )
    self.assertEqual(centers.shape, (2, 3, 4))
    with (
        mock.patch.object(league.peer_environments, "python", return_value="/bin/false"),
        self.assertRaisesRegex(launch.RunFailed, "diffprivlib"),
    ):
      league._of_diffprivlib(iris, 3, {0.25: 7})


class DataTest(absltest.TestCase):

  def test_published_rows(self):
    self.assertLen(league.PUBLISHED, 14)
    for name, row in league.PUBLISHED.items():
      if name.startswith("sklearn"):
        self.assertEqual((name, row.num_points), (f"sklearn_{row.k}_{row.dim}", 20_000))
      # The form with projections is for more than 32 dimensions.
      self.assertEqual("hdpe_means" in row.areas, row.dim > 32)
      # No private method is much better than k-means without privacy.
      self.assertGreater(min(row.areas.values()), 0.95 * row.areas["non_private"])

  def test_data(self):
    for name in ("iris", "sklearn_4_16"):
      dataset, published = league.load_dataset(name), league.PUBLISHED[name]
      self.assertEqual(dataset.points.shape, (published.num_points, published.dim))
      self.assertEqual(dataset.public_num_points, published.num_points)
      np.testing.assert_allclose(dataset.points.mean(axis=0), 0, atol=1e-12)
      self.assertAlmostEqual(np.linalg.norm(dataset.points, axis=1).max(), 1)
