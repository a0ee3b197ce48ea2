"""A private fit: `dp_clustering.refine` on all views side by side, then noisy kernel rounds.

The number of rounds, the size of every message and the noise are fixed before the first
round, and no content of a client's rows raises an error or a warning.  Nothing but the noisy
totals looks at the data: columns are measured in the norms that are known.
"""

import dataclasses
import math

import numpy as np

from clustering_basics import randomness
from dp_clustering import clustering_params
from dp_clustering import ledger as ledger_lib
from dp_clustering import point_grid
from dp_clustering import privacy_calculator
from dp_clustering import refine
from fl_clustering.kmeans import private_fit as kmeans_fit
from fl_clustering.multiview import fit_result
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import federated_points
from fl_clustering.points import point_files
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import scaling as scaling_lib

# Share of the budget (of mu squared) for the first centers.
_START_SHARE = 0.8
# Precision of the counts relative to that of the other sums.
_COUNT_WEIGHT = 0.5

_COVERS = (
    "the centers, view weights and history; not the labels that `predict` gives, which are "
    "functions of the point itself"
)


def in_balls(points, view_norms, widths):
  """Returns every row as a point of the views' balls, in units of their norms.

  Args:
    points: Array of real numbers of shape (n, D), finite or not.
    view_norms: The balls' radii, of shape (H,).
    widths: The views' numbers of columns, which sum to D.
  """
  return np.concatenate(
      [
          clustering_params.map_to_ball(points[:, place], norm) / norm
          for norm, place in zip(view_norms, sums_lib.columns(widths))
      ],
      axis=1,
  )


def grid_scaling(view_norms, widths):
  """Returns the `Scaling` from the data's units to grid steps."""
  # In units of the norms, all views side by side are no longer than the root of their number.
  steps = point_grid.POINT_STEPS / math.sqrt(len(widths))
  return scaling_lib.Scaling(np.zeros(sum(widths)), np.repeat(steps / np.array(view_norms), widths))


def write_files(views, view_norms, directory):
  """Writes the files of private clients, with points of the balls whatever a row holds.

  Args:
    views: `client_views.ClientViews`.
    view_norms: The balls' radii, of shape (H,).
    directory: An existing folder.

  Returns:
    `PointFiles` in grid steps.
  """
  mapped = {
      client_id: in_balls(points, view_norms, views.widths)
      for client_id, points in views.points.items()
  }
  units = grid_scaling(np.ones(len(view_norms)), views.widths)
  return point_files.write_files(mapped, directory).scaled(units)


def noisy_statistics(noisy_totals, ledger, model, widths, mu, name):
  """Returns the noisy `KernelStatistics` of a model, and the noise on residuals.

  Args:
    noisy_totals: A function of mu, a `SumQuery` and a dict of the standard deviation of the
      noise on every part, from `points.privacy.noisy_totals`.
    ledger: The `Ledger`.
    model: A `MultiViewModel`.
    widths: The views' numbers of columns.
    mu: Cost of the release, mu of Gaussian differential privacy.
    name: The release's name in the ledger.

  Returns:
    `KernelStatistics`, and the standard deviation of the noise on `residual_sums`.
  """
  sensitivity = sums_lib.sensitivity(len(widths), _COUNT_WEIGHT)
  std = sensitivity / mu
  ledger.record(name, mu, sensitivity, std)
  steps = point_grid.CONTRIBUTION_STEPS
  query = model.query(widths, steps)
  stds = {
      "residual_sums": std * steps,
      "excesses": std * steps,
      "counts": std * steps / _COUNT_WEIGHT,
  }
  return server_step.statistics(query, noisy_totals(mu, query, stds)), std


def next_model(model, sums, std, widths, weigh):
  """Returns the model after a noisy round.

  A move that could be noise alone is shrunk, for every cluster and view, as in the
  positive-part James-Stein estimator (see `dp_clustering.refine`).

  Args:
    model: The `MultiViewModel` that the clients were sent.
    sums: `KernelStatistics` with noise.
    std: The standard deviation of the noise on `residual_sums`.
    widths: The views' numbers of columns.
    weigh: A function from the views' costs to their weights.
  """
  # A quotient of noise by noise would be anywhere.
  moves = server_step.moves(model, sums, widths, least_kernel_weight=max(1.0, 2 * std))
  for view, place in enumerate(sums_lib.columns(widths)):
    weights = np.maximum(sums.kernel_weights[:, view], 1.0)
    noise = widths[view] * (std / weights) ** 2 / model.rates[view]
    squares = (moves[:, place] ** 2).sum(axis=1)
    kept = np.clip(1 - noise / np.maximum(squares, 1.0), 0, 1)  # A step is nothing.
    moves[:, place] *= kept[:, np.newaxis]
  return dataclasses.replace(
      model,
      centers=server_step.on_grid(model.centers + moves),
      view_weights=weigh(np.maximum(sums.view_costs, 0.0)),
  )


def _first_centers(config, points, privacy, noisy_totals, ledger, mu):
  """Returns private centers of all views side by side, in grid steps."""
  sums = kmeans_fit.FederatedSums(
      points.dim, privacy.radius, privacy.unit_norm, noisy_totals, ledger
  )
  rng = randomness.generator(config.seed, "private first centers")
  centers = refine.private_centers(sums, config.n_clusters, mu, rng)
  return point_grid.on_point_grid(centers, privacy.radius)


def fit(config, files, widths, noise_source):
  """Fits a model by noisy sums.

  Args:
    config: `MultiViewConfig` with `privacy`.
    files: `PointFiles` from `write_files`.
    widths: The views' numbers of columns.
    noise_source: A source of noise, one of `dp_clustering.noise`; only `SecureNoise`
      protects anyone.

  Returns:
    A `fit_result.Fit`; everything in it is private.
  """
  privacy, num_clients = config.privacy.side_by_side(), len(files.paths)
  mu = privacy_calculator.gaussian_mu(privacy.epsilon, privacy.delta)
  ledger = ledger_lib.Ledger(privacy.epsilon, privacy.delta, noise_source)

  def with_capacity(capacity):
    points = federated_points.FederatedPoints(files, capacity)
    return points, privacy_lib.noisy_totals(privacy, points, num_clients, noise_source)

  points, noisy_totals = with_capacity(refine.largest_num_centers(config.n_clusters))
  start_mu = mu * math.sqrt(_START_SHARE)
  num_views = len(widths)
  model = server_step.MultiViewModel(
      centers=_first_centers(config, points, privacy, noisy_totals, ledger, start_mu),
      view_weights=np.full(num_views, 1 / num_views),
      alpha=config.alpha,
      # Bandwidths of one over the square of the norm, whatever the points are.
      rates=np.full(num_views, 1 / files.scaling.factor[0] ** 2),
  )
  _, noisy_totals = with_capacity(config.n_clusters)
  weigh = lambda view_costs: config.rule.weigh(view_costs, None, config.alpha)
  round_mu = mu * math.sqrt((1 - _START_SHARE) / config.num_rounds)
  history = []
  for step in range(config.num_rounds):
    sums, std = noisy_statistics(
        noisy_totals, ledger, model, widths, round_mu, f"kernel round {step}"
    )
    history.append(server_step.record(model, sums))
    model = next_model(model, sums, std, widths, weigh)
  scaling = grid_scaling(config.privacy.view_norms, widths)
  return fit_result.Fit(
      scaling=scaling,
      model=model,
      centroids=scaling.undo(model.centers),
      history=tuple(history),
      privacy_spent=privacy_lib.guarantee(privacy, ledger.freeze(), num_clients)
      | {"covers": _COVERS},
      ledger=ledger,
  )
