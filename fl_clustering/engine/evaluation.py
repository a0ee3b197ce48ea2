"""Evaluates many models on many files of examples, through tallies and through outputs.

Accuracy, recall and precision all follow from the confusion matrix, the errors of a regression
from their sums, and such a tally of several files is the sum of theirs (`objectives.py`).  So one
kind of TFF call serves every evaluation here: models on the global test set, a cluster's model
on its clients' test data, a client's own model on its own.

What doesn't add up, such as the area under a curve, needs a model's outputs on every example.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Callable, Sequence, TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import client_update
from fl_clustering.engine import divergence
from fl_clustering.engine import model_jobs
from fl_clustering.engine import objectives

if TYPE_CHECKING:
  from fl_clustering.engine import client_files
  from fl_clustering.tasks import model as model_lib

# Examples that go through a model at a time, and the most that one TFF client
# evaluates when there are many.
_BATCH_EXAMPLES = 250
JOB_EXAMPLES = 500


@dataclasses.dataclass(frozen=True)
class Request:
  """One model, by its index, and the files to evaluate it on."""

  vector: int
  files: tuple[client_files.ExampleFile, ...]


# The labels of a file's examples, of shape (n,), and the model's outputs, of shape
# (n, num_outputs).
Outputs = tuple[np.ndarray, np.ndarray]


def _build_outputs_of_files(model: model_lib.Model) -> Callable:
  """Returns a TensorFlow function of the parameters as a vector and of files' paths.

  It returns the labels of all files' examples, the model's outputs, and every example's file.
  """

  def outputs_of_files(vector: tf.Tensor, paths: tf.Tensor) -> tuple:
    parameters = client_update.unflatten(model, vector)
    contents = tf.map_fn(tf.io.read_file, paths)
    rows_per_file = tf.strings.length(contents) // client_update.bytes_per_example(model)
    file_index = tf.repeat(tf.range(tf.shape(paths)[0]), rows_per_file)
    # Clients' test sets are small: read together, they fill whole batches.
    features, labels = client_update.decode_examples(model, tf.strings.reduce_join(contents))
    num_examples = tf.shape(labels)[0]
    outputs = tf.TensorArray(
        tf.float32, (num_examples + _BATCH_EXAMPLES - 1) // _BATCH_EXAMPLES,
        infer_shape=False, element_shape=[None, model.num_classes],
    )
    for i in tf.range(outputs.size()):
      batch = features[i * _BATCH_EXAMPLES : (i + 1) * _BATCH_EXAMPLES]
      logits = model.logits(parameters, client_update.model_inputs(batch), None)
      outputs = outputs.write(i, logits)
    return labels, outputs.concat(), file_index

  return outputs_of_files


def build_tallies_of_files(model: model_lib.Model) -> Callable:
  """Returns the evaluation of a model as a `tf.function`.

  It takes the parameters as a vector and the files' paths.  It returns the tally of each of
  them, of shape (num_files, *tally_shape); of classes this is int32 of shape (num_files, C, C).
  """
  objective, outputs_of_files = objectives.of(model), _build_outputs_of_files(model)

  @tf.function
  def tallies_of_files(vector: tf.Tensor, paths: tf.Tensor) -> tf.Tensor:
    labels, outputs, file_index = outputs_of_files(vector, paths)
    return objective.tallies(labels, outputs, file_index, tf.shape(paths)[0])

  return tallies_of_files


@functools.cache
def _build_outputs(model: model_lib.Model) -> tff.Computation:
  """Returns the computation of `model_jobs.on_models` that returns labels and outputs."""
  outputs_of_files = tf.function(_build_outputs_of_files(model))
  return model_jobs.on_models(
      lambda vector, job: outputs_of_files(vector, job["paths"])[:2],
      model.num_parameters, ("paths", tff.TensorType(np.str_, [None])),
  )


@functools.cache
def build_tallies(model: model_lib.Model) -> tff.Computation:
  """Returns the computation of `model_jobs.on_models` that evaluates models.

  A job's result is the tally of each of its files.
  """
  tallies_of_files = build_tallies_of_files(model)
  return model_jobs.on_models(
      lambda vector, job: (tallies_of_files(vector, job["paths"]),),
      model.num_parameters, ("paths", tff.TensorType(np.str_, [None])),
  )


def _cut(files: Sequence[client_files.ExampleFile]) -> list[list[int]]:
  """Cuts a request's files into lists of at most about `JOB_EXAMPLES` examples.

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


def _jobs(requests: Sequence[Request]) -> tuple[list[dict[str, Any]], list[tuple[int, list[int]]]]:
  """Returns jobs, and for each the position of its request and those of its files in it."""
  jobs, places = [], []
  for r, request in enumerate(requests):
    for positions in _cut(request.files):
      places.append((r, positions))
      jobs.append({
          "model": request.vector,
          "paths": np.array([request.files[p].path for p in positions], np.bytes_),
      })
  return jobs, places


def tallies(
    model: model_lib.Model, vectors: Any, requests: Sequence[Request]
) -> list[np.ndarray]:
  """Evaluates models.

  Args:
    model: The model without its parameters.
    vectors: The models, float32 of shape (num_models, P), or what returns its rows by their
      positions.
    requests: What to evaluate on what.

  Returns:
    Per request an array of shape (num_files, *tally_shape); for classes of integers of shape
    (num_files, num_classes, num_classes): per file, the number of examples by true label (rows)
    and by predicted label (columns).

  Raises:
    divergence.TrainingDiverged: If an output is not finite; so does `outputs`.
  """
  objective = objectives.of(model)
  jobs, places = _jobs(requests)
  shape = objective.tally_shape
  kind = np.int64 if objective.tally_type == "int32" else objective.tally_type
  found = [np.zeros((len(request.files), *shape), kind) for request in requests]
  sizes = [math.prod(shape) * len(positions) for _, positions in places]
  results = model_jobs.results(build_tallies(model), vectors, jobs, sizes)
  for (r, positions), (tally,) in zip(places, results):
    found[r][positions] = tally
  for request, of_files in zip(requests, found):
    for file, is_finite in zip(request.files, objective.are_finite(of_files)):
      divergence.check_outputs(is_finite, file.what)
  return found


def outputs(
    model: model_lib.Model, vectors: Any, requests: Sequence[Request]
) -> list[list[Outputs]]:
  """Returns what models return for every example; arguments as of `tallies`.

  Returns:
    Per request and file, its labels and the model's outputs.
  """
  jobs, places = _jobs(requests)
  found: list[list[Any]] = [[None] * len(request.files) for request in requests]
  numbers = [[requests[r].files[p].num_examples for p in positions] for r, positions in places]
  sizes = [(1 + model.num_classes) * sum(of_job) for of_job in numbers]
  results = model_jobs.results(_build_outputs(model), vectors, jobs, sizes)
  for (r, positions), of_job, (labels, of_examples) in zip(places, numbers, results):
    ends = np.cumsum(of_job)[:-1]
    parts = zip(np.split(labels, ends), np.split(of_examples, ends))
    for position, part in zip(positions, parts):
      divergence.check_outputs(np.isfinite(part[1]), requests[r].files[position].what)
      found[r][position] = part
  return found
