"""Tests for fl_clustering.kmeans.private_training and point_privacy."""

import math
import unittest
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy import stats

from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.kmeans import point_privacy
from fl_clustering.kmeans import point_source
from fl_clustering.kmeans import private_training
from fl_clustering.kmeans import tff_rounds
from fl_clustering import runtime
from tests.kmeans import numpy_reference


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


class PointPrivacyTest(parameterized.TestCase):

  @parameterized.parameters(
      ("epsilon", 0.0), ("epsilon", math.inf), ("delta", 0.0), ("delta", 1.0), ("radius", -1.0),
      ("radius", 1e-300),
  )
  def test_bad_settings(self, name, value):
    settings = {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0, name: value}
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      point_privacy.PointPrivacy(**settings)

  def test_one_point_changes_a_round_by_at_most_the_sensitivity(self):
    rng = np.random.default_rng(0)
    points = 2 * rng.standard_normal((30, 3)).astype(np.float32)
    centroids = rng.standard_normal((1, 4, 3)).astype(np.float32)
    whole = private_training.projected_sums(points, centroids)
    changes = []
    for index in range(30):
      without = private_training.projected_sums(np.delete(points, index, axis=0), centroids)
      changes.append(
          math.sqrt(sum(((whole[name] - without[name]) ** 2).numpy().sum() for name in whole))
      )
    self.assertLessEqual(max(changes), point_privacy.SENSITIVITY * (1 + 1e-5))
    self.assertGreater(max(changes), 0.99 * point_privacy.SENSITIVITY)

  def test_the_accountant_confirms_the_budget(self):
    privacy = point_privacy.PointPrivacy(1.0, 1e-6, 1.0)
    spent = point_privacy.privacy_spent(privacy, 7)
    self.assertAlmostEqual(spent["accounted_epsilon"], 1.0, delta=2e-3)
    # At (1, 1e-6) one Gaussian release takes 4.2247 sensitivities.
    self.assertAlmostEqual(spent["noise_multiplier"], 4.2247 * math.sqrt(7), delta=1e-3)


class PrivateTrainingTest(absltest.TestCase):

  def test_the_noise_is_gaussian_of_the_stated_size_and_new_in_every_round(self):
    clients = numpy_reference.sample_clients()
    multiplier = 7.0
    rounds = tff_rounds.TffRounds(
        point_source.write_files(clients, self.create_tempdir().full_path), 2, 1,
        private_training.build_sum_factory(multiplier),
    )
    # 300 centroids far from all points: their counts are nothing but noise.
    far = np.full((1, 300, 2), 1e4, np.float32)
    results = [rounds.lloyd(far, private_training.projected_sums) for _ in range(3)]
    # All points are the first one's.
    noise = [result["counts"][0, 1:] for result in results]
    std = multiplier * math.sqrt(2)
    # One failure in a million runs of a right program.
    self.assertGreater(stats.kstest(np.concatenate(noise) / std, "norm").pvalue, 1e-6)
    for first, second in ((0, 1), (0, 2), (1, 2)):
      self.assertLess(abs(np.corrcoef(noise[first], noise[second])[0, 1]), 0.3)

  def test_a_large_budget_finds_the_clusters(self):
    clients = numpy_reference.sample_clients(sizes=(900, 900))
    points = numpy_reference.pooled(clients)
    privacy = point_privacy.PointPrivacy(100.0, 1e-6, 12.0)
    model = FederatedKMeans(5, "lloyd", privacy=privacy).fit(clients)
    exact = FederatedKMeans(5, "lloyd").fit(clients)
    private = numpy_reference.inertia(points, model.cluster_centers_)
    self.assertLess(private, 2.5 * exact.inertia_)
    self.assertLessEqual(np.linalg.norm(model.cluster_centers_, axis=1).max(), 12 * (1 + 1e-6))
    self.assertIsNone(model.inertia_)
    self.assertIsNone(model.silhouette_)
    self.assertEqual(model.privacy_spent_["num_rounds"], model.n_rounds_)

  def test_the_noise_does_not_follow_the_seed(self):
    clients = numpy_reference.sample_clients()
    privacy = point_privacy.PointPrivacy(1.0, 1e-6, 12.0)
    fits = [FederatedKMeans(3, "lloyd", privacy=privacy).fit(clients) for _ in range(2)]
    self.assertFalse(np.array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_))

  def test_a_point_however_far_counts_as_one_at_the_radius(self):
    privacy = point_privacy.PointPrivacy(100.0, 1e-6, 12.0)
    clients = numpy_reference.sample_clients(sizes=(900, 900))
    for far in (1e20, 1e60, -1e100):
      clients["far"] = np.array([[far, 0.0]])
      fits = [FederatedKMeans(3, "lloyd", privacy=privacy).fit(clients) for _ in range(2)]
      # There is noise, and the centroids are among the points.
      self.assertFalse(np.array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_))
      self.assertGreater(np.linalg.norm(fits[0].cluster_centers_, axis=1).max(), 3.0)

  def test_bytes_of_a_round(self):
    privacy = point_privacy.PointPrivacy(1.0, 1e-6, 12.0)
    model = FederatedKMeans(4, "lloyd", privacy=privacy).fit(numpy_reference.sample_clients())
    self.assertEqual(model.history_[-1].bytes_up, 4 * 3 * 4)

  def test_nothing_but_the_noisy_rounds_looks_at_the_data(self):
    privacy = point_privacy.PointPrivacy(1.0, 1e-6, 12.0)
    with mock.patch.multiple(
        tff_rounds.TffRounds, moments=mock.DEFAULT, scores=mock.DEFAULT, gather=mock.DEFAULT
    ) as others:
      FederatedKMeans(3, "lloyd", privacy=privacy).fit(numpy_reference.sample_clients())
    for other in others.values():
      other.assert_not_called()

  def test_empty_clusters_split_the_largest_and_all_stay_in_the_ball(self):
    centroids = np.array([[3.0, 4.0], [0.1, 0.2], [-0.5, 0.0]], np.float32)
    moved = private_training.next_centroids(
        centroids, np.array([50.0, 3.0, 90.0]), 1.0, np.random.default_rng(0)
    )
    np.testing.assert_allclose(moved[0], [0.6, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(moved[2], centroids[2])
    self.assertBetween(np.linalg.norm(moved[1] - centroids[2]), 1e-3, 0.3)


if __name__ == "__main__":
  absltest.main()
