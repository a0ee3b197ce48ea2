"""Tests for fl_clustering.kmeans.kmeans_config."""

from absl.testing import absltest
from absl.testing import parameterized

from fl_clustering.kmeans import estimator
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import privacy

_PRIVACY = privacy.PointPrivacy(1.0, 1e-6, 2.0)


class KMeansConfigTest(parameterized.TestCase):

  def test_the_default_recipe(self):
    config = kmeans_config.KMeansConfig(4)
    self.assertEqual((config.algorithm, config.num_rounds), ("sums", 30))
    config = kmeans_config.KMeansConfig(4, "fkm_lloyd")
    self.assertEqual((config.fkm_rounds, config.n_init, config.min_count), (3, 5, 2))
    self.assertEqual((config.server_init, config.local_iterations), ("fresh", 1))

  def test_every_algorithm_has_defaults(self):
    self.assertEqual(list(kmeans_config.ALGORITHM_DEFAULTS), list(estimator.FITS))

  @parameterized.parameters(*kmeans_config.ALGORITHM_DEFAULTS)
  def test_an_option_is_the_algorithms_own_or_an_error(self, algorithm):
    values = {
        "n_init": 2, "num_rounds": 7, "tol": 0.1, "min_count": 3, "fkm_rounds": 2,
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
      ("unknown algorithm", {"algorithm": "lloyds"}, "`algorithm` must be one of sums, fkm_"),
      ("no restart", {"algorithm": "fkm", "n_init": 0}, "`n_init`"),
      ("no rounds", {"algorithm": "lloyd", "num_rounds": 0}, "`num_rounds`"),
      ("too few rounds", {"num_rounds": 5}, "`num_rounds` must be an integer >= 6"),
      ("negative tol", {"algorithm": "lloyd", "tol": -1.0}, "`tol`"),
      ("a mean of one point", {"algorithm": "fkm", "min_count": 1}, "`min_count` must be an integer >= 2"),
      ("unknown start", {"algorithm": "fkm", "server_init": "cold"}, "`server_init` must be one of fresh, warm"),
      ("no local step", {"algorithm": "fkm", "local_iterations": 0}, "`local_iterations`"),
      ("too many local clusters", {"algorithm": "kfed", "local_clusters": 9},
       "`local_clusters` must be at most `n_clusters`=4"),
      ("no truth value", {"algorithm": "child_parent", "shuffle": 1}, "`shuffle`"),
      ("standardize", {"standardize": "yes"}, "`standardize`"),
      ("negative seed", {"seed": -1}, "`seed`"),
      ("private rounds", {"privacy": _PRIVACY, "num_rounds": 9},
       "`num_rounds` must be left out with `privacy`"),
      ("private moments", {"privacy": _PRIVACY, "standardize": True},
       "`standardize` must be False with `privacy`"),
      ("private gathering", {"algorithm": "fkm", "privacy": _PRIVACY},
       "`privacy` must be left out"),
  )
  def test_bad_settings(self, settings, message):
    with self.assertRaisesRegex(ValueError, message):
      kmeans_config.KMeansConfig(**{"n_clusters": 4, **settings})

  def test_privacy_of_another_kind(self):
    with self.assertRaisesRegex(TypeError, "`privacy` must be a PointPrivacy or a Client"):
      kmeans_config.KMeansConfig(4, privacy=1.0)


if __name__ == "__main__":
  absltest.main()
