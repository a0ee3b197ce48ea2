"""The algorithms of the papers: a function and a row of the registry each, and a fit by them.

References:
  Swier Garst, Marcel Reinders. Federated K-Means Clustering. ICPR 2024, Algorithm 1.
  https://arxiv.org/abs/2310.01195
  Don Kurian Dennis, Tian Li, Virginia Smith. Heterogeneity for the Win: One-Shot
  Federated Clustering. ICML 2021. https://arxiv.org/abs/2103.00697
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterable, NamedTuple

from absl import logging
import numpy as np

from clustering_basics import randomness
from clustering_basics import validate
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import model as model_lib
from fl_clustering.kmeans import rounds as rounds_lib
from fl_clustering.kmeans import server_step
from fl_clustering.points import fitted
from fl_clustering.points import grid_scaling
from fl_clustering.points import point_files
from fl_clustering.points import secure_sums

GATHER = "gather"
LLOYD = "lloyd"
MINIBATCH = "minibatch"

# Of the unit in which clients compute.  From so near the middle, the first clusters are
# sectors of about the same size, and none is empty.
_START_SPREAD = 0.1
_BYTES = 4  # Messages are float32.


class NothingReleased(ValueError):
  """No client has a mean that may leave it."""


class Step(NamedTuple):
  """A round of a restart: GATHER, LLOYD or MINIBATCH.

  Attributes:
    centroids: After it, in the coordinates that the clients compute in; float32 (K, d).
    inertia: Of these, or None if no round told it.
  """

  stage: str
  centroids: np.ndarray
  inertia: float | None = None


# The rounds of a restart.  If the first one is GATHER, it sends the clients no centroids.
Steps = list[Step]


@dataclasses.dataclass(frozen=True, eq=False)
class Search:
  """What an algorithm works with."""

  config: kmeans_config.KMeansConfig
  rounds: rounds_lib.Rounds

  @property
  def options(self) -> Any:
    """The `kmeans_config.Algorithm`."""
    return self.config.algorithm

  def server_rng(self, restart: int, round_num: int) -> np.random.Generator:
    purpose = f"k-means on the server: restart {restart}"
    return randomness.generator(self.config.seed, purpose, round_num)

  def gather(
      self, work: rounds_lib.Work, centroids: np.ndarray, purpose: str, round_num: int
  ) -> rounds_lib.ClientMeans:
    """Returns the clients' own means, which they drew random numbers for."""
    seeds = {
        client_id: randomness.stateless_seed(
            self.config.seed, f"k-means on the clients: {purpose}", round_num, client_id
        )
        for client_id in self.rounds.files.by_id
    }
    return self.rounds.gather(work, self.options.min_count, centroids, seeds)

  def no_centroids(self, num_candidates: int) -> np.ndarray:
    """Returns what the server sends where the clients start from scratch."""
    return np.zeros((num_candidates, 0, self.rounds.files.num_columns), np.float32)

  def present(
      self, means: rounds_lib.ClientMeans, candidate: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the means and counts of a candidate; raises an error if there are none."""
    found, counts = means.present(candidate)
    if not len(found):
      raise NothingReleased(
          f"`min_count` must let at least one mean of {self.options.min_count} points or more, "
          "none of them equal to a row, leave a client; no client has one."
      )
    return found, counts


def _paths(stage: str, after_rounds: Iterable[np.ndarray]) -> list[Steps]:
  """Returns the paths of rounds that told no inertia, from (R, K, d) per round."""
  return [[Step(stage, centroids) for centroids in path] for path in zip(*after_rounds)]


# Lloyd's algorithm by sums over the clients, for all restarts at a time.


def _has_settled(inertias: list[float], tol: float) -> bool:
  return len(inertias) > 1 and inertias[-2] - inertias[-1] <= tol * inertias[-2]


def _with_lloyd(
    rounds: rounds_lib.Rounds, paths: list[Steps], start: np.ndarray, num_rounds: int, tol: float
) -> list[Steps]:
  """Returns the paths, followed by Lloyd's rounds from the `start` (R, K, d) until each settles."""
  inertias: list[list[float]] = [[] for _ in paths]
  now = start.copy()
  active = np.arange(len(paths))
  for _ in range(num_rounds):
    result = rounds.lloyd(now[active])
    now[active] = result["centroids"]
    for index, inertia in zip(active, map(float, result["inertia"])):
      path = paths[index]
      if path:  # A round tells the inertia of the centroids before it.
        path[-1] = path[-1]._replace(inertia=inertia)
      path.append(Step(LLOYD, now[index].copy()))
      inertias[index].append(inertia)
    active = np.array([index for index in active if not _has_settled(inertias[index], tol)], int)
    if not active.size:
      break
  return paths


def _refined(search: Search, paths: list[Steps]) -> list[Steps]:
  """Returns the paths followed by the rounds of Lloyd that the user asked for."""
  start = np.stack([path[-1].centroids for path in paths])
  return _with_lloyd(search.rounds, paths, start, search.options.lloyd_rounds, tol=0.0)


def lloyd(search: Search) -> list[Steps]:
  """Lloyd's algorithm from random centroids: the server never sees a client's own means."""
  config, options = search.config, search.options
  rng = randomness.generator(config.seed, "k-means on the server: first centroids")
  # Near the points' mean; the points have no say.
  shape = (options.n_init, config.n_clusters, search.rounds.files.num_columns)
  start = (_START_SPREAD * rng.standard_normal(shape)).astype(np.float32)
  return _with_lloyd(
      search.rounds, [[] for _ in start], start, options.num_rounds, options.tol
  )


# Algorithms that gather every client's own means.


def _fkm_centroids(search: Search, num_rounds: int) -> list[np.ndarray]:
  """Returns the centroids (R, K, d) after every round of FKM."""
  num_clusters, options = search.config.n_clusters, search.options
  work = local_work.initial_means(num_clusters, options.min_count)
  centroids = search.no_centroids(options.n_init)
  after_rounds = []
  for round_num in range(num_rounds):
    means = search.gather(work, centroids, "fkm", round_num)
    warm = round_num > 0 and options.server_init == kmeans_config.WARM
    centroids = np.stack([
        server_step.combined_means(
            *search.present(means, restart), num_clusters,
            search.server_rng(restart, round_num), centroids[restart] if warm else None,
        )
        for restart in range(options.n_init)
    ])
    after_rounds.append(centroids)
    work = local_work.lloyd_means(options.local_iterations)
  return after_rounds


def fkm(search: Search) -> list[Steps]:
  """FKM of Garst and Reinders."""
  after_rounds = _fkm_centroids(search, search.options.num_rounds)
  return _refined(search, _paths(GATHER, after_rounds))


def fkm_lloyd(search: Search) -> list[Steps]:
  """A few rounds of FKM for good starts, then Lloyd's algorithm."""
  options = search.options
  try:
    after_rounds = _fkm_centroids(search, options.fkm_rounds)
  except NothingReleased as e:
    # Sums need no client's own means.
    logging.warning("%s Rounds of Lloyd start near the middle of all points instead.", e)
    return lloyd(search)
  paths = _paths(GATHER, after_rounds)
  return _with_lloyd(search.rounds, paths, after_rounds[-1], options.num_rounds, options.tol)


def _one_shot(
    search: Search, work: rounds_lib.Work,
    combine: Callable[[rounds_lib.ClientMeans, np.random.Generator], np.ndarray],
) -> list[Steps]:
  """Returns a path per restart: one round, and `combine(means, rng)` of each."""
  combined = []
  for restart in range(search.options.n_init):
    means = search.gather(work, search.no_centroids(1), "one shot", restart)
    search.present(means, 0)
    combined.append(combine(means, search.server_rng(restart, 0)))
  return _refined(search, _paths(GATHER, [np.stack(combined)]))


def kfed(search: Search) -> list[Steps]:
  """k-FED of Dennis, Li and Smith."""
  num_clusters, options = search.config.n_clusters, search.options

  def combine(means: rounds_lib.ClientMeans, rng: np.random.Generator) -> np.ndarray:
    found, _ = means.present(0)
    return server_step.combined_from_farthest(found, means.first_present(0), num_clusters, rng)

  local_clusters = options.local_clusters or num_clusters
  return _one_shot(search, local_work.separated_means(local_clusters, options.min_count), combine)


def child_parent(search: Search) -> list[Steps]:
  """k-means of the centroids that child servers found and updated point by point."""
  num_clusters, options = search.config.n_clusters, search.options

  def combine(means: rounds_lib.ClientMeans, rng: np.random.Generator) -> np.ndarray:
    found, counts = means.present(0)
    weights = counts if options.weight_by_counts else np.ones_like(counts)
    return server_step.combined_means(found, weights, num_clusters, rng)

  work = local_work.child_means(num_clusters, options.min_count, options.shuffle)
  return _one_shot(search, work, combine)


def minibatch_start(search: Search, restart: int) -> np.ndarray:
  """Returns centroids as TFF draws its first ones: from the standard normal distribution."""
  rng = randomness.generator(search.config.seed, "k-means of TFF", restart)
  drawn = rng.standard_normal((search.config.n_clusters, search.rounds.files.num_columns))
  return drawn.astype(np.float32)


def tff_minibatch(search: Search) -> list[Steps]:
  """TFF's own federated k-means, from its own start."""
  paths = [
      search.rounds.minibatch(minibatch_start(search, restart), search.options.num_rounds)
      for restart in range(search.options.n_init)
  ]
  return [[Step(MINIBATCH, centroids) for centroids in path] for path in paths]


# All of `kmeans_config.ALGORITHMS` but `Sums`; each returns a path per restart.
SEARCHES: dict[type[kmeans_config.Algorithm], Callable[[Search], list[Steps]]] = {
    kmeans_config.FkmLloyd: fkm_lloyd,
    kmeans_config.Lloyd: lloyd,
    kmeans_config.Fkm: fkm,
    kmeans_config.KFed: kfed,
    kmeans_config.ChildParent: child_parent,
    kmeans_config.TffMinibatch: tff_minibatch,
}


def _history(
    path: Steps, scaling: secure_sums.Scaling, inertia_unit: float
) -> tuple[model_lib.RoundRecord, ...]:
  """Returns the records of a path in scaled coordinates."""
  records = []
  for index, step in enumerate(path):
    num_clusters, num_columns = step.centroids.shape
    sends_centroids = index > 0 or step.stage != GATHER
    sends_inertia = step.stage == LLOYD
    records.append(
        model_lib.RoundRecord(
            stage=step.stage,
            centroids=scaling.undo(step.centroids),
            inertia=None if step.inertia is None else step.inertia * inertia_unit,
            bytes_down=_BYTES * num_clusters * num_columns * sends_centroids,
            bytes_up=_BYTES * (num_clusters * (num_columns + 1) + sends_inertia),
        )
    )
  return tuple(records)


def fit(
    config: kmeans_config.KMeansConfig, files: point_files.PointFiles
) -> fitted.Fit:
  """Fits centroids by one of `SEARCHES`: coordinates, algorithm, best restart.

  Raises:
    ValueError: If there are fewer points than clusters.
    NothingReleased: If the clients may send nothing that the algorithm could use.
  """
  num_points, mean, variance = files.column_moments()
  if num_points < config.n_clusters:
    raise validate.error(
        "n_clusters", f"be at most the {num_points} points of all clients", config.n_clusters
    )
  scaling = grid_scaling.unit_scaling(mean, variance, config.standardize, config.field_widths)
  rounds = rounds_lib.Rounds(files.scaled(scaling), config.algorithm.n_init)
  paths = SEARCHES[type(config.algorithm)](Search(config, rounds))
  scores = rounds.scores(np.stack([path[-1].centroids for path in paths]))
  best = int(np.argmin(scores["inertia"]))
  *steps, last = paths[best]
  path = [*steps, last._replace(inertia=float(scores["inertia"][best]))]
  # Standardised columns keep the inertia in their own unit.
  unit = 1.0 if config.standardize else 1 / scaling.factor[0] ** 2
  history = _history(path, scaling, unit)
  scales = scaling.factor if config.standardize else np.ones(files.num_columns)
  return fitted.Fit(
      model_lib.KMeansModel(history[-1].centroids, scaling, scales),
      history,
      num_rounds=len(history),
      loss=history[-1].inertia,
      simplified_silhouette=float(scores["silhouettes"][best]) / num_points,
      num_clusters_found=int(np.count_nonzero(scores["counts"][best])),
  )
