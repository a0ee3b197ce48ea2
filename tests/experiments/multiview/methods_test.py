"""Tests for outcomes, for the methods that don't need TFF, and for what is measured."""

import csv
import io
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.multiview import cells
from experiments.multiview import config as config_lib
from experiments.multiview import data
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


class OutcomeTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("nothing", methods.Outcome()),
      ("scores", methods.Outcome(nmi=1 / 3, ari=-0.1)),
      ("one_view", methods.Outcome(rounds=1, view_weights=(1.0,), objectives=(2.5,))),
      ("all", methods.Outcome(0.5, 0.25, 7, (0.1, 0.9), (1e300, 1 / 3), {-1: (0, 2), 5: (1, 0)})),
  )
  def test_a_row_is_read_back_exactly(self, one):
    self.assertEqual(set(one.to_row()), set(methods.VALUES))
    self.assertEqual(methods.outcome_of_row(one.to_row()), one)
    # As a CSV file has it, in which nothing is None and a lone number is a number.
    text = io.StringIO()
    csv.writer(text).writerow(["" if v is None else v for v in one.to_row().values()])
    (cells,) = csv.reader(io.StringIO(text.getvalue()))
    row = dict(zip(one.to_row(), (cell or None for cell in cells)))
    for name in ("nmi", "ari", "rounds"):
      row[name] = None if row[name] is None else float(row[name])
    for name in ("view_weights", "objectives"):
      row[name] = float(row[name]) if row[name] and " " not in row[name] else row[name]
    self.assertEqual(methods.outcome_of_row(row), one)

  def test_score(self):
    one = methods.score(np.array([0, 0, 1, 1]), np.array([5, 5, 3, 3]))
    self.assertEqual((one.nmi, one.ari), (1.0, 1.0))
    self.assertEqual(methods.score(None, np.array([0, 1])), methods.Outcome())

  def test_count_points(self):
    counts = methods.count_points(np.array([7, 7, 2]), np.array([1, 0, 1]), 3)
    self.assertEqual(counts, {2: (0, 1, 0), 7: (1, 1, 0)})


class MethodsTest(absltest.TestCase):

  def test_views_count_alike_side_by_side(self):
    points = _problem().side_by_side()
    self.assertAlmostEqual(points[:, :3].var(axis=0).sum(), 1.0)
    self.assertAlmostEqual(points[:, 3:].var(axis=0).sum(), 1.0)

  def test_rounding_of_a_constant_column_is_not_scaled_up(self):
    # NumPy finds a deviation of 1e-14.
    view = np.stack([np.full(3000, 0.1), np.arange(3000.0)], axis=1)
    standardised = methods._standardised(view)  # pylint: disable=protected-access
    np.testing.assert_allclose(standardised.std(axis=0), [0, 1], atol=1e-9)

  def test_central_methods(self):
    problem = _problem()
    self.assertEqual(methods.single_view(problem, "clear").ari, 1.0)
    self.assertLess(methods.single_view(problem, "wide noise").ari, 0.3)
    self.assertEqual(methods.concatenated(problem).ari, 1.0)

  def test_local_scores_are_weighted_by_size(self):
    problem = _problem()
    found = [problem.labels[:40], np.zeros(20, int)]  # All right, and nothing.
    with mock.patch.object(methods, "_kmeans", side_effect=found):
      self.assertAlmostEqual(methods.local_only(problem).ari, 40 / 60)

  def test_clients_without_points_have_no_score(self):
    # The first client's points are clear, the second has but two and one cluster each.
    shares = {"a": np.arange(58), "b": np.array([58]), "c": np.array([59]), "d": np.arange(0)}
    self.assertEqual(methods.local_only(_problem(shares)).ari, 1.0)


def _loaded(labelled=True):
  return data.LoadedData({"sample": sample_results.sample_data(labelled)}, False, {})


class CellsTest(absltest.TestCase):

  def test_every_method_partition_and_seed(self):
    config = config_lib.MultiViewStudyConfig(num_seeds=2)
    found = cells.cells(_loaded(), config)
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
    found = cells.cells(_loaded(labelled=False), config)
    self.assertEqual({cell["method"] for cell in found}, set(methods.RULES))

  def test_partitions_share_out_every_point_once_and_follow_the_seed(self):
    config = config_lib.MultiViewStudyConfig(num_clients=3)
    sample = sample_results.sample_data()
    for partition in (cells.IID, cells.DIRICHLET):
      shares = cells.problem(sample, partition, 0, config).shares
      self.assertLen(shares, 3)
      self.assertCountEqual(np.concatenate(list(shares.values())), range(12))
      other = cells.problem(sample, partition, 1, config).shares
      self.assertFalse(all(np.array_equal(shares[c], other[c]) for c in shares))


if __name__ == "__main__":
  absltest.main()
