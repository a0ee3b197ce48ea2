"""Tests of the methods' maths; the engine is a stand-in that needs no TFF."""

from absl.testing import absltest
import numpy as np

from fl_clustering import client_weights
from fl_clustering import cluster_assignment
from fl_clustering.methods import controls
from fl_clustering.methods import method
from fl_clustering.methods import one_shot
from fl_clustering import participation

_IDS = ("a", "b", "c")
_ROUND = participation.Round(7, ("a", "c"), 2)


def _state(members, **details):
  return method.ClusterState(np.zeros((len(members), 2), np.float32), members, **details)


def _pretrained():
  vectors = np.array([[0, 2], [4, 0], [8, 1]], np.float32)
  weights = client_weights.ClientWeights(_IDS, vectors, np.zeros(2, np.float32))
  return method.Pretrained(np.ones(2, np.float32), np.zeros(2, np.float32), weights)


class _Engine:
  """Adds the round's number to every model."""

  num_examples = {"a": 1, "b": 1, "c": 2}

  def train(self, vectors, members, round_):
    losses = [{c: 0.5 for c in ids if c in round_.client_ids} for ids in members]
    return vectors + np.float32(round_.number), losses


class ClusterStateTest(absltest.TestCase):

  def test_refuses_another_number_of_models(self):
    with self.assertRaisesRegex(ValueError, r"`vectors`.*num_clusters=1.*\(2, 3\)"):
      method.ClusterState(np.zeros((2, 3)), (("a",),))

  def test_refuses_models_of_another_type(self):
    with self.assertRaisesRegex(ValueError, "`vectors` must be of type float32, got 'float64'"):
      method.ClusterState(np.zeros((1, 3)), (("a",),))

  def test_what_is_reported(self):
    members = ((), ("a", "b"), ("b",), ("c",), ("b", "a"), ("c", "a"))
    places, assignment = _state(members, warning="a warning").reported_clusters()
    self.assertEqual(places, [1, 5])
    self.assertEqual(assignment.clusters, (("a", "b"), ("c", "a")))
    self.assertEqual(assignment.warning, "a warning")

  def test_many_clients_alone_are_reported_quickly(self):
    # A comparison of all pairs of clusters would make 400 million.
    places, _ = _state(tuple((str(i),) for i in range(20_000))).reported_clusters()
    self.assertLen(places, 20_000)


class OneShotTest(absltest.TestCase):

  def test_groups_once_and_starts_from_the_members_means(self):
    clusters = (("a", "c"), ("b", "c"))
    given = []

    def group(weights, rng):
      given.append((weights, rng))
      return cluster_assignment.ClusterAssignment(clusters, "a warning")

    pretrained, rng = _pretrained(), np.random.default_rng(0)
    one = one_shot.one_shot(group, _Engine())
    state = one.initialize(pretrained, rng)
    self.assertEqual(given, [(pretrained.client_weights, rng)])
    self.assertEqual((state.members, state.warning), (clusters, "a warning"))
    np.testing.assert_array_equal(state.vectors, [[4, 1.5], [6, 0.5]])
    after, losses = one.next(state, _ROUND)
    np.testing.assert_array_equal(after.vectors, state.vectors + 7)
    self.assertEqual((after.members, after.warning), (clusters, "a warning"))
    self.assertEqual(losses, [{"a": 0.5, "c": 0.5}, {"c": 0.5}])
    self.assertLen(given, 1)

  def test_every_client_must_be_grouped(self):
    group = lambda weights, rng: cluster_assignment.ClusterAssignment((("a", "b"),))
    with self.assertRaisesRegex(ValueError, "`clusters` must hold every client.*'c'"):
      one_shot.one_shot(group, _Engine()).initialize(_pretrained(), None)


class ControlsTest(absltest.TestCase):

  def test_fedavg_is_one_cluster_from_the_mean_by_examples(self):
    state = controls.fedavg(_Engine()).initialize(_pretrained(), None)
    self.assertEqual(state.members, (_IDS,))
    np.testing.assert_array_equal(state.vectors, [[5, 1]])

  def test_local_is_every_client_from_its_own_weights(self):
    state = controls.local(_Engine()).initialize(_pretrained(), None)
    self.assertEqual(state.members, (("a",), ("b",), ("c",)))
    np.testing.assert_array_equal(state.vectors, _pretrained().client_weights.vectors)


if __name__ == "__main__":
  absltest.main()
