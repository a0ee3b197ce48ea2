"""Runs the test modules that are named on the command line in one process."""

import importlib
import sys

from absl.testing import absltest

if __name__ == "__main__":
  # Before absltest does it within its own program, where Keras then builds no model.
  for argument in sys.argv[1:]:
    if not argument.startswith("-"):
      importlib.import_module(argument)
  absltest.main(module=None)
