"""The settings of federated multi-view k-means, checked as they are made.

No TensorFlow here: a program can refuse wrong settings before it imports it.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import math
from typing import Any, ClassVar, Mapping, Sequence

from clustering_basics import validate
from fl_clustering.multiview import view_weights as view_weights_lib
from fl_clustering.points import privacy as privacy_lib


@dataclasses.dataclass(frozen=True)
class PointPrivacy(privacy_lib.Privacy):
  """(epsilon, delta)-differential privacy of one point of one client, in all of its views.

  This one is for `FederatedMultiViewKMeans`, with a norm for every view; `FederatedKMeans`
  has a `PointPrivacy` of its own, with one radius for a whole point.  That one's
  text explains the other settings.

  Neighbouring data sets differ in one point, added or removed with all of its views.

  Attributes:
    view_norms: For every view, the L2 norm that longer rows are shortened to, in the
      data's units; in [1e-40, 1e100].  It must be known beforehand, not taken from the
      data.
    radius: Of a point of all views side by side, each measured in its norm: the root of their
      number.
  """

  epsilon: float
  delta: float
  view_norms: Sequence[float]
  trust: str = privacy_lib.SERVER
  min_clients: int | None = None
  radius: float = dataclasses.field(init=False, repr=False)

  def __post_init__(self) -> None:
    if not isinstance(self.view_norms, collections.abc.Sequence):
      raise TypeError(f"`view_norms` must be a sequence of norms, got {self.view_norms!r}.")
    if not self.view_norms:
      raise validate.error("view_norms", "have a norm for every view", self.view_norms)
    for norm in self.view_norms:
      validate.within(1e-40, 1e100, view_norms=norm)
    object.__setattr__(self, "view_norms", tuple(map(float, self.view_norms)))
    object.__setattr__(self, "radius", math.sqrt(len(self.view_norms)))
    super().__post_init__()

  def check_views(self, num_views: int) -> None:
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
  min_count: int = 1
  standardize: bool = True
  privacy: PointPrivacy | None = None
  seed: int = 0

  # Its sums are of integers alone.
  needs_tff: ClassVar[bool] = False

  def __post_init__(self) -> None:
    validate.integer(minimum=1, n_clusters=self.n_clusters)
    validate.one_of(view_weights_lib.VIEW_WEIGHTS, view_weights=self.view_weights)
    validate.positive(alpha=self.alpha)
    if self.rule.learns and self.alpha <= 1:
      raise validate.error("alpha", f"be > 1 with `view_weights`={self.view_weights!r}", self.alpha)
    validate.integer(minimum=1, n_init=self.n_init)
    validate.integer(minimum=1, num_rounds=self.num_rounds)
    validate.not_negative(tol=self.tol)
    validate.integer(minimum=1, min_count=self.min_count)
    validate.boolean(standardize=self.standardize)
    validate.integer(minimum=0, seed=self.seed)
    if self.privacy is not None:
      self._check_private()

  def _check_private(self) -> None:
    """Refuses settings that look at the data outside the accounted rounds."""
    validate.instance(PointPrivacy, privacy=self.privacy)
    if self.standardize:
      raise validate.error("standardize", "be False with `privacy`", self.standardize)
    if self.tol:
      raise validate.error("tol", "be 0 with `privacy`", self.tol)
    if self.min_count != 1:
      raise validate.error("min_count", "be 1 with `privacy`", self.min_count)
    if self.n_init != 1:
      raise validate.error("n_init", "be 1 with `privacy`", self.n_init)
    if self.rule.needs_own_costs:
      raise validate.error(
          "view_weights", "not need every view's own optimum with `privacy`", self.view_weights
      )

  @property
  def rule(self) -> view_weights_lib.ViewWeightRule:
    return view_weights_lib.VIEW_WEIGHTS[self.view_weights]
