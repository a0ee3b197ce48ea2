"""The engines by name, and which of them can be used here."""

import importlib.util
from typing import Mapping

TFF, JAX = "tff", "jax"
# From a name to what it needs and what it is.
ENGINES: Mapping[str, str] = {
    TFF: "TensorFlow Federated, for all methods",
    JAX: "JAX, for many clients on an accelerator",
}
_MODULES = {TFF: "tensorflow_federated", JAX: "jax"}


def is_installed(name: str) -> bool:
  """Returns whether what an engine needs is installed."""
  return importlib.util.find_spec(_MODULES[name]) is not None
