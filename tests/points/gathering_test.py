"""Tests for fl_clustering.points.gathering."""

import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import server_step
from fl_clustering.points import gathering
from fl_clustering.points import point_files
from fl_clustering import runtime
from tests.kmeans import numpy_reference

_SOURCE = point_files.matrices(2)


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


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
    works = ((2, work),)
    answers = gathering.build_gather_round(_SOURCE, works, min_count)(candidates, jobs)
    ids = list(self.clients)
    return gathering.ClientMeans({
        ids[answer["index"]]: (answer["means"][0], answer["counts"][0]) for answer in answers
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
  """What the clients really send, in every block of columns."""

  _WIDTHS = (2, 3)

  def _clients(self):
    rng = np.random.default_rng(0)
    drawn = lambda *shape: rng.standard_normal(shape)
    return {
        "drawn": drawn(60, 5),
        "few": drawn(3, 5),
        "one": drawn(1, 5),
        # Rows that are there several times, whose mean is a row: in both blocks, or in one.
        "twins": np.repeat(50 * drawn(6, 5), 5, axis=0),
        "twins on the left": np.hstack([np.repeat(50 * drawn(6, 2), 5, axis=0), drawn(30, 3)]),
        "twins on the right": np.hstack([drawn(30, 2), np.repeat(50 * drawn(6, 3), 5, axis=0)]),
        # Whole numbers, which a mean can hit.
        "whole numbers": rng.integers(3, size=(40, 5)).astype(float),
        "a lone point": np.concatenate([drawn(30, 5), np.full((1, 5), 1e3)]),
    }

  @parameterized.parameters(2, 5)
  def test_no_row_and_no_small_count_leaves_a_client(self, min_count):
    clients = self._clients()
    works = tuple((width, local_work.initial_means(8, min_count, 10)) for width in self._WIDTHS)
    gathered = gathering.gather_blocks(
        point_files.write_files(clients, self.create_tempdir().full_path), works, min_count,
        np.zeros((3, 0, 5), np.float32),
        {client_id: np.array([0, index], np.int32) for index, client_id in enumerate(clients)},
    )
    self.assertLen(gathered, 2)
    for block, columns in zip(gathered, (slice(0, 2), slice(2, 5))):
      self.assertCountEqual(block.by_client, clients)
      for client_id, (means, counts) in block.by_client.items():
        self.assertEqual(counts.shape, (3, 8))
        self.assertTrue(np.all((counts == 0) | (counts >= min_count)), client_id)
        np.testing.assert_array_equal(means[counts == 0], 0)
        rows = clients[client_id][:, np.newaxis, columns].astype(np.float32)
        same = np.isclose(rows, means[counts > 0], rtol=1e-6, atol=1e-6).all(axis=2)
        self.assertFalse(same.any(), f"{client_id} sent a row")
      # The test sees something: what may leave does.
      self.assertTrue(np.any(block.by_client["drawn"][1] > 0))
      self.assertFalse(np.any(block.by_client["one"][1] > 0))
      self.assertFalse(np.any(block.by_client["twins"][1] > 0))
      self.assertLess(np.abs(block.by_client["a lone point"][0]).max(), 10)
    left, right = gathered
    for twins, others, client_id in (
        (left, right, "twins on the left"), (right, left, "twins on the right")
    ):
      self.assertFalse(np.any(twins.by_client[client_id][1] > 0))
      self.assertTrue(np.any(others.by_client[client_id][1] > 0))


if __name__ == "__main__":
  absltest.main()
