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

_SEED = 5
# Client "d" is in three clusters, "a" in none, and one cluster is empty.
_CLUSTERS = letters.clusters("bcde", "", "ed", "d")
# All clients.
_ALL = np.arange(5)

_TASK = small_task.small_task()

setUpModule = local_runtime.use


def _starts(num_models):
  return small_task.vectors(_TASK, num_models)


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


class TrainMembersTest(absltest.TestCase):

  def test_members_of_one_head_are_summed_up_as_train_does(self):
    starts = _starts(len(_CLUSTERS))
    with mock.patch.object(heads, "FEWEST_HEADS", 1):
      expected, _ = _training().train(starts, _CLUSTERS, _everyone(2))
      vectors, _, _ = _training().train_members(starts, _CLUSTERS, _everyone(2))
    np.testing.assert_array_equal(vectors, expected)
