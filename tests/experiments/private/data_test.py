from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.private import bundled_data
from experiments.private import client_mixtures
from experiments.private import data
from experiments.private import digits_embeddings
from experiments.private import uci


class CenteredAndScaledTest(absltest.TestCase):

  def test_mean_is_zero_the_farthest_point_on_the_sphere_and_shapes_are_kept(self):
    points = np.random.default_rng(0).normal(5, 3, (200, 7))
    scaled = data.centered_and_scaled(points)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    norms = np.linalg.norm(scaled, axis=1)
    self.assertLessEqual(norms.max(), data.RADIUS)
    self.assertAlmostEqual(norms.max(), data.RADIUS, places=9)
    before, after = (np.linalg.norm(one - one[0], axis=1)[1:] for one in (points, scaled))
    np.testing.assert_allclose(after / before, after[0] / before[0])

  def test_identical_points(self):
    np.testing.assert_array_equal(data.centered_and_scaled([[2, 3], [2, 3]]), 0)


class DatasetsTest(parameterized.TestCase):

  def _load(self, name, seed=0, data_dir=None):
    (dataset,), unavailable = data.load_datasets([name], seed, data_dir)
    self.assertEqual(unavailable, {})
    self.assertEqual(dataset.name, name)
    self.assertEqual(dataset.points.dtype, np.float64)
    return dataset

  def test_synthetic_is_the_mixture_of_the_source_and_follows_the_seed(self):
    dataset = self._load("synthetic")
    self.assertEqual(dataset.points.shape, (100_000, 100))
    # 64 clusters of as many neighbours, with 0.0125 in each of 100 coordinates.
    first = dataset.points[: 100_000 // 64]
    self.assertAlmostEqual(first.std(axis=0).mean(), 0.0125, delta=0.0002)
    centers = dataset.points[: 64 * 1562].reshape(64, 1562, 100).mean(axis=1)
    norms = np.linalg.norm(centers, axis=1)
    # In 100 dimensions nearly all of a ball is near its surface.
    self.assertBetween(norms.max(), 0.86, 0.876)
    self.assertGreater(norms.min(), 0.7)
    found, again, other = (
        self._load("synthetic", seed).describe()["sha256"] for seed in (3, 3, 4)
    )
    self.assertEqual(found, again)
    self.assertNotEqual(found, other)

  def test_digits_embeddings_say_how_good_the_network_is(self):
    result = np.random.default_rng(0).random((50, 40)), 0.9625, "50 digits"
    with mock.patch.object(digits_embeddings, "embeddings", return_value=result) as embeddings:
      dataset = self._load("digits_embeddings", seed=7)
    embeddings.assert_called_once_with(7)
    self.assertEqual(dataset.points.shape, (50, 40))
    self.assertRegex(dataset.source, "50 digits.*seed 7.*96.2%")

  def test_what_uci_has(self):
    points = np.random.default_rng(0).random((30, 4))
    with mock.patch.object(uci, "load_letter", return_value=(points, "letters")) as load:
      dataset = self._load("letter", data_dir="folder")
    load.assert_called_once_with("folder")
    self.assertEqual((dataset.points.shape, dataset.source), ((30, 4), "letters"))

  def test_names_what_is_not_to_be_had_and_refuses_to_go_on_with_nothing(self):
    with mock.patch.object(uci, "load_letter", side_effect=uci.Unavailable("no network")):
      loaded, unavailable = data.load_datasets(["letter", "sklearn_digits"], 0, None)
      with self.assertRaisesRegex(ValueError, "`datasets` .*no network"):
        data.load_datasets(["letter"], 0, None)
    self.assertEqual([dataset.name for dataset in loaded], ["sklearn_digits"])
    self.assertEqual(unavailable, {"letter": "no network"})

  @parameterized.parameters(
      ("sklearn_digits", (1797, 64)), ("photo_colors", (68_480, 3)),
      ("photo_patches", (16_960, 48)), ("ecg_windows", (3_000, 36)), ("terrain", (34_744, 3)),
      ("breast_cancer", (569, 30)), ("diabetes", (442, 10)),
  )
  def test_bundled_data(self, name, shape):
    dataset = self._load(name)
    self.assertEqual(dataset.points.shape, shape)
    self.assertEqual(dataset.describe()["is_new"], name in data.NEW)
    self.assertNotIn(name, set(data.KNOWN) & set(data.NEW))
    self.assertAlmostEqual(np.linalg.norm(dataset.points, axis=1).max(), 1, places=9)
    np.testing.assert_allclose(dataset.points.mean(axis=0), 0, atol=1e-12)

  def test_patches_are_squares_of_neighbours(self):
    image = bundled_data._sample_image("flower.jpg")
    patches, _ = bundled_data.load_photo_patches()
    # The second patch of the second row of 160.
    np.testing.assert_array_equal(patches[161].reshape(4, 4, 3), image[4:8, 4:8])

  @parameterized.parameters((100, 1), (2000, 50))
  def test_mixtures_have_clients_and_an_optimum(self, num_clients, unit_points):
    dataset = self._load(f"mixture_{num_clients}_clients", seed=3)
    described = dataset.describe()
    self.assertEqual(dataset.points.shape, (100_000, 100))
    self.assertEqual(
        (described["num_clients"], described["unit_points"]), (num_clients, unit_points)
    )
    self.assertEqual(sum(dataset.client_sizes), 100_000)
    # 100 coordinates of variance one half, in units of the radius 11; the best centers
    # follow 10 x 100 of the 10 million numbers.
    self.assertAlmostEqual(dataset.optimum.loss, 50 / 121, delta=0.002)
    self.assertLess((np.linalg.norm(dataset.points, axis=1) > 1).mean(), 0.002)

  def test_the_optimum_is_that_of_the_points(self):
    rng = np.random.default_rng(0)
    points, means = client_mixtures.draw(client_mixtures.MixtureSize(4, 50, False, 1.0), rng)
    at_means = ((points[:, np.newaxis] - means) ** 2).sum(axis=2).min(axis=1).mean()
    self.assertLess(client_mixtures.optimal_loss(points, means), at_means)

  def test_other_points_have_another_fingerprint(self):
    points = np.zeros((4, 2))
    before = data.BenchmarkDataset("letter", points, "").describe()["sha256"]
    points[3, 1] = 1e-300
    self.assertNotEqual(before, data.BenchmarkDataset("letter", points, "").describe()["sha256"])


if __name__ == "__main__":
  absltest.main()
