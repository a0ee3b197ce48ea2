"""The algorithms of the papers: a function and a row of the registry each, and a fit by them.

The papers are those of `local_work`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, NamedTuple

from absl import logging
import numpy as np

from clustering_basics import randomness
from clustering_basics import single_thread_kmeans
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import model as model_lib
from fl_clustering.kmeans import rounds as rounds_lib
from fl_clustering.kmeans import server_step
from fl_clustering.points import fitted
from fl_clustering.points import grid_scaling
from fl_clustering.points import secure_sums

GATHER = "gather"
LLOYD = "lloyd"
MINIBATCH = "minibatch"

# Of the unit in which clients compute.  From so near the middle, the first clusters are
# sectors of about the same size, and none is empty.
_START_SPREAD = 0.1
_BYTES = 4  # Messages are float32.
START_OF_TFF = "k-means of TFF"


class NothingReleased(ValueError):
  """No client has a mean that may leave it."""


class Step(NamedTuple):
  """A round of a restart: GATHER, LLOYD or MINIBATCH.

  Attributes:
    centroids: After it, in the coordinates that the clients compute in; float32 (K, d).
    inertia: Of these, or None if no round told it.
    num_sent: How many means a client sends, or None for as many as there are centroids.
  """

  stage: str
  centroids: np.ndarray
  inertia: float | None = None
  num_sent: int | None = None


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

  @property
  def restarts(self) -> range:
    return range(self.options.n_init)

  def server_rng(self, restart: int, round_num: int) -> np.random.Generator:
    purpose = f"k-means on the server: restart {restart}"
    return randomness.generator(self.config.seed, purpose, round_num)

  def drawn(self, purpose: str, restart: int) -> np.ndarray:
    """Returns centroids (K, d) from the standard normal distribution, which no point decides."""
    rng = randomness.generator(self.config.seed, purpose, restart)
    shape = self.config.n_clusters, self.rounds.clients.num_columns
    return rng.standard_normal(shape).astype(np.float32)

  def gather(
      self, work: local_work.Work, restart: int, round_num: int
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Has the clients send means of their own.

    Returns:
      All means (M, d), M > 0, their counts (M,), and the means of the first client that has any.

    Raises:
      NothingReleased: If none has any.
    """
    purpose = f"k-means on the clients: restart {restart}"
    rngs = {
        client_id: randomness.generator(self.config.seed, purpose, round_num, str(client_id))
        for client_id in self.rounds.clients.by_id
    }
    least = self.options.min_count
    sent = [own for own in self.rounds.gather(work, least, rngs) if len(own[0])]
    if not sent:
      raise NothingReleased(
          f"`min_count` must let at least one mean of {least} points or more, none of them equal "
          "to a row, leave a client; no client has one."
      )
    means, counts = map(np.concatenate, zip(*sent))
    return means, counts, sent[0][0]


# Lloyd's algorithm by sums over the clients.


def _with_lloyd(
    search: Search, path: Steps, start: np.ndarray, num_rounds: int, tol: float
) -> Steps:
  """Returns a path, followed by Lloyd's rounds from the `start` (K, d) until it settles."""
  path, now = list(path), start
  before: float | None = None
  for _ in range(num_rounds):
    sums, counts, inertia = search.rounds.sums(now)
    if path:  # A round tells the inertia of the centroids before it.
      path[-1] = path[-1]._replace(inertia=inertia)
    now = local_work.moved(now, sums, counts).astype(np.float32)
    path.append(Step(LLOYD, now))
    if before is not None and before - inertia <= tol * before:
      break
    before = inertia
  return path


def lloyd(search: Search) -> list[Steps]:
  """Lloyd's algorithm from random centroids: the server never sees a client's own means."""
  options = search.options
  return [
      _with_lloyd(
          search, [], _START_SPREAD * search.drawn("k-means on the server: start", restart),
          options.num_rounds, options.tol,
      )
      for restart in search.restarts
  ]


# Algorithms that gather every client's own means.


def _fkm(search: Search, restart: int, num_rounds: int) -> Steps:
  """Returns the rounds of FKM."""
  num_clusters = search.config.n_clusters
  work = local_work.initial_means(num_clusters, search.options.min_count)
  path: Steps = []
  for round_num in range(num_rounds):
    means, counts, _ = search.gather(work, restart, round_num)
    rng = search.server_rng(restart, round_num)
    path.append(Step(GATHER, server_step.combined_means(means, counts, num_clusters, rng)))
    work = local_work.lloyd_means(path[-1].centroids)
  return path


def fkm(search: Search) -> list[Steps]:
  """FKM of Garst and Reinders."""
  return [_fkm(search, restart, search.options.num_rounds) for restart in search.restarts]


def fkm_lloyd(search: Search) -> list[Steps]:
  """A few rounds of FKM for good starts, then Lloyd's algorithm."""
  options = search.options
  try:
    paths = [_fkm(search, restart, options.fkm_rounds) for restart in search.restarts]
  except NothingReleased as e:
    # Sums need no client's own means.
    logging.warning("%s Rounds of Lloyd start near the middle of all points instead.", e)
    return lloyd(search)
  return [
      _with_lloyd(search, path, path[-1].centroids, options.num_rounds, options.tol)
      for path in paths
  ]


def kfed(search: Search) -> list[Steps]:
  """k-FED of Dennis, Li and Smith."""
  num_clusters, options = search.config.n_clusters, search.options
  work = local_work.separated_means(options.local_clusters or num_clusters, options.min_count)

  def centroids(restart: int) -> np.ndarray:
    means, _, first = search.gather(work, restart, 0)
    rng = search.server_rng(restart, 0)
    return server_step.combined_from_farthest(means, first, num_clusters, rng)

  return [
      [Step(GATHER, centroids(restart), num_sent=options.local_clusters)]
      for restart in search.restarts
  ]


def child_parent(search: Search) -> list[Steps]:
  """k-means of the centroids that child servers found and updated point by point."""
  num_clusters, options = search.config.n_clusters, search.options
  work = local_work.child_means(num_clusters, options.min_count)

  def centroids(restart: int) -> np.ndarray:
    means, counts, _ = search.gather(work, restart, 0)
    weights = counts if options.weight_by_counts else np.ones_like(counts)
    rng = search.server_rng(restart, 0)
    return server_step.combined_means(means, weights, num_clusters, rng)

  starts = [centroids(restart) for restart in search.restarts]
  return [
      _with_lloyd(search, [Step(GATHER, start)], start, options.lloyd_rounds, tol=0.0)
      for start in starts
  ]


def tff_minibatch(search: Search) -> list[Steps]:
  """The rule of TFF's `build_fed_kmeans`, from its own start.

  A centroid is the mean of all points that it had in any round, and of its start, which counts as
  one point: so the first rounds are never forgotten, and a centroid without points stays.
  """
  paths: list[Steps] = []
  for restart in search.restarts:
    now, weights = search.drawn(START_OF_TFF, restart), np.ones((search.config.n_clusters, 1))
    paths.append([])
    for _ in range(search.options.num_rounds):
      sums, counts, _ = search.rounds.sums(now)
      sums += now * weights
      weights += counts[:, np.newaxis]
      now = (sums / weights).astype(np.float32)
      paths[-1].append(Step(MINIBATCH, now))
  return paths


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
            bytes_up=_BYTES * (
                (step.num_sent or num_clusters) * (num_columns + 1) + sends_inertia
            ),
        )
    )
  return tuple(records)


def _in_unit(
    config: kmeans_config.KMeansConfig, clients: secure_sums.PointArrays
) -> tuple[secure_sums.PointArrays, int, float]:
  """Returns clients with coordinates around the points' mean, of a mean variance of one.

  Returns:
    Also the number of points, and the length of the new unit; in standardised columns, if they are.

  Raises:
    ValueError: If there are fewer points than clusters.
  """
  grid = grid_scaling.find_grid(clients, config.standardize, config.field_widths)
  grid.check_enough(config.n_clusters)
  _, deviations = grid_scaling.column_moments(grid.clients, grid.num_points)
  steps = float(np.sqrt(np.mean(deviations**2))) or 1.0
  scaling = grid.clients.scaling
  in_unit = clients.scaled(secure_sums.Scaling(scaling.shift, scaling.factor / steps))
  return in_unit, grid.num_points, grid.step * steps


def fit(
    config: kmeans_config.KMeansConfig, clients: secure_sums.PointArrays
) -> fitted.Fit:
  """Fits centroids by one of `SEARCHES`: coordinates, algorithm, best restart.

  Raises:
    ValueError: If there are fewer points than clusters.
    NothingReleased: If the clients may send nothing that the algorithm could use.
  """
  clients, num_points, unit = _in_unit(config, clients)
  scaling, rounds = clients.scaling, rounds_lib.Rounds(clients)
  with single_thread_kmeans.one_thread():
    paths = SEARCHES[type(config.algorithm)](Search(config, rounds))
    scores = [rounds.scores(path[-1].centroids) for path in paths]
  best = min(range(len(paths)), key=lambda restart: scores[restart][1])
  counts, inertia, silhouettes = scores[best]
  num_found = int(np.count_nonzero(counts))
  *steps, last = paths[best]
  history = _history([*steps, last._replace(inertia=inertia)], scaling, unit**2)
  scales = scaling.factor * unit if config.standardize else np.ones(clients.num_columns)
  of_model, centroids = secure_sums.Scaling(scaling.shift, scales), history[-1].centroids
  return fitted.Fit(
      model_lib.KMeansModel(of_model.apply(centroids)), of_model, centroids, history,
      num_rounds=len(history),
      loss=history[-1].inertia,
      simplified_silhouette=silhouettes / num_points if num_found > 1 else None,
      num_clusters_found=num_found,
  )
