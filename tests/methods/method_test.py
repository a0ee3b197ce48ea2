"""Tests of the methods' maths; the engine is a stand-in that needs no TFF."""

import dataclasses
import types

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import participation
from fl_clustering.methods import client_weights
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import distances
from fl_clustering.methods import hierarchical
from fl_clustering.methods import kmeans
from fl_clustering.methods import method
from fl_clustering.methods import new_clients
from fl_clustering.methods import one_shot
from fl_clustering.methods import registry
from fl_clustering.three_phase import config as config_lib
from tests import letters
from tests.methods import point_engine

_CLIENTS = np.arange(3)
_ROUND = participation.Round(7, letters.clients("ac"), 2)


def _state(members, **details):
  vectors = np.zeros((len(members), 2), np.float32)
  return method.ClusterState(vectors, letters.clusters(*members), **details)


def _pretrained():
  vectors = np.array([[0, 2], [4, 0], [8, 1]], np.float32)
  weights = client_weights.ClientWeights(_CLIENTS, vectors, np.zeros(2, np.float32))
  return method.Pretrained(np.ones(2, np.float32), np.zeros(2, np.float32), weights)


def _new_client_weights():
  return client_weights.ClientWeights(
      letters.clients("xy"), np.array([[9, 1], [1, 1]], np.float32), np.zeros(2, np.float32)
  )


def _losses(clients):
  return participation.ClientLosses(clients, np.full(len(clients), 0.5))


class _Engine:
  """Adds the round's number to every model."""

  clients = _CLIENTS
  num_examples = np.array([1, 1, 2])

  def __init__(self):
    self.trained = []

  def train(self, vectors, members, round_):
    self.trained.append((vectors, letters.names(members)))
    losses = [_losses(round_.among(clients)) for clients in members]
    return vectors + np.float32(round_.number), losses

  def train_own(self, vectors, clients, round_):
    return vectors + np.float32(round_.number), None, _losses(round_.among(clients))

  def train_each(self, vectors, clients, round_):
    return vectors + np.float32(round_.number), _losses(clients)

  def losses(self, vectors, clients):
    return np.repeat(vectors.sum(axis=1, keepdims=True), len(clients), axis=1)


class ClusterStateTest(absltest.TestCase):

  def test_refuses_another_number_of_models_and_another_type(self):
    for vectors in (np.zeros((2, 3), np.float32), np.zeros((1, 3))):
      with self.assertRaisesRegex(ValueError, "^`vectors`"):
        method.ClusterState(vectors, letters.clusters("a"))

  def test_what_is_reported(self):
    members = ("", "ab", "b", "c", "ba", "ca")
    places, assignment = _state(members, warning="a warning").reported_clusters()
    self.assertEqual(places, [1, 5])
    self.assertEqual(letters.names(assignment.clusters), ("ab", "ca"))
    self.assertEqual(assignment.warning, "a warning")

  def test_many_clients_alone_are_reported_quickly(self):
    # A comparison of all pairs of clusters would make 400 million.
    places, _ = method.ClusterState(
        np.zeros((20_000, 2), np.float32), np.arange(20_000)[:, None]
    ).reported_clusters()
    self.assertLen(places, 20_000)


class _Grouping:
  """Always finds the same clusters."""

  representation = "weights"

  def __init__(self, clusters, overlap_training="shared"):
    self.overlap_training = overlap_training
    self.given = []
    self._clusters = clusters

  def __call__(self, weights, rng):
    self.given.append((weights, rng))
    return cluster_assignment.ClusterAssignment(letters.clusters(*self._clusters), "a warning")


class OneShotTest(absltest.TestCase):

  def test_groups_once_and_starts_from_the_members_means(self):
    clusters = ("ac", "bc")
    grouping = _Grouping(clusters)
    pretrained, rng = _pretrained(), np.random.default_rng(0)
    one = one_shot.one_shot(grouping, _Engine())
    state = one.initialize(pretrained, rng)
    self.assertEqual(grouping.given, [(pretrained.client_weights, rng)])
    self.assertEqual((letters.names(state.members), state.warning), (clusters, "a warning"))
    np.testing.assert_array_equal(state.vectors, [[4, 1.5], [6, 0.5]])
    after, losses = one.next(state, _ROUND)
    np.testing.assert_array_equal(after.vectors, state.vectors + 7)
    self.assertEqual((letters.names(after.members), after.warning), (clusters, "a warning"))
    self.assertEqual(letters.losses(losses), [{"a": 0.5, "c": 0.5}, {"c": 0.5}])
    self.assertLen(grouping.given, 1)

  def test_new_clients_are_placed_in_clusters_that_there_are(self):
    vectors = np.zeros((1, 2), np.float32)

    def place(clusters, names="x"):
      one = method.Method(None, None, lambda *unused: method.Placement(clusters, vectors))
      return one.place_new(None, _state(("a", "bc")), letters.clients(names))

    self.assertIsNone(place(((-1,),), ""))
    for clusters in (((),), ((0, 1),), ((np.int64(1),),)):
      self.assertEqual(place(clusters).clusters, clusters)
    for clusters in (((-1,),), ((2,),), ((0.0,),)):
      with self.assertRaisesRegex(ValueError, "^`clusters`"):
        place(clusters)
    for names in ("xy", "xyz"):
      with self.assertRaisesRegex(ValueError, "^`clusters`"):
        place(((0,),), names)


class SketchTest(absltest.TestCase):

  def test_groups_without_weights_and_starts_from_the_last_global_model(self):
    points = {"a": (0, 0), "b": (9, 1), "c": (1, 0), "x": (8, 0), "y": (0, 2)}
    engine = point_engine.PointEngine(points, "xy")
    pretrained = dataclasses.replace(point_engine.pretrained(engine), client_weights=None)
    one = one_shot.one_shot(kmeans.KMeans(2, "sketch"), engine)
    self.assertFalse(one.uses_own_weights)
    state = one.initialize(pretrained, np.random.default_rng(0))
    self.assertEqual(letters.names(state.members), ("ac", "b"))
    np.testing.assert_array_equal(state.vectors, [pretrained.vector] * 2)
    placement = one.place(pretrained, state, letters.clients("xy"))
    self.assertEqual(placement.clusters, ((1,), (0,)))
    # Of a method that moves clients, those that are there count.
    moved = dataclasses.replace(
        state, vectors=state.vectors[[0, 1, 1]], members=letters.clusters("b", "ac", "")
    )
    self.assertEqual(
        one.place(pretrained, moved, letters.clients("xy")).clusters, ((0,), (1,))
    )

  def test_fedavg_starts_from_it_too(self):
    config = types.SimpleNamespace(representation="sketch")
    pretrained = _pretrained()  # Other methods may use the clients' weights.
    state = registry.CONTROLS["fedavg"].build(config, _Engine()).initialize(pretrained, None)
    np.testing.assert_array_equal(state.vectors, [pretrained.vector])

  def test_is_not_for_new_clients_by_weights(self):
    with self.assertRaisesRegex(ValueError, "^`representation`"):
      new_clients.by_weights("sketch")


class OverlappingTest(absltest.TestCase):

  def _after(self, clusters, overlap_training, engine):
    one = one_shot.overlapping(_Grouping(clusters, overlap_training), engine)
    return one.next(one.initialize(_pretrained(), None), _ROUND)

  def test_a_client_trains_once_from_the_mean_of_its_clusters(self):
    engine = _Engine()
    after, losses = self._after(("ac", "bc"), "shared", engine)
    # The clusters' models are (4, 1.5) and (6, .5), so c trains from (5, 1).
    ((vectors, members),) = engine.trained
    self.assertEqual(members, ("a", "b", "c"))
    np.testing.assert_array_equal(vectors, [[4, 1.5], [6, 0.5], [5, 1]])
    # Training adds 7.  In the first cluster a has one example and c two; b doesn't take part.
    expected = [[(11 + 2 * 12) / 3, (8.5 + 2 * 8) / 3], [12, 8]]
    np.testing.assert_allclose(after.vectors, expected, rtol=1e-6)
    self.assertEqual(letters.losses(losses), [{"a": 0.5, "c": 0.5}, {"c": 0.5}])

  def test_clients_of_the_same_clusters_train_together(self):
    engine = _Engine()
    self._after(("ab", "c"), "shared", engine)
    self.assertEqual(engine.trained[0][1], ("ab", "c"))

  def test_without_overlap_both_ways_are_the_same(self):
    clusters = ("ab", "c")
    shared, losses = self._after(clusters, "shared", _Engine())
    separate, separate_losses = self._after(clusters, "separate", _Engine())
    np.testing.assert_array_equal(shared.vectors, separate.vectors)
    self.assertEqual(letters.losses(losses), letters.losses(separate_losses))

  def test_a_cluster_in_which_nobody_takes_part_keeps_its_model(self):
    after, losses = self._after(("b", "ac"), "shared", _Engine())
    np.testing.assert_array_equal(after.vectors[0], [4, 0])
    self.assertEmpty(losses[0].clients)

  def test_separately_a_client_trains_every_model_of_its_clusters(self):
    engine = _Engine()
    self._after(("ac", "bc"), "separate", engine)
    self.assertEqual(engine.trained[0][1], ("ac", "bc"))


class ControlsTest(absltest.TestCase):

  def _initial(self, name):
    config = config_lib.ThreePhaseConfig(num_clients=3)
    return registry.CONTROLS[name].build(config, _Engine()).initialize(_pretrained(), None)

  def test_fedavg_starts_as_a_cluster_of_all_clients(self):
    state = self._initial("fedavg")
    self.assertEqual(letters.names(state.members), ("abc",))
    # The plain mean, whatever the clients' numbers of examples.
    np.testing.assert_array_equal(state.vectors, [[4, 1]])

  def test_who_trains_alone_starts_from_the_model_before_or_after_phase_1(self):
    for name, start in (("finetuned", [0, 0]), ("local", [1, 1])):
      state = self._initial(name)
      self.assertEqual(letters.names(state.members), ("a", "b", "c"))
      np.testing.assert_array_equal(state.vectors, [start] * 3)

  def test_finetuned_pays_for_the_own_weights_that_it_goes_on_from(self):
    for grouping_epochs, is_used in ((None, False), (2, True)):
      config = config_lib.ThreePhaseConfig(num_clients=3, grouping_epochs=grouping_epochs)
      control = registry.CONTROLS["finetuned"].build(config, _Engine())
      self.assertEqual(control.uses_own_weights, is_used)

  def test_finetuned_goes_on_after_the_epochs_before_grouping(self):
    config = config_lib.ThreePhaseConfig(
        num_clients=3, pretrain_rounds=2, cluster_rounds=1, grouping_epochs=2
    )
    engine, pretrained = _Engine(), _pretrained()
    control = registry.CONTROLS["finetuned"].build(config, engine)
    vectors = control.initialize(pretrained, None).vectors
    np.testing.assert_array_equal(vectors, pretrained.client_weights.vectors)
    # Rounds write into what they can, but not into the first state.
    self.assertFalse(vectors.flags.writeable)
    pretrained = dataclasses.replace(pretrained, new_client_weights=_new_client_weights())
    placement = control.place(pretrained, None, letters.clients("yx"))
    np.testing.assert_array_equal(placement.vectors, np.array([[1, 1], [9, 1]]) + 4)


class NewClientsTest(absltest.TestCase):

  def _pretrained(self):
    return dataclasses.replace(_pretrained(), new_client_weights=_new_client_weights())

  def test_nearest_cluster_by_weights(self):
    state = method.ClusterState(
        np.array([[1, 1], [2, 2], [3, 3]], np.float32), letters.clusters("", "c", "ab")
    )
    placement = new_clients.by_weights("weights")(self._pretrained(), state, letters.clients("yx"))
    self.assertEqual(placement.clusters, ((2,), (1,)))
    np.testing.assert_array_equal(placement.vectors, [[3, 3], [2, 2]])

  def test_directions_count_where_directions_were_grouped(self):
    state = _state(("a", "bc"))
    place = new_clients.by_weights("normalized_update")
    # (1, 1) is nearer to (0, 2) by weights and by direction to (4, 0) and (8, 1).
    self.assertEqual(place(self._pretrained(), state, letters.clients("y")).clusters, ((1,),))

  def test_groupings_place_by_the_representation_that_they_group_by(self):
    for representation, expected in (("weights", 0), ("normalized_update", 1)):
      for name, settings in (
          ("kmeans", kmeans.KMeans(2, representation)),
          ("hierarchical", hierarchical.Hierarchical(
              num_clusters=2, metric="l2", representation=representation)),
      ):
        one = registry.METHODS[name].build(settings, _Engine())
        placement = one.place(self._pretrained(), _state(("a", "bc")), letters.clients("y"))
        self.assertEqual(placement.clusters, ((expected,),), (name, representation))

  def _placed_by(self, metric):
    updates = np.array([[10, 0], [8, 0.5], [0, 1], [0.05, 1.2], [1, 0.05]], np.float32)
    model = np.array([3, 4], np.float32)
    weights, new_weights = (
        client_weights.ClientWeights(letters.clients(names), model + rows, model)
        for names, rows in (("abcd", updates[:4]), ("x", updates[4:]))
    )
    pretrained = method.Pretrained(model, model, weights, new_weights)
    settings = hierarchical.Hierarchical(num_clusters=2, metric=metric)
    one = registry.METHODS["hierarchical"].build(settings, _Engine())
    state = one.initialize(pretrained, None)
    self.assertEqual(letters.names(state.members), ("ab", "cd"), metric)
    ((cluster,),) = one.place(pretrained, state, letters.clients("x")).clusters
    return letters.name(state.members[cluster])

  def test_hierarchical_places_by_the_distance_that_it_groups_by(self):
    # The new client has the direction of a and b, and is short as c and d are.
    found = {metric: self._placed_by(metric) for metric in hierarchical.METRICS}
    self.assertEqual(found, {"l1": "cd", "l2": "cd", "cosine": "ab"})

  def test_means_are_in_the_order_of_the_metrics_that_group(self):
    self.assertEqual(new_clients.DISTANCES.keys(), distances.METRICS.keys())
    own, *means = np.random.default_rng(0).normal(size=(20, 3)) + 1
    for metric, distance in new_clients.DISTANCES.items():
      found = np.argsort([distance(own, mean) for mean in means])
      expected = np.argsort([distances.METRICS[metric](np.stack([own, m]))[0] for m in means])
      self.assertEqual(found.tolist(), expected.tolist(), metric)

  def test_the_nearest_center_is_that_of_the_least_euclidean_distance(self):
    vectors = np.array([[0, 0], [3, 3], [9, 9]], np.float32)
    # The first center is nearer to (3, 3) in the largest difference, not in L2.
    centers = np.array([[0, 0.5], [7, 2.5], [7, 2.5]], np.float32)
    np.testing.assert_array_equal(new_clients.nearest(vectors, centers), [0, 0, 1])

  def test_least_loss_of_a_cluster_with_members(self):
    state = method.ClusterState(
        np.array([[0, 0], [5, 0], [6, 0]], np.float32), letters.clusters("", "c", "ab")
    )
    placement = new_clients.by_loss(_Engine())(None, state, letters.clients("xy"))
    self.assertEqual(placement.clusters, ((1,), (1,)))

  def test_trains_alone_for_as_many_rounds(self):
    config = config_lib.ThreePhaseConfig(num_clients=3, pretrain_rounds=2, cluster_rounds=3)
    for name, rounds in (("finetuned", (4, 5, 6)), ("local", (1, 2, 4, 5, 6))):
      engine = _Engine()
      control = registry.CONTROLS[name].build(config, engine)
      placement = control.place(_pretrained(), None, letters.clients("x"))
      start = 1 if name == "local" else 0
      np.testing.assert_array_equal(placement.vectors, [[start + sum(rounds)] * 2])
      self.assertEqual(placement.clusters, ((),))
