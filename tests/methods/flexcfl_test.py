"""Tests of FlexCFL."""

from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import client_weights
from fl_clustering.methods import flexcfl
from fl_clustering.methods import method
from tests import letters
from tests.methods import point_engine

_GLOBAL = np.array([5, -3, 2], np.float32)
# Two directions; lengths tell nothing.
_UPDATES = {"a": (1, 0.1, 0), "b": (0, 0.2, 2), "c": (9, 0, 0.3), "d": (0.1, 0, 7)}


def _weights(updates):
  vectors = _GLOBAL + np.array(list(updates.values()), np.float32)
  return client_weights.ClientWeights(letters.clients(updates), vectors, _GLOBAL)


def _group(updates, num_clusters, seed=0):
  return flexcfl.FlexCfl(num_clusters)(_weights(updates), np.random.default_rng(seed))


class CosinesWithDirectionsTest(parameterized.TestCase):

  @parameterized.parameters(1, 2, 4)
  def test_equal_those_of_the_singular_value_decomposition(self, num_directions):
    vectors = np.random.default_rng(0).normal(size=(4, 9)) * [[1], [5], [2], [3]]
    norms = np.linalg.norm(vectors, axis=1)
    units = vectors / norms[:, None]
    directions = np.linalg.svd(vectors)[2][:num_directions]
    found = flexcfl.cosines_with_directions(units @ units.T, norms, num_directions)
    # The sign of a singular vector means nothing.
    expected = units @ directions.T
    expected *= np.sign(expected[0]) * np.sign(found[0])
    np.testing.assert_allclose(found, expected, atol=1e-9)

  def test_a_vector_of_zeros_has_none(self):
    found = flexcfl.cosines_with_directions(np.eye(2), np.array([3.0, 0.0]), 2)
    np.testing.assert_allclose(np.abs(found), [[1, 0], [0, 0]], atol=1e-12)


class FlexCflTest(absltest.TestCase):

  def test_groups_by_direction(self):
    self.assertEqual(letters.names(_group(_UPDATES, 2).clusters), ("ac", "bd"))

  def test_starts_as_the_generator_says(self):
    fit = flexcfl.single_thread_kmeans.fit
    with mock.patch.object(flexcfl.single_thread_kmeans, "fit", wraps=fit) as fitted:
      for seed in (0, 1, 1):
        _group(_UPDATES, 2, seed)
    first, second, again = (call.kwargs["random_state"] for call in fitted.call_args_list)
    self.assertNotEqual(first, second)
    self.assertEqual(second, again)

  def test_opposite_directions_differ(self):
    updates = {"a": (1, 0, 0), "b": (-1, 0, 0), "c": (2, 0, 0), "d": (-3, 0, 0)}
    self.assertEqual(letters.names(_group(updates, 2).clusters), ("ac", "bd"))

  def test_as_many_directions_count_as_there_are_clusters(self):
    updates = {"a": (10, 0, 0), "b": (0, 20, 0), "c": (11, 0, 0), "d": (0, 21, 0)}
    # Short ones, whose main direction is the third of all.
    for i, (one, other) in enumerate(("ef", "gh", "ij"), start=1):
      updates[one], updates[other] = (0.03 * i, 0, 0.1 * i), (0, 0.03 * i, 0.1 * i)
    self.assertEqual(letters.names(_group(updates, 2).clusters), ("acegi", "bdfhj"))

  def test_equal_clients_are_not_torn_apart(self):
    rng = np.random.default_rng(0)
    updates = {c: rng.normal(size=3) for c in "abc"}
    twins = {**updates, **dict(zip("def", updates.values()))}
    found = _group(twins, 5)
    self.assertEqual(letters.names(found.clusters), ("ad", "be", "cf"))
    self.assertIn("`num_clusters`=5", found.warning)

  def test_clusters_start_from_the_means_of_all_weights(self):
    weights = _weights(_UPDATES)
    engine = point_engine.PointEngine(_UPDATES)
    one = flexcfl.flexcfl(flexcfl.FlexCfl(2), engine)
    pretrained = method.Pretrained(_GLOBAL, _GLOBAL, weights)
    state = one.initialize(pretrained, np.random.default_rng(0))
    self.assertFalse(one.from_start)
    np.testing.assert_array_equal(
        state.vectors, [weights.mean_of(members) for members in letters.clusters("ac", "bd")]
    )

  def test_new_clients_join_by_the_cosine_with_the_mean_update(self):
    weights = _weights(_UPDATES)
    # "x" is nearer to "b" and "d" in the plane, and has the direction of "a" and "c".  The inner
    # product of "y" with the mean of "a" and "c" is larger, since that is longer.
    new = _weights({"x": (0.2, 0, 0.1), "y": (1, 0, 1.05), "z": (0, 0, 0)})
    engine = point_engine.PointEngine(_UPDATES)
    one = flexcfl.flexcfl(flexcfl.FlexCfl(2), engine)
    pretrained = method.Pretrained(_GLOBAL, _GLOBAL, weights, new)
    state = one.initialize(pretrained, np.random.default_rng(0))
    placement = one.place(pretrained, state, letters.clients("yx"))
    self.assertEqual(placement.clusters, ((1,), (0,)))
    np.testing.assert_array_equal(placement.vectors, state.vectors[[1, 0]])
