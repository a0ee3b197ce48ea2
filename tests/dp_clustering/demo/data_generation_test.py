from absl.testing import parameterized
import numpy as np
from scipy import stats

from dp_clustering.demo import data_generation


class SampleUniformSphereTest(parameterized.TestCase):

  @parameterized.parameters(1, 2, 7)
  def test_is_uniform_in_the_ball(self, dim):
    points = data_generation.sample_uniform_sphere(20000, dim, 3.0, np.random.default_rng(0))
    self.assertEqual(points.shape, (20000, dim))
    # (distance / radius)^dim is then uniform.  Error rate of each test: 1e-4.
    norms = np.linalg.norm(points, axis=1)
    self.assertGreater(stats.kstest((norms / 3.0) ** dim, "uniform").pvalue, 1e-4)
    # And the direction has no preference: the mean's standard error is below 0.015.
    np.testing.assert_allclose(points.mean(axis=0), np.zeros(dim), atol=0.06)


class GenerateSyntheticDatasetTest(parameterized.TestCase):

  def _generate(self, seed=0, **changes):
    arguments = {
        "num_points": 6403, "dim": 20, "num_clusters": 8, "cluster_ratio": 8.0, "radius": 2.0
    }
    return data_generation.generate_synthetic_dataset(
        **{**arguments, **changes}, rng=np.random.default_rng(seed)
    )

  def test_surplus_points_are_in_the_last_cluster(self):
    data = self._generate()
    np.testing.assert_array_equal(np.bincount(data.labels), [800] * 7 + [803])
    np.testing.assert_array_equal(self._generate().datapoints, data.datapoints)

  def test_fewer_points_than_clusters(self):
    data = self._generate(num_points=3)
    np.testing.assert_array_equal(data.labels, [7, 7, 7])

  def test_clusters_are_gaussians_around_centers_in_the_ball(self):
    data = self._generate()
    self.assertEqual((data.num_points, data.dim, data.radius), (6403, 20, 2.0))
    for label in range(8):
      members = data.datapoints[data.labels == label]
      # 16,000 coordinates: their standard deviation is known to half a percent.
      std = 2.0 / 8.0 / np.sqrt(20)
      self.assertAlmostEqual(members.std(axis=0).mean() / std, 1.0, delta=0.03)
      self.assertLess(np.linalg.norm(members.mean(axis=0)), 2.0 * (1 - 1 / 8) + 0.02)

  def test_points_are_in_the_ball(self):
    data = self._generate(cluster_ratio=1.0)
    norms = np.linalg.norm(data.datapoints, axis=1)
    self.assertAlmostEqual(norms.max(), 2.0)
    # Half of all points of a Gaussian with such a variance are outside.
    self.assertBetween((norms > 2.0 - 1e-9).mean(), 0.3, 0.7)

  @parameterized.parameters(
      ("num_points", 0), ("dim", 1.5), ("num_clusters", 0), ("cluster_ratio", 0.9),
      ("radius", float("inf")),
  )
  def test_refuses(self, name, value):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      self._generate(**{name: value})
