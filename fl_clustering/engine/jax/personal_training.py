"""Clients that train a model of their own beside a common one, as `personalization.py` says it."""

from __future__ import annotations

import functools
from typing import Any, TYPE_CHECKING

import jax
import jax.numpy as jnp

from fl_clustering.engine.jax import client_pool
from fl_clustering.engine.jax import client_training
from fl_clustering.engine.jax import networks

if TYPE_CHECKING:
  from fl_clustering.engine import personalization

_State = tuple[list[jax.Array], list[jax.Array], jax.Array]


def _build_step(
    how: client_training.How, personal: personalization.Personalization
) -> client_training.Step:
  """Returns the `client_training.Step` for (own parameters, common ones, share)."""
  in_head = [name in how.model.head for name in how.model.parameter_shapes]
  rate = how.learning_rate

  def do_step(
      state: _State, on_batch: client_training.OnBatch, epoch: Any, is_any: jax.Array
  ) -> tuple[_State, jax.Array]:
    own, common, share = state
    apart = [v - w for v, w in zip(own, common)]
    used = own
    if personal.is_mixture:
      used = [share * v + (1 - share) * w for v, w in zip(own, common)]
    gradients, loss = on_batch(used)
    steps = [share * g for g in gradients] if personal.is_mixture else gradients
    if personal.pull:
      pull = personal.pull * is_any
      steps = [step + pull * difference for step, difference in zip(steps, apart)]
    if personal.head_epochs is not None:
      of_head = epoch < personal.head_epochs
      steps = [(of_head == is_in) * step for step, is_in in zip(steps, in_head)]
    if personal.is_mixture:
      common_gradients, _ = on_batch(common)
      common = [w - rate * g for w, g in zip(common, common_gradients)]
    if personal.learns_share:
      slope = sum(jnp.sum(d * g) for d, g in zip(apart, gradients))
      share = jnp.clip(share - rate * slope, 0, 1)
    own = [v - rate * step for v, step in zip(own, steps)]
    return (own, common, share), loss

  return do_step


@functools.partial(jax.jit, static_argnums=(0, 1))
def own_models(
    how: client_training.How, personal: personalization.Personalization, vectors: jax.Array,
    shares: jax.Array, common: jax.Array, pool: client_pool.OnDevice,
    members: client_training.Members, passes: client_training.Passes,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Returns the members' own models (B, P) after their passes, their shares and losses (B,).

  Args:
    vectors: The own models before, of shape (B, P).
    shares: Their shares in a mixture, of shape (B,).
    common: The common model, of shape (P,).
  """
  do_step = _build_step(how, personal)

  def train(
      vector: jax.Array, share: jax.Array, client: Any, start: Any, count: Any, unused_model: Any
  ) -> tuple[jax.Array, jax.Array, jax.Array]:
    own, sent = (networks.unflatten(how.model, one) for one in (vector, common))
    (own, _, share), loss = client_training.do_passes(
        how, do_step, (own, sent, share), pool, client, start, count, passes
    )
    return jnp.concatenate([p.ravel() for p in own]), share, loss

  return how.blocks.each(train, vectors, shares, *members)
