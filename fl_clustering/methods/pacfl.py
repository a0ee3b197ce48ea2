"""PACFL: groups clients once, before any training, by the angles between their data.

Saeed Vahidian, Mahdi Morafah, Weijia Wang, Vyacheslav Kungurtsev, Chen Chen, Mubarak Shah,
Bill Lin: "Efficient Distribution Similarity Identification in Clustered Federated Learning
via Principal Angles between Client Data Subspaces", AAAI 2023,
https://arxiv.org/abs/2209.10526.  Every client sends the first left singular vectors of its
training examples, a few per label.  Agglomerative clustering with average linkage (UPGMA) groups
the clients by the principal angles between the spaces that these span.  All clusters then train
from the same initial model.

Where this differs from the paper:

*   The paper cuts at an angle.  By default, this cuts at a number of clusters, as the other
    groupings do; `--pacfl_angle` cuts at an angle.
*   The paper groups all clients anew when new ones come.  Here, a new client joins the cluster to
    whose members its space has the least mean angle, and the others stay.

The authors' program does otherwise than their paper: its linkage is WPGMA, in which two clusters
count alike whatever their sizes, and its angles are the arc cosines of single entries of the
product of two bases, signs included, which depend on the choice of the vectors.

*The server sees directions of raw data*: a client's first vector for a label looks like its
average example of that label.  The method is not private.

With the paper's `smallest` angle, labels play no part: clients whose features are alike but
whose labels mean something else can't be told apart.  With `equal_labels`, they can.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Mapping, Sequence, TYPE_CHECKING

import numpy as np
import tqdm

from clustering_basics import options
from clustering_basics import validate
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import grouping
from fl_clustering.methods import hierarchical
from fl_clustering.methods import method
from fl_clustering.methods import new_clients

if TYPE_CHECKING:
  from fl_clustering.engine import engine as engine_lib

# What a client sends: its vectors by label, arrays of shape (num_features, r).
Space = Mapping[int, np.ndarray]

_RIGHT_ANGLE = 90.0
# Unit vectors in float32 that depend on each other have no smaller one but by rounding.
_LEAST_SINGULAR_VALUE = 1e-5
# Clients that are compared with others at a time: the spaces of thousands, or all their angles
# at once, are gigabytes.
BLOCK, ROWS = 256, 32
# Pairs of clients that take several seconds.
MANY_PAIRS = 10**5


def smallest_angles(spaces: Sequence[Space], others: Sequence[Space]) -> np.ndarray:
  """Returns the smallest principal angles between clients' spaces (the paper's eq. 2).

  They are in degrees, in [0, 90], float64 of shape (len(spaces), len(others)).
  """
  angles = np.empty((len(spaces), len(others)))
  blocks = [slice(i, i + BLOCK) for i in range(0, len(others), BLOCK)]
  # Of all pairs of the same clients, one half is enough.
  are_same = spaces is others
  for columns in _with_progress(blocks, len(spaces), len(others)):
    other_bases = _stacked(others[columns])
    last = columns.start + other_bases.shape[1] if are_same else len(spaces)
    for start in range(0, last, ROWS):
      rows = slice(start, min(start + ROWS, last))
      products = np.tensordot(_stacked(spaces[rows]), other_bases, (0, 0))
      angles[rows, columns] = _angle(np.linalg.norm(products, ord=2, axis=(1, 3)))
    if are_same:
      angles[columns, : columns.start] = angles[: columns.start, columns].T
  return angles


def _with_progress(blocks: Sequence[Any], num_clients: int, num_others: int) -> tqdm.tqdm:
  """Yields blocks, and says beforehand how much there is to compare if it takes long."""
  return tqdm.tqdm(
      blocks, desc=f"angles between {num_clients:,} x {num_others:,} clients", unit="block",
      disable=num_clients * num_others < MANY_PAIRS,
  )


def _stacked(spaces: Sequence[Space]) -> np.ndarray:
  """Returns orthonormal bases of n spaces, as (num_features, n, most vectors)."""
  bases = list(map(_basis, spaces))
  most = max(basis.shape[1] for basis in bases)
  # Columns of zeros make them alike; they add no angle.
  padded = [np.pad(basis, ((0, 0), (0, most - basis.shape[1]))) for basis in bases]
  return np.stack(padded, axis=1)


def _basis(space: Space) -> np.ndarray:
  """Returns an orthonormal basis of what the vectors of all labels span."""
  # The vectors of one label are orthonormal; those of several labels need not even be
  # independent, if labels share an example.
  vectors = np.concatenate(list(space.values()), axis=1, dtype=np.float64)
  if not vectors.size:
    # Examples of zeros have no direction.  Zero makes a right angle with everything.
    return np.zeros((len(vectors), 1))
  left, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
  return left[:, sizes > _LEAST_SINGULAR_VALUE]


def mean_angles_of_equal_labels(spaces: Sequence[Space], others: Sequence[Space]) -> np.ndarray:
  """Returns the mean angles between clients' corresponding vectors of equal labels.

  The paper's eq. 3 adds up the angles between the vectors of equal rank.  Here they are
  also of equal label.  It is a mean, since clients share different numbers of labels.
  The sign of a singular vector means nothing, so no angle exceeds 90 degrees.

  They are as those of `smallest_angles`; 90 for clients without a label in common.
  """
  sums = np.zeros((len(spaces), len(others)))
  counts = np.zeros(sums.shape)
  labels = sorted({label for space in (*spaces, *others) for label in space})
  for label in _with_progress(labels, len(spaces), len(others)):
    most = max(space[label].shape[1] for space in (*spaces, *others) if label in space)
    for rank in range(most):
      rows, vectors = _vectors_of(spaces, label, rank)
      columns, other_vectors = _vectors_of(others, label, rank)
      if not columns:
        continue
      for i in range(0, len(rows), BLOCK):
        place = np.ix_(rows[i : i + BLOCK], columns)
        sums[place] += _angle(np.abs(vectors[i : i + BLOCK] @ other_vectors.T))
        counts[place] += 1
  return np.divide(sums, counts, out=np.full(sums.shape, _RIGHT_ANGLE), where=counts > 0)


def _vectors_of(spaces: Sequence[Space], label: int, rank: int) -> tuple[list[int], np.ndarray]:
  """Returns which clients have a vector of this label and rank, and these as rows, (n, d)."""
  having = [
      i for i, space in enumerate(spaces) if label in space and space[label].shape[1] > rank
  ]
  vectors = [spaces[i][label][:, rank] for i in having]
  return having, np.array(vectors, np.float64)


def _angle(cosine: np.ndarray) -> np.ndarray:
  """Returns angles in degrees, also where rounding made a cosine exceed 1."""
  return np.degrees(np.arccos(np.minimum(cosine, 1.0)))


PROXIMITIES: dict[str, Callable[[Sequence[Space], Sequence[Space]], np.ndarray]] = {
    "smallest": smallest_angles, "equal_labels": mean_angles_of_equal_labels
}


@dataclasses.dataclass(frozen=True)
class Pacfl(options.Settings):
  """The settings of PACFL.  Exactly one of `num_clusters` and `pacfl_angle` is given.

  `pacfl_angle` is the paper's beta, as average linkage measures it.  Of `pacfl_vectors`, the
  paper uses 3 to 5.
  """

  num_clusters: int | None = grouping.num_clusters_option(
      "pacfl uses it if it is cut at a number of clusters.", default=None
  )
  pacfl_angle: float | None = options.option(
      float,
      "Largest angle, in degrees, of two clusters that pacfl merges, where it is cut at an "
      "angle.",
      default=None,
      rule=functools.partial(validate.within, 0, _RIGHT_ANGLE),
  )
  pacfl_cut: str | None = options.option(
      str,
      "Where pacfl is cut: at --num_clusters or at --pacfl_angle.",
      default=None,
      default_text="angle if --pacfl_angle is given, else num_clusters",
      values=("num_clusters", "angle"),
      selects={"num_clusters": ("num_clusters",), "angle": ("pacfl_angle",)},
  )
  pacfl_vectors: int = options.option(
      int, "Singular vectors of its examples per label that a client sends to pacfl.", default=3,
      rule=validate.AT_LEAST_ONE,
  )
  pacfl_proximity: str = options.option(
      str,
      "What pacfl compares: the `smallest` principal angle between the clients' spaces, for "
      "which labels play no part, or the mean angle between vectors of `equal_labels`.",
      default="smallest",
      values=tuple(PROXIMITIES),
  )

  def __post_init__(self) -> None:
    if (self.num_clusters is None) == (self.pacfl_angle is None):
      raise ValueError(
          "`pacfl_angle` must be given if `num_clusters` is not, and only then, got "
          f"{self.pacfl_angle!r} with num_clusters={self.num_clusters!r}."
      )
    cut = "angle" if self.num_clusters is None else "num_clusters"
    if self.pacfl_cut not in (None, cut):
      raise validate.error("pacfl_cut", f"be {cut}, which is given", self.pacfl_cut)
    super().__post_init__()


def group(spaces: Sequence[Space], settings: Pacfl) -> np.ndarray:
  """Groups clients by the angles between their spaces; returns a label per client."""
  angles = PROXIMITIES[settings.pacfl_proximity](spaces, spaces)
  return hierarchical.agglomerate(
      angles, "average", settings.num_clusters, settings.pacfl_angle
  )


def pacfl(settings: Pacfl, engine: engine_lib.Engine) -> method.Method:
  """Returns PACFL."""

  def initialize(pretrained: method.Pretrained, rng: np.random.Generator) -> method.ClusterState:
    del rng  # Nothing here is random.
    clients = engine.clients
    if settings.num_clusters is not None:
      grouping.check_num_clusters(settings.num_clusters, len(clients))
    labels = group(engine.subspaces(clients, settings.pacfl_vectors), settings)
    clusters = cluster_assignment.ClusterAssignment.from_labels(clients, labels).clusters
    vectors = np.tile(pretrained.initial_vector, (len(clusters), 1))
    return method.ClusterState(vectors, clusters)

  def place(
      pretrained: method.Pretrained, state: method.ClusterState, clients: np.ndarray
  ) -> method.Placement:
    del pretrained  # The clients' data decide.
    old, new = (
        engine.subspaces(of, settings.pacfl_vectors) for of in (engine.clients, clients)
    )
    angles = PROXIMITIES[settings.pacfl_proximity](new, old)
    to_clusters = [angles[:, members].mean(axis=1) for members in state.members]
    return new_clients.in_cluster(state.vectors, np.argmin(to_clusters, axis=0))

  return method.Method(
      initialize, method.TrainClusters(engine), place, from_start=True
  )
