"""Clients' sketches, as `engine/sketch.py` says them."""

from __future__ import annotations

import functools
import math
from typing import Any, Callable

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from fl_clustering.engine import sketch as sketch_lib
from fl_clustering.engine.jax import blocks as blocks_lib
from fl_clustering.engine.jax import client_pool
from fl_clustering.engine.jax import networks


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
  return jnp.matmul(a, b, precision=networks.EXACT)


def _probe(features: jax.Array, labels: jax.Array, num_classes: int) -> jax.Array:
  """Returns what softmax regression learns of examples; a label below 0 is no example."""
  x = features.reshape(len(labels), -1).astype(jnp.float32)
  own = jax.nn.one_hot(labels, num_classes)
  counts = own.sum(0)
  is_own = counts > 0
  weights = _product(own, 1 / jnp.maximum(counts * is_own.sum(), 1))
  size = jnp.sqrt(jnp.sum(weights * jnp.mean(x**2, axis=1)))
  # Features that are not numbers stay so, and there is no sketch.
  x = jnp.where(size == 0, 0.0, x / jnp.where(size == 0, 1, size))

  def step(unused_number: Any, probe: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    kernel, bias = probe
    outputs = jnp.where(is_own, _product(x, kernel) + bias, sketch_lib.FAR_BELOW)
    error = weights[:, None] * (jax.nn.softmax(outputs) - own)
    return kernel - sketch_lib.RATE * _product(x.T, error), bias - sketch_lib.RATE * error.sum(0)

  start = jnp.zeros((x.shape[1], num_classes)), jnp.zeros(num_classes)
  kernel, bias = lax.fori_loop(0, sketch_lib.STEPS, step, start)
  return jnp.concatenate([kernel.ravel(), bias])


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _sketches(
    blocks: blocks_lib.Blocks, num_classes: int, most: int, pool: client_pool.OnDevice,
    starts: jax.Array, counts: jax.Array, projection: jax.Array,
) -> jax.Array:
  def of_client(start: jax.Array, count: jax.Array) -> jax.Array:
    features, labels, is_there = pool.of_client(start, count, most)
    return _probe(features, jnp.where(is_there, labels, -1), num_classes)

  found = _product(blocks.each(of_client, starts, counts), projection)
  norms = jnp.linalg.norm(found, axis=1, keepdims=True)
  has_direction = jnp.isfinite(norms) & (norms > sketch_lib.LEAST_NORM)
  return jnp.where(has_direction, found / jnp.maximum(norms, sketch_lib.LEAST_NORM), 0.0)


def sketches(
    blocks_of: Callable[[int], blocks_lib.Blocks], num_classes: int, pool: client_pool.ClientPool,
    clients: np.ndarray, size: int,
) -> np.ndarray:
  """Returns the clients' sketches, not private, float32 of shape (len(clients), size).

  Args:
    blocks_of: As of `ClientPool.in_blocks`.
  """
  num_numbers = (math.prod(pool.pool.features.shape[1:]) + 1) * num_classes
  projection = np.random.default_rng(sketch_lib.PROJECTION_SEED).standard_normal(
      (num_numbers, size), np.float32
  )
  projection = jax.device_put(projection, blocks_of(1).shared)

  def of_block(most: int, unused_places: np.ndarray, *block: np.ndarray) -> jax.Array:
    blocks = blocks_of(most)
    return _sketches(blocks, num_classes, most, pool.pool, *blocks.put(*block), projection)

  of_client = np.empty((len(clients), size), np.float32)
  for places, found in pool.in_blocks(blocks_of, clients, of_block):
    of_client[places] = np.asarray(found)[: len(places)]
  return of_client
