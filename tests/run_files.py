"""Runs tests in one process: modules, and all those of packages, named on the command line."""

import gc
import importlib
import os
import pkgutil
import sys
import tempfile

from absl import flags
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


def _use_folder_with_any_characters():
  """Has the tests make their folders, and the temporary ones, where users' folders may be."""
  folder = os.path.join(absltest.get_default_test_tmpdir(), "Ünï 中文")
  os.makedirs(folder, exist_ok=True)
  flags.FLAGS.set_default("test_tmpdir", folder)
  os.environ["TMPDIR"] = tempfile.tempdir = folder


if __name__ == "__main__":
  _use_folder_with_any_characters()
  # Collecting garbage takes a quarter of the time of importing TensorFlow Federated.
  gc.disable()
  sys.argv[1:] = [name for argument in sys.argv[1:] for name in _modules(argument)]
  # Before absltest does it within its own program, where Keras then builds no model.
  for name in sys.argv[1:]:
    if not name.startswith("-"):
      importlib.import_module(name)
  gc.freeze()
  gc.enable()
  # Without a line for every case, what failed is the end of the log.
  absltest.main(module=None, verbosity=0)
