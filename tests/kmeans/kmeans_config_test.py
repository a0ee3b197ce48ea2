"""Tests for fl_clustering.kmeans.kmeans_config."""

import math

from absl.testing import absltest
from absl.testing import parameterized

from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import kmeans_config

_PRIVACY = kmeans_config.PointPrivacy(1.0, 1e-6, 2.0)


class KMeansConfigTest(parameterized.TestCase):

  def test_the_default_recipe(self):
    config = kmeans_config.KMeansConfig(4)
    self.assertEqual(config.algorithm, "fkm_lloyd")
    self.assertEqual((config.fkm_rounds, config.n_init, config.min_count), (3, 5, 2))
    self.assertEqual((config.server_init, config.local_iterations), ("fresh", 1))

  def test_every_algorithm_has_defaults(self):
    self.assertEqual(list(kmeans_config.ALGORITHM_DEFAULTS), list(algorithms.ALGORITHMS))

  @parameterized.parameters(*kmeans_config.ALGORITHM_DEFAULTS)
  def test_an_option_is_the_algorithms_own_or_an_error(self, algorithm):
    values = {
        "n_init": 2, "num_rounds": 3, "tol": 0.1, "min_count": 3, "fkm_rounds": 2,
        "server_init": "warm", "local_iterations": 2, "local_clusters": 2,
        "weight_by_counts": True, "shuffle": False, "lloyd_rounds": 4,
    }
    for name, value in values.items():
      if name in kmeans_config.ALGORITHM_DEFAULTS[algorithm]:
        config = kmeans_config.KMeansConfig(4, algorithm, **{name: value})
        self.assertEqual(getattr(config, name), value)
      else:
        with self.assertRaisesRegex(ValueError, f"`{name}` must be left out with `algorithm`"):
          kmeans_config.KMeansConfig(4, algorithm, **{name: value})

  @parameterized.named_parameters(
      ("no clusters", {"n_clusters": 0}, "`n_clusters` must be an integer >= 1"),
      ("half a cluster", {"n_clusters": 1.5}, "`n_clusters`"),
      ("unknown algorithm", {"algorithm": "lloyds"}, "`algorithm` must be one of fkm_lloyd, "),
      ("no restart", {"n_init": 0}, "`n_init`"),
      ("no rounds", {"num_rounds": 0}, "`num_rounds`"),
      ("negative tol", {"tol": -1.0}, "`tol`"),
      ("a mean of one point", {"min_count": 1}, "`min_count` must be an integer >= 2"),
      ("unknown start", {"server_init": "cold"}, "`server_init` must be one of fresh, warm"),
      ("no local step", {"local_iterations": 0}, "`local_iterations`"),
      ("too many local clusters", {"algorithm": "kfed", "local_clusters": 9},
       "`local_clusters` must be at most `n_clusters`=4"),
      ("no truth value", {"algorithm": "child_parent", "shuffle": 1}, "`shuffle`"),
      ("standardize", {"standardize": "yes"}, "`standardize`"),
      ("negative seed", {"seed": -1}, "`seed`"),
      ("private restarts", {"algorithm": "lloyd", "privacy": _PRIVACY, "n_init": 2},
       "`n_init` must be 1 with `privacy`"),
      ("private end", {"algorithm": "lloyd", "privacy": _PRIVACY, "tol": 0.1},
       "`tol` must be 0.0 with `privacy`"),
      ("private moments", {"algorithm": "lloyd", "privacy": _PRIVACY, "standardize": True},
       "`standardize` must be False with `privacy`"),
      ("private gathering", {"privacy": _PRIVACY}, "`privacy` must be left out"),
  )
  def test_bad_settings(self, settings, message):
    with self.assertRaisesRegex(ValueError, message):
      kmeans_config.KMeansConfig(**{"n_clusters": 4, **settings})

  def test_privacy_of_another_kind(self):
    with self.assertRaisesRegex(TypeError, "`privacy` must be a PointPrivacy"):
      kmeans_config.KMeansConfig(4, "lloyd", privacy=1.0)


class PointPrivacyTest(parameterized.TestCase):

  @parameterized.parameters(
      ("epsilon", 0.0), ("epsilon", math.inf), ("delta", 0.0), ("delta", 1.0), ("radius", -1.0),
      ("radius", 1e-300),
  )
  def test_bad_settings(self, name, value):
    settings = {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0, name: value}
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      kmeans_config.PointPrivacy(**settings)

  def test_the_noise_is_that_of_the_rounds_and_their_sensitivity(self):
    noise = _PRIVACY.round_noise(7)
    # At (1, 1e-6) one Gaussian release takes 4.2247 sensitivities.
    self.assertAlmostEqual(noise.std, 4.2247 * math.sqrt(7 * 2), delta=2e-3)
    self.assertEqual(noise.std, noise.spent["noise_multiplier"] * math.sqrt(2))
    self.assertIn("centroids", noise.spent["covers"])


if __name__ == "__main__":
  absltest.main()
