"""Runs the test modules that are named on the command line in one process."""

import importlib
import sys

from absl.testing import absltest

if __name__ == "__main__":
  # Before absltest does it within its own program, where Keras then builds no model.
  for name in sys.argv[1:]:
    importlib.import_module(name)
  absltest.main(module=None)
