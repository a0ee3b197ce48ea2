"""What one method gave once: a row of the experiment's table, and back."""

import dataclasses
from typing import Optional

import numpy as np
from sklearn import metrics

VALUES = ("nmi", "ari", "rounds", "view_weights", "objectives", "points")


@dataclasses.dataclass(frozen=True)
class Outcome:
  """Scores against the known classes, and what federated methods tell beside.

  Attributes:
    nmi: Normalised mutual information; None where classes are not known.
    ari: Adjusted Rand index; likewise.
    rounds: Number of rounds of the best restart; None for other methods.
    view_weights: The final view weights.
    objectives: The objective before the first round and after each.
    points: A mapping of class to its number of points in every cluster.
  """

  nmi: Optional[float] = None
  ari: Optional[float] = None
  rounds: Optional[int] = None
  view_weights: tuple[float, ...] = ()
  objectives: tuple[float, ...] = ()
  points: dict[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)

  def to_row(self):
    """Returns the values of a row, of which lists are text."""
    lines = (f"{label}: {_text(counts)}" for label, counts in self.points.items())
    return {
        "nmi": self.nmi,
        "ari": self.ari,
        "rounds": self.rounds,
        "view_weights": _text(self.view_weights),
        "objectives": _text(self.objectives),
        "points": "; ".join(lines),
    }


def from_row(row):
  """Returns the `Outcome` of a row as read from the table."""
  points = {}
  for line in (row["points"] or "").split("; "):
    if line:
      label, counts = line.split(": ")
      points[int(label)] = tuple(map(int, counts.split()))
  return Outcome(
      row["nmi"], row["ari"], row["rounds"], _numbers(row["view_weights"]),
      _numbers(row["objectives"]), points,
  )


def _text(numbers):
  return " ".join(repr(number) for number in numbers)


def _numbers(text):
  # A single number comes back as a number.
  return tuple(map(float, str(text).split())) if text is not None else ()


def score(labels, clusters):
  """Returns the `Outcome` of clusters; without scores if `labels` is None."""
  if labels is None:
    return Outcome()
  return Outcome(
      nmi=float(metrics.normalized_mutual_info_score(labels, clusters)),
      ari=float(metrics.adjusted_rand_score(labels, clusters)),
  )


def mean_score(labels, clusters, weights=None):
  """Returns the clients' mean scores.

  Args:
    labels: A list of the clients' classes.
    clusters: A list of the clients' clusters.
    weights: How much each client counts; all alike by default.
  """
  by_client = [score(*pair) for pair in zip(labels, clusters)]
  return Outcome(
      nmi=float(np.average([one.nmi for one in by_client], weights=weights)),
      ari=float(np.average([one.ari for one in by_client], weights=weights)),
  )


def count_points(labels, clusters, num_clusters):
  """Returns the mapping of class to its number of points in every cluster."""
  return {
      int(label): tuple(np.bincount(clusters[labels == label], minlength=num_clusters).tolist())
      for label in np.unique(labels)
  }
