"""The devices that JAX has here, asked for before anything needs them."""

from __future__ import annotations

import logging
import os
from typing import Any
import warnings

from clustering_basics import validate

# JAX warns of accelerators that are not there.
logging.getLogger("jax._src.xla_bridge").setLevel(logging.ERROR)
# For every program that it compiles, JAX warns of a cache folder that it can't read or write.
warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
# The settings that name devices; in the environment they are in capitals.
_NAMING = ("jax_platforms", "jax_platform_name")
# On a GPU, XLA otherwise takes the kernels that it finds the fastest when it compiles, and another
# kernel rounds otherwise.  XLA reads this when JAX first looks for devices.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")


def _error(e: Exception) -> ValueError:
  cause = " ".join(str(e).split()).rstrip(".") or type(e).__name__
  return ValueError(f"`engine` jax must be one that can be used here, and isn't ({cause}).")


def local() -> tuple[Any, ...]:
  """Returns this process's devices.

  Raises:
    ValueError: If JAX can't be used, such as where `JAX_PLATFORMS` names what is not there, or a
      package that JAX needs is missing.
  """
  # JAX raises errors of its own packages and of others, and AssertionError.
  try:
    import jax
  except Exception as e:  # pylint: disable=broad-exception-caught
    raise _error(e) from e
  try:
    return tuple(jax.local_devices())
  except Exception as e:  # pylint: disable=broad-exception-caught
    for name in _NAMING:
      value = getattr(jax.config, name, None) or os.environ.get(name.upper())
      if value:
        raise validate.error(
            name.upper(), "name devices that JAX finds here, or be left out", value
        ) from e
    raise _error(e) from e
