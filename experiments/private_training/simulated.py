"""What only a simulation knows: every client's choice, and exact accuracies. None of it is private.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from clustering_basics import agreement
from experiments.private_training import data
from fl_clustering.engine import client_update
from fl_clustering.private_clusters import client_messages
from fl_clustering.private_clusters import plan as plan_lib
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import model as model_lib

# Gradient steps with which a client goes on from its model on its own.
_FINETUNING_STEPS = 25


@dataclasses.dataclass(frozen=True)
class Scores:
  """What models are worth to the clients.

  Attributes:
    adjusted_rand_index: Of the clients' choices and their true groups; None where these are not
      known, or there is one model.
    accuracy: The mean over the clients of the accuracy of their model on their test data.
    finetuned_accuracy: The same after each client has gone on training its model on its own.
  """

  adjusted_rand_index: float | None
  accuracy: float
  finetuned_accuracy: float


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


def scores(
    clients: data.Clients, settings: plan_lib.PrivateClusters, vectors: np.ndarray
) -> Scores:
  """Returns what models, float32 of shape (K, P), are worth to clients with both kinds of data."""
  of_client = _client_scores(clients.model, settings)
  found = []
  for parts in zip(clients.train.values(), clients.test.values()):
    if not all(map(len, parts)):
      continue
    arrays: list[np.ndarray] = []
    for part in parts:
      assert isinstance(part, examples_lib.Examples)  # There are no sites here.
      arrays += [part.features, part.labels.astype(np.int32)]
    found.append([float(value) for value in of_client(vectors, *arrays)])
  slots, accuracies, tuned = np.array(found).T
  index = None
  if clients.true_groups is not None and settings.num_clusters > 1:
    truth = np.array(list(clients.true_groups.values()))
    index = float(agreement.adjusted_rand_index(slots.astype(int), truth))
  return Scores(index, float(accuracies.mean()), float(tuned.mean()))
