"""The clients of `engine/bounded_sums.py` in JAX, many of them in a call.

A block of clients has its updates, of shape (B, P), on the device, and their messages are added up
there, slot by slot: integers of 64 bits, so sums are exact on any device.

Clients are computed with others of about their own number of examples, filled up to a size that
follows from that number alone, as does the size of a block: what one client holds doesn't change
how another one's numbers are rounded.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, Iterator, NamedTuple, TYPE_CHECKING

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from fl_clustering.engine import bounded_sums
from fl_clustering.engine import sketch
from fl_clustering.engine.jax import blocks as blocks_lib
from fl_clustering.engine.jax import client_pool
from fl_clustering.engine.jax import networks
from fl_clustering.engine.jax import own_settings
from fl_clustering.engine.jax import sketches as sketches_lib
from fl_clustering.points import secure_sums

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib
  from fl_clustering.tasks import pooled_examples

# How many clients' sketches are in memory at a time, beside those that clients keep.
_SKETCHES_AT_ONCE = 16_384
# Of a client's update: float64, and a message of int64.
_COPIES = 10


@functools.lru_cache(maxsize=None)
def _planned(model: model_lib.Model, most: int) -> blocks_lib.Blocks:
  # Of nothing but a client's own size, or another client's would change how it is rounded.
  return blocks_lib.plan(model, most, copies=_COPIES)


class _How(NamedTuple):
  """What a program is compiled for.

  Attributes:
    most: The examples of a client, filled up.
  """

  model: model_lib.Model
  blocks: blocks_lib.Blocks
  most: int


class _Clients(NamedTuple):
  """Clients of a block.

  Attributes:
    pool: What is on the device.
    starts: Where their rows begin, int32 of shape (B,).
    counts: How many examples each has, likewise; -1 where the block is only filled up.
  """

  pool: client_pool.OnDevice
  starts: Any
  counts: Any


def _mean_loss(
    how: _How, parameters: list[jax.Array], examples: tuple[jax.Array, ...], own_labels: bool,
    is_alone: bool = False,
) -> jax.Array:
  features, labels, is_there = examples
  outputs = networks.logits(how.model, parameters, features, is_alone=is_alone)
  if own_labels:
    is_own = (jax.nn.one_hot(labels, outputs.shape[-1]) * is_there[:, None]).any(0)
    outputs = jnp.where(is_own, outputs, sketch.FAR_BELOW)
  losses = jnp.where(is_there, networks.losses(outputs, labels), 0.0)
  return losses.sum() / jnp.maximum(is_there.sum(), 1)


@functools.partial(jax.jit, static_argnums=0)
def _slots(how: _How, vectors: jax.Array, clients: _Clients) -> jax.Array:
  """Returns the clients' models of least loss (B,); a loss that is not a number is infinite."""

  def of_client(start: jax.Array, count: jax.Array) -> jax.Array:
    examples = clients.pool.of_client(start, count, how.most)

    def loss(vector: jax.Array) -> jax.Array:
      parameters = networks.unflatten(how.model, vector)
      return _mean_loss(how, parameters, examples, own_labels=True, is_alone=True)

    losses = lax.map(loss, vectors)
    return jnp.where(jnp.isnan(losses), jnp.inf, losses).argmin().astype(jnp.int32)

  return how.blocks.each(of_client, clients.starts, clients.counts)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _updates(
    how: _How, own_labels: bool, num_steps: Any, rate: Any, vectors: jax.Array, slots: jax.Array,
    clients: _Clients,
) -> jax.Array:
  """Returns the clients' updates of their models (B, P), which need not be finite."""

  def of_client(start: jax.Array, count: jax.Array, slot: jax.Array) -> jax.Array:
    examples = clients.pool.of_client(start, count, how.most)
    sent = networks.unflatten(how.model, vectors[slot])

    def step(unused_number: Any, parameters: list[jax.Array]) -> list[jax.Array]:
      gradients = jax.grad(lambda own: _mean_loss(how, own, examples, own_labels))(parameters)
      return [p - rate * g for p, g in zip(parameters, gradients)]

    trained = lax.fori_loop(0, num_steps, step, sent)
    return jnp.concatenate([(p - s).ravel() for p, s in zip(trained, sent)])

  return how.blocks.each(of_client, clients.starts, clients.counts, slots)


@functools.partial(jax.jit, static_argnums=0)
def _num_right(
    how: _How, vectors: jax.Array, slots: jax.Array, clients: _Clients
) -> jax.Array:
  """Returns how many of its examples each client's model names rightly, by finite outputs."""

  def of_client(start: jax.Array, count: jax.Array, slot: jax.Array) -> jax.Array:
    features, labels, is_there = clients.pool.of_client(start, count, how.most)
    outputs = networks.logits(how.model, networks.unflatten(how.model, vectors[slot]), features)
    is_right = (outputs.argmax(-1) == labels) & jnp.isfinite(outputs).all(-1)
    return (is_right & is_there).sum()

  return how.blocks.each(of_client, clients.starts, clients.counts, slots)


def _finite(updates: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns updates as float64, zeros for one that is not finite, and their norms (B, 1)."""
  wide = updates.astype(jnp.float64)
  wide = jnp.where(jnp.isfinite(wide).all(axis=1, keepdims=True), wide, 0.0)
  return wide, jnp.sqrt((wide**2).sum(axis=1, keepdims=True))


@jax.jit
def _norms(updates: jax.Array) -> jax.Array:
  return _finite(updates)[1][:, 0]


@functools.partial(jax.jit, static_argnums=0)
def _slot_sums(
    num_slots: int, updates: jax.Array, slots: jax.Array, counts: jax.Array, clip_norm: Any
) -> jax.Array:
  """Returns the sum of the messages of a round, int64, as `bounded_sums.ROUND` says."""
  wide, norms = _finite(updates)
  longest = jnp.maximum(norms, clip_norm)
  clipped = jnp.where(longest > 0, wide / jnp.where(longest > 0, longest, 1.0), 0.0)
  is_there = counts > 0
  count = jnp.full((len(slots), 1), bounded_sums.COUNT_WEIGHT)
  parts = bounded_sums.in_steps(jnp.concatenate([clipped, count], axis=1))
  bits = jnp.where(norms[:, 0] <= clip_norm, 0.5, -0.5) * bounded_sums.BIT_WEIGHT

  def of_slot(slot: jax.Array) -> jax.Array:
    is_in = is_there & (slots == slot)
    return jnp.where(is_in[:, None], parts, 0).sum(axis=0)

  by_slot = lax.map(of_slot, jnp.arange(num_slots))
  return jnp.append(by_slot.ravel(), jnp.where(is_there, bounded_sums.in_steps(bits), 0).sum())


class BoundedSums(bounded_sums.BoundedSums):
  """Clients whose examples are in pools on the device.

  Their sketches, 1 KB for each, are kept here; whatever else they compute is not.
  """

  @own_settings.own()
  def __init__(
      self, model: model_lib.Model, num_clusters: int, local_steps: int, learning_rate: float,
      train: pooled_examples.PooledExamples, test: pooled_examples.PooledExamples,
  ) -> None:
    """Sends the clients' examples to the device."""
    super().__init__(model, num_clusters, local_steps, learning_rate, len(train.counts))
    # Blocks, by a bound of the examples of their clients.
    self._blocks_of = functools.partial(_planned, model)
    self._blocks = self._blocks_of(1)
    self._train, self._test = client_pool.sent((train, test), self._blocks.shared)
    self._centered = np.zeros((0, sketch.SIZE), np.float32)

  def _each(
      self, pool: client_pool.ClientPool, clients: np.ndarray, work: Callable[..., Any]
  ) -> Iterator[tuple[np.ndarray, Any]]:
    """Yields what work returns of blocks of clients, as `ClientPool.in_blocks` does.

    Args:
      work: It takes a `_How`, positions in `clients`, and `_Clients`.
    """
    def of_block(most: int, places: np.ndarray, *block: np.ndarray) -> Any:
      return work(self._how(most), places, _Clients(pool.pool, *self._blocks.put(*block)))

    return pool.in_blocks(self._blocks_of, clients, of_block)

  def _numbers(
      self, pool: client_pool.ClientPool, clients: np.ndarray, work: Callable[..., Any]
  ) -> np.ndarray:
    """Returns the number that work, as of `_each`, returns of each client, float64."""
    found = np.empty(len(clients))
    for places, numbers in self._each(pool, clients, work):
      found[places] = np.asarray(numbers)[: len(places)]
    return found

  def _how(self, most: int) -> _How:
    return _How(self.model, self._blocks_of(most), most)

  def _slots_of(
      self, how: _How, clients: np.ndarray, block: _Clients, public: bounded_sums.Public
  ) -> Any:
    """Returns the slots (B,) of a block's clients, which never leave the clients."""
    if self.num_clusters == 1:
      slots = np.zeros(len(clients), np.int32)
    elif public.is_locked:
      own = self._centered[clients].astype(np.float64)
      distances = [((own - center) ** 2).sum(axis=1) for center in public.centers]
      slots = np.argmin(distances, axis=0).astype(np.int32)
    else:
      return _slots(how, public.vectors, block)
    return self._blocks.put(slots)[0]

  def _block_updates(
      self, how: _How, clients: np.ndarray, block: _Clients, public: bounded_sums.Public
  ) -> tuple[jax.Array, Any]:
    """Returns the updates (B, P) and slots of a block's clients."""
    slots = self._slots_of(how, clients, block, public)
    updates = _updates(
        how, self.num_clusters > 1, np.int32(self.local_steps), np.float32(self.learning_rate),
        public.vectors, slots, block,
    )
    return updates, slots

  def _on_device(self, public: bounded_sums.Public) -> bounded_sums.Public:
    return public._replace(vectors=jax.device_put(public.vectors, self._blocks.shared))

  @own_settings.own()
  def total(
      self, question: bounded_sums.Question, public: bounded_sums.Public | None,
      clients: np.ndarray, shares: Iterable[np.ndarray] | None = None,
  ) -> np.ndarray:
    total = sum(() if shares is None else shares, np.zeros(self.size(question), np.int64))
    of_question: Any = {
        bounded_sums.SKETCH: self._sketch_totals, bounded_sums.NORM: self._norm_totals,
        bounded_sums.ROUND: self._round_totals, bounded_sums.REPORT: self._report_totals,
    }[question]
    if public is not None:
      public = self._on_device(public)
    for part in of_question(clients[self._train.examples.counts[clients] > 0], public):
      total += part
    return total

  def _sketch_totals(self, clients: np.ndarray, unused_public: Any) -> Iterator[np.ndarray]:
    for _, own in self._sketches(clients):
      yield bounded_sums.in_steps(own).sum(axis=0)

  def _norm_totals(
      self, clients: np.ndarray, public: bounded_sums.Public
  ) -> Iterator[np.ndarray]:
    def work(how: _How, places: np.ndarray, block: _Clients) -> Any:
      updates, _ = self._block_updates(how, clients[places], block, public)
      with own_settings.wide():
        return _norms(updates)

    norms = self._numbers(self._train, clients, work)
    found = np.searchsorted(bounded_sums.NORM_BINS, norms, "right")
    one = bounded_sums.in_steps(np.ones(1))
    yield one * np.bincount(found, minlength=self.size(bounded_sums.NORM))

  def _round_totals(
      self, clients: np.ndarray, public: bounded_sums.Public
  ) -> Iterator[np.ndarray]:
    def work(how: _How, places: np.ndarray, block: _Clients) -> Any:
      updates, slots = self._block_updates(how, clients[places], block, public)
      with own_settings.wide():
        return _slot_sums(
            self.num_clusters, updates, slots, block.counts, np.float64(public.clip_norm)
        )

    for _, total in self._each(self._train, clients, work):
      yield np.asarray(total)

  def _chosen(self, public: bounded_sums.Public, clients: np.ndarray) -> np.ndarray:
    """Returns the slots of clients, int32."""
    def work(how: _How, places: np.ndarray, block: _Clients) -> Any:
      return self._slots_of(how, clients[places], block, public)

    return self._numbers(self._train, clients, work).astype(np.int32)

  def _accuracies(self, vectors: Any, slots: np.ndarray, clients: np.ndarray) -> np.ndarray:
    """Returns the accuracies of clients' models, by their slots, on their test data."""
    def work(how: _How, places: np.ndarray, block: _Clients) -> Any:
      return _num_right(how, vectors, self._blocks.put(slots[places])[0], block)

    return self._numbers(self._test, clients, work) / self._test.examples.counts[clients]

  def _report_totals(
      self, clients: np.ndarray, public: bounded_sums.Public
  ) -> Iterator[np.ndarray]:
    clients = clients[self._test.examples.counts[clients] > 0]
    slots = self._chosen(public, clients)
    right = bounded_sums.in_steps(self._accuracies(public.vectors, slots, clients) - 0.5)
    half = bounded_sums.in_steps(np.full(len(clients), 0.5))
    total = np.zeros((self.num_clusters, 2), np.int64)
    np.add.at(total, slots, np.stack([right, half], axis=1))
    yield total.ravel()

  def _sketches(self, clients: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields some clients at a time and their sketches, float64 of norm 1 or 0."""
    for start in range(0, len(clients), _SKETCHES_AT_ONCE):
      some = clients[start : start + _SKETCHES_AT_ONCE]
      yield some, sketch.unit(sketches_lib.sketches(
          self._blocks_of, self.model.num_classes, self._train, some, sketch.SIZE
      ))

  @own_settings.own()
  def centered_sketches(self, mean: np.ndarray) -> secure_sums.SinglePoints:
    self._centered = np.zeros((self.num_clients, sketch.SIZE), np.float32)
    for clients, own in self._sketches(np.flatnonzero(self._train.examples.counts)):
      self._centered[clients] = sketch.unit(own - mean)
    return secure_sums.SinglePoints(self._centered, secure_sums.identity(sketch.SIZE))

  @own_settings.own()
  def scores(
      self, vectors: np.ndarray, clients: np.ndarray, finetuning_steps: int
  ) -> bounded_sums.Scores:
    public = self._on_device(
        bounded_sums.Public(vectors, False, np.zeros((0, sketch.SIZE)), 0.0)
    )
    slots = self._chosen(public, clients)

    def work(how: _How, places: np.ndarray, block: _Clients) -> Any:
      own = self._blocks.put(slots[places])[0]
      updates = _updates(
          how, False, np.int32(finetuning_steps), np.float32(self.learning_rate), public.vectors,
          own, block,
      )
      is_finite = jnp.isfinite(updates).all(axis=1, keepdims=True)
      trained = public.vectors[own] + jnp.where(is_finite, updates, 0.0)
      test = self._test.examples
      starts, counts = (part[clients[places]] for part in (test.starts, test.counts))
      number, *rows = self._blocks.put(
          *(part.astype(np.int32) for part in (np.arange(len(places)), starts, counts))
      )
      most = client_pool.bound(int(counts.max()))
      return _num_right(self._how(most), trained, number, _Clients(self._test.pool, *rows))

    accuracies = self._accuracies(public.vectors, slots, clients)
    tuned = self._numbers(self._train, clients, work) / self._test.examples.counts[clients]
    return bounded_sums.Scores(slots, accuracies, tuned)
