"""Clients that train a model of their own, alone or beside one that all have in common.

`personalization.py` says what a step is.  The clients are sent both models, and only their own
comes back.
"""

from __future__ import annotations

import functools
from typing import Any, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine.tff import client_update as client_update_lib
from fl_clustering.engine.tff import heads as heads_lib
from fl_clustering.engine.tff import model_jobs

if TYPE_CHECKING:
  from fl_clustering.engine import personalization
  from fl_clustering.tasks import model as model_lib

_State = tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor]


def _build_step(
    model: model_lib.Model, learning_rate: float, how: personalization.Personalization
) -> client_update_lib.Step:
  """Returns the `client_update.Step` for (own parameters, common ones, share)."""
  in_head = [name in model.head for name in model.parameter_shapes]

  def is_trained(epoch: tf.Tensor, of_head: bool) -> tf.Tensor:
    return tf.cast(epoch < how.head_epochs if of_head else epoch >= how.head_epochs, tf.float32)

  def do_step(
      state: _State, on_batch: client_update_lib.LossAndGradients, epoch: tf.Tensor
  ) -> tuple[_State, tf.Tensor]:
    own, common, share = state
    apart = [v - w for v, w in zip(own, common)]
    used = own
    if how.is_mixture:
      used = [share * v + (1 - share) * w for v, w in zip(own, common)]
    loss, gradients = on_batch(used)
    steps = [share * g for g in gradients] if how.is_mixture else gradients
    if how.pull:
      steps = [step + how.pull * difference for step, difference in zip(steps, apart)]
    if how.head_epochs is not None:
      steps = [is_trained(epoch, of_head) * step for step, of_head in zip(steps, in_head)]
    if how.is_mixture:
      _, common_gradients = on_batch(common)
      common = [w - learning_rate * g for w, g in zip(common, common_gradients)]
    if how.learns_share:
      slope = tf.add_n([tf.reduce_sum(d * g) for d, g in zip(apart, gradients)])
      share = tf.clip_by_value(share - learning_rate * slope, 0.0, 1.0)
    own = [v - learning_rate * step for v, step in zip(own, steps)]
    return (own, common, share), loss

  return do_step


@functools.cache
def build_own_models(
    model: model_lib.Model, batch_size: int, learning_rate: float,
    how: personalization.Personalization,
) -> tff.Computation:
  """Returns the computation of `model_jobs.on_clients`, in which a job is some clients.

  Its `model` are the rows of the clients' own models and, last, that of the common one.  Its
  result are the own models, of shape (num_members, P), the shares and the losses.
  """
  passes = client_update_lib.build_passes(
      model, batch_size, _build_step(model, learning_rate, how)
  )

  @tf.function
  def train_all(vectors: tf.Tensor, job: Any) -> tuple:
    num_members = tf.shape(job["paths"])[0]
    common = client_update_lib.unflatten(model, vectors[job["model"][-1]])
    trained = tf.TensorArray(tf.float32, num_members, element_shape=[model.num_parameters])
    shares = tf.TensorArray(tf.float32, num_members, element_shape=[])
    losses = tf.TensorArray(tf.float32, num_members, element_shape=[])
    for i in tf.range(num_members):
      own = client_update_lib.unflatten(model, vectors[job["model"][i]])
      (own, _, share), loss, _ = passes(
          (own, common, job["shares"][i]), job["paths"][i], job["seeds"][i], job["num_epochs"]
      )
      trained = trained.write(i, client_update_lib.flatten(own))
      shares = shares.write(i, share)
      losses = losses.write(i, loss)
    return trained.stack(), shares.stack(), losses.stack()

  return model_jobs.on_clients(
      train_all, model_jobs.models_type(model.num_parameters),
      ("model", tff.TensorType(np.int32, [None])),
      ("shares", tff.TensorType(np.float32, [None])), *heads_lib.MEMBER_FIELDS,
  )


class WithCommon:
  """The clients' own models and the common one as the last row, without a copy of all.

  Attributes:
    shape: (num_clients + 1, P).
  """

  def __init__(self, own: np.ndarray, common: np.ndarray):
    self._own = own
    self._common = common
    self.shape = (len(own) + 1, own.shape[1])

  def __getitem__(self, rows: np.ndarray) -> np.ndarray:
    """Returns the models in ascending rows, of which the last is always the common one's."""
    return np.concatenate([self._own[rows[:-1]], self._common[None]])
