"""JAX's settings while this engine computes, whatever the user's program or environment has set.

They hold for the call and its thread alone: what others compute by JAX keeps the user's.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import jax
import jax.experimental

# By the names of JAX's context managers: what would change numbers, or end a run.
_SETTINGS = {
    "enable_x64": False,
    "default_prng_impl": "threefry2x32",
    # The same random numbers whether one device draws them or several.
    "threefry_partitionable": True,
    "legacy_prng_key": "allow",
    # A user's own model leaves the precision of its products open.
    "default_matmul_precision": "float32",
    "numpy_dtype_promotion": "standard",
    "numpy_rank_promotion": "allow",
    "transfer_guard": "allow",
    "disable_jit": False,
    # The engine itself tells of numbers that are not finite.
    "debug_nans": False,
    "debug_infs": False,
}


@contextlib.contextmanager
def _updated(name: str, value: Any) -> Iterator[None]:
  before = getattr(jax.config, name)
  jax.config.update(name, value)
  try:
    yield
  finally:
    jax.config.update(name, before)


@contextlib.contextmanager
def own() -> Iterator[None]:
  """Returns the context, also a decorator, in which the engine computes."""
  with contextlib.ExitStack() as stack:
    for name, value in _SETTINGS.items():
      # JAX 0.4.13, which is the one beside TFF, has them elsewhere, or only as a flag, or not.
      manager = getattr(jax, name, getattr(jax.experimental, name, None))
      if manager is not None:
        stack.enter_context(manager(value))
      elif hasattr(jax.config, f"jax_{name}"):
        stack.enter_context(_updated(f"jax_{name}", value))
    yield
