"""Modules that are imported when they are first used.

A program that checks its flags before it imports TensorFlow, which takes seconds, refers so to the
modules that import it.
"""

import gc
import importlib
import sys
import types
from typing import Any


def _imported(name: str) -> types.ModuleType:
  """Imports a module without collecting garbage, which takes a quarter of the time."""
  if name in sys.modules or not gc.isenabled():
    return importlib.import_module(name)
  gc.disable()
  try:
    return importlib.import_module(name)
  finally:
    gc.enable()


class LazyModule:
  """A module, by its name, which is imported when one of its attributes is first read."""

  def __init__(self, name: str) -> None:
    self._name = name

  def __getattr__(self, attribute: str) -> Any:
    return getattr(_imported(self._name), attribute)
