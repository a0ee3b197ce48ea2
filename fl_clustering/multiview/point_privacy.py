"""What differentially private rounds guarantee, and how much noise that takes.

Neighbouring data sets differ by one point of one client, added or removed.  In a round
that point changes the sums of one cluster by its kernel-weighted coordinates, its
weights, its costs and a count of one.  With every view projected to a ball of known
radius and measured in that radius, so that y is its vector and w its weight,

  per view  |w y|^2 + w^2 + (1 - w)^2 <= 2 w^2 + (1 - w)^2 <= 2,    and 1 for the count,

so that the L2 sensitivity is sqrt(2 H + 1) for H views, whatever the centers are.  The
rounds are Gaussian mechanisms that build on each other: with noise of m sensitivities,
T rounds are one mechanism of Gaussian differential privacy with mu = sqrt(T) / m.  A fit
that ends before its last round has spent less than is stated.
"""

import collections.abc
import dataclasses
import math

from clustering_basics import validate
from fl_clustering.kmeans import point_privacy as kmeans_privacy


@dataclasses.dataclass(frozen=True)
class PointPrivacy:
  """What one point of one client is guaranteed.

  Attributes:
    epsilon: Privacy budget of the whole fit, > 0.
    delta: Its failure probability, in (0, 1).
    view_norms: For every view, the L2 norm that its rows are projected to, in the
      data's units; in [1e-40, 1e100], so that no point's square overflows in it.  It
      must be known beforehand, not taken from the data.
  """

  epsilon: float
  delta: float
  view_norms: tuple[float, ...]

  def __post_init__(self):
    validate.positive(epsilon=self.epsilon)
    validate.between(0, 1, delta=self.delta)
    if not isinstance(self.view_norms, collections.abc.Sequence):
      raise TypeError(f"`view_norms` must be a sequence of norms, got {self.view_norms!r}.")
    for norm in self.view_norms:
      validate.within(1e-40, 1e100, view_norms=norm)
    object.__setattr__(self, "view_norms", tuple(map(float, self.view_norms)))

  def check_views(self, num_views):
    """Raises a ValueError unless there is one norm per view."""
    if len(self.view_norms) != num_views:
      raise validate.error(
          "view_norms", f"have one norm for each of the {num_views} views", self.view_norms
      )


def sensitivity(num_views):
  """Returns by how much one point can change a round's sums, in L2 norm."""
  return math.sqrt(2 * num_views + 1)


def noise_multiplier(privacy, num_rounds):
  """Returns the least noise per sensitivity with which the rounds keep the budget."""
  return kmeans_privacy.noise_multiplier(privacy, num_rounds)


def privacy_spent(privacy, num_rounds):
  """Returns what so many rounds guarantee, as a dict.

  Args:
    privacy: The `PointPrivacy` that was asked for.
    num_rounds: Number of rounds.

  Raises:
    RuntimeError: If an accountant of another kind finds more than was asked for.
  """
  return {
      **kmeans_privacy.privacy_spent(privacy, num_rounds),
      "covers": (
          "the centers, view weights and history, per point of any client; not the "
          "labels that `predict` gives, which are functions of the point itself"
      ),
  }
