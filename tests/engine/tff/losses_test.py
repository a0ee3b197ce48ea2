import dataclasses
import functools
from unittest import mock

from absl.testing import absltest
import numpy as np
import tensorflow as tf

from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import heads
from fl_clustering.tasks import federated_task
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine

# All clients.
_ALL = np.arange(7)


def _with_odd_clients(task):
  """Returns the task with a client of two batches and one of a single example."""
  big = federated_task.ClientData("big", task.global_test, task.clients[0].test)
  one = federated_task.ClientData("one", task.clients[4].train.take([3]), big.test)
  clients = federated_task.PooledClients.of((*task.clients, big, one))
  return dataclasses.replace(task, clients=clients)


_TASK = _with_odd_clients(small_task.small_task())

setUpModule = local_runtime.use


def _vectors(num_models):
  return 2 * small_task.vectors(_TASK, num_models)


@functools.cache
def _engine(task=_TASK):
  return small_engine.engine(task)


def _losses(vectors, clients):
  return _engine().losses(vectors, clients)


def _mean_cross_entropy(vector, examples):
  """Returns a model's mean cross-entropy, from its logits in NumPy."""
  parameters = client_update.unflatten(_TASK.model, vector)
  images = examples.features.astype(np.float32) / 255
  logits = _TASK.model.logits(parameters, images, None).numpy().astype(np.float64)
  logits -= logits.max(axis=1, keepdims=True)
  log_sums = np.log(np.exp(logits).sum(axis=1))
  return np.mean(log_sums - logits[np.arange(len(logits)), examples.labels])


class LossesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    # So that one TFF client reads the files of several clients.
    self.enter_context(mock.patch.object(heads, "FEWEST_HEADS", 2))

  def test_equals_the_mean_cross_entropy_on_training_data(self):
    vectors = _vectors(3)
    losses = _losses(vectors, _ALL)
    expected = [
        [_mean_cross_entropy(vector, client.train) for client in _TASK.clients]
        for vector in vectors
    ]
    self.assertEqual(losses.dtype, np.float32)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)

  def test_a_loss_depends_on_its_model_and_client_alone(self):
    vectors = _vectors(3)
    together = _losses(vectors, _ALL)
    for m in range(3):
      for i in _ALL:
        alone = _losses(vectors[m : m + 1], _ALL[[i]])
        np.testing.assert_array_equal(alone, together[m : m + 1, i : i + 1])
    some = _losses(vectors, np.array([4, 5, 0]))
    np.testing.assert_array_equal(some, together[:, [4, 5, 0]])
    self.assertEqual(_losses(vectors, _ALL[:0]).shape, (3, 0))

  def test_a_model_with_dropout_is_evaluated_without_it(self):
    task = small_task.small_task("cnn")
    vectors = small_task.vectors(task, 1)
    losses = _engine(task).losses(vectors, _ALL[:1])
    images = _TASK.clients[0].train.features.astype(np.float32) / 255
    logits = task.model.logits(client_update.unflatten(task.model, vectors[0]), images, None)
    expected = tf.keras.losses.sparse_categorical_crossentropy(
        _TASK.clients[0].train.labels, logits, from_logits=True
    )
    np.testing.assert_allclose(losses, [[np.mean(expected)]], rtol=1e-5)
