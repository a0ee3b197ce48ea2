"""Tests of CFL; the engine is a stand-in whose models and data are points."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import participation
from fl_clustering.methods import cfl
from tests import letters
from tests.methods import point_engine

_SETTINGS = cfl.Cfl(cfl_ratio=0.4, cfl_gap=0.2)


def _points(groups):
  """Returns the clients' points from a mapping of (x, y) to clients, ordered by id."""
  return dict(sorted((c, (*xy, 10.0)) for xy, ids in groups.items() for c in ids))


# Four groups: the halves in x are further apart than the quarters.
_QUARTERS = _points({(4, 2): "ag", (4, -2): "dh", (-4, 2): "be", (-4, -2): "cf"})
# One half is split at once.  The other half's clients are alike.
_ONE_AND_A_HALF = _points({(4, 1): "ac", (4, -3): "e", (-4, 0): "bdf"})


def _start(points, settings=_SETTINGS, new_clients=""):
  engine = point_engine.PointEngine(points, new_clients)
  one = cfl.cfl(settings, engine)
  state = one.initialize(point_engine.pretrained(engine), np.random.default_rng(0))
  return engine, one, state


def _run(points, num_rounds, **details):
  """Returns the engine, the method and all its states."""
  engine, one, state = _start(points, **details)
  states = [state]
  for number in range(1, num_rounds + 1):
    round_ = participation.Round(number, engine.clients, 3)
    states.append(one.next(states[-1], round_)[0])
  return engine, one, states


class HalvesTest(parameterized.TestCase):

  def _halves(self, updates, num_examples=None, **settings):
    updates = np.array(updates, np.float32)
    num_examples = np.array(num_examples or (1,) * len(updates))
    found = cfl.Cfl(**settings).halves(updates, num_examples)
    # Neither steps nor rates count: updates as much longer or shorter are the same.
    for factor in (1e-4, 50):
      self.assertEqual(cfl.Cfl(**settings).halves(factor * updates, num_examples), found)
    return found

  @parameterized.named_parameters(
      ("stopped and pulled apart", (3, 3, -3, -3), None, ([0, 1], [2, 3])),
      ("still moving", (3, 3, 1, -1), None, None),
      # The mean is below .4 of the largest, 3, but not of the median, 1.
      ("one is not at rest", (3, 0.5, -1, 1), None, ([0, 1, 3], [2])),
      # The mean is (3 + 3 - 2) / 3, or by examples (2 + 2 - 2) / 3 of 3.
      ("moving if all count alike", (3, 3, -2), None, None),
      ("stopped by examples", (3, 3, -2), (1, 1, 3), ([0, 1], [2])),
      ("moving by examples", (3, 3, -2), (3, 3, 1), None),
      ("too few clients", (3, -3), None, None),
      ("at rest", (0, 0, 0, 0), None, None),
  )
  def test_of_updates_along_a_line(self, updates, num_examples, expected):
    self.assertEqual(self._halves([(u, 0) for u in updates], num_examples), expected)

  def test_no_gap_exceeds_that_of_opposites(self):
    opposites = [(3, 0), (3, 0), (-3, 0), (-3, 0)]
    self.assertIsNotNone(self._halves(opposites, cfl_gap=1.999))
    self.assertIsNone(self._halves(opposites, cfl_gap=2.0))

  def test_a_larger_ratio_takes_a_moving_cluster_for_stopped(self):
    # The mean is half of the largest update.
    moving = [(3, 0), (3, 0), (1, 0), (-1, 0)]
    self.assertIsNone(self._halves(moving, cfl_ratio=0.49))
    self.assertEqual(self._halves(moving, cfl_ratio=0.51), ([0, 1, 2], [3]))

  def test_clients_that_go_astray_each_on_its_own_stay_together(self):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 2000))
    # Their mean is .16 of one of them, as if the model had stopped.
    self.assertIsNone(self._halves(noise))
    groups = np.where(np.arange(40)[:, None] % 2, 1, -1) * rng.normal(size=2000)
    expected = list(range(0, 40, 2)), list(range(1, 40, 2))
    self.assertEqual(self._halves(noise + 0.6 * groups), expected)
    # Its gap is about 2 x .36 / 1.36.
    self.assertEqual(self._halves(noise + 0.6 * groups, cfl_gap=0.5), expected)
    self.assertIsNone(self._halves(noise + 0.6 * groups, cfl_gap=0.56))


class BipartitionTest(absltest.TestCase):

  def _halves(self, degrees, lengths=1.0):
    angles = np.radians(degrees)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    updates = directions * np.reshape(lengths, (-1, 1))
    return cfl.bipartition(updates.astype(np.float32))[0]

  def test_is_by_direction_and_not_by_length(self):
    for lengths in (1.0, [1, 5, 40, 0.1, 9]):
      self.assertEqual(self._halves([90, 0, 100, 20, 10], lengths), ([0, 2], [1, 3, 4]))

  def test_gap(self):
    updates = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    halves, gap = cfl.bipartition(updates)
    # Within a half 0; between the halves 0 and -1, or -1 and 0.
    self.assertIn(halves, [([0, 1], [2]), ([0], [1, 2])])
    self.assertAlmostEqual(gap, 0.5)

  def test_is_of_complete_linkage(self):
    # Single linkage would cut off the last one, behind the widest gap.
    self.assertEqual(self._halves([0, 30, 62, 97]), ([0, 1], [2, 3]))


class CflTest(absltest.TestCase):

  def test_finds_four_groups(self):
    _, _, states = _run(_QUARTERS, 12)
    self.assertEqual(letters.names(states[1].members), ("adgh", "bcef"))
    # Both halves start from the model that was split.
    np.testing.assert_array_equal(states[1].vectors, [[0, 0, 10]] * 2)
    # They are not split while they move.
    self.assertEqual(letters.names(states[3].members), letters.names(states[1].members))
    np.testing.assert_allclose(states[3].vectors, [[3, 0, 10], [-3, 0, 10]])
    quarters = ("ag", "be", "dh", "cf")
    self.assertEqual(letters.names(states[5].members), quarters)
    np.testing.assert_array_equal(states[5].vectors[2:], states[5].vectors[:2])
    self.assertEqual(letters.names(states[12].members), quarters)
    np.testing.assert_allclose(
        states[12].vectors,
        [[4, 2, 10], [-4, 2, 10], [4, -2, 10], [-4, -2, 10]],
        atol=0.1,
    )

  def test_clients_weigh_by_their_examples(self):
    engine, one, state = _start(_QUARTERS)
    # The mean of all is 0 if all count alike; thus it is -1.6 in x, of updates of length 2.2.
    engine.num_examples[letters.clients("bcef")] = 9
    after, _ = one.next(state, participation.Round(7, engine.clients, 3))
    self.assertLen(after.members, 1)

  def test_few_clients_are_not_split(self):
    _, _, states = _run(_QUARTERS, 12, settings=cfl.Cfl(0.4, 0.2, 5))
    self.assertEqual(letters.names(states[12].members), ("adgh", "bcef"))

  def test_the_second_split_is_of_the_clusters_own_clients(self):
    _, _, states = _run(_ONE_AND_A_HALF, 9)
    self.assertEqual(letters.names(states[1].members), ("ace", "bdf"))
    self.assertEqual(letters.names(states[9].members), ("ac", "bdf", "e"))

  def test_few_take_part_in_the_round_of_a_cluster_that_is_large_enough(self):
    _, one, state = _start(_QUARTERS, settings=cfl.Cfl(0.4, 0.2, cfl_min_clients=8))
    after, _ = one.next(state, participation.Round(7, letters.clients("aceg"), 3))
    self.assertLen(after.members, 2)

  def test_all_members_are_asked_before_a_split(self):
    engine, one, state = _start(_QUARTERS)
    engine.points[2] += np.array([0, 0, 0.5], np.float32)
    # "a" and "g" pull in the opposite direction of "c".
    engine.num_examples[2] = 2
    round_ = participation.Round(7, letters.clients("acg"), 3)
    after, losses = one.next(state, round_)
    # The others train what these trained, too.
    self.assertEqual(engine.trained_alone, [("bdefh", [0, 0, 10], round_)])
    self.assertEqual(letters.names(after.members), ("adgh", "bcef"))
    # The model is what the round's own clients made of it.
    self.assertEqual(letters.names(one.clients for one in losses), ("acg",))
    np.testing.assert_allclose(after.vectors, [[0, 0, 10.125]] * 2, atol=1e-6)

  def test_no_split_if_all_members_see_it_otherwise(self):
    engine, one, state = _start(_QUARTERS)
    moved = np.array([[0, -5, 10]], np.float32)
    state = type(state)(moved, state.members, state.memory)
    points = {"a": (4, -4.9, 10), "c": (-4, -5, 10)}
    for name, point in points.items():
      engine.points[int(letters.clients(name)[0])] = np.array(point, np.float32)
    after, _ = one.next(state, participation.Round(7, letters.clients("acf"), 3))
    self.assertLen(engine.trained_alone, 1)
    self.assertLen(after.members, 1)

  def test_nobody_is_asked_where_nothing_splits(self):
    engine, one, state = _start(_QUARTERS)
    one.next(state, participation.Round(7, letters.clients("adg"), 3))
    self.assertEmpty(engine.trained_alone)


class NewClientsTest(absltest.TestCase):

  def test_follow_the_splits(self):
    new = {"x": (3.5, 3, 10), "y": (3, -2, 10), "z": (-3, 1, 10)}
    engine, one, states = _run({**_QUARTERS, **new}, 5, new_clients="xyz")
    self.assertEqual(letters.names(states[5].members), ("ag", "be", "dh", "cf"))
    placement = one.place(None, states[5], letters.clients("xyz"))
    self.assertEqual(placement.clusters, ((0,), (2,), (1,)))
    np.testing.assert_array_equal(placement.vectors, states[5].vectors[[0, 2, 1]])
    # They train as the clients did in the rounds of the splits, from the same models.
    before = [states[0].vectors[0], states[4].vectors[0], states[4].vectors[1]]
    self.assertEqual(
        [(ids, start, (round_.number, round_.num_epochs))
         for ids, start, round_ in engine.trained_alone],
        [
            ("xyz", before[0].tolist(), (1, 3)),
            ("xy", before[1].tolist(), (5, 3)),
            ("z", before[2].tolist(), (5, 3)),
        ],
    )

  def test_a_large_update_counts_no_more_than_another(self):
    # Without "c", which pulls far, "x" resembles "a" and "b".
    points = _points({(2, 0): "ab", (8, 40): "c", (-6, -20): "de"})
    _, one, states = _run({**points, "x": (8, -4, 10)}, 1, new_clients="x")
    self.assertEqual(letters.names(states[1].members), ("abc", "de"))
    self.assertEqual(one.place(None, states[1], letters.clients("x")).clusters, ((0,),))
