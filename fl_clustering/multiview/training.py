"""Federated multi-view k-means from the clients' files to a model.

One round is one iteration of MVKM-ED over all points (`kernel_sums.py`), so that one
client gives the central algorithm.  The view weights follow from the costs at the
centers that the clients were sent; no round then raises the objective with `equal` and
`mvkm`, as the new weights are best for those costs and the new centers lower each.
"""

import dataclasses

import numpy as np

from clustering_basics import randomness
from fl_clustering.multiview import column_moments
from fl_clustering.multiview import initialization
from fl_clustering.multiview import multiview_model
from fl_clustering.multiview import multiview_rounds
from fl_clustering.multiview import point_privacy
from fl_clustering.multiview import view_weights


@dataclasses.dataclass(frozen=True)
class Fit:
  """What a fit found.

  Attributes:
    model: A `MultiViewModel`.
    history: Tuple of `RoundRecord`, one per round: of the model that the round
      started from.  Without noise, the last one is of `model` itself.
  """

  model: multiview_model.MultiViewModel
  history: tuple[multiview_model.RoundRecord, ...]


def _has_converged(history, tol):
  if len(history) < 2:
    return False
  before, now = history[-2].objective, history[-1].objective
  return abs(before - now) < tol * abs(before)


def run_rounds(model, kernel_round, update, num_rounds, tol):
  """Runs rounds until the objective settles.

  Args:
    model: The `MultiViewModel` to start from.
    kernel_round: A function from a model's message to the sums over all clients.
    update: A function of (model, sums) that returns the next model.
    num_rounds: Most rounds.
    tol: See `MultiViewConfig`.

  Returns:
    The last model, and a list of the records of all models before it.
  """
  history = []
  for _ in range(num_rounds):
    sums = kernel_round(model.message())
    history.append(multiview_model.record(model, sums))
    model = update(model, sums)
    if _has_converged(history, tol):
      break
  return model, history


class _Training:
  """A fit without noise: moments, restarts, and every view alone where asked for."""

  def __init__(self, config, paths, widths):
    self._config = config
    self._paths = list(paths.values())
    self._widths = widths
    self._initialization = initialization.Initialization(
        paths, widths, config.n_clusters, config.min_count, config.seed
    )
    moments = self._moments()
    self._scaling = column_moments.scaling(moments, config.standardize)
    self._betas = column_moments.view_betas(moments, config.standardize, widths)

  def _moments(self):
    num_columns = sum(self._widths)
    num_points, sums = multiview_rounds.build_column_sums(num_columns)(self._paths)
    mean = sums / num_points
    squares = multiview_rounds.build_column_squares(num_columns)(mean, self._paths)
    return column_moments.from_sums(num_points, mean, squares)

  def _run(self, weigh, restart, views_apart=False):
    """Returns the `Fit` of one restart."""
    config, num_views = self._config, len(self._widths)
    centers = self._initialization.centers(
        self._scaling, self._betas, restart, views_apart
    )
    sums_round = multiview_rounds.build_kernel_round(
        self._widths, config.n_clusters, views_apart
    )
    kernel_round = lambda message: sums_round(message, self._paths)
    model = multiview_model.MultiViewModel(
        centers, np.full(num_views, 1 / num_views), config.alpha, self._betas, self._scaling
    )
    model, history = run_rounds(
        model, kernel_round,
        lambda model, sums: multiview_model.next_model(model, sums, self._widths, weigh),
        config.num_rounds, config.tol,
    )
    last = multiview_model.record(model, kernel_round(model.message()))
    return Fit(model, (*history, last))

  def _own_costs(self):
    """Returns the least cost that every view reaches when it is clustered alone."""
    num_views = len(self._widths)
    weigh = lambda view_costs: np.full(num_views, 1 / num_views)
    fits = (self._run(weigh, restart, views_apart=True) for restart in range(self._config.n_init))
    return np.min([fit.history[-1].view_costs for fit in fits], axis=0)

  def best_fit(self):
    """Returns the restart with the lowest objective.

    Where weights depend on the views' own costs, these are the units of their costs: the
    plain objective rises when the weights become less equal.
    """
    config, num_views = self._config, len(self._widths)
    own_costs = self._own_costs() if config.rule.needs_own_costs else None
    units = 1.0 if own_costs is None else np.maximum(own_costs, view_weights.LEAST_COST)
    weigh = lambda view_costs: config.rule.weigh(view_costs, own_costs, config.alpha)
    fits = (self._run(weigh, restart) for restart in range(config.n_init))
    return min(
        fits, key=lambda fit: fit.model.view_factors @ (fit.history[-1].view_costs / units)
    )


def fit(config, paths, widths):
  """Fits a model by exact sums.

  Args:
    config: `MultiViewConfig` without `privacy`.
    paths: The clients' files by client id, as from `point_source.write_files`.
    widths: The views' numbers of columns.

  Returns:
    A `Fit`.

  Raises:
    ValueError: If a view does not vary.
  """
  return _Training(config, paths, widths).best_fit()


def fit_privately(config, paths, widths):
  """Fits a model by noisy sums.

  Nothing else looks at the data: columns are measured in the norms that are known, and
  the first centers are drawn.

  Args:
    config: `MultiViewConfig` with `privacy`.
    paths: See `fit`.
    widths: See `fit`.

  Returns:
    A `Fit`, and what it guarantees as from `point_privacy.privacy_spent`.
  """
  from fl_clustering.multiview import private_round  # pylint: disable=g-import-not-at-top

  privacy = config.privacy
  multiplier = point_privacy.noise_multiplier(privacy, config.num_rounds)
  spent = point_privacy.privacy_spent(privacy, config.num_rounds)
  kernel_round = private_round.build_private_kernel_round(widths, config.n_clusters, multiplier)
  rng = randomness.generator(config.seed, "private centers")
  num_views = len(widths)
  model = multiview_model.MultiViewModel(
      centers=private_round.first_centers(config.n_clusters, widths, rng),
      view_weights=np.full(num_views, 1 / num_views),
      alpha=config.alpha,
      betas=np.ones(num_views),
      scaling=multiview_model.Scaling(
          np.zeros(sum(widths)), 1 / np.repeat(privacy.view_norms, widths)
      ),
  )
  weigh = lambda view_costs: config.rule.weigh(view_costs, None, config.alpha)
  std = private_round.noise_std(multiplier, num_views)
  model, history = run_rounds(
      model,
      lambda message: kernel_round(message, list(paths.values())),
      lambda model, sums: private_round.next_model(model, sums, widths, weigh, std, rng),
      config.num_rounds, config.tol,
  )
  return Fit(model, tuple(history)), spent
