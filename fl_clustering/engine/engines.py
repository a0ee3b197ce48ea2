"""The engines by name, and which of them can be used here."""

import dataclasses
import importlib.util
from typing import Mapping

TFF, JAX = "tff", "jax"


@dataclasses.dataclass(frozen=True)
class _Entry:
  """What an engine is, and the module that it needs."""

  about: str
  module: str


ENGINES: Mapping[str, _Entry] = {
    TFF: _Entry("TensorFlow Federated, for all methods", "tensorflow_federated"),
    JAX: _Entry("JAX, for many clients, also on an accelerator", "jax"),
}


def is_installed(name: str) -> bool:
  """Returns whether what an engine needs is installed."""
  return importlib.util.find_spec(ENGINES[name].module) is not None
