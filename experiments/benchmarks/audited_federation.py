"""Whole private fits of federated k-means, with all clients in this process, to be audited.

All of a fit but its transport is the code of real federations: the clients' files,
TensorFlow's computation of a client's totals, their limits, the shares of the noise, how the
server reads the sum, and `refine`.  Instead of TFF, which takes far longer, NumPy adds up the
clients' messages with the same modulus.
"""

import dataclasses
import functools
import tempfile
from typing import Callable
from unittest import mock

import numpy as np
import tensorflow as tf

from experiments.benchmarks import audited_sums
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import private_fit
from fl_clustering.points import federated_points
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums

_NUM_CLIENTS = 4  # Of both data sets.


def _build_local_answers(source, query_type, client_totals):
  """Takes what `secure_sums.build_round` takes; returns a function without TFF.

  It takes a query and the clients, whose values are stacked, and returns the list of their
  totals, before the shares of the noise are added.
  """
  del query_type  # TensorFlow sees it.

  @tf.function
  def answers(query, clients):
    rows = zip(*(tf.unstack(values, num=_NUM_CLIENTS) for values in clients.values()))
    return [client_totals(query, source.read(dict(zip(clients, row)))) for row in rows]

  return answers


# Without its cache, which is for TFF's computations.
_build_totals_round = federated_points.build_totals_round.__wrapped__


@functools.cache
def _local_answers(*arguments):
  """Takes what `federated_points.build_totals_round` takes."""
  with mock.patch.object(secure_sums, "build_round", _build_local_answers):
    return _build_totals_round(*arguments)


class _LocalRounds:
  """The rounds of one fit, without TFF.

  Attributes:
    exact: The clients' totals in the last round without noise, added up over the first data
      set and over the second one; a list of two arrays.
  """

  def __init__(self, data_sets, num_without_share):
    """Takes the `PointFiles` of both data sets, and how many clients leave out their share."""
    self._paths = [list(files.paths.values()) for files in data_sets]
    # A client of both data sets computes the same in both.
    clients = {client["path"]: client for files in data_sets for client in files.clients()}
    self._all_paths = list(clients)
    self._clients = tf.nest.map_structure(lambda *rows: tf.stack(rows), *clients.values())
    self._num_without_share = num_without_share
    self.exact = []

  def build(self, *arguments):
    """Stands in for `federated_points.build_totals_round`."""
    return functools.partial(self._sum, _local_answers(*arguments))

  def _sum(self, answers, query, clients):
    found = answers(tf.nest.map_structure(tf.constant, query), self._clients)
    totals = {path: array.numpy() for path, array in zip(self._all_paths, found)}
    self.exact = [sum(totals[path] for path in paths) for paths in self._paths]
    sum_of_messages = 0
    for index, client in enumerate(clients):
      message = totals[client["client"]["path"]]
      if index >= self._num_without_share:
        message = message + client["share"]
      sum_of_messages = (sum_of_messages + message) % secure_sums.MODULUS
    return secure_sums.signed(np, sum_of_messages)


def _write_data_sets(neighbours, privacy, directory):
  """Returns the `PointFiles` of both data sets."""
  first, second = np.array_split(neighbours.without, 2)
  clients = {"first": first, "second": second, "absent": first[:0], "last": neighbours.added}
  files = private_fit.write_files(clients, privacy, directory)
  return [
      dataclasses.replace(
          files, paths={name: files.paths[name] for name in ("first", "second", last)})
      for last in ("absent", "last")
  ]


@dataclasses.dataclass(frozen=True)
class FederatedFit:
  """A mechanism: a whole private fit.

  Two clients have the points that both data sets have in common.  The third one has those of
  the second data set alone, so it has none in the first.

  Attributes:
    build_privacy: Function of epsilon and delta that returns a `PointPrivacy` or
      `ClientPrivacy`.
    num_without_share: How many of the first two clients leave out their share of the noise.
  """

  build_privacy: Callable[..., privacy_lib.PointPrivacy | privacy_lib.ClientPrivacy]
  num_without_share: int = 0

  def __call__(self, points, neighbours, noise_source, budget):
    """Returns how much the releases speak for the second data set."""
    privacy = self.build_privacy(budget.epsilon, budget.delta)
    config = kmeans_config.KMeansConfig(2, privacy=privacy)  # The same seed in all runs.
    evidence = audited_sums.Evidence()
    noisy_totals = privacy_lib.noisy_totals
    with tempfile.TemporaryDirectory() as directory:
      data_sets = _write_data_sets(neighbours, privacy, directory)
      rounds = _LocalRounds(data_sets, self.num_without_share)

      def weighed_totals(*arguments):
        answer = noisy_totals(*arguments)

        def answer_and_weigh(mu, query, stds):
          noisy = answer(mu, query, stds)
          exact = [totals[: len(noisy)] for totals in rounds.exact]
          evidence.add(noisy, exact, query.by_column(stds))
          return noisy

        return answer_and_weigh

      with (
          mock.patch.object(federated_points, "build_totals_round", rounds.build),
          mock.patch.object(privacy_lib, "noisy_totals", weighed_totals),
      ):
        files = data_sets[len(points) > len(neighbours.without)]
        private_fit.fit(config, files, noise_source)
    return evidence.log_ratio
