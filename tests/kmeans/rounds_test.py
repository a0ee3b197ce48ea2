"""Tests for fl_clustering.kmeans.rounds."""

import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow_federated as tff

from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import rounds
from fl_clustering.kmeans import server_step
from fl_clustering.points import point_files
from fl_clustering.points import secure_sums
from fl_clustering import runtime
from tests.kmeans import numpy_reference

# Clients whose value is their points.
_SOURCE = point_files.PointSource(
    tff.TensorType(np.float32, [None, 2]), 2, lambda points: points
)
_POINTS = np.array([[0, 0], [0, 2], [4, 4], [4, 4], [0, 1.5]], np.float32)


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _float32(clients):
  return [points.astype(np.float32) for points in clients.values()]


def _candidates(num_candidates=3, num_clusters=6):
  rng = np.random.default_rng(0)
  return 4 * rng.standard_normal((num_candidates, num_clusters, 2)).astype(np.float32)


class LloydRoundTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.clients = numpy_reference.sample_clients()
    self.points = numpy_reference.pooled(self.clients)
    self.candidates = _candidates()
    self.candidates[0, 0] = 99  # Never the nearest.

  def test_signature(self):
    self.assertEqual(
        rounds.build_lloyd_round(_SOURCE, 6, 3).type_signature.compact_representation(),
        "(<centroids=float32[3,6,2]@SERVER,clients={float32[?,2]}@CLIENTS> -> <centroids="
        "float32[3,6,2],counts=float32[3,6],inertia=float32[3]>@SERVER)",
    )

  def test_is_one_central_step_of_every_candidate(self):
    result = rounds.build_lloyd_round(_SOURCE, 6, 3)(self.candidates, _float32(self.clients))
    for index, candidate in enumerate(self.candidates):
      centroids, counts = numpy_reference.lloyd_step(self.points, candidate)
      np.testing.assert_allclose(result["centroids"][index], centroids, atol=1e-5)
      np.testing.assert_array_equal(result["counts"][index], counts)
      np.testing.assert_allclose(
          result["inertia"][index], numpy_reference.inertia(self.points, candidate), rtol=1e-5
      )
    np.testing.assert_array_equal(result["centroids"][0, 0], [99, 99])

  def test_ten_rounds_are_ten_central_steps(self):
    lloyd_round = rounds.build_lloyd_round(_SOURCE, 6, 1)
    now = central = self.candidates[1:2]
    central = central[0].astype(np.float64)
    for _ in range(10):
      now = lloyd_round(now, _float32(self.clients))["centroids"]
      central, _ = numpy_reference.lloyd_step(self.points, central)
    np.testing.assert_allclose(now[0], central, atol=1e-5)

  def test_a_client_without_points_changes_nothing(self):
    lloyd_round = rounds.build_lloyd_round(_SOURCE, 6, 3)
    clients = _float32(self.clients)
    without = lloyd_round(self.candidates, clients)
    beside = lloyd_round(self.candidates, [*clients, np.zeros((0, 2), np.float32)])
    for name, value in without.items():
      np.testing.assert_array_equal(beside[name], value)

  def test_clients_may_read_files(self):
    files = point_files.write_files(self.clients, self.create_tempdir().full_path)
    shift, factor = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    scaled_files = files.scaled(secure_sums.Scaling(shift, factor))
    # With room for more candidates than there are.
    result = rounds.Rounds(scaled_files, 5).lloyd(self.candidates)
    self.assertLen(result["centroids"], 3)
    scaled = (self.points - shift) * factor
    for index, candidate in enumerate(self.candidates):
      centroids, _ = numpy_reference.lloyd_step(scaled, candidate)
      np.testing.assert_allclose(result["centroids"][index], centroids, atol=1e-5)


class ScoreRoundTest(absltest.TestCase):

  def test_equals_scores_of_all_points(self):
    clients, candidates = numpy_reference.sample_clients(), _candidates()
    scores = rounds.build_score_round(_SOURCE, 6, 3)(candidates, _float32(clients))
    points = numpy_reference.pooled(clients)
    expected = [numpy_reference.inertia(points, candidate) for candidate in candidates]
    np.testing.assert_allclose(scores["inertia"], expected, rtol=1e-5)


def _centroids(num_clusters):
  """Returns one candidate, of shape (1, K, 2)."""
  return 4 * np.random.default_rng(0).standard_normal((1, num_clusters, 2)).astype(np.float32)


class GatherRoundTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.clients = numpy_reference.sample_clients()

  def _gather(self, work, candidates, min_count=2):
    jobs = [
        {
            "index": np.int32(index),
            "client": points.astype(np.float32),
            "seed": np.array([index, 0], np.int32),
        }
        for index, points in enumerate(self.clients.values())
    ]
    answers = rounds.build_gather_round(_SOURCE, work, min_count)(candidates, jobs)
    ids = list(self.clients)
    return rounds.ClientMeans({
        ids[answer["index"]]: (answer["means"], answer["counts"]) for answer in answers
    })

  def test_gather_and_server_step_are_a_round_of_fkm(self):
    candidates = _centroids(9)
    gathered = self._gather(local_work.lloyd_means(1), candidates, min_count=3)
    means, weights = [], []
    for points in self.clients.values():
      own, counts = numpy_reference.lloyd_step(points, candidates[0])
      means.extend(own[counts >= 3])
      weights.extend(counts[counts >= 3])
    found, counts = gathered.present(0)
    np.testing.assert_allclose(found, means, atol=1e-5)
    np.testing.assert_array_equal(counts, weights)
    combined = server_step.combined_means(found, counts, 5, None, candidates[0, :5])
    expected = candidates[0, :5].astype(np.float64)
    means, weights = np.array(means), np.array(weights)
    for _ in range(50):
      clusters, _ = numpy_reference.nearest(means, expected)
      self.assertLen(set(clusters), 5)
      expected = np.array([
          np.average(means[clusters == k], axis=0, weights=weights[clusters == k])
          for k in range(5)
      ])
    np.testing.assert_allclose(combined, expected, atol=1e-4)

  def test_zero_rows_equal_dropping(self):
    gathered = self._gather(local_work.initial_means(9, 2), np.zeros((1, 0, 2), np.float32))
    rows = np.concatenate([means[0] for means, _ in gathered.by_client.values()])
    weights = np.concatenate([counts[0] for _, counts in gathered.by_client.values()])
    self.assertLess((weights > 0).sum(), len(weights))
    found, counts = gathered.present(0)
    self.assertLen(found, (weights > 0).sum())
    start = found[:4]
    dropped = server_step.combined_means(found, counts, 4, None, start)
    kept = server_step.combined_means(rows, weights, 4, None, start)
    np.testing.assert_allclose(dropped, kept, atol=1e-5)

  def test_answers_carry_the_clients_own_index(self):
    gathered = self._gather(local_work.lloyd_means(1), _centroids(1))
    for client_id, (means, counts) in gathered.by_client.items():
      np.testing.assert_allclose(means[0, 0], self.clients[client_id].mean(axis=0), atol=1e-5)
      self.assertEqual(counts[0, 0], len(self.clients[client_id]))


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

  @parameterized.product(
      min_count=[2, 5],
      case=[
          (slice(0, 2), "twins on the left", "twins on the right"),
          (slice(2, 5), "twins on the right", "twins on the left"),
      ],
  )
  def test_no_row_and_no_small_count_leaves_a_client(self, min_count, case):
    columns, twins, others = case
    clients = self._clients(columns)
    width = columns.stop - columns.start
    files = point_files.write_files(clients, self.create_tempdir().full_path)
    gathered = rounds.Rounds(files, 3).gather(
        local_work.initial_means(8, min_count, 10), min_count,
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

  def test_means_of_enough_points_leave(self):
    means, counts = _released([[0, 1], [2, 3]], [2, 5])
    np.testing.assert_array_equal(means, [[0, 1], [2, 3]])
    np.testing.assert_array_equal(counts, [2, 5])

  def test_small_counts_do_not(self):
    means, counts = _released([[0, 1], [2, 3], [1, 1]], [2, 3, 4], min_count=4)
    np.testing.assert_array_equal(means, [[0, 0], [0, 0], [1, 1]])
    np.testing.assert_array_equal(counts, [0, 0, 4])

  def test_the_mean_of_equal_rows_does_not(self):
    means, counts = _released([[4, 4], [0, 1]], [2, 2])
    np.testing.assert_array_equal(means, [[0, 0], [0, 1]])
    np.testing.assert_array_equal(counts, [0, 2])

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
      for _ in range(20):
        row = rng.uniform(1, 2, num_columns).astype(np.float32)
        rows = np.tile(row, (num_rows, 1))
        means, counts = local_work.lloyd_step(rows, row[np.newaxis, np.newaxis])
        _, left = rounds.released_means(rows, means, counts, 2)
        np.testing.assert_array_equal(left, 0)

  def test_a_mean_of_others_may_lie_close_to_a_row(self):
    _, counts = _released([[0, 1.499998]], [3])
    np.testing.assert_array_equal(counts, 3)

  def test_a_mean_shares_a_column_with_a_row(self):
    _, counts = _released([[0, 4], [4, 0], [4, 2]], [3, 3, 3])
    np.testing.assert_array_equal(counts, [3, 3, 3])

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
