"""Rounds with Gaussian noise on the clients' sums; `point_privacy.py` accounts for them.

The noise is added by TFF's aggregator on the server, which is trusted with the sums.  It
comes from TensorFlow's generator, seeded afresh and never from the run's seed: it is not
a cryptographic one, and the grid of its float32 numbers is outside the guarantee.
"""

import collections
import dataclasses

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from fl_clustering.multiview import kernel_sums
from fl_clustering.multiview import multiview_model
from fl_clustering.multiview import multiview_rounds
from fl_clustering.multiview import point_privacy

# TFF's aggregator clips every client's message.  Clipping never takes two messages
# farther apart, so that any norm serves; this one leaves all messages as they are.
_CLIENT_NORM = 1e12
_EMPTY_STDS = 4
# Of the views' norms; the same as where private fits start.
_JITTER = 0.1


def noise_std(multiplier, num_views):
  """Returns the standard deviation of the noise on every sum."""
  return multiplier * point_privacy.sensitivity(num_views)


def first_centers(num_clusters, widths, rng):
  """Draws centers near the middle of the balls; the data have no say.

  From there the first clusters are sectors of about the same size.

  Args:
    num_clusters: Number of clusters, K.
    widths: The views' numbers of columns, which sum to D.
    rng: A `np.random.Generator`.

  Returns:
    float64 of shape (K, D).
  """
  drawn = rng.standard_normal((num_clusters, sum(widths)))
  return _JITTER * kernel_sums.project(drawn, widths).numpy()


def build_private_kernel_round(widths, num_clusters, multiplier):
  """Returns the round of `multiview_rounds.build_kernel_round` with noise on its sums.

  Args:
    widths: The views' numbers of columns.
    num_clusters: Number of clusters.
    multiplier: Standard deviation of the noise per sensitivity.

  Returns:
    The computation `(message@SERVER, {path}@CLIENTS) -> kernel_sums@SERVER`; the
    message's scale must measure every view in its norm.
  """
  sent_type = multiview_rounds.message_type(widths, num_clusters)

  @tff.tensorflow.computation(sent_type, np.str_)
  def local_sums(message, path):
    points = multiview_rounds.scaled_points(path, message["mean"], message["scale"])
    sums = kernel_sums.kernel_sums(
        kernel_sums.project(points, widths), message["centers"], message["betas"],
        message["view_factors"], widths,
    )
    # TFF's aggregator takes nothing but float32.
    return collections.OrderedDict((name, tf.cast(s, tf.float32)) for name, s in sums.items())

  aggregator = tff.aggregators.DifferentiallyPrivateFactory(
      tfp.GaussianSumQuery(_CLIENT_NORM, noise_std(multiplier, len(widths)))
  ).create(local_sums.type_signature.result)

  @tff.federated_computation(
      tff.FederatedType(sent_type, tff.SERVER),
      tff.FederatedType(np.str_, tff.CLIENTS),
  )
  def kernel_round(message, paths):
    sums = tff.federated_map(local_sums, (tff.federated_broadcast(message), paths))
    return aggregator.next(aggregator.initialize(), sums).result

  return kernel_round


def _without_empty_clusters(centers, counts, std, rng):
  """Returns the centers with those of empty clusters moved beside the largest one's.

  A count within four standard deviations of zero is taken for zero.
  """
  empty = counts < _EMPTY_STDS * std
  jitter = _JITTER * rng.standard_normal(centers.shape) / np.sqrt(centers.shape[1])
  return np.where(empty[:, None], centers[np.argmax(counts)] + jitter, centers)


def next_model(model, sums, widths, weigh, std, rng):
  """Returns the model after a private round.

  Args:
    model: The `MultiViewModel` that the clients were sent.
    sums: A dict as from `kernel_sums`, over all clients, with noise.
    widths: The views' numbers of columns.
    weigh: A function from the views' costs to their weights.
    std: Standard deviation of the noise on every sum.
    rng: A `np.random.Generator`; it moves centers, and makes no noise.
  """
  sums = {name: np.asarray(value, np.float64) for name, value in sums.items()}
  # A quotient of noise by noise would be anywhere.
  centers = multiview_model.moved_centers(
      model.centers, sums, widths, least_kernel_weight=max(1.0, std)
  )
  centers = _without_empty_clusters(centers, sums["counts"], std, rng)
  return dataclasses.replace(
      model,
      centers=kernel_sums.project(centers, widths).numpy(),
      view_weights=weigh(sums["view_costs"]),
  )
