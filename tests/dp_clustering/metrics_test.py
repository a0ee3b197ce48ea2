import math
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import metrics


def _plain_labels_and_loss(points, centers):
  squares = ((points[:, np.newaxis] - centers) ** 2).sum(axis=2)
  return squares.argmin(axis=1), squares.min(axis=1).sum()


class LabelsAndLossTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("one_block", 2**21), ("blocks_that_end_early", 70), ("one_row_at_a_time", 1)
  )
  def test_against_the_definition(self, block_elements):
    rng = np.random.default_rng(0)
    points, centers = 3 * rng.normal(size=(101, 4)), rng.normal(size=(7, 4))
    labels, loss = _plain_labels_and_loss(points, centers)
    with mock.patch.object(metrics, "BLOCK_ELEMENTS", block_elements):
      got_labels, got_loss = metrics.nonprivate_labels_and_loss(points, centers, 100.0)
    np.testing.assert_array_equal(got_labels, labels)
    self.assertAlmostEqual(got_loss, loss, delta=1e-12 * loss)

  def test_points_are_clipped_as_a_fit_does(self):
    # Unclipped, the second center would be nearer to the first point.
    points = np.array([[6.0, 8.0], [1e308, -1.7e308], [-5e-324, 0.0]])
    centers = np.array([[0.5, 0.5], [0.7, 3.0], [0.0, -1.0]])
    clipped = np.array([[0.6, 0.8], [1 / math.hypot(1, 1.7), -1.7 / math.hypot(1, 1.7)], [0, 0]])
    labels, loss = metrics.nonprivate_labels_and_loss(points, centers, 1.0)
    expected, expected_loss = _plain_labels_and_loss(clipped, centers)
    self.assertEqual(expected.tolist(), [0, 2, 0])
    np.testing.assert_array_equal(labels, expected)
    self.assertAlmostEqual(loss, expected_loss)

  def test_tight_clusters_far_from_the_origin_keep_their_loss(self):
    # Squares of norms would be 2e12 and lose the 1e-8.
    labels, loss = metrics.nonprivate_labels_and_loss(
        np.array([[1e6, 1e6 + 1e-4]]), np.array([[1e6, 1e6], [0, 0]]), 1e7
    )
    self.assertEqual(labels.tolist(), [0])
    self.assertAlmostEqual(loss, 1e-8, delta=1e-13)

  @parameterized.named_parameters(
      ("nan", [math.nan, 0.5], 0, 0.25),
      ("infinity", [math.inf, 3.0], 1, 1.0),
      ("minus_infinity", [-math.inf, 3.0], 2, 1.0),
  )
  def test_rows_that_are_not_finite_count_as_their_point_in_the_ball(self, row, label, loss):
    centers = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    labels, got_loss = metrics.nonprivate_labels_and_loss(np.array([row]), centers, 2.0)
    self.assertEqual((labels.tolist(), got_loss), ([label], loss))

  def test_no_points(self):
    labels, loss = metrics.nonprivate_labels_and_loss(np.zeros((0, 2)), np.eye(2), 1.0)
    self.assertEqual((labels.tolist(), loss), ([], 0.0))


class PointsAsTheyAreTest(parameterized.TestCase):

  @parameterized.parameters(1, 2**18)
  def test_loss_and_share_beyond_the_radius(self, block_elements):
    # The infinite one counts as (0, 2).
    points = np.array([[3.0, 4.0], [0.0, 1.0], [7.0, math.inf], [0.5, 0.0]])
    centers = np.array([[0.0, 0.0], [2.0, 0.0]])
    with mock.patch.object(metrics, "BLOCK_ELEMENTS", block_elements):
      self.assertEqual(metrics.nonprivate_loss(points, centers, 2.0), 17 + 1 + 4 + 0.25)
      self.assertEqual(metrics.nonprivate_clipped_share(points, 2.0), 2 / 4)
      points[3, 1] = math.nan  # As 0: the first point alone is cut by it.
      for radius, share in ((2.0, 2 / 4), (0.4, 1)):
        self.assertEqual(metrics.nonprivate_clipped_share(points, radius), share)

  def test_a_point_at_the_radius_is_not_beyond_it(self):
    for width in range(2, 9):  # Rounding moves some of the norms beyond.
      points = np.ones((1, width))
      self.assertEqual(metrics.nonprivate_clipped_share(points, width**0.5), 0)
      self.assertEqual(metrics.nonprivate_clipped_share(points, 0.999999 * width**0.5), 1)


class ClusteringMetricsTest(absltest.TestCase):

  def test_by_hand(self):
    # Clusters {a a a b}, {b c}, {}: 15 pairs.  Of one label: aa aa aa bb.
    got = metrics.ClusteringMetrics(np.array([[3, 1, 0], [0, 1, 1], [0, 0, 0]]))
    self.assertEqual(got.num_points, 6)
    self.assertEqual(got.dominant_label_correct_count, 3 + 1)
    self.assertAlmostEqual(got.dominant_label_accuracy, 4 / 6)
    self.assertEqual((got.true_pairs, got.false_pairs), (4, 11))
    self.assertEqual(got.true_nonmatch_count, 1)  # The b's.
    self.assertAlmostEqual(got.true_nonmatch_frac, 1 / 4)
    self.assertEqual(got.false_match_count, 3 + 1)  # a-b three times, b-c.
    self.assertAlmostEqual(got.false_match_frac, 4 / 11)

  def test_many_points_do_not_overflow(self):
    got = metrics.ClusteringMetrics(np.full((2, 2), 2**32))
    self.assertEqual(got.true_pairs, 2 * (2**33 * (2**33 - 1) // 2))

  def test_a_ratio_to_nothing_is_nan(self):
    got = metrics.ClusteringMetrics(np.zeros((3, 0), int))
    self.assertEqual((got.num_points, got.true_pairs, got.false_pairs), (0, 0, 0))
    self.assertTrue(math.isnan(got.dominant_label_accuracy))
    self.assertTrue(math.isnan(got.true_nonmatch_frac))
    self.assertTrue(math.isnan(got.false_match_frac))
