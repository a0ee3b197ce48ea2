from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import known_groups
from fl_clustering.tasks import partition
from tests import drawn_seeds
from tests.tasks import data_files

_GROUPED = ("rotated", "permuted_labels", "feature_shift")


def _numbered(numbers, labels, size=4):
  """Returns images that carry their number in the two top left pixels."""
  numbers = np.asarray(numbers)
  images = np.zeros((len(numbers), size, size, 1), np.uint8)
  images[:, 0, 0, 0], images[:, 0, 1, 0] = numbers // 256, numbers % 256
  return examples_lib.Examples(images, np.asarray(labels, np.uint8))


def _numbers(examples):
  return examples.features[:, 0, 0, 0].astype(int) * 256 + examples.features[:, 0, 1, 0]


def _pool(num_examples=2000, num_test=400, num_classes=10):
  numbers = np.arange(num_examples + num_test)
  everything = _numbered(numbers, numbers % num_classes)
  return data_files.pool_of(everything, num_examples, num_classes)


def _split(name, pool, num_clients, seed=0, **options):
  return partition.choose(name, num_clients, **options)(pool, num_clients, seed)


def _sizes(split):
  return np.array([len(client.train) + len(client.test) for client in split.clients])


def _label_counts(split):
  return np.array([
      np.bincount(np.concatenate([c.train.labels, c.test.labels]), minlength=10)
      for c in split.clients
  ])


def _groups(split):
  return np.array([client.group for client in split.clients])


class PartitionTest(parameterized.TestCase):

  def test_iid_shares_are_equal(self):
    sizes = _sizes(_split("iid", _pool(2003), 100))
    self.assertEqual(set(sizes), {20, 21})

  @parameterized.parameters(
      ("iid", {}), ("quantity", {"dirichlet_alpha": 100.0}), ("rotated", {"num_groups": 2}),
      ("rotated", {"num_groups": 2, "dirichlet_alpha": 100.0}),
  )
  def test_labels_are_mixed_where_the_pool_is_in_their_order(self, name, options):
    numbers = np.arange(2400)
    pool = data_files.pool_of(_numbered(numbers, numbers // 200 % 10), 2000, 10)
    self.assertGreater(_label_counts(_split(name, pool, 4, **options)).min(), 0)

  def test_smaller_alpha_is_more_skewed(self):
    def largest_share(alpha):
      counts = _label_counts(_split("dirichlet", _pool(), 5, 3, dirichlet_alpha=alpha))
      return np.mean(counts.max(axis=0) / counts.sum(axis=0))

    # At the ends a class is one client's, or evenly spread.
    shares = [largest_share(alpha) for alpha in (0.1, 1, 10, 1000, 1e6)]
    self.assertEqual(shares, sorted(shares, reverse=True))
    self.assertGreater(shares[0], 0.6)
    self.assertLess(shares[-1], 0.206)

  def test_quantity_skews_sizes_and_not_labels(self):
    split = _split("quantity", _pool(), 10)
    sizes = _sizes(split)
    self.assertGreater(sizes.max(), 5 * sizes.min())
    largest = _label_counts(split)[np.argmax(sizes)]
    self.assertGreater(largest.min(), 0.5 * largest.mean())
    sizes = _sizes(_split("quantity", _pool(), 200, dirichlet_alpha=0.01))
    self.assertEqual(sizes.min(), 2)

  def test_rotated_groups_turn_back_to_the_pool(self):
    pool = _pool()
    split = _split("rotated", pool, 10, num_groups=4)
    for client in split.clients:
      for examples in (client.train, client.test):
        turned_back = np.rot90(examples.features, -client.group, axes=(1, 2))
        numbers = _numbers(examples_lib.Examples(turned_back, examples.labels))
        np.testing.assert_array_equal(turned_back, pool.pool.features[numbers])
        np.testing.assert_array_equal(examples.labels, pool.pool.labels[numbers])
    # The global test set is a mix of the groups.
    turns = np.full(len(pool.global_test), -1)
    for quarter_turns in range(4):
      turned = np.rot90(pool.global_test.features, quarter_turns, axes=(1, 2))
      turns[np.all(turned == split.global_test.features, axis=(1, 2, 3))] = quarter_turns
    self.assertGreater(np.bincount(turns).min(), 0.15 * len(turns))
    np.testing.assert_array_equal(split.global_test.labels, pool.global_test.labels)

  def test_permuted_labels_are_one_permutation_a_group(self):
    pool = _pool()
    split = _split("permuted_labels", pool, 12, num_groups=5)
    permutations = {group: {} for group in range(5)}
    for client in split.clients:
      for examples in (client.train, client.test):
        numbers = _numbers(examples)
        np.testing.assert_array_equal(examples.features, pool.pool.features[numbers])
        for old, new in zip(pool.pool.labels[numbers], examples.labels):
          self.assertEqual(permutations[client.group].setdefault(old, new), new)
    for permutation in permutations.values():
      self.assertCountEqual(permutation.values(), range(10))
    self.assertEqual(permutations[0], {label: label for label in range(10)})
    self.assertLen({tuple(sorted(one.items())) for one in permutations.values()}, 5)
    # The global test set is relabelled by the same permutations, mixed.
    old, new = pool.global_test.labels, split.global_test.labels
    self.assertBetween(np.mean(old == new), 0.1, 0.6)
    self.assertContainsSubset(
        zip(old, new), {pair for one in permutations.values() for pair in one.items()}
    )

  def test_permutations_run_out(self):
    labels = [
        transform(_numbered([0, 0], [0, 1])).labels.tolist()
        for transform in known_groups.label_permutations(
            _pool(num_classes=2), 2, np.random.default_rng(0))
    ]
    self.assertEqual(labels, [[0, 1], [1, 0]])
    with self.assertRaisesRegex(ValueError, "`num_groups`"):
      _split("permuted_labels", _pool(num_classes=2), 10, num_groups=3)

  @parameterized.parameters(
      *((name, {}) for name in partition.PARTITIONS), ("rotated", {"dirichlet_alpha": 0.1}),
      *((name, {"examples_per_client": 2, "dirichlet_alpha": 1.0}) for name in _GROUPED),
  )
  def test_all_is_drawn_by_the_seed(self, name, options):
    with drawn_seeds.recorded() as seeds:
      _split(name, _pool(400, 40), 10, seed=3, **options)
    self.assertEqual(seeds, {3})

  @parameterized.parameters(*_GROUPED)
  def test_groups_are_equal_and_the_skew_is_inside_them(self, name):
    groups = _groups(_split(name, _pool(), 22))
    np.testing.assert_array_equal(np.sort(np.bincount(groups)), [5, 5, 6, 6])
    self.assertNotEqual(groups.tolist(), sorted(groups))
    self.assertNotEqual(groups.tolist(), [i % 4 for i in range(22)])
    split = _split(name, _pool(), 8, seed=1, dirichlet_alpha=0.5, num_groups=2)
    sizes, groups = _sizes(split), _groups(split)
    np.testing.assert_array_equal([sizes[groups == g].sum() for g in range(2)], [1000, 1000])
    self.assertGreater(sizes.max() - sizes.min(), 50)
    counts = _label_counts(split)
    self.assertLess(np.min(counts / counts.sum(axis=1, keepdims=True)), 0.02)
    self.assertEqual(set(_sizes(_split(name, _pool(), 8, seed=1, num_groups=2))), {250})
    split = _split(name, _pool(), 5, seed=1, dirichlet_alpha=0.5, num_groups=2)
    of_groups = [_sizes(split)[_groups(split) == g].sum() for g in range(2)]
    self.assertCountEqual(of_groups, [1200, 800])

  @parameterized.parameters(
      *(("dirichlet_alpha", "dirichlet", {"dirichlet_alpha": alpha})
        for alpha in (0, 1e-5, 1e7, float("nan"), True, "0.5")),
      ("dirichlet_alpha", "iid", {"dirichlet_alpha": 1}),
      ("dirichlet_alpha", "shards", {"dirichlet_alpha": 1}),
      ("num_groups", "dirichlet", {"num_groups": 2}), ("num_groups", "rotated", {"num_groups": 5}),
      ("num_groups", "feature_shift", {"num_groups": 6}),
      ("num_groups", "permuted_labels", {"num_groups": 1}),
      ("num_groups", "rotated", {"num_groups": 2.5}),
      ("num_clients", "permuted_labels", {"num_groups": 6}), ("partition", "natural", {}),
  )
  def test_refuses(self, argument, name, options):
    with self.assertRaisesRegex(ValueError, f"^`{argument}`"):
      _split(name, _pool(), 5, **options)

  def test_rotated_needs_square_images(self):
    flat = examples_lib.Examples(_pool().pool.features[:, :3], _pool().pool.labels)
    pool = examples_lib.ImagePool("flat", "made up", flat, flat, "same", 10)
    with self.assertRaisesRegex(ValueError, "^`partition`"):
      _split("rotated", pool, 10)


class TopUpTest(parameterized.TestCase):

  @parameterized.parameters("dirichlet", "rotated")
  def test_strong_skew_tops_up_the_few_clients_it_would_leave_with_nothing(self, name):
    for seed in range(3):
      with drawn_seeds.recorded() as seeds:
        split = _split(name, _pool(4000), 100, seed, dirichlet_alpha=0.1)
      self.assertEqual(seeds, {seed})
      sizes = _sizes(split)
      self.assertEqual((min(sizes), sum(sizes), len(split.warnings)), (2, 4000, 1))
      if name == "rotated":  # Inside the group.
        of_groups = [sizes[_groups(split) == group].sum() for group in range(4)]
        np.testing.assert_array_equal(of_groups, [1000] * 4)

  @parameterized.parameters("iid", "dirichlet", "shards", "quantity", "rotated")
  def test_no_warning_where_nobody_was_topped_up(self, name):
    self.assertEmpty(_split(name, _pool(), 10).warnings)

  @parameterized.parameters("dirichlet", "rotated")
  def test_refuses_to_leave_most_clients_with_nothing(self, name):
    with self.assertRaisesRegex(ValueError, "^`num_clients`.*`dirichlet_alpha`"):
      _split(name, _pool(), 100, dirichlet_alpha=0.01)
