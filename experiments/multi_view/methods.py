"""The methods: ours with each rule for view weights, and what they are compared with.

A method takes a `Problem` and returns an `Outcome`.  `central` methods see all points in
one place, which no federated method may; `local` ones see one client's points at a time.
All work on the same columns, standardised over all clients.
"""

import dataclasses
import functools
from typing import Callable, Mapping

import numpy as np

from clustering_basics import agreement
from clustering_basics import single_thread_kmeans
from fl_clustering import multiview as multiview_lib
from fl_clustering.points import grid_scaling

ALL_VIEWS = "all"
OURS = "equal"
_CENTRAL_RESTARTS = 10


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
  """What a method gave once.

  Attributes:
    numbers: `nmi`, the normalised mutual information of classes and clusters, and `ari`, the
      adjusted Rand index, where classes are known; `rounds` and `objective` of the best restart
      of a multi-view fit.
    view_weights: By the view's name.
    points: How many points of every class are in every cluster, of shape (num_classes, K).
  """

  numbers: Mapping[str, float]
  view_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
  points: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0), int))


def score(labels: np.ndarray, clusters: np.ndarray) -> dict[str, float]:
  """Returns what an `Outcome` says of clusters."""
  return {
      "nmi": agreement.normalized_mutual_information(labels, clusters),
      "ari": agreement.adjusted_rand_index(labels, clusters),
  }


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
  """Points at clients.

  Attributes:
    views: float64 of shape (n, d_h) by the view's name.
    labels: int64 of shape (n,).
    shares: The indices of every client's points.
    settings: Settings of `FederatedMultiViewKMeans` that all of its rows share.
  """

  views: dict[str, np.ndarray]
  labels: np.ndarray
  shares: dict[str, np.ndarray]
  num_clusters: int
  seed: int
  settings: dict

  def side_by_side(self) -> np.ndarray:
    """Returns all views in one matrix, each with a total variance of one.

    Otherwise views with more columns would count more, and the baseline would be weaker.
    """
    views = map(self.standardised, self.views)
    return np.concatenate([view / np.sqrt(view.var(axis=0).sum()) for view in views], axis=1)

  def standardised(self, view: str) -> np.ndarray:
    """Returns a view with a variance of one in every column, of shape (n, d_h)."""
    points = self.views[view]
    # The mean of what is left of a constant column misses nothing.
    offsets = points - points[0]
    deviation = offsets.std(axis=0)
    varies = deviation > grid_scaling.rounding(points.mean(axis=0))
    return (offsets - offsets.mean(axis=0)) / np.where(varies, deviation, 1.0)


def _kmeans(points: np.ndarray, num_clusters: int, seed: int) -> np.ndarray:
  kmeans = single_thread_kmeans.fit(
      points, min(num_clusters, len(points)), n_init=_CENTRAL_RESTARTS, random_state=seed
  )
  return kmeans.labels_


def single_view(problem: Problem, view: str) -> Outcome:
  """Clusters all points by one view alone."""
  points = problem.standardised(view)
  clusters = _kmeans(points, problem.num_clusters, problem.seed)
  return Outcome(score(problem.labels, clusters))


def concatenated(problem: Problem) -> Outcome:
  """Clusters all points by all views side by side."""
  clusters = _kmeans(problem.side_by_side(), problem.num_clusters, problem.seed)
  return Outcome(score(problem.labels, clusters))


def local_only(problem: Problem) -> Outcome:
  """Clusters every client's points alone; the mean score, a client weighs by its points."""
  points, labels = problem.side_by_side(), problem.labels
  shares = [share for share in problem.shares.values() if len(share)]
  by_client = [
      score(labels[share], _kmeans(points[share], problem.num_clusters, problem.seed))
      for share in shares
  ]
  sizes = [len(share) for share in shares]
  return Outcome({
      metric: float(np.average([one[metric] for one in by_client], weights=sizes))
      for metric in by_client[0]
  })


def multiview(problem: Problem, view_weights: str) -> Outcome:
  """Runs federated multi-view k-means; the views are weighed by a rule of `RULES`."""
  model = multiview_lib.FederatedMultiViewKMeans(
      problem.num_clusters, view_weights=view_weights, random_state=problem.seed,
      **problem.settings
  ).fit({
      client_id: [view[share] for view in problem.views.values()]
      for client_id, share in problem.shares.items() if len(share)
  })
  clusters = model.predict(list(problem.views.values()))
  return Outcome(
      {
          **score(problem.labels, clusters), "rounds": model.n_iter_,
          "objective": model.objective_,
      },
      dict(zip(problem.views, map(float, model.view_weights_))),
      np.array([
          np.bincount(clusters[problem.labels == one], minlength=problem.num_clusters)
          for one in np.unique(problem.labels)
      ]),
  )


def _central(problem: Problem) -> Outcome:
  everything = {"all": np.arange(len(next(iter(problem.views.values()))))}
  return multiview(dataclasses.replace(problem, shares=everything), OURS)


@dataclasses.dataclass(frozen=True)
class Method:
  """A row of the table.

  Attributes:
    label: What the table calls it.
    place: Where the points are: `central`, `local` or `federated`; None if the label says it.
    run: Called with a `Problem`, and a view's name if `by_view`.
    by_view: Whether it is run for each view alone.
    claim: What its source prints for a method of this kind, NMI and ARI; or None.
  """

  label: str
  place: str | None
  run: Callable[..., Outcome]
  by_view: bool = False
  claim: tuple[float, float] | None = None


# The rules that weigh the views.
RULES = {OURS: "equal weights", "mvkm": "the paper's weights", "regret": "regret weights"}
METHODS = {
    "single_view": Method("best single view", "central", single_view, by_view=True),
    "concatenated": Method("concatenated k-means", "central", concatenated),
    "central_equal": Method(RULES[OURS], "central", _central),
    "local_only": Method("concatenated k-means", "local", local_only),
    **{
        rule: Method(
            RULES[rule], "federated", functools.partial(multiview, view_weights=rule)
        )
        for rule in ("mvkm", "regret", OURS)
    },
}
