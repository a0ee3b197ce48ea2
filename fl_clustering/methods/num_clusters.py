"""Chooses a number of clusters K from the clients' weights, without any labels.

Two criteria score every K from 1 to `max_k`.  Each chooses the K of its highest score,
the smallest one of several.  Both can choose 1: "there are no groups here".

*   `silhouette`: the mean silhouette of the K-means clusters (Rousseeuw: "Silhouettes: a
    graphical aid to the interpretation and validation of cluster analysis", Journal of
    Computational and Applied Mathematics, 1987).  A single cluster has none; K=1 scores
    .08, which every other K must exceed.
*   `eigengap`: the gap between the K-th and the next eigenvalue of the normalized Laplacian
    of the clients' graph (von Luxburg: "A tutorial on spectral clustering", Statistics and
    Computing, 2007, section 8.3).  Two clients' affinity is the cosine of the angle between
    their *updates*, or zero for an angle over 90 degrees, whatever representation is
    grouped: weights all point nearly the same way.  The gap at K=1 is a score like others.
    A client whose update is like no other client's does not count as a cluster.

`eigengap` is the default: on digits over 20 and 100 clients (Dirichlet(0.5), three seeds
each) it always chose 4 for four rotations and four labelings, and 1 without groups.  The level
of the silhouette is from the same runs, grouped by `normalized_update`: the best ones were .09
to .21 with groups and .02 to .10 without.  Grouped by `weights`, it seldom chose 4: K-means then
separates clients by the length of their updates.

Of more than 500 clients, a random sample of 500 is scored: the eigenvalues' time grows with the
cube of their number.

What comes out is as little private as the weights (`client_weights.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, TYPE_CHECKING

import numpy as np

from clustering_basics import single_thread_kmeans
from clustering_basics import validate
from fl_clustering.methods import distances as distances_lib

if TYPE_CHECKING:
  from fl_clustering.methods import client_weights as client_weights_lib

# The functions import scikit-learn, which takes long: the flags read this module's `CRITERIA`
# and must answer at once.

CRITERIA = ("silhouette", "eigengap")
DEFAULT_CRITERION = "eigengap"
DEFAULT_MAX_K = 10

_LEAST_SILHOUETTE = 0.08
_NUM_STARTS = 10
# Of more clients, the criteria look at so many.
MOST_CLIENTS = 500


@dataclasses.dataclass(frozen=True)
class NumClustersChoice:
  """The scores of every K, and what the criteria choose; not private.

  Attributes:
    scores: From each criterion to its scores: K's is at place K - 1.
  """

  scores: Mapping[str, tuple[float, ...]]
  criterion: str

  @property
  def choices(self) -> dict[str, int]:
    """The K that each criterion chooses."""
    return {criterion: 1 + int(np.argmax(scores)) for criterion, scores in self.scores.items()}

  @property
  def num_clusters(self) -> int:
    """The K that the decisive criterion chooses."""
    return self.choices[self.criterion]

  def rows(self) -> list[dict[str, Any]]:
    """Returns a dict per criterion and K, for a table with the dicts' keys as columns.

    `chosen` is 1 for the K that the row's criterion chooses, else 0.
    """
    return [
        {
            "criterion": criterion,
            "num_clusters": k,
            "score": score,
            "chosen": int(k == self.choices[criterion]),
        }
        for criterion, scores in self.scores.items()
        for k, score in enumerate(scores, start=1)
    ]


def choose(
    client_weights: client_weights_lib.ClientWeights, rng: np.random.Generator,
    representation: str = "weights", criterion: str = DEFAULT_CRITERION, max_k: int = DEFAULT_MAX_K,
) -> NumClustersChoice:
  """Chooses the number of clusters.

  Args:
    rng: For the starts of K-means and the samples.
    criterion: The decisive criterion, one of `CRITERIA`; both are computed.
    max_k: The largest K that is scored.  It is less if there are not more clients than
      that, or not as many with different weights.
  """
  validate.one_of(CRITERIA, criterion=criterion)
  validate.integer(1, max_k=max_k)
  clients = np.sort(client_weights.clients)
  if len(clients) > MOST_CLIENTS:
    clients = clients[np.sort(rng.choice(len(clients), MOST_CLIENTS, replace=False))]
  distances = distances_lib.METRICS["l2"](client_weights.represented(representation, clients))
  cosines = distances_lib.METRICS["cosine"](client_weights.represented("update", clients))
  if len(clients) == 1:
    return NumClustersChoice({name: (0.0,) for name in CRITERIA}, criterion)
  points = distances_lib.euclidean_points(distances)
  num_different = len(np.unique(points, axis=0))
  ks = range(1, 1 + min(max_k, len(points) - 1, num_different))
  scores = {
      "silhouette": _silhouettes(distances_lib.square(distances), points, ks, rng),
      "eigengap": _eigengaps(cosines, ks),
  }
  return NumClustersChoice(scores, criterion)


def _silhouettes(
    distances: np.ndarray, points: np.ndarray, ks: range, rng: np.random.Generator
) -> tuple[float, ...]:
  """Returns the score of every K of a range that begins with 1.

  Args:
    distances: L2 distances of what is grouped, of shape (N, N).
    points: Points with these distances.
  """
  from sklearn import metrics  # pylint: disable=g-import-not-at-top

  scores = [_LEAST_SILHOUETTE]
  for k in ks[1:]:
    labels = single_thread_kmeans.fit(
        points, k, n_init=_NUM_STARTS, tol=0,  # As `kmeans.py`.
        random_state=int(rng.integers(2**32)),
    ).labels_
    scores.append(float(metrics.silhouette_score(distances, labels, metric="precomputed")))
  return tuple(scores)


def _eigengaps(cosine_distances: np.ndarray, ks: range) -> tuple[float, ...]:
  """Returns the score of every K, given condensed distances of the updates."""
  affinities = distances_lib.square(np.maximum(1 - cosine_distances, 0))
  degrees = affinities.sum(axis=0)
  scales = np.divide(1, np.sqrt(degrees), out=np.zeros(len(degrees)), where=degrees > 0)
  laplacian = np.eye(len(degrees)) - scales * affinities * scales[:, None]
  gaps = np.diff(np.linalg.eigvalsh(laplacian))
  return tuple(gaps[: len(ks)].tolist())
