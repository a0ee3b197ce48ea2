"""Tests for fl_clustering.multiview.view_weights."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.multiview import view_weights

_COSTS = np.array([8.0, 2.0, 4.0])
_OWN_COSTS = np.array([6.0, 2.0, 1.0])


def _weigh(name, view_costs=_COSTS, own_costs=_OWN_COSTS, alpha=2.0):
  return view_weights.VIEW_WEIGHTS[name].weigh(view_costs, own_costs, alpha)


class ViewWeightsTest(parameterized.TestCase):

  @parameterized.named_parameters((name, name) for name in view_weights.VIEW_WEIGHTS)
  def test_weights_are_shares(self, name):
    for alpha in (1.001, 1.5, 2.0, 10.0):
      weights = _weigh(name, alpha=alpha)
      self.assertAlmostEqual(weights.sum(), 1.0)
      self.assertTrue(np.all(weights >= 0))

  @parameterized.named_parameters((name, name) for name in view_weights.VIEW_WEIGHTS)
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
