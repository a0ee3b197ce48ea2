"""The settings of federated multi-view k-means, checked as they are made.

No TensorFlow here: a program can refuse wrong settings before it imports it.
"""

import collections.abc
import dataclasses
import math
from typing import Any, Mapping, Optional

from clustering_basics import validate
from fl_clustering.multiview import view_weights as view_weights_lib
from fl_clustering.points import privacy as privacy_lib


@dataclasses.dataclass(frozen=True)
class PointPrivacy:
  """(epsilon, delta)-differential privacy of one point of one client, in all of its views.

  This one is for `FederatedMultiViewKMeans`, with a norm for every view; `FederatedKMeans`
  has a `PointPrivacy` of its own, with one radius for a whole point.

  Neighbouring data sets differ in one point, added or removed with all of its views.

  Attributes:
    epsilon: Privacy budget of the whole fit, > 0.
    delta: Its failure probability, in (0, 1).
    view_norms: For every view, the L2 norm that longer rows are shortened to, in the
      data's units; in [1e-40, 1e100].  It must be known beforehand, not taken from the
      data.
    trust: Who may see what without noise: "server" or "none"; see
      `fl_clustering.points.privacy.PointPrivacy`.
    min_clients: For `trust` "none": the least number of clients whose shares of the noise
      count in every round.  Default: all clients.
  """

  epsilon: float
  delta: float
  view_norms: tuple[float, ...]
  trust: str = privacy_lib.SERVER
  min_clients: Optional[int] = None

  def __post_init__(self):
    if not isinstance(self.view_norms, collections.abc.Sequence):
      raise TypeError(f"`view_norms` must be a sequence of norms, got {self.view_norms!r}.")
    if not self.view_norms:
      raise validate.error("view_norms", "have a norm for every view", self.view_norms)
    for norm in self.view_norms:
      validate.within(1e-40, 1e100, view_norms=norm)
    object.__setattr__(self, "view_norms", tuple(map(float, self.view_norms)))
    self.side_by_side()  # Checks the rest.

  def side_by_side(self):
    """Returns the `points.privacy.PointPrivacy` of all views side by side.

    Each is measured in its norm, so the radius is the root of the number of views.
    """
    return privacy_lib.PointPrivacy(
        self.epsilon, self.delta, math.sqrt(len(self.view_norms)), self.trust,
        self.min_clients,
    )

  def check_views(self, num_views):
    """Raises a ValueError unless there is one norm per view."""
    if len(self.view_norms) != num_views:
      raise validate.error(
          "view_norms", f"have one norm for each of the {num_views} views", self.view_norms
      )


# Choosing among restarts, or when to end, would make the number of rounds depend on the data.
PRIVATE_DEFAULTS: Mapping[str, Any] = {"n_init": 1, "num_rounds": 3, "tol": 0.0}


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
    validate.integer(minimum=0, seed=self.seed)
    if self.privacy is not None:
      self._check_private()

  def _check_private(self):
    """Refuses settings that look at the data outside the accounted rounds."""
    validate.instance(PointPrivacy, privacy=self.privacy)
    if self.standardize:
      raise validate.error("standardize", "be False with `privacy`", self.standardize)
    if self.tol:
      raise validate.error("tol", "be 0 with `privacy`", self.tol)
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
