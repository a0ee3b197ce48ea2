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
from fl_clustering.methods import registry

_NUM_GROUPS = 4

# Ways to use a grouping other than with its defaults; the first finds well separated groups
# of clients.
_OPTIONS = {
    "kmeans": (
        {"num_clusters": _NUM_GROUPS},
        {"num_clusters": 3, "representation": "update"},
        {"num_clusters": 1, "representation": "normalized_update"},
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


def _ids(num_clients):
  # Neither sorted nor telling a position.
  order = np.random.default_rng(5).permutation(num_clients)
  return tuple(f"client_{i:03d}" for i in order)


def _make(client_ids, vectors):
  return client_weights.ClientWeights(
      client_ids, vectors.astype(np.float32), np.full(vectors.shape[1], 0.5, np.float32)
  )


def _unstructured(num_clients=30):
  """Clients of no clear groups, in which groupings have something to decide."""
  vectors = np.random.default_rng(1).normal(size=(num_clients, 12))
  return _make(_ids(num_clients), vectors)


def _planted(num_clients=40):
  """Clients of groups that are far apart, and the true groups."""
  rng = np.random.default_rng(2)
  groups = rng.permutation(np.arange(num_clients) % _NUM_GROUPS)
  centers = 10 * np.eye(_NUM_GROUPS, 12)
  vectors = centers[groups] + 0.1 * rng.normal(size=(num_clients, 12))
  ids = _ids(num_clients)
  return _make(ids, vectors), {c: int(g) for c, g in zip(ids, groups)}


def _group(name, options, weights, seed=0):
  strategy = registry.GROUPINGS[name](**options)
  return strategy(weights, np.random.default_rng(seed))


def _sets(assignment):
  return {frozenset(members) for members in assignment.clusters}


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
  def test_holds_every_client(self, name, options):
    weights = _unstructured()
    assignment = _group(name, options, weights)
    assignment.check_covers(weights.client_ids)

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_no_cluster_is_empty_or_part_of_another(self, name, options):
    clusters = _sets(_group(name, options, _unstructured()))
    for members in clusters:
      self.assertNotEmpty(members)
      self.assertFalse(any(members < other for other in clusters))

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_order_of_clusters_and_members_is_that_of_the_clients(self, name, options):
    weights = _unstructured()
    assignment = _group(name, options, weights)
    positions = [
        [weights.client_ids.index(client_id) for client_id in members]
        for members in assignment.clusters
    ]
    self.assertEqual(positions, sorted(sorted(members) for members in positions))

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_order_of_clients_does_not_matter(self, name, options):
    weights = _unstructured()
    order = np.random.default_rng(3).permutation(len(weights.client_ids))
    shuffled = client_weights.ClientWeights(
        tuple(weights.client_ids[i] for i in order),
        weights.vectors[order],
        weights.global_vector,
    )
    self.assertEqual(
        _sets(_group(name, options, weights)), _sets(_group(name, options, shuffled))
    )

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_same_seed_gives_the_same(self, name, options):
    weights = _unstructured()
    self.assertEqual(_group(name, options, weights), _group(name, options, weights))

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_arguments_are_not_changed(self, name, options):
    weights = _unstructured()
    vectors, global_vector = weights.vectors.copy(), weights.global_vector.copy()
    _group(name, options, weights)
    np.testing.assert_array_equal(weights.vectors, vectors)
    np.testing.assert_array_equal(weights.global_vector, global_vector)

  @parameterized.named_parameters(*((name, name) for name in _OPTIONS))
  def test_finds_well_separated_groups(self, name):
    weights, true_groups = _planted()
    assignment = _group(name, _OPTIONS[name][0], weights)
    self.assertEqual(assignment.adjusted_rand_index(true_groups), 1)
    self.assertEqual(assignment.purity(true_groups), 1)

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_one_client(self, name, options):
    if "num_clusters" in options:
      options = {**options, "num_clusters": 1}
    assignment = _group(name, options, _unstructured(1))
    self.assertEqual(assignment.clusters, (("client_000",),))

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_identical_clients(self, name, options):
    ids = _ids(6)
    assignment = _group(name, options, _make(ids, np.ones((6, 12))))
    assignment.check_covers(ids)
    if options.get("num_clusters", 1) == 1:
      self.assertEqual(assignment.clusters, (ids,))

  @parameterized.named_parameters(*_BY_OPTIONS)
  def test_clients_without_update(self, name, options):
    weights = _unstructured(8)
    vectors = weights.vectors.copy()
    vectors[[2, 5]] = weights.global_vector
    assignment = _group(name, options, _make(weights.client_ids, vectors))
    assignment.check_covers(weights.client_ids)


def print_clusters():
  """Prints the clusters that every grouping makes."""
  for test_name, name, options in _BY_OPTIONS:
    print(test_name, _group(name, options, _unstructured()).clusters)


class OtherProcessTest(absltest.TestCase):

  def test_clusters_are_the_same_in_every_process(self):
    # Strings have another hash in every process, and sets of them another order.
    program = "from tests.contracts import grouping_contract_test as t; t.print_clusters()"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PYTHONHASHSEED": hash_seed,
            },
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    ]
    self.assertLen(outputs[0].splitlines(), len(_BY_OPTIONS))
    self.assertEqual(outputs[0], outputs[1])


class NumClustersTest(parameterized.TestCase):

  @parameterized.named_parameters(
      row for row in _BY_OPTIONS if "num_clusters" in row[2]
  )
  def test_as_many_clusters_as_clients(self, name, options):
    weights = _unstructured(5)
    assignment = _group(name, {**options, "num_clusters": 5}, weights)
    self.assertEqual(assignment.clusters, tuple((c,) for c in weights.client_ids))

  @parameterized.named_parameters(
      row for row in _BY_OPTIONS if "num_clusters" in row[2]
  )
  def test_more_clusters_than_clients(self, name, options):
    with self.assertRaisesRegex(
        ValueError, r"`num_clusters` must be in \[1, num_clients=5\], got 6"
    ):
      _group(name, {**options, "num_clusters": 6}, _unstructured(5))


if __name__ == "__main__":
  absltest.main()
