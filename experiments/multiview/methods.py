"""The methods: ours with each rule for view weights, and what they are compared with.

A method takes a `Problem` and returns an `Outcome`.  `central` methods see all points in
one place, which no federated method may; `local` ones see one client's points at a time.
All work on the same columns, standardised over all clients.
"""

import dataclasses
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from clustering_basics import agreement
from clustering_basics import single_thread_kmeans
from fl_clustering.points import grid_scaling

# The columns of an `Outcome`.
VALUES = ("nmi", "ari", "rounds", "view_weights", "objectives", "points")
ALL_VIEWS = "all"
_CENTRAL_RESTARTS = 10


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What a method gave once: scores against the known classes, and details of the fit.

  Attributes:
    nmi: Normalised mutual information; None where classes are not known.
    ari: Adjusted Rand index; likewise.
    rounds: Number of rounds of the best restart; None for other methods.
    objectives: The objective before the first round and after each.
    points: The number of points of every class in every cluster.
  """

  nmi: float | None = None
  ari: float | None = None
  rounds: int | None = None
  view_weights: tuple[float, ...] = ()
  objectives: tuple[float, ...] = ()
  points: dict[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)

  def to_row(self) -> dict[str, Any]:
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


def outcome_of_row(row: Mapping[str, Any]) -> Outcome:
  """Returns the `Outcome` of a row that was read from the table."""
  points = {}
  for line in (row["points"] or "").split("; "):
    if line:
      label, counts = line.split(": ")
      points[int(label)] = tuple(map(int, counts.split()))
  return Outcome(
      row["nmi"], row["ari"], row["rounds"], _numbers(row["view_weights"]),
      _numbers(row["objectives"]), points,
  )


def _text(numbers: Sequence[float]) -> str:
  return " ".join(repr(number) for number in numbers)


def _numbers(text: Any) -> tuple[float, ...]:
  # A lone number was read as a number, not as text.
  return tuple(map(float, str(text).split())) if text is not None else ()


def score(labels: np.ndarray | None, clusters: np.ndarray) -> Outcome:
  """Returns the outcome of clusters; without scores if `labels` is None."""
  if labels is None:
    return Outcome()
  return Outcome(
      nmi=agreement.normalized_mutual_information(labels, clusters),
      ari=agreement.adjusted_rand_index(labels, clusters),
  )


def count_points(
    labels: np.ndarray, clusters: np.ndarray, num_clusters: int
) -> dict[int, tuple[int, ...]]:
  return {
      int(label): tuple(np.bincount(clusters[labels == label], minlength=num_clusters).tolist())
      for label in np.unique(labels)
  }


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
  """Points at clients.

  Attributes:
    views: float64 of shape (n, d_h) by the view's name.
    labels: int64 of shape (n,), or None.
    shares: The indices of every client's points.
    settings: Settings of `FederatedMultiViewKMeans` that all of its rows share.
  """

  views: dict[str, np.ndarray]
  labels: np.ndarray | None
  shares: dict[str, np.ndarray]
  num_clusters: int
  seed: int
  settings: dict

  def side_by_side(self) -> np.ndarray:
    """Returns all views in one matrix, each with a total variance of one.

    Otherwise views with more columns would count more, and the baseline would be weaker.
    """
    views = map(_standardised, self.views.values())
    return np.concatenate([view / np.sqrt(view.var(axis=0).sum()) for view in views], axis=1)


def _standardised(view: np.ndarray) -> np.ndarray:
  # The mean of what is left of a constant column misses nothing.
  offsets = view - view[0]
  deviation = offsets.std(axis=0)
  varies = deviation > grid_scaling.rounding(view.mean(axis=0))
  return (offsets - offsets.mean(axis=0)) / np.where(varies, deviation, 1.0)


def _kmeans(points: np.ndarray, num_clusters: int, seed: int) -> np.ndarray:
  kmeans = single_thread_kmeans.fit(
      points, min(num_clusters, len(points)), n_init=_CENTRAL_RESTARTS, random_state=seed
  )
  return kmeans.labels_


def single_view(problem: Problem, view: str) -> Outcome:
  """Clusters all points by one view alone."""
  points = _standardised(problem.views[view])
  return score(problem.labels, _kmeans(points, problem.num_clusters, problem.seed))


def concatenated(problem: Problem) -> Outcome:
  """Clusters all points by all views side by side."""
  clusters = _kmeans(problem.side_by_side(), problem.num_clusters, problem.seed)
  return score(problem.labels, clusters)


def local_only(problem: Problem) -> Outcome:
  """Clusters every client's points alone; the mean score, a client weighs by its points."""
  points, labels = problem.side_by_side(), np.asarray(problem.labels)
  shares = [share for share in problem.shares.values() if len(share)]
  by_client: Any = [
      score(labels[share], _kmeans(points[share], problem.num_clusters, problem.seed))
      for share in shares
  ]
  sizes = [len(share) for share in shares]
  return Outcome(
      nmi=float(np.average([one.nmi for one in by_client], weights=sizes)),
      ari=float(np.average([one.ari for one in by_client], weights=sizes)),
  )


def fit(
    problem: Problem, view_weights: str, shares: Mapping[str, np.ndarray] | None = None
) -> Any:
  """Returns a fitted `FederatedMultiViewKMeans`.

  Args:
    view_weights: The rule that weighs the views: `equal`, `mvkm` or `regret`.
    shares: Which points each client has; the problem's own by default.
  """
  # Imported late: TensorFlow Federated takes seconds, and not all methods need it.
  from fl_clustering import multiview as lib  # pylint: disable=g-import-not-at-top

  shares = problem.shares if shares is None else shares
  model = lib.FederatedMultiViewKMeans(
      problem.num_clusters, view_weights=view_weights, random_state=problem.seed, **problem.settings
  )
  return model.fit({
      client_id: [view[share] for view in problem.views.values()]
      for client_id, share in shares.items() if len(share)
  })


def multiview(
    problem: Problem, view_weights: str, shares: Mapping[str, np.ndarray] | None = None
) -> Outcome:
  """Runs federated multi-view k-means; arguments as of `fit`."""
  model = fit(problem, view_weights, shares)
  clusters = model.predict(list(problem.views.values()))
  points: dict[int, tuple[int, ...]] = {}
  if problem.labels is not None:
    points = count_points(problem.labels, clusters, problem.num_clusters)
  return dataclasses.replace(
      score(problem.labels, clusters),
      rounds=model.n_iter_,
      view_weights=tuple(map(float, model.view_weights_)),
      objectives=tuple(record.objective for record in model.history_),
      points=points,
  )


def _central(problem: Problem, view_weights: str) -> Outcome:
  num_points = len(next(iter(problem.views.values())))
  return multiview(problem, view_weights, {"all": np.arange(num_points)})


@dataclasses.dataclass(frozen=True)
class Method:
  """A row of the table.

  Attributes:
    label: What the table calls it.
    place: Where the points are: `central`, `local` or `federated`.
    run: Called with a `Problem`, and a view's name if `by_view`.
    by_view: Whether it is run for each view alone.
    needs_labels: Whether it is left out for points without classes.
  """

  label: str
  place: str
  run: Callable[..., Outcome]
  by_view: bool = False
  needs_labels: bool = True


METHODS = {
    "single_view": Method("best single view", "central", single_view, by_view=True),
    "concatenated": Method("concatenated k-means", "central", concatenated),
    "central_equal": Method("equal weights", "central", lambda p: _central(p, "equal")),
    "local_only": Method("concatenated k-means", "local", local_only),
    "mvkm": Method(
        "the paper's weights", "federated", lambda p: multiview(p, "mvkm"), needs_labels=False
    ),
    "regret": Method(
        "regret weights", "federated", lambda p: multiview(p, "regret"), needs_labels=False
    ),
    "equal": Method(
        "equal weights", "federated", lambda p: multiview(p, "equal"), needs_labels=False
    ),
}
RULES = ("equal", "mvkm", "regret")
