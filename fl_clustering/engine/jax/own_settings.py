"""JAX's settings while this engine computes, whatever the user's program or environment has set.

They hold for the call and its thread alone: what others compute by JAX keeps the user's.  Only the
cache of programs, and what JAX 0.4.13 has no context manager for, are those of all threads while any
call lasts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import Any, Iterator

import jax
import jax.experimental
from jax.experimental.compilation_cache import compilation_cache

# It tells each time that it looks for its cache anew.
logging.getLogger("jax._src.compilation_cache").setLevel(logging.WARNING)

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
# All that is compiled is kept for the next run; a folder that can't be written is no error.
_SETTINGS_OF_CACHE = {
    "persistent_cache_min_compile_time_secs": 0.0,
    "raise_persistent_cache_errors": False,
}
_FOLDER_OF_CACHE = "compilation_cache_dir"


_lock = threading.Lock()
_calls = 0  # Under way, in any thread.
_after_last = contextlib.ExitStack()


@contextlib.contextmanager
def _updated(name: str, value: Any) -> Iterator[None]:
  before = getattr(jax.config, f"jax_{name}")
  jax.config.update(f"jax_{name}", value)
  try:
    yield
  finally:
    jax.config.update(f"jax_{name}", before)


@contextlib.contextmanager
def _cached() -> Iterator[None]:
  """Returns the context in which what JAX compiles is in the user's cache folder.

  It changes nothing where the user names a folder, and what they compile later isn't kept here.
  """
  base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
  # JAX 0.4.13 has no such cache for CPUs, nor this setting.
  named = getattr(jax.config, f"jax_{_FOLDER_OF_CACHE}", "")
  if named is not None or not os.path.isabs(base):
    yield
    return
  folder = os.path.join(base, "federated_clustering", "jax")
  with contextlib.ExitStack() as stack:
    # JAX looks for the folder once.
    compilation_cache.reset_cache()
    stack.callback(compilation_cache.reset_cache)
    for name, value in {_FOLDER_OF_CACHE: folder, **_SETTINGS_OF_CACHE}.items():
      stack.enter_context(_updated(name, value))
    yield


@contextlib.contextmanager
def _of_all_threads(settings: dict[str, Any]) -> Iterator[None]:
  """Returns the context of the cache and of JAX's flags, from the first call to the last's end."""
  global _calls
  with _lock:
    if not _calls:
      for name, value in settings.items():
        _after_last.enter_context(_updated(name, value))
      _after_last.enter_context(_cached())
    _calls += 1
  try:
    yield
  finally:
    with _lock:
      _calls -= 1
      if not _calls:
        _after_last.close()


def _manager(name: str) -> Any:
  """Returns JAX's context manager of a setting, if it has one.

  JAX 0.4.13, which is the one beside TFF, has them elsewhere, or only as a flag, or not.
  """
  return getattr(jax, name, getattr(jax.experimental, name, None))


@contextlib.contextmanager
def own() -> Iterator[None]:
  """Returns the context, also a decorator, in which the engine computes."""
  with contextlib.ExitStack() as stack:
    flags = {}
    for name, value in _SETTINGS.items():
      manager = _manager(name)
      if manager is not None:
        stack.enter_context(manager(value))
      elif hasattr(jax.config, f"jax_{name}"):
        flags[name] = value
    stack.enter_context(_of_all_threads(flags))
    yield


@contextlib.contextmanager
def without_cache() -> Iterator[None]:
  """Returns the context in which no program is kept on disk, whatever the user has set.

  A program's shapes tell how many examples the clients have.
  """
  if not hasattr(jax.config, "jax_enable_compilation_cache"):
    yield  # JAX 0.4.13 keeps none on a CPU.
    return
  with contextlib.ExitStack() as stack:
    # JAX asks once whether there is a cache.
    compilation_cache.reset_cache()
    stack.callback(compilation_cache.reset_cache)
    stack.enter_context(_updated("enable_compilation_cache", False))
    yield


def wide() -> Any:
  """Returns the context, inside `own`, in which numbers may have 64 bits."""
  return _manager("enable_x64")(True)
