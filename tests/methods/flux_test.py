"""Tests of FLUX; the engine is a stand-in that knows the clients' moments."""

import types

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import client_weights
from fl_clustering.methods import flux
from fl_clustering.methods import method
from tests import letters

_NAN = np.nan
_NAMES = "abcdef"


def _moments(overall, *of_labels):
  """Returns moments of shape (1 + num_labels, 2, 1) of (mean, deviation) each."""
  return np.array([overall, *of_labels], np.float32)[..., None]


class _Engine:
  """Returns given moments, without labels only those over all."""

  def __init__(self, moments, names=_NAMES):
    self.clients = letters.clients(names)
    self.model = types.SimpleNamespace(
        num_classes=2, parameter_shapes={"a": (3,), "kernel": (2, 2), "bias": (2,)}
    )
    self.asked = []
    self._moments = moments

  def moments(self, vector, clients, by_label):
    names = letters.name(clients)
    self.asked.append((vector, names, by_label))
    found = np.stack([self._moments[name] for name in names])
    return found if by_label else found[:, :1]


# The third column is of a label that not all have.
_OF_CLIENTS = {
    "a": _moments((0, 1), (5, 1), (_NAN, _NAN)),
    "b": _moments((1, 1), (9, 1), (3, 2)),
    "c": _moments((0.1, 1), (5.1, 1), (3, 2)),
    "d": _moments((0.9, 1), (9.2, 1), (_NAN, _NAN)),
    "e": _moments((0, 1), (5.2, 1), (3, 2)),
    "f": _moments((9, 1), (30, 1), (3, 2)),
}


def _pretrained(clients):
  vectors = np.arange(9 * len(clients), dtype=np.float32).reshape(len(clients), 9)
  start = np.zeros(9, np.float32)
  weights = client_weights.ClientWeights(clients, vectors, start)
  return method.Pretrained(start, np.arange(9, dtype=np.float32), weights)


def _start(engine, **settings):
  one = flux.flux(flux.Flux(**settings), engine)
  pretrained = _pretrained(engine.clients)
  return one, pretrained, one.initialize(pretrained, np.random.default_rng(0))


class DistancesBetweenTest(absltest.TestCase):

  def test_are_of_what_both_have(self):
    one = _moments((0, 0), (3, 5), (_NAN, _NAN))
    others = [_moments((2, 0), (_NAN, _NAN), (1, 1)), _moments((0, 0), (3, 9), (1, 1))]
    # The root of 4 / 2, and of 16 / 4.
    np.testing.assert_allclose(
        flux.distances_between(one, np.stack(others)), [np.sqrt(2), 2], rtol=1e-6
    )


def _distances(*points):
  return np.abs(np.subtract.outer(points, points))


class RulesTest(parameterized.TestCase):

  @parameterized.parameters(
      # The nearest others are 1, 1, 1, 1.5, 1.5 and 18.5 away.
      ((0, 1, 2, 10, 11.5, 30.0), 1.5),
      ((0, 1, 2, 3, 9.0), 1),
      ((0, 2.0), 2),
      ((0, 0, 5.0, 5.0), 0),
  )
  def test_knee_is_where_the_nearest_others_are_farther(self, points, expected):
    with np.errstate(all="raise"):
      self.assertEqual(flux.knee(_distances(*points)), expected)


class GroupTest(parameterized.TestCase):

  _POINTS = np.array([0, 1, 2, 10, 11.5, 30.0])[:, None, None, None]

  @parameterized.parameters(
      ({"flux_radius": 0.0}, [0, 1, 2, 3, 4, 5]),
      ({"flux_radius": 0.5}, [0, 1, 2, 3, 4, 5]),
      ({"flux_radius": 1.0}, [0, 0, 0, 1, 2, 3]),
      ({}, [0, 0, 0, 1, 1, 2]),
  )
  def test_joins_chains_of_near_clients(self, settings, expected):
    labels = flux.group(self._POINTS, flux.Flux(**settings))
    same = np.equal.outer(expected, expected)
    np.testing.assert_array_equal(np.equal.outer(labels, labels), same)

  def test_one_client_is_a_group(self):
    np.testing.assert_array_equal(flux.group(self._POINTS[:1], flux.Flux()), [0])


class FluxTest(parameterized.TestCase):

  @parameterized.parameters(
      {"kernel": (2, 3), "bias": (2,)}, {"bias": (2,), "kernel": (2, 2)}, {"kernel": (3, 2)},
      {"kernel": (3, 3, 2), "bias": (2,)},
  )
  def test_refuses_a_model_without_a_dense_layer_at_its_end(self, **shapes):
    engine = _Engine(_OF_CLIENTS)
    engine.model.parameter_shapes = shapes
    with self.assertRaisesRegex(ValueError, "`model`"):
      flux.flux(flux.Flux(), engine)

  def test_finds_clusters_and_starts_from_their_means(self):
    _, pretrained, state = _start(_Engine(_OF_CLIENTS))
    self.assertEqual(letters.names(state.members), ("ace", "bd", "f"))
    self.assertIsNone(state.warning)
    weights = pretrained.client_weights
    np.testing.assert_array_equal(
        state.vectors, [weights.mean_of(members) for members in letters.clusters("ace", "bd", "f")]
    )

  def test_asks_for_what_a_random_last_layer_makes_of_the_global_model(self):
    engine = _Engine(_OF_CLIENTS)
    _, _, state = _start(engine)
    ((vector, names, by_label),) = engine.asked
    self.assertEqual((names, by_label), (_NAMES, True))
    kernel = np.random.default_rng(0).normal(size=(2, 2)) / np.sqrt(2)
    np.testing.assert_allclose(vector, [0, 1, 2, *kernel.ravel(), 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(state.memory["kernel"], kernel)

  def test_means_count_in_their_range(self):
    # The means of all examples range over 100, those of the label over 1.
    moments = {
        "a": _moments((0, 0), (0, 0)), "b": _moments((10, 0), (1, 0)),
        "c": _moments((100, 0), (1, 0)),
    }
    # In the ranges, "a" and "b" differ by .1 and 1, "b" and "c" by .9 and 0.
    _, _, state = _start(_Engine(moments, "abc"), flux_radius=0.47)
    self.assertEqual(letters.names(state.members), ("a", "bc"))

  def test_warns_if_nothing_is_grouped(self):
    _, _, state = _start(_Engine(_OF_CLIENTS), flux_radius=1e9)
    self.assertEqual(letters.names(state.members), (_NAMES,))
    self.assertIn(f"`flux_radius`={1e9}", state.warning)

  def test_new_clients_need_no_labels(self):
    # "x" is nearer to "a" than to "b", but nearer to the mean of "b" and "d" than of "ace".
    new = {"x": _moments((0.495, 1)), "y": _moments((0.2, 1))}
    engine = _Engine({**_OF_CLIENTS, **new})
    one, pretrained, state = _start(engine)
    engine.asked.clear()
    placement = one.place(pretrained, state, letters.clients("xy"))
    self.assertEqual(placement.clusters, ((1,), (0,)))
    np.testing.assert_array_equal(placement.vectors, state.vectors[[1, 0]])
    ((vector, names, by_label),) = engine.asked
    self.assertEqual((names, by_label), ("xy", False))
    np.testing.assert_array_equal(vector[3:7], state.memory["kernel"].ravel().astype(np.float32))

  def test_new_clients_are_compared_in_the_ranges(self):
    # Means range over 1 and deviations over 100.
    moments = {"a": _moments((0, 0)), "b": _moments((1, 100))}
    engine = _Engine({**moments, "x": _moments((0.9, 40))}, "ab")
    one, pretrained, state = _start(engine, flux_radius=0.1)
    self.assertEqual(one.place(pretrained, state, letters.clients("x")).clusters, ((1,),))
