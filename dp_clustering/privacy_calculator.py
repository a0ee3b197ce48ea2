"""How much noise a privacy budget needs: in closed form, and checked by dp_accounting.

Every release is a Gaussian mechanism: noise of standard deviation `std` on a value
of L2 sensitivity `sensitivity`.  One number describes its privacy, the mu = sensitivity
/ std of Gaussian differential privacy.  Composition is exact: the squares of mu add up
(Dong, Roth, Su 2019, "Gaussian Differential Privacy", section 3,
https://arxiv.org/abs/1905.02383).  The exact curve of the Gaussian mechanism converts
between mu and (epsilon, delta) (Balle, Wang 2018, "Improving the Gaussian Mechanism
for Differential Privacy", theorem 8, https://arxiv.org/abs/1805.06530).

The noise actually drawn is the discrete Gaussian on a fine grid.  Its Renyi
divergences, of all orders and in all dimensions, are at most those of the continuous
Gaussian (Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy",
https://arxiv.org/abs/2004.00010), so it composes like the continuous one.  Its delta
at a given epsilon can exceed the continuous one's by a part of the order of the
square of (grid step / std).  With a million steps to a unit of sensitivity, that is
far below what `_MARGIN` leaves.
"""

import collections
import dataclasses
import functools
import math
from typing import Any, Callable

import numpy as np
from scipy import special

from clustering_basics import validate
from dp_clustering import clustering_params

# Gauss and Legendre's rule for the mean over [0, 1].
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# Part of mu that is never spent: for the solver's rounding and for the grid.
_MARGIN = 1e-8
# Interval of the second accountant's privacy losses, in units of mu.  At (1, 1e-6), its
# error is below a thousandth of epsilon, and it takes 0.1 s.
_LOSS_INTERVAL = 4e-3
# Above this epsilon, e^epsilon overflows in the second accountant's sums.
_LARGEST_ACCOUNTED_EPSILON = 500.0
# Below about 1e-12, rounding in the second accountant's sums makes its epsilon infinite, and
# near one, too large.
_SMALLEST_ACCOUNTED_DELTA = 1e-10
_LARGEST_ACCOUNTED_DELTA = 1 - 1e-8


def _mean_of_lost_mills(low: float, high: float) -> float:
  """Returns the mean of 1 - x R(x) over an interval of length at most 1; R is Mills' ratio."""
  x = low + (high - low) * _NODES
  return _WEIGHTS @ (1 - x * special.erfcx(x / math.sqrt(2)) * math.sqrt(math.pi / 2))


def _log_delta(epsilon: float, mu: float) -> float:
  """Returns log delta of the Gaussian mechanism of `mu` at a finite `epsilon` >= 0.

  Theorem 8 of Balle and Wang (2018) is Phi(-low) - e^epsilon Phi(-high).  Since
  epsilon = (high^2 - low^2) / 2, it is phi(low) (R(low) - R(high)), where R = Phi(-x) /
  phi(x) is Mills' ratio.  R neither overflows nor vanishes where e^epsilon and Phi(-high)
  do.  Where low and high are close, the difference would cancel.  It is then the integral
  of -R'(x) = 1 - x R(x) > 0.
  """
  low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
  log_density = -low * low / 2 - math.log(2 * math.pi) / 2
  if low > 0 and mu < 1:
    mean = _mean_of_lost_mills(low, high)
    return math.log(mu) + math.log(mean) + log_density if mean > 0 else -math.inf
  low, high = low / math.sqrt(2), high / math.sqrt(2)
  if low > 0:
    difference = special.erfcx(low) - special.erfcx(high)
    return math.log(difference / 2) - low * low if difference > 0 else -math.inf
  # Here, erfcx(low) may overflow.
  part_above = -math.expm1(-epsilon) * math.exp(-low * low) * special.erfcx(high)
  difference = special.erf(high) - special.erf(low) - part_above
  return math.log(difference / 2) if difference > 0 else -math.inf


def _log_rest(epsilon: float, mu: float) -> float:
  """Returns log (1 - delta) where delta is `_log_delta`'s, without a difference.

  It is log (Phi(low) + phi(low) R(high)).
  """
  low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
  log_part = math.log(special.erfcx(high / math.sqrt(2)) / 2) - low * low / 2
  return float(np.logaddexp(special.log_ndtr(low), log_part))


def _excess(epsilon: float, mu: float, delta: float) -> float:
  """Returns a number that has the sign of how much `mu` exceeds (epsilon, delta)."""
  if delta > 0.5:
    return math.log1p(-delta) - _log_rest(epsilon, mu)
  return _log_delta(epsilon, mu) - math.log(delta)


def _bracketed_root(increasing: Callable[[float], float]) -> float:
  """Returns the positive root of an increasing function, at any order of magnitude.

  It is `inf` above the largest power of two.
  """
  from scipy import optimize  # It takes long to import.  pylint: disable=g-import-not-at-top

  high = 1.0
  while increasing(high) < 0:
    high *= 2
    if high == math.inf:
      return high
  while increasing(high / 2) > 0:
    high /= 2
  return high * optimize.brentq(lambda part: increasing(high * part), 0.5, 1.0, xtol=1e-15)


def gaussian_mu(epsilon: float, delta: float) -> float:
  """Returns the largest mu whose Gaussian mechanism is (epsilon, delta)-private.

  Args:
    epsilon: Positive number; `inf` gives `inf`.
  """
  validate.between(0, 1, delta=delta)
  if epsilon == math.inf:
    return math.inf
  validate.positive(epsilon=epsilon)
  return _bracketed_root(lambda mu: _excess(epsilon, mu, delta)) * (1 - _MARGIN)


def gaussian_epsilon(mu: float, delta: float) -> float:
  """Returns the smallest epsilon >= 0 at which `mu` is (epsilon, delta)-private.

  Args:
    mu: Non-negative number; `inf` gives `inf`, and so does one whose epsilon exceeds 8e307.
  """
  validate.between(0, 1, delta=delta)
  if mu == math.inf:
    return math.inf
  validate.not_negative(mu=mu)
  if mu == 0 or _excess(0.0, mu, delta) <= 0:
    return 0.0
  return _bracketed_root(lambda epsilon: -_excess(epsilon, mu, delta))


@functools.lru_cache(maxsize=256)
def _accounted_epsilon(noise_multipliers: tuple[float, ...], delta: float) -> tuple[float, float]:
  """Returns epsilon by numerical composition, and the interval that was used."""
  # Imported here, since the import takes most of a second.
  import dp_accounting  # pylint: disable=g-import-not-at-top

  mu = math.sqrt(sum(1 / multiplier**2 for multiplier in noise_multipliers))
  interval = _LOSS_INTERVAL * mu
  accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=interval)
  # Equal releases at once: each composition adds an error of the discretization.
  for multiplier, count in collections.Counter(noise_multipliers).items():
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), count)
  return accountant.get_epsilon(delta), interval


def verify(event: Any, epsilon: float, delta: float) -> float | None:
  """Checks a composition with a second accountant, which uses no closed form.

  `dp_accounting` composes the distributions of the privacy losses numerically
  (Koskela, Jalko, Honkela 2020, "Computing Tight Differential Privacy Guarantees
  Using FFT", https://arxiv.org/abs/1906.03049), up to its discretisation.

  Args:
    event: A `dp_accounting.ComposedDpEvent` of `GaussianDpEvent`s.

  Returns:
    The accounted epsilon, or None for a claimed epsilon above 500, which `dp_accounting` can't
    compute, and which is as good as no privacy.  A delta outside of [1e-10, 1 - 1e-8] is too
    much for it, too; it then accounts for what the same mu claims at the nearest delta inside,
    or returns None if that is an epsilon below 1e-8, which its rounding can exceed.

  Raises:
    RuntimeError: If the accounted epsilon exceeds the claimed one by more than the
      discretisation.
  """
  noise_multipliers = tuple(part.noise_multiplier for part in event.events)
  nearest = min(max(delta, _SMALLEST_ACCOUNTED_DELTA), _LARGEST_ACCOUNTED_DELTA)
  if delta != nearest:
    epsilon, delta = gaussian_epsilon(gaussian_mu(epsilon, delta), nearest), nearest
  if not clustering_params.LEAST_EPSILON <= epsilon <= _LARGEST_ACCOUNTED_EPSILON:
    return None
  if not noise_multipliers:
    return 0.0
  accounted, interval = _accounted_epsilon(noise_multipliers, delta)
  if not accounted <= epsilon + interval:
    raise RuntimeError(
        f"dp_accounting finds epsilon = {accounted:.6g} at delta = {delta:g} for this "
        f"noise, but epsilon = {epsilon:.6g} is claimed."
    )
  return accounted


@dataclasses.dataclass(frozen=True)
class LshNoise:
  """Noise of the LSH tree: one sum per leaf, one count per level and point.

  Attributes:
    sum_noise_multiplier: Standard deviation of the noise on a leaf's sum, in radii, if all
      levels are counted.
    count_std: Standard deviation of the noise on a count, in points.
  """

  sum_noise_multiplier: float
  count_std: float


def lsh_noise(
    privacy_param: clustering_params.DifferentialPrivacyParam,
    privacy_budget_split: clustering_params.PrivacyBudgetSplit | None,
    multipliers: clustering_params.PrivacyCalculatorMultiplier | None, max_depth: int,
) -> LshNoise:
  """Returns the `LshNoise` that spends the whole budget on a tree of `max_depth`.

  A point is in one leaf, and in one node of each of the `max_depth` + 1 levels.

  Args:
    privacy_budget_split: `PrivacyBudgetSplit` or None.  Its fractions of epsilon say
      how mu is shared.  The composition costs less than the sum of the epsilons, so both
      parts are then scaled to spend all of epsilon.
    multipliers: `PrivacyCalculatorMultiplier` or None.  The ratio of the multipliers is
      kept.  If both arguments are None, the default multipliers are used.

  Raises:
    ValueError: If both `privacy_budget_split` and `multipliers` are given.
  """
  if privacy_budget_split is not None and multipliers is not None:
    raise validate.error(
        "multipliers", "not be given together with `privacy_budget_split`", multipliers
    )
  validate.integer(0, max_depth=max_depth)
  mu = gaussian_mu(privacy_param.epsilon, privacy_param.delta)
  if mu == math.inf:
    return LshNoise(0.0, 0.0)
  if privacy_budget_split is not None:
    mu_sum = gaussian_mu(
        privacy_budget_split.frac_sum * privacy_param.epsilon, privacy_param.delta
    )
    mu_counts = gaussian_mu(
        privacy_budget_split.frac_group_count * privacy_param.epsilon, privacy_param.delta
    )
    both = math.hypot(mu_sum, mu_counts)
    return LshNoise(both / (mu_sum * mu), both * math.sqrt(max_depth + 1) / (mu_counts * mu))
  multipliers = multipliers or clustering_params.PrivacyCalculatorMultiplier()
  # The dividend is mu at alpha = 1; all standard deviations are proportional to alpha.
  alpha = math.hypot(
      1 / multipliers.get_gaussian_std_dev(1.0, 1.0),
      math.sqrt(max_depth + 1) * multipliers.get_dlaplace_param(1.0),
  ) / mu
  return LshNoise(
      multipliers.get_gaussian_std_dev(alpha, 1.0),
      1 / multipliers.get_dlaplace_param(alpha),
  )
