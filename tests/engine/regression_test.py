"""Tests that clients learn numbers as scikit-learn and NumPy do, and weigh classes."""

import tempfile
import unittest

from absl.testing import absltest
import numpy as np
from sklearn import linear_model
import tensorflow as tf

from fl_clustering import runtime
from fl_clustering.engine import client_update
from fl_clustering.engine import engine as engine_lib
from fl_clustering.engine import participation
from fl_clustering.tasks import keras_model
from fl_clustering.tasks import own_clients

_ALL_ROWS = client_update.LocalTraining(batch_size=1000, learning_rate=0.2)


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _clients(num_clients=3, offset=1e6):
  """Returns clients whose numbers lie far from zero."""
  rng = np.random.default_rng(0)
  found = {}
  for i in range(num_clients):
    x = rng.normal(size=(60 + 20 * i, 3)).astype(np.float32)
    found[f"c{i}"] = x, offset + 5 * x @ [1, -2, 0.5] + rng.normal(size=len(x))
  return found


class RegressionTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    folder = tempfile.TemporaryDirectory()
    self.addCleanup(folder.cleanup)
    self._folder = folder.name

  def _engine(self, task):
    return engine_lib.Engine(task, self._folder, _ALL_ROWS, seed=3)

  def _trained(self, task, num_epochs):
    engine = self._engine(task)
    start = engine.initial_vectors(1, np.random.default_rng(0))
    return engine, start, engine.train(
        start, (task.client_ids,), participation.Round(1, task.client_ids, num_epochs)
    )

  def test_labels_are_standardized_over_all_clients(self):
    clients = _clients()
    task = own_clients.task_from_arrays(clients, "linear", validation_share=0)
    scale = task.model.label_scale
    labels = np.concatenate([client.train.labels for client in task.clients])
    self.assertAlmostEqual(labels.mean(), 0, places=5)
    self.assertAlmostEqual(labels.std(), 1, places=5)
    for client_id, (_, y) in clients.items():
      (client,) = [one for one in task.clients if one.client_id == client_id]
      own = np.concatenate([client.train.labels, client.test.labels])
      np.testing.assert_allclose(np.sort(scale.in_units(own)), np.sort(y), rtol=1e-9)

  def test_linear_is_ridge_regression(self):
    task = own_clients.task_from_arrays(
        _clients(1), "linear", validation_share=0, ridge_penalty=0.05
    )
    _, _, (vectors, _) = self._trained(task, 300)
    train = task.clients[0].train
    expected = linear_model.Ridge(alpha=0.05 * len(train)).fit(train.features, train.labels)
    np.testing.assert_allclose(vectors[0], [*expected.coef_, expected.intercept_], atol=1e-5)

  def test_losses_are_mean_squared_errors(self):
    task = own_clients.task_from_arrays(_clients(), "linear")
    engine = self._engine(task)
    vectors = engine.initial_vectors(2, np.random.default_rng(1))
    found = engine.losses(vectors, task.client_ids)
    for vector, of_model in zip(vectors, found):
      for client, loss in zip(task.clients, of_model):
        predicted = client.train.features @ vector[:3] + vector[3]
        self.assertAlmostEqual(loss, ((predicted - client.train.labels) ** 2).mean(), places=4)

  def test_a_round_of_a_keras_model(self):
    layers = tf.keras.layers
    model = keras_model.keras_model(
        lambda: tf.keras.Sequential([layers.Input((3,)), layers.Dense(1)])
    )
    task = own_clients.task_from_arrays(_clients(), model, validation_share=0)
    engine, (start,), (vectors, _) = self._trained(task, 1)
    step = np.zeros(4)
    for client in task.clients:
      x = np.c_[client.train.features, np.ones(len(client.train))]
      step += x.T @ (x @ start - client.train.labels)
    expected = start - 0.2 * 2 * step / task.num_train_examples
    np.testing.assert_allclose(vectors[0], expected, atol=1e-5)
    self.assertEqual(engine.objective.tally_shape, (5,))


class BadInputTest(absltest.TestCase):

  def _check(self, error, message, clients, model="mlp", **arguments):
    with self.assertRaisesRegex(error, message):
      own_clients.task_from_arrays(clients, model, **arguments)

  def test_labels(self):
    x = np.zeros((4, 2), np.float32)
    self._check(ValueError, "`y` must be finite for client 'a', got nan",
                {"a": (x, np.array([1, 2, np.nan, 3]))})
    self._check(TypeError, "`y` must be integers for all clients, or floating-point",
                {"a": (x, np.arange(4)), "b": (x, np.arange(4.0))})
    self._check(ValueError, "`y` must hold different numbers.*got 7", {"a": (x, np.full(4, 7.0))})

  def test_what_only_classes_have(self):
    clients = {"a": (np.zeros((4, 2), np.float32), np.arange(4.0))}
    self._check(ValueError, "`class_names` must be left out", clients, class_names=("u", "v"))
    self._check(ValueError, "`model` must be mlp or linear for a regression, got 'logistic'",
                clients, "logistic")

  def test_a_keras_model_of_another_task(self):
    def keras(num_outputs):
      layers = tf.keras.layers
      return keras_model.keras_model(
          lambda: tf.keras.Sequential([layers.Input((2,)), layers.Dense(num_outputs)])
      )

    x = np.zeros((4, 2), np.float32)
    self._check(ValueError, "`model` must have one output", {"a": (x, np.arange(4.0))}, keras(3))
    self._check(ValueError, "`model` must have an output per class", {"a": (x, np.arange(4))},
                keras(1))


if __name__ == "__main__":
  absltest.main()
