"""FedAvg of this project's training engine."""

import os
import tempfile

import tensorflow as tf

from bench.contest import single_thread
from bench.contest import task_of_job
from fl_clustering import runtime
from fl_clustering.engine import client_files
from fl_clustering.engine import client_update
from fl_clustering.engine import federated_training
from fl_clustering.engine import participation


def serve(job, answer_requests):
  """Answers requests; see `contestant_process.py`."""
  num_cores = single_thread.configure(tf)
  task = task_of_job.build(job)
  options = client_update.LocalTraining(job.batch_size, job.learning_rate)
  with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder, runtime.LocalRuntime(num_cores):
    files = client_files.write_client_files(task, folder)
    fedavg = federated_training.FedAvg(task, files, options, None, job.seed)
    state = federated_training.FedAvgState(job.vector, ())

    def prepare(number):
      ids = tuple(job.client_ids[client] for client in job.clients_of(number))

      def run_round():
        nonlocal state
        state, _ = fedavg.next(state, participation.Round(number, ids, 1))
        return state.vector

      return run_round

    answer_requests(prepare)
