"""The algorithms of federated k-means: one function and one row of the registry each.

An algorithm is a function of a `KMeansConfig` and `Rounds` that returns one `Candidate`
per restart.

References:
  Swier Garst, Marcel Reinders. Federated K-Means Clustering. ICPR 2024, Algorithm 1.
  https://arxiv.org/abs/2310.01195
  Don Kurian Dennis, Tian Li, Virginia Smith. Heterogeneity for the Win: One-Shot
  Federated Clustering. ICML 2021. https://arxiv.org/abs/2103.00697
"""

import dataclasses
from typing import NamedTuple, Optional

from absl import logging
import numpy as np

from clustering_basics import randomness
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import server_step

GATHER = "gather"
LLOYD = "lloyd"
MINIBATCH = "minibatch"

# Of the unit in which clients compute.  From so near the middle, the first clusters are
# sectors of about the same size, and none is empty.
_START_SPREAD = 0.1


class NothingReleased(ValueError):
  """No client has a mean that may leave it."""


class Step(NamedTuple):
  """A round of a restart, in the coordinates that the clients compute in.

  Attributes:
    stage: The kind of round: GATHER, LLOYD or MINIBATCH.
    centroids: The centroids after it, float32 (K, d).
    inertia: Their inertia, or None if no round told it.
  """

  stage: str
  centroids: np.ndarray
  inertia: Optional[float] = None


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
  """What a restart came to.

  Attributes:
    steps: Tuple of `Step`, one per round.
    from_scratch: Whether the first round sent the clients no centroids.
  """

  steps: tuple[Step, ...]
  from_scratch: bool

  @property
  def centroids(self):
    """The last centroids, float32 (K, d)."""
    return self.steps[-1].centroids


def _candidates(stage, after_rounds, from_scratch):
  """Returns the `Candidate`s of rounds that told no inertia, from (R, K, d) per round."""
  return [
      Candidate(tuple(Step(stage, centroids) for centroids in path), from_scratch)
      for path in zip(*after_rounds)
  ]


# Lloyd's algorithm by sums over the clients, for all restarts at a time.


def first_centroids(config, num_columns, rng):
  """Draws centroids near the points' mean, of shape (R, K, d); the points have no say."""
  drawn = rng.standard_normal((config.n_init, config.n_clusters, num_columns))
  return (_START_SPREAD * drawn).astype(np.float32)


def _has_settled(inertias, tol):
  return len(inertias) > 1 and inertias[-2] - inertias[-1] <= tol * inertias[-2]


def _lloyd_paths(rounds, candidates, num_rounds, tol):
  """Takes every candidate (R, K, d) on until it settles.

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


def _followed_by_lloyd(candidate, path, inertias):
  """Returns the candidate with the rounds of Lloyd that started from its last centroids."""
  steps = candidate.steps
  if steps:
    steps = (*steps[:-1], steps[-1]._replace(inertia=inertias[0]))
  lloyd_steps = tuple(
      Step(LLOYD, centroids, inertia) for centroids, inertia in zip(path, [*inertias[1:], None])
  )
  return dataclasses.replace(candidate, steps=steps + lloyd_steps)


def _with_lloyd(rounds, candidates, start, num_rounds, tol):
  """Returns the candidates followed by Lloyd's rounds from the `start` (R, K, d)."""
  found = _lloyd_paths(rounds, start, num_rounds, tol)
  return list(map(_followed_by_lloyd, candidates, *found))


def _refined(config, rounds, candidates):
  """Returns the candidates followed by the rounds of Lloyd that the user asked for."""
  if not config.lloyd_rounds:
    return candidates
  start = np.stack([candidate.centroids for candidate in candidates])
  return _with_lloyd(rounds, candidates, start, config.lloyd_rounds, tol=0.0)


def lloyd(config, rounds):
  """Lloyd's algorithm from random centroids: the server never sees a client's own means."""
  rng = randomness.generator(config.seed, "k-means on the server: first centroids")
  start = first_centroids(config, rounds.num_columns, rng)
  candidates = [Candidate((), False) for _ in start]
  return _with_lloyd(rounds, candidates, start, config.num_rounds, config.tol)


# Algorithms that gather every client's own means.


def _seeds(config, client_ids, purpose, round_num):
  return {
      client_id: randomness.stateless_seed(
          config.seed, f"k-means on the clients: {purpose}", round_num, client_id
      )
      for client_id in client_ids
  }


def _server_rng(config, restart, round_num):
  return randomness.generator(
      config.seed, f"k-means on the server: restart {restart}", round_num
  )


def _present(means, config, restart):
  found, counts = means.present(restart)
  if not len(found):
    raise NothingReleased(
        f"`min_count` must let at least one mean of {config.min_count} points or more, none "
        "of them equal to a row, leave a client; no client has one."
    )
  return found, counts


def _no_centroids(rounds, num_candidates):
  """Returns what the server sends where the clients start from scratch."""
  return np.zeros((num_candidates, 0, rounds.num_columns), np.float32)


def _fkm_centroids(config, rounds, num_rounds):
  """Returns the centroids (R, K, d) after every round of FKM."""
  work = local_work.initial_means(config.n_clusters, config.min_count)
  centroids = _no_centroids(rounds, config.n_init)
  after_rounds = []
  for round_num in range(num_rounds):
    seeds = _seeds(config, rounds.client_ids, "fkm", round_num)
    means = rounds.gather(work, config.min_count, centroids, seeds)
    warm = round_num > 0 and config.server_init == kmeans_config.WARM
    centroids = np.stack([
        server_step.combined_means(
            *_present(means, config, restart), config.n_clusters,
            _server_rng(config, restart, round_num), centroids[restart] if warm else None,
        )
        for restart in range(config.n_init)
    ])
    after_rounds.append(centroids)
    work = local_work.lloyd_means(config.local_iterations)
  return after_rounds


def fkm(config, rounds):
  """FKM of Garst and Reinders."""
  after_rounds = _fkm_centroids(config, rounds, config.num_rounds)
  return _refined(config, rounds, _candidates(GATHER, after_rounds, True))


def fkm_lloyd(config, rounds):
  """A few rounds of FKM for good starts, then Lloyd's algorithm."""
  try:
    after_rounds = _fkm_centroids(config, rounds, config.fkm_rounds)
  except NothingReleased as e:
    # Sums need no client's own means.
    logging.warning("%s Rounds of Lloyd start near the middle of all points instead.", e)
    return lloyd(config, rounds)
  candidates = _candidates(GATHER, after_rounds, True)
  return _with_lloyd(rounds, candidates, after_rounds[-1], config.num_rounds, config.tol)


def _one_shot(config, rounds, work, combine):
  """Returns a candidate per restart: one round, and `combine(means, rng)` of each."""
  combined = []
  for restart in range(config.n_init):
    seeds = _seeds(config, rounds.client_ids, "one shot", restart)
    means = rounds.gather(work, config.min_count, _no_centroids(rounds, 1), seeds)
    _present(means, config, 0)
    combined.append(combine(means, _server_rng(config, restart, 0)))
  return _refined(config, rounds, _candidates(GATHER, [np.stack(combined)], True))


def kfed(config, rounds):
  """k-FED of Dennis, Li and Smith."""

  def combine(means, rng):
    found, _ = means.present(0)
    return server_step.combined_from_farthest(
        found, means.first_present(0), config.n_clusters, rng
    )

  work = local_work.separated_means(config.local_clusters, config.min_count)
  return _one_shot(config, rounds, work, combine)


def child_parent(config, rounds):
  """k-means of the centroids that child servers found and updated point by point."""

  def combine(means, rng):
    found, counts = means.present(0)
    weights = counts if config.weight_by_counts else np.ones_like(counts)
    return server_step.combined_means(found, weights, config.n_clusters, rng)

  work = local_work.child_means(config.n_clusters, config.min_count, config.shuffle)
  return _one_shot(config, rounds, work, combine)


def minibatch_start(config, rounds, restart):
  """Returns centroids as TFF draws its first ones: from the standard normal distribution."""
  rng = randomness.generator(config.seed, "k-means of TFF", restart)
  drawn = rng.standard_normal((config.n_clusters, rounds.num_columns))
  return drawn.astype(np.float32)


def tff_minibatch(config, rounds):
  """TFF's own federated k-means, from its own start."""
  paths = [
      rounds.minibatch(minibatch_start(config, rounds, restart), config.num_rounds)
      for restart in range(config.n_init)
  ]
  return _candidates(MINIBATCH, [np.stack(step) for step in zip(*paths)], False)


# By the names of `--algorithm`, all of one signature.
ALGORITHMS = {
    "fkm_lloyd": fkm_lloyd,
    "lloyd": lloyd,
    "fkm": fkm,
    "kfed": kfed,
    "child_parent": child_parent,
    "tff_minibatch": tff_minibatch,
}
