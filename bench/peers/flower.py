"""Flower with its simulation on Ray, one actor per core.

The clients train with the function of `plain_tensorflow`: what is left is Flower's own cost.
"""

import functools
import os
import sys
from typing import Any, Callable

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from bench.peers import job as job_lib


@functools.cache
def _client_work(path: str) -> tuple[job_lib.Job, Callable[..., Any]]:
  """Returns the job and the training of a client, once per actor."""
  from bench import plain_tensorflow  # Not in the server's process: it imports TensorFlow.

  plain_tensorflow.limit_threads()
  job, rate = job_lib.read(path), job_lib.LEARNING_RATE
  return job, plain_tensorflow.build_train(job.build_model(), job_lib.BATCH_SIZE, rate)


def _train(message: Message, context: Context) -> Message:
  client, config = int(context.node_config["partition-id"]), message.content["config"]
  job, train = _client_work(config["path"])
  images, labels = job.examples(client, config["round"])
  seed = job.seeds[config["round"] - 1, client]
  trained = train(message.content["arrays"].to_numpy_ndarrays(), images, labels, seed)
  arrays = ArrayRecord([p.numpy() for p in trained])
  size = MetricRecord({"num-examples": len(labels)})
  return Message(RecordDict({"arrays": arrays, "metrics": size}), reply_to=message)


def main(job: job_lib.Job) -> None:
  server_app, client_app = ServerApp(), ClientApp()
  client_app.train()(_train)

  @server_app.main()
  def serve(grid: Grid, unused_context: Context) -> None:
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=len(job.clients))
    arrays = ArrayRecord(job.parameters)

    def prepare(number: int) -> Callable[[], Any]:
      config = ConfigRecord({"path": os.path.abspath(sys.argv[1]), "round": number})

      def run_round() -> Any:
        nonlocal arrays
        arrays = strategy.start(grid, arrays, num_rounds=1, train_config=config).arrays
        return arrays.to_numpy_ndarrays()

      return run_round

    job.run(prepare)

  resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
  run_simulation(server_app, client_app, len(job.clients), backend_config=resources)
