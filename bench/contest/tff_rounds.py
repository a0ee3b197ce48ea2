"""TFF's own `build_weighted_fed_avg`, with a Keras model."""

import tensorflow as tf
import tensorflow_federated as tff

from bench import stock_fedavg
from bench.contest import job as job_lib
from bench.contest import single_thread
from fl_clustering import runtime


def serve(job, answer_requests):
  """Answers requests; see `contestant_process.py`."""
  num_cores = single_thread.configure(tf)
  with runtime.LocalRuntime(num_cores):
    process, data_set = stock_fedavg.build_process(
        job.model(), job.batch_size, job.learning_rate
    )
    state = process.set_model_weights(
        process.initialize(), tff.learning.models.ModelWeights(job.parameters(job.vector), [])
    )

    def prepare(number):
      data_sets = [
          data_set(*job.examples(client, number)) for client in job.clients_of(number)
      ]

      def run_round():
        nonlocal state
        state = process.next(state, data_sets).state
        return job_lib.flat(process.get_model_weights(state).trainable)

      return run_round

    answer_requests(prepare)
