"""Tests for fl_clustering.kmeans.rounds."""

import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import rounds
from fl_clustering.points import point_files
from fl_clustering.points import secure_sums
from fl_clustering import runtime
from tests.kmeans import numpy_reference
from tests import nightly

_POINTS = np.array([[0, 0], [0, 2], [4, 4], [4, 4], [0, 1.5]], np.float32)


def setUpModule():
  unittest.addModuleCleanup(runtime.LocalRuntime().close)


class LloydRoundTest(absltest.TestCase):

  def test_is_one_central_step_of_every_candidate(self):
    clients = numpy_reference.sample_clients()
    files = point_files.write_files(
        {**clients, "nothing": np.zeros((0, 2))}, self.create_tempdir().full_path
    )
    shift, factor = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    scaled_files = files.scaled(secure_sums.Scaling(shift, factor))
    candidates = 4 * np.random.default_rng(0).standard_normal((3, 6, 2)).astype(np.float32)
    candidates[0, 0] = 99  # Never the nearest.
    # With room for more candidates than there are.
    result = rounds.Rounds(scaled_files, 5).lloyd(candidates)
    scaled = (numpy_reference.pooled(clients) - shift) * factor
    for candidate, found, counts, inertia in zip(candidates, *result.values(), strict=True):
      centroids, expected = numpy_reference.lloyd_step(scaled, candidate)
      np.testing.assert_allclose(found, centroids, atol=1e-5)
      np.testing.assert_array_equal(counts, expected)
      np.testing.assert_allclose(inertia, numpy_reference.inertia(scaled, candidate), rtol=1e-5)
    np.testing.assert_array_equal(result["centroids"][0, 0], [99, 99])


class RowRuleTest(parameterized.TestCase):
  """What the clients really send."""

  def _clients(self, columns):
    """Returns clients of two columns, or of three others."""
    rng = np.random.default_rng(0)
    drawn = lambda *shape: rng.standard_normal(shape)
    clients = {
        "drawn": drawn(60, 5),
        "few": drawn(3, 5),
        "one": drawn(1, 5),
        # Rows that are there several times, whose mean is a row: in all columns, or in some.
        "twins": np.repeat(50 * drawn(6, 5), 5, axis=0),
        "twins on the left": np.hstack([np.repeat(50 * drawn(6, 2), 5, axis=0), drawn(30, 3)]),
        "twins on the right": np.hstack([drawn(30, 2), np.repeat(50 * drawn(6, 3), 5, axis=0)]),
        # Whole numbers, which a mean can hit.
        "whole numbers": rng.integers(3, size=(40, 5)).astype(float),
        "a lone point": np.concatenate([drawn(30, 5), np.full((1, 5), 1e3)]),
    }
    return {client_id: points[:, columns] for client_id, points in clients.items()}

  @parameterized.parameters(
      (2, slice(0, 2), "twins on the left", "twins on the right"),
      (5, slice(2, 5), "twins on the right", "twins on the left"),
  )
  def test_no_row_and_no_small_count_leaves_a_client(self, min_count, columns, twins, others):
    nightly.skip_by_day(self, min_count == 2)
    clients = self._clients(columns)
    width = columns.stop - columns.start
    files = point_files.write_files(clients, self.create_tempdir().full_path)
    gathered = rounds.Rounds(files, 3).gather(
        local_work.initial_means(8, min_count), min_count,
        np.zeros((3, 0, width), np.float32),
        {client_id: np.array([0, index], np.int32) for index, client_id in enumerate(clients)},
    ).by_client
    self.assertCountEqual(gathered, clients)
    for client_id, (means, counts) in gathered.items():
      self.assertEqual(counts.shape, (3, 8))
      self.assertTrue(np.all((counts == 0) | (counts >= min_count)), client_id)
      np.testing.assert_array_equal(means[counts == 0], 0)
      rows = clients[client_id][:, np.newaxis].astype(np.float32)
      same = np.isclose(rows, means[counts > 0], rtol=1e-6, atol=1e-6).all(axis=2)
      self.assertFalse(same.any(), f"{client_id} sent a row")
    # The test sees something: what may leave does.
    self.assertTrue(np.any(gathered["drawn"][1] > 0))
    self.assertTrue(np.any(gathered[others][1] > 0))
    for client_id in ("one", "twins", twins):
      self.assertFalse(np.any(gathered[client_id][1] > 0))
    self.assertLess(np.abs(gathered["a lone point"][0]).max(), 10)


def _released(means, counts, min_count=2):
  released, left = rounds.released_means(
      _POINTS, np.array([means], np.float32), np.array([counts], np.float32), min_count
  )
  return released.numpy()[0], left.numpy()[0]


class ReleasedMeansTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("enough_points", [[0, 1], [2, 3]], [2, 5], 2, [2, 5]),
      ("small_counts", [[0, 1], [2, 3], [1, 1]], [2, 3, 4], 4, [0, 0, 4]),
      ("of_equal_rows", [[4, 4], [0, 1]], [2, 2], 2, [0, 2]),
      ("of_others_close_to_a_row", [[0, 1.499998]], [3], 2, [3]),
      ("a_row_but_for_rounding_of_a_zero", [[1e-7, 2]], [3], 2, [0]),
      ("a_column_shared_with_a_row", [[0, 4], [4, 0], [4, 2]], [3, 3, 3], 2, [3, 3, 3]),
  )
  def test_means_that_leave(self, means, counts, min_count, expected):
    released, left = _released(means, counts, min_count)
    np.testing.assert_array_equal(left, expected)
    kept = np.array(expected)[:, np.newaxis] > 0
    np.testing.assert_array_equal(released, np.where(kept, np.array(means, np.float32), 0))

  def test_the_mean_of_equal_rows_does_not_for_all_rounding(self):
    rows = np.repeat(np.array([[0.1, 0.7]], np.float32), 7, axis=0)
    for change in (0, 1e-6, -1e-6):
      means = np.array([[rows[0] + change]], np.float32)
      _, counts = rounds.released_means(rows, means, np.array([[7.0]], np.float32), 2)
      np.testing.assert_array_equal(counts, 0)

  @parameterized.parameters(100, 2048, 5000)
  def test_the_mean_of_many_equal_rows_does_not(self, num_rows):
    rng = np.random.default_rng(0)
    for num_columns in (1, 3):  # One column is added up number after number.
      for _ in range(5):
        row = rng.uniform(1, 2, num_columns).astype(np.float32)
        rows = np.tile(row, (num_rows, 1))
        means, counts = local_work.lloyd_step(rows, row[np.newaxis, np.newaxis])
        _, left = rounds.released_means(rows, means, counts, 2)
        np.testing.assert_array_equal(left, 0)

  @parameterized.product(num_columns=[2, 90], far=[0.0, 3.0, 1e3])
  def test_rows_are_recognised_among_many_columns_and_far_from_zero(self, num_columns, far):
    rng = np.random.default_rng(0)
    points = (far + rng.standard_normal((50, num_columns))).astype(np.float32)
    rounded = points * (1 + 3e-7 * rng.uniform(-1, 1, points.shape))
    # As near as a row can be to one in all columns but one, where it is not.
    beside = points.copy()
    beside[:, -1] += 1e-4 * max(1.0, far)
    means = np.stack([points, rounded, beside]).astype(np.float32)
    _, counts = rounds.released_means(
        points, means, np.full(means.shape[:2], 3.0, np.float32), 2
    )
    np.testing.assert_array_equal(counts[:2], 0)
    np.testing.assert_array_equal(counts[2], 3)

  def test_each_candidate_has_its_own(self):
    means = np.array([[[0, 1]], [[0, 2]]], np.float32)
    _, counts = rounds.released_means(_POINTS, means, np.full((2, 1), 3.0, np.float32), 2)
    np.testing.assert_array_equal(counts, [[3], [0]])

  def test_no_points(self):
    means, counts = rounds.released_means(
        _POINTS[:0], np.zeros((1, 2, 2), np.float32), np.zeros((1, 2), np.float32), 2
    )
    np.testing.assert_array_equal(means, 0)
    np.testing.assert_array_equal(counts, 0)


if __name__ == "__main__":
  absltest.main()
