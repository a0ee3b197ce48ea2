from absl.testing import parameterized
import numpy as np
import tensorflow as tf

from fl_clustering.engine.tff import client_update
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine

_TASK = small_task.small_task()

setUpModule = local_runtime.use


def _path(client):
  return small_engine.files(_TASK).train[client].path


def _train_eagerly(model, client, vector, seed, num_epochs):
  """Trains one client step by step, without any of the engine."""
  parameters = [tf.Variable(p) for p in client_update.unflatten(model, vector)]
  images = client.train.features.astype(np.float32) / 255
  labels = client.train.labels.astype(np.int32)
  optimizer = tf.keras.optimizers.SGD(small_engine.RATE)
  for epoch in range(num_epochs):
    epoch_seed = tf.random.experimental.stateless_fold_in(seed, epoch)
    order = tf.random.experimental.stateless_shuffle(tf.range(len(labels)), epoch_seed).numpy()
    losses = []
    for start in range(0, len(labels), small_engine.BATCH_SIZE):
      batch = order[start : start + small_engine.BATCH_SIZE]
      dropout_seed = None
      if model.uses_dropout:
        step = start // small_engine.BATCH_SIZE
        dropout_seed = tf.random.experimental.stateless_fold_in(epoch_seed, step + 1)
      with tf.GradientTape() as tape:
        logits = model.logits([p.value() for p in parameters], images[batch], dropout_seed)
        loss = tf.keras.losses.sparse_categorical_crossentropy(
            labels[batch], logits, from_logits=True
        )
        mean_loss = tf.reduce_mean(loss)
      losses += list(loss.numpy())
      optimizer.apply_gradients(zip(tape.gradient(mean_loss, parameters), parameters))
  return np.concatenate([p.numpy().ravel() for p in parameters]), np.mean(losses)


class ClientUpdateTest(parameterized.TestCase):

  @parameterized.parameters((0, 1), (1, 3), (4, 1), (4, 3))
  def test_equals_training_step_by_step(self, client, num_epochs):
    task = small_task.small_task("cnn_small")
    update = client_update.build_client_update(
        task.model, small_engine.BATCH_SIZE, small_engine.RATE
    )
    (vector,), seed = small_task.vectors(task, 1), tf.constant([3, 4])
    # Files of digits are the same for all models.
    trained, loss, num_examples = update(
        client_update.unflatten(task.model, vector), _path(client), seed, num_epochs
    )
    client = task.clients[client]
    expected, expected_loss = _train_eagerly(task.model, client, vector, seed, num_epochs)
    np.testing.assert_allclose(client_update.flatten(trained), expected, atol=2e-6)
    self.assertAlmostEqual(float(loss), expected_loss, places=4)
    self.assertEqual(num_examples, len(client.train))

  def test_every_step_of_every_pass_draws_its_own_dropout(self):
    task, seed = small_task.small_task("cnn"), tf.constant([3, 4])
    update = client_update.build_client_update(
        task.model, small_engine.BATCH_SIZE, small_engine.RATE
    )
    (vector,) = small_task.vectors(task, 1)
    trained, _, _ = update(client_update.unflatten(task.model, vector), _path(2), seed, 2)
    expected, _ = _train_eagerly(task.model, task.clients[2], vector, seed, 2)
    # On some processors, rounding decides about a maximum, and a few weights differ by more.
    differences = np.abs(client_update.flatten(trained) - expected)
    self.assertLess(np.quantile(differences, 0.99), 1e-5)
    self.assertGreater(np.quantile(np.abs(expected - vector), 0.99), 1e-3)

  def test_the_largest_batch_is_all_examples(self):
    num_examples = len(_TASK.clients[4].train)
    (vector,) = small_task.vectors(_TASK, 1)
    found = []
    # The largest that a configuration accepts.
    for batch_size in (num_examples, 2**30):
      update = client_update.build_client_update(_TASK.model, batch_size, 0.1)
      parameters = client_update.unflatten(_TASK.model, vector)
      trained, _, _ = update(parameters, _path(4), tf.constant([3, 4]), 1)
      found.append(client_update.flatten(trained))
    self.assertGreater(np.abs(found[0] - vector).max(), 1e-4)
    np.testing.assert_array_equal(*found)

  def test_dropout_depends_on_the_seed_alone(self):
    task = small_task.small_task("cnn")
    update = client_update.build_client_update(
        task.model, small_engine.BATCH_SIZE, small_engine.RATE
    )
    (vector,) = small_task.vectors(task, 1)
    parameters, path = client_update.unflatten(task.model, vector), _path(1)
    runs = [
        client_update.flatten(update(parameters, path, tf.constant(seed), 1)[0])
        for seed in ([1, 2], [1, 2], [1, 3])
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    self.assertGreater(np.abs(runs[0] - runs[2]).max(), 1e-4)
