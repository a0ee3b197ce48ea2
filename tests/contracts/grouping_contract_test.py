"""What every grouping of the registry promises, whatever it is like inside."""

import dataclasses
import os
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import options as options_lib
from fl_clustering.methods import client_weights
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import registry

_NUM_GROUPS = 4

# Ways to use a grouping other than with its defaults; the first finds well separated groups
# of clients.
_OPTIONS = {
    "kmeans": (
        {"num_clusters": _NUM_GROUPS},
        {"num_clusters": 3, "representation": "update"},
        {"num_clusters": 1, "representation": "normalized_update"},
        {"num_clusters": 3, "representation": "sketch"},
    ),
    "dynamic_distance": (
        {"distance_threshold": "mean"},
        {"distance_threshold": "q0.6", "max_clusters": 2},
        {"distance_threshold": 1.0, "representation": "normalized_update"},
    ),
    "hierarchical": (
        {"num_clusters": _NUM_GROUPS},
        {"num_clusters": 3, "linkage": "single", "metric": "l2"},
        {"num_clusters": 2, "linkage": "ward", "metric": "l2"},
        {"distance_threshold": "mean", "linkage": "complete", "metric": "l1"},
        {"distance_threshold": "q0.2", "representation": "update"},
    ),
}


def _usual_options(grouping):
  """Returns values for the options that must be given, for six clients or more."""
  return {
      name: option.value_for(6)
      for name, option in options_lib.of(grouping).items()
      if grouping.__dataclass_fields__[name].default is dataclasses.MISSING
  }


_BY_NAME = tuple((name, name) for name in registry.GROUPINGS)
_BY_OPTIONS = tuple(
    (f"{name}_{i}", name, options)
    for name in registry.GROUPINGS
    for i, options in enumerate(
        # Without a row, a grouping is tried with its own defaults.
        _OPTIONS.get(name) or (_usual_options(registry.GROUPINGS[name]),)
    )
)


def _make(vectors):
  return client_weights.ClientWeights(
      np.arange(len(vectors)), vectors.astype(np.float32),
      np.full(vectors.shape[1], 0.5, np.float32),
  )


def _unstructured(num_clients=30):
  """Clients of no clear groups, in which groupings have something to decide."""
  return _make(np.random.default_rng(1).normal(size=(num_clients, 12)))


def _planted(num_clients=40):
  """Clients of groups that are far apart, and the true groups."""
  rng = np.random.default_rng(2)
  groups = rng.permutation(np.arange(num_clients) % _NUM_GROUPS)
  centers = 10 * np.eye(_NUM_GROUPS, 12)
  vectors = centers[groups] + 0.1 * rng.normal(size=(num_clients, 12))
  return _make(vectors), groups


def _group(name, options, weights, seed=0):
  strategy = registry.GROUPINGS[name](**options)
  return strategy(weights, np.random.default_rng(seed))


def _lists(assignment):
  return [members.tolist() for members in assignment.clusters]


class EveryGroupingTest(parameterized.TestCase):

  @parameterized.named_parameters(*_BY_NAME)
  def test_its_options_describe_themselves(self, name):
    grouping = registry.GROUPINGS[name]
    self.assertTrue(dataclasses.is_dataclass(grouping))
    self.assertIn("representation", options_lib.of(grouping))
    for option in options_lib.of(grouping).values():
      self.assertRegex(option.about, r"^\w.*\.$")
      self.assertRegex(option.described(), r"\. Default: .*\.$")

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_equal_options_make_equal_groupings_that_do_not_change(self, name, options):
    grouping = registry.GROUPINGS[name](**options)
    self.assertEqual(grouping, registry.GROUPINGS[name](**options))
    with self.assertRaises(dataclasses.FrozenInstanceError):
      grouping.representation = "update"

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_holds_every_client_in_clusters_in_their_order(self, name, options):
    weights = _unstructured()
    vectors, global_vector = weights.vectors.copy(), weights.global_vector.copy()
    assignment = _group(name, options, weights)
    cluster_assignment.check_covers(assignment.clusters, weights.clients)
    found = _lists(assignment)
    self.assertEqual(found, sorted(map(sorted, found)))
    for members in map(set, found):
      self.assertNotEmpty(members)
      self.assertFalse(any(members < set(other) for other in found))
    # Its arguments are not changed.
    np.testing.assert_array_equal(weights.vectors, vectors)
    np.testing.assert_array_equal(weights.global_vector, global_vector)

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_follows_from_the_seed_and_not_from_the_order_of_clients(self, name, options):
    weights = _unstructured()
    order = np.random.default_rng(3).permutation(weights.clients)
    shuffled = client_weights.ClientWeights(order, weights.vectors[order], weights.global_vector)
    expected = _lists(_group(name, options, weights))
    for same in (weights, shuffled):
      self.assertEqual(_lists(_group(name, options, same)), expected)

  @parameterized.named_parameters(*((name, name) for name in _OPTIONS))
  def test_finds_well_separated_groups(self, name):
    weights, true_groups = _planted()
    assignment = _group(name, _OPTIONS[name][0], weights)
    self.assertEqual(assignment.adjusted_rand_index(true_groups), 1)
    self.assertEqual(assignment.purity(true_groups), 1)

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_one_client_identical_ones_and_some_without_update(self, name, options):
    one = {**options, "num_clusters": 1} if "num_clusters" in options else options
    self.assertEqual(_lists(_group(name, one, _unstructured(1))), [[0]])
    identical = _group(name, options, _make(np.ones((6, 12))))
    cluster_assignment.check_covers(identical.clusters, np.arange(6))
    if options.get("num_clusters", 1) == 1:
      self.assertEqual(_lists(identical), [list(range(6))])
    weights = _unstructured(8)
    vectors = weights.vectors.copy()
    vectors[[2, 5]] = weights.global_vector
    cluster_assignment.check_covers(_group(name, options, _make(vectors)).clusters, weights.clients)


def clusters():
  """Returns the clusters that every grouping makes, as text."""
  return repr([_lists(_group(name, options, _unstructured())) for _, name, options in _BY_OPTIONS])


class OtherProcessTest(absltest.TestCase):

  def test_clusters_are_the_same_in_every_process(self):
    # Strings have another hash in every process, and sets of them another order.
    output = subprocess.run(
        [sys.executable, "-c", "from tests.contracts import grouping_contract_test as t; "
         "print(t.clusters())"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "1"},
        stdout=subprocess.PIPE, check=True, text=True,
    ).stdout
    self.assertEqual(output.strip(), clusters())


class NumClustersTest(parameterized.TestCase):

  @parameterized.named_parameters(row for row in _BY_OPTIONS if "num_clusters" in row[2])
  def test_as_many_clusters_as_clients(self, name, options):
    weights = _unstructured(5)
    assignment = _group(name, {**options, "num_clusters": 5}, weights)
    self.assertEqual(_lists(assignment), [[client] for client in range(5)])
