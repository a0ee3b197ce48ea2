"""Tests of CLoVE; the engine is a stand-in whose models and data are points."""

from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering.methods import clove
from tests import letters
from tests.methods import point_engine

_LEFT, _RIGHT = (0.0, 0.0), (10.0, 0.0)
_POINTS = {"a": _LEFT, "b": _RIGHT, "c": _LEFT, "d": _RIGHT, "e": (0.0, 1.0)}


def _start(vectors, engine):
  """Returns CLoVE and its state with these models to start from."""
  engine.initial = np.array(vectors, np.float32)
  one = clove.clove(clove.Clove(len(vectors)), engine)
  return one, one.initialize(point_engine.pretrained(engine), np.random.default_rng(0))


class ModelsOfTest(absltest.TestCase):

  def test_alike_losses_go_to_the_model_where_their_sum_is_least(self):
    losses = np.array([[1.0, 9.0], [5.0, 2.0], [1.1, 9.1], [5.1, 2.1]], np.float32)
    self.assertEqual(clove.models_of(losses, 0).tolist(), [0, 1, 0, 1])

  def test_each_group_has_a_model_though_all_prefer_one(self):
    losses = np.array([[1.0, 2.0], [3.0, 4.1], [1.1, 2.4], [3.1, 3.2]], np.float32)
    # 1 + 1.1 + 4.1 + 3.2 is less than 3 + 3.1 + 2 + 2.4, but 1 + 4.1 is more than 3 + 2.
    self.assertEqual(clove.models_of(losses, 0).tolist(), [0, 1, 0, 1])

  def test_fewer_clients_than_models(self):
    losses = np.array([[9.0, 1.0, 5.0], [9.0, 2.0, 3.0]], np.float32)
    self.assertEqual(clove.models_of(losses, 0).tolist(), [1, 2])

  def test_equal_clients_are_not_torn_apart(self):
    losses = np.array([[4.0, 1.0, 5.0]] * 3 + [[4.0, 7.0, 2.0]], np.float32)
    self.assertEqual(clove.models_of(losses, 0).tolist(), [1, 1, 1, 2])

  def test_losses_without_end(self):
    losses = np.array([[1.0, np.inf], [1.5, np.inf], [np.inf, 1.0]], np.float32)
    self.assertEqual(clove.models_of(losses, 0).tolist(), [0, 0, 1])


class CloveTest(absltest.TestCase):

  def test_groups_where_every_client_alone_would_take_the_same_model(self):
    engine = point_engine.PointEngine(_POINTS)
    one, state = _start([[5, 0], [50, 0]], engine)
    self.assertTrue(one.from_start)
    self.assertEqual(engine.num_initial, 2)
    self.assertEqual(letters.names(state.members), ("ace", "bd"))
    after, losses = one.next(state, point_engine.round_(1))
    self.assertEqual(letters.names(one.clients for one in losses), ("ace", "bd"))
    # Each went half the way to the mean of its clients' points.
    np.testing.assert_allclose(after.vectors, [[2.5, 1 / 6], [30, 0]], rtol=1e-6)
    self.assertEqual(letters.names(after.members), ("ace", "bd"))

  def test_k_means_starts_as_the_run_s_seed_says(self):
    engine = point_engine.PointEngine(_POINTS)
    with mock.patch.object(clove, "models_of", wraps=clove.models_of) as models_of:
      one, state = _start([[5, 0], [50, 0]], engine)
      one.next(state, point_engine.round_(1))
    drawn = np.random.default_rng(0).integers(2**32)
    self.assertEqual([call.args[1] for call in models_of.call_args_list], [drawn] * 2)

  def test_clients_are_grouped_before_they_train(self):
    engine = point_engine.PointEngine(_POINTS)
    one, state = _start([[0, 0], [10, 0]], engine)
    engine.points[2] = np.array(_RIGHT, np.float32)  # "c"
    after, losses = one.next(state, point_engine.round_(1))
    self.assertEqual(letters.names(one.clients for one in losses), ("ae", "bcd"))
    self.assertEqual(letters.names(after.members), ("ae", "bcd"))

  def test_who_does_not_take_part_stays(self):
    engine = point_engine.PointEngine(_POINTS)
    one, state = _start([[0, 0], [10, 0]], engine)
    for client in letters.clients("cd"):
      engine.points[client] = 10 - engine.points[client]
    after, losses = one.next(state, point_engine.round_(1, "ebd"))
    self.assertEqual(letters.names(one.clients for one in losses), ("de", "b"))
    self.assertEqual(letters.names(after.members), ("acde", "b"))
    self.assertCountEqual(engine.asked[1], "ebd")

  def test_new_clients_take_the_model_of_least_loss(self):
    points = {**_POINTS, "x": (9.0, 0.0)}
    engine = point_engine.PointEngine(points, new_clients="x")
    one, state = _start([[0, 0], [10, 0]], engine)
    self.assertEqual(one.place(None, state, letters.clients("x")).clusters, ((1,),))
