"""Tests of FeSEM; the engine is a stand-in whose models and data are points."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import participation
from fl_clustering.methods import controls
from fl_clustering.methods import fesem
from fl_clustering.methods import method
from tests.methods import point_engine

_POINTS = {"a": (0.0, 0.0), "b": (10.0, 0.0), "c": (0.0, 2.0), "d": (10.0, 2.0), "e": (8.0, 0.0)}
_ALL = tuple(_POINTS)


def _round(number, client_ids=_ALL):
  return participation.Round(number, client_ids, 1)


class NearestTest(absltest.TestCase):

  def test_is_the_least_euclidean_distance(self):
    vectors = np.array([[0, 0], [3, 3], [9, 9]], np.float32)
    # The first center is nearer to (3, 3) in the largest difference, not in L2.
    centers = np.array([[0, 0.5], [7, 2.5], [7, 2.5]], np.float32)
    self.assertEqual(fesem.nearest(vectors, centers), [0, 0, 1])


class FesemTest(parameterized.TestCase):

  def _fesem(self, num_clusters, points=_POINTS):
    engine = point_engine.PointEngine(points)
    one = fesem.fesem(fesem.Fesem(num_clusters), engine)
    return engine, one

  @parameterized.parameters(({c: 1 for c in _ALL},), (dict(zip(_ALL, (5, 1, 2, 3, 7))),))
  def test_one_center_is_fedavg(self, num_examples):
    engine, one = self._fesem(1)
    engine.num_examples = num_examples
    states = []
    for each in (one, controls.fedavg(None, engine)):
      pretrained = point_engine.pretrained(engine)
      state = each.initialize(pretrained, np.random.default_rng(0))
      for number in (3, 4):
        state, losses = each.next(state, _round(number, ("a", "b", "e")))
      states.append((state.members, state.vectors.tolist(), losses))
    self.assertEqual(*states)

  def test_starts_from_the_clusters_of_k_means(self):
    engine, one = self._fesem(2)
    state = one.initialize(point_engine.pretrained(engine), np.random.default_rng(0))
    self.assertEqual(state.members, (("a", "c"), ("b", "d", "e")))
    np.testing.assert_allclose(state.vectors, [[0, 1], [28 / 3, 2 / 3]], rtol=1e-6)
    self.assertFalse(one.from_start)

  def test_clients_move_to_the_center_nearest_what_they_trained(self):
    engine, one = self._fesem(2)
    vectors = np.array([[0, 0], [4, 0]], np.float32)
    # "b" and "d" are in the wrong cluster.
    state = method.ClusterState(vectors, (("a", "b", "c", "d"), ("e",)))
    after, losses = one.next(state, _round(1))
    self.assertEqual([set(of_center) for of_center in losses], [set("abcd"), {"e"}])
    # Half the way to the clients' points, on average.
    np.testing.assert_allclose(after.vectors, [[2.5, 0.5], [6, 0]])
    # What "b" trained is at (5, 0), what "d" trained at (5, 1).
    self.assertEqual(after.members, (("a", "c"), ("b", "d", "e")))

  def test_the_new_centers_count(self):
    _, one = self._fesem(2, {"a": (0.0,), "b": (7.0,), "c": (12.0,)})
    state = method.ClusterState(np.array([[0], [4]], np.float32), (("a", "b"), ("c",)))
    after, _ = one.next(state, _round(1, ("a", "b", "c")))
    # What "b" trained is at 3.5: nearer to 4, where the second center was.
    np.testing.assert_allclose(after.vectors, [[1.75], [8]])
    self.assertEqual(after.members, state.members)

  def test_who_does_not_take_part_stays(self):
    _, one = self._fesem(2)
    state = method.ClusterState(
        np.array([[0, 0], [4, 0]], np.float32), (("a", "b", "c", "d"), ("e",))
    )
    after, _ = one.next(state, _round(1, ("a", "b")))
    # "d" would be as near to the second center as "b".
    self.assertEqual(after.members, (("a", "c", "d"), ("b", "e")))

  def test_a_center_without_clients_keeps_its_weights(self):
    _, one = self._fesem(2)
    state = method.ClusterState(
        np.array([[5, 0], [90, 0]], np.float32), (_ALL, ()), warning="a warning"
    )
    after, losses = one.next(state, _round(1))
    np.testing.assert_array_equal(after.vectors[1], [90, 0])
    self.assertEqual((after.members, losses[1]), ((_ALL, ()), {}))
    self.assertEqual(after.warning, "a warning")


if __name__ == "__main__":
  absltest.main()
