"""The settings of federated multi-view k-means, checked as they are made.

No TensorFlow here: a program can refuse wrong settings before it imports it.
"""

import collections.abc
import dataclasses
import math
from typing import Optional

from clustering_basics import validate
from fl_clustering.multiview import view_weights as view_weights_lib
from fl_clustering.points import noise as noise_lib


def sensitivity(num_views):
  """Returns the most that one point can change a round's sums, in L2 norm.

  The point changes the sums of one cluster by its kernel-weighted coordinates, its
  weights, its costs and a count of one.  Every view is projected to a ball of known radius
  and measured in that radius.  With y the point's vector in a view and w its weight there,

    per view  |w y|^2 + w^2 + (1 - w)^2 <= 2 w^2 + (1 - w)^2 <= 2,    and 1 for the count,

  whatever the centers are.
  """
  return math.sqrt(2 * num_views + 1)


@dataclasses.dataclass(frozen=True)
class PointPrivacy:
  """What differentially private rounds of multi-view k-means guarantee one point.

  This one is for `FederatedMultiViewKMeans`, with a norm for every view; `FederatedKMeans`
  has a `PointPrivacy` of its own, with one radius for a whole point.

  Gaussian noise is added to the sums of every round; see
  `fl_clustering/points/noise.py`.  A fit that ends before its last round has spent
  less than is stated.

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

  def round_noise(self, num_rounds):
    """Returns the `RoundNoise` of a fit with so many rounds."""
    return noise_lib.round_noise(
        self.epsilon, self.delta, num_rounds, sensitivity(len(self.view_norms)),
        covers="the centers, view weights and history, per point of any client; not the "
        "labels that `predict` gives, which are functions of the point itself",
    )


@dataclasses.dataclass(frozen=True)
class MultiViewConfig:
  """Everything but the data that changes the result.

  `FederatedMultiViewKMeans` documents every setting.
  """

  n_clusters: int
  view_weights: str = "equal"
  alpha: float = 2.0
  n_init: int = 5
  num_rounds: int = 50
  tol: float = 1e-6
  standardize: bool = True
  min_count: int = 2
  privacy: Optional[PointPrivacy] = None
  seed: int = 0

  def __post_init__(self):
    validate.integer(minimum=1, n_clusters=self.n_clusters)
    validate.one_of(view_weights_lib.VIEW_WEIGHTS, view_weights=self.view_weights)
    validate.positive(alpha=self.alpha)
    if self.rule.learns and self.alpha <= 1:
      raise validate.error("alpha", f"be > 1 with `view_weights`={self.view_weights!r}", self.alpha)
    validate.integer(minimum=1, n_init=self.n_init)
    validate.integer(minimum=1, num_rounds=self.num_rounds)
    validate.not_negative(tol=self.tol)
    validate.boolean(standardize=self.standardize)
    validate.integer(minimum=2, min_count=self.min_count)
    validate.integer(minimum=0, seed=self.seed)
    if self.privacy is not None:
      self._check_private()

  def _check_private(self):
    """Refuses settings that look at the data outside the accounted rounds."""
    validate.instance(PointPrivacy, privacy=self.privacy)
    if self.standardize:
      raise validate.error("standardize", "be False with `privacy`", self.standardize)
    if self.n_init != 1:
      raise validate.error("n_init", "be 1 with `privacy`", self.n_init)
    if self.rule.needs_own_costs:
      raise validate.error(
          "view_weights", "not need every view's own optimum with `privacy`", self.view_weights
      )

  @property
  def rule(self):
    """The `ViewWeightRule`."""
    return view_weights_lib.VIEW_WEIGHTS[self.view_weights]
