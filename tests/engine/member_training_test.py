import tempfile
import unittest
from unittest import mock

from absl.testing import absltest
import numpy as np

from clustering_basics import randomness
from fl_clustering import runtime
from fl_clustering.engine import client_files
from fl_clustering.engine import client_update
from fl_clustering.engine import cluster_training
from fl_clustering.engine import divergence
from fl_clustering.engine import heads
from fl_clustering.engine import participation
from tests import small_task
from tests.engine import small_messages

_OPTIONS = client_update.LocalTraining(batch_size=20, learning_rate=0.1)
_SEED = 5
# Client "d" is in three clusters, "a" in none, and one cluster is empty.
_CLUSTERS = (("b", "c", "d", "e"), (), ("e", "d"), ("d",))

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


def _starts(num_models):
  rng = np.random.default_rng(0)
  parameters = _task.model.initial_parameters(rng)
  vector = np.concatenate([p.ravel() for p in parameters])
  return vector + rng.normal(0, 0.01, (num_models, len(vector))).astype(np.float32)


def _training(options=_OPTIONS):
  return cluster_training.ClusterTraining(_task, _files, options, _SEED)


def _everyone(num_epochs=1):
  return participation.Round(3, _task.client_ids, num_epochs)


class TrainMembersTest(absltest.TestCase):

  def test_models_and_losses_are_those_of_cluster_training_to_the_bit(self):
    clusters = (*_CLUSTERS, _task.client_ids)
    starts = _starts(len(clusters))
    for round_ in (_everyone(2), participation.Round(4, ("a", "e", "d"), 1)):
      expected, expected_losses = _training().train(
          starts, clusters, round_
      )
      vectors, _, losses = _training().train_members(starts, clusters, round_)
      np.testing.assert_array_equal(vectors, expected)
      self.assertEqual(losses, expected_losses)

  def test_heads_of_several_members_have_the_same_sums(self):
    # So that all five members are summed up in one head.
    with mock.patch.object(heads, "_FEWEST_HEADS", 1):
      expected, _ = _training().train(
          _starts(1), (_task.client_ids,), _everyone()
      )
      vectors, own, _ = _training().train_members(_starts(1), (_task.client_ids,), _everyone())
    np.testing.assert_array_equal(vectors, expected)
    self.assertCountEqual(own[0], _task.client_ids)

  def test_own_models_are_what_each_client_trained(self):
    starts = _starts(len(_CLUSTERS))
    _, own, _ = _training().train_members(starts, _CLUSTERS, _everyone())
    update = client_update.build_client_update(_task.model, _OPTIONS)
    for start, members, own_of_members in zip(starts, _CLUSTERS, own):
      self.assertCountEqual(own_of_members, members)
      for member in members:
        trained, _, _ = update(
            client_update.unflatten(_task.model, start),
            _files.train[member].path,
            randomness.stateless_seed(_SEED, "local_training", 3, member),
            1,
        )
        self.assertEqual(own_of_members[member].dtype, np.float32)
        np.testing.assert_allclose(
            own_of_members[member], client_update.flatten(trained), atol=1e-6
        )

  def test_only_members_that_take_part_have_own_models(self):
    starts = _starts(len(_CLUSTERS))
    vectors, own, losses = _training().train_members(
        starts, _CLUSTERS, participation.Round(1, ("a", "c", "e"), 1)
    )
    self.assertEqual([sorted(part) for part in own], [["c", "e"], [], ["e"], []])
    self.assertEqual([sorted(part) for part in losses], [["c", "e"], [], ["e"], []])
    np.testing.assert_array_equal(vectors[[1, 3]], starts[[1, 3]])
    np.testing.assert_allclose(vectors[2], own[2]["e"], atol=1e-7)

  def test_messages_of_any_size_give_the_same(self):
    starts = _starts(len(_CLUSTERS))
    training = _training()
    whole = training.train_members(starts, _CLUSTERS, _everyone())
    train_members = heads.build_own_models(_task.model, _OPTIONS)
    most_returned = 0

    def train(models, jobs):
      nonlocal most_returned
      results = train_members(models, jobs)
      most_returned = max(most_returned, sum(vectors.nbytes for _, vectors, _ in results))
      return results

    limit = 3 * starts[0].nbytes
    with (
        small_messages.limit(limit),
        mock.patch.object(heads, "build_own_models", lambda *_: train),
        # One head per cluster, so that the first is cut in two.
        mock.patch.object(heads, "_FEWEST_HEADS", 1),
        mock.patch.object(cluster_training, "_HEADS_PER_MESSAGE", 1),
    ):
      parts = training.train_members(starts, _CLUSTERS, _everyone())
    self.assertBetween(most_returned, 1, limit)
    np.testing.assert_allclose(parts[0], whole[0], atol=1e-7)
    self.assertEqual(parts[2], whole[2])
    for own, expected in zip(parts[1], whole[1]):
      self.assertCountEqual(own, expected)
      for member, vector in own.items():
        np.testing.assert_array_equal(vector, expected[member])

  def test_the_order_of_tffs_results_does_not_matter(self):
    starts = _starts(len(_CLUSTERS))
    training = _training()
    expected = training.train_members(starts, _CLUSTERS, _everyone())
    train_members = heads.build_own_models(_task.model, _OPTIONS)
    with mock.patch.object(
        heads, "build_own_models",
        lambda *_: lambda *args: list(train_members(*args))[::-1],
    ):
      vectors, own, losses = training.train_members(starts, _CLUSTERS, _everyone())
    np.testing.assert_array_equal(vectors, expected[0])
    np.testing.assert_array_equal(own[2]["e"], expected[1][2]["e"])
    self.assertEqual(losses, expected[2])

  def test_inputs_are_not_changed(self):
    starts = _starts(len(_CLUSTERS))
    copy = starts.copy()
    _training().train_members(starts, _CLUSTERS, _everyone())
    np.testing.assert_array_equal(starts, copy)

  def test_nobody_to_train(self):
    starts = _starts(2)
    vectors, own, losses = _training().train_members(starts, ((), ()), _everyone())
    np.testing.assert_array_equal(vectors, starts)
    self.assertEqual((own, losses), ([{}, {}], [{}, {}]))

  def test_divergence_names_cluster_and_client(self):
    options = client_update.LocalTraining(batch_size=2, learning_rate=1e30)
    with self.assertRaisesRegex(
        divergence.TrainingDiverged, "round 3, cluster 1, client 'e'"
    ):
      _training(options=options).train_members(_starts(2), ((), ("e",)), _everyone(2))


if __name__ == "__main__":
  absltest.main()
