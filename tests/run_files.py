"""Runs tests in one process: modules, and all those of packages, named on the command line."""

import gc
import importlib
import pkgutil
import sys

from absl.testing import absltest


def _modules(argument):
  """Returns the names of the modules that an argument means; an option means itself."""
  if argument.startswith("-"):
    return [argument]
  module = importlib.import_module(argument)
  if not hasattr(module, "__path__"):
    return [argument]
  tests = [
      f"{argument}.{found.name}" for found in pkgutil.iter_modules(module.__path__)
      if found.name.endswith("_test")
  ]
  if not tests:
    raise ValueError(f"the package must hold tests, got none in {argument!r}.")
  return tests


if __name__ == "__main__":
  # Collecting garbage takes a quarter of the time of importing TensorFlow Federated.
  gc.disable()
  sys.argv[1:] = [name for argument in sys.argv[1:] for name in _modules(argument)]
  # Before absltest does it within its own program, where Keras then builds no model.
  for name in sys.argv[1:]:
    if not name.startswith("-"):
      importlib.import_module(name)
  gc.freeze()
  gc.enable()
  absltest.main(module=None)
