"""The audit of private clusters: real runs pass and planted bugs are found.

The noise is seeded.  By day, `replay_test` finds what shows a client, and how large the noise is.
"""

import dataclasses
import functools
import itertools
import math

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from bench import audited_clusters
from bench import watched_clusters
from fl_clustering.engine import engines
from tests import nightly

_ENGINES = tuple(filter(engines.is_installed, engines.ENGINES))
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
    "accuracy in percent": "sensitivity",
    "the same clients in every round": "sensitivity",
    "a schedule by what clients hold": "replay",
}
# By day, and in JAX, as they are quickly found.
_FEW_BUGS = ("the same clients in every round", "a schedule by what clients hold")
_FEW_CLIENTS = ("canary", "huge", "NaN", "no examples")
# All of JAX, and one of TFF, which takes nine times as long: both engines' totals are compared.
_REAL = tuple(
    (engine, name) for engine, name in itertools.product(_ENGINES, audited_clusters.CASES)
    if engine == engines.JAX or name == "rounds over half of the clients"
)


def setUpModule():
  if nightly.either(False, engines.TFF in _ENGINES):
    from tests import local_runtime

    local_runtime.use()


class AuditTest(parameterized.TestCase):

  def _build(self, engine, settings):
    folder = self.create_tempdir().full_path
    return functools.partial(watched_clusters.build_sums, engine, folder, settings)

  @nightly.only  # By day, `replay_test` compares the messages with what the ledger says.
  @parameterized.parameters(*_REAL)
  def test_a_real_run_costs_what_the_ledger_says(self, engine, name):
    case = dataclasses.replace(audited_clusters.CASES[name], seed=1)
    found = case.repeated(self._build(engine, case.settings), _MANY_RUNS, _ERROR_RATE)
    self.assertEmpty(audited_clusters.accusations(case.mu, found), found)
    self.assertGreaterEqual(found.bounds.mu, case.mu / 2)  # And so is the upper bound.
    self.assertLess((found.bounds.upper - found.bounds.lower) / 2, 0.5)

  @parameterized.product(engine=_ENGINES, name=tuple(audited_clusters.PLANTED_BUGS))
  def test_a_planted_bug_is_found(self, engine, name):
    nightly.skip_by_day(self, engine == engines.TFF or name not in _FEW_BUGS)
    case = dataclasses.replace(audited_clusters.PLANTED, seed=1)
    clients = {client: audited_clusters.CLIENTS[client] for client in _FEW_CLIENTS}
    build = self._build(engine, case.settings)
    with audited_clusters.PLANTED_BUGS[name](watched_clusters.sums_type(engine)):
      found = case.replayed(build, clients)
      accusations = audited_clusters.accusations(case.mu, found)
      if not accusations:
        found = case.repeated(build, _FEW_RUNS, _ERROR_RATE)
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
