"""Evaluates many models on many files of examples, through confusion matrices.

Accuracy, recall and precision all follow from the confusion matrix, and the
confusion matrix of several files is the sum of theirs.  So one kind of TFF call
serves every evaluation here: models on the global test set, a cluster's model
on its clients' test data, a client's own model on its own.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import client_update
from fl_clustering.engine import model_jobs

# Examples that go through a model at a time, and the most that one TFF client
# evaluates when there are many.
_BATCH_EXAMPLES = 250
_JOB_EXAMPLES = 500

_JOB = model_jobs.job_type(("paths", tff.TensorType(np.str_, [None])))


@dataclasses.dataclass(frozen=True)
class Request:
  """One model and the files to evaluate it on.

  Attributes:
    vector: Index of the model among those given to `Evaluation.confusions`.
    files: `ExampleFile`s.
  """

  vector: int
  files: tuple


@functools.cache
def build_confusions(model):
  """Returns the TFF computation that evaluates models.

  Args:
    model: A `model.Model`.

  Returns:
    The computation of `model_jobs.on_clients`.  A job's result is the confusion matrix of
    each of its files.
  """
  num_classes = model.num_classes

  @tf.function
  def confusions(vector, job):
    paths = job["paths"]
    parameters = client_update.unflatten(model, vector)
    contents = tf.map_fn(tf.io.read_file, paths)
    rows_per_file = tf.strings.length(contents) // client_update.bytes_per_example(model)
    file_index = tf.repeat(tf.range(tf.shape(paths)[0]), rows_per_file)
    # Clients' test sets are small: read together, they fill whole batches.
    features, labels = client_update.decode_examples(
        model, tf.strings.reduce_join(contents)
    )
    num_examples = tf.shape(labels)[0]
    predictions = tf.TensorArray(
        tf.int32, (num_examples + _BATCH_EXAMPLES - 1) // _BATCH_EXAMPLES,
        infer_shape=False, element_shape=[None],
    )
    for i in tf.range(predictions.size()):
      batch = features[i * _BATCH_EXAMPLES : (i + 1) * _BATCH_EXAMPLES]
      logits = model.logits(parameters, client_update.model_inputs(batch), None)
      predictions = predictions.write(i, tf.argmax(logits, 1, tf.int32))
    cell = (file_index * num_classes + labels) * num_classes + predictions.concat()
    size = tf.shape(paths)[0] * num_classes**2
    counts = tf.math.bincount(cell, minlength=size, maxlength=size)
    return (tf.reshape(counts, [-1, num_classes, num_classes]),)

  return model_jobs.on_clients(confusions, model.num_parameters, _JOB)


def _cut(files):
  """Cuts a request's files into lists of at most about `_JOB_EXAMPLES` examples at one site."""
  lists, size, site = [], 0, None
  for position in sorted(range(len(files)), key=lambda position: files[position].site):
    file = files[position]
    if file.site != site or size + file.num_examples > _JOB_EXAMPLES:
      lists.append([])
      size, site = 0, file.site
    lists[-1].append(position)
    size += file.num_examples
  return lists


class Evaluation:
  """Evaluates models of one kind on files of `client_files.py`."""

  def __init__(self, model):
    """Builds the TFF computation for a `model.Model`."""
    self._num_classes = model.num_classes
    self._evaluate_all = build_confusions(model)

  def confusions(self, vectors, requests):
    """Evaluates models.

    Args:
      vectors: Models, float32 of shape (num_models, P).
      requests: A sequence of `Request`s.

    Returns:
      Per request an integer array of shape (num_files, num_classes, num_classes):
      per file, the number of examples by true label (rows) and by predicted label
      (columns).
    """
    jobs, places = [], []
    for r, request in enumerate(requests):
      for positions in _cut(request.files):
        places.append((r, positions))
        jobs.append({
            "model": request.vector,
            "paths": np.array([request.files[p].path for p in positions], np.str_),
        })
    size = self._num_classes**2
    confusions = [
        np.zeros((len(request.files), self._num_classes, self._num_classes), np.int64)
        for request in requests
    ]
    results = model_jobs.results(
        self._evaluate_all, vectors, jobs, [size * len(positions) for _, positions in places]
    )
    for (r, positions), (confusion,) in zip(places, results):
      confusions[r][positions] = confusion
    return confusions
