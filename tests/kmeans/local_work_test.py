"""Tests for fl_clustering.kmeans.local_work and what it is made of."""

from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import rounds as rounds_lib
from fl_clustering.kmeans import tensor_kmeans
from tests.kmeans import numpy_reference

_SEED = np.array([1, 2], np.int32)


def _run(work, points, num_candidates=1):
  """Runs a work that starts from scratch; returns NumPy arrays."""
  points = np.asarray(points, np.float32)
  nothing = np.zeros((num_candidates, 0, points.shape[1]), np.float32)
  return [value.numpy() for value in work(points, nothing, _SEED)]


def _blobs(centers, per_center=20, noise=0.1, seed=0):
  rng = np.random.default_rng(seed)
  points = np.repeat(np.asarray(centers, np.float64), per_center, axis=0)
  points = points + noise * rng.standard_normal(points.shape)
  return rng.permutation(points).astype(np.float32)


_FROM_SCRATCH = (
    ("initial", lambda k, p: local_work.initial_means(k, p)),
    ("separated", lambda k, p: local_work.separated_means(k, p)),
    ("child", lambda k, p: local_work.child_means(k, p, False)),
    ("shuffled child", lambda k, p: local_work.child_means(k, p, True)),
)


class EqualRowsTest(parameterized.TestCase):

  @parameterized.named_parameters(*_FROM_SCRATCH)
  def test_the_mean_of_many_equal_rows_does_not_leave(self, build):
    for row in np.random.default_rng(0).uniform(1, 5, (4, 3)):
      rows = np.tile(row, (20_000, 1)).astype(np.float32)
      means, counts = _run(build(6, 2), rows)
      _, left = rounds_lib.released_means(rows, means, counts, 2)
      np.testing.assert_array_equal(left, 0)


class BestOfTriesTest(absltest.TestCase):

  def test_is_the_one_of_least_inertia(self):
    points = tf.constant(np.random.default_rng(3).random((60, 2)), tf.float32)
    alike, trials = tf.ones([60]), tensor_kmeans.greedy_trials(7)
    rows = tensor_kmeans.seed_rows(points, alike, 10, 7, trials, _SEED)
    tries, _ = local_work.lloyd_steps(points, tf.gather(points, rows), 2)
    distances = np.linalg.norm(points.numpy()[:, None, None] - tries.numpy(), axis=3)
    inertia = (distances.min(axis=2) ** 2).sum(axis=0)
    self.assertGreater(inertia.max(), 1.01 * inertia.min())  # The tries differ.
    means, counts = local_work.best_of_tries(points, 1, 7, 2, _SEED)
    np.testing.assert_array_equal(means[0], tries[inertia.argmin()])
    self.assertEqual(counts.numpy().sum(), 60)

  def test_starts_are_greedy(self):
    with mock.patch.object(tensor_kmeans, "seed_rows", wraps=tensor_kmeans.seed_rows) as seed_rows:
      local_work.best_of_tries(tf.constant(_blobs([(0, 0)], 30)), 2, 16, 1, _SEED)
    _, _, num_sets, _, num_trials, _ = seed_rows.call_args.args
    self.assertEqual((num_sets, num_trials), (20, 4))


class FromScratchTest(parameterized.TestCase):

  @parameterized.named_parameters(*_FROM_SCRATCH)
  def test_counts_are_of_the_points_that_the_means_are_of(self, build):
    points = _blobs([(0, 0), (5, 0), (0, 5)], noise=1.0)
    means, counts = _run(build(4, 2), points)
    self.assertEqual(means.shape, (1, 4, 2))
    # All points are in one mean each.
    self.assertEqual(counts.sum(), len(points))
    np.testing.assert_allclose(
        (means * counts[..., None]).sum(axis=1)[0], points.sum(axis=0), rtol=1e-4
    )

  @parameterized.named_parameters(*_FROM_SCRATCH)
  def test_well_separated_clusters_are_found(self, build):
    centers = [(0, 0, 0), (9, 0, 0), (0, 9, 0), (0, 0, 9)]
    means, counts = _run(build(4, 2), _blobs(centers, per_center=40))
    _, distances = numpy_reference.nearest(np.array(centers), means[0])
    self.assertLess(distances.max(), 0.05)
    np.testing.assert_array_equal(counts[0], [40] * 4)

  @parameterized.product(build=[row[1] for row in _FROM_SCRATCH], size=[0, 1, 2, 3, 4, 5, 9])
  def test_tiny_clients(self, build, size):
    means, counts = _run(build(6, 2), _blobs([(0, 0)], per_center=size))
    self.assertEqual(means.shape, (1, 6, 2))
    self.assertLessEqual(counts.sum(), size)
    self.assertLessEqual((counts > 0).sum(), size // 2)
    self.assertTrue(np.isfinite(means).all())

  @parameterized.named_parameters(*_FROM_SCRATCH)
  def test_identical_points(self, build):
    means, counts = _run(build(6, 2), np.ones((8, 2)))
    np.testing.assert_array_equal(means[counts > 0], 1)
    self.assertEqual(counts.sum(), 8)

  def test_initial_candidates_differ(self):
    means, _ = _run(local_work.initial_means(3, 2), _blobs([(0, 0)] * 3, noise=1.0), 4)
    self.assertEqual(means.shape, (4, 3, 2))
    for index in range(3):
      self.assertFalse(np.array_equal(means[index], means[index + 1]))

  def test_fewer_columns_and_more_clusters_than_k_fed_projects_to(self):
    means, counts = _run(local_work.separated_means(3, 2), _blobs([(0,), (5,), (9,)]))
    self.assertEqual(means.shape, (1, 3, 1))
    self.assertEqual(counts.sum(), 60)


class SeparatedMeansTest(absltest.TestCase):

  def test_projects_onto_the_directions_of_the_largest_variance(self):
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    points = (rng.standard_normal((200, 4)) * [9, 5, 1, 0.1]) @ rotation
    directions = local_work._principal_directions(
        tf.constant(points, tf.float32), 2
    ).numpy()
    _, _, expected = np.linalg.svd(points)
    np.testing.assert_allclose(
        directions @ directions.T, expected[:2].T @ expected[:2], atol=1e-4
    )

  def test_the_core_of_a_cluster_is_three_times_nearer_to_it(self):
    points = tf.constant([[1.0], [2.0], [2.1], [3.0], [7.0]])
    cores = local_work._core_means(points, tf.constant([[0.0], [8.0]])).numpy()
    np.testing.assert_allclose(cores, [[1.5], [7.0]])

  def test_ends_where_nothing_moves(self):
    points = _blobs([(0, 0), (2, 0), (0, 2)], noise=1.0)
    means, counts = _run(local_work.separated_means(3, 2), points)
    again, same = numpy_reference.lloyd_step(points, means[0])
    np.testing.assert_allclose(again, means[0], atol=1e-5)
    np.testing.assert_array_equal(counts[0], same)


class LloydMeansTest(parameterized.TestCase):

  @parameterized.parameters(1, 2, 3)
  def test_steps_with_empty_centroids_dropped(self, steps):
    points = _blobs([(0, 0), (4, 0), (0, 4)], noise=1.5)
    centroids = np.array([(0, 0), (3, 1), (1, 3), (20, 20), (1, 1)], np.float32)
    means, counts = local_work.lloyd_means(steps)(points, centroids[np.newaxis], _SEED)
    left = centroids
    for _ in range(steps):
      left, expected = numpy_reference.lloyd_step(points, left)
      left, expected = left[expected > 0], expected[expected > 0]
    counts = counts.numpy()[0]
    np.testing.assert_array_equal(counts[counts > 0], expected)
    np.testing.assert_allclose(means.numpy()[0][counts > 0], left, rtol=1e-5)
    self.assertEqual(counts[3], 0)


class OnlineUpdatesTest(absltest.TestCase):

  def test_points_move_the_nearest_mean_one_after_the_other(self):
    means, counts = local_work.online_updates(
        np.array([[0.0], [10.0]], np.float32), np.array([1.0, 3.0], np.float32),
        np.array([[4.0], [4.5], [14.0]], np.float32),
    )
    # (0 * 1 + 4) / 2 = 2, then (2 * 2 + 4.5) / 3; (10 * 3 + 14) / 4.
    np.testing.assert_allclose(means, [[8.5 / 3], [11]], rtol=1e-6)
    np.testing.assert_array_equal(counts, [3, 4])

  def test_the_first_quarter_arrives_unless_shuffled(self):
    # One of twelve points is far away: first, it only moves a mean that others made.
    points = np.concatenate([[[30.0]], np.random.default_rng(0).standard_normal((11, 1))])
    first, _ = _run(local_work.child_means(2, 2, False), points)
    last, _ = _run(local_work.child_means(2, 2, False), points[::-1])
    self.assertLess(first.max(), 20)
    self.assertEqual(last.max(), 30)

  def test_shuffling_follows_the_seed(self):
    points = np.random.default_rng(0).standard_normal((40, 2)).astype(np.float32)
    work = local_work.child_means(3, 2, True)
    nothing = np.zeros((1, 0, 2), np.float32)
    again = [work(points, nothing, np.array([1, seed], np.int32))[0].numpy() for seed in (0, 0, 9)]
    np.testing.assert_array_equal(again[0], again[1])
    self.assertFalse(np.array_equal(again[0], again[2]))


if __name__ == "__main__":
  absltest.main()
