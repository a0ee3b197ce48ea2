"""FedAvg of this project's training engine."""

import os
import tempfile
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from bench.contest import contestant_process
from bench.contest import job as job_lib
from fl_clustering import runtime
from fl_clustering.engine import client_files
from fl_clustering.engine import client_update
from fl_clustering.engine import federated_training
from fl_clustering.engine import participation
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task


def _task(job: job_lib.Job) -> federated_task.FederatedTask:
  """Returns the job's clients as a task.

  Nothing is evaluated with it: its test data are training examples.
  """
  examples = [
      examples_lib.Examples(job.images[start:end], job.labels[start:end])
      for start, end in zip(job.bounds, job.bounds[1:])
  ]
  return federated_task.FederatedTask(
      name="job",
      source="a job of the benchmark",
      partition="given",
      clients=tuple(
          federated_task.ClientData(client_id, one, one)
          for client_id, one in zip(job.client_ids, examples)
      ),
      global_test=examples[0],
      global_test_source="not used",
      num_classes=job.num_classes,
      model=job.model(),
  )


def serve(job: job_lib.Job, answer_requests: Callable[[Any], None]) -> None:
  """Answers requests; see `contestant_process.py`."""
  num_cores = contestant_process.limit_threads(tf)
  task = _task(job)
  options = client_update.LocalTraining(job.batch_size, job.learning_rate)
  with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder, runtime.LocalRuntime(num_cores):
    files = client_files.write_client_files(task, folder)
    fedavg = federated_training.FedAvg(task, files, options, None, job.seed)
    state = federated_training.FedAvgState(job.vector, ())

    def prepare(number: int) -> Callable[[], np.ndarray]:
      ids = tuple(job.client_ids[client] for client in job.clients_of(number))

      def run_round() -> np.ndarray:
        nonlocal state
        state, _ = fedavg.next(state, participation.Round(number, ids, 1))
        return state.vector

      return run_round

    answer_requests(prepare)
