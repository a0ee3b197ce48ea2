"""What clients do in a round, as `engine/tff/client_update.py` says it, for many of them at once.

The order of a client's examples and its dropout follow from the key of the round and from its place
in the task, and not from its place in a block.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, TYPE_CHECKING

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
  """

  model: model_lib.Model
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


class Passes(NamedTuple):
  """What clients of a block do in a round, in numbers, for which nothing is compiled anew.

  Attributes:
    key: The round's, from which and from its place a client's own follows.
    num_epochs: Passes over the data.
    steps: Steps of a pass, as the largest client of the block needs; the others wait.
  """

  key: Any
  num_epochs: Any
  steps: Any


# The gradients of a batch's mean loss in a model's parameters, and the sum of its losses.
OnBatch = Callable[[list[jax.Array]], tuple[list[jax.Array], jax.Array]]
# What a client does with a batch: a function of what it trains, an `OnBatch`, the number of the
# pass, from 0, and whether there are examples in the batch: there are none where a client waits for
# a larger one, and it must not change then.  It returns what it has trained, and the sum of losses.
Step = Callable[[Any, OnBatch, Any, jax.Array], tuple[Any, jax.Array]]


def do_passes(
    how: How, do_step: Step, trained: Any, pool: client_pool.OnDevice, client: Any,
    start: jax.Array, count: jax.Array, passes: Passes,
) -> tuple[Any, jax.Array]:
  """Returns what one client trains after its passes, and its mean loss in the last one."""
  key = jax.random.fold_in(passes.key, client)
  most = how.most_examples
  size = min(how.batch_size, most)
  # In one batch of all examples their order doesn't matter.
  is_one_batch = size == most
  places = -(-most // size) * size
  if how.blocks.side_by_side:
    # A GPU would wait for the host after every round of a loop whose length only the data say.
    steps_of_pass = 1 if is_one_batch else passes.steps
  else:
    steps_of_pass = -(-count // size)  # Nobody waits for a larger client.

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
    trained, order, loss_sum = state
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
    examples = pool.take(rows)

    def on_batch(parameters: list[jax.Array]) -> tuple[list[jax.Array], jax.Array]:
      return jax.grad(mean_loss, has_aux=True)(parameters, examples, is_there, step_key)

    trained, of_batch = do_step(trained, on_batch, epoch, is_there.any())
    return trained, order, jnp.where(is_first, 0.0, loss_sum) + of_batch

  state = trained, jnp.arange(places), jnp.float32(0)
  number = 0
  if how.blocks.side_by_side:
    # The first step is apart: clients that start from one model share its products.
    state, number = step(0, state), 1
  trained, _, loss_sum = lax.fori_loop(number, passes.num_epochs * steps_of_pass, step, state)
  return trained, loss_sum / jnp.maximum(count, 1)


def _flat(parameters: list[jax.Array], size: int) -> jax.Array:
  """Returns parameters, each of shape (size, ...), as vectors of shape (size, P)."""
  return jnp.concatenate([p.reshape(size, -1) for p in parameters], axis=1)


@functools.partial(jax.jit, static_argnums=(0, 1))
def summed_updates(
    how: How, keeps_own: bool, vectors: jax.Array, pool: client_pool.OnDevice, members: Members,
    passes: Passes,
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
  """Returns the sums (K, P) of the members' updates, times their examples; and losses (B,).

  Args:
    keeps_own: Whether to return the members' own models (B, P) too; else None.
  """

  def do_step(
      parameters: list[jax.Array], on_batch: OnBatch, epoch: Any, is_any: jax.Array
  ) -> tuple[list[jax.Array], jax.Array]:
    del epoch, is_any  # All passes are alike, and without examples there are no gradients.
    gradients, of_batch = on_batch(parameters)
    return [p - how.learning_rate * g for p, g in zip(parameters, gradients)], of_batch

  def train(client: Any, start: Any, count: Any, model: Any) -> tuple:
    vector = vectors[0] if len(vectors) == 1 else vectors[model]
    sent = networks.unflatten(how.model, vector)
    parameters, loss = do_passes(how, do_step, sent, pool, client, start, count, passes)
    return parameters, [p - s for p, s in zip(parameters, sent)], loss

  own, updates, losses = how.blocks.each(train, *members)
  # A product gives the same bits each time; adding at indices would not.  -1 is no model.
  weights = jax.nn.one_hot(members.models, len(vectors)) * members.counts[:, None]
  sums = [
      jnp.tensordot(weights, update, (0, 0), precision=networks.EXACT) for update in updates
  ]
  return _flat(sums, len(vectors)), losses, _flat(own, len(losses)) if keeps_own else None
