import dataclasses
import math
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import dp_accounting

from dp_clustering import ledger
from dp_clustering import noise
from dp_clustering import privacy_calculator


def _ledger(epsilon=1.0, source=noise.SecureNoise()):
  return ledger.Ledger(epsilon, 1e-6, source)


def _spend(account, share, name="sum", sensitivity=2.0):
  """Records a release of `share` of the budget's square of mu."""
  mu = math.sqrt(share) * privacy_calculator.gaussian_mu(1.0, 1e-6)
  account.record(name, mu, sensitivity, sensitivity / mu)


class LedgerTest(parameterized.TestCase):

  def test_squares_of_mu_add_up(self):
    account = _ledger()
    self.assertEqual((account.mu_spent, account.mu_left), (0.0, account.mu))
    account.record("count", 0.03, 3.0, 100.0)
    account.record("sum", 0.04, 1.0, 25.0)
    self.assertEqual(account.releases, (
        ledger.Release("count", 3.0, 100.0, 0.03), ledger.Release("sum", 1.0, 25.0, 0.04)))
    self.assertAlmostEqual(account.mu_spent, 0.05)
    self.assertAlmostEqual(math.hypot(account.mu_left, 0.05), account.mu)
    with self.assertRaises(dataclasses.FrozenInstanceError):
      account.releases[0].mu = 0.0

  def test_the_whole_budget_in_many_parts(self):
    account = _ledger()
    for _ in range(1000):
      _spend(account, 1e-3)
    epsilon = privacy_calculator.gaussian_epsilon(account.mu_spent, 1e-6)
    self.assertAlmostEqual(epsilon, 1.0, places=6)
    self.assertLessEqual(epsilon, 1.0)
    self.assertLess(account.mu_left, 1e-4 * account.mu)

  def test_what_is_left_can_be_spent(self):
    account = _ledger()
    _spend(account, 0.3)
    account.record("rest", account.mu_left, 2.0, 2.0 / account.mu_left)
    self.assertAlmostEqual(account.mu_spent / account.mu, 1, places=12)

  @parameterized.product(
      epsilon=[5e-324, 1e-12, 1.1e100, 1e300, 1.7e308], delta=[5e-324, 1e-15, 1 - 2**-53]
  )
  def test_a_budget_of_no_noise_that_can_be_drawn(self, epsilon, delta):
    with self.assertRaisesRegex(ValueError, "`epsilon`"):
      ledger.Ledger(epsilon, delta, noise.SecureNoise())

  def test_a_budget_that_the_second_accountant_might_refuse_in_the_end(self):
    # At (1e-9, 1e-12), its rounding exceeds the budget, depending on the number of releases.
    with self.assertRaisesRegex(ValueError, "`epsilon`"):
      ledger.Ledger(1e-9, 1e-12, noise.SecureNoise())
    for delta in (5e-324, 1e-300, 1e-15, 1e-12, 1e-9, 0.5, 1 - 2**-53):
      account = ledger.Ledger(1e-8, delta, noise.NoNoise())
      for _ in range(30):
        mu = account.mu / math.sqrt(30)
        account.record("sum", mu, 0.5, 0.5 / mu)
      account.freeze()

  @parameterized.named_parameters(("at_once", 0.0, 1.001), ("bit_by_bit", 0.6, 0.401))
  def test_refuses_what_exceeds_the_budget(self, before, then):
    account = _ledger()
    if before:
      _spend(account, before)
    releases = account.releases
    with self.assertRaisesRegex(ledger.PrivacyBudgetExceeded, "too much"):
      _spend(account, then, name="too much")
    self.assertEqual(account.releases, releases)

  def test_of_releases_in_parallel_the_dearest_counts(self):
    account = _ledger()
    for name, mu, parallel in (
        ("a", 0.02, "pass 1"), ("b", 0.03, "pass 1"), ("c", 0.01, "pass 1"), ("d", 0.04, "pass 2"),
        ("e", 0.12, ""),
    ):
      account.record(name, mu, 1.0, 1 / mu, parallel)
    self.assertAlmostEqual(account.mu_spent, math.sqrt(0.03**2 + 0.04**2 + 0.12**2))
    self.assertEqual([release.name for release in account.charged], ["b", "d", "e"])
    self.assertLen(account.releases, 5)

  def test_what_is_in_parallel_exceeds_the_budget_only_if_it_is_dearer(self):
    account, mu = _ledger(), _ledger().mu
    for number in range(9):
      share = mu * math.sqrt(0.5)
      account.record(f"round {number}", share, 1.0, 1 / share, f"pass {number % 2}")
    with self.assertRaisesRegex(ledger.PrivacyBudgetExceeded, "dearer"):
      account.record("dearer", mu * 0.72, 1.0, 1 / (mu * 0.72), "pass 0")
    with self.assertRaises(ledger.PrivacyBudgetExceeded):
      account.record("alone", 0.01 * mu, 1.0, 100 / mu)
    self.assertLen(account.releases, 9)
    self.assertLess(account.mu_left, 1e-4 * mu)
    # The second accountant would find far more than the budget in all nine.
    account.freeze()

  def test_a_release_without_noise_exceeds_any_budget(self):
    with self.assertRaises(ledger.PrivacyBudgetExceeded):
      _ledger(1000.0).record("sum", math.inf, 1.0, 0.0)

  @parameterized.named_parameters(
      ("forgotten_unit", 0.1, 3.0, 10.0, "mu"),
      ("std_zero", 0.1, 1.0, 0.0, "std"),
      ("std_nan", 0.1, 1.0, math.nan, "std"),
      ("sensitivity_zero", 0.1, 0.0, 10.0, "sensitivity"),
      ("mu_nan", math.nan, 1.0, 10.0, "mu"),
      ("mu_too_small", 0.09, 1.0, 10.0, "mu"),
  )
  def test_refuses_what_is_inconsistent(self, mu, sensitivity, std, name):
    with self.assertRaisesRegex(ValueError, f"`{name}` must be"):
      _ledger().record("sum", mu, sensitivity, std)

  def test_the_guarantee_is_the_budget_whatever_is_released(self):
    account = _ledger()
    before = (account.epsilon_spent, account.event)
    _spend(account, 0.5)
    self.assertEqual((account.epsilon_spent, account.event), before)
    self.assertEqual(account.epsilon_spent, 1.0)
    self.assertEqual(
        account.event,
        dp_accounting.GaussianDpEvent(1 / privacy_calculator.gaussian_mu(1.0, 1e-6)))

  @parameterized.named_parameters(
      ("secure", 1.0, noise.SecureNoise(), True),
      ("seeded", 1.0, noise.SeededNoise(1), False),
      ("none", math.inf, noise.NoNoise(), False),
      ("noise_without_a_budget", math.inf, noise.SecureNoise(), False),
  )
  def test_says_whether_it_is_private(self, epsilon, source, is_private):
    account = _ledger(epsilon, source)
    self.assertEqual(account.is_private, is_private)
    self.assertEqual(account.noise_source, source.description)

  def test_seeded_noise_guarantees_nothing(self):
    account = _ledger(source=noise.SeededNoise(1))
    _spend(account, 0.5)
    self.assertEqual((account.epsilon, account.epsilon_spent), (1.0, math.inf))
    self.assertEqual(account.event, dp_accounting.GaussianDpEvent(0.0))
    self.assertIn("for benchmarks only, NOT private", str(account))

  def test_no_privacy(self):
    account = _ledger(math.inf, noise.NoNoise())
    account.record("sum", math.inf, 1.0, 0.0)
    self.assertEqual(account.mu_left, math.inf)
    self.assertEqual(account.freeze().epsilon_spent, math.inf)
    self.assertEqual(account.event, dp_accounting.GaussianDpEvent(0.0))


class FreezeTest(absltest.TestCase):

  def test_nothing_can_be_added(self):
    account = _ledger()
    _spend(account, 0.5)
    self.assertIs(account.freeze(), account)
    with self.assertRaisesRegex(RuntimeError, "more"):
      _spend(account, 0.1, name="more")
    self.assertLen(account.releases, 1)

  def test_the_second_accountant_is_asked(self):
    with mock.patch.object(privacy_calculator, "gaussian_mu", return_value=0.3):
      account = _ledger()  # A calibration that promises too much.
    account.record("sum", 0.3, 1.0, 1 / 0.3)
    with self.assertRaisesRegex(RuntimeError, r"epsilon = 1\.2"):
      account.freeze()
