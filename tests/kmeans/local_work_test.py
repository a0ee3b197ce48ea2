"""Tests for fl_clustering.kmeans.local_work: what a client computes, and what may leave it."""

from absl.testing import parameterized
import numpy as np

from fl_clustering.kmeans import local_work
from tests.kmeans import numpy_reference

_FROM_SCRATCH = (
    ("initial", lambda: local_work.initial_means(6, 2)),
    ("separated", lambda: local_work.separated_means(6, 2)),
    ("child", lambda: local_work.child_means(6, 2)),
)


def _rng(seed=0):
  return np.random.default_rng(seed)


def _blobs(centers, per_center=20, noise=0.1):
  points = np.repeat(np.asarray(centers, np.float64), per_center, axis=0)
  return _rng().permutation(points + noise * _rng(1).standard_normal(points.shape))


class SumsAndScoresTest(parameterized.TestCase):

  # More than a block of rows, and not a multiple of it.
  @parameterized.parameters(0, 1, 2048, 5000)
  def test_are_those_of_all_points(self, num_points):
    points, centroids = _rng().standard_normal((num_points, 3)), _rng(1).standard_normal((4, 3))
    sums, counts, inertia = local_work.lloyd_sums(points, centroids)
    clusters, distances = numpy_reference.nearest(points, centroids)
    for k in range(4):
      np.testing.assert_allclose(sums[k], points[clusters == k].sum(axis=0), atol=1e-9)
    np.testing.assert_array_equal(counts, np.bincount(clusters, minlength=4))
    self.assertAlmostEqual(inertia, distances.sum())
    found = local_work.scores(points, centroids)
    np.testing.assert_array_equal(found[0], counts)
    self.assertEqual(found[1], inertia)
    if num_points:
      silhouette = numpy_reference.silhouette(points, centroids)
      self.assertAlmostEqual(found[2] / num_points, silhouette)

  def test_a_point_on_two_centroids_has_no_silhouette_and_neither_has_one_centroid(self):
    points = _rng().standard_normal((10, 3))
    self.assertEqual(local_work.scores(points, points[:1])[2], 0)
    self.assertAlmostEqual(local_work.scores(points[[0, 0]], points[[0, 0]])[2], 0)

  def test_no_distance_is_negative(self):
    # Here the expanded square loses all its digits.
    points = _rng().standard_normal((50, 3)) * 1e-8 + 1e3
    self.assertGreaterEqual(local_work.squared_distances(points, points).min(), 0)

  def test_centroids_that_were_sent_are_as_exact_as_points(self):
    centroids = _rng().standard_normal((4, 20)).astype(np.float32)
    points = centroids[0] + 1e-4 * _rng(1).standard_normal((50, 20))
    _, distances = numpy_reference.nearest(points, centroids.astype(np.float64))
    _, _, inertia = local_work.lloyd_sums(points, centroids)
    self.assertAlmostEqual(inertia / distances.sum(), 1, places=6)


class FromScratchTest(parameterized.TestCase):

  @parameterized.product(build=[row[1] for row in _FROM_SCRATCH], num_columns=[1, 3])
  def test_well_separated_clusters_are_found(self, build, num_columns):
    # k-FED projects to no more directions than there are columns.
    centers = 9 * np.arange(6)[:, np.newaxis] * np.eye(1, num_columns)
    centers[::2] += 20 * np.eye(1, num_columns, num_columns - 1)
    means, counts = build()(_blobs(centers, per_center=40), _rng(3))
    _, distances = numpy_reference.nearest(centers, means)
    self.assertLess(distances.max(), 0.05)
    np.testing.assert_array_equal(counts, [40] * 6)

  @parameterized.product(build=[row[1] for row in _FROM_SCRATCH], size=[0, 1, 3, 4])
  def test_tiny_clients(self, build, size):
    means, counts = build()(_blobs([(0, 0)], per_center=size), _rng())
    self.assertEqual(means.shape, (len(counts), 2))
    self.assertLessEqual(counts.sum(), size)
    self.assertLessEqual(len(counts), size // 2)
    self.assertTrue(np.isfinite(means).all())

  @parameterized.parameters(
      local_work.initial_means, local_work.separated_means, local_work.child_means
  )
  def test_a_client_looks_for_no_more_clusters_than_may_leave_it(self, build):
    _, counts = build(6, 5)(_rng().standard_normal((12, 2)), _rng())
    self.assertLen(counts, 2)

  @parameterized.named_parameters(*_FROM_SCRATCH)
  def test_equal_rows_are_one_mean_that_does_not_leave(self, build):
    for row in _rng().uniform(1, 5, (3, 3)):
      rows = np.tile(row, (3000, 1))
      means, counts = build()(rows, _rng())
      self.assertEqual(counts.sum(), 3000)
      np.testing.assert_allclose(means[counts > 0] - row, 0, atol=1e-9)
      self.assertEmpty(local_work.released_means(rows, means, counts, 2)[1])


class PartsTest(parameterized.TestCase):
  """What works are made of."""

  def test_the_best_of_tries_is_the_one_of_least_inertia(self):
    points, rng = _rng(3).random((60, 2)), _rng(1)
    # pylint: disable-next=protected-access
    starts = [local_work._seeds(points, 7, rng) for _ in range(10)]
    tries = [local_work.lloyd_steps(points, start, 2) for start in starts]
    inertia = [numpy_reference.inertia(points, means) for means, _ in tries]
    self.assertGreater(max(inertia), 1.01 * min(inertia))  # The tries differ.
    means, counts = local_work.best_of_tries(points, 7, 2, _rng(1))
    np.testing.assert_array_equal(means, tries[np.argmin(inertia)][0])
    self.assertEqual(counts.sum(), 60)

  def test_principal_directions_are_those_of_the_largest_variance(self):
    rotation, _ = np.linalg.qr(_rng().standard_normal((4, 4)))
    points = (_rng().standard_normal((200, 4)) * [9, 5, 1, 0.1]) @ rotation
    directions = local_work._principal_directions(points, 2)  # pylint: disable=protected-access
    _, _, expected = np.linalg.svd(points)
    np.testing.assert_allclose(directions @ directions.T, expected[:2].T @ expected[:2], atol=1e-9)

  def test_the_core_of_a_cluster_is_three_times_nearer_to_it(self):
    points = np.array([[1.0], [2.0], [2.1], [3.0], [7.0]])
    # pylint: disable-next=protected-access
    cores = local_work._core_means(points, np.array([[0.0], [8.0]]))
    np.testing.assert_allclose(cores, [[1.5], [7.0]])

  def test_separated_means_end_where_nothing_moves(self):
    points = _blobs([(0, 0), (2, 0), (0, 2)], noise=1.0)
    means, counts = local_work.separated_means(6, 2)(points, _rng())
    again, same = numpy_reference.lloyd_step(points, means)
    np.testing.assert_allclose(again, means)
    np.testing.assert_array_equal(counts, same)

  def test_a_lloyd_step_with_empty_centroids_dropped(self):
    points = _blobs([(0, 0), (4, 0), (0, 4)], noise=1.5)
    centroids = np.array([(0.0, 0.0), (3, 1), (1, 3), (20, 20), (1, 1)])
    means, counts = local_work.lloyd_means(centroids)(points, _rng())
    left, expected = numpy_reference.lloyd_step(points, centroids)
    np.testing.assert_array_equal(counts, expected[expected > 0])
    np.testing.assert_allclose(means, left[expected > 0])

  def test_points_move_the_nearest_mean_one_after_the_other(self):
    given = np.array([[0.0], [10.0]]), np.array([1.0, 3.0])
    means, counts = local_work.online_updates(*given, np.array([[4.0], [4.5], [14.0]]))
    # (0 * 1 + 4) / 2 = 2, then (2 * 2 + 4.5) / 3; (10 * 3 + 14) / 4.
    np.testing.assert_allclose(means, [[8.5 / 3], [11]])
    np.testing.assert_array_equal(counts, [3, 4])
    np.testing.assert_array_equal(given[0], [[0], [10]])

  def test_the_first_quarter_arrives(self):
    # One of twelve points is far away: first, it only moves a mean that others made.
    points = np.concatenate([[[30.0]], _rng().standard_normal((11, 1))])
    work = local_work.child_means(2, 2)
    self.assertLess(work(points, _rng())[0].max(), 20)
    self.assertEqual(work(points[::-1], _rng())[0].max(), 30)


class ReleasedMeansTest(parameterized.TestCase):

  @parameterized.parameters(0, 2047, 2048, 4999)
  def test_a_row_of_any_block_is_recognised(self, row):
    points = _rng().standard_normal((5000, 3))
    _, counts = local_work.released_means(points, points[[row]], np.array([3.0]), 2)
    self.assertEmpty(counts)

  @parameterized.named_parameters(
      ("enough_points", [[0, 1], [2, 3]], [2, 5], 2, [0, 1]),
      ("small_counts", [[0, 1], [2, 3], [1, 1]], [2, 3, 4], 4, [2]),
      ("of_equal_rows", [[4, 4], [0, 1]], [2, 2], 2, [1]),
      ("of_others_close_to_a_row", [[0, 1.499998]], [3], 2, [0]),
      ("a_row_but_for_rounding_of_a_zero", [[1e-7, 2]], [3], 2, []),
      ("a_column_shared_with_a_row", [[0, 4], [4, 0], [4, 2]], [3, 3, 3], 2, [0, 1, 2]),
      ("none", np.zeros((0, 2)), [], 2, []),
  )
  def test_means_that_leave(self, means, counts, min_count, leaving):
    points = np.array([[0, 0], [0, 2], [4, 4], [4, 4], [0, 1.5]])
    means, counts = np.asarray(means, float), np.array(counts, float)
    found = local_work.released_means(points, means, counts, min_count)
    np.testing.assert_array_equal(found[0], means[leaving])
    np.testing.assert_array_equal(found[1], counts[leaving])

  @parameterized.product(num_columns=[2, 90, 1000], far=[0.0, 3.0, 1e3])
  def test_rows_are_recognised_among_many_columns_and_far_from_zero(self, num_columns, far):
    points = far + _rng().standard_normal((50, num_columns))
    rounded = points * (1 + 3e-7 * _rng(1).uniform(-1, 1, points.shape))
    # As near as a row can be to one in all columns but one, where it is not.
    beside = points.copy()
    beside[:, -1] += 1e-4 * max(1.0, far)
    for means, num_leaving in ((points, 0), (rounded, 0), (np.float32(points), 0), (beside, 50)):
      _, counts = local_work.released_means(points, means.astype(float), np.full(50, 3.0), 2)
      self.assertLen(counts, num_leaving)
