"""Lloyd's algorithm by sums over the clients, for all restarts at a time."""

import numpy as np

# Of the unit in which clients compute.  From so near the middle, the first clusters are
# sectors of about the same size, and none is empty.
_START_SPREAD = 0.1


def first_centroids(config, num_columns, rng):
  """Draws centroids near the points' mean, of shape (R, K, d); the points have no say."""
  drawn = rng.standard_normal((config.n_init, config.n_clusters, num_columns))
  return (_START_SPREAD * drawn).astype(np.float32)


def run(rounds, candidates, num_rounds, tol):
  """Takes every candidate on until it settles.

  Args:
    rounds: `TffRounds`.
    candidates: float32 of shape (R, K, d).
    num_rounds: The most rounds.
    tol: A candidate has settled when a round lowered its inertia by no more than this
      share.

  Returns:
    For each candidate, the centroids after every round of it, and the inertia of those
    before every round.
  """
  paths = [[] for _ in candidates]
  inertias = [[] for _ in candidates]
  now = candidates.copy()
  active = np.arange(len(candidates))
  for _ in range(num_rounds):
    result = rounds.lloyd(now[active])
    now[active] = result["centroids"]
    for index, inertia in zip(active, result["inertia"]):
      paths[index].append(now[index].copy())
      inertias[index].append(float(inertia))
    active = np.array([index for index in active if not _has_settled(inertias[index], tol)], int)
    if not active.size:
      break
  return paths, inertias


def _has_settled(inertias, tol):
  return len(inertias) > 1 and inertias[-2] - inertias[-1] <= tol * inertias[-2]
