"""Tests for fl_clustering.kmeans.least_counts."""

from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import point_grid
from dp_clustering import private_sums
from dp_clustering import sum_query
from fl_clustering.kmeans import least_counts
from fl_clustering.kmeans import sum_kinds


def _column(*values):
  return np.array(values, float)[:, np.newaxis]


def _with_enough(points, centers, min_count):
  asked = []

  def totals(query):
    asked.append(query)
    return private_sums.PooledPoints(points, float(point_grid.POINT_STEPS)).totals(query)

  query = sum_query.SumQuery(
      sum_kinds.FineSums(), {"centers": centers, "cells": np.ones_like(centers)}
  )
  return least_counts.with_enough(totals, query, min_count), asked


class WithoutNeighborsTest(absltest.TestCase):

  def test_the_same_whatever_is_computed_at_a_time(self):
    centers = np.random.default_rng(0).standard_normal((100, 3))
    distances = ((centers[:, np.newaxis] - centers) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest, expected = distances.argmin(axis=1), []
    for center in range(100):
      if center not in nearest[expected]:
        expected.append(center)
    for size in (1, 730, 10_000):
      with mock.patch.object(least_counts, "_BLOCK_DISTANCES", size):
        self.assertEqual(least_counts.without_neighbors(range(100), centers), expected)


class WithEnoughTest(parameterized.TestCase):

  def test_nothing_is_asked_for_one(self):
    enough, asked = _with_enough(_column(1, 2, 90), _column(0, 100), 1)
    self.assertEmpty(asked)
    np.testing.assert_array_equal(enough.kept, [0, 1])
    self.assertEmpty(enough.asked)

  def test_small_neighbors_form_a_cluster_together(self):
    # Three points each near 0 and 10, and many near 1000: both go, or one takes the other's.
    points = _column(0, 1, 2, 9, 10, 11, *range(1000, 1020))
    enough, asked = _with_enough(points, _column(1, 10, 1005, 1015), 5)
    np.testing.assert_array_equal(enough.kept, [1, 2, 3])
    np.testing.assert_array_equal(enough.counts["counts"], _column(6, 11, 9))
    self.assertLen(asked, 2)
    self.assertEqual([len(centers) for centers in enough.asked], [4, 3])
    self.assertEqual({type(query.kind) for query in asked}, {sum_kinds.Counts})

  def test_of_two_the_one_of_fewer_points_goes(self):
    enough, _ = _with_enough(_column(0, 1, 2, 10, 11), _column(0, 10), 5)
    np.testing.assert_array_equal(enough.kept, [0])

  def test_a_center_without_points_goes_too(self):
    enough, asked = _with_enough(_column(0, 1, 2, 90, 91), _column(0, 0, 50, 99), 2)
    np.testing.assert_array_equal(enough.kept, [0, 3])
    self.assertLen(asked, 1)

  @parameterized.parameters(1, 7, 30)
  def test_the_last_center_stays(self, min_count):
    rng = np.random.default_rng(0)
    points = np.rint(1e6 * rng.standard_normal((30, 2)))
    for num_centers in (1, 2, 29):
      enough, _ = _with_enough(points, points[:num_centers].copy(), min_count)
      self.assertNotEmpty(enough.kept)
      if min_count == 30:
        self.assertLen(enough.kept, 1)


if __name__ == "__main__":
  absltest.main()
