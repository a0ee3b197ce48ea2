"""Tests for fl_clustering.kmeans.kmeans_config."""

import dataclasses

from absl.testing import absltest
from absl.testing import parameterized

from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import kmeans_config
from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy

_PRIVACY = privacy.PointPrivacy(1.0, 1e-6, 2.0)


def _options_of(algorithm):
  return {field.name for field in dataclasses.fields(algorithm)}


_OPTIONS = set().union(*map(_options_of, kmeans_config.ALGORITHMS.values()))


class KMeansConfigTest(parameterized.TestCase):

  def test_the_default_recipe(self):
    config = kmeans_config.KMeansConfig(4)
    self.assertEqual((config.algorithm.name, kmeans_config.MOST_ROUNDS), ("sums", 30))
    fkm_lloyd = kmeans_config.KMeansConfig(4, "fkm_lloyd").algorithm
    self.assertEqual((fkm_lloyd.fkm_rounds, fkm_lloyd.n_init, fkm_lloyd.min_count), (3, 5, 2))
    self.assertEqual((fkm_lloyd.server_init, fkm_lloyd.local_iterations), ("fresh", 1))

  def test_a_kind_of_algorithm_that_is_not_known_is_refused(self):
    for algorithm in (kmeans_config.Algorithm(), type("Mine", (kmeans_config.Fkm,), {})()):
      with self.assertRaisesRegex(ValueError, "`algorithm` must be of one of Sums, .*, got"):
        kmeans_config.KMeansConfig(4, algorithm)

  def test_every_algorithm_is_searched_by(self):
    kinds = list(kmeans_config.ALGORITHMS.values())
    self.assertEqual(kinds, [kmeans_config.Sums, *algorithms.SEARCHES])

  @parameterized.parameters(*kmeans_config.ALGORITHMS)
  def test_an_option_is_the_algorithms_own_or_an_error(self, algorithm):
    values = {
        "n_init": 2, "num_rounds": 7, "tol": 0.1, "min_count": 3, "fkm_rounds": 2,
        "server_init": "warm", "local_iterations": 2, "local_clusters": 2,
        "weight_by_counts": True, "shuffle": False, "lloyd_rounds": 4,
    }
    self.assertEqual(values.keys(), _OPTIONS)
    for name, value in values.items():
      if name in _options_of(kmeans_config.ALGORITHMS[algorithm]):
        found = kmeans_config.algorithm_of(algorithm, **{name: value})
        self.assertEqual(getattr(found, name), value)
      else:
        with self.assertRaisesRegex(ValueError, f"`{name}` must be left out with `algorithm`"):
          kmeans_config.algorithm_of(algorithm, **{name: value})

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
    options = {name: settings[name] for name in _OPTIONS if name in settings}
    rest = {name: settings[name] for name in settings if name not in options}
    with self.assertRaisesRegex(ValueError, message):
      algorithm = kmeans_config.algorithm_of(rest.pop("algorithm", "sums"), **options)
      kmeans_config.KMeansConfig(**{"n_clusters": 4, "algorithm": algorithm, **rest})

  def test_sums_need_rounds_for_all_clusters(self):
    for n_clusters, num_rounds in ((1, 6), (2, 6), (3, 7), (4, 7), (5, 8), (16, 9), (17, 10)):
      kmeans_config.KMeansConfig(n_clusters, kmeans_config.Sums(num_rounds=num_rounds))
      if num_rounds > 6:
        with self.assertRaisesRegex(
            ValueError,
            f"`num_rounds` must be at least {num_rounds} for `n_clusters`={n_clusters}, "
            f"got {num_rounds - 1}",
        ):
          kmeans_config.KMeansConfig(n_clusters, kmeans_config.Sums(num_rounds=num_rounds - 1))

  def test_privacy_of_another_kind(self):
    with self.assertRaisesRegex(TypeError, "`privacy` must be a PointPrivacy or a Client"):
      kmeans_config.KMeansConfig(4, privacy=1.0)
    with self.assertRaisesRegex(TypeError, "`privacy` must be a PointPrivacy or a Client"):
      kmeans_config.KMeansConfig(4, privacy=multiview_config.PointPrivacy(1.0, 1e-6, (1.0,)))


if __name__ == "__main__":
  absltest.main()
