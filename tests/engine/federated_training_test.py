import tempfile
import unittest
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from clustering_basics import randomness
from fl_clustering import config as config_lib
from fl_clustering import runtime
from fl_clustering.engine import client_files
from fl_clustering.engine import client_update
from fl_clustering.engine import cluster_training
from fl_clustering.engine import divergence
from fl_clustering.engine import federated_training
from fl_clustering.engine import heads as heads_lib
from fl_clustering.engine import participation
from tests import small_task
from tests.engine import small_messages

_OPTIONS = client_update.LocalTraining(batch_size=20, learning_rate=0.1)
_SEED = 5

# One of each for the whole file: a worker takes a second to start.
_task = None
_files = None


def setUpModule():
  global _task, _files
  _task = small_task.small_task()
  folder = tempfile.TemporaryDirectory()
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)
  unittest.addModuleCleanup(folder.cleanup)
  _files = client_files.write_client_files(_task, folder.name)


def _start_vector():
  parameters = _task.model.initial_parameters(np.random.default_rng(0))
  return np.concatenate([p.ravel() for p in parameters])


def _fedavg(aggregator=None, options=_OPTIONS, seed=_SEED):
  return federated_training.FedAvg(_task, _files, options, aggregator, seed)


def _clusters(options=_OPTIONS, seed=_SEED):
  return cluster_training.ClusterTraining(_task, _files, options, seed)


def _train_eagerly(client, vector, seed, num_epochs):
  """Trains one client step by step, without any of the engine."""
  parameters = [
      tf.Variable(p) for p in client_update.unflatten(_task.model, vector)
  ]
  images = client.train.features.astype(np.float32) / 255
  labels = client.train.labels.astype(np.int32)
  optimizer = tf.keras.optimizers.SGD(_OPTIONS.learning_rate)
  for epoch in range(num_epochs):
    epoch_seed = tf.random.experimental.stateless_fold_in(seed, epoch)
    order = tf.random.experimental.stateless_shuffle(
        tf.range(len(labels)), epoch_seed
    ).numpy()
    losses = []
    for start in range(0, len(labels), _OPTIONS.batch_size):
      batch = order[start : start + _OPTIONS.batch_size]
      with tf.GradientTape() as tape:
        logits = _task.model.logits([p.value() for p in parameters], images[batch], None)
        loss = tf.keras.losses.sparse_categorical_crossentropy(
            labels[batch], logits, from_logits=True
        )
        mean_loss = tf.reduce_mean(loss)
      losses += list(loss.numpy())
      optimizer.apply_gradients(zip(tape.gradient(mean_loss, parameters), parameters))
  return np.concatenate([p.numpy().ravel() for p in parameters]), np.mean(losses)


class ClientUpdateTest(parameterized.TestCase):

  @parameterized.product(client=[0, 1, 4], num_epochs=[1, 3])
  def test_equals_training_step_by_step(self, client, num_epochs):
    client = _task.clients[client]
    update = client_update.build_client_update(_task.model, _OPTIONS)
    vector, seed = _start_vector(), tf.constant([3, 4])
    trained, loss, num_examples = update(
        client_update.unflatten(_task.model, vector),
        _files.train[client.client_id].path,
        seed,
        num_epochs,
    )
    expected, expected_loss = _train_eagerly(client, vector, seed, num_epochs)
    np.testing.assert_allclose(
        client_update.flatten(trained), expected, atol=2e-6
    )
    self.assertAlmostEqual(float(loss), expected_loss, places=4)
    self.assertEqual(num_examples, len(client.train))

  def test_the_largest_batch_is_all_examples(self):
    sizes = {c.client_id: len(c.train) for c in _task.clients}
    parameters = client_update.unflatten(_task.model, _start_vector())
    # The largest that a configuration accepts.
    for batch_size in (sizes["e"], 2**30):
      options = client_update.LocalTraining(batch_size, _OPTIONS.learning_rate)
      update = client_update.build_client_update(_task.model, options)
      trained, _, _ = update(parameters, _files.train["e"].path, tf.constant([3, 4]), 1)
      if batch_size == sizes["e"]:
        expected = client_update.flatten(trained)
    self.assertGreater(np.abs(expected - _start_vector()).max(), 1e-4)
    np.testing.assert_array_equal(client_update.flatten(trained), expected)

  def test_dropout_depends_on_the_seed_alone(self):
    task = small_task.small_task("cnn")
    update = client_update.build_client_update(task.model, _OPTIONS)
    parameters = [
        tf.constant(p) for p in task.model.initial_parameters(np.random.default_rng(0))
    ]
    path = _files.train["b"].path
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
    after, losses = fedavg.next(start, participation.Round(3, _task.client_ids, 1))
    expected, total = 0, 0
    for client in _task.clients:
      seed = randomness.stateless_seed(_SEED, "local_training", 3, client.client_id)
      trained, loss = _train_eagerly(client, start.vector, seed, 1)
      self.assertAlmostEqual(losses[client.client_id], loss, places=4)
      expected += len(client.train) * trained
      total += len(client.train)
    np.testing.assert_allclose(after.vector, expected / total, atol=2e-6)

  def test_the_mean_is_that_of_tffs_mean_factory(self):
    own, factory = _fedavg(), _fedavg(tff.aggregators.MeanFactory())
    start = own.initialize()
    after, losses = own.next(start, participation.Round(1, ("b", "d", "e"), 1))
    expected, expected_losses = factory.next(start, participation.Round(1, ("b", "d", "e"), 1))
    np.testing.assert_allclose(after.vector, expected.vector, atol=1e-7)
    self.assertEqual(losses, expected_losses)

  def test_clients_are_carried_by_id(self):
    fedavg = _fedavg()
    start = fedavg.initialize()
    after, losses = fedavg.next(start, participation.Round(1, ("a", "c", "e"), 1))
    other, other_losses = fedavg.next(start, participation.Round(1, ("e", "a", "c"), 1))
    self.assertEqual(losses, other_losses)
    np.testing.assert_allclose(after.vector, other.vector, atol=1e-7)

  def test_the_seed_decides(self):
    results = []
    for seed in (1, 1, 2):
      fedavg = _fedavg(seed=seed)
      after, _ = fedavg.next(fedavg.initialize(), participation.Round(1, _task.client_ids, 1))
      results.append(after.vector)
    np.testing.assert_array_equal(results[0], results[1])
    self.assertGreater(np.abs(results[0] - results[2]).max(), 1e-4)

  def test_divergence_names_round_and_client(self):
    options = client_update.LocalTraining(batch_size=2, learning_rate=1e30)
    fedavg = _fedavg(options=options)
    with self.assertRaisesRegex(
        divergence.TrainingDiverged, "round 7, client '[a-e]'"
    ):
      fedavg.next(fedavg.initialize(), participation.Round(7, _task.client_ids, 2))

  def test_divergence_of_protected_clients_tells_nothing(self):
    options = client_update.LocalTraining(batch_size=2, learning_rate=1e30)
    config = config_lib.ThreePhaseConfig(
        aggregator="dp", num_clients=len(_task.client_ids), noise_multiplier=1e-3
    )
    aggregator = config.build_aggregator().build(config.num_clients)
    fedavg = federated_training.FedAvg(_task, _files, options, aggregator, 0, is_private=True)
    start = fedavg.initialize()
    after, _ = fedavg.next(start, participation.Round(7, _task.client_ids, 2))
    # Nothing but noise of 1e-3 is left of the updates.
    np.testing.assert_allclose(after.vector, start.vector, atol=0.01)

  def test_clipping_bounds_the_update(self):
    config = config_lib.ThreePhaseConfig(aggregator="clipped", clipping_norm=0.01)
    fedavg = _fedavg(config.build_aggregator().build(config.num_clients))
    start = fedavg.initialize()
    after, _ = fedavg.next(start, participation.Round(1, _task.client_ids, 1))
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
    after, _ = fedavg.next(start, participation.Round(1, _task.client_ids, 1))
    noise = after.vector - start.vector
    # The relative error of the deviation of n draws is about 1/sqrt(2n): five of
    # them are 1.5% here, so that the test fails by chance once in 10^6 runs.
    expected = 0.5 * 2.0 / 5
    bound = 5 / np.sqrt(2 * len(noise))
    self.assertAlmostEqual(np.std(noise) / expected, 1, delta=bound)
    again, _ = fedavg.next(start, participation.Round(1, _task.client_ids, 1))
    self.assertGreater(np.abs(again.vector - after.vector).max(), 0.1)


def _files_of(sizes, sites=None):
  return {
      client_id: client_files.ExampleFile(client_id, size, (sites or {}).get(client_id, ""))
      for client_id, size in sizes.items()
  }


class PlanHeadsTest(absltest.TestCase):

  def test_every_member_is_in_one_head_of_its_cluster(self):
    sizes = {str(i): 1 + i * i for i in range(30)}
    clusters = (tuple(sizes), ("3", "5"), ("29",))
    heads = heads_lib.plan_heads(clusters, _files_of(sizes))
    for k, members in enumerate(clusters):
      found = [m for head in heads if head.cluster == k for m in head.members]
      self.assertCountEqual(found, members)

  def test_no_head_does_much_more_than_its_part(self):
    sizes = {str(i): 10 for i in range(160)}
    heads = heads_lib.plan_heads((tuple(sizes),), _files_of(sizes))
    self.assertLen(heads, 16)
    self.assertEqual({len(head.members) for head in heads}, {10})

  def test_many_clients_have_more_heads(self):
    sizes = {str(i): 10 for i in range(3000)}
    for num_clients, num_heads in ((100, 16), (330, 33), (3000, 64)):
      members = tuple(sizes)[:num_clients]
      self.assertLen(heads_lib.plan_heads((members,), _files_of(sizes)), num_heads)

  def test_the_largest_comes_first(self):
    sizes = {"a": 1, "b": 50, "c": 3}
    heads = heads_lib.plan_heads((("a",), ("b",), ("c",)), _files_of(sizes))
    self.assertEqual([head.members for head in heads], [("b",), ("c",), ("a",)])


  def test_no_head_has_members_of_two_sites(self):
    sizes = {str(i): 10 for i in range(40)}
    sites = {client_id: "even" if int(client_id) % 2 else "odd" for client_id in sizes}
    heads = heads_lib.plan_heads((tuple(sizes), ("0", "1")), _files_of(sizes, sites))
    self.assertLen([m for head in heads for m in head.members], 42)
    for head in heads:
      self.assertLen({sites[m] for m in head.members}, 1)


class ClusterTrainingTest(absltest.TestCase):

  def test_one_cluster_of_everyone_is_fedavg(self):
    fedavg = _fedavg()
    start = fedavg.initialize()
    expected, expected_losses = fedavg.next(start, participation.Round(4, _task.client_ids, 2))
    vectors, losses = _clusters().train(
        start.vector[None], (_task.client_ids,), participation.Round(4, _task.client_ids, 2)
    )
    np.testing.assert_allclose(vectors[0], expected.vector, atol=1e-6)
    self.assertEqual(losses, [expected_losses])

  def test_overlapping_clusters_are_a_fedavg_each(self):
    fedavg = _fedavg()
    rng = np.random.default_rng(1)
    clusters = (("a", "b", "e"), ("b", "c", "d"), ("e",))
    starts = _start_vector() + rng.normal(0, 0.01, (3, _task.model.num_parameters))
    starts = starts.astype(np.float32)
    vectors, _ = _clusters().train(starts, clusters, participation.Round(2, _task.client_ids, 1))
    for k, members in enumerate(clusters):
      alone, _ = fedavg.next(
          federated_training.FedAvgState(starts[k], ()), participation.Round(2, members, 1)
      )
      np.testing.assert_allclose(vectors[k], alone.vector, atol=1e-6)

  def test_only_clients_that_take_part_train(self):
    start = _start_vector()
    clusters = (("a", "b"), ("c", "d"))
    vectors, losses = _clusters().train(
        np.stack([start, start]), clusters, participation.Round(1, ("b", "e"), 1)
    )
    alone, _ = _clusters().train(start[None], (("b",),), participation.Round(1, ("b",), 1))
    np.testing.assert_array_equal(vectors[0], alone[0])
    np.testing.assert_array_equal(vectors[1], start)
    self.assertEqual([list(part) for part in losses], [["b"], []])

  def test_messages_of_any_size_give_the_same(self):
    starts = np.stack([_start_vector()] * 5)
    clusters = tuple((client_id,) for client_id in _task.client_ids)
    training = _clusters()
    whole, _ = training.train(starts, clusters, participation.Round(1, _task.client_ids, 1))
    with small_messages.limit(8 * _task.model.num_parameters):
      parts, _ = training.train(starts, clusters, participation.Round(1, _task.client_ids, 1))
    np.testing.assert_array_equal(whole, parts)

  def test_inputs_are_not_changed(self):
    starts = np.stack([_start_vector()])
    copy = starts.copy()
    _clusters().train(starts, (("a",),), participation.Round(1, ("a",), 1))
    np.testing.assert_array_equal(starts, copy)

  def test_one_sum_of_all_sites_is_held_at_a_time(self):
    # tests/integration:sites_test has real sites.
    train = {c: client_files.ExampleFile(f"site:here:1/{c}", 9, "here:1") for c in _task.client_ids}
    training = cluster_training.ClusterTraining(
        _task, client_files.ClientFiles(train, {}, ()), _OPTIONS, _SEED
    )
    vectors = np.zeros((3, _task.model.num_parameters), np.float32)
    written = []

    def add_up(vector, jobs):
      del jobs
      written.append(np.count_nonzero(vectors.any(axis=1)))
      return np.full(vector.shape, 8, np.float32), 4, np.zeros(len(_task.client_ids))

    with mock.patch.object(heads_lib, "build_site_sums", return_value=add_up):
      training.train(
          vectors, (("a",), ("b",), ("d",)), participation.Round(1, ("a", "d"), 1), in_place=True
      )
    # `b` does not take part.  The first model was there before the last sum was asked for.
    self.assertEqual(written, [0, 1])
    np.testing.assert_array_equal(vectors[:, 0], [2, 0, 2])

  def test_divergence_names_cluster_and_client(self):
    options = client_update.LocalTraining(batch_size=2, learning_rate=1e30)
    with self.assertRaisesRegex(
        divergence.TrainingDiverged, "round 2, cluster 1, client 'e'"
    ):
      _clusters(options).train(
          np.stack([_start_vector()] * 2), (("a",), ("e",)), participation.Round(2, ("e",), 2)
      )


if __name__ == "__main__":
  absltest.main()
