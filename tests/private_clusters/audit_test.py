"""The audit of private clusters: real runs pass and planted bugs are found.

The noise is seeded.  By day, `replay_test` finds what shows a client, and how large the noise is.
"""

import dataclasses
import math
import re
import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from bench import audited_clusters
from bench import watched_clusters
from fl_clustering import runtime
from tests import nightly

_ERROR_RATE = 0.01
_FEW_RUNS = 20
_MANY_RUNS = 100  # They hold mu within a half.
# What finds them.
_FOUND_BY = {
    "half of the noise": "canary",
    "one draw for equal shapes": "noise",
    "updates are not clipped": "sensitivity",
    "sketches are centered by their exact mean": "replay",
    "exact counts are divisors": "replay",
    "accuracy in examples": "sensitivity",
}
_FEW_CLIENTS = ("canary", "huge", "NaN", "no examples")


def setUpModule():
  unittest.addModuleCleanup(runtime.LocalRuntime().close)


def _named(names):
  return [(re.sub(r"\W+", "_", name), name) for name in names]


@nightly.only
class AuditTest(parameterized.TestCase):

  @parameterized.parameters(*audited_clusters.CASES)
  def test_a_real_run_costs_what_the_ledger_says(self, name):
    case = dataclasses.replace(audited_clusters.CASES[name], seed=1)
    run = watched_clusters.build_run(self.create_tempdir().full_path, case.settings)
    found = case.repeated(run, _MANY_RUNS, _ERROR_RATE)
    self.assertEmpty(audited_clusters.accusations(case.mu, found), found)
    self.assertGreaterEqual(found.bounds.mu, case.mu / 2)  # And so is the upper bound.
    self.assertLess((found.bounds.upper - found.bounds.lower) / 2, 0.5)

  @parameterized.named_parameters(*_named(audited_clusters.PLANTED_BUGS))
  def test_a_planted_bug_is_found(self, name):
    case = audited_clusters.Case(seed=1)
    clients = {client: audited_clusters.CLIENTS[client] for client in _FEW_CLIENTS}
    with audited_clusters.PLANTED_BUGS[name]():
      run = watched_clusters.build_run(self.create_tempdir().full_path)
      found = case.replayed(run, clients)
      accusations = audited_clusters.accusations(case.mu, found)
      if not accusations:
        found = case.repeated(run, _FEW_RUNS, _ERROR_RATE)
        accusations = audited_clusters.accusations(case.mu, found)
    self.assertIn(_FOUND_BY[name], accusations, found)


class MuBoundsTest(absltest.TestCase):

  def _bounds(self, mu, num_runs, rng):
    absent, present = (rng.normal(sign * mu**2 / 2, mu, num_runs) for sign in (-1, 1))
    return audited_clusters.mu_bounds(absent, present, _ERROR_RATE)

  def test_they_hold_mu_as_often_as_stated(self):
    rng = np.random.default_rng(1)
    for mu, num_runs in ((0.4, 10), (1.67, 20), (3.3, 400)):
      found = [self._bounds(mu, num_runs, rng) for _ in range(2000)]
      below, above = (
          np.mean([getattr(one, side) * sign > mu * sign for one in found])
          for side, sign in (("lower", 1), ("upper", -1))
      )
      # Four standard deviations.
      self.assertBetween(below, 0, 0.005 + 4 * math.sqrt(0.005 / 2000))
      self.assertBetween(above, 0, 0.005 + 4 * math.sqrt(0.005 / 2000))

  def test_they_are_as_near_as_they_can_be(self):
    found = self._bounds(1.67, 400, np.random.default_rng(2))
    # By the variances of the means and of the standard deviation.
    half_width = 2.58 * math.sqrt(2 / 400 * (1 + 1.67**2 / 8))
    self.assertAlmostEqual(found.upper - found.mu, half_width, delta=0.005)
    self.assertAlmostEqual(found.mu - found.lower, half_width, delta=0.005)


if __name__ == "__main__":
  absltest.main()
