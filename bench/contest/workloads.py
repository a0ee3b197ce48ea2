"""What the contestants train: the models, clients and settings by name."""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence, TYPE_CHECKING

import numpy as np

from bench.contest import job as job_lib
from clustering_basics import randomness
from fl_clustering.engine import participation
from fl_clustering.tasks import registry as task_registry

if TYPE_CHECKING:
  from fl_clustering.tasks import federated_task


@dataclasses.dataclass(frozen=True)
class Workload:
  """A row of `WORKLOADS`.

  Attributes:
    label: What it is called in reports.
    model: A name in `models.MODELS`.
    clients_per_round: How many clients train in a round; None for all.
    partition: A name in `registry.PARTITION_NAMES`.
    rounds: None for the number of the settings.
    takes_data_dir: Whether it uses the folder of IDX files, if one is given.
  """

  label: str
  model: str
  num_clients: int = 100
  clients_per_round: int | None = None
  partition: str = "dirichlet"
  batch_size: int = 20
  learning_rate: float = 0.1
  rounds: int | None = None
  takes_data_dir: bool = False


# The settings of FLUTE's README, task LR_MNIST.  Its clients have digits of few kinds.
FLUTE = "flute"

WORKLOADS = {
    "cnn_small": Workload("small network", "cnn_small"),
    "cnn": Workload("EMNIST baseline", "cnn"),
    FLUTE: Workload(
        "FLUTE's LR_MNIST",
        "logistic",
        num_clients=1000,
        clients_per_round=10,
        partition="shards",
        batch_size=10,
        learning_rate=0.03,
        rounds=100,
        takes_data_dir=True,
    ),
}


def load_task(
    workload: Workload, seed: int, data_dir: str | None
) -> federated_task.FederatedTask:
  """Returns the task of a workload.

  Args:
    workload: What is trained.
    seed: Decides who gets what.
    data_dir: Folder of IDX files, or None for the digits.
  """
  from_files = workload.takes_data_dir and data_dir is not None
  return task_registry.load_task(
      dataset="idx" if from_files else "digits",
      data_dir=data_dir if from_files else None,
      num_clients=workload.num_clients,
      partition=workload.partition,
      model=workload.model,
      seed=seed,
  )


def build_job(
    workload: Workload, task: federated_task.FederatedTask, rounds: int, seed: int
) -> job_lib.Job:
  """Returns the job of a workload.

  Args:
    workload: What is trained.
    task: Its clients.
    rounds: Number of rounds.
    seed: Seed of the model to start from, of the clients of each round and of the order
      of their examples.
  """
  train: list[Any] = [client.train for client in task.clients]
  sizes = list(map(len, train))
  participants = [
      participation.participants(seed, len(sizes), workload.clients_per_round, number)
      for number in range(1, rounds + 1)
  ]
  bounds = np.cumsum([0, *sizes])
  orders, seeds = _engine_draws(task.client_ids, bounds, participants, seed)
  parameters = task.model.initial_parameters(randomness.generator(seed, "initial_parameters"))
  return job_lib.Job(
      model_name=workload.model,
      num_classes=task.num_classes,
      batch_size=workload.batch_size,
      learning_rate=workload.learning_rate,
      seed=seed,
      client_ids=task.client_ids,
      images=np.concatenate([one.features for one in train]),
      labels=np.concatenate([one.labels for one in train]),
      bounds=bounds,
      vector=job_lib.flat(parameters),
      orders=orders,
      seeds=seeds,
      participants=np.array(participants, np.int32),
  )


def _engine_draws(
    client_ids: Sequence[str], bounds: np.ndarray, participants: Sequence[np.ndarray], seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns a job's `orders` and `seeds` as our engine draws them, in `client_update.py`."""
  import tensorflow as tf

  @tf.function(input_signature=[tf.TensorSpec([], tf.int32), tf.TensorSpec([2], tf.int32)])
  def draw(num_examples: tf.Tensor, client_seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    epoch_seed = tf.random.experimental.stateless_fold_in(client_seed, 0)
    order = tf.random.experimental.stateless_shuffle(tf.range(num_examples), epoch_seed)
    return order, epoch_seed

  orders = np.zeros((len(participants), bounds[-1]), np.int32)
  seeds = np.zeros((len(participants), len(client_ids), 2), np.int32)
  for row, clients in enumerate(participants):
    for client in clients:
      start, end = bounds[client], bounds[client + 1]
      client_seed = randomness.stateless_seed(
          seed, "local_training", row + 1, client_ids[client]
      )
      orders[row, start:end], seeds[row, client] = draw(end - start, client_seed)
  return orders, seeds
