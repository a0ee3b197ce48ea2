"""FedAvg of this project's training engine."""

import tempfile
from typing import Any, Callable

import numpy as np

from bench import plain_tensorflow
from bench.peers import job as job_lib
from fl_clustering import runtime
from fl_clustering.engine import participation
from fl_clustering.engine.tff import engine as engine_lib


def main(job: job_lib.Job) -> None:
  num_cores = plain_tensorflow.limit_threads()
  # The job's clients, whose orders and dropout the engine draws by itself.
  task = job_lib.load_task(job.model, job.seed, len(job.clients))
  with tempfile.TemporaryDirectory() as folder, runtime.LocalRuntime(num_cores):
    engine = engine_lib.Engine(
        task, folder, job_lib.BATCH_SIZE, job_lib.LEARNING_RATE, job.seed
    )
    vectors = np.concatenate([p.ravel() for p in job.parameters])[np.newaxis]

    def prepare(number: int) -> Callable[[], Any]:
      def run_round() -> Any:
        nonlocal vectors
        round_ = participation.Round(number, engine.clients, 1)
        vectors, _ = engine.train(vectors, (engine.clients,), round_)
        return vectors

      return run_round

    job.run(prepare)
