"""A private fit: `dp_clustering.refine` on all views side by side, then noisy kernel rounds.

The number of rounds, the size of every message and the noise are fixed before the first
round, and no content of a client's rows raises an error or a warning.  Nothing but the noisy
totals looks at the data: columns are measured in the norms that are known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from clustering_basics import randomness
from dp_clustering import ledger as ledger_lib
from dp_clustering import point_grid
from dp_clustering import private_centers
from fl_clustering.kmeans import private_fit as kmeans_fit
from fl_clustering.multiview import model as model_lib
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import fitted
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from dp_clustering import noise
  from fl_clustering.multiview import multiview_config

# Precision of the counts relative to that of the other sums.
_COUNT_WEIGHT = 0.5

_COVERS = (
    "the centers, view weights and history; not the labels that `predict` gives, which are "
    "functions of the point itself"
)


def noisy_statistics(
    noisy_totals: privacy_lib.NoisyTotals, ledger: ledger_lib.Ledger,
    model: server_step.MultiViewModel, mu: float, name: str,
) -> tuple[server_step.KernelStatistics, float]:
  """Returns the noisy statistics of a model, and the standard deviation of `residual_sums`.

  Args:
    mu: Cost of the release, mu of Gaussian differential privacy.
  """
  sensitivity = sums_lib.sensitivity(len(model.widths), _COUNT_WEIGHT)
  std = sensitivity / mu
  ledger.record(name, mu, sensitivity, std)
  steps = point_grid.CONTRIBUTION_STEPS
  query = model.query(steps)
  stds = {
      "residual_sums": std * steps,
      "excesses": std * steps,
      "counts": std * steps / _COUNT_WEIGHT,
  }
  return server_step.statistics(query, noisy_totals(mu, query, stds)), std


def next_model(
    model: server_step.MultiViewModel, sums: server_step.KernelStatistics, std: float,
    weigh: server_step.Weigh, noise_factor: float, noise_sd: np.ndarray,
) -> tuple[server_step.MultiViewModel, np.ndarray]:
  """Returns the model after a noisy round in which the clients were sent `model`, and its noise.

  A move that could be noise alone is shrunk, for every cluster and view, as in the
  positive-part James-Stein estimator (see `dp_clustering.refine`).

  Args:
    std: The standard deviation of the noise on `residual_sums`, of that which was asked for.
    noise_factor: By how much more it is.
    noise_sd: The standard deviation of the noise on every coordinate of the model's centers, in
      grid steps, of shape (K, D), finite.  That which is returned is expected given how far each
      center was to move.
  """
  # A quotient of noise by noise would be anywhere.
  moves = server_step.moves(model, sums, least_kernel_weight=max(1.0, 2 * std))
  next_sd = noise_sd.copy()
  for view, (width, place) in enumerate(zip(model.widths, sums_lib.columns(model.widths))):
    weights = np.maximum(sums.kernel_weights[:, view], 1.0)
    variance = (noise_factor * std / weights) ** 2 / model.rates[view]
    squares = (moves[:, place] ** 2).sum(axis=1)
    noise = width * variance
    kept = np.clip(1 - noise / np.maximum(squares, 1.0), 0, 1)  # A step is nothing.
    moves[:, place] *= kept[:, np.newaxis]
    kept, variance, squares = (x[:, np.newaxis] for x in (kept, variance, squares))
    # Suppose that the points' mean is where it was.  A move is then the round's noise less that of
    # the center, and adding `share` of it leaves the least noise.  Another part adds to that by the
    # square of this very move, as large moves are kept more.  A move beyond the 95% quantile of
    # noise is real, and counts as that quantile.
    before = noise_sd[:, place] ** 2
    share = before / (before + variance)
    largest = (before + variance) * special.chdtri(width, 0.05) / width
    square = np.minimum(squares / width, largest)
    after = np.sqrt((kept - share) ** 2 * square + share * variance)
    next_sd[:, place] = np.where(squares > 0, after, noise_sd[:, place])  # Or nothing was learned.
  return model.moved(moves, weigh(np.maximum(sums.view_costs, 0.0))), next_sd


def fit(
    config: multiview_config.MultiViewConfig, clients: secure_sums.ClientPoints,
    widths: tuple[int, ...], noise_source: noise.Source,
) -> fitted.Fit:
  """Fits a model to clients from `privacy.hold`; all of the fit is private.

  Only the noise source `SecureNoise` protects anyone.
  """
  privacy, num_clients, k = config.privacy, clients.num_clients, config.n_clusters
  assert privacy is not None
  mu = privacy.mu
  ledger = ledger_lib.Ledger(privacy.epsilon, privacy.delta, noise_source)
  first_sums = kmeans_fit.FederatedSums(clients, k, privacy, noise_source, ledger)
  rng = randomness.generator(config.seed, "private first centers")
  first = first_sums.private_centers(k, mu * math.sqrt(privacy.share_of_centers), rng)
  num_views = len(widths)
  model = server_step.MultiViewModel(
      centers=point_grid.on_point_grid(first.centers, privacy.radius),
      view_weights=np.full(num_views, 1 / num_views),
      alpha=config.alpha,
      # Bandwidths of one over the square of the norm, whatever the points are.
      rates=np.full(num_views, 1 / clients.scaling.factor[0] ** 2),
      widths=widths,
  )
  points = secure_sums.FederatedPoints(clients, k)
  noisy_totals = privacy_lib.noisy_totals(privacy, points, num_clients, noise_source)
  noise_factor = privacy_lib.noise_factor(privacy, num_clients)
  weigh = lambda view_costs: config.rule.weigh(view_costs, None, config.alpha)
  round_mu = mu * math.sqrt((1 - privacy.share_of_centers) / config.num_rounds)
  history = []
  # A center is in the ball, whatever is known of it.
  noise_sd = np.minimum(first.noise_sd / privacy.radius, 1) * point_grid.POINT_STEPS
  for step in range(config.num_rounds):
    sums, std = noisy_statistics(
        noisy_totals, ledger, model, round_mu, f"kernel round {step}"
    )
    history.append(server_step.record(model, sums))
    model, noise_sd = next_model(model, sums, std, weigh, noise_factor, noise_sd)
    counts, count_sd = sums.counts, noise_factor * std / _COUNT_WEIGHT
  scaling = model_lib.norm_scaling(privacy.view_norms, widths)
  centroids = scaling.undo(model.centers)
  enough = private_centers.are_enough(counts, count_sd)
  noise_sd = np.where(enough[:, np.newaxis], noise_sd / scaling.factor, np.inf)
  return fitted.Fit(
      model_lib.FittedViews(model, privacy.view_norms),
      secure_sums.identity(clients.num_columns), centroids, tuple(history),
      num_rounds=len(history),
      noise=private_centers.PrivateCenters(
          centroids, noise_sd, counts, np.full(k, count_sd)
      ),
      privacy_spent=privacy_lib.guarantee(privacy, ledger.freeze(), num_clients)
      | {"covers": _COVERS, "view_norms": privacy.view_norms},
      ledger=ledger,
  )
