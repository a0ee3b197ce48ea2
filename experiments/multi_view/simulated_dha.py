"""The tutorial's stand-in for the DHA data (depth and colour of human actions), and its clients.

Sinaga's Fed-MVKM tutorial (August 2025) draws 600 points around 23 far-apart centers in
6,144 and 110 columns, the centers at 2 and 1.5 standard deviations and the noise at 0.5
and 0.3.  Any k-means on all of them finds the clusters exactly, so the data can't tell a
good method from a bad one.  They only serve to reproduce the tutorial's demonstration.
The numbers are drawn in the tutorial's order: seed 42 gives the tutorial's data.
"""

import functools
from typing import Any

import numpy as np

from experiments.multi_view import methods

NUM_CLUSTERS = 23
SOURCE_SEED = 42
VIEW_NAMES = ("depth", "colour")
NUM_POINTS = 600
_DEPTH_COLUMNS = 6144
_COLOUR_COLUMNS = 110
_BLOCK = 64
_LEAST_POINTS = 25


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


def draw(seed: int, settings: dict[str, Any]) -> methods.Problem:
  """Draws the data at the tutorial's three clients, of which the first two share points.

  Args:
    seed: Seed of the data and of the methods; the tutorial's is `SOURCE_SEED`.
  """
  rng = np.random.RandomState(seed)
  views, labels = _draw_points(rng)
  return methods.Problem(
      dict(zip(VIEW_NAMES, views)), labels, _split(labels, rng), NUM_CLUSTERS, seed, settings
  )


# The rows of the demonstration's table, with what the tutorial prints.
METHODS = {
    "local_kmeans": methods.Method(
        "k-means at each site, weighted by size", None, methods.local_only, claim=(0.673, 0.527)
    ),
    "central_one_view": methods.Method(
        "central k-means, colour alone", None,
        functools.partial(methods.single_view, view=VIEW_NAMES[1]),
    ),
    "central_kmeans": methods.Method(
        "central k-means, both views", None, methods.concatenated, claim=(0.652, 0.487)
    ),
    "equal": methods.Method(
        "ours: federated, equal weights", None,
        functools.partial(methods.multiview, view_weights=methods.OURS), claim=(0.8925, 0.6999),
    ),
}
