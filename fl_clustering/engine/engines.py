"""The engines by name, and which of them can be used here."""

import dataclasses
import importlib.util
from typing import Mapping

from clustering_basics import extras
from clustering_basics import validate
from fl_clustering.tasks import model as model_lib

TFF, JAX = "tff", "jax"


@dataclasses.dataclass(frozen=True)
class _Entry:
  """What an engine is, and the module that it needs."""

  about: str
  module: str


ENGINES: Mapping[str, _Entry] = {
    TFF: _Entry("TensorFlow Federated", "tensorflow_federated"),
    JAX: _Entry("JAX, also on an accelerator", "jax"),
}
# Not by uv: what this project tells it of old packages, which are TFF's, would count for JAX too.
_ADVICE_ON_JAX = (
    'install the extra `accelerator`, in the project\'s folder: pip install ".[accelerator]"'
)


def is_installed(name: str) -> bool:
  """Returns whether what an engine needs is installed."""
  return importlib.util.find_spec(ENGINES[name].module) is not None


def usual() -> str:
  """Returns the engine where none is asked for: TFF, unless this Python has JAX or nothing."""
  if is_installed(TFF) or extras.can_have_tff() and not is_installed(JAX):
    return TFF
  return JAX


def of_model(model: model_lib.Model) -> str:
  """Returns the engine for a model where none is asked for: one that can compute it."""
  return JAX if model.logits is None else usual()


def check_model(name: str, model: model_lib.Model) -> None:
  """Raises a ValueError unless an engine can compute a model."""
  by_jax = bool(model.layers) or model.jax_logits is not None
  if not (by_jax if name == JAX else model.logits is not None):
    other = TFF if name == JAX else JAX
    raise validate.error("engine", f"be {other} for the model {model.name!r}", name)


def check_installed(name: str) -> None:
  """Raises a ValueError unless an engine is installed."""
  if not is_installed(name):
    advice = _ADVICE_ON_JAX
    if name == TFF:
      advice = f"{extras.advice()}; the engine jax needs the extra `accelerator` alone"
    raise ValueError(f"`engine` {name} must be installed for this, and isn't; {advice}.")
