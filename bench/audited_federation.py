"""Whole private fits of federated k-means and multi-view k-means, to be audited.

All clients are in this process.  All of a fit but its transport is the code of real
federations: the clients' files, TensorFlow's computation of a client's totals, their limits,
the shares of the noise, how the server reads the sum, and what it makes of it.  Instead of
TFF, which takes far longer, NumPy adds up the clients' messages with the same modulus.
"""

import dataclasses
import functools
import tempfile
from typing import Any, Callable, Mapping, Sequence
from unittest import mock

import numpy as np
import tensorflow as tf

from bench import audited_sums
from dp_clustering import noise
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import private_fit
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import private_fit as multiview_fit
from fl_clustering.points import point_files
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums

_NUM_CLIENTS = 4  # Of both data sets.


def _build_local_answers(
    source: point_files.PointSource, query_type: Any, client_totals: Callable[..., tf.Tensor]
) -> Callable[..., list[tf.Tensor]]:
  """Takes what `point_files.build_round` takes; returns a function without TFF.

  It takes a query and the clients, whose values are stacked, and returns their totals, before
  the shares of the noise are added.
  """
  del query_type  # TensorFlow sees it.

  @tf.function
  def answers(query: Any, clients: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
    rows = zip(*(tf.unstack(values, num=_NUM_CLIENTS) for values in clients.values()))
    return [client_totals(query, source.read(dict(zip(clients, row)))) for row in rows]

  return answers


# Without its cache, which is for TFF's computations.
_build_question_round = point_files.build_question_round.__wrapped__


@functools.cache
def _local_answers(*arguments: Any) -> Callable[..., list[tf.Tensor]]:
  """Takes what `point_files.build_question_round` takes."""
  with mock.patch.object(point_files, "build_round", _build_local_answers):
    return _build_question_round(*arguments)


class _LocalRounds:
  """The rounds of one fit, without TFF.

  Attributes:
    exact: The clients' totals in the last round without noise, added up over the first data
      set and over the second one.
  """

  def __init__(
      self, data_sets: Sequence[point_files.PointFiles], num_without_share: int
  ) -> None:
    """Takes both data sets, and how many clients leave out their share."""
    self._paths = [list(files.by_id.values()) for files in data_sets]
    # A client of both data sets computes the same in both.
    clients = {client["path"]: client for files in data_sets for client in files.clients()}
    self._all_paths = list(clients)
    self._clients = tf.nest.map_structure(lambda *rows: tf.stack(rows), *clients.values())
    self._num_without_share = num_without_share
    self.exact: list[np.ndarray] = []

  def build(self, *arguments: Any) -> Callable[[Any, Any], np.ndarray]:
    """Stands in for `point_files.build_question_round`."""
    return functools.partial(self._sum, _local_answers(*arguments))

  def _sum(
      self, answers: Callable[..., list[tf.Tensor]], query: Any, clients: Sequence[Any]
  ) -> np.ndarray:
    found = answers(tf.nest.map_structure(tf.constant, query), self._clients)
    totals = {path: array.numpy() for path, array in zip(self._all_paths, found)}
    self.exact = [sum(totals[path] for path in paths) for paths in self._paths]
    sum_of_messages = np.int64(0)
    for index, client in enumerate(clients):
      message = totals[client["client"]["path"]]
      if index >= self._num_without_share:
        message = message + client["share"]
      sum_of_messages = (sum_of_messages + message) % secure_sums.MODULUS
    return secure_sums.signed(np, sum_of_messages)


def _write_data_sets(
    neighbours: audited_sums.Neighbours,
    hold: Callable[..., secure_sums.ClientPoints],
    privacy: Any,
    directory: str,
) -> list[point_files.PointFiles]:
  """Returns both data sets."""
  first, second = np.array_split(neighbours.without, 2)
  clients = {"first": first, "second": second, "absent": first[:0], "last": neighbours.added}
  write_files = functools.partial(point_files.write_files, directory=directory)
  files: Any = hold(clients, privacy, write_files)
  return [
      dataclasses.replace(
          files, by_id={name: files.by_id[name] for name in ("first", "second", last)})
      for last in ("absent", "last")
  ]


def _fit_kmeans(privacy: Any, files: point_files.PointFiles, noise_source: noise.Source) -> None:
  config = kmeans_config.KMeansConfig(2, privacy=privacy)  # The same seed in all runs.
  private_fit.fit(config, files, noise_source)


@dataclasses.dataclass(frozen=True)
class FederatedFit:
  """A mechanism: a whole private fit, of k-means by default.

  Two clients have the points that both data sets have in common.  The third one has those of
  the second data set alone, so it has none in the first.

  Attributes:
    build_privacy: Function of epsilon and delta that returns the fit's privacy, such as a
      `PointPrivacy`.
    num_without_share: How many of the first two clients leave out their share of the noise.
    hold: Function of a mapping from client id to points, the privacy and a `secure_sums.Hold`,
      such as `private_fit.hold`.
    fit: Function of the privacy, the `PointFiles` and a noise source.
  """

  build_privacy: Callable[..., Any]
  num_without_share: int = 0
  hold: Callable[..., secure_sums.ClientPoints] = private_fit.hold
  fit: Callable[..., None] = _fit_kmeans

  def __call__(self, run: audited_sums.Run) -> float:
    """Returns how much the releases speak for the second data set."""
    privacy = self.build_privacy(run.budget.epsilon, run.budget.delta)
    noisy_totals = privacy_lib.noisy_totals
    with tempfile.TemporaryDirectory() as directory:
      data_sets = _write_data_sets(run.neighbours, self.hold, privacy, directory)
      rounds = _LocalRounds(data_sets, self.num_without_share)

      def weighed_totals(*arguments: Any) -> Callable[..., np.ndarray]:
        answer = noisy_totals(*arguments)

        def answer_and_weigh(mu: float, query: Any, stds: Mapping[str, float]) -> np.ndarray:
          noisy = answer(mu, query, stds)
          exact = [totals[: len(noisy)] for totals in rounds.exact]
          run.evidence.add(noisy, exact, query.by_column(stds))
          return noisy

        return answer_and_weigh

      with (
          mock.patch.object(point_files, "build_question_round", rounds.build),
          mock.patch.object(privacy_lib, "noisy_totals", weighed_totals),
      ):
        self.fit(privacy, data_sets[run.is_second], run.noise_source)
    return run.evidence.log_ratio


def multi_view_fit(build_privacy: Callable[..., Any], widths: tuple[int, ...]) -> FederatedFit:
  """Returns a fit of multi-view k-means.

  Args:
    build_privacy: Function of epsilon and delta that returns a multi-view `PointPrivacy`.
    widths: The views' numbers of columns.
  """

  def hold(
      clients: dict[str, np.ndarray], privacy: Any, hold_points: secure_sums.Hold
  ) -> secure_sums.ClientPoints:
    return multiview_fit.hold(clients, widths, privacy, hold_points)

  def fit(privacy: Any, files: point_files.PointFiles, noise_source: noise.Source) -> None:
    config = multiview_config.MultiViewConfig(
        2, standardize=False, privacy=privacy, **multiview_config.PRIVATE_DEFAULTS
    )
    multiview_fit.fit(config, files, widths, noise_source)

  return FederatedFit(build_privacy, hold=hold, fit=fit)
