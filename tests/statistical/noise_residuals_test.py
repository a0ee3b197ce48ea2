"""Tests of residuals on noise that is right, and on noise that is wrong; all draws are seeded."""

from absl.testing import parameterized
import numpy as np
from scipy import stats

from bench import noise_residuals

_NUM_RUNS = 200


def _runs(rng, num_runs=_NUM_RUNS):
  """Returns runs of three releases; the second one's number of rows follows from the first."""
  runs = []
  for _ in range(num_runs):
    first = rng.normal(size=(2, 3))
    num_rows = 2 + (first[0, 0] > 0)
    runs.append([first, rng.normal(size=(num_rows, 3)), rng.normal(size=num_rows)])
  return runs


def _reuse(run, unused_rng):
  run[1][:2] = run[0]


def _leave_out_a_cell(run, unused_rng):
  run[1][1, 2] = 0


def _halve_a_cell(run, unused_rng):
  run[0][1, 1] /= 2


def _repeat_in_a_release(run, unused_rng):
  run[1][1] = run[1][0]


def _mix_with_the_first(run, unused_rng):
  run[2][0] = 0.6 * run[0][0, 0] + 0.8 * run[2][0]


class NoiseResidualsTest(parameterized.TestCase):

  def test_right_noise_is_accused_as_seldom_as_stated(self):
    rng = np.random.default_rng(1)
    accused = sum(
        noise_residuals.most_suspicious(_runs(rng, 20)).p_value < 0.1 for _ in range(500))
    # More than this happens once in a thousand times if the rate is exactly 0.1.
    self.assertLessEqual(accused, stats.binom.ppf(0.999, 500, 0.1))
    # Bonferroni's bound is close to the truth, so the tests use what there is.
    self.assertGreater(accused, stats.binom.ppf(0.001, 500, 0.05))

  @parameterized.named_parameters(
      ("reused", _reuse, "correlation: cell 0 of release 0 and cell 0 of release 1"),
      ("missing", _leave_out_a_cell, "small variance: cell 5 of release 1"),
      ("small", _halve_a_cell, "small variance: cell 4 of release 0"),
      ("repeated", _repeat_in_a_release, "correlation: cell . of release 1 and"),
      ("mixed", _mix_with_the_first, "correlation: cell 0 of release 0 and cell 0 of release 2"),
  )
  def test_wrong_noise_is_found(self, spoil, what):
    rng = np.random.default_rng(1)
    runs = _runs(rng)
    for run in runs:
      spoil(run, rng)
    found = noise_residuals.most_suspicious(runs)
    self.assertLess(found.p_value, 1e-6)
    if spoil is not _reuse:  # All cells of it are suspicious alike.
      self.assertRegex(found.what, what)

  def test_noise_that_can_be_predicted_from_the_run_before_is_found(self):
    runs = _runs(np.random.default_rng(1))
    for first, second in zip(runs[::2], runs[1::2]):
      second[0] = first[0]
    found = noise_residuals.most_suspicious(runs)
    self.assertLess(found.p_value, 1e-6)
    self.assertRegex(found.what, "correlation of runs: cell . of release 0")

  def test_the_same_noise_in_every_run_has_no_variance(self):
    found = noise_residuals.most_suspicious(_runs(np.random.default_rng(1), 1) * 50)
    self.assertLess(found.p_value, 1e-6)
    self.assertIn("small variance", found.what)

  def test_more_noise_than_stated_is_no_leak(self):
    runs = [[2 * released for released in run] for run in _runs(np.random.default_rng(1))]
    found = noise_residuals.most_suspicious(runs)
    self.assertNotIn("variance", found.what)

  def test_a_variance(self):
    # One cell, four runs: its squares around the mean are 5, of three degrees of freedom.
    found = noise_residuals.most_suspicious([[np.array([x])] for x in (0.0, 1.0, 2.0, 3.0)])
    variance, runs = stats.chi2.cdf(5, 3), 2 * stats.norm.sf((0 * 1 + 2 * 3) / np.hypot(0, 2))
    self.assertAlmostEqual(found.p_value, 2 * min(variance, runs))

  @parameterized.named_parameters(("no_run", []), ("no_release", [[], []]))
  def test_nothing_to_test(self, runs):
    self.assertEqual(noise_residuals.most_suspicious(runs).p_value, 1)
