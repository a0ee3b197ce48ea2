"""Tests for fl_clustering.multiview.multiview_config."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy as privacy_lib

_PRIVACY = multiview_config.PointPrivacy(1.0, 1e-6, (1.0,))
_PRIVATE = {
    "privacy": _PRIVACY, "standardize": False, **multiview_config.PRIVATE_DEFAULTS,
}


_COSTS = np.array([8.0, 2.0, 4.0])
_OWN_COSTS = np.array([6.0, 2.0, 1.0])


def _weigh(name, view_costs=_COSTS, own_costs=_OWN_COSTS, alpha=2.0):
  return multiview_config.VIEW_WEIGHTS[name].weigh(view_costs, own_costs, alpha)


class MultiViewConfigTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("no_clusters", {"n_clusters": 0}, "`n_clusters` must be an integer >= 1"),
      ("rule", {"view_weights": "best"}, "`view_weights` must be one of equal, mvkm, regret"),
      ("alpha", {"alpha": 0.0}, "`alpha` must be a finite number > 0"),
      ("alpha_one", {"view_weights": "mvkm", "alpha": 1.0},
       "`alpha` must be > 1 with `view_weights`='mvkm', got 1.0"),
      ("alpha_regret", {"view_weights": "regret", "alpha": 0.5}, "`alpha` must be > 1"),
      ("restarts", {"n_init": 0}, "`n_init`"),
      ("rounds", {"num_rounds": 0}, "`num_rounds`"),
      ("tol", {"tol": -1e-9}, "`tol` must be a finite number >= 0"),
      ("standardize", {"standardize": "yes"}, "`standardize` must be True or False, got 'yes'"),
      ("seed", {"seed": -1}, "`seed`"),
      ("private_standardised", {"privacy": _PRIVACY, "n_init": 1},
       "`standardize` must be False with `privacy`"),
      ("private_restarts", {**_PRIVATE, "n_init": 2}, "`n_init` must be 1 with `privacy`, got 2"),
      ("private_tol", {**_PRIVATE, "tol": 1e-6}, "`tol` must be 0 with `privacy`, got 1e-06"),
      ("private_regret", {**_PRIVATE, "view_weights": "regret"},
       "`view_weights` must not need every view's own optimum with `privacy`"),
  )
  def test_refuses(self, settings, message):
    with self.assertRaisesRegex(ValueError, message):
      multiview_config.MultiViewConfig(**{"n_clusters": 3, **settings})

  def test_refuses_a_privacy_level_without_a_guarantee(self):
    with self.assertRaisesRegex(TypeError, "`privacy` must be a PointPrivacy, got float"):
      multiview_config.MultiViewConfig(3, privacy=0.9)

  def test_equal_weights_take_any_alpha(self):
    multiview_config.MultiViewConfig(3, alpha=0.5)


class PointPrivacyTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("epsilon", (0.0, 1e-6, (1.0,)), "`epsilon` must be a number in"),
      ("no_epsilon", (float("inf"), 1e-6, (1.0,)), "`epsilon`"),
      ("delta", (1.0, 0.0, (1.0,)), "`delta` must be a number in"),
      ("norm", (1.0, 1e-6, (1.0, -2.0)), r"`view_norms` must be a number in \[1e-40, 1e\+100\]"),
      ("tiny norm", (1.0, 1e-6, (1e-60,)), "`view_norms` must be a number in"),
      ("no norms", (1.0, 1e-6, ()), "`view_norms` must have a norm for every view"),
      ("trust", (1.0, 1e-6, (1.0,), "me"), "`trust` must be one of server, none, got 'me'"),
      ("shares", (1.0, 1e-6, (1.0,), "server", 3),
       "`min_clients` must be left out with `trust`='server', got 3"),
  )
  def test_refuses(self, arguments, message):
    with self.assertRaisesRegex(ValueError, message):
      multiview_config.PointPrivacy(*arguments)

  def test_refuses_a_norm_that_is_none_of_a_view(self):
    with self.assertRaisesRegex(TypeError, "`view_norms` must be a sequence of norms, got 7.0"):
      multiview_config.PointPrivacy(1.0, 1e-6, 7.0)

  def test_one_norm_per_view(self):
    privacy = multiview_config.PointPrivacy(1.0, 1e-6, (1, 2))
    privacy.check_views(2)
    with self.assertRaisesRegex(ValueError, "`view_norms` must have one norm for each of the 3"):
      privacy.check_views(3)

  def test_side_by_side_it_is_one_ball(self):
    privacy = multiview_config.PointPrivacy(0.5, 1e-7, (1.0, 20.0, 3.0), "none", 4)
    ball = privacy_lib.PointPrivacy(0.5, 1e-7, 3**0.5, "none", 4)
    for name in ("epsilon", "delta", "radius", "trust", "min_clients", "unit", "unit_norm",
                 "neighboring_relation", "points_per_client"):
      self.assertEqual(getattr(privacy, name), getattr(ball, name), name)

  def test_it_is_shown_as_it_is_made(self):
    self.assertEqual(
        repr(multiview_config.PointPrivacy(1, 1e-6, [1, 2])),
        "PointPrivacy(epsilon=1.0, delta=1e-06, view_norms=(1.0, 2.0), trust='server', "
        "min_clients=None)",
    )


class ViewWeightsTest(parameterized.TestCase):

  @parameterized.named_parameters((name, name) for name in multiview_config.VIEW_WEIGHTS)
  def test_weights_are_shares(self, name):
    for alpha in (1.001, 1.5, 2.0, 10.0):
      weights = _weigh(name, alpha=alpha)
      self.assertAlmostEqual(weights.sum(), 1.0)
      self.assertTrue(np.all(weights >= 0))

  @parameterized.named_parameters((name, name) for name in multiview_config.VIEW_WEIGHTS)
  def test_views_without_cost_and_views_with_negative_noise_have_finite_weights(self, name):
    for costs in ([0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [-5.0, 1.0, 2.0]):
      weights = _weigh(name, np.array(costs), np.zeros(3), alpha=1.01)
      self.assertTrue(np.all(np.isfinite(weights)), costs)

  def test_equal(self):
    np.testing.assert_allclose(_weigh("equal"), [1 / 3] * 3)

  def test_mvkm_at_alpha_two_is_the_inverse_cost(self):
    np.testing.assert_allclose(_weigh("mvkm"), np.array([1, 4, 2]) / 7)

  def test_mvkm_minimises_the_objective(self):
    rng = np.random.default_rng(0)
    for alpha in (1.3, 2.0, 5.0):
      least = _weigh("mvkm", alpha=alpha) ** alpha @ _COSTS
      others = rng.dirichlet(np.ones(3), 1000) ** alpha @ _COSTS
      self.assertLessEqual(least, others.min())

  def test_regret_is_the_share_of_the_own_optimum_that_is_kept(self):
    np.testing.assert_allclose(_weigh("regret"), np.array([0.75, 1.0, 0.25]) / 2)

  def test_regret_is_not_above_one_for_a_badly_clustered_view(self):
    weights = _weigh("regret", own_costs=np.array([16.0, 2.0, 4.0]))
    np.testing.assert_allclose(weights, [1 / 3] * 3)

  def test_a_smaller_alpha_makes_weights_more_unequal(self):
    self.assertGreater(_weigh("mvkm", alpha=1.2).max(), _weigh("mvkm", alpha=2.0).max())


if __name__ == "__main__":
  absltest.main()
