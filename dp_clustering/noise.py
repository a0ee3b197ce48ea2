"""Sources of discrete Gaussian noise: secure, seeded for experiments, or none.

Noise is drawn as integers and added to integers.  The lowest bits of a continuous
Gaussian in floating point reveal which values are possible (Mironov 2012, "On
Significance of the Least Significant Bits for Differential Privacy").  The discrete
Gaussian on a grid has no such bits, and loses nothing against the continuous one
(Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy",
https://arxiv.org/abs/2004.00010).
"""

import math
from typing import Protocol

import numpy as np

from clustering_basics import validate
from dp_clustering import exact_sampler

# A draw of more than 16 of these comes once in 10^56.  So a draw fits into int64 together
# with any sum below 2^53, and adding them in int64 is exact.
_LARGEST_SCALE = 2.0**58
# With less, numbers over the scale are too large for the sampler's float64.
_LEAST_SCALE = 1e-100
# Up to this scale, seeded noise is drawn from a table of probabilities.  Above it, a
# rounded Gaussian differs from the discrete one by less than 1e-6 in total variation.
LARGEST_TABLE_SCALE = 1000.0
# Standard deviations to either side in the table; the rest is below 1e-32.
_TABLE_WIDTH = 12


class Source(Protocol):
  """A source of noise.

  Attributes:
    description: What the ledger says of it.
    is_private: Whether the noise protects anyone.
  """

  description: str
  is_private: bool

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    """Returns an int64 array of independent draws of a scale > 0, in grid steps.

    Each is z with a probability proportional to exp(-z^2 / (2 scale^2)).
    """


def _check_scale(scale: float) -> None:
  validate.positive(scale=scale)
  if scale < _LEAST_SCALE:
    raise validate.error("scale", f"be at least {_LEAST_SCALE:g}", scale)
  if scale > _LARGEST_SCALE:
    raise validate.error(
        "scale", f"be at most {_LARGEST_SCALE:.3g} (the budget is too small)", scale
    )


class SecureNoise:
  """Noise for private results: exact draws, from the operating system's cryptographic generator.

  It takes no seed, and draws cannot be repeated.
  """

  description = "secure: exact discrete Gaussian, the operating system's cryptographic generator"
  is_private = True

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    _check_scale(scale)
    num_draws = math.prod(np.atleast_1d(shape).tolist())
    return exact_sampler.discrete_gaussian(num_draws, float(scale)).reshape(shape)


class SeededNoise:
  """Repeatable noise for experiments and tests. It is NOT private.

  Anyone who knows or guesses the seed can subtract the noise.  NumPy's generator is
  also not cryptographic: enough draws reveal the next ones.
  """

  is_private = False

  def __init__(self, seed: int) -> None:
    """Starts the noise from `seed`, a non-negative integer."""
    validate.integer(0, seed=seed)
    self.description = f"seeded with {seed}: repeatable, for benchmarks only, NOT private"
    # A stream other than `default_rng(seed)`, from which the points may have been drawn.
    self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    _check_scale(scale)
    if scale > LARGEST_TABLE_SCALE:
      return np.rint(self._rng.normal(0.0, scale, shape)).astype(np.int64)
    largest = math.ceil(_TABLE_WIDTH * scale)
    values = np.arange(-largest, largest + 1)
    cumulated = np.cumsum(np.exp(-0.5 * (values / scale) ** 2))
    uniform = self._rng.random(shape) * cumulated[-1]
    return values[np.searchsorted(cumulated, uniform, side="right")]


class NoNoise:
  """No noise at all, for epsilon = inf. It is NOT private."""

  description = "none: epsilon is infinite, NOT private"
  is_private = False

  def discrete_gaussian(self, shape: int | tuple[int, ...], scale: float) -> np.ndarray:
    del scale  # There is no noise to scale.
    return np.zeros(shape, np.int64)


def build_noise_source(epsilon: float, random_state: int | None = None) -> Source:
  """Returns the source of noise for one call of a private method.

  Args:
    epsilon: The privacy parameter; `inf` gets no noise.
    random_state: None for secure noise, or a non-negative integer for seeded noise,
      which is not private.
  """
  if epsilon == math.inf:
    return NoNoise()
  return SecureNoise() if random_state is None else SeededNoise(random_state)
