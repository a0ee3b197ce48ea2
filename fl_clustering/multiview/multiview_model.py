"""What the server knows between rounds, and its own step: divide the clients' sums."""

import collections
import dataclasses

import numpy as np

# Below this a cluster has no point that the kernel still sees.
_LEAST_KERNEL_WEIGHT = 1e-300


@dataclasses.dataclass(frozen=True)
class Scaling:
  """How columns become the coordinates in which distances are taken.

  Attributes:
    mean: What is taken from a column, float64 of shape (D,).
    scale: What it is then multiplied by, float64 of shape (D,); zero where a column
      is the same everywhere.
  """

  mean: np.ndarray
  scale: np.ndarray

  def apply(self, points):
    """Returns points of shape (n, D) in scaled coordinates."""
    return (points - self.mean) * self.scale

  def undo(self, points):
    """Returns scaled points in the data's own units."""
    safe = np.where(self.scale > 0, self.scale, 1.0)
    return points / safe + self.mean


@dataclasses.dataclass(frozen=True)
class MultiViewModel:
  """A model between two rounds.

  Attributes:
    centers: float64 of shape (K, D) in scaled coordinates, the views side by side.
    view_weights: float64 of shape (H,), sum one.
    alpha: The weights' exponent in the objective.
    betas: float64 of shape (H,).
    scaling: `Scaling`.
  """

  centers: np.ndarray
  view_weights: np.ndarray
  alpha: float
  betas: np.ndarray
  scaling: Scaling

  @property
  def view_factors(self):
    return self.view_weights**self.alpha

  def message(self):
    """Returns what the clients are sent."""
    return collections.OrderedDict(
        centers=self.centers,
        betas=self.betas,
        view_factors=self.view_factors,
        mean=self.scaling.mean,
        scale=self.scaling.scale,
    )


@dataclasses.dataclass(frozen=True)
class RoundRecord:
  """A model's figures over all clients; what the model was, not what came of it.

  Attributes:
    objective: J, see `kernel_sums.py`.
    view_weights: float64 of shape (H,).
    view_costs: float64 of shape (H,), the views' unweighted parts of J.
    cluster_sizes: float64 of shape (K,), whole numbers unless noise was added.
  """

  objective: float
  view_weights: np.ndarray
  view_costs: np.ndarray
  cluster_sizes: np.ndarray


def record(model, sums):
  """Returns the `RoundRecord` of a model and its `kernel_sums` over all clients."""
  return RoundRecord(
      objective=float(model.view_factors @ sums["view_costs"]),
      view_weights=model.view_weights,
      view_costs=sums["view_costs"],
      cluster_sizes=sums["counts"],
  )


def moved_centers(centers, sums, widths, least_kernel_weight=_LEAST_KERNEL_WEIGHT):
  """Returns the kernel-weighted means; a center without points stays where it is.

  Args:
    centers: float64 of shape (K, D).
    sums: A dict as from `kernel_sums`, over all clients.
    widths: The views' numbers of columns.
    least_kernel_weight: The sum of kernel weights up to which a center stays.
  """
  kernel_weights = np.repeat(sums["kernel_weights"], widths, axis=1)
  moves = kernel_weights > least_kernel_weight
  return np.where(
      moves, sums["weighted_points"] / np.where(moves, kernel_weights, 1.0), centers
  )


def next_model(model, sums, widths, weigh):
  """Returns the model after a round.

  Args:
    model: The `MultiViewModel` that the clients were sent.
    sums: A dict as from `kernel_sums`, over all clients.
    widths: The views' numbers of columns.
    weigh: A function from the views' costs to their weights.
  """
  return dataclasses.replace(
      model,
      centers=moved_centers(model.centers, sums, widths),
      view_weights=weigh(sums["view_costs"]),
  )
