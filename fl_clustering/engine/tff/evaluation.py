"""Evaluates many models on many files of examples.

Accuracy, recall and precision all follow from the confusion matrix (`metrics.py`), and that of
several files is the sum of theirs.  So one kind of TFF call serves models on the global test set, a
cluster's model on its clients' test data, and a client's own model on its own.  For losses on
training data, all models are broadcast, and each file is read once.
"""

from __future__ import annotations

import functools
from typing import Any, Sequence, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import divergence
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import model_jobs

if TYPE_CHECKING:
  from fl_clustering.engine.tff import client_files
  from fl_clustering.tasks import model as model_lib

# Examples that go through a model at a time, and the most that one TFF client
# evaluates when there are many.
BATCH_EXAMPLES = 250
JOB_EXAMPLES = 500


def logits(
    model: model_lib.Model, parameters: Sequence[tf.Tensor], features: tf.Tensor
) -> tf.Tensor:
  """Returns a model's outputs of examples, float32 of shape (n, C), within a `tf.function`."""
  num_batches = (tf.shape(features)[0] + BATCH_EXAMPLES - 1) // BATCH_EXAMPLES
  outputs = tf.TensorArray(
      tf.float32, num_batches, infer_shape=False, element_shape=[None, model.num_classes]
  )
  for i in tf.range(num_batches):
    batch = features[i * BATCH_EXAMPLES : (i + 1) * BATCH_EXAMPLES]
    of_batch = model.logits(parameters, client_update.model_inputs(batch), None)
    outputs = outputs.write(i, of_batch)
  return outputs.concat()


def confusions_of_logits(
    labels: tf.Tensor, outputs: tf.Tensor, files: tf.Tensor, num_files: tf.Tensor,
    num_classes: int,
) -> tf.Tensor:
  """Returns the confusion matrices of files, int32 of shape (num_files, C, C).

  Args:
    labels: int32 of shape (n,).
    outputs: float32 of shape (n, C).  Where one is not finite, its file's matrix says that alone.
    files: Every example's file, int32 of shape (n,).
    num_files: How many there are.
    num_classes: C.
  """
  is_bad = tf.reduce_any(~tf.math.is_finite(outputs), axis=1)
  num_bad = tf.math.unsorted_segment_sum(tf.cast(is_bad, tf.int32), files, num_files)
  cell = (files * num_classes + labels) * num_classes + tf.argmax(outputs, 1, tf.int32)
  size = num_files * num_classes**2
  counts = tf.math.bincount(cell, minlength=size, maxlength=size)
  counts = tf.reshape(counts, [-1, num_classes, num_classes])
  return tf.where(num_bad[:, None, None] > 0, divergence.NOT_FINITE, counts)


@functools.cache
def build_confusions(model: model_lib.Model) -> tff.Computation:
  """Returns the computation of `model_jobs.on_models` that evaluates models.

  A job's result is the confusion matrix of each of its files, int32 of shape (num_files, C, C); see
  `divergence.are_finite`.
  """

  @tf.function
  def confusions_of_files(vector: tf.Tensor, job: Any) -> tuple[tf.Tensor]:
    parameters, paths = client_update.unflatten(model, vector), job["paths"]
    contents = tf.map_fn(tf.io.read_file, paths)
    rows_per_file = tf.strings.length(contents) // client_update.bytes_per_example(model)
    file_index = tf.repeat(tf.range(tf.shape(paths)[0]), rows_per_file)
    # Clients' test sets are small: read together, they fill whole batches.
    features, labels = client_update.decode_examples(model, tf.strings.reduce_join(contents))
    outputs = logits(model, parameters, features)
    matrices = confusions_of_logits(
        labels, outputs, file_index, tf.shape(paths)[0], model.num_classes
    )
    return (matrices,)

  return model_jobs.on_models(
      confusions_of_files, model.num_parameters, ("paths", tff.TensorType(np.str_, [None]))
  )


@functools.cache
def build_logits(model: model_lib.Model) -> tff.Computation:
  """Returns the computation of `model_jobs.on_clients`, in which all jobs share the model.

  A job's result are its outputs of the examples of a file.
  """

  @tf.function
  def of_file(vector: tf.Tensor, job: Any) -> tuple[tf.Tensor]:
    features, _ = client_update.decode_examples(model, tf.io.read_file(job["path"]))
    return (logits(model, client_update.unflatten(model, vector), features),)

  vector_type = tff.TensorType(np.float32, [model.num_parameters])
  return model_jobs.on_clients(of_file, vector_type, ("path", np.str_))


def _batch_bounds(num_examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns where batches start and end in the examples of all files, one after the other.

  No batch holds examples of two clients, so a client's loss depends on nothing but its own data.

  Args:
    num_examples: The number of examples per file, int32 of shape (num_files,).
  """
  starts = tf.cumsum(num_examples, exclusive=True)
  num_batches = (num_examples + BATCH_EXAMPLES - 1) // BATCH_EXAMPLES
  first_batch = tf.repeat(tf.cumsum(num_batches, exclusive=True), num_batches)
  place = tf.range(tf.reduce_sum(num_batches)) - first_batch
  batch_starts = tf.repeat(starts, num_batches) + place * BATCH_EXAMPLES
  ends = tf.repeat(starts + num_examples, num_batches)
  return batch_starts, tf.minimum(batch_starts + BATCH_EXAMPLES, ends)


@functools.cache
def build_losses(model: model_lib.Model) -> tff.Computation:
  """Returns the computation of `model_jobs.on_clients`, in which all jobs share the models.

  A job's result are the models' mean losses on its files, of shape (num_models, num_paths).
  """

  @tf.function
  def mean_losses(vectors: tf.Tensor, job: Any) -> tuple[tf.Tensor]:
    paths = job["paths"]
    num_models, num_files = tf.shape(vectors)[0], tf.shape(paths)[0]
    contents = tf.map_fn(tf.io.read_file, paths)
    num_examples = tf.strings.length(contents) // client_update.bytes_per_example(model)
    features, labels = client_update.decode_examples(model, tf.strings.reduce_join(contents))
    starts, ends = _batch_bounds(num_examples)
    file_index = tf.repeat(tf.range(num_files), num_examples)
    means = tf.TensorArray(tf.float32, num_models)
    for m in tf.range(num_models):
      parameters = client_update.unflatten(model, vectors[m])
      losses = tf.TensorArray(
          tf.float32, tf.shape(starts)[0], infer_shape=False, element_shape=[None]
      )
      for i in tf.range(tf.shape(starts)[0]):
        batch = client_update.model_inputs(features[starts[i] : ends[i]])
        losses = losses.write(
            i,
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels[starts[i] : ends[i]], logits=model.logits(parameters, batch, None)
            ),
        )
      means = means.write(m, tf.math.segment_mean(losses.concat(), file_index))
    return (means.stack(),)

  models_type = model_jobs.models_type(model.num_parameters)
  return model_jobs.on_clients(
      mean_losses, models_type, ("paths", tff.TensorType(np.str_, [None]))
  )


def _cut(files: Sequence[client_files.ExampleFile]) -> list[list[int]]:
  """Cuts a model's files into lists of at most about `JOB_EXAMPLES` examples.

  Returns the files' positions.
  """
  lists: list[list[int]] = []
  size = 0
  for position, file in enumerate(files):
    if not lists or size + file.num_examples > JOB_EXAMPLES:
      lists.append([])
      size = 0
    lists[-1].append(position)
    size += file.num_examples
  return lists


def confusions(
    model: model_lib.Model, vectors: Any, files: Sequence[Sequence[client_files.ExampleFile]]
) -> list[np.ndarray]:
  """Evaluates models.

  Args:
    model: The model without its parameters.
    vectors: The models, float32 of shape (num_models, P), or what returns its rows by their
      positions.
    files: Per model what to evaluate it on.

  Returns:
    Per model its files' confusion matrices, int64 of shape (num_files, num_classes, num_classes);
    see `divergence.are_finite`.
  """
  places = [(k, positions) for k, of_model in enumerate(files) for positions in _cut(of_model)]
  jobs = [
      {"model": k, "paths": np.array([files[k][p].path for p in positions], np.bytes_)}
      for k, positions in places
  ]
  shape = (model.num_classes, model.num_classes)
  found = [np.zeros((len(of_model), *shape), np.int64) for of_model in files]
  sizes = [model.num_classes**2 * len(positions) for _, positions in places]
  results = model_jobs.results(build_confusions(model), vectors, jobs, sizes)
  for (k, positions), (confusion,) in zip(places, results):
    found[k][positions] = confusion
  return found
