"""PACFL: groups clients once, before any training, by the angles between their data.

Saeed Vahidian, Mahdi Morafah, Weijia Wang, Vyacheslav Kungurtsev, Chen Chen, Mubarak Shah,
Bill Lin: "Efficient Distribution Similarity Identification in Clustered Federated Learning
via Principal Angles between Client Data Subspaces", AAAI 2023,
https://arxiv.org/abs/2209.10526.  Every client sends the first left singular vectors of its
training examples, a few per label.  Agglomerative clustering with average linkage, as in the
authors' program, groups the clients by the angles between the spaces that these span.  All
clusters then train from the same initial model.

*The server sees directions of raw data*: a client's first vector for a label looks like its
average example of that label.  The method is not private.

With the paper's `smallest` angle, labels play no part: clients whose features are alike but
whose labels mean something else can't be told apart.  With `equal_labels`, they can.
"""

import dataclasses
from typing import Optional

import numpy as np

from clustering_basics import validate
from fl_clustering import cluster_assignment
from fl_clustering.grouping import grouping
from fl_clustering.methods import method
from fl_clustering.methods import new_clients
from fl_clustering import options

_RIGHT_ANGLE = 90.0
# Unit vectors in float32 that depend on each other have no smaller one but by rounding.
_LEAST_SINGULAR_VALUE = 1e-5


def smallest_angles(spaces, others):
  """Returns the smallest principal angles between clients' spaces (the paper's eq. 2).

  Args:
    spaces: Per client its vectors, a dict from label to an array of shape (num_features, r).
    others: Those of clients to compare them with.

  Returns:
    The angles in degrees, in [0, 90], float64 of shape (len(spaces), len(others)).
  """
  other_bases = list(map(_basis, others))
  most = max(basis.shape[1] for basis in other_bases)
  # Columns of zeros make them alike, for one product per client; they add no angle.
  padded = [np.pad(basis, ((0, 0), (0, most - basis.shape[1]))) for basis in other_bases]
  columns = np.concatenate(padded, axis=1)
  found = []
  for space in spaces:
    products = (_basis(space).T @ columns).reshape(-1, len(others), most)
    found.append(np.linalg.norm(products, ord=2, axis=(0, 2)))
  return _angle(np.array(found))


def _basis(space):
  """Returns an orthonormal basis of what the vectors of all labels span."""
  # The vectors of one label are orthonormal; those of several labels need not even be
  # independent, if labels share an example.
  vectors = np.concatenate(list(space.values()), axis=1, dtype=np.float64)
  if not vectors.size:
    # Examples of zeros have no direction.  Zero makes a right angle with everything.
    return np.zeros((len(vectors), 1))
  left, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
  return left[:, sizes > _LEAST_SINGULAR_VALUE]


def mean_angles_of_equal_labels(spaces, others):
  """Returns the mean angles between clients' corresponding vectors of equal labels.

  The paper's eq. 3 adds up the angles between the vectors of equal rank.  Here they are
  also of equal label.  It is a mean, since clients share different numbers of labels.
  The sign of a singular vector means nothing, so no angle exceeds 90 degrees.

  Args:
    spaces: Per client its vectors, a dict from label to an array of shape (num_features, r).
    others: Those of clients to compare them with.

  Returns:
    The angles in degrees, in [0, 90], float64 of shape (len(spaces), len(others)); 90 for
    clients without a label in common.
  """
  return np.array([[_mean_angle_of_equal_labels(u, v) for v in others] for u in spaces])


def _mean_angle_of_equal_labels(one, other):
  angles = [
      _angle(abs(np.dot(u.astype(np.float64), v.astype(np.float64))))
      for label in sorted(set(one) & set(other))
      for u, v in zip(one[label].T, other[label].T)
  ]
  return np.mean(angles) if angles else _RIGHT_ANGLE


def _angle(cosine):
  """Returns angles in degrees, also where rounding made a cosine exceed 1."""
  return np.degrees(np.arccos(np.minimum(cosine, 1.0)))


# From its name to a function from two lists of clients' vectors to the angles between each
# of the first and each of the second, in degrees.
PROXIMITIES = {"smallest": smallest_angles, "equal_labels": mean_angles_of_equal_labels}


@dataclasses.dataclass(frozen=True)
class Pacfl:
  """The settings of PACFL.  Exactly one of `num_clusters` and `pacfl_angle` is given.

  Attributes:
    num_clusters: Number of clusters, at most the number of clients.
    pacfl_angle: The paper's beta: the largest angle in degrees, as average linkage
      measures it, of two clusters that are merged.
    pacfl_cut: Which of the two it is, `num_clusters` or `angle`; `None` = whichever is
      given.
    pacfl_vectors: Singular vectors per label; the paper uses 3 to 5.
    pacfl_proximity: Which angle, a key of `PROXIMITIES`.
  """

  num_clusters: Optional[int] = grouping.num_clusters_option(
      "pacfl uses it where it is cut at a number.", default=None
  )
  pacfl_angle: Optional[float] = options.option(
      float,
      "Largest angle, in degrees, of two clusters that pacfl merges, where it is cut at an "
      "angle.",
      default=None,
  )
  pacfl_cut: Optional[str] = options.option(
      str,
      "Where pacfl is cut: at --num_clusters or at --pacfl_angle.",
      default=None,
      default_text="angle if --pacfl_angle is given, else num_clusters",
      values=("num_clusters", "angle"),
      selects={"num_clusters": ("num_clusters",), "angle": ("pacfl_angle",)},
  )
  pacfl_vectors: int = options.option(
      int, "Singular vectors of its examples per label that a client sends to pacfl.", default=3
  )
  pacfl_proximity: str = options.option(
      str,
      "What pacfl compares: the `smallest` principal angle between the clients' spaces, for "
      "which labels play no part, or the mean angle between vectors of `equal_labels`.",
      default="smallest",
      values=tuple(PROXIMITIES),
  )

  def __post_init__(self):
    if (self.num_clusters is None) == (self.pacfl_angle is None):
      raise ValueError(
          "`pacfl_angle` must be given if `num_clusters` is not, and only then, got "
          f"{self.pacfl_angle!r} with num_clusters={self.num_clusters!r}."
      )
    cut = "angle" if self.num_clusters is None else "num_clusters"
    if self.pacfl_cut not in (None, cut):
      raise validate.error("pacfl_cut", f"be {cut}, which is given", self.pacfl_cut)
    if self.num_clusters is None:
      validate.within(0, _RIGHT_ANGLE, pacfl_angle=self.pacfl_angle)
    else:
      validate.integer(1, num_clusters=self.num_clusters)
    validate.integer(1, pacfl_vectors=self.pacfl_vectors)
    validate.one_of(PROXIMITIES, pacfl_proximity=self.pacfl_proximity)


def group(spaces, settings):
  """Groups clients by the angles between their spaces.

  Args:
    spaces: Per client its vectors, a dict from label to an array.
    settings: A `Pacfl`.

  Returns:
    A label per client, an int array.
  """
  # Here, since scikit-learn takes a second to import: the flags read this module and must
  # answer at once.
  from sklearn import cluster  # pylint: disable=g-import-not-at-top

  if len(spaces) == 1:
    return np.zeros(1, np.int64)  # scikit-learn asks for two.
  angles = PROXIMITIES[settings.pacfl_proximity](spaces, spaces)
  cut = {"n_clusters": settings.num_clusters}
  if settings.num_clusters is None:
    # scikit-learn does not merge at the threshold itself.
    cut["distance_threshold"] = np.nextafter(settings.pacfl_angle, np.inf)
  clustering = cluster.AgglomerativeClustering(
      metric="precomputed", linkage="average", **cut
  )
  return clustering.fit_predict(angles)


def pacfl(settings, engine):
  """Returns PACFL.

  A new client joins the cluster to whose members its space has the least mean angle.

  Args:
    settings: A `Pacfl`.
    engine: An `engine.Engine`.
  """

  def initialize(pretrained, rng):
    del rng  # Nothing here is random.
    client_ids = engine.client_ids
    if settings.num_clusters is not None:
      grouping.check_num_clusters(settings.num_clusters, client_ids)
    labels = group(engine.subspaces(client_ids, settings.pacfl_vectors), settings)
    clusters = cluster_assignment.ClusterAssignment.from_labels(
        client_ids, dict(zip(client_ids, labels))
    ).clusters
    vectors = np.tile(pretrained.initial_vector, (len(clusters), 1))
    return method.ClusterState(vectors, clusters)

  def place(pretrained, state, new_client_ids):
    del pretrained  # The clients' data decide.
    old, new = (
        engine.subspaces(client_ids, settings.pacfl_vectors)
        for client_ids in (engine.client_ids, tuple(new_client_ids))
    )
    angles = PROXIMITIES[settings.pacfl_proximity](new, old)
    column_of = {client_id: i for i, client_id in enumerate(engine.client_ids)}
    to_clusters = [
        angles[:, [column_of[c] for c in members]].mean(axis=1) for members in state.members
    ]
    return new_clients.in_cluster(state.vectors, np.argmin(to_clusters, axis=0))

  return method.Method(
      initialize, method.train_clusters(engine), place, from_start=True
  )
