"""Tests of FeSEM; the engine is a stand-in whose models and data are points."""

from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import fesem
from fl_clustering.methods import method
from tests import letters
from tests.methods import point_engine

_POINTS = {"a": (0.0, 0.0), "b": (10.0, 0.0), "c": (0.0, 2.0), "d": (10.0, 2.0), "e": (8.0, 0.0)}
_ALL = "abcde"


class FesemTest(parameterized.TestCase):

  def _fesem(self, num_clusters, points=_POINTS, **settings):
    engine = point_engine.PointEngine(points)
    one = fesem.fesem(fesem.Fesem(num_clusters, **settings), engine)
    return engine, one

  def test_the_start_is_by_the_representation(self):
    points = {"a": (1, 0), "b": (40, 0), "c": (0, 1), "d": (0, 30)}
    engine, one = self._fesem(2, points, representation="normalized_update")
    state = one.initialize(point_engine.pretrained(engine), np.random.default_rng(0))
    self.assertEqual(letters.names(state.members), ("ab", "cd"))

  def test_starts_from_the_clusters_of_k_means(self):
    engine, one = self._fesem(2)
    state = one.initialize(point_engine.pretrained(engine), np.random.default_rng(0))
    self.assertEqual(letters.names(state.members), ("ac", "bde"))
    np.testing.assert_allclose(state.vectors, [[0, 1], [28 / 3, 2 / 3]], rtol=1e-6)
    self.assertFalse(one.from_start)

  def test_clients_move_to_the_center_nearest_what_they_trained(self):
    engine, one = self._fesem(2)
    vectors = np.array([[0, 0], [4, 0]], np.float32)
    # "b" and "d" are in the wrong cluster.
    state = method.ClusterState(vectors, letters.clusters("abcd", "e"))
    after, losses = one.next(state, point_engine.round_(1))
    self.assertEqual(letters.names(one.clients for one in losses), ("abcd", "e"))
    # Half the way to the clients' points, on average.
    np.testing.assert_allclose(after.vectors, [[2.5, 0.5], [6, 0]])
    # What "b" trained is at (5, 0), what "d" trained at (5, 1).
    self.assertEqual(letters.names(after.members), ("ac", "bde"))

  def test_the_new_centers_count(self):
    _, one = self._fesem(2, {"a": (0.0,), "b": (7.0,), "c": (12.0,)})
    state = method.ClusterState(np.array([[0], [4]], np.float32), letters.clusters("ab", "c"))
    after, _ = one.next(state, point_engine.round_(1, "abc"))
    # What "b" trained is at 3.5: nearer to 4, where the second center was.
    np.testing.assert_allclose(after.vectors, [[1.75], [8]])
    self.assertEqual(letters.names(after.members), ("ab", "c"))

  def test_who_does_not_take_part_stays(self):
    _, one = self._fesem(2)
    state = method.ClusterState(
        np.array([[0, 0], [4, 0]], np.float32), letters.clusters("abcd", "e")
    )
    after, _ = one.next(state, point_engine.round_(1, "ab"))
    # "d" would be as near to the second center as "b".
    self.assertEqual(letters.names(after.members), ("acd", "be"))

  def test_a_center_without_clients_keeps_its_weights(self):
    _, one = self._fesem(2)
    state = method.ClusterState(
        np.array([[5, 0], [90, 0]], np.float32), letters.clusters(_ALL, ""), warning="a warning"
    )
    after, losses = one.next(state, point_engine.round_(1))
    np.testing.assert_array_equal(after.vectors[1], [90, 0])
    self.assertEqual(letters.names(after.members), (_ALL, ""))
    self.assertEmpty(losses[1].clients)
    self.assertEqual(after.warning, "a warning")
