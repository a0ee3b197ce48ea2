"""Tests for fl_clustering.kmeans.local_work: what a client computes for the server to gather."""

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
# All of six clusters: TensorFlow takes longer to trace a work than a client of a test to do it.
_FROM_SCRATCH = (
    ("initial", lambda: local_work.initial_means(6, 2)),
    ("separated", lambda: local_work.separated_means(6, 2)),
    ("child", lambda: local_work.child_means(6, 2, False)),
    ("shuffled_child", lambda: local_work.child_means(6, 2, True)),
)


def _run(work, points, num_candidates=1, seed=_SEED):
  """Runs a work that starts from scratch; returns NumPy arrays."""
  points = np.asarray(points, np.float32)
  nothing = np.zeros((num_candidates, 0, points.shape[1]), np.float32)
  return [value.numpy() for value in work(points, nothing, seed)]


def _blobs(centers, per_center=20, noise=0.1, seed=0):
  rng = np.random.default_rng(seed)
  points = np.repeat(np.asarray(centers, np.float64), per_center, axis=0)
  points = points + noise * rng.standard_normal(points.shape)
  return rng.permutation(points).astype(np.float32)


class FromScratchTest(parameterized.TestCase):

  @parameterized.product(build=[row[1] for row in _FROM_SCRATCH], num_columns=[1, 3])
  def test_well_separated_clusters_are_found(self, build, num_columns):
    # k-FED projects to no more directions than there are columns.
    centers = 9 * np.arange(6)[:, np.newaxis] * np.eye(1, num_columns)
    centers[::2] += 20 * np.eye(1, num_columns, num_columns - 1)
    means, counts = _run(build(), _blobs(centers, per_center=40))
    _, distances = numpy_reference.nearest(centers, means[0])
    self.assertLess(distances.max(), 0.05)
    np.testing.assert_array_equal(counts[0], [40] * 6)

  @parameterized.product(build=[row[1] for row in _FROM_SCRATCH], size=[0, 1, 3, 4])
  def test_tiny_clients(self, build, size):
    means, counts = _run(build(), _blobs([(0, 0)], per_center=size))
    self.assertEqual(means.shape, (1, 6, 2))
    self.assertLessEqual(counts.sum(), size)
    self.assertLessEqual((counts > 0).sum(), size // 2)
    self.assertTrue(np.isfinite(means).all())

  @parameterized.named_parameters(*_FROM_SCRATCH)
  def test_equal_rows_are_one_mean_that_does_not_leave(self, build):
    means, counts = _run(build(), np.ones((8, 2)))
    np.testing.assert_array_equal(means[counts > 0], 1)
    self.assertEqual(counts.sum(), 8)
    for row in np.random.default_rng(0).uniform(1, 5, (3, 3)):
      rows = np.tile(row, (5000, 1)).astype(np.float32)
      means, counts = _run(build(), rows)
      _, left = rounds_lib.released_means(rows, means, counts, 2)
      np.testing.assert_array_equal(left, 0)

  def test_candidates_differ(self):
    means, _ = _run(local_work.initial_means(6, 2), _blobs([(0, 0)] * 3, noise=1.0), 4)
    self.assertEqual(means.shape, (4, 6, 2))
    self.assertLen(np.unique(means, axis=0), 4)

  def test_shuffling_follows_the_seed(self):
    points = np.random.default_rng(0).standard_normal((40, 2))
    first, again, other = (
        _run(local_work.child_means(6, 2, True), points, seed=np.array([1, seed], np.int32))[0]
        for seed in (0, 0, 9)
    )
    np.testing.assert_array_equal(first, again)
    self.assertFalse(np.array_equal(first, other))


class PartsTest(parameterized.TestCase):
  """What works are made of."""

  def test_the_best_of_tries_is_the_one_of_least_inertia(self):
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

  def test_principal_directions_are_those_of_the_largest_variance(self):
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    points = (rng.standard_normal((200, 4)) * [9, 5, 1, 0.1]) @ rotation
    directions = local_work._principal_directions(tf.constant(points, tf.float32), 2).numpy()
    _, _, expected = np.linalg.svd(points)
    np.testing.assert_allclose(
        directions @ directions.T, expected[:2].T @ expected[:2], atol=1e-4
    )

  def test_the_core_of_a_cluster_is_three_times_nearer_to_it(self):
    points = tf.constant([[1.0], [2.0], [2.1], [3.0], [7.0]])
    cores = local_work._core_means(points, tf.constant([[0.0], [8.0]])).numpy()
    np.testing.assert_allclose(cores, [[1.5], [7.0]])

  def test_separated_means_end_where_nothing_moves(self):
    points = _blobs([(0, 0), (2, 0), (0, 2)], noise=1.0)
    means, counts = _run(local_work.separated_means(6, 2), points)
    again, same = numpy_reference.lloyd_step(points, means[0])
    np.testing.assert_allclose(again, means[0], atol=1e-5)
    np.testing.assert_array_equal(counts[0], same)

  @parameterized.parameters(1, 3)
  def test_lloyd_steps_with_empty_centroids_dropped(self, steps):
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

  def test_an_empty_centroid_does_not_come_back(self):
    points = np.array([[0], [0], [0], [10]], np.float32)
    # All go to the first one, from which the last one would then be farther.
    _, counts = local_work.lloyd_means(3)(points, [[[9.0], [15.0]]], _SEED)
    np.testing.assert_array_equal(counts, [[4, 0]])

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
    work = local_work.child_means(2, 2, False)
    self.assertLess(_run(work, points)[0].max(), 20)
    self.assertEqual(_run(work, points[::-1])[0].max(), 30)


if __name__ == "__main__":
  absltest.main()
