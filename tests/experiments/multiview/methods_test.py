"""Tests for the methods that don't need TFF, and for what is measured."""

from absl.testing import absltest
import numpy as np

from experiments.multiview import cells
from experiments.multiview import config as config_lib
from experiments.multiview import methods
from tests.experiments.multiview import sample_results


def _problem(shares=None):
  rng = np.random.default_rng(0)
  labels = np.arange(60) % 3
  return methods.Problem(
      views={
          "clear": 10 * np.eye(3)[labels] + rng.standard_normal((60, 3)),
          "wide noise": 1e4 * rng.standard_normal((60, 50)),
      },
      labels=labels,
      shares=shares or {"a": np.arange(40), "b": np.arange(40, 60)},
      num_clusters=3,
      seed=0,
      settings={},
  )


class MethodsTest(absltest.TestCase):

  def test_views_count_alike_side_by_side(self):
    points = _problem().side_by_side()
    self.assertAlmostEqual(points[:, :3].var(axis=0).sum(), 1.0)
    self.assertAlmostEqual(points[:, 3:].var(axis=0).sum(), 1.0)

  def test_central_methods(self):
    problem = _problem()
    self.assertEqual(methods.single_view(problem, "clear").ari, 1.0)
    self.assertLess(methods.single_view(problem, "wide noise").ari, 0.3)
    self.assertEqual(methods.concatenated(problem).ari, 1.0)

  def test_local_scores_are_weighted_by_size(self):
    # The first client's points are clear, the second has but two and one cluster each.
    shares = {"a": np.arange(58), "b": np.array([58]), "c": np.array([59]), "d": np.arange(0)}
    self.assertEqual(methods.local_only(_problem(shares)).ari, 1.0)


class CellsTest(absltest.TestCase):

  def test_every_method_partition_and_seed(self):
    config = config_lib.MultiViewStudyConfig(num_seeds=2)
    found = cells.cells({"sample": sample_results.sample_data()}, False, config)
    expected = {
        (row["partition"], row["seed"], row["method"], row["view"])
        for row in sample_results.sample_rows()
    }
    self.assertEqual(
        {(c["partition"], c["seed"], c["method"], c["view"]) for c in found}, expected
    )
    self.assertLen(found, len(expected))

  def test_methods_that_need_classes_are_left_out_without(self):
    config = config_lib.MultiViewStudyConfig(num_seeds=1)
    found = cells.cells({"sample": sample_results.sample_data(labelled=False)}, False, config)
    self.assertEqual({cell["method"] for cell in found}, set(methods.RULES))

  def test_partitions_share_out_every_point_once_and_follow_the_seed(self):
    config = config_lib.MultiViewStudyConfig(num_clients=3)
    data = sample_results.sample_data()
    for partition in (cells.IID, cells.DIRICHLET):
      shares = cells.problem(data, partition, 0, config).shares
      self.assertLen(shares, 3)
      self.assertCountEqual(np.concatenate(list(shares.values())), range(12))
      other = cells.problem(data, partition, 1, config).shares
      self.assertFalse(all(np.array_equal(shares[c], other[c]) for c in shares))


if __name__ == "__main__":
  absltest.main()
