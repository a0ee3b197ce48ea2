"""The settings of federated k-means, checked as they are made.

No TensorFlow here: a program can refuse wrong settings before it imports it.
"""

import dataclasses
from typing import Any, Mapping, Optional, Union

from clustering_basics import validate
from fl_clustering.points import privacy as privacy_lib

FRESH = "fresh"
WARM = "warm"

# The options of every algorithm, with their defaults.  Any other option is an error.
ALGORITHM_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "sums": {"num_rounds": 30, "privacy": None},
    "fkm_lloyd": {
        "n_init": 5, "num_rounds": 100, "tol": 1e-5, "min_count": 2, "fkm_rounds": 3,
        "server_init": FRESH, "local_iterations": 1,
    },
    "lloyd": {"n_init": 5, "num_rounds": 100, "tol": 1e-5},
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


# Where one round would not do.
_LEAST_ROUNDS = {"sums": 6}


def _check_privacy(privacy):
  if not isinstance(privacy, (privacy_lib.PointPrivacy, privacy_lib.ClientPrivacy)):
    raise TypeError(
        "`privacy` must be a PointPrivacy or a ClientPrivacy, got "
        f"{type(privacy).__name__}."
    )


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
  algorithm: str = "sums"
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
  privacy: Optional[Union[privacy_lib.PointPrivacy, privacy_lib.ClientPrivacy]] = None
  standardize: bool = False
  seed: int = 0

  def __post_init__(self):
    validate.integer(minimum=1, n_clusters=self.n_clusters)
    validate.one_of(ALGORITHM_DEFAULTS, algorithm=self.algorithm)
    validate.integer(minimum=0, seed=self.seed)
    validate.boolean(standardize=self.standardize)
    defaults = dict(ALGORITHM_DEFAULTS[self.algorithm])
    if self.privacy is not None and "privacy" in defaults:
      self._check_private()
      del defaults["num_rounds"]  # Fixed beforehand, so that it tells nothing.
    for name, check in _CHECKS.items():
      if getattr(self, name) is None:
        object.__setattr__(self, name, defaults.get(name))
      elif name not in defaults:
        raise validate.error(
            name, f"be left out with `algorithm`={self.algorithm!r}", getattr(self, name)
        )
      else:
        check(getattr(self, name))
    if self.algorithm in _LEAST_ROUNDS and self.num_rounds is not None:
      validate.integer(_LEAST_ROUNDS[self.algorithm], num_rounds=self.num_rounds)
    if self.algorithm == "kfed" and self.local_clusters is None:
      object.__setattr__(self, "local_clusters", self.n_clusters)
    if self.local_clusters is not None and self.local_clusters > self.n_clusters:
      raise validate.error(
          "local_clusters", f"be at most `n_clusters`={self.n_clusters}", self.local_clusters
      )

  def _check_private(self):
    for name, value in (("num_rounds", None), ("standardize", False)):
      if getattr(self, name) != value:
        rule = "be left out" if value is None else f"be {value}"
        raise validate.error(name, f"{rule} with `privacy`", getattr(self, name))
