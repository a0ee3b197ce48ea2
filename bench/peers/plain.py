"""Plain TensorFlow, without any framework: what all others are compared with."""

from typing import Any, Callable

import tensorflow as tf

from bench import plain_tensorflow
from bench.peers import job as job_lib


def main(job: job_lib.Job) -> None:
  num_cores = plain_tensorflow.limit_threads()
  plain = plain_tensorflow.PlainTensorFlow(
      job.build_model(), job_lib.BATCH_SIZE, job_lib.LEARNING_RATE, num_cores
  )
  parameters = job.parameters

  def prepare(number: int) -> Callable[[], Any]:
    examples = {client: job.examples(client, number) for client in job.clients}
    clients = {c: (tf.constant(images), tf.constant(y)) for c, (images, y) in examples.items()}
    seeds = dict(enumerate(job.seeds[number - 1]))

    def run_round() -> Any:
      nonlocal parameters
      (parameters,) = plain.average(parameters, clients, [job.clients], seeds)
      return parameters

    return run_round

  job.run(prepare)
