"""The subspaces that the features of the clients' examples of each label span.

Clients whose data are alike have subspaces at small principal angles (Vahidian et al.,
"Efficient Distribution Similarity Identification in Clustered Federated Learning via
Principal Angles Between Client Data Subspaces", AAAI 2023).

What a client returns are directions of its raw data: the first of them looks like the
label's mean example.
"""

import collections
import functools
import math

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import validate
from fl_clustering.engine import client_update
from fl_clustering.engine import model_jobs

# Singular values below this part of the largest one count as zero.  They come from a Gram
# matrix in float64, whose rounding errors are about 1e-8 of the largest one.
_LEAST_SINGULAR_VALUE = 1e-5


def left_singular_vectors(columns, num_vectors):
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
  is_zero = squares <= _LEAST_SINGULAR_VALUE**2 * squares[-1]
  vectors = tf.reverse(tf.where(is_zero, tf.zeros_like(vectors), vectors), [1])
  largest = tf.gather(
      tf.transpose(vectors), tf.argmax(tf.abs(vectors), axis=0), batch_dims=1
  )
  missing = num_vectors - tf.shape(vectors)[1]
  return tf.pad(vectors * tf.sign(largest), [[0, 0], [0, missing]])


@functools.cache
def build_subspaces(model):
  """Returns the TFF computation of the clients' subspaces.

  Args:
    model: A `model.Model`.

  Returns:
    The computation `{(index, path, num_vectors)}@CLIENTS -> {(index, labels,
    bases)}@CLIENTS`: the client's labels, and per label its basis of shape (num_features,
    num_vectors), filled up with zeros.
  """
  num_features = math.prod(model.input_shape)

  @tf.function
  def bases(path, num_vectors):
    features, labels = client_update.decode_examples(model, tf.io.read_file(path))
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

  job_type = tff.StructWithPythonType(
      [("index", np.int32), ("path", np.str_), ("num_vectors", np.int32)],
      collections.OrderedDict,
  )

  @tff.tensorflow.computation(job_type)
  def find(job):
    return job["index"], *bases(job["path"], job["num_vectors"])

  @tff.federated_computation(tff.FederatedType(job_type, tff.CLIENTS))
  def find_all(jobs):
    return tff.federated_map(find, jobs)

  return find_all


class ClientSubspaces:
  """Finds the subspaces of clients' training examples."""

  def __init__(self, model, files):
    """Builds the TFF computation.

    Args:
      model: A `model.Model`.
      files: The task's `ClientFiles`.
    """
    self._files = files.train
    self._num_features = math.prod(model.input_shape)
    self._num_classes = model.num_classes
    self._find_all = build_subspaces(model)

  def subspaces(self, client_ids, num_vectors):
    """Returns the first left singular vectors of every client's examples of every label.

    Args:
      client_ids: A sequence of client ids.
      num_vectors: The most vectors per label.

    Returns:
      Per client a dict from each of its labels to a float32 array of shape (num_features, r),
      with orthonormal columns, not private.  r is `num_vectors`, or the number of linearly
      independent examples if that is less.

    Raises:
      ValueError: If `num_vectors` is no positive integer.
    """
    validate.integer(minimum=1, num_vectors=num_vectors)
    num_vectors = min(num_vectors, self._num_features)
    jobs = []
    for i, client_id in enumerate(client_ids):
      file = self._files[client_id]
      # More would be zeros, which need not travel.
      most = min(num_vectors, file.num_examples)
      jobs.append(collections.OrderedDict(index=i, path=file.path, num_vectors=most))
    size = self._num_features * num_vectors * self._num_classes
    subspaces = [None] * len(jobs)
    for batch in model_jobs.batches([size] * len(jobs)):
      for index, labels, bases in self._find_all(jobs[batch]):
        subspaces[index] = {
            int(label): basis[:, np.any(basis, axis=0)]
            for label, basis in zip(labels, bases)
        }
    return subspaces
