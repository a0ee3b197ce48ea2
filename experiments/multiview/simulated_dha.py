"""The tutorial's stand-in for the DHA data (depth and colour of human actions), and its clients.

Sinaga's Fed-MVKM tutorial (August 2025) draws 600 points around 23 far-apart centers in
6,144 and 110 columns, the centers at 2 and 1.5 standard deviations and the noise at 0.5
and 0.3.  Any k-means on all of them finds the clusters exactly, so the data can't tell a
good method from a bad one.  They only serve to reproduce the tutorial's demonstration.
The numbers are drawn in the tutorial's order: seed 42 gives the tutorial's data.
"""

import dataclasses
from typing import Any, Callable

import numpy as np

from experiments.multiview import methods
from experiments.multiview import printed_algorithm

NUM_CLUSTERS = 23
SOURCE_SEED = 42
VIEW_NAMES = ("depth", "colour")
NUM_POINTS = 600
_DEPTH_COLUMNS = 6144
_COLOUR_COLUMNS = 110
_BLOCK = 64
_LEAST_POINTS = 25

# What the tutorial prints: (NMI, ARI).
CLAIMS = {
    "central k-means": (0.652, 0.487),
    "local, one view": (0.613, 0.428),
    "local, both views": (0.673, 0.527),
    "Fed-MVKM": (0.8925, 0.6999),
}


def _depth(clusters: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
  centers = 2 * rng.randn(NUM_CLUSTERS, _DEPTH_COLUMNS)
  num_blocks = _DEPTH_COLUMNS // _BLOCK
  rows = []
  for cluster in clusters:
    row = centers[cluster] + 0.5 * rng.randn(_DEPTH_COLUMNS)
    rows.append(row + 0.2 * np.repeat(rng.randn(num_blocks), _BLOCK))
  return np.array(rows)


def _colour(
    clusters: np.ndarray, depth: np.ndarray, rng: np.random.RandomState
) -> np.ndarray:
  centers = 1.5 * rng.randn(NUM_CLUSTERS, _COLOUR_COLUMNS)
  blocks = depth.reshape(len(depth), -1, _BLOCK).mean(axis=2)
  shared = np.zeros((len(depth), _COLOUR_COLUMNS))
  shared[:, : blocks.shape[1]] = 0.2 * blocks
  noise = np.array([0.3 * rng.randn(_COLOUR_COLUMNS) for _ in clusters])
  return centers[clusters] + noise + shared


def _standardised(points: np.ndarray) -> np.ndarray:
  return (points - points.mean(axis=0)) / (points.std(axis=0) + 1e-8)


def _draw_points(rng: np.random.RandomState) -> tuple[list[np.ndarray], np.ndarray]:
  """Draws the two views, standardised, and the true clusters of the 600 points."""
  per_cluster = NUM_POINTS // NUM_CLUSTERS
  clusters = np.repeat(np.arange(NUM_CLUSTERS), per_cluster)
  rest = rng.choice(NUM_CLUSTERS, NUM_POINTS - len(clusters))
  clusters = np.concatenate([clusters, rest])[rng.permutation(NUM_POINTS)]
  depth = _depth(clusters, rng)
  colour = _colour(clusters, depth, rng)
  return [_standardised(depth), _standardised(colour)], clusters


def _split(clusters: np.ndarray, rng: np.random.RandomState) -> dict[str, np.ndarray]:
  """Returns the tutorial's three clients as index arrays; the first two share points.

  Args:
    clusters: The true clusters, which decide what a client has.
    rng: The generator that drew them.
  """
  everything = np.arange(len(clusters))
  in_first = (clusters < 8) | ((clusters >= 15) & (clusters < 18))
  in_second = ((clusters >= 8) & (clusters < 15)) | ((clusters >= 18) & (clusters < 21))
  others = np.flatnonzero(~in_first)
  first = np.concatenate([
      np.flatnonzero(in_first), rng.choice(others, size=min(50, len(others)), replace=False)
  ])
  second = np.flatnonzero(in_second)
  free = np.setdiff1d(np.setdiff1d(everything, first), second)
  second = np.concatenate([second, rng.choice(free, size=min(40, len(free)), replace=False)])
  third = np.setdiff1d(everything, np.concatenate([first, second]))
  missing = max(0, _LEAST_POINTS - len(third))
  third = np.concatenate([third, first[:missing]])
  return {
      "research_hospital": first[missing:],
      "rehab_center": second,
      "sports_clinic": third,
  }


@dataclasses.dataclass(frozen=True, eq=False)
class Demonstration:
  """One draw of the tutorial's data at its three clients, of which the first two share points.

  Attributes:
    rng: The generator after drawing, for the printed program to go on with.
  """

  problem: methods.Problem
  rng: np.random.RandomState

  @property
  def client_views(self) -> list[list[np.ndarray]]:
    return [
        [view[share] for view in self.problem.views.values()]
        for share in self.problem.shares.values()
    ]

  @property
  def client_labels(self) -> list[np.ndarray]:
    labels = np.asarray(self.problem.labels)
    return [labels[share] for share in self.problem.shares.values()]


def draw(seed: int, settings: dict[str, Any]) -> Demonstration:
  """Draws the data; the tutorial's seed is `SOURCE_SEED`.

  Args:
    seed: Seed of the data and of the methods.
  """
  rng = np.random.RandomState(seed)
  views, labels = _draw_points(rng)
  shares = _split(labels, rng)
  problem = methods.Problem(
      dict(zip(VIEW_NAMES, views)), labels, shares, NUM_CLUSTERS, seed, settings
  )
  return Demonstration(problem, rng)


def _printed(demonstration: Demonstration) -> methods.Outcome:
  clusters = printed_algorithm.federated_clusters(
      demonstration.client_views, NUM_CLUSTERS, demonstration.rng
  )
  # As the tutorial does, with the points that two clients share counted twice.
  return methods.score(np.concatenate(demonstration.client_labels), clusters)


def _printed_local(
    demonstration: Demonstration, weights: list[int] | None = None, chosen: slice = slice(None)
) -> methods.Outcome:
  clusters = [
      printed_algorithm.local_clusters(
          views[chosen], NUM_CLUSTERS, demonstration.rng
      )
      for views in demonstration.client_views
  ]
  return methods.mean_score(demonstration.client_labels, clusters, weights)


@dataclasses.dataclass(frozen=True)
class Row:
  """A row of the demonstration's table.

  Attributes:
    claim: The claim of the tutorial that it is compared with, a key of `CLAIMS`; or None.
  """

  label: str
  claim: str | None
  run: Callable[[Demonstration], methods.Outcome]


ROWS = {
    "printed": Row("the tutorial's Fed-MVKM, as printed", "Fed-MVKM", _printed),
    # The tutorial does not say which view, and prints no program for it.
    "printed_local_one_view": Row(
        "its local program, colour alone: mean of the three sites", "local, one view",
        lambda d: _printed_local(d, chosen=slice(1, 2)),
    ),
    "printed_local": Row(
        "its local program, both views: mean of the three sites", "local, both views",
        _printed_local,
    ),
    "printed_local_by_size": Row(
        "the same, weighted by the sites' sizes", None,
        lambda d: _printed_local(d, [len(labels) for labels in d.client_labels]),
    ),
    "local_kmeans": Row(
        "k-means at each site, weighted by size", None,
        lambda d: methods.local_only(d.problem),
    ),
    "central_one_view": Row(
        "central k-means, colour alone", None,
        lambda d: methods.single_view(d.problem, VIEW_NAMES[1]),
    ),
    "central_kmeans": Row(
        "central k-means, both views", "central k-means",
        lambda d: methods.concatenated(d.problem),
    ),
    "equal": Row(
        "ours: federated, equal weights", None,
        lambda d: methods.multiview(d.problem, "equal"),
    ),
}
