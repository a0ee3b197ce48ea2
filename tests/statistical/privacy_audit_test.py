"""The audit at a small size: real mechanisms pass and planted bugs are found.

The noise is seeded. With another seed, each of the two tests of a real mechanism would fail by
chance at most once in a thousand.
"""

import dataclasses
import functools
import math
import re
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from bench import audited_federation
from bench import audited_mechanisms
from bench import audited_sums
from bench import epsilon_lower_bound
from bench import noise_residuals
from dp_clustering import clustering_params
from dp_clustering import ledger
from dp_clustering import noise
from dp_clustering import private_sums
from fl_clustering.kmeans import private_fit
from fl_clustering.points import privacy as privacy_lib
from tests import nightly

_BUDGET = clustering_params.DifferentialPrivacyParam(epsilon=1.0, delta=0.3)
_ERROR_RATE = 1e-3
# Runs of single releases, where 0.8 of the noise is to be found, of real mechanisms, and of
# those that take long.
_NUM_RUNS = 4000
_FEWER_RUNS = nightly.either(150, 300)
_FEWEST_RUNS = nightly.either(60, 120)
_QUICK_BUGS = (
    "count, .8 of the noise", "cluster sum, .8 of the noise", "sum, rounded away from zero",
    "count, NaN is refused",
)
# What only the residuals of the noise show; seconds each, but for the fit.
_WRONG_NOISE = (
    "composition, one draw for equal shapes", "composition, a cell without noise",
    "composition, the same noise in every run", "whole call of refine, one draw for equal shapes",
    "federated fit, one draw for equal shapes",
)
# By day, the same bugs are found elsewhere: in the composition, in a count.
_LONG = (
    "whole call of refine, one draw for equal shapes", "federated fit, one draw for equal shapes",
    "cluster sum, .8 of the noise",
)
_COMPOSED = ("composition of four releases", "composition, blocks in threads", "tree growth")
_WHOLE = tuple(name for name in audited_mechanisms.MECHANISMS if name.startswith("whole"))
# The composition is the same without threads, and whole fits call refine.
_BY_NIGHT = ("composition, blocks in threads", *(name for name in _WHOLE if " fit" in name))
_SLOW = ("composition, blocks in threads", *_WHOLE)
_USING_ALL = (
    "count", "cluster sum", "leaf sum", "cluster sums, point on a border",
    "prefix counts, point on a border", *_COMPOSED, *_WHOLE,
)


def _named(names):
  return [(re.sub(r"\W+", "_", name), name) for name in names]


def _few_runs(name):
  return _FEWEST_RUNS if name in _SLOW else _FEWER_RUNS


@functools.cache  # So all callers name all arguments, in one way.
def _runs(name, num_runs, noise_part):
  """Returns the scores on both data sets, (2, num_runs), and the residuals of all runs."""
  build = audited_mechanisms.MECHANISMS.get(name) or audited_mechanisms.PLANTED_BUGS[name]
  case, source = build(), noise.SeededNoise(1)
  if noise_part < 1:
    mechanism = audited_mechanisms.less_noise(noise_part, case.mechanism)
    case = dataclasses.replace(case, mechanism=mechanism)
  runs = [case.run(bool(i // num_runs), source, _BUDGET) for i in range(2 * num_runs)]
  return np.array([score for score, _ in runs]).reshape(2, -1), [found for _, found in runs]


def _scores(name, num_runs, noise_part=1.0):
  return _runs(name, num_runs, noise_part)[0]


def _suspicion(name, num_runs):
  return noise_residuals.most_suspicious(_runs(name, num_runs, 1.0)[1])


def _epsilon(name, num_runs, noise_part=1.0):
  return epsilon_lower_bound.epsilon_lower_bound(
      *_scores(name, num_runs, noise_part), _BUDGET.delta, _ERROR_RATE).epsilon


class PrivacyAuditTest(parameterized.TestCase):

  @parameterized.named_parameters(*_named(audited_mechanisms.MECHANISMS))
  def test_real_mechanism_stays_under_its_epsilon(self, name):
    nightly.skip_by_day(self, name in _BY_NIGHT)
    self.assertLessEqual(_epsilon(name, _few_runs(name)), _BUDGET.epsilon)

  @parameterized.named_parameters(*_named(audited_mechanisms.MECHANISMS))
  def test_the_noise_of_a_real_mechanism_is_as_stated(self, name):
    nightly.skip_by_day(self, name in _BY_NIGHT)
    self.assertGreater(_suspicion(name, _few_runs(name)).p_value, _ERROR_RATE)

  @parameterized.named_parameters(*_named(_WRONG_NOISE))
  def test_wrong_noise_is_found(self, name):
    nightly.skip_by_day(self, name in _LONG)
    self.assertLess(_suspicion(name, _FEWEST_RUNS).p_value, 1e-9)

  @parameterized.named_parameters(*_named(_QUICK_BUGS))
  def test_planted_bug_is_found(self, name):
    nightly.skip_by_day(self, name in _LONG)
    self.assertGreater(_epsilon(name, _NUM_RUNS), _BUDGET.epsilon)

  @nightly.only  # By day, `test_planted_bug_is_found` plants bugs in what runs sooner.
  def test_clients_without_limits_are_found(self):
    # Their totals are up to five times as large as they may be: a few runs are enough.
    bound = _epsilon("federated fit, clients without limits", 72)
    self.assertGreater(bound, _BUDGET.epsilon)

  @parameterized.named_parameters(*_named(_USING_ALL))
  def test_the_score_uses_all_there_is(self, name):
    nightly.skip_by_day(self, name in _BY_NIGHT)
    # Otherwise, that nothing is found would say nothing: the scores of a Gaussian
    # mechanism that spends the whole budget are mu standard deviations apart.
    self.assertAlmostEqual(*self._apart(name, 1), delta=self._tolerance(name))

  @parameterized.named_parameters(
      *_named([*_COMPOSED, "whole call of refine", "whole call of lsh"]))
  def test_a_quarter_of_the_noise_is_found(self, name):
    # By day, the one by which all others are composed.
    nightly.skip_by_day(self, name != "composition of four releases")
    self.assertGreater(_epsilon(name, _few_runs(name), noise_part=1 / 4), _BUDGET.epsilon)

  @parameterized.named_parameters(
      ("composition", "composition, releases don't add up", 0.5),
      ("tree_growth", "tree growth, releases don't add up", math.sqrt(0.5)))
  def test_forgotten_releases_show_in_the_score(self, name, part):
    self.assertAlmostEqual(*self._apart(name, part), delta=self._tolerance(name) / part)

  def _apart(self, name, part):
    """Returns how far apart the scores are, and how far with this part of the noise."""
    without, with_added = _scores(name, _few_runs(name))
    mu = ledger.Ledger(_BUDGET.epsilon, _BUDGET.delta, noise.NoNoise()).mu
    return (with_added.mean() - without.mean()) / without.std(), mu / part

  def _tolerance(self, name):
    """Four standard errors, of the means and of the standard deviation."""
    return 4 * math.sqrt((2 + 1.8**2 / 2) / _few_runs(name))


class FederationTest(absltest.TestCase):

  def test_the_audited_fit_is_that_of_the_clients(self):
    rng = np.random.default_rng(4)
    neighbours = audited_sums.Neighbours(
        rng.normal(scale=0.3, size=(40, 3)), rng.normal(size=(9, 3)))
    build_privacy = functools.partial(
        privacy_lib.ClientPrivacy, radius=1.0, max_points=6, trust="none")
    audited, fit = [], private_fit.fit

    def record(config, files, noise_source):
      audited.append((config, fit(config, files, noise_source)))

    with mock.patch.object(private_fit, "fit", record):
      audited_federation.FederatedFit(build_privacy)(
          audited_sums.Run(neighbours, True, noise.SeededNoise(1), _BUDGET))
    (config, found), = audited
    clients = dict(enumerate(np.split(neighbours.with_added, [20, 40])))
    held = privacy_lib.hold(clients, (3,), config.privacy)
    expected = fit(config, held, noise.SeededNoise(1))
    np.testing.assert_array_equal(found.centroids, expected.centroids)


class BorderTest(absltest.TestCase):

  def test_that_there_is_no_such_point_is_an_error(self):
    with self.assertRaisesRegex(RuntimeError, "no point on a border was found"):
      # pylint: disable-next=protected-access
      audited_mechanisms._border(lambda points, normal: np.zeros(len(points), bool))


class AuditedSumsTest(absltest.TestCase):

  def _sums(self, build):
    source = noise.SeededNoise(3)
    account = ledger.Ledger(1.0, 0.3, source)
    return build(np.full((4, 2), 0.3), 1.0, source, account), account

  def _run(self, neighbours):
    return audited_sums.Run(neighbours, True, noise.SeededNoise(3), _BUDGET)

  def test_makes_the_releases_of_private_sums(self):
    neighbours = audited_sums.Neighbours(np.full((3, 2), 0.3), np.full((1, 2), 0.3))
    released, accounts = [], []
    for sums, account in (
        self._sums(private_sums.PrivateSums),
        self._sums(self._run(neighbours).open_sums),
    ):
      hashed = sums.hashed(np.eye(2))
      statistics = sums.private_cluster_statistics(
          np.zeros((2, 2)), 0.5, 0.2, "step", count_weight=0.5, squared_error_weight=1.0)
      released.append([
          sums.private_count(9.0, "count"), *hashed.private_prefix_counts(1, [0, 1], 9.0),
          *hashed.private_leaf_sums([0], [1], 9.0).ravel(), *statistics.residual_sums.ravel(),
          *statistics.counts, *statistics.squared_errors,
      ])
      accounts.append(account.releases)
    np.testing.assert_array_equal(*released)
    self.assertEqual(*accounts)

  def test_log_ratio_of_a_count(self):
    neighbours = audited_sums.Neighbours(np.zeros((3, 2)), np.zeros((1, 2)))
    run = self._run(neighbours)
    sums, _ = self._sums(run.open_sums)
    noisy = sums.private_count(2.0, "count")
    # The densities around 3 and 4 points.
    self.assertAlmostEqual(run.evidence.log_ratio, ((noisy - 3) ** 2 - (noisy - 4) ** 2) / (2 * 4))
