"""A fit of federated multi-view k-means from the clients' files to its result.

One round is one iteration of MVKM-ED over all points (`sums.py`), so with one client it is
the central algorithm.  The view weights follow from the costs at the centers that the
clients were sent.  No round raises the objective with `equal` and `mvkm`: the new weights
are best for those costs, and the new centers lower each.
"""

import dataclasses
import functools
from typing import Any, Mapping, Optional

import numpy as np

from clustering_basics import randomness
from fl_clustering.multiview import first_centers
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import rounds as rounds_lib
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.multiview import view_weights
from fl_clustering.points import noise as noise_lib
from fl_clustering.points import point_files
from fl_clustering.points import scaling as scaling_lib


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
  """The result of a fit.

  Attributes:
    scaling: The `Scaling` of the coordinates that were clustered.
    model: A `MultiViewModel`.
    history: Tuple of `RoundRecord`, one per round: of the model that the round
      started from.  Without noise, the last one is of `model` itself.
    privacy_spent: The `spent` of the `RoundNoise`, or None.
  """

  scaling: scaling_lib.Scaling
  model: server_step.MultiViewModel
  history: tuple[server_step.RoundRecord, ...]
  privacy_spent: Optional[Mapping[str, Any]] = None


def _has_converged(history, tol):
  if len(history) < 2:
    return False
  before, now = history[-2].objective, history[-1].objective
  return abs(before - now) < tol * abs(before)


def _run_rounds(config, rounds, model, update):
  """Runs rounds until the objective settles.

  Args:
    config: `MultiViewConfig`.
    rounds: `Rounds`.
    model: The `MultiViewModel` to start from.
    update: A function of (model, sums) that returns the next model.

  Returns:
    The last model, and a list of the records of all models before it.
  """
  history = []
  for _ in range(config.num_rounds):
    sums = rounds.kernel_sums(model)
    history.append(server_step.record(model, sums))
    model = update(model, sums)
    if _has_converged(history, config.tol):
      break
  return model, history


@dataclasses.dataclass(frozen=True, eq=False)
class _Problem:
  """What all restarts of a fit without noise share.

  Attributes:
    config: `MultiViewConfig` without `privacy`.
    files: The clients as `PointFiles`, in the coordinates of the fit.
    widths: The views' numbers of columns.
    betas: The views' bandwidths.
  """

  config: multiview_config.MultiViewConfig
  files: point_files.PointFiles
  widths: tuple[int, ...]
  betas: np.ndarray

  def run(self, weigh, restart, views_apart=False):
    """Returns the `Fit` of one restart; `weigh` makes view weights of costs."""
    num_views = len(self.widths)
    model = server_step.MultiViewModel(
        centers=first_centers.first_centers(
            self.config, self.files, self.widths, self.betas, restart, views_apart
        ),
        view_weights=np.full(num_views, 1 / num_views),
        alpha=self.config.alpha,
        betas=self.betas,
    )
    local_sums = sums_lib.kernel_sums_apart if views_apart else sums_lib.kernel_sums
    rounds = rounds_lib.Rounds(self.files, self.widths, local_sums=local_sums)
    update = functools.partial(server_step.next_model, widths=self.widths, weigh=weigh)
    model, history = _run_rounds(self.config, rounds, model, update)
    last = server_step.record(model, rounds.kernel_sums(model))
    return Fit(self.files.scaling, model, (*history, last))

  def own_costs(self):
    """Returns the least cost that every view reaches when it is clustered alone."""
    num_views = len(self.widths)
    weigh = lambda view_costs: np.full(num_views, 1 / num_views)
    fits = (self.run(weigh, restart, views_apart=True) for restart in range(self.config.n_init))
    return np.min([fit.history[-1].view_costs for fit in fits], axis=0)


def fit(config, files, widths):
  """Fits a model by exact sums.

  Args:
    config: `MultiViewConfig` without `privacy`.
    files: The clients as `PointFiles`.
    widths: The views' numbers of columns.

  Returns:
    The `Fit` of the restart with the lowest objective.  If the weights depend on the
    views' own costs, the objective counts every view's cost in units of its own cost: the
    plain objective rises when the weights become less equal.

  Raises:
    ValueError: If a view does not vary.
  """
  moments = files.column_moments()
  scaling = scaling_lib.centered_scaling(moments, config.standardize)
  betas = view_weights.view_betas(moments, config.standardize, widths)
  problem = _Problem(config, files.scaled(scaling), widths, betas)
  own_costs = problem.own_costs() if config.rule.needs_own_costs else None
  units = 1.0 if own_costs is None else np.maximum(own_costs, view_weights.LEAST_COST)
  weigh = lambda view_costs: config.rule.weigh(view_costs, own_costs, config.alpha)
  fits = (problem.run(weigh, restart) for restart in range(config.n_init))
  return min(
      fits, key=lambda fit: fit.model.view_factors @ (fit.history[-1].view_costs / units)
  )


def fit_privately(config, files, widths):
  """Fits a model by noisy sums.

  Nothing else looks at the data: columns are measured in the norms that are known, and
  the first centers are drawn.

  Args:
    config: `MultiViewConfig` with `privacy`.
    files: The clients as `PointFiles`.
    widths: The views' numbers of columns.

  Returns:
    A `Fit`.
  """
  noise = config.privacy.round_noise(config.num_rounds)
  scaling = scaling_lib.Scaling(
      np.zeros(sum(widths)), 1 / np.repeat(config.privacy.view_norms, widths)
  )
  rounds = rounds_lib.Rounds(
      files.scaled(scaling), widths, local_sums=sums_lib.projected_sums,
      sum_factory=noise_lib.noisy_sum_factory(noise.std),
  )
  rng = randomness.generator(config.seed, "private centers")
  num_views = len(widths)
  model = server_step.MultiViewModel(
      centers=server_step.first_private_centers(config.n_clusters, widths, rng),
      view_weights=np.full(num_views, 1 / num_views),
      alpha=config.alpha,
      betas=np.ones(num_views),
  )
  update = functools.partial(
      server_step.next_private_model,
      widths=widths,
      weigh=lambda view_costs: config.rule.weigh(view_costs, None, config.alpha),
      std=noise.std,
      rng=rng,
  )
  model, history = _run_rounds(config, rounds, model, update)
  return Fit(scaling, model, tuple(history), noise.spent)
