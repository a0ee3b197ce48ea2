from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from fl_clustering.engine import divergence
from fl_clustering.engine import fedavg as fedavg_lib
from fl_clustering.engine import participation
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import federated_training
from fl_clustering.three_phase import config as config_lib
from tests import letters
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine

_SEED = 5
# All clients.
_ALL = np.arange(5)
_TASK = small_task.small_task()

setUpModule = local_runtime.use


def _fedavg(aggregator=None, options=small_engine.OPTIONS, seed=_SEED):
  if aggregator is None:
    return fedavg_lib.FedAvg(small_engine.engine(options=options, seed=seed))
  return federated_training.FedAvg(_TASK, small_engine.files(_TASK), options, aggregator, seed)


def _path(client):
  return small_engine.files(_TASK).train[client].path


def _train_eagerly(model, client, vector, seed, num_epochs):
  """Trains one client step by step, without any of the engine."""
  parameters = [tf.Variable(p) for p in client_update.unflatten(model, vector)]
  images = client.train.features.astype(np.float32) / 255
  labels = client.train.labels.astype(np.int32)
  optimizer = tf.keras.optimizers.SGD(small_engine.OPTIONS.learning_rate)
  for epoch in range(num_epochs):
    epoch_seed = tf.random.experimental.stateless_fold_in(seed, epoch)
    order = tf.random.experimental.stateless_shuffle(tf.range(len(labels)), epoch_seed).numpy()
    losses = []
    for start in range(0, len(labels), small_engine.OPTIONS.batch_size):
      batch = order[start : start + small_engine.OPTIONS.batch_size]
      with tf.GradientTape() as tape:
        logits = model.logits([p.value() for p in parameters], images[batch], None)
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
    update = client_update.build_client_update(task.model, small_engine.OPTIONS)
    (vector,), seed = small_engine.vectors(task, 1), tf.constant([3, 4])
    # Files of digits are the same for all models.
    trained, loss, num_examples = update(
        client_update.unflatten(task.model, vector), _path(client), seed, num_epochs
    )
    client = task.clients[client]
    expected, expected_loss = _train_eagerly(task.model, client, vector, seed, num_epochs)
    np.testing.assert_allclose(client_update.flatten(trained), expected, atol=2e-6)
    self.assertAlmostEqual(float(loss), expected_loss, places=4)
    self.assertEqual(num_examples, len(client.train))

  def test_the_largest_batch_is_all_examples(self):
    num_examples = len(_TASK.clients[4].train)
    (vector,) = small_engine.vectors(_TASK, 1)
    found = []
    # The largest that a configuration accepts.
    for batch_size in (num_examples, 2**30):
      options = client_update.LocalTraining(batch_size, 0.1)
      update = client_update.build_client_update(_TASK.model, options)
      parameters = client_update.unflatten(_TASK.model, vector)
      trained, _, _ = update(parameters, _path(4), tf.constant([3, 4]), 1)
      found.append(client_update.flatten(trained))
    self.assertGreater(np.abs(found[0] - vector).max(), 1e-4)
    np.testing.assert_array_equal(*found)

  def test_dropout_depends_on_the_seed_alone(self):
    task = small_task.small_task("cnn")
    update = client_update.build_client_update(task.model, small_engine.OPTIONS)
    (vector,) = small_engine.vectors(task, 1)
    parameters, path = client_update.unflatten(task.model, vector), _path(1)
    runs = [
        client_update.flatten(update(parameters, path, tf.constant(seed), 1)[0])
        for seed in ([1, 2], [1, 2], [1, 3])
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    self.assertGreater(np.abs(runs[0] - runs[2]).max(), 1e-4)


class FedAvgTest(absltest.TestCase):

  def test_a_round_is_the_weighted_mean_of_the_clients(self):
    fedavg = _fedavg()
    start = fedavg.initialize()
    after, losses = fedavg.next(start, participation.Round(3, _ALL, 1))
    (found,), expected, total = letters.losses([losses]), 0, 0
    for client in _TASK.clients:
      seed = randomness.stateless_seed(_SEED, "local_training", 3, client.client_id)
      trained, loss = _train_eagerly(_TASK.model, client, start.vector, seed, 1)
      self.assertAlmostEqual(found[client.client_id], loss, places=4)
      expected += len(client.train) * trained
      total += len(client.train)
    np.testing.assert_allclose(after.vector, expected / total, atol=2e-6)

  def test_the_mean_is_that_of_tffs_mean_factory(self):
    own, factory = _fedavg(), _fedavg(tff.aggregators.MeanFactory())
    start = own.initialize()
    round_ = participation.Round(1, letters.clients("bde"), 1)
    after, losses = own.next(start, round_)
    expected, expected_losses = factory.next(start, round_)
    np.testing.assert_allclose(after.vector, expected.vector, atol=1e-7)
    self.assertEqual(letters.losses([losses]), letters.losses([expected_losses]))

  def test_the_order_of_the_clients_does_not_matter(self):
    fedavg = _fedavg()
    start = fedavg.initialize()
    after, losses = fedavg.next(start, participation.Round(1, letters.clients("ace"), 1))
    other, other_losses = fedavg.next(start, participation.Round(1, letters.clients("eac"), 1))
    self.assertEqual(letters.losses([losses]), letters.losses([other_losses]))
    np.testing.assert_allclose(after.vector, other.vector, atol=1e-7)

  def test_the_seed_decides(self):
    results = []
    for seed in (1, 1, 2):
      fedavg = _fedavg(seed=seed)
      after, _ = fedavg.next(fedavg.initialize(), participation.Round(1, _ALL, 1))
      results.append(after.vector)
    np.testing.assert_array_equal(results[0], results[1])
    self.assertGreater(np.abs(results[0] - results[2]).max(), 1e-4)

  def test_divergence_names_round_and_client(self):
    fedavg = _fedavg(options=small_engine.DIVERGING)
    with self.assertRaisesRegex(divergence.TrainingDiverged, "round 7, client '[a-e]'"):
      fedavg.next(fedavg.initialize(), participation.Round(7, _ALL, 2))

  def test_divergence_of_protected_clients_tells_nothing(self):
    config = config_lib.ThreePhaseConfig(
        aggregator="dp", num_clients=len(_TASK.clients), noise_multiplier=1e-3
    )
    aggregator = config.build_aggregator().build(config.num_clients)
    fedavg = federated_training.FedAvg(
        _TASK, small_engine.files(_TASK), small_engine.DIVERGING, aggregator, 0, is_private=True
    )
    start = fedavg.initialize()
    after, _ = fedavg.next(start, participation.Round(7, _ALL, 2))
    # Nothing but noise of 1e-3 is left of the updates.
    np.testing.assert_allclose(after.vector, start.vector, atol=0.01)

  def test_clipping_bounds_the_update(self):
    config = config_lib.ThreePhaseConfig(aggregator="clipped", clipping_norm=0.01)
    fedavg = _fedavg(config.build_aggregator().build(config.num_clients))
    start = fedavg.initialize()
    after, _ = fedavg.next(start, participation.Round(1, _ALL, 1))
    norm = np.linalg.norm(after.vector - start.vector)
    self.assertLessEqual(norm, 0.01 * 1.0001)
    self.assertGreater(norm, 0.001)

  def test_dp_noise_has_the_standard_deviation_it_is_accounted_for(self):
    config = config_lib.ThreePhaseConfig(
        num_clients=5, aggregator="dp", clipping_norm=0.5, noise_multiplier=2.0
    )
    options = client_update.LocalTraining(batch_size=20, learning_rate=1e-9)
    fedavg = _fedavg(config.build_aggregator().build(config.num_clients), options)
    start = fedavg.initialize()
    after, _ = fedavg.next(start, participation.Round(1, _ALL, 1))
    noise = after.vector - start.vector
    # The relative error of the deviation of n draws is about 1/sqrt(2n): five of
    # them are 1.5% here, so that the test fails by chance once in 10^6 runs.
    expected = 0.5 * 2.0 / 5
    bound = 5 / np.sqrt(2 * len(noise))
    self.assertAlmostEqual(np.std(noise) / expected, 1, delta=bound)
    again, _ = fedavg.next(start, participation.Round(1, _ALL, 1))
    self.assertGreater(np.abs(again.vector - after.vector).max(), 0.1)


if __name__ == "__main__":
  absltest.main()
