"""Gaussian noise on the sums of every round, and what it guarantees a point.

Neighbouring data sets differ by one point of one client, added or removed.  A round's
sensitivity is the most that such a point can change its sums, in L2 norm.  The rounds are
Gaussian mechanisms that build on each other: with noise of m sensitivities, T rounds are
one mechanism of Gaussian differential privacy with mu = sqrt(T) / m.

TFF's aggregator adds the noise on the server, which is trusted with the sums.  The noise
comes from TensorFlow's generator, seeded afresh and never from the run's seed.  That
generator is not a cryptographic one, and the guarantee does not cover the grid of float32
numbers.
"""

import dataclasses
import functools
import math
from typing import Any, Mapping

import numpy as np

# TFF's aggregator works in float32, which can make the noise this much too small.
_FLOAT32_MARGIN = 1e-6
# TFF's aggregator clips every client's message.  Clipping never takes two messages
# farther apart, so any norm is valid.  This one leaves all messages as they are.
_CLIENT_NORM = 1e12
# A noisy count within so many standard deviations of zero is taken for zero.
_EMPTY_STDS = 4


@dataclasses.dataclass(frozen=True)
class RoundNoise:
  """The noise of a fit: what the rounds add, and what that guarantees.

  Attributes:
    std: Standard deviation of the noise on every sum of every round.
    spent: The guarantee, a dict: `epsilon`, `delta`, `accounted_epsilon` (found by an
      accountant of another kind), `noise_multiplier`, `num_rounds`,
      `neighboring_relation`, `covers`.
  """

  std: float
  spent: Mapping[str, Any]


def round_noise(epsilon, delta, num_rounds, sensitivity, covers):
  """Returns the least `RoundNoise` with which the rounds keep the budget.

  Args:
    epsilon: Privacy budget of the whole fit, > 0.
    delta: Failure probability of the guarantee, in (0, 1).
    num_rounds: Number of rounds.
    sensitivity: The most that one point changes the sums of a round, in L2 norm.
    covers: Which results the guarantee holds for, in words.

  Raises:
    RuntimeError: If an accountant of another kind finds more than epsilon.
  """
  # Here, since the accountants take a second to import, which only private fits need.
  import dp_accounting  # pylint: disable=g-import-not-at-top

  from dp_clustering import privacy_calculator  # pylint: disable=g-import-not-at-top

  mu = privacy_calculator.gaussian_mu(epsilon, delta)
  multiplier = math.sqrt(num_rounds) / mu * (1 + _FLOAT32_MARGIN)
  event = dp_accounting.ComposedDpEvent(
      [dp_accounting.GaussianDpEvent(multiplier)] * num_rounds
  )
  return RoundNoise(
      std=multiplier * sensitivity,
      spent={
          "epsilon": epsilon,
          "delta": delta,
          "accounted_epsilon": privacy_calculator.verify(event, epsilon, delta),
          "noise_multiplier": multiplier,
          "num_rounds": num_rounds,
          "neighboring_relation": "add_or_remove_one",
          "covers": covers,
      },
  )


@functools.lru_cache(maxsize=None)  # So that fits share the computations built with it.
def noisy_sum_factory(std):
  """Returns TFF's aggregator that adds Gaussian noise to every sum.

  Args:
    std: Standard deviation of the noise, `RoundNoise.std`.
  """
  # Here, since settings are checked before TFF is imported.
  # pylint: disable=g-import-not-at-top
  import tensorflow_federated as tff
  import tensorflow_privacy as tfp
  # pylint: enable=g-import-not-at-top

  return tff.aggregators.DifferentiallyPrivateFactory(
      tfp.GaussianSumQuery(_CLIENT_NORM, std)
  )


def without_empty_clusters(centers, counts, std, jitter, rng):
  """Returns the centers with those of empty clusters moved beside the largest one's.

  Args:
    centers: Array of shape (K, d), after a noisy round.
    counts: Their noisy counts, of shape (K,).
    std: Standard deviation of the noise.
    jitter: How far beside, as the root of the expected squared distance.
    rng: A `np.random.Generator`; it moves centers, and makes no noise.
  """
  empty = counts < _EMPTY_STDS * std
  beside = jitter * rng.standard_normal(centers.shape) / np.sqrt(centers.shape[1])
  return np.where(empty[:, np.newaxis], centers[np.argmax(counts)] + beside, centers)
