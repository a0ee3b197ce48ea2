import math

from absl.testing import parameterized
import numpy as np

from bench import lsh_tree_reference
from dp_clustering import clustering_params
from dp_clustering import ledger as ledger_lib
from dp_clustering import lsh_tree
from dp_clustering import noise
from dp_clustering import private_sums


def _points(num_points=400, dim=4, seed=0):
  return np.random.default_rng(seed).normal(0, 0.2, (num_points, dim))


def _hashed(points, hyperplanes, epsilon=math.inf):
  source = noise.build_noise_source(epsilon, 0)
  ledger = ledger_lib.Ledger(epsilon, 1e-6, source)
  return private_sums.PrivateSums(points, 1.0, source, ledger).hashed(hyperplanes), ledger


def _texts(leaves):
  """Returns the leaves' prefixes as strings of bits."""
  return [
      f"{prefix:0{level}b}" if level else ""
      for prefix, level in zip(leaves.prefixes, leaves.levels)
  ]


class PrivateLeavesTest(parameterized.TestCase):

  @parameterized.parameters(
      (3, 1, 20), (40, 10, 20), (100, 60, 20), (40, 10, 3), (40, 10, 0), (401, 1, 20),
      (150, 150, 20),
  )
  def test_without_noise_equals_the_tree_node_by_node(self, branching, node, max_depth):
    tree_param = clustering_params.TreeParam(branching, node, max_depth)
    hyperplanes = np.random.default_rng(1).normal(size=(max_depth, 4))
    points = clustering_params.map_to_ball(_points(), 1.0)
    expected = lsh_tree_reference.leaves(
        lsh_tree_reference.tree(points, hyperplanes, tree_param, 400, lambda count: count)
    )
    hashed, _ = _hashed(_points(), hyperplanes)
    leaves = lsh_tree.private_leaves(hashed, tree_param, 400.0, 0.0)
    counts = dict(zip(_texts(leaves), leaves.private_counts))
    self.assertEqual(
        counts, {leaf.hash_prefix: leaf.private_count for leaf in expected}
    )

  def test_every_level_is_one_release(self):
    hyperplanes = np.random.default_rng(1).normal(size=(6, 4))
    hashed, ledger = _hashed(_points(), hyperplanes, epsilon=1.0)
    leaves = lsh_tree.private_leaves(
        hashed, clustering_params.TreeParam(3, 1, 6), 400.0, count_std=30.0
    )
    self.assertLen(leaves.prefixes, len(set(_texts(leaves))))
    names = [release.name for release in ledger.releases]
    self.assertEqual(names, [f"counts of level {level}" for level in range(1, len(names) + 1)])
    self.assertEqual({release.std for release in ledger.releases}, {30.0})

  def test_leaves_are_disjoint(self):
    hyperplanes = np.random.default_rng(1).normal(size=(8, 4))
    hashed, _ = _hashed(_points(), hyperplanes, epsilon=1.0)
    leaves = lsh_tree.private_leaves(
        hashed, clustering_params.TreeParam(3, 1, 8), 400.0, count_std=40.0
    )
    texts = _texts(leaves)
    for text in texts:
      self.assertEqual([other for other in texts if other.startswith(text)], [text])

  def test_a_root_without_points_is_a_leaf_of_weight_one(self):
    hashed, _ = _hashed(np.zeros((0, 4)), np.eye(4))
    leaves = lsh_tree.private_leaves(
        hashed, clustering_params.TreeParam(1, 1, 4), -7.0, 0.0
    )
    self.assertEqual(_texts(leaves), [""])
    np.testing.assert_array_equal(leaves.private_counts, [1])


class DefaultTreeParamTest(parameterized.TestCase):

  @parameterized.named_parameters(
      # int(10 * sqrt(16) * 4.334) = 173, and 20000 // 32 = 625.
      ("noise_decides", 16, 16, 20000.5, 4.334, 173),
      # 20000 // 128 = 156.
      ("clusters_decide", 64, 16, 20000.5, 4.334, 156),
      ("at_least_one", 64, 16, -12.0, 4.334, 1),
      ("no_noise", 64, 16, 20000.0, 0.0, 1),
  )
  def test_smallest_node(self, k, dim, private_count, multiplier, expected):
    tree_param = lsh_tree.default_tree_param(k, dim, private_count, multiplier)
    self.assertEqual(
        tree_param, clustering_params.TreeParam(3 * expected, expected, max_depth=20)
    )
