"""Whole private fits of federated k-means and multi-view k-means, to be audited.

All of a fit is the code of real federations: what a client computes of its points, its limits, the
shares of the noise, how the server reads the sum, and what it makes of it.  The clients are in this
process, as `secure_sums.PointArrays`, whose sums have the same bits as those through TFF.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterable, Mapping
from unittest import mock

import numpy as np

from bench import audited_sums
from fl_clustering import fits
from fl_clustering.kmeans import kmeans_config
from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums


@dataclasses.dataclass(frozen=True, eq=False)
class _Neighbours(secure_sums.PointArrays):
  """The clients of one of two data sets, which answer every question about the other one too.

  Attributes:
    other: What the last client has in the other data set, shape (n, d).
    is_second: Whether the other data set is the first one.
    num_without_share: How many of the first clients leave out their share of the noise.
    exact: The totals of the last question without noise, over the first data set and over the
      second one.
  """

  other: np.ndarray
  is_second: bool
  num_without_share: int
  exact: list[np.ndarray] = dataclasses.field(default_factory=list)

  def total(
      self, question: secure_sums.Question, sent: Mapping[str, Any],
      shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    *first, last = (self._answer(question, sent, points) for points in self.by_id.values())
    ends = [last, self._answer(question, sent, self.other)]
    self.exact[:] = [sum(first) + end for end in (ends[::-1] if self.is_second else ends)]
    if shares is not None:
      shares = (
          share * (index >= self.num_without_share) for index, share in enumerate(shares)
      )
    return super().total(question, sent, shares)


def _config(privacy: privacy_lib.Privacy) -> fits.Config:
  # The same seed in all runs.
  if isinstance(privacy, privacy_lib.ViewPrivacy):
    return multiview_config.MultiViewConfig(
        2, standardize=False, privacy=privacy, **multiview_config.PRIVATE_DEFAULTS
    )
  return kmeans_config.KMeansConfig(2, privacy=privacy)


@dataclasses.dataclass(frozen=True)
class FederatedFit:
  """A mechanism: a whole private fit, of k-means, or of multi-view k-means.

  Two clients have the points that both data sets have in common.  The third one has those of
  the second data set alone, so it has none in the first.

  Attributes:
    build_privacy: Function of epsilon and delta that returns the fit's privacy.
    num_without_share: How many of the first two clients leave out their share of the noise.
    widths: With a `ViewPrivacy`, the views' numbers of columns.
  """

  build_privacy: Callable[..., privacy_lib.Privacy]
  num_without_share: int = 0
  widths: tuple[int, ...] = ()

  def __call__(self, run: audited_sums.Run) -> float:
    """Returns how much the releases speak for the second data set."""
    privacy = self.build_privacy(run.budget.epsilon, run.budget.delta)
    noisy_totals = privacy_lib.noisy_totals
    first, second = np.array_split(run.neighbours.without, 2)
    parts = dict(enumerate([first, second, first[:0], run.neighbours.added]))

    def hold_points(mapped: Mapping[Any, np.ndarray]) -> _Neighbours:
      *others, absent, last = mapped.values()
      own, other = (last, absent) if run.is_second else (absent, last)
      return _Neighbours(
          dict(enumerate([*others, own])), secure_sums.identity(own.shape[1]), other,
          run.is_second, self.num_without_share,
      )

    clients: Any = privacy_lib.hold(parts, self.widths, privacy, hold_points)

    def weighed_totals(*arguments: Any) -> Callable[..., np.ndarray]:
      answer = noisy_totals(*arguments)

      def answer_and_weigh(mu: float, query: Any, stds: Mapping[str, float]) -> np.ndarray:
        noisy = answer(mu, query, stds)
        exact = [totals[: len(noisy)] for totals in clients.exact]
        run.evidence.add(noisy, exact, query.by_column(stds))
        return noisy

      return answer_and_weigh

    with mock.patch.object(privacy_lib, "noisy_totals", weighed_totals):
      fits.fit(_config(privacy), clients, self.widths, run.noise_source)
    return run.evidence.log_ratio
