"""A small job for tests."""

import numpy as np

from bench.contest import workloads
from tests import small_task


def small_job(rounds=3, model="cnn_small", clients_per_round=None):
  """Returns the task and the `Job` of five clients."""
  task = small_task.small_task(model)
  workload = workloads.Workload("small", model, clients_per_round=clients_per_round)
  return task, workloads.build_job(workload, task, rounds, seed=3)


def first_weights(vector):
  """Returns a stand-in for accuracy and loss: the first two weights."""
  return float(vector[0]), float(np.float32(vector[1]))
