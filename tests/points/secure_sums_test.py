import functools
import math
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import private_sums
from fl_clustering.points import secure_sums
from tests import nightly
from tests.points import sample_queries

_CAPACITY = 8


class ScalingTest(absltest.TestCase):

  def test_a_column_without_factor_gets_its_shift_back(self):
    chosen = secure_sums.Scaling(np.array([1.0, 5.0, 2.0]), np.array([2.0, 0.0, 0.5]))
    points = np.array([[3.0, 5.0, 4.0], [0.0, 5.0, 2.0]])
    scaled = chosen.apply(points)
    np.testing.assert_allclose(scaled, [[4.0, 0.0, 1.0], [-2.0, 0.0, 0.0]])
    np.testing.assert_allclose(chosen.undo(scaled), points)


class MessageBytesTest(parameterized.TestCase):

  @parameterized.parameters((None,), (sample_queries.LIMITS,))
  def test_what_is_stated_is_what_is_sent(self, limits):
    messages, total = [], secure_sums.PointArrays.total

    def record(clients, question, sent, shares):
      answer = total(clients, question, sent, shares)
      arrays = [array for name, array in sent.items() if name != "num_groups"]
      messages.append((sum(array.nbytes for array in arrays), answer.nbytes))
      return answer

    points = secure_sums.FederatedPoints(
        sample_queries.in_steps(secure_sums.hold({"a": sample_queries.points(7)})), _CAPACITY
    )
    query = sample_queries.queries()["clipped"]  # More groups than columns.
    with mock.patch.object(secure_sums.PointArrays, "total", record):
      points.totals(query, limits=limits)
    stated = points.message_bytes(query, is_limited=True) if limits else points.message_bytes(query)
    self.assertEqual(messages, [stated])


class WithinLimitsTest(parameterized.TestCase):

  _LIMITS = np.array([2.0**21, 2.0**21, 2.0**23])

  def _norm(self, totals):
    # In exact arithmetic, up to one division.
    scaled = [int(t) * 4 if i % 3 < 2 else int(t) for i, t in enumerate(np.ravel(totals))]
    return math.sqrt(sum(value**2 for value in scaled)) / 2.0**23

  def test_whatever_the_totals_are_their_norm_is_at_most_one(self):
    rng = np.random.default_rng(0)
    for size in (1, 2.0**20, 2.0**22, 2.0**30, 2.0**50):
      for _ in range(20):
        totals = np.rint(size * rng.standard_normal((5, 3))).astype(np.int64)
        found = secure_sums.within_limits(np, totals, self._LIMITS)
        self.assertLessEqual(self._norm(found), 1)
        if self._norm(totals) < 0.999:
          np.testing.assert_array_equal(found, totals)
        else:
          self.assertGreater(self._norm(found), 0.998)

  @parameterized.parameters(3, 6, 10)
  def test_rounding_makes_no_norm_larger_than_one(self, num_groups):
    # Integers of more bits than a float64's, so that truncation hides nothing.
    limit, totals = 2**55, np.full((num_groups, 1), 2**61)
    found = secure_sums.within_limits(np, totals, np.array([float(limit)]))
    square = sum(value**2 for value in found.ravel().tolist())
    self.assertLessEqual(square, limit**2)
    self.assertGreater(square, 0.999 * limit**2)

  def test_all_parts_get_smaller_by_the_same_factor(self):
    totals = np.array([[3 * 2**30, -(2**30), 2**31], [0, 2**29, 5 * 2**30]])
    found = secure_sums.within_limits(np, totals, self._LIMITS)
    np.testing.assert_allclose(found / found[0, 0], totals / totals[0, 0], atol=1e-5)

  def test_no_points(self):
    zeros = np.zeros((2, 3), np.int64)
    np.testing.assert_array_equal(secure_sums.within_limits(np, zeros, self._LIMITS), zeros)

  @parameterized.parameters((1, 3), (5, 3))
  def test_many_clients_at_a_time_have_the_bits_of_each(self, *shape):
    rng = np.random.default_rng(0)
    totals = (rng.standard_normal((50, *shape)) * 2.0 ** rng.uniform(0, 60, (50, 1, 1))).astype(int)
    np.testing.assert_array_equal(
        secure_sums.within_limits(np, totals, self._LIMITS),
        [secure_sums.within_limits(np, one, self._LIMITS) for one in totals],
    )


class FederatedPointsTest(parameterized.TestCase):

  def _federation(self, parts):
    """Returns `FederatedPoints` of one client for each part."""
    clients = secure_sums.hold({str(index): part for index, part in enumerate(parts)})
    return secure_sums.FederatedPoints(sample_queries.in_steps(clients), _CAPACITY)

  @parameterized.parameters(*sample_queries.queries())
  def test_the_same_bits_as_pooled_points_however_they_are_split(self, name):
    query, points = sample_queries.queries()[name], sample_queries.points()
    expected = private_sums.PooledPoints(points, sample_queries.RADIUS).totals(query)
    shuffled = points[np.random.default_rng(2).permutation(len(points))]
    for edges in ([], [1], [0, 7, 7, 4000]):
      found = self._federation(np.split(shuffled, edges)).totals(query)
      self.assertEqual(found.dtype, np.int64)
      np.testing.assert_array_equal(found, expected)

  def test_one_column(self):
    query, points = sample_queries.queries(1)["scores"], sample_queries.points(100, 1)
    expected = private_sums.PooledPoints(points, sample_queries.RADIUS).totals(query)
    found = self._federation(np.split(points, 2)).totals(query)
    np.testing.assert_array_equal(found, expected)

  def test_every_client_is_kept_within_limits_by_itself(self):
    parts = np.split(sample_queries.points(), [20, 2000])
    query = sample_queries.queries()["excesses"]
    expected = sum(
        secure_sums.within_limits(
            np, self._federation([part]).totals(query), query.by_column(sample_queries.LIMITS)
        )
        for part in parts
    )
    found = self._federation(parts).totals(query, limits=sample_queries.LIMITS)
    np.testing.assert_array_equal(found, expected)
    self.assertFalse(np.array_equal(found, self._federation(parts).totals(query)))

  def test_shares_are_added_once_for_each_client(self):
    query = sample_queries.queries()["excesses"]
    federation = self._federation(np.split(sample_queries.points(), 4))
    exact, shares = federation.totals(query), []

    def draw_share():
      shares.append(np.random.default_rng(len(shares)).integers(-2**40, 2**40, query.shape))
      return shares[-1]

    noisy = federation.totals(query, draw_share)
    self.assertLen(shares, 4)
    np.testing.assert_array_equal(noisy - exact, sum(shares))

  def test_totals_may_be_large_and_below_zero(self):
    query = sample_queries.queries()["clipped"]
    federation = self._federation(np.split(sample_queries.points(), 2))
    for share in (2**59, -(2**59)):
      found = federation.totals(query, lambda: np.full(query.shape, share))
      np.testing.assert_array_equal(found - federation.totals(query), 2 * share)


class SinglePointsTest(parameterized.TestCase):

  @parameterized.parameters(
      *((name, None) for name in sample_queries.queries() if "kernels" not in name),
      ("excesses", {"residual_sums": 1e5, "counts": 2e5, "excesses": 3e5}),
      ("clipped", {"residual_sums": 1e5, "counts": 2e5}),
  )
  def test_the_bits_of_as_many_clients_one_after_the_other(self, name, limits):
    # By day, some: how clients' messages are added up doesn't depend on their kind.
    nightly.skip_by_day(self, limits is None and name != "scores")
    query = sample_queries.queries()[name]
    points = sample_queries.points(2100)  # More than a block.

    def totals(clients, limits):
      draw = functools.partial(np.random.default_rng(3).integers, -(2**60), 2**60, query.shape)
      held = secure_sums.FederatedPoints(sample_queries.in_steps(clients), _CAPACITY)
      return held.totals(query, draw, limits)

    single = secure_sums.SinglePoints(points, secure_sums.identity(3))
    found = totals(single, limits)
    self.assertEqual(found.dtype, np.int64)
    expected = totals(secure_sums.hold(dict(enumerate(points[:, np.newaxis]))), limits)
    np.testing.assert_array_equal(found, expected)
    self.assertEqual(np.array_equal(found, totals(single, None)), limits is None)


class SignedTest(absltest.TestCase):

  def test_every_total_that_clients_may_have_is_read_back(self):
    # Fewer than 2^30 points of at most 2^31: from -2^61 to 2^61 - 1.
    totals = np.array([-(2**61), -1, 0, 1, 2**61 - 1])
    np.testing.assert_array_equal(
        secure_sums.signed(np, totals % secure_sums.MODULUS), totals
    )
