"""TFF's worker, one for all tests of a process: it takes seconds to start and to learn a model."""

import functools

import tensorflow_federated as tff

from fl_clustering import runtime


@functools.cache
def _local():
  # It ends with Python.
  return runtime.LocalRuntime()


def use():
  """Computes in that worker, whichever runtime other tests closed before."""
  tff.framework.set_default_context(_local().context)
