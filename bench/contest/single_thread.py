"""The threads of contestants that compute several clients at a time."""

import os


def configure(tf):
  """Gives every operation one thread, as the benchmarks' limit has; returns the cores.

  Args:
    tf: The module tensorflow, before its first operation.
  """
  num_cores = len(os.sched_getaffinity(0))
  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(num_cores)
  return num_cores
