"""A lower bound on epsilon from many runs on two neighbouring data sets.

If a mechanism is (epsilon, delta)-private, every event S has P(S on one data set) <=
e^epsilon P(S on the other) + delta.  Runs on both give confidence bounds on the two
probabilities (Clopper, Pearson 1934), and these a lower bound on epsilon (Jagielski,
Ullman, Oprea 2020, "Auditing Differentially Private Machine Learning", section 4,
https://arxiv.org/abs/2006.07709).  The event is a threshold on a score of the
output.  It is chosen on a quarter of the runs and tested on the others, so that the choice
does not count as evidence.
"""

import dataclasses
import math

import numpy as np
from scipy import special

from clustering_basics import validate

_MAX_THRESHOLDS = 1000


@dataclasses.dataclass(frozen=True)
class EpsilonLowerBound:
  """What an audit found.

  Attributes:
    epsilon: With the confidence asked for, the mechanism's epsilon at this delta is
      at least this; 0 if nothing was found.
    event: The event that showed it, as text.
    more_often: How often it happened on the data set where it is more frequent.
    less_often: How often on the other.
    num_runs: Number of tested runs on each data set.
  """

  epsilon: float
  event: str
  more_often: int
  less_often: int
  num_runs: int


def _epsilon(
    more_often: np.ndarray | int,
    less_often: np.ndarray | int,
    num_runs: int,
    delta: float,
    error_rate: float,
) -> np.ndarray:
  """Returns lower bounds from arrays of counts; both sides share the error rate."""
  # For a count of zero, and of all, scipy's function is undefined at the corner.
  with np.errstate(invalid="ignore", divide="ignore"):
    lowest = np.where(
        more_often == 0,
        0.0,
        special.betaincinv(more_often, num_runs - more_often + 1, error_rate / 2),
    )
    highest = np.where(
        less_often == num_runs,
        1.0,
        special.betaincinv(less_often + 1, num_runs - less_often, 1 - error_rate / 2),
    )
    return np.where(lowest > delta, np.log((lowest - delta) / highest), 0.0).clip(min=0.0)


def _counts(scores: np.ndarray, thresholds: np.ndarray | float, above: bool) -> np.ndarray:
  """Returns how many scores are at least, or at most, each threshold."""
  scores = np.sort(scores)
  if above:
    return len(scores) - np.searchsorted(scores, thresholds, side="left")
  return np.searchsorted(scores, thresholds, side="right")


def _thresholds(scores: np.ndarray) -> np.ndarray:
  values = np.unique(scores)
  places = np.linspace(0, len(values) - 1, min(len(values), _MAX_THRESHOLDS))
  return values[np.rint(places).astype(int)]


def epsilon_lower_bound(
    scores_without: np.ndarray,
    scores_with: np.ndarray,
    delta: float,
    error_rate: float,
) -> EpsilonLowerBound:
  """Returns the bound from the scores of independent runs.

  Args:
    scores_without: A number for the output of each run on the one data set, shape
      (num_runs,); `inf` for a run that ended in an exception, which an attacker sees
      as well.
    scores_with: The same on the data set with one point more, of the same length.
    delta: Delta of the mechanism.
    error_rate: Probability, at most, that the bound is above the true epsilon.
  """
  validate.between(0, 1, error_rate=error_rate)
  if len(scores_with) != len(scores_without):
    raise validate.error("scores_with", f"have {len(scores_without)} entries", len(scores_with))
  if len(scores_without) < 4:
    raise validate.error("scores_without", "have at least 4 entries", len(scores_without))
  num_choosing = len(scores_without) // 4
  choosing, tested = zip(*(
      np.split(np.asarray(scores), [num_choosing]) for scores in (scores_without, scores_with)
  ))
  num_runs = len(tested[0])
  thresholds = _thresholds(np.concatenate(choosing))
  found = []
  for above in (True, False):
    for more, less in ((0, 1), (1, 0)):
      bounds = _epsilon(
          _counts(choosing[more], thresholds, above),
          _counts(choosing[less], thresholds, above),
          num_choosing, delta, error_rate,
      )
      found.append((bounds.max(), above, more, less, thresholds[bounds.argmax()]))
  _, above, more, less, threshold = max(found)
  more_often, less_often = (
      int(_counts(tested[side], threshold, above)) for side in (more, less)
  )
  epsilon = float(_epsilon(more_often, less_often, num_runs, delta, error_rate))
  event = f"score {'>=' if above else '<='} {threshold:.6g}"
  if threshold == math.inf and above:
    event = "an exception"
  return EpsilonLowerBound(epsilon, event, more_often, less_often, num_runs)
