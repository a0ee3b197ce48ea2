from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.tasks import shares as shares_lib

# Examples 0-4 have label 0, 5-7 label 1, 8-9 label 2.
_LABELS = np.array([0] * 5 + [1] * 3 + [2] * 2, np.uint8)


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

  def test_dirichlet_of_the_smallest_alpha_gives_a_class_to_one_client(self):
    labels = np.arange(2000) % 10
    shares = shares_lib.dirichlet_shares(labels, 5, np.random.default_rng(0), 1e-4)
    self.assertCountEqual(np.concatenate([np.unique(labels[s]) for s in shares]), range(10))

  def test_shards_hold_neighbours_of_the_sorted_labels_and_are_dealt_at_random(self):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 40))
    shares = shares_lib.shard_shares(labels, 20, np.random.default_rng(1))
    # 40 shards of 10 examples: each shard lies within one class of 40.
    for share in shares:
      self.assertLen(share, 20)
      for shard in (share[:10], share[10:]):
        self.assertLen(set(labels[shard]), 1)
    # Dealt in their order, two shards of a client would mostly be of one class; at random they are
    # so with probability 3/39.
    self.assertLess(sum(len(set(labels[share])) == 1 for share in shares), 6)

  def test_which_examples_a_shard_holds_is_drawn(self):
    shares = shares_lib.shard_shares(np.zeros(40, int), 2, np.random.default_rng(1))
    self.assertNotEqual(sorted(np.diff(np.sort(shares[0]))), [1] * 19)


def _top_up(*shares, minimum=2, labels=_LABELS, seed=0):
  arrays = [np.array(share, int) for share in shares]
  full = shares_lib.top_up(arrays, labels, minimum, np.random.default_rng(seed))
  # Its arguments are as they were.
  assert [share.tolist() for share in arrays] == [list(share) for share in shares]
  return [share.tolist() for share in full]


class TopUpTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("enough", ([0, 1], [2, 3, 4, 5, 6], [7, 8, 9]), ([0, 1], [2, 3, 4, 5, 6], [7, 8, 9])),
      ("more_of_its_label", ([8], [0, 1, 2, 3, 4, 5, 6, 7, 9]), ([8, 9], None)),
      ("of_who_has_most", ([7], [5, 0, 1, 2, 3, 4, 6], [8, 9]), ([7, 6], None, [8, 9])),
      # The only other holders of label 2 have no more than they need.
      ("nobody_has_less", ([8], [9, 0], [1, 2, 3, 4, 5, 6, 7]), (None, [9, 0], None)),
      # Who has the most of label 0 gives one, and then has no more than it needs.
      ("nobody_gives_too_often", ([0], [1], [8, 2, 3], [4, 5, 6, 7, 9]),
       ([0, 3], [1, 4], [8, 2], [5, 6, 7, 9])),
  )
  def test_gives(self, shares, expected):
    for seed in range(5):
      full = _top_up(*shares, seed=seed)
      self.assertCountEqual(sum(full, []), range(10))
      for found, share in zip(full, expected):
        self.assertIn(share, (None, found))

  def test_draws_the_label_by_what_there_is_to_spare(self):
    # Nine of ten spare examples have label 1.  Over 400 seeds, its count is within
    # 5 standard deviations (6 each) of 360 but for one suite in a million.
    labels = np.array([1] * 9 + [0])
    count = sum(
        labels[_top_up([], range(10), minimum=1, labels=labels, seed=seed)[0][0]]
        for seed in range(400)
    )
    self.assertBetween(count, 330, 390)

  def test_gives_an_empty_client_one_label(self):
    for seed in range(10):
      full = _top_up([], [0, 1, 2, 3], [4, 5, 6, 7, 8, 9], seed=seed)
      self.assertLen(set(_LABELS[full[0]]), 1)
