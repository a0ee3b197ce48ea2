"""What clients do in a round, as `engine/tff/client_update.py` says it, for many of them at once.

The order of a client's examples and its dropout follow from the key of the round and from its place
in the task, and not from its place in a block.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, TYPE_CHECKING

import jax
from jax import lax
import jax.numpy as jnp

from fl_clustering.engine.jax import blocks as blocks_lib
from fl_clustering.engine.jax import client_pool
from fl_clustering.engine.jax import networks

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib


class How(NamedTuple):
  """How clients train; a program is compiled for each.

  Attributes:
    most_examples: At least the number of examples of any client.
    num_epochs: Passes over the data.
  """

  model: model_lib.Model
  num_epochs: int
  batch_size: int
  learning_rate: float
  most_examples: int
  blocks: blocks_lib.Blocks


class Members(NamedTuple):
  """Clients of a block, each an int32 array of shape (B,).

  Attributes:
    clients: Their places in the task; -1 where the block is only filled up.
    starts: Where their rows begin.
    counts: Their numbers of examples; 0 for one that shall not change its model.
    models: Which model each starts from; -1 where the block is only filled up.
  """

  clients: Any
  starts: Any
  counts: Any
  models: Any


def _trained(
    how: How, parameters: list[jax.Array], pool: client_pool.OnDevice, start: jax.Array,
    count: jax.Array, key: Any, steps: jax.Array,
) -> tuple[list[jax.Array], jax.Array]:
  """Returns one client's parameters after its passes, and its mean loss in the last one.

  Args:
    steps: Steps of a pass, as the largest client of the block needs; the others wait.
  """
  most = how.most_examples
  size = min(how.batch_size, most)
  # In one batch of all examples their order doesn't matter.
  is_one_batch = size == most
  places = -(-most // size) * size
  # A GPU would wait for the host after every round of a loop whose length only the data say.
  steps_of_pass = 1 if is_one_batch else steps

  def order_of(epoch: Any) -> jax.Array:
    if is_one_batch:
      return jnp.arange(places)
    drawn = jax.random.uniform(jax.random.fold_in(key, epoch), (most,))
    order = jnp.argsort(jnp.where(jnp.arange(most) < count, drawn, 2.0))
    return jnp.pad(order, (0, places - most))

  def mean_loss(
      parameters: list[jax.Array], examples: tuple[jax.Array, jax.Array], is_there: jax.Array,
      step_key: jax.Array | None,
  ) -> tuple[jax.Array, jax.Array]:
    features, labels = examples
    outputs = networks.logits(how.model, parameters, features, step_key)
    loss_sum = jnp.sum(is_there * networks.losses(outputs, labels))
    return loss_sum / jnp.maximum(is_there.sum(), 1), loss_sum

  def step(number: Any, state: tuple) -> tuple:
    parameters, order, loss_sum = state
    epoch, place = number // steps_of_pass, number % steps_of_pass
    is_first = place == 0
    if not is_one_batch:
      order = lax.cond(is_first, lambda: order_of(epoch), lambda: order)
    batch = lax.dynamic_slice(order, (place * size,), (size,))
    is_there = place * size + jnp.arange(size) < count
    rows = pool.rows[start + jnp.where(is_there, batch, 0)]
    step_key = None
    if how.model.uses_dropout:
      step_key = jax.random.fold_in(jax.random.fold_in(key, epoch), place + 1)
    gradients, of_batch = jax.grad(mean_loss, has_aux=True)(
        parameters, pool.take(rows), is_there, step_key
    )
    parameters = [p - how.learning_rate * g for p, g in zip(parameters, gradients)]
    return parameters, order, jnp.where(is_first, 0.0, loss_sum) + of_batch

  state = parameters, jnp.arange(places), jnp.float32(0)
  number = 0
  if how.blocks.side_by_side:
    # The first step is apart: clients that start from one model share its products.
    state, number = step(0, state), 1
  parameters, _, loss_sum = lax.fori_loop(number, how.num_epochs * steps_of_pass, step, state)
  return parameters, loss_sum / jnp.maximum(count, 1)


def _of_block(
    how: How, vectors: jax.Array, pool: client_pool.OnDevice, members: Members, key: jax.Array,
    steps: Any,
) -> tuple[list[jax.Array], list[jax.Array], jax.Array]:
  """Returns the members' parameters, each of shape (B, ...); their updates, and losses (B,)."""

  def train(client: Any, start: Any, count: Any, model: Any) -> tuple:
    vector = vectors[0] if len(vectors) == 1 else vectors[model]
    sent = networks.unflatten(how.model, vector)
    own_key = jax.random.fold_in(key, client)
    parameters, loss = _trained(how, sent, pool, start, count, own_key, steps)
    return parameters, [p - s for p, s in zip(parameters, sent)], loss

  return how.blocks.each(train, *members)


@functools.partial(jax.jit, static_argnums=0)
def summed_updates(
    how: How, vectors: jax.Array, pool: client_pool.OnDevice, members: Members, key: jax.Array,
    steps: Any,
) -> tuple[jax.Array, jax.Array]:
  """Returns the sums (K, P) of the members' updates, times their examples; and losses (B,)."""
  _, updates, losses = _of_block(how, vectors, pool, members, key, steps)
  # A product gives the same bits each time; adding at indices would not.  -1 is no model.
  weights = jax.nn.one_hot(members.models, len(vectors)) * members.counts[:, None]
  parts = [
      jnp.tensordot(weights, update, (0, 0), precision=networks.EXACT).reshape(len(vectors), -1)
      for update in updates
  ]
  return jnp.concatenate(parts, axis=1), losses


@functools.partial(jax.jit, static_argnums=0)
def own_models(
    how: How, vectors: jax.Array, pool: client_pool.OnDevice, members: Members, key: jax.Array,
    steps: Any,
) -> tuple[jax.Array, jax.Array]:
  """Returns the members' own trained models (B, P) and losses (B,)."""
  trained, _, losses = _of_block(how, vectors, pool, members, key, steps)
  return jnp.concatenate([p.reshape(len(losses), -1) for p in trained], axis=1), losses
