"""The rounds of federated multi-view k-means, run by TFF over the clients' files.

Every round is a sum over the clients, and the server sees the sum alone.  Secure
aggregation could compute that without showing the server any client's part; nothing here
does so by itself.

Building and preparing a computation takes longer than a round, so each is built once and
kept.
"""

import collections
import dataclasses
import functools
from typing import Callable, Optional

import numpy as np
import tensorflow_federated as tff

from fl_clustering.multiview import sums as sums_lib
from fl_clustering.points import point_files


def _message_type(widths, num_clusters):
  """Returns the type of `MultiViewModel.message()`."""
  float64 = lambda *shape: tff.TensorType(np.float64, list(shape))
  return tff.StructWithPythonType(
      [
          ("centers", float64(num_clusters, sum(widths))),
          ("betas", float64(len(widths))),
          ("view_factors", float64(len(widths))),
      ],
      collections.OrderedDict,
  )


@functools.lru_cache(maxsize=None)
def build_kernel_round(
    source, widths, num_clusters, local_sums=sums_lib.kernel_sums, sum_factory=None
):
  """Returns the round `(message@SERVER, {points}@CLIENTS) -> sums@SERVER`.

  Args:
    source: A `PointSource`.
    widths: The views' numbers of columns.
    num_clusters: Number of clusters, K.
    local_sums: What a client sends: `sums.kernel_sums`, `sums.kernel_sums_apart` for
      clusters of every view's own, or `sums.projected_sums`.
    sum_factory: A `tff.aggregators.UnweightedAggregationFactory`; a plain sum by default.
  """
  message_type = _message_type(widths, num_clusters)

  @tff.tensorflow.computation(message_type, source.client_type)
  def client_sums(message, client):
    return local_sums(
        source.read(client), message["centers"], message["betas"], message["view_factors"],
        widths,
    )

  factory = sum_factory or tff.aggregators.SumFactory()
  aggregator = factory.create(client_sums.type_signature.result)

  @tff.federated_computation(
      tff.FederatedType(message_type, tff.SERVER),
      tff.FederatedType(source.client_type, tff.CLIENTS),
  )
  def kernel_round(message, clients):
    sums = tff.federated_map(client_sums, (tff.federated_broadcast(message), clients))
    return aggregator.next(aggregator.initialize(), sums).result

  return kernel_round


@dataclasses.dataclass(frozen=True, eq=False)
class Rounds:
  """The rounds of a fit, as functions of the model that the server sends.

  Attributes:
    files: The clients as `PointFiles`, in the coordinates of the fit.
    widths: The views' numbers of columns.
    local_sums: What a client sends: `sums.kernel_sums`, `sums.kernel_sums_apart` for
      clusters of every view's own, or `sums.projected_sums`.
    sum_factory: How that is summed up over the clients, a
      `tff.aggregators.UnweightedAggregationFactory`; None for a plain sum.
  """

  files: point_files.PointFiles
  widths: tuple[int, ...]
  local_sums: Callable[..., dict] = sums_lib.kernel_sums
  sum_factory: Optional[tff.aggregators.UnweightedAggregationFactory] = None

  def kernel_sums(self, model):
    """Returns the sums over all clients for a `MultiViewModel`, a dict of arrays."""
    kernel_round = build_kernel_round(
        self.files.source, self.widths, len(model.centers),
        local_sums=self.local_sums, sum_factory=self.sum_factory,
    )
    return kernel_round(model.message(), self.files.clients())
