from absl.testing import parameterized
import numpy as np

from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy as privacy_lib

_PRIVACY = privacy_lib.ViewPrivacy(1.0, 1e-6, (1.0,))
_PRIVATE = {
    "privacy": _PRIVACY, "standardize": False, **multiview_config.PRIVATE_DEFAULTS,
}
_COSTS = np.array([8.0, 2.0, 4.0])
_OWN_COSTS = np.array([6.0, 2.0, 1.0])


def _weigh(name, view_costs=_COSTS, own_costs=_OWN_COSTS, alpha=2.0):
  return multiview_config.VIEW_WEIGHTS[name].weigh(view_costs, own_costs, alpha)


class MultiViewConfigTest(parameterized.TestCase):

  @parameterized.parameters(
      ("n_clusters", 0), ("view_weights", "best"), ("alpha", 0.0),
      ("alpha", 1.0, {"view_weights": "mvkm"}), ("alpha", 0.5, {"view_weights": "regret"}),
      ("n_init", 0), ("num_rounds", 0), ("tol", -1e-9), ("standardize", "yes"), ("seed", -1),
      ("field_widths", (2, 0)), ("field_widths", (1,), {"standardize": False}),
      ("privacy", 0.9), ("standardize", True, _PRIVATE), ("n_init", 2, _PRIVATE),
      ("tol", 1e-6, _PRIVATE), ("view_weights", "regret", _PRIVATE),
  )
  def test_refuses(self, name, value, settings=None):
    with self.assertRaisesRegex((TypeError, ValueError), f"`{name}`"):
      multiview_config.MultiViewConfig(**{"n_clusters": 3, **(settings or {}), name: value})

  def test_equal_weights_take_any_alpha(self):
    multiview_config.MultiViewConfig(3, alpha=0.5)


class ViewWeightsTest(parameterized.TestCase):

  @parameterized.parameters(*multiview_config.VIEW_WEIGHTS)
  def test_weights_are_shares_also_of_views_without_cost_or_with_negative_noise(self, name):
    for alpha in (1.001, 1.5, 2.0, 10.0):
      weights = _weigh(name, alpha=alpha)
      self.assertAlmostEqual(weights.sum(), 1.0)
      self.assertTrue(np.all(weights >= 0))
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

  def test_regret_is_the_share_of_the_own_optimum_that_is_kept_and_not_above_one(self):
    np.testing.assert_allclose(_weigh("regret"), np.array([0.75, 1.0, 0.25]) / 2)
    weights = _weigh("regret", own_costs=np.array([16.0, 2.0, 4.0]))
    np.testing.assert_allclose(weights, [1 / 3] * 3)
