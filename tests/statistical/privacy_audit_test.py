"""The audit at a small size: real mechanisms pass and planted bugs are found.

The noise is seeded. With another seed, each real mechanism would fail by chance at
most once in a thousand.
"""

import functools
import math

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import noise
from dp_clustering import privacy_calculator
from experiments.benchmarks import audited_mechanisms
from experiments.benchmarks import epsilon_lower_bound

_BUDGET = audited_mechanisms.Budget(epsilon=1.0, delta=0.01)
_NUM_RUNS = 3000
_ERROR_RATE = 1e-3


def _cases(has_bug):
  return [
      (name.replace(",", "").replace(" ", "_"), name)
      for name, case in audited_mechanisms.CASES.items() if case.has_bug == has_bug
  ]


@functools.cache
def _scores(name):
  """Returns the scores without and with the point, shape (2, _NUM_RUNS)."""
  case = audited_mechanisms.CASES[name]
  source = noise.SeededNoise(1)
  return np.array([
      [run(source, _BUDGET) for _ in range(_NUM_RUNS)]
      for run in (case.run_without, case.run_with)
  ])


def _epsilon(name):
  return epsilon_lower_bound.epsilon_lower_bound(
      *_scores(name), _BUDGET.delta, _ERROR_RATE).epsilon


class PrivacyAuditTest(parameterized.TestCase):

  @parameterized.named_parameters(*_cases(has_bug=False))
  def test_real_mechanism_stays_under_its_epsilon(self, name):
    self.assertLessEqual(_epsilon(name), _BUDGET.epsilon)

  @parameterized.named_parameters(*_cases(has_bug=True))
  def test_planted_bug_is_found(self, name):
    self.assertGreater(_epsilon(name), 1.2 * _BUDGET.epsilon)

  @parameterized.named_parameters(
      ("count", "count"), ("cluster_sum", "cluster sum"), ("leaf_sum", "leaf sum"))
  def test_the_score_uses_all_there_is(self, name):
    # Otherwise, that nothing is found would say nothing: the scores of a Gaussian
    # mechanism that spends the whole budget are mu standard deviations apart.
    without, with_point = _scores(name)
    apart = (with_point.mean() - without.mean()) / without.std()
    mu = privacy_calculator.gaussian_mu(_BUDGET.epsilon, _BUDGET.delta)
    # Four standard errors.
    self.assertAlmostEqual(apart, mu, delta=4 * math.sqrt(2 / _NUM_RUNS))


if __name__ == "__main__":
  absltest.main()
