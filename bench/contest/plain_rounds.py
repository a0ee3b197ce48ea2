"""The limit: FedAvg in plain TensorFlow, without any framework."""

import tensorflow as tf

from bench import plain_tensorflow
from bench.contest import job as job_lib
from bench.contest import single_thread
from bench.contest import task_of_job


def serve(job, answer_requests):
  """Answers requests; see `contestant_process.py`."""
  num_cores = single_thread.configure(tf)
  plain = plain_tensorflow.PlainTensorFlow(
      task_of_job.build(job), job.batch_size, job.learning_rate, num_cores
  )
  parameters = job.parameters(job.vector)

  def prepare(number):
    clients = job.clients_of(number)
    ids = [job.client_ids[client] for client in clients]
    seeds = {job.client_ids[client]: job.dropout_seed(client, number) for client in clients}
    plain.reorder({job.client_ids[client]: job.order(client, number) for client in clients})

    def run_round():
      nonlocal parameters
      (parameters,) = plain.average(parameters, [ids], seeds)
      return job_lib.flat(parameters)

    return run_round

  answer_requests(prepare)
