from absl.testing import absltest
import numpy as np

from fl_clustering.tasks import shares as shares_lib

# Examples 0-4 have label 0, 5-7 label 1, 8-9 label 2.
_LABELS = np.array([0] * 5 + [1] * 3 + [2] * 2, np.uint8)


def _top_up(*shares, minimum=2, labels=_LABELS, seed=0):
  arrays = [np.array(share, int) for share in shares]
  full = shares_lib.top_up(arrays, labels, minimum, np.random.default_rng(seed))
  return [share.tolist() for share in full]


class TopUpTest(absltest.TestCase):

  def test_leaves_alone_what_is_large_enough(self):
    shares = [[0, 1], [2, 3, 4, 5, 6], [7, 8, 9]]

    self.assertEqual(_top_up(*shares), shares)

  def test_gives_a_client_more_of_the_label_it_has(self):
    for seed in range(10):
      full = _top_up([8], [0, 1, 2, 3, 4, 5, 6, 7, 9], seed=seed)

      self.assertEqual(full[0], [8, 9])

  def test_gives_an_empty_client_one_label(self):
    given = set()
    for seed in range(30):
      full = _top_up([], [0, 1, 2, 3], [4, 5, 6, 7, 8, 9], seed=seed)
      (label,) = set(_LABELS[full[0]])
      given.add(label)

    # Which label is drawn.
    self.assertEqual(given, {0, 1, 2})

  def test_draws_the_label_by_what_there_is_to_spare(self):
    # Nine of ten spare examples have label 1.  Over 400 seeds, its count is within
    # 5 standard deviations (6 each) of 360 but for one suite in a million.
    labels = np.array([1] * 9 + [0])
    count = sum(
        labels[_top_up([], range(10), minimum=1, labels=labels, seed=seed)[0][0]]
        for seed in range(400)
    )

    self.assertBetween(count, 330, 390)

  def test_the_one_with_most_of_the_label_gives_it(self):
    full = _top_up([9], [8, 0, 1, 2], [3, 4, 5, 6, 7])
    self.assertEqual(full[0], [9, 8])

    full = _top_up([7], [5, 0, 1, 2, 3, 4, 6], [8, 9])
    self.assertEqual(full[0], [7, 6])
    self.assertEqual(full[2], [8, 9])

  def test_nobody_is_left_with_less_than_the_minimum(self):
    # The only other holders of label 2 have no more than they need.
    full = _top_up([8], [9, 0], [1, 2, 3, 4, 5, 6, 7])

    self.assertEqual(full[1], [9, 0])
    self.assertCountEqual(sum(full, []), range(10))

  def test_as_few_examples_as_there_may_be(self):
    full = _top_up([], [], list(range(10)), [], [])

    self.assertEqual([len(share) for share in full], [2] * 5)
    self.assertCountEqual(sum(full, []), range(10))

  def test_does_not_change_its_arguments(self):
    shares = [np.array([8]), np.arange(8)]

    shares_lib.top_up(shares, _LABELS, 2, np.random.default_rng(0))

    self.assertEqual([share.tolist() for share in shares], [[8], list(range(8))])


if __name__ == "__main__":
  absltest.main()
