"""The settings of federated k-means, checked as they are made.

No TensorFlow here: a program can refuse wrong settings before it imports it.
"""

import dataclasses
from typing import Any, Mapping, Optional

from clustering_basics import validate
from fl_clustering.kmeans import point_privacy

FRESH = "fresh"
WARM = "warm"

# For every algorithm the options that it takes, with their defaults.  Another algorithm's
# option is an error.
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


def _check_bool(**argument):
  ((name, value),) = argument.items()
  if not isinstance(value, bool):
    raise validate.error(name, "be True or False", value)


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
    "weight_by_counts": lambda value: _check_bool(weight_by_counts=value),
    "shuffle": lambda value: _check_bool(shuffle=value),
    "privacy": point_privacy.check,
}


@dataclasses.dataclass(frozen=True)
class KMeansConfig:
  """Everything but the data that changes the result.

  An option that is `None` gets the algorithm's default from `ALGORITHM_DEFAULTS`; one
  that the algorithm does not have must be left `None`.

  Attributes:
    n_clusters: Number of clusters, K.
    algorithm: A key of `ALGORITHM_DEFAULTS`.
    n_init: Number of restarts, of which the one with the lowest inertia is taken.
    num_rounds: Most rounds; with `fkm_lloyd` those of Lloyd, after the FKM rounds.
    tol: A restart ends when a round lowers its inertia by no more than this share.
    min_count: The least number of points whose mean leaves a client.
    fkm_rounds: Number of FKM rounds before Lloyd's.
    server_init: Where the server's k-means starts in every round: `fresh` from new
      seeds, `warm` from the last global centroids.
    local_iterations: Lloyd steps of a client in a round of FKM.
    local_clusters: Number of clusters that k-FED looks for on a client, at most K; K by
      default.
    lloyd_rounds: Lloyd rounds to append, until nothing improves; by sums, so that no
      client is seen by itself.
    weight_by_counts: Whether the parent weighs the children's centroids by their counts.
    shuffle: Whether a child shuffles its points before it sets a quarter aside.
    privacy: A `point_privacy.PointPrivacy`: noise on the sums of every round.
    standardize: Whether every column is brought to variance one over all clients.
    seed: Decides everything random but the noise of `privacy`.
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
  privacy: Optional[point_privacy.PointPrivacy] = None
  standardize: bool = False
  seed: int = 0

  def __post_init__(self):
    validate.integer(minimum=1, n_clusters=self.n_clusters)
    validate.one_of(ALGORITHM_DEFAULTS, algorithm=self.algorithm)
    validate.integer(minimum=0, seed=self.seed)
    _check_bool(standardize=self.standardize)
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
