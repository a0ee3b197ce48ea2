import dataclasses

from absl.testing import parameterized

from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import privacy

_PRIVACY = privacy.PointPrivacy(1.0, 1e-6, 2.0)
_OPTIONS = {
    "n_init": 2, "num_rounds": 7, "tol": 0.1, "min_count": 3, "fkm_rounds": 2,
    "local_clusters": 2, "weight_by_counts": True, "lloyd_rounds": 4,
}


def _options_of(algorithm):
  return {field.name for field in dataclasses.fields(algorithm)}


class KMeansConfigTest(parameterized.TestCase):

  def test_the_default_recipe(self):
    config = kmeans_config.KMeansConfig(4)
    self.assertEqual((config.algorithm.name, kmeans_config.MOST_ROUNDS), ("sums", 30))
    fkm_lloyd = kmeans_config.KMeansConfig(4, "fkm_lloyd").algorithm
    self.assertEqual((fkm_lloyd.fkm_rounds, fkm_lloyd.n_init, fkm_lloyd.min_count), (3, 5, 2))

  def test_every_algorithm_is_searched_by_and_no_other_is_taken(self):
    kinds = list(kmeans_config.ALGORITHMS.values())
    self.assertEqual(kinds, [kmeans_config.Sums, *algorithms.SEARCHES])
    for algorithm in (kmeans_config.Algorithm(), type("Mine", (kmeans_config.Fkm,), {})()):
      with self.assertRaisesRegex(ValueError, "`algorithm`"):
        kmeans_config.KMeansConfig(4, algorithm)

  @parameterized.parameters(*kmeans_config.ALGORITHMS.values())
  def test_every_option_can_be_given(self, algorithm):
    for name in _options_of(algorithm):
      self.assertEqual(getattr(algorithm(**{name: _OPTIONS[name]}), name), _OPTIONS[name])

  @parameterized.parameters(
      ("n_clusters", 0), ("n_clusters", 1.5), ("algorithm", "lloyds"), ("standardize", "yes"),
      ("field_widths", (1, 2)),
      ("seed", -1), ("num_rounds", 5), ("n_init", 0, "fkm"), ("num_rounds", 0, "lloyd"),
      ("tol", -1.0, "lloyd"), ("min_count", 1, "fkm"),
      ("local_clusters", 9, "kfed"), ("weight_by_counts", 1, "child_parent"),
      ("num_rounds", 9, "sums", _PRIVACY), ("standardize", True, "sums", _PRIVACY),
      ("privacy", _PRIVACY, "fkm"), ("privacy", 1.0),
      ("privacy", privacy.ViewPrivacy(1.0, 1e-6, (1.0,))),
  )
  def test_bad_settings(self, name, value, algorithm="sums", private=None):
    settings = {"n_clusters": 4, "algorithm": algorithm, "privacy": private, name: value}
    with self.assertRaisesRegex((TypeError, ValueError), f"`{name}`"):
      if name in _OPTIONS:
        kind = kmeans_config.ALGORITHMS[settings["algorithm"]]
        settings["algorithm"] = kind(**{name: settings.pop(name)})
      kmeans_config.KMeansConfig(**settings)

  def test_sums_need_rounds_for_all_clusters(self):
    for n_clusters, num_rounds in ((1, 6), (2, 6), (3, 7), (4, 7), (5, 8), (16, 9), (17, 10)):
      kmeans_config.KMeansConfig(n_clusters, kmeans_config.Sums(num_rounds=num_rounds))
      if num_rounds > 6:
        with self.assertRaisesRegex(ValueError, "`num_rounds`"):
          kmeans_config.KMeansConfig(n_clusters, kmeans_config.Sums(num_rounds=num_rounds - 1))
