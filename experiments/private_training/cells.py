"""What is measured: one training that is released, and in a simulation those it is compared with.

Only a simulation knows every client's choice and exact accuracies.  None of that is private.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import tempfile
import time
from typing import Any, Callable, Mapping

import numpy as np
import tensorflow as tf

from clustering_basics import agreement
from experiment_shell import finished_run
from experiment_shell import output_folder
from experiment_shell import study
from experiments.private_training import config as config_lib
from experiments.private_training import data
from experiments.private_training import released
from experiments.private_training import results
from fl_clustering import runtime
from fl_clustering.engine import client_files
from fl_clustering.engine import client_update
from fl_clustering.private_clusters import client_messages
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.tasks import model as model_lib

_KEYS = ("method", "epsilon", "seed")
_VALUES = (
    results.ARI, results.ACCURACY, results.FINETUNED, "relative_noise", "seconds"
)

# The simulation's methods that have one model, and those without noise.
_ONE_MODEL = (results.FEDAVG, results.DP_FEDAVG)
_NOT_PRIVATE = (results.FEDAVG, results.IFCA)
# Gradient steps with which a client of a simulation goes on from its model on its own.
_FINETUNING_STEPS = 25


def _methods(config: config_lib.PrivateClustersConfig) -> tuple[str, ...]:
  """Returns the methods of a simulation, of which the first is released.

  With one cluster, ours is DP-FedAvg.
  """
  of_one_model = results.DP_FEDAVG, results.FEDAVG
  return of_one_model if config.num_clusters == 1 else (results.OURS, results.IFCA, *of_one_model)


def _cells(config: config_lib.PrivateClustersConfig) -> list[dict[str, Any]]:
  """Returns the cells of a simulation; the one that is released comes first."""
  return [
      {"method": method, "epsilon": epsilon, "seed": config.seed + number}
      for number in range(config.num_seeds)
      for method in _methods(config)
      for epsilon in ((None,) if method in _NOT_PRIVATE else config.epsilon)
  ]


def _client_scores(model: model_lib.Model, settings: plan_lib.PrivateClusters) -> Any:
  """Returns a function of models (K, P) and a client's arrays: slot, accuracy, and finetuned."""
  features = tf.TensorSpec((None, *model.input_shape), model.input_dtype)
  labels = tf.TensorSpec((None,), tf.int32)
  vectors = tf.TensorSpec((settings.num_clusters, model.num_parameters), tf.float32)

  @tf.function(input_signature=[vectors, features, labels, features, labels])
  def scores(
      vectors: tf.Tensor, train: tf.Tensor, train_labels: tf.Tensor, test: tf.Tensor,
      test_labels: tf.Tensor,
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    examples = client_update.model_inputs(train), train_labels
    tests = client_update.model_inputs(test), test_labels
    slot = client_messages.least_loss(model, vectors, examples)
    vector = vectors[slot]
    weights = tf.fill(tf.shape(train_labels), 1 / tf.cast(tf.size(train_labels), tf.float32))
    tuned = vector + client_messages.descended(
        model, vector, examples, weights, _FINETUNING_STEPS, settings.learning_rate,
        own_labels=False,
    )
    return (
        slot, client_messages.accuracy(model, vector, tests),
        client_messages.accuracy(model, tuned, tests),
    )

  return scores


def _scores(
    clients: data.Clients, settings: plan_lib.PrivateClusters, vectors: np.ndarray
) -> dict[str, float | None]:
  """Returns what models, float32 of shape (K, P), are worth to clients with both kinds of data.

  The Rand index is that of the clients' choices and their true groups; None where these are not
  known, or there is one model.  Accuracies are means over the clients of that of their model on
  their test data, and of the same after each client has gone on training it on its own.
  """
  of_client = _client_scores(clients.model, settings)
  found = []
  for parts in zip(clients.train.values(), clients.test.values()):
    if not all(map(len, parts)):
      continue
    arrays: list[np.ndarray] = []
    for part in parts:
      arrays += [part.features, part.labels.astype(np.int32)]
    found.append([float(value) for value in of_client(vectors, *arrays)])
  slots, accuracies, tuned = np.array(found).T
  index = None
  if clients.true_groups is not None and settings.num_clusters > 1:
    truth = np.array(list(clients.true_groups.values()))
    index = float(agreement.adjusted_rand_index(slots.astype(int), truth))
  return {
      results.ARI: index, results.ACCURACY: float(accuracies.mean()),
      results.FINETUNED: float(tuned.mean()),
  }


@dataclasses.dataclass(frozen=True, eq=False)
class _Measurements:
  """Trains what is asked for on the clients of a seed.

  Attributes:
    clients_of: From a seed to its clients and their files.
    client_folder: For the clients' own files.
  """

  config: config_lib.PrivateClustersConfig
  folder: output_folder.OutputFolder
  clients_of: Callable[[int], tuple[data.Clients, client_files.ClientFiles]]
  client_folder: str

  def train(
      self, method: str, epsilon: float | None, seed: int
  ) -> tuple[data.Clients, plan_lib.PrivateClusters, released.Trained]:
    """Returns the clients, the settings and what was trained; writes what is to be released."""
    config = self.config
    settings = config.settings(
        math.inf if epsilon is None else epsilon, 1 if method in _ONE_MODEL else None
    )
    clients, files = self.clients_of(seed)
    is_released = (method, epsilon, seed) == (
        _methods(config)[0], config.epsilon[0], config.seed
    )
    releases = releases_lib.Releases(
        settings.epsilon, settings.delta, seed if config.simulation else None,
        self.folder.join(releases_lib.JOURNAL) if is_released else None,
    )
    trained = released.train(
        settings, clients.model, files, self.client_folder, seed, releases
    )
    if is_released:
      released.write(
          self.folder.join(results.RELEASED), config.to_json(), settings, clients.model,
          clients.source, trained,
      )
    return clients, settings, trained

  def measure(self, method: str, epsilon: float | None, seed: int) -> Mapping[str, Any]:
    began = time.monotonic()
    clients, settings, trained = self.train(method, epsilon, seed)
    seconds = time.monotonic() - began
    return {
        **_scores(clients, settings, trained.vectors),
        "relative_noise": trained.relative_noise if settings.is_private else None,
        "seconds": round(seconds, 1),
    }


def run(
    config: config_lib.PrivateClustersConfig, folder: output_folder.OutputFolder,
    load: Callable[[int], data.Clients],
) -> dict[str, Any]:
  """Measures, and returns the summary; the reports are drawn later.

  Args:
    load: Returns the clients of a seed.

  Raises:
    runtime.WorkerLost: If TFF's worker process ends.
  """
  simulation, of_released = None, finished_run.FinishedRun(folder.join(results.RELEASED))
  with contextlib.ExitStack() as stack:
    # Elsewhere than what is written of the run, as these are the clients' examples.
    client_folder = stack.enter_context(tempfile.TemporaryDirectory())
    stack.enter_context(runtime.LocalRuntime())

    @functools.lru_cache(maxsize=1)
    def clients_of(seed: int) -> tuple[data.Clients, client_files.ClientFiles]:
      clients = load(seed)
      return clients, client_files.write_examples(clients.train, clients.test, client_folder)

    measurements = _Measurements(config, folder, clients_of, client_folder)
    if config.simulation:
      os.makedirs(folder.join(results.SIMULATION), exist_ok=True)
      table = study.Study(folder, f"{results.SIMULATION}/{results.SIMULATED}", _KEYS, _VALUES)
      table.run(_cells(config), measurements.measure)
      simulation = results.simulation_summary(
          table.rows, of_released.summary["data"], config.delta
      )
      folder.write_text(
          f"{results.SIMULATION}/{output_folder.SUMMARY}", output_folder.json_text(simulation)
      )
    else:
      measurements.train(_methods(config)[0], config.epsilon[0], config.seed)
  return {"released": of_released.summary, "simulation": simulation}
