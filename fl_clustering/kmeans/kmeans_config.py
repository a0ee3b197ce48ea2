"""The settings of federated k-means, checked as they are made.

No TensorFlow here: a program can refuse wrong settings before it imports it.
"""

import dataclasses
import math
from typing import Any, Mapping, Optional

from clustering_basics import validate
from fl_clustering.points import noise as noise_lib

# The most that one point changes the sums of a round, in L2 norm: its vector, of norm one
# at most in units of the radius, and a count of one; see `sums.projected_sums`.
SENSITIVITY = math.sqrt(2)

FRESH = "fresh"
WARM = "warm"

# The options of every algorithm, with their defaults.  Any other option is an error.
ALGORITHM_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "fkm_lloyd": {
        "n_init": 5, "num_rounds": 100, "tol": 1e-5, "min_count": 2, "fkm_rounds": 3,
        "server_init": FRESH, "local_iterations": 1,
    },
    "lloyd": {"n_init": 5, "num_rounds": 100, "tol": 1e-5, "privacy": None},
    "fkm": {
        "n_init": 1, "num_rounds": 20, "min_count": 2, "server_init": FRESH,
        "local_iterations": 1, "lloyd_rounds": 0,
    },
    "kfed": {"n_init": 1, "min_count": 2, "local_clusters": None, "lloyd_rounds": 0},
    "child_parent": {
        "n_init": 1, "min_count": 2, "weight_by_counts": False, "shuffle": False,
        "lloyd_rounds": 0,
    },
    "tff_minibatch": {"n_init": 1, "num_rounds": 20},
}


@dataclasses.dataclass(frozen=True)
class PointPrivacy:
  """What differentially private rounds of Lloyd guarantee one point of one client.

  This one is for `FederatedKMeans`, with one radius for a whole point;
  `FederatedMultiViewKMeans` has a `PointPrivacy` of its own, with a norm for every view.

  Points are projected to a ball of known radius around the origin, and Gaussian noise is
  added to the sums of every round; see `fl_clustering/points/noise.py`.

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

  def round_noise(self, num_rounds):
    """Returns the `RoundNoise` of a fit with so many rounds."""
    return noise_lib.round_noise(
        self.epsilon, self.delta, num_rounds, SENSITIVITY,
        covers="the centroids and counts of every round, per point of any client; not the "
        "labels that `predict` gives, which are functions of the point itself",
    )


def _check_privacy(privacy):
  if not isinstance(privacy, PointPrivacy):
    raise TypeError(f"`privacy` must be a PointPrivacy, got {type(privacy).__name__}.")


_CHECKS = {
    "n_init": lambda value: validate.integer(minimum=1, n_init=value),
    "num_rounds": lambda value: validate.integer(minimum=1, num_rounds=value),
    "tol": lambda value: validate.not_negative(tol=value),
    "min_count": lambda value: validate.integer(minimum=2, min_count=value),
    "fkm_rounds": lambda value: validate.integer(minimum=1, fkm_rounds=value),
    "server_init": lambda value: validate.one_of((FRESH, WARM), server_init=value),
    "local_iterations": lambda value: validate.integer(minimum=1, local_iterations=value),
    "local_clusters": lambda value: validate.integer(minimum=1, local_clusters=value),
    "lloyd_rounds": lambda value: validate.integer(minimum=0, lloyd_rounds=value),
    "weight_by_counts": lambda value: validate.boolean(weight_by_counts=value),
    "shuffle": lambda value: validate.boolean(shuffle=value),
    "privacy": _check_privacy,
}


@dataclasses.dataclass(frozen=True)
class KMeansConfig:
  """Everything but the data that changes the result.

  `FederatedKMeans` documents every setting.  An option left `None` becomes the algorithm's
  default from `ALGORITHM_DEFAULTS`; one that the algorithm does not have must be left
  `None`.
  """

  n_clusters: int
  algorithm: str = "fkm_lloyd"
  n_init: Optional[int] = None
  num_rounds: Optional[int] = None
  tol: Optional[float] = None
  min_count: Optional[int] = None
  fkm_rounds: Optional[int] = None
  server_init: Optional[str] = None
  local_iterations: Optional[int] = None
  local_clusters: Optional[int] = None
  lloyd_rounds: Optional[int] = None
  weight_by_counts: Optional[bool] = None
  shuffle: Optional[bool] = None
  privacy: Optional[PointPrivacy] = None
  standardize: bool = False
  seed: int = 0

  def __post_init__(self):
    validate.integer(minimum=1, n_clusters=self.n_clusters)
    validate.one_of(ALGORITHM_DEFAULTS, algorithm=self.algorithm)
    validate.integer(minimum=0, seed=self.seed)
    validate.boolean(standardize=self.standardize)
    defaults = dict(ALGORITHM_DEFAULTS[self.algorithm])
    if self.privacy is not None:
      # Choosing among restarts, or when to end, would be another look at the data.
      defaults.update(n_init=1, num_rounds=10, tol=0.0)
    for name, check in _CHECKS.items():
      if getattr(self, name) is None:
        object.__setattr__(self, name, defaults.get(name))
      elif name not in defaults:
        raise validate.error(
            name, f"be left out with `algorithm`={self.algorithm!r}", getattr(self, name)
        )
      else:
        check(getattr(self, name))
    if self.algorithm == "kfed" and self.local_clusters is None:
      object.__setattr__(self, "local_clusters", self.n_clusters)
    if self.local_clusters is not None and self.local_clusters > self.n_clusters:
      raise validate.error(
          "local_clusters", f"be at most `n_clusters`={self.n_clusters}", self.local_clusters
      )
    if self.privacy is not None:
      self._check_private()

  def _check_private(self):
    for name, value in (("n_init", 1), ("tol", 0.0), ("standardize", False)):
      if getattr(self, name) != value:
        raise validate.error(name, f"be {value} with `privacy`", getattr(self, name))

  @property
  def has_summed_rounds(self):
    """Whether the server gets sums that the user may choose how to add up."""
    has_lloyd = self.algorithm in ("fkm_lloyd", "lloyd") or bool(self.lloyd_rounds)
    return has_lloyd and self.privacy is None
