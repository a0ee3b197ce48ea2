"""Tests for fl_clustering.kmeans.rounds."""

import unittest

from absl.testing import absltest
import numpy as np

from fl_clustering.kmeans import rounds
from fl_clustering.points import point_files
from fl_clustering.points import secure_sums
from fl_clustering import runtime
from tests.kmeans import numpy_reference

_SOURCE = point_files.matrices(2)


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


if __name__ == "__main__":
  absltest.main()
