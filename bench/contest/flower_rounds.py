"""Flower with its simulation on Ray, one actor per core, and clients in plain TensorFlow.

The clients train with the same compiled function as the limit does: what is left is
Flower's own cost.
"""

import functools
import os

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from bench import plain_tensorflow
from bench.contest import job as job_lib
from bench.contest import single_thread


@functools.cache
def _client_work(folder):
  """Returns the job and the training of a client, once per actor."""
  import tensorflow as tf  # Not in the server's process.

  single_thread.configure(tf)
  job = job_lib.read(folder)
  return job, plain_tensorflow.build_train(job.model(), job.batch_size, job.learning_rate)


def train(message, context):
  """Trains the client that the message names."""
  del context
  config = message.content["config"]
  job, train_client = _client_work(config["folder"])
  images, labels = job.examples(config["client"], config["round"])
  seed = job.dropout_seed(config["client"], config["round"])
  trained = train_client(message.content["arrays"].to_numpy_ndarrays(), images, labels, seed)
  content = RecordDict({
      "arrays": ArrayRecord([p.numpy() for p in trained]),
      "metrics": MetricRecord({"num-examples": len(labels)}),
  })
  return Message(content, reply_to=message)


class _GivenClients(FedAvg):
  """Flower's FedAvg over the clients that a round of the job has."""

  def __init__(self, folder):
    super().__init__(fraction_evaluate=0.0)
    self._folder = folder
    self.clients = []
    self.number = 0

  def configure_train(self, server_round, arrays, config, grid):
    """Returns the messages to the clients."""
    # Any node can be any client: the message says which.
    nodes = sorted(grid.get_node_ids())
    return [
        Message(
            RecordDict({
                "arrays": arrays,
                "config": ConfigRecord(
                    {"folder": self._folder, "client": client, "round": self.number}
                ),
            }),
            message_type="train",
            dst_node_id=node,
        )
        for node, client in zip(nodes, self.clients)
    ]


def serve(job, answer_requests):
  """Answers requests; see `contestant_process.py`."""
  server_app, client_app = ServerApp(), ClientApp()
  client_app.train()(train)

  @server_app.main()
  def main(grid, context):  # pylint: disable=unused-argument
    strategy = _GivenClients(os.getcwd())
    arrays = ArrayRecord(job.parameters(job.vector))

    def prepare(number):
      strategy.clients, strategy.number = job.clients_of(number), number

      def run_round():
        nonlocal arrays
        arrays = strategy.start(grid, arrays, num_rounds=1).arrays
        return job_lib.flat(arrays.to_numpy_ndarrays())

      return run_round

    answer_requests(prepare)

  run_simulation(
      server_app, client_app, num_supernodes=job.participants.shape[1],
      backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
  )
