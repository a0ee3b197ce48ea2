from unittest import mock

from absl.testing import absltest
import numpy as np

from clustering_basics import randomness
from fl_clustering.engine import participation
from fl_clustering.engine import personalization
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import heads
from fl_clustering.engine.tff import personal_training
from tests import letters
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine
from tests.engine.tff import small_messages

_SEED = 5
# Client "d" is in three clusters, "a" in none, and one cluster is empty.
_CLUSTERS = letters.clusters("bcde", "", "ed", "d")
# All clients.
_ALL = np.arange(5)

_TASK = small_task.small_task()

setUpModule = local_runtime.use


def _starts(num_models):
  return small_engine.vectors(_TASK, num_models)


def _training(seed=_SEED):
  return small_engine.engine(seed=seed)


def _trained_alone(start, client, round_):
  """Returns what a client makes of a model in a round."""
  update = client_update.build_client_update(
      _TASK.model, small_engine.BATCH_SIZE, small_engine.RATE
  )
  seed = randomness.stateless_seed(
      _SEED, "local_training", round_.number, _TASK.client_ids[client]
  )
  parameters = client_update.unflatten(_TASK.model, start)
  path = small_engine.files(_TASK).train[client].path
  trained, _, _ = update(parameters, path, seed, round_.num_epochs)
  return client_update.flatten(trained).numpy()


def _own_models():
  return personal_training.build_own_models(
      _TASK.model, small_engine.BATCH_SIZE, small_engine.RATE, personalization.Personalization()
  )


def _everyone(num_epochs=1):
  return participation.Round(3, _ALL, num_epochs)


class PlanHeadsTest(absltest.TestCase):

  def test_every_member_is_in_one_head_of_its_cluster(self):
    clusters = (np.arange(30), np.array([3, 5]), np.array([29]))
    planned = heads.plan_heads(clusters, 1 + np.arange(30) ** 2)
    for k, members in enumerate(clusters):
      found = [m for head in planned if head.cluster == k for m in head.members]
      self.assertCountEqual(found, members)

  def test_no_head_does_much_more_than_its_part(self):
    planned = heads.plan_heads((np.arange(160),), np.full(160, 10))
    self.assertLen(planned, 16)
    self.assertEqual({len(head.members) for head in planned}, {10})

  def test_many_clients_have_more_heads(self):
    for num_clients, num_heads in ((100, 16), (330, 33), (3000, 64)):
      planned = heads.plan_heads((np.arange(num_clients),), np.full(3000, 10))
      self.assertLen(planned, num_heads)

  def test_the_largest_comes_first(self):
    planned = heads.plan_heads(letters.clusters("a", "b", "c"), np.array([1, 50, 3]))
    self.assertEqual(letters.names(head.members for head in planned), ("b", "c", "a"))


class TrainTest(absltest.TestCase):

  def test_one_cluster_is_the_weighted_mean_of_the_clients(self):
    (start,), round_ = _starts(1), participation.Round(3, letters.clients("ace"), 1)
    (vector,), _ = _training().train(start[None], (_ALL,), round_)
    trained = [_trained_alone(start, client, round_) for client in round_.clients]
    sizes = [len(_TASK.clients[client].train) for client in round_.clients]
    np.testing.assert_allclose(vector, np.average(trained, axis=0, weights=sizes), atol=2e-6)

  def test_the_order_of_the_clients_does_not_matter(self):
    models = [
        _training().train(_starts(1), (_ALL,), participation.Round(1, letters.clients(names), 1))[0]
        for names in ("ace", "eac")
    ]
    np.testing.assert_array_equal(*models)

  def test_the_seed_decides(self):
    one, same, other = (
        _training(seed=seed).train(_starts(1), (_ALL,), _everyone())[0] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    self.assertGreater(np.abs(one - other).max(), 1e-4)

  def test_overlapping_clusters_are_a_fedavg_each(self):
    clusters = letters.clusters("abe", "bcd", "e")
    starts = _starts(3)
    copy = starts.copy()
    vectors, _ = _training().train(starts, clusters, participation.Round(2, _ALL, 1))
    np.testing.assert_array_equal(starts, copy)
    for k, members in enumerate(clusters):
      (alone,), _ = _training().train(
          starts[k][None], (_ALL,), participation.Round(2, members, 1)
      )
      np.testing.assert_allclose(vectors[k], alone, atol=1e-6)

  def test_only_clients_that_take_part_train(self):
    (start,) = _starts(1)
    clusters = letters.clusters("ab", "cd")
    vectors, losses = _training().train(
        np.stack([start, start]), clusters, participation.Round(1, letters.clients("be"), 1)
    )
    alone, _ = _training().train(
        start[None], letters.clusters("b"), participation.Round(1, letters.clients("b"), 1)
    )
    np.testing.assert_array_equal(vectors[0], alone[0])
    np.testing.assert_array_equal(vectors[1], start)
    self.assertEqual(letters.names(part.clients for part in losses), ("b", ""))

  def test_messages_of_any_size_give_the_same(self):
    starts = _starts(5)
    clusters = _ALL[:, None]
    training = _training()
    whole, _ = training.train(starts, clusters, participation.Round(1, _ALL, 1))
    with small_messages.limit(8 * _TASK.model.num_parameters):
      parts, _ = training.train(starts, clusters, participation.Round(1, _ALL, 1))
    np.testing.assert_array_equal(whole, parts)


class TrainMembersTest(absltest.TestCase):

  def test_models_and_losses_are_those_of_train_to_the_bit(self):
    clusters = (*_CLUSTERS, _ALL)
    starts = _starts(len(clusters))
    # The second time, all members of a cluster are summed up in one head.
    for num_heads in (heads.FEWEST_HEADS, 1):
      with mock.patch.object(heads, "FEWEST_HEADS", num_heads):
        for round_ in (_everyone(2), participation.Round(4, letters.clients("aed"), 1)):
          old, new = _training(), _training()
          expected, expected_losses = old.train(starts, clusters, round_)
          vectors, _, losses = new.train_members(starts, clusters, round_)
          np.testing.assert_array_equal(vectors, expected)
          self.assertEqual(letters.losses(losses), letters.losses(expected_losses))
          self.assertEqual(new.cost, old.cost)
    np.testing.assert_array_equal(starts, _starts(len(clusters)))

  def test_own_models_are_what_each_client_trained(self):
    starts = _starts(len(_CLUSTERS))
    _, own, losses = _training().train_members(starts, _CLUSTERS, _everyone())
    for start, members, own_of_members, of_cluster in zip(starts, _CLUSTERS, own, losses):
      self.assertCountEqual(of_cluster.clients, members)
      self.assertEqual(own_of_members.dtype, np.float32)
      for member, vector in zip(of_cluster.clients, own_of_members):
        np.testing.assert_allclose(
            vector, _trained_alone(start, member, _everyone()), atol=1e-6
        )

  def test_messages_of_any_size_give_the_same(self):
    starts = _starts(len(_CLUSTERS))
    training = _training()
    whole = training.train_members(starts, _CLUSTERS, _everyone())
    train_members = _own_models()
    most_returned = 0

    def train(models, jobs):
      nonlocal most_returned
      results = train_members(models, jobs)
      most_returned = max(most_returned, sum(vectors.nbytes for _, vectors, *_ in results))
      return results

    limit = 3 * starts[0].nbytes
    with (
        small_messages.limit(limit),
        mock.patch.object(personal_training, "build_own_models", lambda *_: train),
        # One head per cluster, so that the first is cut in two.
        mock.patch.object(heads, "FEWEST_HEADS", 1),
        mock.patch.object(heads, "HEADS_PER_MESSAGE", 1),
    ):
      parts = training.train_members(starts, _CLUSTERS, _everyone())
    self.assertBetween(most_returned, 1, limit)
    np.testing.assert_allclose(parts[0], whole[0], atol=1e-7)
    self.assertEqual(letters.losses(parts[2]), letters.losses(whole[2]))
    for own, of_cluster, expected, of_whole in zip(*parts[1:], *whole[1:]):
      order, other = np.argsort(of_cluster.clients), np.argsort(of_whole.clients)
      np.testing.assert_array_equal(own[order], expected[other])

  def test_the_order_of_tffs_results_does_not_matter(self):
    starts = _starts(len(_CLUSTERS))
    training = _training()
    expected = training.train_members(starts, _CLUSTERS, _everyone())
    train_members = _own_models()
    with mock.patch.object(
        personal_training, "build_own_models",
        lambda *_: lambda *args: list(train_members(*args))[::-1],
    ):
      vectors, own, losses = training.train_members(starts, _CLUSTERS, _everyone())
    np.testing.assert_array_equal(vectors, expected[0])
    np.testing.assert_array_equal(own[2], expected[1][2])
    self.assertEqual(letters.losses(losses), letters.losses(expected[2]))
