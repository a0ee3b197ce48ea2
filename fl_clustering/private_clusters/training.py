"""The server's part of private clustered training: pure NumPy on released numbers.

References:
  McMahan, Ramage, Talwar, Zhang. Learning Differentially Private Recurrent Language Models.
  ICLR 2018 (DP-FedAvg).
  Andrew, Thakkar, McMahan, Ramaswamy. Differentially Private Learning with Adaptive Clipping.
  NeurIPS 2021 (the clip norm follows a quantile of the norms).
  Ghosh, Chung, Yin, Ramchandran. An Efficient Framework for Clustered Federated Learning.
  NeurIPS 2020 (clients choose the model of least loss).
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from fl_clustering.engine import bounded_sums

# Rounds in which a client stays in the slot of its sketch: all models are equal before the first.
LOCKED_ROUNDS = 2
_CLIP_RATE = 0.6
# What a round's count weighs in a slot's size.
_NEW_COUNT = 0.3
# A slot's sum is divided by at least this part of B / K, as a small noisy count is no divisor; B
# clients take part in a round.
_LEAST_PART = 0.25
# A slot of less than this part of B / K, or of this many standard deviations of its noise, is
# starved.
_STARVED_PART = 0.1
_STARVED_DEVIATIONS = 2.0
# Rounds between revivals, and the part of all rounds after which there is none.
_REST_ROUNDS = 4
_LAST_REVIVAL = 0.7


def first_clip_norm(counts: np.ndarray, quantile: float) -> float:
  """Returns a quantile of a noisy histogram of norms, an edge of `bounded_sums.NORM_BINS`.

  Args:
    counts: Noisy numbers of clients below the first edge, between two, and above the last, of
      shape (len(bounded_sums.NORM_BINS) + 1,).
  """
  below = np.cumsum(np.maximum(counts, 0))
  place = int(np.searchsorted(below, below[-1] * quantile))
  return float(bounded_sums.NORM_BINS[min(place, len(bounded_sums.NORM_BINS) - 1)])


def unclipping_norm(counts: np.ndarray) -> float:
  """Returns a clip norm that hardly any update exceeds, from exact counts as above."""
  # Where nobody answered, the largest there is.
  place = int(max(np.flatnonzero(counts > 0.5), default=-1))
  return 2 * float(bounded_sums.NORM_BINS[min(place, len(bounded_sums.NORM_BINS) - 1)])


@dataclasses.dataclass(frozen=True, eq=False)
class RoundSums:
  """What a round releases.

  Attributes:
    updates: Sums of the clipped updates over the clip norm, of shape (K, P).
    counts: Noisy numbers of clients, of shape (K,).
    bits: The sum over the round's clients of 1/2 for an update shorter than the clip norm, and of
      -1/2 for another.
    count_std: The standard deviation of the noise on a count.
  """

  updates: np.ndarray
  counts: np.ndarray
  bits: float
  count_std: float


@dataclasses.dataclass(frozen=True, eq=False)
class State:
  """What the server knows between two rounds; all of it was released.

  Attributes:
    vectors: The models, float32 of shape (K, P).
    sizes: Moving means of the slots' noisy counts, of shape (K,).
    clip_norm: C, of the next round.
    round_num: Rounds done.
    revived: The round after which revivals rest.
    is_exact: Whether there is no noise: sizes then are the counts, and the clip norm stays.
  """

  vectors: np.ndarray
  sizes: np.ndarray
  clip_norm: float
  round_num: int = 0
  revived: int = LOCKED_ROUNDS
  is_exact: bool = False

  @classmethod
  def first(
      cls, vector: np.ndarray, num_clusters: int, num_clients: int, clip_norm: float
  ) -> State:
    """Returns the state before the first round: equal models, shape (P,), and equal sizes."""
    return cls(
        np.repeat(vector[np.newaxis], num_clusters, axis=0),
        np.full(num_clusters, num_clients / num_clusters),
        clip_norm,
    )

  def next(
      self, sums: RoundSums, num_clients: int, num_rounds: int, quantile: float,
      rng: np.random.Generator,
  ) -> State:
    """Returns the state after a round.

    Args:
      num_clients: Who took part in the round, public.
      num_rounds: Of the whole training.
      quantile: The share of updates that shall be shorter than the clip norm.
      rng: Public: no noise may come from the same seed.
    """
    even = num_clients / len(self.sizes)
    new_count = 1.0 if self.is_exact else _NEW_COUNT
    sizes = (1 - new_count) * self.sizes + new_count * sums.counts
    divisors = np.maximum(sizes, _LEAST_PART * even)[:, np.newaxis]
    moved = (self.vectors + self.clip_norm * sums.updates / divisors).astype(np.float32)
    share = np.clip(sums.bits / num_clients, -0.5, 0.5)  # Beyond it, it is noise.
    # Who sends zeros, without examples, is on neither side.
    senders = np.clip(sums.counts.sum() / num_clients, 0, 1)
    too_many = share - (quantile - 0.5) * senders
    after = dataclasses.replace(
        self, vectors=moved, sizes=sizes, round_num=self.round_num + 1,
        clip_norm=self.clip_norm * (1.0 if self.is_exact else math.exp(-_CLIP_RATE * too_many)),
    )
    # The moving mean of independent noise of one standard deviation.
    size_std = math.sqrt(new_count / (2 - new_count)) * sums.count_std
    least = max(_STARVED_PART * even, _STARVED_DEVIATIONS * size_std)
    may_revive = self.revived + _REST_ROUNDS <= self.round_num < _LAST_REVIVAL * num_rounds
    if len(sizes) == 1 or not may_revive or sizes.min() >= least:
      return after
    return after._revived(self.clip_norm, rng)

  def skipped(self) -> State:
    """Returns the state after a round whose sums were lost."""
    return dataclasses.replace(self, round_num=self.round_num + 1)

  def _revived(self, clip_norm: float, rng: np.random.Generator) -> State:
    """Returns the state in which the smallest slot has taken over one half of the largest.

    Where a slot serves clients of two kinds, their updates pull in opposite directions, so a
    step to both sides along any line parts them.
    """
    vectors, sizes = self.vectors.copy(), self.sizes.copy()
    smallest, largest = int(sizes.argmin()), int(sizes.argmax())
    step = rng.standard_normal(vectors.shape[1])
    step = (step * (clip_norm / np.linalg.norm(step))).astype(np.float32)
    vectors[smallest] = vectors[largest] + step
    vectors[largest] -= step
    sizes[[smallest, largest]] = sizes[largest] / 2
    return dataclasses.replace(
        self, vectors=vectors, sizes=sizes, revived=self.round_num - 1
    )
