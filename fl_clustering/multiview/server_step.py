"""What the server knows between rounds, and its own step: divide the clients' sums."""

import collections
import dataclasses

import numpy as np

from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import noise as noise_lib

# Below this a cluster has no point that the kernel still sees.
_LEAST_KERNEL_WEIGHT = 1e-300
# Of the views' norms: where private fits start, and how far apart clusters are split.
_JITTER = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class MultiViewModel:
  """A model between two rounds, in the coordinates that the clients compute in.

  Attributes:
    centers: float64 of shape (K, D), the views side by side.
    view_weights: float64 of shape (H,), sum one.
    alpha: The weights' exponent in the objective.
    betas: float64 of shape (H,).
  """

  centers: np.ndarray
  view_weights: np.ndarray
  alpha: float
  betas: np.ndarray

  @property
  def view_factors(self):
    return self.view_weights**self.alpha

  def message(self):
    """Returns what the clients are sent."""
    return collections.OrderedDict(
        centers=self.centers, betas=self.betas, view_factors=self.view_factors
    )


@dataclasses.dataclass(frozen=True, eq=False)
class RoundRecord:
  """Figures over all clients of the model that a round started from.

  Attributes:
    objective: J, see `sums.py`.
    view_weights: float64 of shape (H,).
    view_costs: float64 of shape (H,), the views' unweighted parts of J.
    cluster_sizes: float64 of shape (K,), whole numbers unless noise was added.
  """

  objective: float
  view_weights: np.ndarray
  view_costs: np.ndarray
  cluster_sizes: np.ndarray


def record(model, sums):
  """Returns the `RoundRecord` of a model.

  Args:
    model: The `MultiViewModel` that the clients were sent.
    sums: A dict as from `kernel_sums`, over all clients.
  """
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


def first_private_centers(num_clusters, widths, rng):
  """Draws centers near the middle of the balls; the data have no say.

  From there the first clusters are sectors of about the same size.

  Args:
    num_clusters: Number of clusters, K.
    widths: The views' numbers of columns, which sum to D.
    rng: A `np.random.Generator`.

  Returns:
    float64 of shape (K, D).
  """
  drawn = rng.standard_normal((num_clusters, sum(widths)))
  return _JITTER * sums_lib.project(drawn, widths).numpy()


def next_private_model(model, sums, widths, weigh, std, rng):
  """Returns the model after a noisy round.

  Args:
    model: The `MultiViewModel` that the clients were sent.
    sums: A dict as from `projected_sums`, over all clients, with noise.
    widths: The views' numbers of columns.
    weigh: A function from the views' costs to their weights.
    std: Standard deviation of the noise on every sum.
    rng: A `np.random.Generator`; it moves centers, and makes no noise.
  """
  sums = {name: np.asarray(value, np.float64) for name, value in sums.items()}
  # A quotient of noise by noise would be anywhere.
  centers = moved_centers(model.centers, sums, widths, least_kernel_weight=max(1.0, std))
  centers = noise_lib.without_empty_clusters(centers, sums["counts"], std, _JITTER, rng)
  return dataclasses.replace(
      model,
      centers=sums_lib.project(centers, widths).numpy(),
      view_weights=weigh(sums["view_costs"]),
  )
