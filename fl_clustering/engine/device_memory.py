"""The error of an accelerator whose memory is full."""

from __future__ import annotations

import contextlib
from typing import Iterator

_IS_FULL = "RESOURCE_EXHAUSTED"


class DeviceFull(RuntimeError):
  """What a run computes with does not fit into the accelerator's memory."""


@contextlib.contextmanager
def told() -> Iterator[None]:
  """Raises JAX's error, whose class is another one in every version, as `DeviceFull`."""
  try:
    yield
  except RuntimeError as e:
    if not str(e).startswith(_IS_FULL):
      raise
    raise DeviceFull("the memory of the device is full") from e
