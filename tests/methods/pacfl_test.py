"""Tests of PACFL; the engine is a stand-in that knows the clients' vectors."""

from unittest import mock

from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import method
from fl_clustering.methods import pacfl
from tests import letters

_IDENTITY = np.eye(6, dtype=np.float32)


def _axes(*axes):
  """Returns the vectors along some axes, of shape (6, r)."""
  return _IDENTITY[:, list(axes)]


def _turned(degrees):
  """Returns a vector that far from axis 0 towards axis 1, of shape (6, 1)."""
  angle = np.radians(degrees)
  return (np.cos(angle) * _axes(0) + np.sin(angle) * _axes(1)).astype(np.float32)


def _smallest_angle(one, other):
  return pacfl.smallest_angles([one], [other]).item()


def _mean_angle(one, other):
  return pacfl.mean_angles_of_equal_labels([one], [other]).item()


class _Engine:
  """Returns given vectors."""

  def __init__(self, spaces, names=None):
    self.clients = letters.clients(names or spaces)
    self.asked = []
    self._spaces = spaces

  def subspaces(self, clients, num_vectors):
    names = letters.name(clients)
    self.asked.append((names, num_vectors))
    return [self._spaces[name] for name in names]


def _start(spaces, settings, names=None):
  engine = _Engine(spaces, names)
  one = pacfl.pacfl(settings, engine)
  pretrained = method.Pretrained(np.array([1, 2], np.float32), None, None)
  return engine, one, one.initialize(pretrained, None)


class ManyClientsTest(parameterized.TestCase):

  @parameterized.named_parameters(*((name, name) for name in pacfl.PROXIMITIES))
  def test_blocks_change_nothing(self, name):
    rng = np.random.default_rng(3)

    def space():
      return {
          label: np.linalg.qr(rng.normal(size=(9, 1 + label)))[0].astype(np.float32)
          for label in range(3) if rng.random() < 0.7
      } or {0: np.eye(9, 1, dtype=np.float32)}

    old, new = [space() for _ in range(11)], [space() for _ in range(5)]
    proximity = pacfl.PROXIMITIES[name]
    expected = [np.array([[proximity([u], [v]).item() for v in old] for u in one])
                for one in (old, new)]
    with mock.patch.multiple(pacfl, BLOCK=4, ROWS=3):
      np.testing.assert_allclose(proximity(old, old), expected[0], atol=1e-5)
      np.testing.assert_allclose(proximity(new, old), expected[1], atol=1e-5)


# Each vector is 60 degrees from the plane of axes 0 and 1, or 70.
_TILTED = np.cos(np.radians([60, 70])) * _axes(0, 1) + np.sin(np.radians([60, 70])) * _axes(2, 3)


class SmallestAngleTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("labels_do_not_matter", {0: _turned(10)}, {7: _turned(35)}, 25),
      # Every pair of vectors is 45 degrees apart or more; the diagonal is in both planes.
      ("between_spaces", {0: _axes(0), 1: _axes(1)}, {0: (_axes(0) + _axes(1)) / np.sqrt(2)}, 0),
      ("of_several", {0: _axes(0, 1)}, {0: _TILTED}, 60),
      ("of_labels_that_are_not_orthogonal", {0: _turned(0), 1: _turned(20)},
       {0: 0.6 * _axes(1) + 0.8 * _axes(2)}, np.degrees(np.arccos(0.6))),
  )
  def test_is_between_the_spaces_of_all_labels(self, one, other, expected):
    other = {label: vectors.astype(np.float32) for label, vectors in other.items()}
    self.assertAlmostEqual(_smallest_angle(one, other), expected, delta=0.05)

  def test_a_vector_of_two_labels_spans_nothing_more(self):
    one = {0: _turned(20), 1: _turned(20)}
    for axis in range(2, 6):
      self.assertAlmostEqual(_smallest_angle(one, {0: _axes(axis)}), 90, places=3)
    # The same in the plane of axes 0 and 1.
    self.assertAlmostEqual(_smallest_angle(one, {0: _turned(110)}), 90, places=3)

  def test_blank_images_are_at_a_right_angle_to_everything(self):
    blank = {0: _axes(), 3: _axes()}
    angles = pacfl.smallest_angles([blank, {0: _axes(1)}], [blank, {1: _axes(1, 2)}])
    np.testing.assert_allclose(angles, [[90, 90], [90, 0]])

  def test_of_several_clients_with_different_numbers_of_vectors(self):
    spaces = [{0: _turned(0)}, {0: _turned(10), 1: _axes(3)}]
    others = [{0: _turned(20)}, {0: _axes(4), 1: _turned(50), 2: _axes(5)}, {0: _axes(3)}]
    np.testing.assert_allclose(
        pacfl.smallest_angles(spaces, others), [[20, 50, 90], [10, 40, 0]], atol=0.01
    )


class MeanAngleOfEqualLabelsTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("mean_over_labels_and_ranks", {0: _axes(0, 2), 1: _axes(0)},
       {0: np.concatenate([_turned(30), _axes(2)], axis=1), 1: _turned(60)}, (30 + 0 + 60) / 3),
      ("only_equal_labels_count", {0: _axes(0), 1: _axes(1)}, {1: _turned(60), 2: _axes(0)}, 30),
      ("the_sign_does_not_matter", {0: _axes(0)}, {0: -_turned(30)}, 30),
      ("without_common_labels", {0: _axes(0)}, {1: _axes(0)}, 90),
      ("different_numbers_of_vectors", {0: _axes(0)}, {0: _axes(0, 1)}, 0),
  )
  def test_is(self, one, other, expected):
    self.assertAlmostEqual(_mean_angle(one, other), expected, places=3)


class PacflTest(parameterized.TestCase):

  _LINES = {"a": 0, "b": 50, "c": 4, "d": 54, "e": 10}
  _SPACES = {c: {0: _turned(angle)} for c, angle in _LINES.items()}

  @parameterized.parameters("smallest", "equal_labels")
  def test_groups_by_angle_before_any_training(self, proximity):
    settings = pacfl.Pacfl(2, pacfl_vectors=5, pacfl_proximity=proximity)
    engine, one, state = _start(self._SPACES, settings)
    self.assertEqual(letters.names(state.members), ("ace", "bd"))
    self.assertEqual(engine.asked, [("abcde", 5)])
    self.assertTrue(one.from_start)
    np.testing.assert_array_equal(state.vectors, [[1, 2], [1, 2]])
    self.assertEqual(state.vectors.dtype, np.float32)

  @parameterized.parameters(
      # In average linkage, "e" is 8 degrees from "a" and "c", which are 4 apart.
      (3.5, ("a", "b", "c", "d", "e")),
      (7.5, ("ac", "bd", "e")),
      (8.5, ("ace", "bd")),
      (90.0, ("abcde",)),
  )
  def test_is_cut_at_an_angle(self, angle, expected):
    _, _, state = _start(self._SPACES, pacfl.Pacfl(pacfl_angle=angle))
    self.assertEqual(letters.names(state.members), expected)

  def test_labels_that_mean_something_else(self):
    # All clients have the same images; "b" and "d" call them otherwise.
    spaces = {
        c: {0: _axes(0), 1: _axes(1)} if c in "ac" else {0: _axes(1), 1: _axes(0)}
        for c in "abcd"
    }
    settings = pacfl.Pacfl(2, pacfl_proximity="equal_labels")
    _, one, state = _start({**spaces, "x": spaces["b"]}, settings, names="abcd")
    self.assertEqual(letters.names(state.members), ("ac", "bd"))
    self.assertEqual(one.place(None, state, letters.clients("x")).clusters, ((1,),))
    _, _, state = _start(spaces, pacfl.Pacfl(pacfl_angle=0.1))
    self.assertEqual(letters.names(state.members), ("abcd",))

  def test_new_clients_join_the_nearest_cluster_on_average(self):
    # "x" is nearest to "e", but nearer to "b" and "d" on average.  "z" is farthest from "a".
    spaces = {
        **self._SPACES, "x": {0: _turned(29)}, "y": {0: _turned(2)}, "z": {0: _turned(28)},
    }
    engine, one, state = _start(spaces, pacfl.Pacfl(2, pacfl_vectors=4), names="abcde")
    state.vectors[1] += 7
    placement = one.place(None, state, letters.clients("xyz"))
    self.assertEqual(placement.clusters, ((1,), (0,), (0,)))
    np.testing.assert_array_equal(placement.vectors, [[8, 9], [1, 2], [1, 2]])
    self.assertEqual(engine.asked[1:], [("abcde", 4), ("xyz", 4)])
