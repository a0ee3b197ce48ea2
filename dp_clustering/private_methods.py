"""The two methods of private k-means."""

import math
import warnings

import numpy as np

from clustering_basics import validate
from dp_clustering import clustering_params
from dp_clustering import clustering_result
from dp_clustering import coreset
from dp_clustering import ledger as ledger_lib
from dp_clustering import lsh_tree
from dp_clustering import noise
from dp_clustering import privacy_calculator
from dp_clustering import private_sums
from dp_clustering import refine


def _check(
    k: int, data: clustering_params.Data, privacy_param: clustering_params.DifferentialPrivacyParam,
    random_state: int | None,
) -> None:
  validate.integer(1, k=k)
  validate.instance(clustering_params.Data, data=data)
  validate.instance(clustering_params.DifferentialPrivacyParam, privacy_param=privacy_param)
  if random_state is not None:
    validate.integer(0, random_state=random_state)


def _open(
    data: clustering_params.Data, privacy_param: clustering_params.DifferentialPrivacyParam,
    random_state: int | None,
) -> tuple[private_sums.PrivateSums, ledger_lib.Ledger, np.random.Generator]:
  """Returns `PrivateSums`, their `Ledger` and a generator for what needs no protection."""
  if privacy_param.epsilon == math.inf:
    warnings.warn("`epsilon` is inf: without noise, the result is NOT private.", stacklevel=3)
  else:
    for text in clustering_params.budget_warnings(
        privacy_param.epsilon, privacy_param.delta, num_units=data.public_num_points
    ):
      warnings.warn(text, stacklevel=3)
  source = noise.build_noise_source(privacy_param.epsilon, random_state)
  ledger = ledger_lib.Ledger(privacy_param.epsilon, privacy_param.delta, source)
  sums = private_sums.PrivateSums(data.datapoints, data.radius, source, ledger)
  return sums, ledger, np.random.default_rng(random_state)


def private_lsh_clustering(
    k: int, data: clustering_params.Data, privacy_param: clustering_params.DifferentialPrivacyParam,
    privacy_budget_split: clustering_params.PrivacyBudgetSplit | None = None,
    tree_param: clustering_params.TreeParam | None = None,
    multipliers: clustering_params.PrivacyCalculatorMultiplier | None = None,
    random_state: int | None = None,
) -> clustering_result.ClusteringResult:
  """Clusters by the LSH-tree coreset.

  Noisy counts grow a tree of hash prefixes.  The noisy mean of each leaf, weighted by
  its noisy count, goes into weighted k-means (`lsh_tree`, `coreset`).

  Args:
    k: Number of clusters, a positive integer.  The result has exactly `k` centers.
    data: `clustering_params.Data`, the points and their radius.  The points are not
      private.
    privacy_param: `clustering_params.DifferentialPrivacyParam`, the budget.
    privacy_budget_split: `clustering_params.PrivacyBudgetSplit`, which says how epsilon
      is shared between sums and counts, or None.
    tree_param: `clustering_params.TreeParam`, which says when nodes branch.  By default,
      it follows from the noisy number of points.
    multipliers: `clustering_params.PrivacyCalculatorMultiplier`, another way to share the
      budget, or None.  It can't be combined with `privacy_budget_split`.  If neither is
      given, the default multipliers are used.
    random_state: None for secure noise.  A non-negative integer makes everything
      repeatable, for experiments.  The result is then NOT private, and its ledger says so.

  Returns:
    A `ClusteringResult`, whose centers and ledger are private.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has an impossible value.
  """
  _check(k, data, privacy_param, random_state)
  if privacy_budget_split is not None:
    validate.instance(
        clustering_params.PrivacyBudgetSplit, privacy_budget_split=privacy_budget_split
    )
  if tree_param is not None:
    validate.instance(clustering_params.TreeParam, tree_param=tree_param)
  if multipliers is not None:
    validate.instance(clustering_params.PrivacyCalculatorMultiplier, multipliers=multipliers)
  max_depth = tree_param.max_depth if tree_param else lsh_tree.DEFAULT_MAX_DEPTH
  lsh_noise = privacy_calculator.lsh_noise(
      privacy_param, privacy_budget_split, multipliers, max_depth
  )
  sums, ledger, rng = _open(data, privacy_param, random_state)
  private_coreset = coreset.private_lsh_coreset(sums, k, tree_param, lsh_noise, rng)
  centers = coreset.exactly_k_centers(private_coreset, k, data.radius, rng)
  return clustering_result.ClusteringResult(data, centers, ledger=ledger.freeze())


def private_clustering(
    k: int, data: clustering_params.Data, privacy_param: clustering_params.DifferentialPrivacyParam,
    privacy_budget_split: clustering_params.PrivacyBudgetSplit | None = None,
    tree_param: clustering_params.TreeParam | None = None,
    multipliers: clustering_params.PrivacyCalculatorMultiplier | None = None,
    random_state: int | None = None,
) -> clustering_result.ClusteringResult:
  """Clusters by splitting and refining centers (`refine`); the better method.

  Arguments, result and errors are those of `private_lsh_clustering`.  This method has no tree
  and shares the budget by itself, so the three that say how must be None.
  """
  _check(k, data, privacy_param, random_state)
  for name, value in (
      ("privacy_budget_split", privacy_budget_split),
      ("tree_param", tree_param),
      ("multipliers", multipliers),
  ):
    if value is not None:
      raise validate.error(name, "be None for private_clustering", value)
  mu = privacy_calculator.gaussian_mu(privacy_param.epsilon, privacy_param.delta)
  sums, ledger, rng = _open(data, privacy_param, random_state)
  centers = refine.private_centers(sums, k, mu, rng, data.public_num_points)
  return clustering_result.ClusteringResult(data, centers, ledger=ledger.freeze())


# The methods by the names that flags and settings use.
METHODS = {"refine": private_clustering, "lsh": private_lsh_clustering}
