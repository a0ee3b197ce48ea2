"""The tutorial's simulated DHA: its claims, its printed program, and what else one gets."""

import dataclasses
from typing import Callable, Optional

import numpy as np

from experiments.multiview import methods
from experiments.multiview import outcome
from experiments.multiview import printed_algorithm
from experiments.multiview import simulated_dha


@dataclasses.dataclass(frozen=True, eq=False)
class Demonstration:
  """One drawing of the tutorial's data at its three sites.

  Attributes:
    problem: A `methods.Problem`; the first two sites share points.
    rng: The generator after drawing, for the printed program to go on with.
  """

  problem: methods.Problem
  rng: np.random.RandomState

  @property
  def sites(self):
    return [
        [view[share] for view in self.problem.views.values()]
        for share in self.problem.shares.values()
    ]

  @property
  def site_labels(self):
    return [self.problem.labels[share] for share in self.problem.shares.values()]


def draw(seed, settings):
  """Returns the `Demonstration` of a seed; 42 is the tutorial's."""
  rng = np.random.RandomState(seed)
  views, labels = simulated_dha.draw(rng)
  shares = simulated_dha.split(labels, rng)
  views = dict(zip(simulated_dha.VIEW_NAMES, views))
  problem = methods.Problem(
      views, labels, shares, simulated_dha.NUM_CLUSTERS, seed, settings
  )
  return Demonstration(problem, rng)


def _printed(demonstration):
  clusters = printed_algorithm.federated_clusters(
      demonstration.sites, simulated_dha.NUM_CLUSTERS, demonstration.rng
  )
  # As the tutorial does, with the points that two sites share counted twice.
  return outcome.score(np.concatenate(demonstration.site_labels), clusters)


def _printed_local(demonstration, weights=None, chosen=slice(None)):
  clusters = [
      printed_algorithm.local_clusters(
          views[chosen], simulated_dha.NUM_CLUSTERS, demonstration.rng
      )
      for views in demonstration.sites
  ]
  return outcome.mean_score(demonstration.site_labels, clusters, weights)


@dataclasses.dataclass(frozen=True)
class Row:
  """A row of the demonstration's table.

  Attributes:
    label: What the table calls it.
    claim: The tutorial's row that it stands beside, a key of `simulated_dha.CLAIMS`.
    run: A function from a `Demonstration` to an `Outcome`.
  """

  label: str
  claim: Optional[str]
  run: Callable


ROWS = {
    "printed": Row("the tutorial's Fed-MVKM, as printed", "Fed-MVKM", _printed),
    # It says not which view, and prints no program for it.
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
        lambda d: _printed_local(d, [len(labels) for labels in d.site_labels]),
    ),
    "local_kmeans": Row(
        "k-means at each site, weighted by size", None,
        lambda d: methods.local_only(d.problem),
    ),
    "central_one_view": Row(
        "central k-means, colour alone", None,
        lambda d: methods.single_view(d.problem, simulated_dha.VIEW_NAMES[1]),
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
