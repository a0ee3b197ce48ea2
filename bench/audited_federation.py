"""Whole private fits of federated k-means and multi-view k-means, to be audited.

All of a fit is the code of real federations: what a client computes of its points, its limits, the
shares of the noise, how the server reads the sum, and what it makes of it.  The clients are in this
process, as `secure_sums.PointArrays`, whose sums have the same bits as those through TFF.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterable, Mapping, TYPE_CHECKING
from unittest import mock

import numpy as np

from bench import audited_sums
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import private_fit
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import private_fit as multiview_fit
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from dp_clustering import noise


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


def _fit_kmeans(
    privacy: Any, clients: secure_sums.ClientPoints, noise_source: noise.Source
) -> None:
  config = kmeans_config.KMeansConfig(2, privacy=privacy)  # The same seed in all runs.
  private_fit.fit(config, clients, noise_source)


@dataclasses.dataclass(frozen=True)
class FederatedFit:
  """A mechanism: a whole private fit, of k-means by default.

  Two clients have the points that both data sets have in common.  The third one has those of
  the second data set alone, so it has none in the first.

  Attributes:
    build_privacy: Function of epsilon and delta that returns the fit's privacy, such as a
      `ViewPrivacy`.
    num_without_share: How many of the first two clients leave out their share of the noise.
    hold: Function of a mapping from client id to points, the privacy and a `secure_sums.Hold`,
      such as `private_fit.hold`.
    fit: Function of the privacy, the `ClientPoints` and a noise source.
  """

  build_privacy: Callable[..., Any]
  num_without_share: int = 0
  hold: Callable[..., secure_sums.ClientPoints] = private_fit.hold
  fit: Callable[..., None] = _fit_kmeans

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

    clients: Any = self.hold(parts, privacy, hold_points)

    def weighed_totals(*arguments: Any) -> Callable[..., np.ndarray]:
      answer = noisy_totals(*arguments)

      def answer_and_weigh(mu: float, query: Any, stds: Mapping[str, float]) -> np.ndarray:
        noisy = answer(mu, query, stds)
        exact = [totals[: len(noisy)] for totals in clients.exact]
        run.evidence.add(noisy, exact, query.by_column(stds))
        return noisy

      return answer_and_weigh

    with mock.patch.object(privacy_lib, "noisy_totals", weighed_totals):
      self.fit(privacy, clients, run.noise_source)
    return run.evidence.log_ratio


def multi_view_fit(build_privacy: Callable[..., Any], widths: tuple[int, ...]) -> FederatedFit:
  """Returns a fit of multi-view k-means.

  Args:
    build_privacy: Function of epsilon and delta that returns a `ViewPrivacy`.
    widths: The views' numbers of columns.
  """

  def hold(
      clients: dict[str, np.ndarray], privacy: Any, hold_points: secure_sums.Hold
  ) -> secure_sums.ClientPoints:
    return multiview_fit.hold(clients, widths, privacy, hold_points)

  def fit(
      privacy: Any, clients: secure_sums.ClientPoints, noise_source: noise.Source
  ) -> None:
    config = multiview_config.MultiViewConfig(
        2, standardize=False, privacy=privacy, **multiview_config.PRIVATE_DEFAULTS
    )
    multiview_fit.fit(config, clients, widths, noise_source)

  return FederatedFit(build_privacy, hold=hold, fit=fit)
