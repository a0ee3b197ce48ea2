"""Tests for fl_clustering.multiview.point_privacy."""

from absl.testing import absltest
from absl.testing import parameterized
import dp_accounting
from dp_accounting import rdp
import numpy as np

from fl_clustering.multiview import kernel_sums
from fl_clustering.multiview import point_privacy


class PointPrivacyTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("epsilon", (0.0, 1e-6, (1.0,)), "`epsilon` must be a finite number > 0"),
      ("no_epsilon", (float("inf"), 1e-6, (1.0,)), "`epsilon`"),
      ("delta", (1.0, 0.0, (1.0,)), "`delta` must be a number in"),
      ("norm", (1.0, 1e-6, (1.0, -2.0)), r"`view_norms` must be a number in \[1e-40, 1e\+100\]"),
      ("tiny norm", (1.0, 1e-6, (1e-60,)), "`view_norms` must be a number in"),
  )
  def test_refuses(self, arguments, message):
    with self.assertRaisesRegex(ValueError, message):
      point_privacy.PointPrivacy(*arguments)

  def test_refuses_a_norm_that_is_none_of_a_view(self):
    with self.assertRaisesRegex(TypeError, "`view_norms` must be a sequence of norms, got 7.0"):
      point_privacy.PointPrivacy(1.0, 1e-6, 7.0)

  def test_one_norm_per_view(self):
    privacy = point_privacy.PointPrivacy(1.0, 1e-6, (1, 2))
    privacy.check_views(2)
    with self.assertRaisesRegex(ValueError, "`view_norms` must have one norm for each of the 3"):
      privacy.check_views(3)

  def test_no_point_changes_the_sums_by_more_than_the_sensitivity(self):
    widths = (2, 3)
    rng = np.random.default_rng(0)
    largest = 0.0
    for scale in (1e-3, 0.3, 1.0, 10.0):
      for _ in range(100):
        points = scale * rng.standard_normal((1, 5))
        centers = kernel_sums.project(rng.standard_normal((4, 5)), widths)
        # The worst case: a long point on its center has weight one in every view.
        for center in (centers, np.repeat(kernel_sums.project(points, widths), 4, axis=0)):
          sums = kernel_sums.kernel_sums(
              kernel_sums.project(points, widths), center, np.ones(2), np.ones(2), widths
          )
          change = np.sqrt(sum(np.sum(value.numpy() ** 2) for value in sums.values()))
          largest = max(largest, change)
    self.assertLessEqual(largest, point_privacy.sensitivity(2) + 1e-12)
    self.assertGreater(largest, 0.999 * point_privacy.sensitivity(2))

  @parameterized.named_parameters(("one", 1.0, 1e-6, 1), ("many", 0.5, 1e-5, 20))
  def test_noise_is_what_the_budget_takes_and_no_more(self, epsilon, delta, num_rounds):
    privacy = point_privacy.PointPrivacy(epsilon, delta, (1.0,))
    multiplier = point_privacy.noise_multiplier(privacy, num_rounds)
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), num_rounds)
    self.assertAlmostEqual(accountant.get_epsilon(delta), epsilon, delta=2e-3 * epsilon)
    # An accountant that is valid but not tight.
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), num_rounds)
    self.assertGreaterEqual(accountant.get_epsilon(delta), epsilon)

  def test_what_is_stated(self):
    privacy = point_privacy.PointPrivacy(2.0, 1e-6, (1.0,))
    spent = point_privacy.privacy_spent(privacy, 8)
    self.assertEqual((spent["epsilon"], spent["delta"], spent["num_rounds"]), (2.0, 1e-6, 8))
    self.assertEqual(
        spent["noise_multiplier"], point_privacy.noise_multiplier(privacy, 8)
    )
    self.assertAlmostEqual(spent["accounted_epsilon"], 2.0, delta=0.02)
    self.assertIn("view weights", spent["covers"])


if __name__ == "__main__":
  absltest.main()
