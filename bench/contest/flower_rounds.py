"""Flower with its simulation on Ray, one actor per core, and clients in plain TensorFlow.

The clients train with the same compiled function as the limit does: what is left is
Flower's own cost.
"""

import functools
import os
from typing import Any, Callable, Iterable

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
import numpy as np

from bench.contest import contestant_process
from bench.contest import job as job_lib


@functools.cache
def _client_work(folder: str) -> tuple[job_lib.Job, Callable[..., Any]]:
  """Returns the job and the training of a client, once per actor."""
  # Not in the server's process.
  import tensorflow as tf

  from bench.contest import plain_rounds

  contestant_process.limit_threads(tf)
  job = job_lib.read(folder)
  return job, plain_rounds.build_train(job.model(), job.batch_size, job.learning_rate)


def train(message: Message, context: Context) -> Message:
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

  def __init__(self, folder: str) -> None:
    super().__init__(fraction_evaluate=0.0)
    self._folder = folder
    self.clients: list[int] = []
    self.number = 0

  def configure_train(
      self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
  ) -> Iterable[Message]:
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


def serve(job: job_lib.Job, answer_requests: Callable[[Any], None]) -> None:
  """Answers requests; see `contestant_process.py`."""
  server_app, client_app = ServerApp(), ClientApp()
  client_app.train()(train)

  @server_app.main()
  def main(grid: Grid, context: Context) -> None:  # pylint: disable=unused-argument
    strategy = _GivenClients(os.getcwd())
    arrays = ArrayRecord(job.parameters(job.vector))

    def prepare(number: int) -> Callable[[], np.ndarray]:
      strategy.clients, strategy.number = job.clients_of(number), number

      def run_round() -> np.ndarray:
        nonlocal arrays
        arrays = strategy.start(grid, arrays, num_rounds=1).arrays
        return job_lib.flat(arrays.to_numpy_ndarrays())

      return run_round

    answer_requests(prepare)

  run_simulation(
      server_app, client_app, num_supernodes=job.participants.shape[1],
      backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
  )
