"""Clients that train models of their own for several rounds in one call.

Such a client needs nothing from the server between two rounds.  So its model is sent to TFF's
worker and back once for all of them, and is evaluated there after each round.
"""

from __future__ import annotations

import functools
from typing import Any, Sequence, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from fl_clustering.engine import client_update as client_update_lib
from fl_clustering.engine import cluster_training
from fl_clustering.engine import divergence
from fl_clustering.engine import evaluation
from fl_clustering.engine import heads as heads_lib
from fl_clustering.engine import model_jobs

if TYPE_CHECKING:
  from fl_clustering.engine import client_files
  from fl_clustering.engine import participation
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
    # The mean of a cluster of one client, as `cluster_training.py` computes it, to the last bit.
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


def train(
    model: model_lib.Model,
    files: client_files.ClientFiles,
    local_training: client_update_lib.LocalTraining,
    seed: int,
    vectors: np.ndarray,
    client_ids: Sequence[str],
    rounds: Sequence[participation.Round],
) -> tuple[np.ndarray, list[list[cluster_training.Losses]], np.ndarray]:
  """Does what `Engine.train_alone` does.

  Returns:
    The models, the losses per round and client, and the confusion matrices, of shape
    (len(rounds), len(client_ids), C, C).
  """
  row = {client_id: i for i, client_id in enumerate(client_ids)}
  epochs_of = [dict.fromkeys(round_.client_ids, round_.num_epochs) for round_ in rounds]

  def job(members: Sequence[str]) -> dict[str, Any]:
    seeds = [
        [randomness.stateless_seed(seed, "local_training", r.number, m) for r in rounds]
        for m in members
    ]
    return {
        "model": np.array([row[m] for m in members], np.int32),
        "paths": np.array([files.train[m].path for m in members], np.bytes_),
        "test_paths": np.array([files.test[m].path for m in members], np.bytes_),
        "seeds": np.array(seeds, np.int32),
        "num_epochs": np.array([[e.get(m, 0) for e in epochs_of] for m in members], np.int32),
    }

  size = model.num_parameters + len(rounds) * (1 + model.num_classes**2)
  parts = heads_lib.cut(heads_lib.plan_heads((client_ids,), files.train), size)
  jobs = [job(part.members) for part in parts]
  sizes = [size * len(part.members) for part in parts]
  results = model_jobs.results(build_rounds(model, local_training), vectors, jobs, sizes)
  if not vectors.flags.writeable:
    vectors = vectors.copy()
  losses: list[list[cluster_training.Losses]] = [[{} for _ in client_ids] for _ in rounds]
  shape = (len(rounds), len(client_ids), model.num_classes, model.num_classes)
  confusions = np.empty(shape, np.int64)
  for part, (trained, of_members, matrices) in zip(parts, results):
    rows = [row[m] for m in part.members]
    # These models are in no other message.
    vectors[rows] = trained
    confusions[:, rows] = np.swapaxes(matrices, 0, 1)
    for member, by_round in zip(part.members, of_members):
      for of_round, epochs, loss in zip(losses, epochs_of, by_round):
        if member in epochs:
          of_round[row[member]][member] = float(loss)
  for round_, of_round in zip(rounds, losses):
    for of_client in of_round:
      divergence.check_losses(of_client, f"round {round_.number}")
  for client_id, vector in zip(client_ids, vectors):
    divergence.check_vector(vector, f"round {rounds[-1].number}, client {client_id!r}")
  for round_, of_round in zip(rounds, evaluation.are_finite(confusions)):
    for client_id, is_finite in zip(client_ids, of_round):
      divergence.check_outputs(
          is_finite, f"{files.test[client_id].what} after round {round_.number}"
      )
  return vectors, losses, confusions
