"""The tutorial's stand-in for the DHA data (depth and colour of human actions), and its sites.

Sinaga's Fed-MVKM tutorial (August 2025) draws 600 points around 23 far-apart centers in
6,144 and 110 columns, the centers at 2 and 1.5 standard deviations and the noise at 0.5
and 0.3.  Any k-means on all of them finds the clusters exactly: the data can't tell a
good method from a bad one, and serve as the documented demonstration only.  The numbers
are drawn in the tutorial's order, so that seed 42 gives the tutorial's data.
"""

import numpy as np

NUM_CLUSTERS = 23
SOURCE_SEED = 42
VIEW_NAMES = ("depth", "colour")
_NUM_POINTS = 600
_DEPTH_COLUMNS = 6144
_COLOUR_COLUMNS = 110
_BLOCK = 64
_LEAST_SITE = 25

# What the tutorial prints: (NMI, ARI).
CLAIMS = {
    "central k-means": (0.652, 0.487),
    "local, one view": (0.613, 0.428),
    "local, both views": (0.673, 0.527),
    "Fed-MVKM": (0.8925, 0.6999),
}


def _depth(clusters, rng):
  centers = 2 * rng.randn(NUM_CLUSTERS, _DEPTH_COLUMNS)
  num_blocks = _DEPTH_COLUMNS // _BLOCK
  rows = []
  for cluster in clusters:
    row = centers[cluster] + 0.5 * rng.randn(_DEPTH_COLUMNS)
    rows.append(row + 0.2 * np.repeat(rng.randn(num_blocks), _BLOCK))
  return np.array(rows)


def _colour(clusters, depth, rng):
  centers = 1.5 * rng.randn(NUM_CLUSTERS, _COLOUR_COLUMNS)
  blocks = depth.reshape(len(depth), -1, _BLOCK).mean(axis=2)
  shared = np.zeros((len(depth), _COLOUR_COLUMNS))
  shared[:, : blocks.shape[1]] = 0.2 * blocks
  noise = np.array([0.3 * rng.randn(_COLOUR_COLUMNS) for _ in clusters])
  return centers[clusters] + noise + shared


def _standardised(points):
  return (points - points.mean(axis=0)) / (points.std(axis=0) + 1e-8)


def draw(rng):
  """Draws the data set.

  Args:
    rng: A `np.random.RandomState`, the generator that the tutorial uses.

  Returns:
    The two views, standardised, and the true clusters of the 600 points.
  """
  per_cluster = _NUM_POINTS // NUM_CLUSTERS
  clusters = np.repeat(np.arange(NUM_CLUSTERS), per_cluster)
  rest = rng.choice(NUM_CLUSTERS, _NUM_POINTS - len(clusters))
  clusters = np.concatenate([clusters, rest])[rng.permutation(_NUM_POINTS)]
  depth = _depth(clusters, rng)
  colour = _colour(clusters, depth, rng)
  return [_standardised(depth), _standardised(colour)], clusters


def split(clusters, rng):
  """Returns the tutorial's three sites as index arrays; the first two share points.

  Args:
    clusters: The true clusters, which decide what a site has.
    rng: The `np.random.RandomState` that drew them.
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
  missing = max(0, _LEAST_SITE - len(third))
  third = np.concatenate([third, first[:missing]])
  return {
      "research_hospital": first[missing:],
      "rehab_center": second,
      "sports_clinic": third,
  }
