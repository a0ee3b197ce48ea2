"""Differentially private k-means: two methods, one result.

  data = clustering_params.Data(points, radius=1.0)
  budget = clustering_params.DifferentialPrivacyParam(epsilon=1.0, delta=1e-6)
  result = clustering.private_clustering(k=10, data=data, privacy_param=budget)
  result.centers, result.ledger

The privacy is that of the central model; neighbouring data sets differ by one point,
added or removed.  The centers and the ledger are private.  Labels, loss and metrics are not: they
are computed from the points without noise, for the curator only.
"""

import dataclasses
import math
import numbers

import numpy as np

from clustering_basics import callers_line
from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import coreset
from dp_clustering import ledger as ledger_lib
from dp_clustering import lsh_tree
from dp_clustering import metrics
from dp_clustering import noise
from dp_clustering import privacy_calculator
from dp_clustering import private_centers
from dp_clustering import private_sums
from dp_clustering import refine


@dataclasses.dataclass(frozen=True, eq=False)
class ClusteringResult:
  """Centers, and what follows from them.

  Attributes:
    centers: The centers, finite and within the radius, shape (k, dim); private.
    labels: Index of the nearest center of every point, shape (num_points,); not
      private.  Computed if not given.
    loss: Sum of the squared distances of the points, clipped to the radius, to the nearest
      center; not private.  Computed if not given.  Labels and loss must be given together.
    ledger: Frozen `Ledger` of the releases, their noise and the epsilon they add up to;
      private.  None for centers from elsewhere.
    noise: The same centers, with the noise on each and on its number of points; likewise.
  """

  data: clustering_params.Data
  centers: np.ndarray
  labels: np.ndarray | None = None
  loss: float | None = None
  ledger: ledger_lib.Ledger | None = None
  noise: private_centers.PrivateCenters | None = None

  def __post_init__(self) -> None:
    validate.instance(clustering_params.Data, data=self.data)
    centers = np.asarray(self.centers, np.float64)
    if centers.ndim != 2 or not len(centers) or centers.shape[1] != self.data.dim:
      raise validate.error("centers", f"be of shape (k, dim={self.data.dim})", centers.shape)
    object.__setattr__(self, "centers", centers)
    if (self.labels is None) != (self.loss is None):
      missing, given = ("labels", "loss") if self.labels is None else ("loss", "labels")
      raise ValueError(f"`{missing}` must be given together with `{given}`, got None.")
    if self.labels is None:
      labels, loss = metrics.nonprivate_labels_and_loss(
          self.data.datapoints, centers, self.data.radius
      )
      object.__setattr__(self, "labels", labels)
      object.__setattr__(self, "loss", loss)
    else:
      object.__setattr__(self, "labels", self._checked_labels())
      if not isinstance(self.loss, numbers.Real):
        raise TypeError(f"`loss` must be a number, got {self.loss!r}.")

  def _checked_labels(self) -> np.ndarray:
    labels = np.asarray(self.labels)
    if labels.shape != (self.data.num_points,):
      raise validate.error(
          "labels", f"be of shape (num_points={self.data.num_points},)", labels.shape
      )
    if labels.size and labels.dtype.kind not in "iu":
      raise TypeError(f"`labels` must be integers, got an array of {labels.dtype}.")
    if labels.size and not 0 <= labels.min() <= labels.max() < len(self.centers):
      wrong = labels[(labels < 0) | (labels >= len(self.centers))][0]
      raise validate.error("labels", f"be in [0, k={len(self.centers)})", int(wrong))
    return labels.astype(np.int64)

  def cross_label_histogram(self) -> np.ndarray:
    """Returns the number of points for each (cluster, true label); not private.

    Returns:
      Integer array of shape (k, num_true_labels), the true labels in sorted order.

    Raises:
      ValueError: If the data has no labels.
    """
    if self.data.labels is None:
      raise validate.error("data.labels", "be given for metrics", None)
    assert self.labels is not None  # Since it was made.
    true_labels, columns = np.unique(self.data.labels, return_inverse=True)
    shape = (len(self.centers), len(true_labels))
    cells = np.ravel_multi_index((self.labels, columns), shape) if columns.size else columns
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)

  def get_clustering_metrics(self) -> metrics.ClusteringMetrics:
    """Returns the `ClusteringMetrics` against the data's labels; not private."""
    return metrics.ClusteringMetrics(self.cross_label_histogram())


def _check(
    k: int, data: clustering_params.Data, privacy_param: clustering_params.DifferentialPrivacyParam,
    random_state: int | None,
) -> None:
  validate.integer(1, k=k)
  validate.instance(clustering_params.Data, data=data)
  validate.instance(clustering_params.DifferentialPrivacyParam, privacy_param=privacy_param)
  if random_state is not None:
    validate.integer(0, random_state=random_state)


def _open(
    data: clustering_params.Data, privacy_param: clustering_params.DifferentialPrivacyParam,
    random_state: int | None,
) -> tuple[private_sums.PrivateSums, ledger_lib.Ledger, np.random.Generator]:
  """Returns `PrivateSums`, their `Ledger` and a generator for what needs no protection."""
  if privacy_param.epsilon == math.inf:
    callers_line.warn("`epsilon` is inf: without noise, the result is NOT private.")
  else:
    for text in clustering_params.budget_warnings(
        privacy_param.epsilon, privacy_param.delta, num_units=data.public_num_points
    ):
      callers_line.warn(text)
  source = noise.build_noise_source(privacy_param.epsilon, random_state)
  ledger = ledger_lib.Ledger(privacy_param.epsilon, privacy_param.delta, source)
  sums = private_sums.PrivateSums(data.datapoints, data.radius, source, ledger)
  # A stream other than `default_rng(random_state)`: points may have been drawn from that one.
  stream = None if random_state is None else np.random.SeedSequence(random_state, spawn_key=(1,))
  return sums, ledger, np.random.default_rng(stream)


def private_lsh_clustering(
    k: int, data: clustering_params.Data, privacy_param: clustering_params.DifferentialPrivacyParam,
    privacy_budget_split: clustering_params.PrivacyBudgetSplit | None = None,
    tree_param: clustering_params.TreeParam | None = None,
    multipliers: clustering_params.PrivacyCalculatorMultiplier | None = None,
    random_state: int | None = None,
) -> ClusteringResult:
  """Clusters by the LSH-tree coreset.

  Noisy counts grow a tree of hash prefixes.  The noisy mean of each leaf, weighted by
  its noisy count, goes into weighted k-means (`lsh_tree`, `coreset`).

  Args:
    k: Number of clusters, positive.  The result has exactly `k` centers.
    data: The points, which are not private, and their radius.
    privacy_param: The budget.
    privacy_budget_split: How epsilon is shared between sums and counts.
    tree_param: When nodes branch.  By default, it follows from the noisy number of points.
    multipliers: Another way to share the budget, which can't be combined with
      `privacy_budget_split`.  If neither is given, the default multipliers are used.
    random_state: None for secure noise.  A non-negative integer makes everything
      repeatable, for benchmarks.  The result is then NOT private, and its ledger says so.

  Returns:
    The result, of which the centers and the ledger are private, and nothing else.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has an impossible value.
  """
  _check(k, data, privacy_param, random_state)
  if privacy_budget_split is not None:
    validate.instance(
        clustering_params.PrivacyBudgetSplit, privacy_budget_split=privacy_budget_split
    )
  if tree_param is not None:
    validate.instance(clustering_params.TreeParam, tree_param=tree_param)
  if multipliers is not None:
    validate.instance(clustering_params.PrivacyCalculatorMultiplier, multipliers=multipliers)
  max_depth = tree_param.max_depth if tree_param else lsh_tree.DEFAULT_MAX_DEPTH
  lsh_noise = privacy_calculator.lsh_noise(
      privacy_param, privacy_budget_split, multipliers, max_depth
  )
  sums, ledger, rng = _open(data, privacy_param, random_state)
  with clustering_params.content_raises_nothing():
    private_coreset = coreset.private_lsh_coreset(sums, k, tree_param, lsh_noise, rng)
    found = coreset.exactly_k_centers(private_coreset, k, data.radius, rng)
    return ClusteringResult(data, found.centers, ledger=ledger.freeze(), noise=found)


def private_clustering(
    k: int, data: clustering_params.Data, privacy_param: clustering_params.DifferentialPrivacyParam,
    privacy_budget_split: clustering_params.PrivacyBudgetSplit | None = None,
    tree_param: clustering_params.TreeParam | None = None,
    multipliers: clustering_params.PrivacyCalculatorMultiplier | None = None,
    random_state: int | None = None,
) -> ClusteringResult:
  """Clusters by splitting and refining centers (`refine`); the better method.

  Arguments, result and errors are those of `private_lsh_clustering`.  This method has no tree
  and shares the budget by itself, so the three that say how must be None.
  """
  _check(k, data, privacy_param, random_state)
  for name, value in (
      ("privacy_budget_split", privacy_budget_split),
      ("tree_param", tree_param),
      ("multipliers", multipliers),
  ):
    if value is not None:
      raise validate.error(name, "be None for private_clustering", value)
  mu = privacy_calculator.gaussian_mu(privacy_param.epsilon, privacy_param.delta)
  sums, ledger, rng = _open(data, privacy_param, random_state)
  if data.public_num_points is not None:
    number = data.public_num_points
    planned = refine.planning_number(k, mu, data.dim, number, public_num_points=number)
    for text in refine.planning_warnings(k, planned):
      callers_line.warn(text)
  with clustering_params.content_raises_nothing():
    found = refine.private_centers(sums, k, mu, rng, data.public_num_points)
    return ClusteringResult(data, found.centers, ledger=ledger.freeze(), noise=found)


# Of the public names, this one is of another module.
ClusteringMetrics = metrics.ClusteringMetrics
# The methods by the names that flags and settings use.
METHODS = {"refine": private_clustering, "lsh": private_lsh_clustering}


def __getattr__(name: str) -> type:
  # `PrivateKMeans` needs scikit-learn, whose import takes most of a second.
  if name == "PrivateKMeans":
    from dp_clustering import private_kmeans  # pylint: disable=g-import-not-at-top

    return private_kmeans.PrivateKMeans
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
