"""Clients' updates made finite and clipped, whatever they hold, before they are summed up."""

import tensorflow as tf
import tensorflow_federated as tff


def bounded(update, clipping_norm):
  """Returns an update clipped to a norm; zeros if it holds a number that is not finite.

  In float64, in which no square of a float32 number overflows or vanishes.

  Args:
    update: float32 of shape (P,).
    clipping_norm: The largest L2 norm of the result.
  """
  wide = tf.cast(update, tf.float64)
  wide = tf.where(tf.reduce_all(tf.math.is_finite(wide)), wide, tf.zeros_like(wide))
  norm = tf.maximum(tf.norm(wide), clipping_norm)
  return tf.cast(wide * (clipping_norm / norm), tf.float32)


class BoundedFactory(tff.aggregators.UnweightedAggregationFactory):
  """Aggregates what `bounded` makes of the updates."""

  def __init__(self, clipping_norm, inner):
    """Takes the norm, and the factory for the bounded updates."""
    self._clipping_norm = clipping_norm
    self._inner = inner

  def create(self, value_type):
    process = self._inner.create(value_type)

    @tff.tensorflow.computation(value_type)
    def bound(update):
      return bounded(update, self._clipping_norm)

    @tff.federated_computation(
        process.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
    )
    def next_state(state, updates):
      return process.next(state, tff.federated_map(bound, updates))

    return tff.templates.AggregationProcess(process.initialize, next_state)
