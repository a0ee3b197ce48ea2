"""A fit without noise, from the clients' points to its result.

One round is one iteration of MVKM-ED over all points (`sums.py`), with fixed bandwidths, so with
one client it is the central algorithm.  The view weights follow from the costs at the centers that
the clients were sent.  No round raises the objective with `equal` and `mvkm`, up to the grid: the
new weights are best for those costs, and the new centers lower each.

The clients send totals of integers through secure sums, and nothing else.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence

import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from dp_clustering import noise
from dp_clustering import point_grid
from fl_clustering.kmeans import split_and_swap
from fl_clustering.kmeans import sums_fit
from fl_clustering.multiview import model as model_lib
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import private_fit
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import fitted
from fl_clustering.points import grid_scaling
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums


def _check_fields(field_widths: Sequence[int] | None, widths: Sequence[int]) -> None:
  """Raises a ValueError if a field is in two views."""
  ends = np.cumsum(widths)
  if field_widths is not None and not set(ends) <= set(np.cumsum(field_widths)):
    rule = f"sum to the {', '.join(map(str, widths))} columns of the views"
    raise validate.error("field_widths", rule, tuple(field_widths))


def find_view_grid(
    config: multiview_config.MultiViewConfig, clients: secure_sums.ClientPoints,
    widths: Sequence[int],
) -> tuple[grid_scaling.Grid, np.ndarray]:
  """Returns a grid in which all views have the same total variance, and their bandwidths.

  It follows from totals of integers alone, so it is the same bits whatever the order, the number
  or the split of the clients, which are in the data's own coordinates.

  Returns:
    The grid around the mean of all points, and one over the views' total variances, per squared
    grid step; float64 of shape (H,).

  Raises:
    ValueError: If there are too few points, a view does not vary, or a field is in two views.
  """
  _check_fields(config.field_widths, widths)
  grid = grid_scaling.find_grid(clients, standardize=True)
  grid.check_enough(config.n_clusters)
  means, deviations = grid_scaling.column_moments(grid.clients, grid.num_points)
  varies = deviations > 0
  grid_factor = np.where(varies, grid.clients.scaling.factor, 1.0)
  deviations = deviations / grid_factor
  factor = varies.astype(float)
  if config.standardize:
    units = grid_scaling.field_deviations(deviations**2, config.field_widths)
    factor[varies] /= units[varies]
  for view, place in enumerate(sums_lib.columns(widths)):
    spread = np.linalg.norm(factor[place] * deviations[place])
    if spread == 0:
      raise ValueError(
          "`clients` must have views that vary over all points, got the same values "
          f"everywhere in view {view}."
      )
    factor[place] /= spread
  # No view of a point is farther from the mean than the root of the sum of all squares.
  # That is n; the rest is room for rounding.
  steps = point_grid.POINT_STEPS / np.sqrt(1.001 * grid.num_points * len(widths))
  shift = grid.clients.scaling.shift + means / grid_factor
  view_grid = dataclasses.replace(
      grid,
      clients=clients.scaled(secure_sums.Scaling(shift, steps * factor)),
      step=1 / steps,
      column_factor=np.where(varies, grid.column_factor, 0.0),
  )
  return view_grid, np.full(len(widths), 1 / steps**2)


def _has_converged(history: list[server_step.RoundRecord], tol: float) -> bool:
  if len(history) < 2:
    return False
  before, now = history[-2].objective, history[-1].objective
  return abs(before - now) < tol * abs(before)


@dataclasses.dataclass(frozen=True, eq=False)
class _Problem:
  """What all restarts of a fit share.

  Attributes:
    config: Without `privacy`.
    rates: The views' bandwidths per squared grid step, of shape (H,).
  """

  config: multiview_config.MultiViewConfig
  grid: grid_scaling.Grid
  rates: np.ndarray
  widths: tuple[int, ...]

  def alone(self, view: int) -> _Problem:
    """Returns the same problem with all other views at zero, where they decide nothing."""
    clients = self.grid.clients
    factor = np.zeros_like(clients.scaling.factor)
    place = sums_lib.columns(self.widths)[view]
    factor[place] = clients.scaling.factor[place]
    scaling = dataclasses.replace(clients.scaling, factor=factor)
    grid = dataclasses.replace(self.grid, clients=clients.scaled(scaling))
    return dataclasses.replace(self, grid=grid)

  def _first_centers(self, restart: int) -> np.ndarray:
    """Returns the centers of k-means on all views side by side, of shape (K, D).

    So center k is the same cluster in all views.
    """
    num_clusters = self.config.n_clusters
    capacity = split_and_swap.largest_num_centers(num_clusters)
    points = secure_sums.FederatedPoints(self.grid.clients, capacity)
    return split_and_swap.sums_kmeans(
        points.totals, points.dim, sums_fit.sum_of_squares(points), num_clusters,
        randomness.generator(self.config.seed, "first centers", restart),
    ).centers

  def run(self, weigh: server_step.Weigh, restart: int) -> fitted.Fit:
    """Returns the fit of one restart."""
    num_views = len(self.widths)
    model = server_step.MultiViewModel(
        centers=server_step.on_grid(self._first_centers(restart)),
        view_weights=np.full(num_views, 1 / num_views),
        alpha=self.config.alpha,
        rates=self.rates,
        widths=self.widths,
    )
    points = secure_sums.FederatedPoints(self.grid.clients, self.config.n_clusters)
    history: list[server_step.RoundRecord] = []
    for _ in range(self.config.num_rounds):
      asked, sums = model, self._ask(points, model)
      history.append(server_step.record(asked, sums))
      moves = server_step.moves(asked, sums)
      model = asked.moved(moves, weigh(sums.view_costs))
      if _has_converged(history, self.config.tol):
        break
    # The centers that the last round led to.
    clients, cells = self.grid.in_column_steps()
    fine_points = dataclasses.replace(points, clients=clients)
    fine_query = server_step.fine_query(asked, cells)
    centers = server_step.fine_means(fine_query, fine_points.totals(fine_query))
    last = server_step.record(model, self._ask(points, model))
    scaling = self.grid.clients.scaling
    return fitted.Fit(
        model_lib.FittedViews(model), scaling, scaling.undo(centers), (*history, last),
        len(history), last.objective,
        num_clusters_found=int(np.count_nonzero(last.cluster_sizes)),
        num_centers_on_few_points=int(np.count_nonzero(sums.counts < privacy_lib.FEW_POINTS)),
    )

  def _ask(
      self, points: secure_sums.FederatedPoints, model: server_step.MultiViewModel
  ) -> server_step.KernelStatistics:
    """Returns the sums at a model."""
    query = model.query()
    return server_step.statistics(query, points.totals(query))

  def own_costs(self) -> np.ndarray:
    """Returns the cost that every view reaches when it is clustered alone.

    Of one restart: k-means from sums comes near the best, and only a measure is needed.
    """
    num_views = len(self.widths)
    weigh = lambda view_costs: np.full(num_views, 1 / num_views)
    return np.array([
        self.alone(view).run(weigh, restart=0).history[-1].view_costs[view]
        for view in range(num_views)
    ])


def fit(
    config: multiview_config.MultiViewConfig, clients: secure_sums.ClientPoints,
    widths: tuple[int, ...], noise_source: noise.Source | None = None,
) -> fitted.Fit:
  """Fits centers of views to clients from `privacy.hold`.

  Without `privacy` it is the restart with the lowest objective, and its history ends with the model
  itself.

  If the weights depend on the views' own costs, the objective counts every view's cost in
  units of its own cost: the plain objective rises when the weights become less equal.

  Args:
    noise_source: With `privacy`; secure noise by default.

  Raises:
    ValueError: If there are too few points, or a view does not vary, without `privacy`.
  """
  if config.privacy is not None:
    return private_fit.fit(config, clients, widths, noise_source or noise.SecureNoise())
  grid, rates = find_view_grid(config, clients, widths)
  problem = _Problem(config, grid, rates, widths)
  own_costs = problem.own_costs() if config.rule.needs_own_costs else None
  units = 1.0 if own_costs is None else np.maximum(own_costs, multiview_config.LEAST_COST)
  weigh = lambda view_costs: config.rule.weigh(view_costs, own_costs, config.alpha)
  fits = (problem.run(weigh, restart) for restart in range(config.n_init))
  return min(
      fits, key=lambda fit: fit.model.on_grid.view_factors @ (fit.history[-1].view_costs / units)
  )
