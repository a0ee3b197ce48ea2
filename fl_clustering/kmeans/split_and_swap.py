"""K-means from sums alone: splits, a reduction to K on the server, and swaps.

Every round asks one thing of the points: for every center, sums over the points nearest to
it, and over each half of them (`sum_kinds.ChildSums`).  The server moves each center to the
mean of its points, as Lloyd's algorithm does.  It also moves the hyperplane between the
halves to the middle between their means, so every cluster holds a 2-means of its own.  What
splitting a cluster would gain is therefore known exactly, at no further round.

1. Split.  From one center on, the clusters of the largest gains are split, until there are
   at least three times as many centers as clusters.
2. Reduce.  The server clusters the means of all halves, with their counts as weights
   (`summary_kmeans`).  It asks nothing.
3. Lloyd.  Two rounds from these K centers.
4. Swap.  The clusters of the largest gains are split, and as many centers that cost least
   to remove are removed.  Most local minima are left that way.
5. Settle.  Lloyd's rounds, until they gain little.

All sums are exact integers, so the inertia is exact, too: large common parts cancel without
rounding, and a cluster of equal points has an inertia of zero.  For the same reason the sums
of a cluster of one point are that point.  Whoever asks must be trusted with that.

References:
  Stuart P. Lloyd. Least Squares Quantization in PCM. IEEE Transactions on Information
  Theory, 1982. https://doi.org/10.1109/TIT.1982.1056489
  Y. Linde, A. Buzo, R. Gray. An Algorithm for Vector Quantizer Design. IEEE Transactions on
  Communications, 1980 (splitting).
  Bernd Fritzke. The k-means-u* algorithm. 2017. https://arxiv.org/abs/1706.09059 (moving
  the least useful centers to where the error is largest).
"""

from __future__ import annotations

import dataclasses
import fractions
from typing import Any, Callable, Iterable

import numpy as np

from dp_clustering import sum_query
from fl_clustering.kmeans import sum_kinds
from fl_clustering.kmeans import summary_kmeans

# The server chooses K clusters among the halves of this many times K centers, and of at least
# so many: a few clusters are easily chosen badly.
_CENTERS_PER_CLUSTER = 3
_MIN_CENTERS = 32
# The first cycle swaps this part of the clusters.
_SWAPPED_PART = 0.25
# A cycle that lowers the inertia by less than this part is followed by one of half the size.
_LEAST_CYCLE_GAIN = 1e-3
# Lloyd's rounds end when one lowers the inertia by less than this part.
_LEAST_LLOYD_GAIN = 1e-4
# Rounds after a change of centers, for their means and halves to follow.
_LLOYD_ROUNDS = 2
_ROUNDS_OF_CYCLE = 2 * _LLOYD_ROUNDS
# Of centers to each other, at a time: 32 MB.
_BLOCK_DISTANCES = 2**22


@dataclasses.dataclass(frozen=True, eq=False)
class Round:
  """What one round showed.

  Attributes:
    stage: `split`, `lloyd`, `swap` or `settle`.
    centers: The means of the points of every center, in grid steps; float64 of shape (M, d).
      Centers without points are left out.
    inertia: Sum of the squared distances of the points to these means, in squared grid steps.
      It is at least the inertia of the means as centers.
  """

  stage: str
  centers: np.ndarray
  inertia: float


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
  """What `sums_kmeans` found.

  Attributes:
    asked: On the grid; float64 of shape (M, d), with M at most k.
    centers: The means of the points nearest to each of `asked`, in grid steps; float64 of shape
      (k, d).  Where there are fewer different points than k, or clusters were lost to few rounds,
      some centers occur several times.
    inertia: As in the `Round` that the centers are from.
  """

  asked: np.ndarray
  centers: np.ndarray
  inertia: float
  history: tuple[Round, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class _Nodes:
  """Centers to ask about, each with a hyperplane that halves its points.

  Attributes:
    centers: Float64 of shape (M, d).
    directions: Normals of the hyperplanes, of shape (M, d) and any norm but zero.
    middles: Points on the hyperplanes, of shape (M, d).
  """

  centers: np.ndarray
  directions: np.ndarray
  middles: np.ndarray

  def __getitem__(self, rows: Any) -> _Nodes:
    return _Nodes(self.centers[rows], self.directions[rows], self.middles[rows])

  def query(self, with_losses: bool) -> sum_query.SumQuery:
    """Returns the `SumQuery`, on the grid."""
    centers = np.rint(self.centers)
    norms = np.linalg.norm(self.directions, axis=1, keepdims=True)
    directions = np.rint(self.directions * (sum_kinds.DIRECTION_STEPS / norms))
    heights = ((self.middles - centers) * directions).sum(axis=1, keepdims=True)
    return sum_query.SumQuery(
        sum_kinds.ChildSums(with_losses),
        {"centers": centers, "directions": directions, "thresholds": np.floor(heights)},
    )


def _undirected(centers: np.ndarray, rng: np.random.Generator) -> _Nodes:
  """Returns `_Nodes` whose points are halved at random."""
  return _Nodes(centers, rng.standard_normal(centers.shape), centers)


def _joined(first: _Nodes, second: _Nodes) -> _Nodes:
  """Returns the `_Nodes` of both."""
  return _Nodes(
      np.concatenate([first.centers, second.centers]),
      np.concatenate([first.directions, second.directions]),
      np.concatenate([first.middles, second.middles]),
  )


@dataclasses.dataclass(frozen=True, eq=False)
class _Answer:
  """The sums of M centers, none of them without points.

  Attributes:
    asked: The centers as they were asked, of shape (M, d).
    counts: int64 of shape (M, 2), of the lower and the upper half.
    residuals: Sums of the residuals to `asked`, int64 of shape (M, 2, d).
    losses: What removing a center costs, of shape (M,), or None.
    inertia: About the means of the clusters; exact up to one rounding.
  """

  asked: np.ndarray
  counts: np.ndarray
  residuals: np.ndarray
  losses: np.ndarray | None
  inertia: float

  @property
  def means(self) -> np.ndarray:
    """Returns the means of the clusters, of shape (M, d)."""
    return self.asked + self.residuals.sum(axis=1) / self.counts.sum(axis=1, keepdims=True)

  @property
  def half_means(self) -> np.ndarray:
    """Returns the means of the halves, of shape (M, 2, d); for none, the asked center."""
    counts = np.maximum(self.counts, 1)[:, :, np.newaxis]
    return self.asked[:, np.newaxis] + self.residuals / counts

  @property
  def gains(self) -> np.ndarray:
    """Returns by how much splitting each cluster lowers the inertia, of shape (M,).

    It is zero where all points are in one half: those of a cluster of equal points always
    are.
    """
    counts = self.counts.astype(np.float64)
    lower, upper = self.half_means.swapaxes(0, 1)
    return counts.prod(axis=1) / counts.sum(axis=1) * ((upper - lower) ** 2).sum(axis=1)

  def nodes(self, rng: np.random.Generator) -> _Nodes:
    """Returns the `_Nodes` of Lloyd's next round."""
    means, random = self.means, _undirected(self.means, rng)
    lower, upper = self.half_means.swapaxes(0, 1)
    is_split = (self.gains > 0)[:, np.newaxis]
    return _Nodes(
        means,
        np.where(is_split, upper - lower, random.directions),
        np.where(is_split, (lower + upper) / 2, random.middles),
    )


def inertias(
    total_square: int, centers: np.ndarray, counts: np.ndarray, residuals: np.ndarray
) -> tuple[int, fractions.Fraction]:
  """Returns the inertia at the centers, and about the means of their points; both exact.

  With n points of a center c and residuals of the sum r, the points' squared norms are
  n |c|^2 + 2 c.r more than their squared distances to c.  Those to their mean are |r|^2 / n
  less.

  Args:
    total_square: Sum of the squared norms of all points.
    centers: Integers of shape (M, d), as asked.
    counts: Positive integers of shape (M,).
    residuals: Integers of shape (M, d), the sums of the points' residuals.
  """
  centers, residuals = (rows.astype(np.int64).astype(object) for rows in (centers, residuals))
  counts = counts.astype(object)
  offsets = (centers * (counts[:, np.newaxis] * centers + 2 * residuals)).sum()
  squares = (residuals * residuals).sum(axis=1)
  at_centers = total_square - offsets
  return at_centers, at_centers - sum(map(fractions.Fraction, squares, counts))


class _Asker:
  """Asks the clients, a question a round, and keeps the rounds' history."""

  def __init__(
      self, totals: Callable[[sum_query.SumQuery], np.ndarray], total_square: int, max_rounds: int
  ) -> None:
    self._totals = totals
    self._total_square = total_square
    # Rounds that are left.
    self.num_left = max_rounds
    self.history: list[Round] = []

  def ask(self, stage: str, nodes: _Nodes, with_losses: bool = False) -> _Answer:
    """Returns the `_Answer` to one round.

    Args:
      stage: See `Round`.
    """
    query = nodes.query(with_losses)
    self.num_left -= 1
    parts = query.split(self._totals(query))
    filled = parts["counts"][:, 0] > 0
    parts = {name: part[filled] for name, part in parts.items()}
    counts, residuals = (
        np.stack([parts[name] - parts[f"upper_{name}"], parts[f"upper_{name}"]], axis=1)
        for name in ("counts", "residuals")
    )
    centers = query.arrays["centers"][filled]
    _, inertia = inertias(
        self._total_square, centers, parts["counts"][:, 0], parts["residuals"]
    )
    answer = _Answer(
        centers,
        counts[:, :, 0],
        residuals,
        sum_kinds.whole(parts["losses"]).astype(np.float64) if with_losses else None,
        float(inertia),
    )
    self.history.append(Round(stage, answer.means, answer.inertia))
    return answer


def _split(answer: _Answer, num_splits: int, rng: np.random.Generator) -> _Nodes:
  """Returns nodes with the halves of at most so many clusters of the largest gains as centers.

  Clusters without a gain are not split.
  """
  gains = answer.gains
  chosen = np.argsort(-gains, kind="stable")[:num_splits]
  chosen = chosen[gains[chosen] > 0]
  kept = np.setdiff1d(np.arange(len(gains)), chosen)
  halves = answer.half_means[chosen].reshape(-1, answer.asked.shape[1])
  return _joined(answer.nodes(rng)[kept], _undirected(halves, rng))


def _lloyd(
    asker: _Asker, stage: str, nodes: _Nodes, rng: np.random.Generator, with_losses: bool = False
) -> _Answer:
  """Does `_LLOYD_ROUNDS` rounds; returns the last `_Answer`.

  Args:
    stage: See `Round`.
    with_losses: In the last round.
  """
  for _ in range(_LLOYD_ROUNDS - 1):
    nodes = asker.ask(stage, nodes).nodes(rng)
  return asker.ask(stage, nodes, with_losses)


def _split_up(
    asker: _Asker, dim: int, num_centers: int, rng: np.random.Generator
) -> _Answer:
  """Splits from one center on; returns the last `_Answer`.

  It stops in time for Lloyd's rounds on these centers and then on K.
  """
  answer = _lloyd(asker, "split", _undirected(np.zeros((1, dim)), rng), rng)
  while (
      answer.inertia > 0 and len(answer.asked) < num_centers
      and asker.num_left > 2 * _LLOYD_ROUNDS
  ):
    answer = asker.ask("split", _split(answer, num_centers - len(answer.asked), rng))
  return _lloyd(asker, "split", answer.nodes(rng), rng)


def _reduced(answer: _Answer, k: int) -> np.ndarray:
  """Returns the centers of at most k clusters of the halves' means."""
  filled = answer.counts > 0
  return summary_kmeans.fit(answer.half_means[filled], answer.counts[filled], k)


def _better(first: _Answer, second: _Answer) -> _Answer:
  """Returns the `_Answer` of the lower inertia."""
  return min(first, second, key=lambda answer: answer.inertia)


def _without_neighbors(order: Iterable[int], centers: np.ndarray) -> list[int]:
  """Returns the numbers of centers, in order, without the nearest one of each before it.

  Args:
    order: Numbers of centers.
    centers: All of them, of shape (M, d).
  """
  squares = (centers**2).sum(axis=1)
  blocks = []
  size = max(1, _BLOCK_DISTANCES // len(centers))
  for start in range(0, len(centers), size):
    block = slice(start, start + size)
    distances = squares[block, np.newaxis] + squares - 2 * centers[block] @ centers.T
    np.fill_diagonal(distances[:, block], np.inf)
    blocks.append(distances.argmin(axis=1))
  neighbor = np.concatenate(blocks)
  found: list[int] = []
  spared: set[int] = set()
  for center in order:
    if center not in spared:
      found.append(center)
      spared.add(neighbor[center])
  return found


def _without_least_losses(answer: _Answer, k: int) -> np.ndarray:
  """Returns a mask of the k centers to keep: those with the largest losses.

  But a loss holds only while the other centers stay.  So where a center goes, the center nearest
  to it stays, if there are enough others.
  """
  num_centers = len(answer.means)
  assert answer.losses is not None
  order = np.argsort(answer.losses, kind="stable")
  first = _without_neighbors(order, answer.means)
  last = list(order[~np.isin(order, first)])
  kept = np.ones(num_centers, bool)
  kept[(first + last)[: max(0, num_centers - k)]] = False
  return kept


def _swap(asker: _Asker, best: _Answer, k: int, rng: np.random.Generator) -> _Answer:
  """Does cycles of splits and removals; returns the best `_Answer`, of at most k centers."""
  num_swaps = max(1, int(_SWAPPED_PART * k))
  while num_swaps and best.inertia > 0 and asker.num_left > _ROUNDS_OF_CYCLE:
    # Splits also make up for centers that lost all points.
    nodes = _split(best, num_swaps + k - len(best.asked), rng)
    answer = _lloyd(asker, "swap", nodes, rng, with_losses=True)
    nodes = answer.nodes(rng)[_without_least_losses(answer, k)]
    swapped = _lloyd(asker, "swap", nodes, rng)
    if swapped.inertia > (1 - _LEAST_CYCLE_GAIN) * best.inertia:
      num_swaps //= 2
    best = _better(best, swapped)
  return best


def _settle(asker: _Asker, answer: _Answer, rng: np.random.Generator) -> _Answer:
  """Does Lloyd's rounds until they gain little; returns the best `_Answer`."""
  while answer.inertia > 0 and asker.num_left:
    settled = asker.ask("settle", answer.nodes(rng))
    if settled.inertia > (1 - _LEAST_LLOYD_GAIN) * answer.inertia:
      return _better(answer, settled)
    answer = settled
  return answer


def largest_num_centers(k: int) -> int:
  """Returns the most centers that a round asks about."""
  return max(_CENTERS_PER_CLUSTER * k, _MIN_CENTERS)


def sums_kmeans(
    totals: Callable[[sum_query.SumQuery], np.ndarray], dim: int, total_square: int, k: int,
    rng: np.random.Generator, max_rounds: int = 30,
) -> Result:
  """Clusters points by k-means from exact sums over them.

  Args:
    totals: Returns a query's totals, int64, such as `PooledPoints.totals`.
    dim: Number of coordinates of a point.
    total_square: Sum of the squared norms of the points in grid steps.
    max_rounds: The largest number of rounds, at least 6 and at least 5 + log2(k): each
      round after the sixth at most doubles the clusters.
  """
  asker = _Asker(totals, total_square, max_rounds)
  answer = _split_up(asker, dim, largest_num_centers(k), rng)
  nodes = _undirected(_reduced(answer, k), rng)
  answer = _lloyd(asker, "lloyd", nodes, rng)
  best = _settle(asker, _swap(asker, answer, k, rng), rng)
  centers = np.resize(best.means, (k, dim))
  return Result(best.asked, centers, best.inertia, tuple(asker.history))
