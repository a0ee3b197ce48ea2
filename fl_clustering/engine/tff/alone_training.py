"""Clients that train models of their own for several rounds in one call.

Such a client needs nothing from the server between two rounds.  So its model is sent to TFF's
worker and back once for all of them, and is evaluated there after each round.
"""

from __future__ import annotations

import functools
from typing import Any, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine.tff import client_update as client_update_lib
from fl_clustering.engine.tff import evaluation
from fl_clustering.engine.tff import model_jobs

if TYPE_CHECKING:
  from fl_clustering.tasks import model as model_lib


@functools.cache
def build_rounds(
    model: model_lib.Model, local_training: client_update_lib.LocalTraining
) -> tff.Computation:
  """Returns the computation of `model_jobs.on_clients`, in which a job is some clients' rounds.

  Its `num_epochs` are 0 where a client does not take part in a round.  A job's result are its
  clients' models after the last round, of shape (num_members, P), and after each round their
  losses, of shape (num_members, num_rounds), and confusion matrices, of shape
  (num_members, num_rounds, C, C).
  """
  client_update = client_update_lib.build_client_update(model, local_training)
  confusions_of_files = evaluation.build_confusions_of_files(model)
  num_parameters, shape = model.num_parameters, (model.num_classes, model.num_classes)

  @tf.function
  def train_round(vector: tf.Tensor, path: Any, seed: Any, num_epochs: Any) -> tuple:
    trained, loss, num_examples = client_update(
        client_update_lib.unflatten(model, vector), path, seed, num_epochs
    )
    # The mean of a cluster of one client, as `engine.py` computes it, to the last bit.
    weighted = tf.cast(num_examples * client_update_lib.flatten(trained), tf.float64)
    return tf.cast(weighted / tf.cast(num_examples, tf.float64), tf.float32), loss

  @tf.function
  def train_rounds(vectors: tf.Tensor, job: Any) -> tuple:
    num_members, num_rounds = tf.shape(job["num_epochs"])[0], tf.shape(job["num_epochs"])[1]
    trained = tf.TensorArray(tf.float32, num_members, element_shape=[num_parameters])
    losses = tf.TensorArray(tf.float32, num_members * num_rounds, element_shape=[])
    confusions = tf.TensorArray(tf.int32, num_members * num_rounds, element_shape=shape)
    for i in tf.range(num_members):
      vector = vectors[job["model"][i]]
      for r in tf.range(num_rounds):
        loss = 0.0
        if job["num_epochs"][i, r] > 0:
          vector, loss = train_round(
              vector, job["paths"][i], job["seeds"][i, r], job["num_epochs"][i, r]
          )
        place = i * num_rounds + r
        losses = losses.write(place, loss)
        confusions = confusions.write(
            place, confusions_of_files(vector, job["test_paths"][i : i + 1])[0]
        )
      trained = trained.write(i, vector)
    by_round = [num_members, num_rounds]
    return (
        trained.stack(), tf.reshape(losses.stack(), by_round),
        tf.reshape(confusions.stack(), [*by_round, *shape]),
    )

  return model_jobs.on_clients(
      train_rounds, model_jobs.models_type(num_parameters),
      ("model", tff.TensorType(np.int32, [None])),
      ("paths", tff.TensorType(np.str_, [None])),
      ("test_paths", tff.TensorType(np.str_, [None])),
      ("seeds", tff.TensorType(np.int32, [None, None, 2])),
      ("num_epochs", tff.TensorType(np.int32, [None, None])),
  )
