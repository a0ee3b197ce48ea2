"""The subspaces of `engine/subspaces.py`, computed by TFF clients."""

from __future__ import annotations

import functools
import math
from typing import Any, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import subspaces as subspaces_lib
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import model_jobs

if TYPE_CHECKING:
  from fl_clustering.engine.tff import client_files
  from fl_clustering.tasks import model as model_lib


def left_singular_vectors(columns: tf.Tensor, num_vectors: tf.Tensor) -> tf.Tensor:
  """Returns the first left singular vectors of a matrix, as a TensorFlow function.

  Args:
    columns: The matrix, float64 of shape (m, n), n >= 1.
    num_vectors: How many vectors to return.

  Returns:
    float64 of shape (m, num_vectors): the singular vectors in columns, the largest singular
    value first, each with its largest component positive.  Where the rank is less, the other
    columns are zero.
  """
  num_rows, num_columns = tf.shape(columns)[0], tf.shape(columns)[1]
  # The smaller of the two Gram matrices has the same non-zero eigenvalues.
  if num_columns <= num_rows:
    squares, right = tf.linalg.eigh(tf.matmul(columns, columns, transpose_a=True))
    vectors = tf.matmul(columns, right[:, -num_vectors:])
  else:
    squares, left = tf.linalg.eigh(tf.matmul(columns, columns, transpose_b=True))
    vectors = left[:, -num_vectors:]
  squares = squares[-num_vectors:]
  vectors = tf.math.l2_normalize(vectors, axis=0, epsilon=0.0)
  is_zero = squares <= subspaces_lib.LEAST_SINGULAR_VALUE**2 * squares[-1]
  vectors = tf.reverse(tf.where(is_zero, tf.zeros_like(vectors), vectors), [1])
  largest = tf.gather(
      tf.transpose(vectors), tf.argmax(tf.abs(vectors), axis=0), batch_dims=1
  )
  missing = num_vectors - tf.shape(vectors)[1]
  return tf.pad(vectors * tf.sign(largest), [[0, 0], [0, missing]])


@functools.cache
def build_subspaces(model: model_lib.Model) -> tff.Computation:
  """Returns the computation of `model_jobs.on_clients`, in which all jobs share `num_vectors`.

  A job's result are the client's labels, and per label its basis of shape (num_features,
  num_vectors), filled up with zeros.  A client with fewer examples returns fewer columns:
  more would be zeros, which need not travel.
  """
  num_features = math.prod(model.input_shape)

  @tf.function
  def bases(num_vectors: tf.Tensor, job: Any) -> tuple[tf.Tensor, tf.Tensor]:
    features, labels = client_update.decode_examples(model, tf.io.read_file(job["path"]))
    num_vectors = tf.minimum(num_vectors, tf.size(labels))
    rows = tf.cast(tf.reshape(features, [-1, num_features]), tf.float64)
    if features.dtype == tf.uint8:
      rows /= 255.0
    own_labels = tf.sort(tf.unique(labels)[0])
    result = tf.TensorArray(
        tf.float32, tf.size(own_labels), element_shape=[num_features, None]
    )
    for i in tf.range(tf.size(own_labels)):
      columns = tf.transpose(tf.boolean_mask(rows, tf.equal(labels, own_labels[i])))
      basis = left_singular_vectors(columns, num_vectors)
      result = result.write(i, tf.cast(basis, tf.float32))
    return own_labels, result.stack()

  return model_jobs.on_clients(bases, tff.TensorType(np.int32), ("path", np.str_))


def subspaces(
    model: model_lib.Model,
    files: client_files.ClientFiles,
    clients: np.ndarray,
    num_vectors: int,
) -> list[dict[int, np.ndarray]]:
  """Returns the singular vectors of the clients' examples by label (`Engine.subspaces`)."""
  num_features = math.prod(model.input_shape)
  found = model_jobs.on_files(
      build_subspaces(model), np.int32(num_vectors), files.train_paths(clients),
      num_features * num_vectors * model.num_classes,
  )
  return [
      {int(label): basis[:, np.any(basis, axis=0)] for label, basis in zip(labels, bases)}
      for labels, bases in found
  ]
