"""Clients' updates made finite and clipped, whatever they hold, before they are summed up."""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff


def bounded(update: tf.Tensor, clipping_norm: float) -> tf.Tensor:
  """Returns an update clipped to an L2 norm; zeros if it holds a number that is not finite.

  In float64, in which no square of a float32 number overflows or vanishes.
  """
  wide = tf.cast(update, tf.float64)
  wide = tf.where(tf.reduce_all(tf.math.is_finite(wide)), wide, tf.zeros_like(wide))
  norm = tf.maximum(tf.norm(wide), clipping_norm)
  return tf.cast(wide * (clipping_norm / norm), tf.float32)


class BoundedFactory(tff.aggregators.UnweightedAggregationFactory):
  """Aggregates with the factory `inner` what `bounded` makes of the updates."""

  def __init__(self, clipping_norm: float, inner: tff.aggregators.UnweightedAggregationFactory):
    self._clipping_norm = clipping_norm
    self._inner = inner

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    process = self._inner.create(value_type)

    @tff.tensorflow.computation(value_type)
    def bound(update: tf.Tensor) -> tf.Tensor:
      return bounded(update, self._clipping_norm)

    @tff.federated_computation(
        process.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
    )
    def next_state(state: Any, updates: Any) -> Any:
      return process.next(state, tff.federated_map(bound, updates))

    return tff.templates.AggregationProcess(process.initialize, next_state)
