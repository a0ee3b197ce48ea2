import dataclasses
from unittest import mock

from absl.testing import absltest
import numpy as np

from experiments.multi_view import comparison
from experiments.multi_view import config as config_lib
from experiments.multi_view import methods
from experiments.multi_view import simulated_dha
from tests import drawn_seeds
from tests.experiments.multi_view import sample_run


def _problem(shares=None):
  rng = np.random.default_rng(0)
  labels = np.arange(60) % 3
  return methods.Problem(
      views={
          "clear": 10 * np.eye(3)[labels] + rng.standard_normal((60, 3)),
          "wide noise": 1e4 * rng.standard_normal((60, 50)),
      },
      labels=labels,
      shares=shares or {"a": np.arange(40), "b": np.arange(40, 60)},
      num_clusters=3,
      seed=0,
      settings={},
  )


class MethodsTest(absltest.TestCase):

  def test_a_fit_has_scores_and_details(self):
    found = methods.multiview(_problem(), "mvkm")
    self.assertEqual(found.numbers["ari"], 1.0)
    self.assertContainsSubset({"nmi", "rounds", "objective"}, found.numbers)
    self.assertEqual(list(found.view_weights), ["clear", "wide noise"])
    self.assertAlmostEqual(sum(found.view_weights.values()), 1)
    self.assertCountEqual(found.points.max(axis=1), [20] * 3)
    self.assertEqual(found.points.sum(), 60)

  def test_a_fit_has_the_settings(self):
    settings = {"alpha": 3.0, "n_init": 2, "num_rounds": 7, "tol": 0.125}
    estimator = methods.multiview_lib.FederatedMultiViewKMeans
    with mock.patch.object(
        methods.multiview_lib, "FederatedMultiViewKMeans", wraps=estimator
    ) as made:
      methods.multiview(dataclasses.replace(_problem(), settings=settings), "mvkm")
    self.assertContainsSubset(settings.items(), made.call_args.kwargs.items())

  def test_side_by_side_each_view_has_a_total_variance_of_one(self):
    for view in np.split(_problem().side_by_side(), [3], axis=1):
      self.assertAlmostEqual(view.var(axis=0).sum(), 1)

  def test_all_is_drawn_by_the_seed(self):
    problem = dataclasses.replace(_problem(), seed=7, settings={"n_init": 1})
    kmeans = methods._kmeans  # pylint: disable=protected-access
    with (
        mock.patch.object(methods, "_kmeans", wraps=kmeans) as central,
        drawn_seeds.recorded() as seeds,
    ):
      for method in methods.METHODS.values():
        method.run(problem, *["clear"] * method.by_view)
    self.assertEqual(seeds, {7})
    self.assertEqual({call.args[2] for call in central.call_args_list}, {7})

  def test_rounding_of_a_constant_column_is_not_scaled_up(self):
    # NumPy finds a deviation of 1e-14.
    view = np.stack([np.full(3000, 0.1), np.arange(3000.0)], axis=1)
    standardised = methods.Problem({"view": view}, None, {}, 2, 0, {}).standardised("view")
    np.testing.assert_allclose(standardised.std(axis=0), [0, 1], atol=1e-9)

  def test_local_scores_are_weighted_by_size(self):
    problem = _problem()
    found = [problem.labels[:40], np.zeros(20, int)]  # All right, and nothing.
    with mock.patch.object(methods, "_kmeans", side_effect=found):
      self.assertAlmostEqual(methods.local_only(problem).numbers["ari"], 40 / 60)


class CellsTest(absltest.TestCase):

  def test_every_method_partition_and_seed(self):
    config = config_lib.MultiViewStudyConfig(datasets=("digits",), num_seeds=2)
    found = comparison.cells(config, {"sample": sample_run.data()})
    methods_of = lambda *names: [
        (cell["partition"], cell["view"]) for cell in found
        if cell["method"] in names and cell["seed"] == 1
    ]
    views = [("pooled", view) for view in sample_run.VIEWS]
    self.assertEqual(methods_of("single_view"), views)
    self.assertEqual(methods_of("concatenated"), [("pooled", "all")])
    for method in ("local_only", "mvkm", "regret", "equal"):
      self.assertEqual(methods_of(method), [("IID", "all"), ("Dirichlet", "all")])
    self.assertLen(found, 2 * (2 + 2 + 4 * 2))
    self.assertEqual([*found[0]], ["dataset", "partition", "seed", "method", "view"])

  def test_partitions_share_out_every_point_once_and_follow_the_seed(self):
    config = config_lib.MultiViewStudyConfig(num_clients=3, dirichlet_alpha=0.7)
    sample = sample_run.data()
    dirichlet = self.enter_context(mock.patch.object(
        comparison.shares_lib, "dirichlet_shares", wraps=comparison.shares_lib.dirichlet_shares
    ))
    for partition in ("IID", "Dirichlet"):
      shares, other = (
          comparison._shares(sample, partition, config, seed)  # pylint: disable=protected-access
          for seed in (0, 1)
      )
      self.assertLen(shares, 3)
      self.assertCountEqual(np.concatenate(list(shares.values())), range(12))
      self.assertFalse(all(np.array_equal(shares[c], other[c]) for c in shares))
    self.assertEqual({call.args[-1] for call in dirichlet.call_args_list}, {0.7})


class SimulatedDhaTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.drawn = simulated_dha.draw(simulated_dha.SOURCE_SEED, {})

  def test_sites_cover_all_points_and_the_first_two_share_some(self):
    first, second, third = self.drawn.shares.values()
    self.assertLen(np.unique(np.concatenate([first, second, third])), 600)
    self.assertLen(np.intersect1d(first, second), 38)
    self.assertLen(third, 25)

  def test_is_drawn_by_the_seed(self):
    with (
        mock.patch.object(simulated_dha, "_draw_points", return_value=([], None)) as points,
        mock.patch.object(simulated_dha, "_split") as split,
    ):
      problem = simulated_dha.draw(7, {})
    (rng,) = points.call_args.args
    self.assertIs(split.call_args.args[1], rng)
    self.assertEqual(rng.randint(2**31), np.random.RandomState(7).randint(2**31))
    self.assertEqual(problem.seed, 7)

  def test_plain_kmeans_finds_the_clusters_exactly(self):
    # So the data prove nothing.
    self.assertEqual(simulated_dha.METHODS["central_kmeans"].run(self.drawn).numbers["ari"], 1.0)
