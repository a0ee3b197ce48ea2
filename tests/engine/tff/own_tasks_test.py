"""Tests the engine on tables and tokens against NumPy and the model itself."""

import dataclasses
import os

from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.engine import participation
from fl_clustering.engine.tff import client_update
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from tests import local_runtime
from tests import nightly
from tests import own_tasks
from tests import small_task
from tests.engine.tff import small_engine

setUpModule = local_runtime.use


def _logits(task, vector, examples):
  parameters = client_update.unflatten(task.model, vector)
  return task.model.logits(parameters, examples.features, None).numpy()


class OwnTasksTest(parameterized.TestCase):

  def _engine(self, task, seed=3):
    return small_engine.engine(task, 100, 0.5, seed)  # Of all rows.

  @parameterized.parameters(*own_tasks.TASKS)
  def test_files_hold_the_examples_to_the_last_bit(self, name):
    task = own_tasks.TASKS[name]()
    files = small_engine.files(task)
    written = [*files.train, *files.test, *files.global_test, *files.validation.values()]
    folder = os.path.dirname(os.fsdecode(files.train[0].path))
    self.assertCountEqual(
        [os.path.basename(os.fsdecode(file.path)) for file in written], os.listdir(folder)
    )
    self.assertEqual(sum(f.num_examples for f in files.global_test), len(task.global_test))
    contents = [tf.io.read_file(file.path) for file in files.train]
    for content, file, client in zip(contents, files.train, task.clients):
      features, labels = client_update.decode_examples(task.model, content)
      self.assertEqual(features.dtype.name, task.model.input_dtype)
      np.testing.assert_array_equal(features, client.train.features)
      np.testing.assert_array_equal(labels, client.train.labels)
      size = client_update.bytes_per_example(task.model) * len(labels)
      self.assertEqual(os.path.getsize(file.path), size)
    features, _ = client_update.decode_examples(task.model, tf.strings.join(contents))
    np.testing.assert_array_equal(
        features, np.concatenate([client.train.features for client in task.clients])
    )

  @parameterized.parameters(("float32", 2**24), ("int32", 2**24 + 1))
  def test_labels_are_exact(self, dtype, num_classes):
    most = num_classes - 1
    examples = examples_lib.Examples(np.ones((2, 3), dtype), np.array([most, most - 1]))
    files = small_engine.files(
        _Task((federated_task.ClientData("a", examples, examples),), examples)
    )
    model = _Model((3,), dtype)
    _, labels = client_update.decode_examples(model, tf.io.read_file(files.train[0].path))
    self.assertEqual(labels.numpy().tolist(), [most, most - 1])

  @parameterized.parameters(*own_tasks.TASKS)
  def test_confusions_and_losses_are_the_models(self, name):
    # By day, one of each kind: of layers, and of Keras.
    nightly.skip_by_day(self, name in ("table_mlp", "tokens_keras"))
    task = own_tasks.TASKS[name]()
    engine, vectors = self._engine(task), small_task.vectors(task, 2)
    confusions = engine.confusions(vectors, [engine.clients] * 2)
    losses = engine.losses(vectors, engine.clients)
    for k, vector in enumerate(vectors):
      for i, client in enumerate(task.clients):
        expected = np.zeros((3, 3), int)
        predicted = np.argmax(_logits(task, vector, client.test), axis=1)
        np.add.at(expected, (client.test.labels, predicted), 1)
        np.testing.assert_array_equal(confusions[k][i], expected)
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(
            client.train.labels, _logits(task, vector, client.train)
        )
        self.assertAlmostEqual(losses[k, i], np.mean(cross_entropy), places=5)

  def test_keras_dropout_follows_the_seed_of_the_run(self):
    task = own_tasks.TASKS["table_keras"]()
    self.assertTrue(task.model.uses_dropout)
    clients = np.arange(len(task.clients))
    start, round_ = small_task.vectors(task, 1), participation.Round(1, clients, 1)
    one, again, other = (
        self._engine(task, seed).train(start, (clients,), round_)[0]
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one, again)
    # Of one batch, the order of the rows changes the rounding alone.
    self.assertGreater(np.abs(one - other).max(), 1e-3)


@dataclasses.dataclass(frozen=True)
class _Task:
  """What of a task is written to files."""

  all_clients: tuple
  global_test: examples_lib.Examples


@dataclasses.dataclass(frozen=True)
class _Model:
  """What of a model files are read with."""

  input_shape: tuple
  input_dtype: str
