"""Tests for experiments.kmeans.config."""

from absl.testing import absltest
from absl.testing import parameterized

from experiments.kmeans import cells
from experiments.kmeans import config


class PaperConfigTest(parameterized.TestCase):

  def test_every_figure_has_cells(self):
    self.assertEqual(config.FIGURES, tuple(cells.FIGURES))
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
    self.assertEqual(config.OwnDataConfig().candidates, tuple(range(2, 11)))
    self.assertEqual(config.OwnDataConfig(k_range=(3, 4)).candidates, (3, 4))
    self.assertEqual(config.OwnDataConfig(num_clusters=7).candidates, (7,))

  def test_settings_reach_the_algorithm(self):
    settings = config.OwnDataConfig(
        algorithm="fkm", n_init=3, min_count=4, standardize=True, seed=5
    ).kmeans(6)
    self.assertEqual(
        (settings.n_clusters, settings.algorithm, settings.n_init, settings.min_count,
         settings.standardize, settings.seed),
        (6, "fkm", 3, 4, True, 5),
    )

  @parameterized.named_parameters(
      ("both", {"num_clusters": 3, "k_range": (2, 4)}, "`k_range` must be left out with"),
      ("from one", {"k_range": (1, 4)}, "`k_range` must be an integer >= 2, got 1"),
      ("backwards", {"k_range": (5, 4)}, "`k_range` must be an integer >= 5, got 4"),
      ("no clusters", {"num_clusters": 0}, "`num_clusters`"),
      ("raw rows", {"min_count": 1}, "`min_count`"),
      ("another's option", {"algorithm": "lloyd", "min_count": 3},
       "`min_count` must be left out with `algorithm`='lloyd'"),
  )
  def test_bad_settings(self, settings, message):
    with self.assertRaisesRegex(ValueError, message):
      config.OwnDataConfig(**settings)


if __name__ == "__main__":
  absltest.main()
