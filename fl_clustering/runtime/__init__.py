"""Where TensorFlow Federated computes: `LocalRuntime`, and what ends a call of it."""

import importlib
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
  from fl_clustering.runtime.local_runtime import LocalRuntime
  from fl_clustering.runtime.local_runtime import num_cores

# Of `local_runtime`: TFF takes seconds to import, and programs may need none of it.
_WITH_TFF = "LocalRuntime", "num_cores"


class WorkerLost(RuntimeError):
  """The worker process died, hung or did not start."""


def __getattr__(name: str) -> Any:
  if name not in _WITH_TFF:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  return getattr(importlib.import_module("fl_clustering.runtime.local_runtime"), name)
