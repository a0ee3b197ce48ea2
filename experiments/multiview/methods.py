"""The methods of the table: ours by its view weights, and what it is compared with.

A method takes a `Problem` and gives an `Outcome`.  `central` methods see all points at
one place, as no federated method may; `local` ones see one client's at a time.  All work
on the same columns, standardised over all clients.
"""

import dataclasses
from typing import Callable, Optional

import numpy as np

from clustering_basics import single_thread_kmeans
from experiments.multiview import outcome

ALL_VIEWS = "all"
_CENTRAL_RESTARTS = 10


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
  """Points at clients.

  Attributes:
    views: A mapping of view name to float64 of shape (n, d_h).
    labels: int64 of shape (n,), or None.
    shares: A mapping of client id to the indices of its points.
    num_clusters: Number of clusters.
    seed: The methods' seed.
    settings: Settings of `FederatedMultiViewKMeans` that all of its rows share.
  """

  views: dict[str, np.ndarray]
  labels: Optional[np.ndarray]
  shares: dict[str, np.ndarray]
  num_clusters: int
  seed: int
  settings: dict

  def side_by_side(self):
    """Returns all views in one matrix, each with a total variance of one.

    Without that a view would count by its number of columns: the weaker baseline.
    """
    views = map(_standardised, self.views.values())
    return np.concatenate([view / np.sqrt(view.var(axis=0).sum()) for view in views], axis=1)


def _standardised(view):
  deviation = view.std(axis=0)
  return (view - view.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _kmeans(points, num_clusters, seed):
  kmeans = single_thread_kmeans.fit(
      points, min(num_clusters, len(points)), n_init=_CENTRAL_RESTARTS, random_state=seed
  )
  return kmeans.labels_


def single_view(problem, view):
  """Clusters all points by one view alone."""
  points = _standardised(problem.views[view])
  return outcome.score(problem.labels, _kmeans(points, problem.num_clusters, problem.seed))


def concatenated(problem):
  """Clusters all points by all views side by side."""
  clusters = _kmeans(problem.side_by_side(), problem.num_clusters, problem.seed)
  return outcome.score(problem.labels, clusters)


def local_only(problem):
  """Clusters every client's points alone; the mean score over the clients' points."""
  points = problem.side_by_side()
  shares = [share for share in problem.shares.values() if len(share)]
  clusters = [_kmeans(points[share], problem.num_clusters, problem.seed) for share in shares]
  return outcome.mean_score(
      [problem.labels[share] for share in shares], clusters, [len(share) for share in shares]
  )


def fit(problem, view_weights, shares=None):
  """Fits federated multi-view k-means to a problem.

  Args:
    problem: The `Problem`.
    view_weights: Which rule weighs the views.
    shares: Which points each client has; the problem's own by default.

  Returns:
    The fitted model.
  """
  # Here, since TensorFlow Federated takes seconds to import.
  from fl_clustering import multiview as lib  # pylint: disable=g-import-not-at-top

  shares = problem.shares if shares is None else shares
  model = lib.FederatedMultiViewKMeans(
      problem.num_clusters, view_weights=view_weights, seed=problem.seed, **problem.settings
  )
  return model.fit({
      client_id: [view[share] for view in problem.views.values()]
      for client_id, share in shares.items() if len(share)
  })


def multiview(problem, view_weights, shares=None):
  """Runs federated multi-view k-means; arguments as for `fit`."""
  model = fit(problem, view_weights, shares)
  clusters = model.predict(list(problem.views.values()))
  points = {}
  if problem.labels is not None:
    points = outcome.count_points(problem.labels, clusters, problem.num_clusters)
  return dataclasses.replace(
      outcome.score(problem.labels, clusters),
      rounds=model.n_rounds_,
      view_weights=tuple(map(float, model.view_weights_)),
      objectives=tuple(record.objective for record in model.history_),
      points=points,
  )


def _central(problem, view_weights):
  num_points = len(next(iter(problem.views.values())))
  return multiview(problem, view_weights, {"all": np.arange(num_points)})


@dataclasses.dataclass(frozen=True)
class Method:
  """A row of the table.

  Attributes:
    label: What the table calls it.
    place: Where the points are: `central`, `local` or `federated`.
    run: A function from a `Problem` (and a view's name, if `by_view`) to an `Outcome`.
    by_view: Whether it is run for each view alone.
    needs_labels: Whether it can't say anything about points without classes.
  """

  label: str
  place: str
  run: Callable[..., outcome.Outcome]
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
