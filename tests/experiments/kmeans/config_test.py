"""Tests for experiments.kmeans.config."""

import dataclasses

from absl.testing import absltest
from absl.testing import parameterized

from experiments.kmeans import config
from experiments.kmeans import methods
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import privacy
from fl_clustering.tables import schema as schema_lib

_PRIVATE = {"num_clusters": 4, "epsilon": 1.0, "delta": 1e-6, "radius": 3.0}
_SCHEMA = schema_lib.Schema((
    schema_lib.Field("x", minimum=0, maximum=9), schema_lib.Field("who", "string"),
), key="who")


def _own(**settings):
  return config.OwnDataConfig(**{"schema": _SCHEMA, **settings})



class PaperConfigTest(parameterized.TestCase):

  def test_every_figure_has_cells(self):
    self.assertEqual(config.FIGURES, tuple(methods.FIGURES))
    self.assertEqual(config.PaperConfig().seeds, range(2))

  @parameterized.named_parameters(
      ("no figure", {"figures": ()}, "`figure` must name each figure once"),
      ("a figure twice", {"figures": ("sse", "sse")}, "`figure` must name each figure once"),
      ("an unknown figure", {"figures": ("figure1",)}, "`figure` must be one of regular, "),
      ("unknown data", {"dataset": "mnist"}, "`dataset` must be one of digits, "),
      ("no seeds", {"num_seeds": 0}, "`seeds`"),
      ("a negative seed", {"seed": -1}, "`seed`"),
  )
  def test_bad_settings(self, settings, message):
    with self.assertRaisesRegex(ValueError, message):
      config.PaperConfig(**settings)


class OwnDataConfigTest(parameterized.TestCase):

  def test_candidates(self):
    self.assertEqual(_own().candidates, tuple(range(2, 11)))
    self.assertEqual(_own(k_range=(3, 4)).candidates, (3, 4))
    self.assertEqual(_own(num_clusters=7).candidates, (7,))

  def test_the_default_is_the_librarys(self):
    settings = _own(num_clusters=3).kmeans(3)
    self.assertEqual(settings, kmeans_config.KMeansConfig(3))

  @parameterized.named_parameters(
      ("points", {}, privacy.PointPrivacy(1.0, 1e-6, 3.0)),
      ("points, no trust", {"trust": "none"}, privacy.PointPrivacy(1.0, 1e-6, 3.0, "none")),
      ("clients", {"max_points": 9}, privacy.ClientPrivacy(1.0, 1e-6, 3.0, 9)),
      ("clients, no trust", {"max_points": 9, "trust": "none"},
       privacy.ClientPrivacy(1.0, 1e-6, 3.0, 9, "none")),
      ("points, some clients", {"trust": "none", "min_clients": 4},
       privacy.PointPrivacy(1.0, 1e-6, 3.0, "none", 4)),
      ("clients, some of them", {"max_points": 9, "trust": "none", "min_clients": 4},
       privacy.ClientPrivacy(1.0, 1e-6, 3.0, 9, "none", 4)),
  )
  def test_privacy_reaches_the_algorithm(self, settings, expected):
    settings = _own(**_PRIVATE, **settings)
    self.assertEqual(settings.kmeans(4).privacy, expected)

  def test_a_private_run_does_not_tell_that_there_are_few_points(self):
    _own(**_PRIVATE).check_enough_points(0)
    with self.assertRaisesRegex(ValueError, "`num_clusters` must be at most the 0 points"):
      _own(num_clusters=4).check_enough_points(0)

  def test_settings_reach_the_algorithm(self):
    settings = _own(
        algorithm="fkm", n_init=3, min_count=4, standardize=True, seed=5
    ).kmeans(6)
    expected = kmeans_config.KMeansConfig(
        6, kmeans_config.Fkm(n_init=3, min_count=4), standardize=True, seed=5
    )
    self.assertEqual(settings, expected)

  @parameterized.named_parameters(
      ("both", {"num_clusters": 3, "k_range": (2, 4)}, "`k_range` must be left out with"),
      ("from one", {"k_range": (1, 4)},
       "`k_range` must be FROM:TO with 2 <= FROM <= TO, got 1:4.$"),
      ("backwards", {"k_range": (5, 4)},
       "`k_range` must be FROM:TO with 2 <= FROM <= TO, got 5:4.$"),
      ("no clusters", {"num_clusters": 0}, "`num_clusters`"),
      ("raw rows", {"algorithm": "fkm", "min_count": 1}, "^`min_count` must be an integer >= 2"),
      ("another's option", {"algorithm": "lloyd", "min_count": 3},
       "`min_count` must be left out with `algorithm`='lloyd'"),
      ("restarts of the default", {"n_init": 3},
       "^`n_init` must be left out with `algorithm`='sums', got 3.$"),
      ("a least count of sums", {"min_count": 2},
       "^`min_count` must be left out with `algorithm`='sums', got 2.$"),
      ("no epsilon, radius", {"radius": 3.0},
       "^`radius` must be left out without `epsilon`, got 3.0.$"),
      ("no epsilon, trust", {"trust": "none"}, "^`trust` must be left out without `epsilon`"),
      ("no epsilon, delta", {"delta": 1e-6}, "^`delta` must be left out without `epsilon`"),
      ("no epsilon, points", {"max_points": 5}, "^`max_points` must be left out without"),
      ("no epsilon, clients", {"min_clients": 5}, "^`min_clients` must be left out without"),
      ("the server adds the noise", {**_PRIVATE, "min_clients": 5},
       "^`min_clients` must be left out with `trust`='server', got 5.$"),
      ("no clients", {**_PRIVATE, "trust": "none", "min_clients": 0}, "^`min_clients` must be an"),
      ("no radius", {**_PRIVATE, "radius": None},
       "^`radius` must be given with `epsilon`, got None.$"),
      ("no delta", {**_PRIVATE, "delta": None}, "^`delta` must be given with `epsilon`"),
      ("no number of clusters", {**_PRIVATE, "num_clusters": None},
       "^`num_clusters` must be given with `epsilon`"),
      ("private choice of K", {**_PRIVATE, "num_clusters": None, "k_range": (2, 4)},
       r"^`k_range` must be left out with `epsilon`, got \(2, 4\).$"),
      ("private scale", {**_PRIVATE, "standardize": True},
       "^`standardize` must be left out with `epsilon`, got True.$"),
      ("private other algorithm", {**_PRIVATE, "algorithm": "fkm"},
       "^`epsilon` must be left out with `algorithm`='fkm', got 1.0.$"),
      ("private restarts", {**_PRIVATE, "n_init": 2}, "^`n_init` must be left out with"),
      ("negative epsilon", {**_PRIVATE, "epsilon": -1.0}, "^`epsilon` must be"),
      ("epsilon zero", {**_PRIVATE, "epsilon": 0.0}, "^`epsilon` must be"),
      ("a certain failure", {**_PRIVATE, "delta": 1.0}, "^`delta` must be"),
      ("no points", {**_PRIVATE, "max_points": 0}, "^`max_points` must be"),
      ("private rows without bounds", {**_PRIVATE, "schema": schema_lib.strict(("z",))}, "z"),
      ("rows that say which clients there are",
       {**_PRIVATE, "schema": dataclasses.replace(_SCHEMA, key=None, client="who")}, "client"),
  )
  def test_bad_settings(self, settings, message):
    with self.assertRaisesRegex(ValueError, message):
      _own(**settings)


if __name__ == "__main__":
  absltest.main()
