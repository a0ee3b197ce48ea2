"""Tests of the server's part of training."""

import math

from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import bounded_sums
from fl_clustering.private_clusters import training

_NUM_CLIENTS = 120


def _state(sizes, **kwargs):
  vectors = np.arange(len(sizes) * 3, dtype=np.float32).reshape(-1, 3)
  return training.State(vectors, np.array(sizes, float), 2.0, **kwargs)


def _sums(counts, bits=0.0, updates=None, count_std=0.0):
  updates = np.zeros((len(counts), 3)) if updates is None else updates
  return training.RoundSums(updates, np.array(counts, float), bits, count_std)


def _next(state, sums, num_rounds=100, quantile=0.5):
  return state.next(sums, _NUM_CLIENTS, num_rounds, quantile, np.random.default_rng(1))


class NextTest(parameterized.TestCase):

  def test_a_slot_moves_by_its_mean_update(self):
    updates = np.array([[30.0, 0, -60], [0, 90, 0]])
    after = _next(_state([30, 90]), _sums([30, 90], updates=updates))
    np.testing.assert_allclose(after.vectors, [[2, 1, -2], [3, 6, 5]])

  def test_sizes_are_moving_means(self):
    after = _next(_state([60, 60]), _sums([20, 100]))
    np.testing.assert_allclose(after.sizes, [48, 72])

  def test_without_noise_sizes_are_the_counts_and_the_clip_norm_stays(self):
    after = _next(_state([60, 60], is_exact=True), _sums([20, 100], bits=60))
    np.testing.assert_array_equal(after.sizes, [20, 100])
    self.assertEqual((after.clip_norm, after.is_exact), (2.0, True))

  def test_a_small_or_negative_count_is_no_divisor(self):
    updates = np.ones((2, 3))
    after = _next(_state([60, 60]), _sums([-400, 60], updates=updates))
    # A quarter of the 60 clients of an even slot.
    np.testing.assert_allclose(after.vectors[0] - _state([60, 60]).vectors[0], 2 / 15, rtol=1e-6)

  @parameterized.parameters((0, 1.0), (60, math.exp(-0.3)), (-60, math.exp(0.3)),
                            (9999, math.exp(-0.3)), (30, math.exp(-0.15)),
                            (36, 1.0, 0.8), (0, math.exp(0.18), 0.8), (60, math.exp(-0.12), 0.8))
  def test_the_clip_norm_follows_the_quantile(self, bits, factor, quantile=0.5):
    after = _next(_state([60, 60]), _sums([60, 60], bits=bits), quantile=quantile)
    self.assertAlmostEqual(after.clip_norm, 2 * factor)

  def test_who_sends_zeros_does_not_raise_the_clip_norm(self):
    # Half of the clients send, of whom 80% have short updates.
    after = _next(_state([30, 30]), _sums([30, 30], bits=0.3 * 60), quantile=0.8)
    self.assertAlmostEqual(after.clip_norm, 2)

  def test_one_slot_is_fedavg(self):
    after = _next(_state([120], round_num=10), _sums([-500], updates=np.ones((1, 3))))
    self.assertEqual(after.vectors.shape, (1, 3))
    self.assertEqual(after.revived, training.LOCKED_ROUNDS)


class RevivalTest(parameterized.TestCase):

  def test_the_smallest_slot_takes_over_half_of_the_largest(self):
    state = _state([2, 80, 38], round_num=10)
    after = _next(state, _sums([2, 80, 38]))
    step = after.vectors[0] - state.vectors[1]
    self.assertAlmostEqual(np.linalg.norm(step), state.clip_norm, places=5)
    direction = np.random.default_rng(1).standard_normal(len(step))
    np.testing.assert_allclose(
        step, direction * state.clip_norm / np.linalg.norm(direction), rtol=1e-4
    )
    np.testing.assert_allclose(after.vectors[1], state.vectors[1] - step, rtol=1e-5)
    np.testing.assert_array_equal(after.vectors[2], state.vectors[2])
    np.testing.assert_allclose(after.sizes, [40, 40, 38])
    self.assertEqual(after.revived, 10)

  @parameterized.parameters(
      # Not in the first rounds nor in the last.
      *(([2, 118], {"round_num": round_num}, is_revived)
        for round_num, is_revived in ((5, False), (6, True), (13, True), (14, False))),
      # It rests in between.
      ([2, 118], {"round_num": 13, "revived": 10}, False),
      ([2, 118], {"round_num": 13, "revived": 9}, True),
      # A tenth of an even slot is starved.
      ([5.9, 114], {"round_num": 10}, True), ([6.1, 114], {"round_num": 10}, False),
      # So is what the noise hides: the moving mean has a standard deviation of sqrt(.3 / 1.7) of
      # the noise, and two of them are 20.
      ([19, 99], {"round_num": 10}, True, 10 / math.sqrt(0.3 / 1.7)),
      ([21, 99], {"round_num": 10}, False, 10 / math.sqrt(0.3 / 1.7)),
  )
  def test_when(self, sizes, when, is_revived, count_std=0.0):
    after = _next(_state(sizes, **when), _sums(sizes, count_std=count_std), num_rounds=20)
    self.assertEqual(after.sizes[0] > sizes[0] + 4, is_revived)


class FirstClipNormTest(parameterized.TestCase):

  @parameterized.parameters(
      ({3: 10, 7: 11, 20: 4}, 0, 7), ({9: 51}, -50, 9),  # Negative counts are none.
      ({0: 5}, 0, 0), ({-1: 5}, 0, -1), ({}, -1, 0),  # Without any count, it is the first.
      ({3: 10, 7: 11, 20: 4}, 0, 7, 0.8), ({3: 10, 7: 11, 20: 4}, 0, 20, 0.9),
  )
  def test_is_the_quantile(self, places, rest, expected, quantile=0.5):
    counts = np.full(len(bounded_sums.NORM_BINS) + 1, float(rest))
    for place, count in places.items():
      counts[place] += count
    found = training.first_clip_norm(counts, quantile)
    self.assertEqual(found, bounded_sums.NORM_BINS[expected])


class UnclippingNormTest(parameterized.TestCase):

  @parameterized.parameters(([3, 3, 20], 20), ([5, len(bounded_sums.NORM_BINS)], -1), ([], -1))
  def test_is_twice_the_edge_above_the_largest_norm_or_the_last(self, places, expected):
    counts = np.bincount(places, minlength=len(bounded_sums.NORM_BINS) + 1)
    self.assertEqual(training.unclipping_norm(counts), 2 * bounded_sums.NORM_BINS[expected])
