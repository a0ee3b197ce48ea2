"""Private centers with what is known of their noise.

All of it follows from noisy releases and their public settings, so it costs no privacy.  The noise
is that of a noisy sum of points over their noisy number, given which points a center has, and of
views also how far it was to move: that these depend on the noise of earlier releases is not in it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

# A center whose noisy count is below so many of its standard deviations is unknown: which points it
# has may be noise, too.
LEAST_COUNT = 4.0
# A coordinate is unknown if its noise exceeds this part of the range that it may be in.
LARGEST_NOISE = 0.25


@dataclasses.dataclass(frozen=True, eq=False)
class PrivateCenters:
  """Centers and their noise; all of it is private.

  Attributes:
    centers: Of shape (k, dim).
    noise_sd: Standard deviation of the noise on every coordinate, of shape (k, dim).  It is
      infinite where nothing is known: of centers that no release is about, or of too few points
      (see `LEAST_COUNT`).
    noisy_counts: Noisy numbers of the centers' points, of shape (k,); NaN if no release is about a
      center, or none says its size.
    count_sd: Standard deviation of the noise on `noisy_counts`, of shape (k,); NaN where they are.
  """

  centers: np.ndarray
  noise_sd: np.ndarray
  noisy_counts: np.ndarray
  count_sd: np.ndarray

  def filled(self, centers: np.ndarray) -> PrivateCenters:
    """Returns `centers`: first these, then centers that no release is about."""
    missing = len(centers) - len(self.centers)
    nothing = np.full(missing, np.nan)
    return PrivateCenters(
        centers,
        np.concatenate([self.noise_sd, np.full((missing, centers.shape[1]), np.inf)]),
        np.concatenate([self.noisy_counts, nothing]),
        np.concatenate([self.count_sd, nothing]),
    )

  def are_known(self, ranges: np.ndarray | float) -> np.ndarray:
    """Returns which coordinates mean something, booleans of shape (k, dim).

    Args:
      ranges: The lengths of the intervals that coordinates may be in, of shape (dim,).
    """
    return self.noise_sd <= LARGEST_NOISE * np.asarray(ranges)


def are_enough(noisy_counts: np.ndarray, count_sd: np.ndarray | float) -> np.ndarray:
  """Returns which noisy counts are large enough for a center to be known, booleans."""
  return noisy_counts >= np.maximum(LEAST_COUNT * count_sd, 1)


def of_counts(
    centers: np.ndarray, noise_sd: np.ndarray, noisy_counts: np.ndarray,
    count_sd: np.ndarray | float,
) -> PrivateCenters:
  """Returns centers and their noise, which is infinite for a center on too few points.

  Args:
    noise_sd: Standard deviation of the noise on a coordinate, of shape (k, dim), or (k, 1) where it
      is that of all.
  """
  count_sd = np.broadcast_to(count_sd, noisy_counts.shape)
  are_known = are_enough(noisy_counts, count_sd)[:, np.newaxis]
  noise_sd = np.broadcast_to(np.where(are_known, noise_sd, np.inf), centers.shape)
  return PrivateCenters(centers, noise_sd, noisy_counts, count_sd)


def merged_sd(
    noise_sd: np.ndarray, weights: np.ndarray, groups: np.ndarray, num_groups: int
) -> np.ndarray:
  """Returns the noise of the weighted means of groups of noisy vectors, of shape (num_groups,).

  Args:
    noise_sd: Standard deviation of the noise on a coordinate of every vector, of shape (n,).
    groups: In which group every vector is, of shape (n,).
  """
  squares = np.bincount(groups, (weights * noise_sd) ** 2, minlength=num_groups)
  totals = np.bincount(groups, weights, minlength=num_groups)
  return np.divide(
      np.sqrt(squares), totals, out=np.full(num_groups, np.inf), where=totals > 0
  )
