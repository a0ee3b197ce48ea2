from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from clustering_basics import randomness
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import known_groups
from fl_clustering.tasks import partition
from fl_clustering.tasks import shares as shares_lib

_NUM_CLASSES = 10


def _numbered(numbers, labels, size=4):
  """Returns images that carry their number in the two top left pixels."""
  numbers = np.asarray(numbers)
  images = np.zeros((len(numbers), size, size, 1), np.uint8)
  images[:, 0, 0, 0], images[:, 0, 1, 0] = numbers // 256, numbers % 256
  return examples_lib.Examples(images, np.asarray(labels, np.uint8))


def _numbers(examples):
  return examples.features[:, 0, 0, 0].astype(int) * 256 + examples.features[:, 0, 1, 0]


def _pool(num_examples=2000, num_test=400):
  numbers = np.arange(num_examples + num_test)
  everything = _numbered(numbers, numbers % _NUM_CLASSES)
  return examples_lib.ImagePool(
      name="numbered",
      source="made up",
      pool=everything.take(slice(num_examples)),
      global_test=everything.take(slice(num_examples, None)),
      global_test_source="made up",
      num_classes=_NUM_CLASSES,
  )


def _sizes(split):
  return np.array([len(client.train) + len(client.test) for client in split.clients])


def _label_counts(split):
  return np.array([
      np.bincount(np.concatenate([c.train.labels, c.test.labels]), minlength=_NUM_CLASSES)
      for c in split.clients
  ])


class SharesTest(absltest.TestCase):

  def test_dirichlet_follows_its_proportions(self):
    # The same generator, asked the same questions, tells what the sizes must be.
    labels = np.repeat([3, 8], [100, 50])
    shares = shares_lib.dirichlet_shares(labels, 4, np.random.default_rng(5), 0.7)
    rng = np.random.default_rng(5)
    for label, size in ((3, 100), (8, 50)):
      rng.permutation(size)
      ends = np.cumsum(rng.dirichlet([0.7] * 4)) * size
      expected = np.diff(np.floor(ends[:-1]), prepend=0, append=size)
      counts = [np.sum(labels[share] == label) for share in shares]
      np.testing.assert_array_equal(counts, expected)

  def test_shards_hold_neighbours_of_the_sorted_labels(self):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 40))
    shares = shares_lib.shard_shares(labels, 20, np.random.default_rng(1))
    # 40 shards of 10 examples: each shard lies within one class of 40.
    for share in shares:
      self.assertLen(share, 20)
      for shard in (share[:10], share[10:]):
        self.assertLen(set(labels[shard]), 1)

  def test_shards_are_dealt_at_random(self):
    # Dealt in their order, two shards of a client would mostly be of one class;
    # at random they are so with probability 3/39.
    labels = np.repeat(np.arange(10), 40)
    shares = shares_lib.shard_shares(labels, 20, np.random.default_rng(1))
    num_of_one_class = sum(len(set(labels[share])) == 1 for share in shares)
    self.assertLess(num_of_one_class, 6)

  def test_which_examples_a_shard_holds_is_drawn(self):
    labels = np.zeros(40, int)
    shares = shares_lib.shard_shares(labels, 2, np.random.default_rng(1))
    self.assertNotEqual(sorted(np.diff(np.sort(shares[0]))), [1] * 19)


class PartitionTest(parameterized.TestCase):

  def test_iid_shares_are_equal(self):
    sizes = _sizes(partition.split("iid", _pool(2003), 100, seed=0))
    self.assertEqual(set(sizes), {20, 21})

  def test_smaller_alpha_is_more_skewed(self):
    def largest_share(alpha):
      counts = _label_counts(partition.split("dirichlet", _pool(), 5, 3, dirichlet_alpha=alpha))
      return np.mean(counts.max(axis=0) / counts.sum(axis=0))

    shares = [largest_share(alpha) for alpha in (0.1, 1, 10, 1000)]
    self.assertEqual(shares, sorted(shares, reverse=True))
    self.assertGreater(shares[0], 0.6)
    self.assertLess(shares[-1], 0.22)

  @parameterized.parameters(1e-4, 1e6)
  def test_extreme_alpha(self, alpha):
    # At the small end a class is one client's, at the large end evenly spread.
    shares = shares_lib.dirichlet_shares(
        _pool().pool.labels, 5, np.random.default_rng(0), alpha
    )
    counts = np.array([
        np.bincount(_pool().pool.labels[share], minlength=_NUM_CLASSES) for share in shares
    ])
    self.assertEqual(counts.sum(), 2000)
    if alpha < 1:
      np.testing.assert_array_equal(np.sum(counts > 0, axis=0), 1)
    else:
      self.assertLessEqual(np.abs(counts - 40).max(), 1)

  @parameterized.parameters(0, -1, 1e-5, 1e7, float("nan"), float("inf"), True, "0.5")
  def test_refuses_alpha(self, alpha):
    with self.assertRaisesRegex(ValueError, "`dirichlet_alpha` must be"):
      partition.split("dirichlet", _pool(), 5, seed=0, dirichlet_alpha=alpha)

  def test_quantity_skews_sizes_and_not_labels(self):
    split = partition.split("quantity", _pool(), 10, seed=0)
    sizes = _sizes(split)
    self.assertGreater(sizes.max(), 5 * sizes.min())
    largest = _label_counts(split)[np.argmax(sizes)]
    self.assertGreater(largest.min(), 0.5 * largest.mean())

  def test_quantity_leaves_every_client_its_two_examples(self):
    sizes = _sizes(partition.split("quantity", _pool(), 200, seed=0, dirichlet_alpha=0.01))
    self.assertEqual(sizes.min(), 2)

  def test_shards_have_few_labels(self):
    counts = _label_counts(partition.split("shards", _pool(), 50, seed=0))
    self.assertLessEqual(np.sum(counts > 0, axis=1).max(), 2)

  def test_rotated_groups_turn_back_to_the_pool(self):
    pool = _pool()
    split = partition.split("rotated", pool, 10, seed=0, num_groups=3)
    for client in split.clients:
      for examples in (client.train, client.test):
        turned_back = np.rot90(examples.features, -client.group, axes=(1, 2))
        numbers = _numbers(examples_lib.Examples(turned_back, examples.labels))
        np.testing.assert_array_equal(turned_back, pool.pool.features[numbers])
        np.testing.assert_array_equal(examples.labels, pool.pool.labels[numbers])

  def test_rotated_global_test_is_a_mix_of_the_groups(self):
    pool = _pool()
    split = partition.split("rotated", pool, 10, seed=0, num_groups=4)
    turns = np.full(len(pool.global_test), -1)
    for quarter_turns in range(4):
      turned = np.rot90(pool.global_test.features, quarter_turns, axes=(1, 2))
      turns[np.all(turned == split.global_test.features, axis=(1, 2, 3))] = quarter_turns
    self.assertGreater(np.bincount(turns).min(), 0.15 * len(turns))
    np.testing.assert_array_equal(split.global_test.labels, pool.global_test.labels)

  def test_rotated_needs_square_images(self):
    pool = _pool()
    flat = examples_lib.Examples(pool.pool.features[:, :3], pool.pool.labels)
    pool = examples_lib.ImagePool("flat", "a flat source", flat, flat, "same", _NUM_CLASSES)
    with self.assertRaisesRegex(ValueError, "`partition` .*square, got .*3x4 from a flat source"):
      partition.split("rotated", pool, 10, seed=0)

  def test_permuted_labels_are_one_permutation_a_group(self):
    pool = _pool()
    split = partition.split("permuted_labels", pool, 12, seed=0, num_groups=5)
    permutations = {group: {} for group in range(5)}
    for client in split.clients:
      for examples in (client.train, client.test):
        numbers = _numbers(examples)
        np.testing.assert_array_equal(examples.features, pool.pool.features[numbers])
        for old, new in zip(pool.pool.labels[numbers], examples.labels):
          self.assertEqual(permutations[client.group].setdefault(old, new), new)
    for permutation in permutations.values():
      self.assertCountEqual(permutation.values(), range(_NUM_CLASSES))
    self.assertEqual(permutations[0], {label: label for label in range(_NUM_CLASSES)})
    distinct = {tuple(sorted(permutation.items())) for permutation in permutations.values()}
    self.assertLen(distinct, 5)
    # The global test set is relabelled by the same permutations, mixed.
    old, new = pool.global_test.labels, split.global_test.labels
    seen = set(zip(old, new))
    self.assertGreater(np.mean(old == new), 0.1)
    self.assertLess(np.mean(old == new), 0.6)
    self.assertContainsSubset(seen, {pair for p in permutations.values() for pair in p.items()})

  def test_permutations_run_out(self):
    pool = examples_lib.ImagePool(
        "two", "made up", _numbered(range(40), np.arange(40) % 2), _pool().global_test, "", 2
    )
    labels = [
        transform(_numbered([0, 0], [0, 1])).labels.tolist()
        for transform in known_groups.label_permutations(pool, 2, np.random.default_rng(0))
    ]
    self.assertEqual(labels, [[0, 1], [1, 0]])
    with self.assertRaisesRegex(ValueError, "`num_groups` must be at most .* 2 labels, got 3"):
      partition.split("permuted_labels", pool, 10, seed=0, num_groups=3)

  @parameterized.parameters("rotated", "permuted_labels", "feature_shift")
  def test_groups_are_equal_and_not_in_the_order_of_the_clients(self, name):
    split = partition.split(name, _pool(), 22, seed=0)
    groups = np.array([client.group for client in split.clients])
    np.testing.assert_array_equal(np.sort(np.bincount(groups)), [5, 5, 6, 6])
    self.assertNotEqual(groups.tolist(), sorted(groups))
    self.assertNotEqual(groups.tolist(), [i % 4 for i in range(22)])

  @parameterized.parameters("rotated", "permuted_labels", "feature_shift")
  def test_skew_inside_the_groups_only(self, name):
    split = partition.split(name, _pool(), 8, seed=1, dirichlet_alpha=0.5, num_groups=2)
    groups = np.array([client.group for client in split.clients])
    sizes = _sizes(split)
    # Groups share equally, clients do not.
    np.testing.assert_array_equal([sizes[groups == g].sum() for g in range(2)], [1000, 1000])
    self.assertGreater(sizes.max() - sizes.min(), 50)
    counts = _label_counts(split)
    self.assertLess(np.min(counts / counts.sum(axis=1, keepdims=True)), 0.02)
    iid = partition.split(name, _pool(), 8, seed=1, num_groups=2)
    self.assertEqual(set(_sizes(iid)), {250})

  @parameterized.named_parameters(
      ("alpha_for_iid", "iid", {"dirichlet_alpha": 1}, "`dirichlet_alpha` .* dirichlet or"),
      ("alpha_for_shards", "shards", {"dirichlet_alpha": 1}, "`dirichlet_alpha` must be left out"),
      ("groups_for_dirichlet", "dirichlet", {"num_groups": 2}, "`num_groups` .* permuted_labels"),
      ("five_rotations", "rotated", {"num_groups": 5}, r"`num_groups` .*\[2, 4\], got 5"),
      ("six_shifts", "feature_shift", {"num_groups": 6}, r"`num_groups` .*\[2, 5\], got 6"),
      ("one_group", "permuted_labels", {"num_groups": 1}, "`num_groups` .*>= 2, got 1"),
      ("half_a_group", "rotated", {"num_groups": 2.5}, "`num_groups` must be an integer"),
      (
          "more_groups_than_clients",
          "permuted_labels",
          {"num_groups": 6},
          "`num_clients` must be at least 6, one for each group of .*, got 5",
      ),
  )
  def test_refuses_option(self, name, options, message):
    with self.assertRaisesRegex(ValueError, message):
      partition.split(name, _pool(), 5, seed=0, **options)

  def test_refuses_unknown_partition(self):
    with self.assertRaisesRegex(ValueError, "`partition` must be one of .*iid, .*got 'natural'"):
      partition.split("natural", _pool(), 5, seed=0)

  @parameterized.parameters("dirichlet", "rotated")
  def test_strong_skew_tops_up_the_few_clients_it_would_leave_with_nothing(self, name):
    num_topped_up = 0
    for seed in range(20):
      split = partition.split(name, _pool(4000), 100, seed, dirichlet_alpha=0.1)
      self.assertEqual(min(_sizes(split)), 2)
      self.assertEqual(sum(_sizes(split)), 4000)
      (warning,) = split.warnings
      self.assertRegex(
          warning,
          r"^The Dirichlet\(0.1\) draw left \d+ of 100 clients with fewer than 2 examples; they "
          "were topped up to 2 of one label, from the clients with the most of it.$",
      )
      num_topped_up += int(warning.split()[4])
    self.assertBetween(num_topped_up, 20, 20 * 25)

  def test_top_up_moves_what_is_lacking_and_nothing_else(self):
    pool = _pool(4000)
    rng = randomness.generator(0, "partition: shares")
    drawn = shares_lib.dirichlet_shares(pool.pool.labels, 100, rng, 0.1)

    split = partition.split("dirichlet", pool, 100, seed=0, dirichlet_alpha=0.1)

    num_lacking = sum(max(0, 2 - len(share)) for share in drawn)
    self.assertGreater(num_lacking, 0)
    num_given = 0
    for client, share in zip(split.clients, drawn):
      numbers = {*_numbers(client.train), *_numbers(client.test)}
      num_given += len(numbers - set(share))
      if len(share) < 2:
        self.assertLen({*client.train.labels, *client.test.labels}, 1)
    self.assertEqual(num_given, num_lacking)

  def test_top_up_stays_inside_the_group(self):
    topped_up = partition.split("rotated", _pool(), 100, seed=0, dirichlet_alpha=0.1)
    groups = np.array([client.group for client in topped_up.clients])
    self.assertNotEmpty(topped_up.warnings)
    np.testing.assert_array_equal(
        [_sizes(topped_up)[groups == group].sum() for group in range(4)], [500] * 4
    )

  @parameterized.parameters("iid", "dirichlet", "shards", "quantity", "rotated")
  def test_no_warning_where_nobody_was_topped_up(self, name):
    self.assertEmpty(partition.split(name, _pool(), 10, seed=0).warnings)

  def test_says_what_to_change_where_most_clients_would_be_left_with_nothing(self):
    with self.assertRaisesRegex(
        partition.TooFewExamples,
        r"`num_clients` must leave three in four clients at least 2 examples "
        r"\(with `dirichlet_alpha`=0.01 this draw leaves \d+ clients fewer\), got 100. "
        "Use fewer `num_clients` or a larger `dirichlet_alpha`.",
    ):
      partition.split("dirichlet", _pool(), 100, seed=0, dirichlet_alpha=0.01)
    with self.assertRaisesRegex(ValueError, "`dirichlet_alpha`=0.01"):
      partition.split("rotated", _pool(), 100, seed=0, dirichlet_alpha=0.01)

  def test_the_default_skew_seldom_needs_a_top_up(self):
    # A hundred clients with forty digits each: a draw in hundreds needs one.
    splits = [partition.split("dirichlet", _pool(4000), 100, seed) for seed in range(20)]
    self.assertLess(sum(bool(split.warnings) for split in splits), 3)


if __name__ == "__main__":
  absltest.main()
