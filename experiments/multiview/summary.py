"""What the measurements come to: means and deviations over the seeds."""

import numpy as np
from scipy import optimize

from experiment_shell import scores
from experiments.multiview import methods
from experiments.multiview import outcome

# The partition of a central method: there are no clients.
POOLED = "pooled"


class Results:
  """The outcomes of one data set.

  Attributes:
    seeds: The seeds, in their order.
    partitions: The partitions, in their order, without `POOLED`.
  """

  def __init__(self, rows, dataset):
    """Takes the rows of `dataset` from a study's rows."""
    self._outcomes = {
        (row["method"], row["partition"], row["view"], row["seed"]): outcome.from_row(row)
        for row in rows if row["dataset"] == dataset
    }
    self.seeds = sorted({seed for *_, seed in self._outcomes})
    partitions = dict.fromkeys(partition for _, partition, _, _ in self._outcomes)
    self.partitions = [partition for partition in partitions if partition != POOLED]

  def outcome(self, method, partition, seed, view=methods.ALL_VIEWS):
    """Returns one `Outcome`, or None if it was not measured."""
    return self._outcomes.get((method, partition, view, seed))

  def _over_seeds(self, method, partition, view, quantity):
    outcomes = (self.outcome(method, partition, seed, view) for seed in self.seeds)
    return scores.summarize([getattr(one, quantity) for one in outcomes if one is not None])

  def single_view(self, view, quantity):
    """Returns the `Spread` of k-means on one view alone, or None."""
    return self._over_seeds("single_view", POOLED, view, quantity)

  def best_view(self):
    """Returns the view whose k-means has the best NMI: a choice that needs the labels."""
    views = dict.fromkeys(view for method, _, view, _ in self._outcomes if method == "single_view")
    return max(views, key=lambda view: self.single_view(view, "nmi").mean, default=None)

  def score(self, method, partition, quantity):
    """Returns the `Spread` of a method, or None if it was not measured there."""
    if method == "single_view":
      best = self.best_view()
      return self.single_view(best, quantity) if best else None
    row = methods.METHODS.get(method)
    if row is not None and row.place == "central":
      partition = POOLED
    return self._over_seeds(method, partition, methods.ALL_VIEWS, quantity)

  def view_weights(self, rule, partition):
    """Returns a `Spread` per view of the weights by a rule."""
    outcomes = [self.outcome(rule, partition, seed) for seed in self.seeds]
    weights = zip(*(one.view_weights for one in outcomes if one is not None))
    return [scores.summarize(values) for values in weights]


def matched_points(points):
  """Returns how many points of each class are in each cluster, as a matrix.

  Args:
    points: A mapping of class to counts, as in `Outcome`.

  Returns:
    Array of shape (number of classes, number of clusters), the clusters in the order
    that puts most points on the diagonal.
  """
  matrix = np.array(list(points.values()))
  rows, columns = optimize.linear_sum_assignment(-matrix)
  matched = [column for _, column in sorted(zip(rows, columns))]
  rest = [column for column in range(matrix.shape[1]) if column not in matched]
  return matrix[:, matched + rest]
