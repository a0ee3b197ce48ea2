"""Modules that are imported when they are first used.

A program that checks its flags before it imports TensorFlow, which takes seconds, refers so to the
modules that import it.
"""

import importlib
from typing import Any


class LazyModule:
  """A module, by its name, which is imported when one of its attributes is first read."""

  def __init__(self, name: str) -> None:
    self._name = name

  def __getattr__(self, attribute: str) -> Any:
    return getattr(importlib.import_module(self._name), attribute)
