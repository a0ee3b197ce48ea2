"""Tests of IFCA; the engine is a stand-in whose models and data are points."""

import dataclasses
import tracemalloc

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import ifca
from fl_clustering.methods import method
from fl_clustering.three_phase import config as config_lib
from tests import letters
from tests.methods import point_engine

_LEFT, _RIGHT = (0.0, 0.0), (10.0, 0.0)
_POINTS = {"a": _LEFT, "b": _RIGHT, "c": _LEFT, "d": _RIGHT, "e": (0.0, 1.0)}
_GROUPS = ("ace", "bd")


def _start_from(vectors, settings, engine):
  """Returns IFCA's state with these models to start from, and IFCA."""
  engine.initial = np.array(vectors, np.float32)
  one = ifca.ifca(dataclasses.replace(settings, ifca_start="random"), engine)
  pretrained = point_engine.pretrained(engine)
  return one, one.initialize(pretrained, np.random.default_rng(0))


class StartTest(parameterized.TestCase):

  def test_grouped_are_the_clusters_of_k_means(self):
    engine = point_engine.PointEngine(_POINTS)
    one = ifca.ifca(ifca.Ifca(2), engine)
    state = one.initialize(point_engine.pretrained(engine), np.random.default_rng(0))
    self.assertFalse(one.from_start)
    self.assertEqual(letters.names(state.members), _GROUPS)
    np.testing.assert_allclose(state.vectors, [[0, 1 / 3], [10, 0]], rtol=1e-6)

  def test_grouped_by_sketches_are_what_their_clients_train_in_one_round(self):
    engine = point_engine.PointEngine(_POINTS)
    engine.schedule = config_lib.ThreePhaseConfig(num_clients=5, pretrain_rounds=3)
    one = ifca.ifca(ifca.Ifca(2, "sketch"), engine)
    pretrained = dataclasses.replace(point_engine.pretrained(engine), client_weights=None)
    state = one.initialize(pretrained, np.random.default_rng(0))
    self.assertFalse(one.uses_own_weights)
    self.assertEqual(engine.trained, [_GROUPS])
    self.assertEqual(letters.names(state.members), _GROUPS)
    of_groups = np.array([[0, 1 / 3], [10, 0]])
    np.testing.assert_allclose(state.vectors, (pretrained.vector + of_groups) / 2, rtol=1e-6)

  def test_a_cluster_of_which_nobody_takes_part_trains_for_that_round_too(self):
    engine = point_engine.PointEngine(_POINTS)
    engine.schedule = config_lib.ThreePhaseConfig(
        num_clients=5, pretrain_rounds=3, clients_per_round=1
    )
    pretrained = dataclasses.replace(point_engine.pretrained(engine), client_weights=None)
    one = ifca.ifca(ifca.Ifca(2, "sketch"), engine)
    state = one.initialize(pretrained, np.random.default_rng(0))
    self.assertTrue((state.vectors != pretrained.vector).any(axis=1).all())

  def test_perturbed_are_as_far_apart_as_the_clients(self):
    rng = np.random.default_rng(5)
    # Of 2,000 numbers, a half varies between the clients and a half does not.
    spread = np.repeat([3.0, 0.0], 1000)
    engine = point_engine.PointEngine([7 + spread * rng.normal(size=2000) for _ in range(50)])
    one = ifca.ifca(ifca.Ifca(3, ifca_start="perturbed"), engine)
    pretrained = point_engine.pretrained(engine)
    vectors = one.initialize(pretrained, np.random.default_rng(0)).vectors
    mean = pretrained.client_weights.mean_of(engine.clients)
    np.testing.assert_array_equal(vectors[0], mean)
    for vector in vectors[1:]:
      self.assertBetween((vector - mean)[:1000].std(), 2.7, 3.3)
      np.testing.assert_array_equal(vector[1000:], mean[1000:])
    self.assertGreater(np.abs(vectors[1] - vectors[2]).max(), 1)

  def test_perturbed_takes_no_copy_of_all_weights(self):
    rng = np.random.default_rng(0)
    engine = point_engine.PointEngine(
        [rng.normal(size=10_000).astype(np.float32) for _ in range(60)]
    )
    engine.losses = lambda vectors, clients: np.zeros((len(vectors), len(clients)))
    pretrained = point_engine.pretrained(engine)
    one = ifca.ifca(ifca.Ifca(2, ifca_start="perturbed"), engine)
    tracemalloc.start()
    one.initialize(pretrained, rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    self.assertLess(peak, pretrained.client_weights.vectors.nbytes)

  def test_random_are_the_tasks_own_models(self):
    engine = point_engine.PointEngine(_POINTS)
    one, state = _start_from([[9, 0], [1, 0]], ifca.Ifca(2), engine)
    self.assertTrue(one.from_start)
    self.assertEqual(engine.num_initial, 2)
    np.testing.assert_array_equal(state.vectors, [[9, 0], [1, 0]])
    self.assertEqual(letters.names(state.members), ("bd", "ace"))


class RoundTest(absltest.TestCase):

  def test_clients_train_the_model_of_least_loss(self):
    engine = point_engine.PointEngine(_POINTS)
    one, state = _start_from([[4, 0], [8, 0]], ifca.Ifca(2), engine)
    self.assertEqual(letters.names(state.members), _GROUPS)
    after, losses = one.next(state, point_engine.round_(1))
    self.assertEqual(letters.names(one.clients for one in losses), ("ace", "bd"))
    # Each went half the way to the mean of its clients' points.
    np.testing.assert_allclose(after.vectors, [[2, 1 / 6], [9, 0]], rtol=1e-6)

  def test_who_is_reported_chose_among_the_final_models(self):
    # "e" is nearest the third model until that has moved to "b" and "d".
    points = {**_POINTS, "e": (6.5, 0.0)}
    engine = point_engine.PointEngine(points)
    one, state = _start_from([[0, 0], [4, 0], [7, 0]], ifca.Ifca(3), engine)
    self.assertEqual(letters.names(state.members), ("ac", "", "bde"))
    after, losses = one.next(state, point_engine.round_(1, "abde"))
    self.assertIn("e", letters.name(losses[2].clients))
    np.testing.assert_allclose(after.vectors[2], [(7 + (10 + 10 + 6.5) / 3) / 2, 0])
    self.assertEqual(letters.names(after.members), ("ac", "", "bde"))
    later = after
    for number in range(2, 9):
      later, _ = one.next(later, point_engine.round_(number, "abd"))
    np.testing.assert_allclose(later.vectors[2], [10, 0], atol=0.1)
    # It had no part in those rounds.
    self.assertEqual(letters.names(later.members), ("ac", "", "bde"))
    last, _ = one.next(later, point_engine.round_(9))
    self.assertEqual(letters.names(last.members), ("ac", "e", "bd"))

  def test_a_model_without_clients_keeps_its_weights(self):
    engine = point_engine.PointEngine(_POINTS)
    one, state = _start_from([[5, 0], [50, 0]], ifca.Ifca(2), engine)
    after, losses = one.next(state, point_engine.round_(1))
    self.assertEqual(letters.names(after.members), ("abcde", ""))
    self.assertEmpty(losses[1].clients)
    np.testing.assert_array_equal(after.vectors[1], [50, 0])
    self.assertIn("`num_clusters`=2", after.warning)
    self.assertIsNone(_start_from([[4, 0], [8, 0]], ifca.Ifca(2), engine)[1].warning)

  def test_each_round_asks_its_clients_once_and_who_was_away_before_it_too(self):
    for rounds, asked in (
        (["abcde"] * 3, ["abcde"] * 4), (["ab", "bc"], ["abcde", "ab", "c", "bc"])
    ):
      engine = point_engine.PointEngine(_POINTS)
      one, state = _start_from([[4, 0], [8, 0]], ifca.Ifca(2), engine)
      for number, names in enumerate(rounds, start=1):
        state, _ = one.next(state, point_engine.round_(number, names))
      self.assertEqual(engine.asked, asked)

  def test_who_was_away_trains_what_is_best_now(self):
    points = {"a": (0.0,), "b": (4.9,), "c": (10.0,)}
    engine = point_engine.PointEngine(points)
    one, state = _start_from([[0], [7]], ifca.Ifca(2), engine)
    for number in range(1, 9):
      state, _ = one.next(state, point_engine.round_(number, "ac"))
    self.assertEqual(letters.names(state.members), ("a", "bc"))
    # The second model has moved to 10, so the first one, at 0, is nearer now.
    _, losses = one.next(state, point_engine.round_(9, "abc"))
    self.assertEqual(letters.names(one.clients for one in losses), ("ab", "c"))

  def test_a_run_can_go_on_from_a_state(self):
    engine = point_engine.PointEngine(_POINTS)
    settings = ifca.Ifca(2, ifca_start="random", ifca_restarts=2)
    one, state = _start_from([[9, 0], [1, 0], [5, 0], [5, 1]], settings, engine)
    state, _ = one.next(state, point_engine.round_(1, "ab"))
    again = method.ClusterState(state.vectors, state.members, state.memory)
    results = [
        ifca.ifca(settings, engine).next(of, point_engine.round_(2, "cd")) for of in (state, again)
    ]
    np.testing.assert_array_equal(results[0][0].vectors, results[1][0].vectors)
    self.assertEqual(*(letters.names(state.members) for state, _ in results))


class RestartsTest(absltest.TestCase):

  # With the first set, all clients share a model.  The second set fits both groups.
  _SETS = ([5, 0], [5, -1], [8, 0], [2, 0])

  def _start(self):
    engine = point_engine.PointEngine(_POINTS)
    settings = ifca.Ifca(2, ifca_start="random", ifca_restarts=2)
    one, state = _start_from(self._SETS, settings, engine)
    self.assertEqual(engine.num_initial, 4)
    return engine, one, state

  def test_the_set_of_least_loss_is_shown(self):
    _, one, state = self._start()
    np.testing.assert_array_equal(state.vectors, self._SETS[2:])
    self.assertEqual(letters.names(state.members), ("bd", "ace"))
    after, losses = one.next(state, point_engine.round_(1))
    np.testing.assert_allclose(after.vectors, [[9, 0], [1, 1 / 6]], rtol=1e-6)
    self.assertEqual(letters.names(one.clients for one in losses), ("bd", "ace"))

  def test_all_sets_train(self):
    engine, one, state = self._start()
    after, _ = one.next(state, point_engine.round_(1))
    self.assertEqual(engine.trained, [("abcde", "", "bd", "ace")])
    np.testing.assert_allclose(
        after.memory["vectors"], [[4.5, 0.1], [5, -1], [9, 0], [1, 1 / 6]], rtol=1e-6
    )

  def test_another_set_may_become_the_best(self):
    engine, one, state = self._start()
    engine.points.update({c: np.array([5, -1], np.float32) for c in engine.clients})
    after, losses = one.next(state, point_engine.round_(1))
    self.assertEqual(letters.names(after.members), ("", "abcde"))
    # The losses are those of the set that is shown, in which all had trained the first model.
    self.assertEqual(letters.names(one.clients for one in losses), ("abcde", ""))
    np.testing.assert_array_equal(after.vectors[1], [5, -1])


class NewClientsTest(absltest.TestCase):

  def test_take_the_model_of_least_loss(self):
    engine = point_engine.PointEngine({**_POINTS, "x": (7.0, 0.0), "y": (3.0, 0.0)}, "xy")
    one, state = _start_from([[9, 0], [1, 0]], ifca.Ifca(2), engine)
    placement = one.place(None, state, letters.clients("xy"))
    self.assertEqual(placement.clusters, ((0,), (1,)))
    np.testing.assert_array_equal(placement.vectors, [[9, 0], [1, 0]])
