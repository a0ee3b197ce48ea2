"""A simulation: the training that would be released, and those it is compared with.

Only a simulation knows every client's choice and exact accuracies.  None of that is private, and
its noise can be drawn again.  It writes nothing that is called released.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf

from clustering_basics import agreement
from experiment_shell import tidy_experiment
from experiments.private_clusters import config as config_lib
from experiments.private_clusters import data
from experiments.private_clusters import figures
from experiments.private_clusters import release
from experiments.private_clusters import released
from experiments.private_clusters import summary
from fl_clustering import runtime
from fl_clustering.engine.tff import client_sketches
from fl_clustering.engine.tff import client_update
from fl_clustering.private_clusters import client_messages
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.tasks import model as model_lib

# The methods that have one model, and those without noise.
_ONE_MODEL = (summary.FEDAVG, summary.DP_FEDAVG)
_NOT_PRIVATE = (summary.FEDAVG, summary.IFCA)
# Gradient steps with which a client goes on from its model on its own.
_FINETUNING_STEPS = 25


def cells(config: config_lib.PrivateClustersConfig, load: Any = None) -> list[dict[str, Any]]:
  """Returns what is measured; with one cluster, ours is DP-FedAvg."""
  del load
  of_clusters = (summary.OURS, summary.IFCA) if config.num_clusters > 1 else ()
  return [
      {"method": method, "epsilon": epsilon, "seed": config.seed + number}
      for number in range(config.num_seeds)
      for method in (*of_clusters, summary.DP_FEDAVG, summary.FEDAVG)
      for epsilon in ((math.inf,) if method in _NOT_PRIVATE else sorted(config.epsilon))
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
    tuned = vector + client_sketches.descended(
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
) -> dict[str, float]:
  """Returns what models, float32 of shape (K, P), are worth to clients with both kinds of data.

  The Rand index is that of the clients' choices and their true groups; there is none where these
  are not known, or there is one model.  Accuracies are means over the clients of that of their
  model on their test data, and of the same after each client has gone on training it on its own.
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
  scores = {
      summary.ACCURACY: float(accuracies.mean()), summary.FINETUNED: float(tuned.mean()),
  }
  if clients.true_groups is not None and settings.num_clusters > 1:
    truth = clients.true_groups
    scores[summary.ARI] = float(agreement.adjusted_rand_index(slots.astype(int), truth))
  return scores


def _measure(
    run: tidy_experiment.Run, method: str, epsilon: float, seed: int
) -> dict[str, list[dict[str, Any]]]:
  """Returns the scores of a training, and of one with noise what it would release."""
  settings = run.config.settings(epsilon, 1 if method in _ONE_MODEL else None)
  clients = run.data(seed)
  states, report = release.train(
      settings, clients, seed, releases_lib.Releases(settings.epsilon, settings.delta, seed)
  )
  scores = _scores(clients, settings, states[-1].vectors)
  if settings.is_private:
    scores[summary.PLANNING_NUMBER] = settings.planning_number(
        clients.model.num_parameters, len(clients.train)
    )
  return {
      tidy_experiment.RESULTS: [
          {"metric": metric, "value": value} for metric, value in scores.items()
      ],
      released.CLUSTERS: released.report_rows(report) if settings.is_private else [],
      released.ROUNDS: released.round_rows(states) if settings.is_private else [],
  }


_ROUNDS = dataclasses.replace(
    figures.ROUNDS, title=f"NOT private, as seeded. {figures.ROUNDS.title}",
    caption=f"{summary.SHOWN} {figures.ROUNDS.caption}",
)

EXPERIMENT = tidy_experiment.Experiment(
    name="private_clusters_simulation",
    title="NOT private: a simulation of private clusters",
    keys={"method": str, "epsilon": float, "seed": int},
    load=data.inputs,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=summary.TABLES,
    figures=(figures.SCORES, _ROUNDS),
    reading=summary.READING,
    tidy={
        name: released.TIDY[name]
        for name in (released.RESULTS, released.CLUSTERS, released.ROUNDS)
    },
    versions_of=release.VERSIONS_OF,
    failures=(runtime.WorkerLost,),
)
