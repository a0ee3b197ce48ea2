"""FedAvg gives the curve of TFF's tutorial on federated EMNIST, for whoever has EMNIST.

"Federated Learning for Image Classification"
(https://www.tensorflow.org/federated/tutorials/federated_learning_for_image_classification)
trains softmax regression from zeros on the first ten writers: SGD of .02, 5 epochs, batches of
20, ten rounds.  It prints the accuracy on every batch before its step, over all clients and
epochs of a round.  The engine does not compute that.  So the same training is done in plain
NumPy, which counts it, and the engine's model must be NumPy's after every round: on digits
by night, where the tutorial's own program gives the same curve, and on EMNIST if it is there:

  bazel test //tests/engine/tff --test_filter=TutorialTest --test_arg=--emnist_dir=$HOME/.tff
"""

import collections
import dataclasses
import os

from absl import flags
from absl import logging
from absl.testing import absltest
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_clustering.engine import participation
from fl_clustering.tasks import digits
from fl_clustering.tasks import emnist
from fl_clustering.tasks import models
from fl_clustering.tasks import own_clients
from fl_clustering.tasks import registry
from tests import local_runtime
from tests import nightly
from tests.engine.tff import numpy_sgd
from tests.engine.tff import small_engine

_EMNIST_DIR = flags.DEFINE_string(
    "emnist_dir", os.path.expanduser("~/.tff"), f"Folder with {emnist.FILE_NAME}.")

_SEED = 0
_NUM_CLIENTS = 10
_NUM_EPOCHS = 5
_NUM_ROUNDS = 10
_BATCH_SIZE, _RATE = 20, 0.02

_TUTORIAL = (0.1235, 0.1401, 0.1591, 0.1786, 0.2010, 0.2235, 0.2479, 0.2716, 0.2959, 0.3251)
# The order of the clients' examples is random.  Two versions of the tutorial, in different orders,
# are up to .013 apart.  With ink as 1 the accuracy would be above .4 in the first round.
_TOLERANCE = 0.03

setUpModule = local_runtime.use


def _zeros(parameter_shapes, rng):
  del rng  # Nothing is drawn.
  return [np.zeros(shape, np.float32) for shape in parameter_shapes.values()]


def _task(clients):
  """Returns the task of some clients' training data, with the tutorial's model."""
  model = dataclasses.replace(models.build("logistic", (28, 28, 1), 10), draw=_zeros)
  return own_clients.task_from_arrays(
      {client_id: (train, train) for client_id, train in clients.items()}, model
  )


def _as_in_the_source(examples):
  """Returns (features, labels) with paper as 1 and ink as 0, as EMNIST has them."""
  return 255 - examples.features, examples.labels


def _digits_task():
  """Returns clients of unequal sizes, of which some end with a smaller batch."""
  pool = digits.load().pool
  cuts = np.cumsum(np.arange(60, 60 + 8 * _NUM_CLIENTS, 8))
  shares = np.split(np.random.default_rng(0).permutation(len(pool)), cuts)[:_NUM_CLIENTS]
  return _task({f"{i}": _as_in_the_source(pool.take(share)) for i, share in enumerate(shares)})


def _tutorial_data_set(client, seed):
  pixels = client.train.features.reshape(len(client.train), -1) / np.float32(255)
  examples = collections.OrderedDict(x=pixels, y=client.train.labels.astype(np.int32))
  examples = tf.data.Dataset.from_tensor_slices(examples).repeat(_NUM_EPOCHS)
  return examples.shuffle(100, seed).batch(_BATCH_SIZE)


def _tutorial_accuracies(task, seed):
  """Returns the accuracy in training of every round of the tutorial's own program."""
  data_sets = [_tutorial_data_set(client, seed + i) for i, client in enumerate(task.clients)]

  def model_fn():
    dense = tf.keras.layers.Dense(10, kernel_initializer="zeros", input_shape=(28 * 28,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([dense]),
        input_spec=data_sets[0].element_spec,
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    )

  process = tff.learning.algorithms.build_weighted_fed_avg(
      model_fn, tff.learning.optimizers.build_sgdm(_RATE)
  )
  state, accuracies = process.initialize(), []
  for _ in range(_NUM_ROUNDS):
    state, metrics = process.next(state, data_sets)
    accuracies.append(metrics["client_work"]["train"]["sparse_categorical_accuracy"])
  return accuracies


def _shown(accuracies):
  return " ".join(f"{value:.3f}" for value in accuracies)


def _train_plainly(vector, client, round_number):
  """Returns a client's model, with the bias at its end, and how often it was right."""
  num_right = 0
  for _, inputs, labels in numpy_sgd.batches(
      client, round_number, _NUM_EPOCHS, _SEED, _BATCH_SIZE
  ):
    logits = inputs @ vector[:-10].reshape(-1, 10) + vector[-10:]
    num_right += np.sum(logits.argmax(axis=1) == labels)
    vector = vector - _RATE * numpy_sgd.gradient(vector, inputs, labels)
  return vector, num_right


class TutorialTest(absltest.TestCase):

  def _accuracies(self, task):
    """Returns the accuracy in training of every round; the engine's models must be NumPy's."""
    engine = small_engine.engine(task, _BATCH_SIZE, _RATE, _SEED)
    vectors = engine.initial_vectors(1, np.random.default_rng(_SEED))
    vector = np.zeros(task.num_parameters)
    sizes = [len(client.train) for client in task.clients]
    accuracies = []
    for number in range(1, _NUM_ROUNDS + 1):
      round_ = participation.Round(number, engine.clients, _NUM_EPOCHS)
      vectors, _ = engine.train(vectors, (engine.clients,), round_)
      trained, num_right = zip(*(_train_plainly(vector, one, number) for one in task.clients))
      vector = np.average(trained, axis=0, weights=sizes)
      np.testing.assert_allclose(vectors[0], vector, atol=1e-4)
      accuracies.append(sum(num_right) / (_NUM_EPOCHS * sum(sizes)))
    return accuracies

  @nightly.only  # By day, `own_tasks_test` compares a round with NumPy's.
  def test_equals_plain_numpy_and_the_tutorials_program(self):
    task = _digits_task()
    ours = self._accuracies(task)
    logging.info("ours: %s", _shown(ours))
    theirs = [_tutorial_accuracies(task, seed) for seed in (0, 100, 200)]
    for accuracies in theirs:
      logging.info("TFF's: %s", _shown(accuracies))
    np.testing.assert_array_less(np.min(theirs, axis=0) - _TOLERANCE, ours)
    np.testing.assert_array_less(ours, np.max(theirs, axis=0) + _TOLERANCE)

  def test_curve_of_the_tutorial(self):
    path = os.path.join(_EMNIST_DIR.value, emnist.FILE_NAME)
    if not os.path.exists(path):
      self.skipTest(f"There is no {path}; give the folder of {emnist.FILE_NAME} as --emnist_dir.")
    options = registry.TaskOptions(dataset="emnist", num_clients=emnist.NUM_WRITERS)
    writers = registry.load_task(options, _EMNIST_DIR.value).clients
    task = _task(
        {client.client_id: _as_in_the_source(client.train) for client in writers[:_NUM_CLIENTS]}
    )
    np.testing.assert_allclose(self._accuracies(task), _TUTORIAL, rtol=0, atol=_TOLERANCE)
