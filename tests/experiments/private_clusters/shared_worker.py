"""One worker for all runs of a test's process: most of a short run would go by starting one."""

import functools
import unittest
from unittest import mock

from fl_clustering import runtime
from tests import nightly


def use():
  """Has the runs of a module's tests share a worker; by day they run on JAX, and need none."""
  if nightly.either(True, False):
    return

  class SharedWorker(runtime.LocalRuntime):

    def __exit__(self, *unused_exception):
      pass

  worker = functools.cache(SharedWorker)
  unittest.enterModuleContext(mock.patch.object(runtime, "LocalRuntime", worker))
  unittest.addModuleCleanup(lambda: worker().close())
