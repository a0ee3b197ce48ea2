"""What differentially private rounds of Lloyd guarantee, and the noise that takes.

Neighbouring data sets differ by one point of one client, added or removed.  Points are
projected to a ball of known radius and measured in that radius.  A point then changes
the sums of one cluster by its vector, of norm one at most, and by a count of one: the L2
sensitivity of a round is sqrt(2), whatever the centroids are.  The rounds are Gaussian
mechanisms that build on each other: with noise of m sensitivities, T rounds are one
mechanism of Gaussian differential privacy with mu = sqrt(T) / m.

The noise is added by TFF's aggregator on the server, which is trusted with the sums.  It
comes from TensorFlow's generator, seeded afresh and never from the run's seed: it is not
a cryptographic one, and the grid of its float32 numbers is outside the guarantee.
"""

import dataclasses
import math

from clustering_basics import validate

SENSITIVITY = math.sqrt(2)
# TFF's aggregator works in float32, which can make the noise this much too small.
_FLOAT32_MARGIN = 1e-6


@dataclasses.dataclass(frozen=True)
class PointPrivacy:
  """What one point of one client is guaranteed.

  Attributes:
    epsilon: Privacy budget of the whole fit, > 0.
    delta: Its failure probability, in (0, 1).
    radius: Points farther from the origin are moved to this distance, in the data's
      units; in [1e-100, 1e100].  It must be known beforehand, not taken from the data.
  """

  epsilon: float
  delta: float
  radius: float

  def __post_init__(self):
    validate.positive(epsilon=self.epsilon)
    validate.between(0, 1, delta=self.delta)
    validate.within(1e-100, 1e100, radius=self.radius)


def check(privacy):
  """Raises a TypeError unless this is a `PointPrivacy`."""
  if not isinstance(privacy, PointPrivacy):
    raise TypeError(f"`privacy` must be a PointPrivacy, got {type(privacy).__name__}.")


def noise_multiplier(privacy, num_rounds):
  """Returns the least noise per sensitivity with which the rounds keep the budget."""
  from dp_clustering import privacy_calculator  # pylint: disable=g-import-not-at-top

  mu = privacy_calculator.gaussian_mu(privacy.epsilon, privacy.delta)
  return math.sqrt(num_rounds) / mu * (1 + _FLOAT32_MARGIN)


def privacy_spent(privacy, num_rounds):
  """Returns what so many rounds guarantee, as a dict.

  Args:
    privacy: The `PointPrivacy` that was asked for.
    num_rounds: Number of rounds.

  Raises:
    RuntimeError: If an accountant of another kind finds more than was asked for.
  """
  # Here, since the accountant takes a second to import, which only private fits need.
  import dp_accounting  # pylint: disable=g-import-not-at-top

  from dp_clustering import privacy_calculator  # pylint: disable=g-import-not-at-top

  multiplier = noise_multiplier(privacy, num_rounds)
  event = dp_accounting.ComposedDpEvent(
      [dp_accounting.GaussianDpEvent(multiplier)] * num_rounds
  )
  return {
      "epsilon": privacy.epsilon,
      "delta": privacy.delta,
      "accounted_epsilon": privacy_calculator.verify(event, privacy.epsilon, privacy.delta),
      "noise_multiplier": multiplier,
      "num_rounds": num_rounds,
      "neighboring_relation": "add_or_remove_one",
      "covers": (
          "the centroids and counts of every round, per point of any client; not the "
          "labels that `predict` gives, which are functions of the point itself"
      ),
  }
