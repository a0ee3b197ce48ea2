"""Tests for fl_clustering.points.secure_sums, in this process and through TFF."""

import functools
import math
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from dp_clustering import cluster_statistics
from dp_clustering import point_grid
from dp_clustering import private_sums
from dp_clustering import sum_query
from fl_clustering import runtime
from fl_clustering.engine.tff import point_files
from fl_clustering.kmeans import sum_kinds
from fl_clustering.multiview import sums as view_sums
from fl_clustering.points import grid_scaling
from fl_clustering.points import secure_sums
from tests import nightly

_RADIUS = 3.0
_CAPACITY = 8
_VIEWS = (1, 2)


def _points(num_points=5000, dim=3):
  """Returns points in the ball, half of them on the borders between centers."""
  points = np.random.default_rng(0).uniform(-1, 1, (num_points, dim))
  points[::2] = np.rint(2 * points[::2]) / 2
  return points


def _queries(dim=3):
  """Returns queries of all kinds by name."""
  rng = np.random.default_rng(1)
  centers = point_grid.on_point_grid(np.rint(4 * rng.uniform(-1, 1, (5, dim))) / 4, _RADIUS)
  directions = np.rint(rng.uniform(-1, 1, (5, dim)) * 2**20)
  halves = {"centers": centers, "directions": directions, "thresholds": np.zeros((5, 1))}
  clipped = {
      "centers": centers, "clip_radii": np.full((5, 1), 0.1 * point_grid.POINT_STEPS)
  }
  origin, cells = {"origin": np.zeros((1, dim))}, {"cells": np.full((5, dim), 0.7)}
  queries = {
      "clipped": (cluster_statistics.ClippedResiduals(False), clipped),
      "excesses": (cluster_statistics.ClippedResiduals(True), clipped),
      "start": (sum_kinds.Start(), origin),
      "children": (sum_kinds.ChildSums(False), halves),
      "halves": (sum_kinds.ChildSums(True), halves),
      "fine_sums": (sum_kinds.FineSums(), {"centers": centers, **cells}),
      "scores": (sum_kinds.Scores(), {"centers": centers}),
  }
  if dim == sum(_VIEWS):
    rates = np.tile(np.array([3.0, 0.7]) / point_grid.POINT_STEPS**2, (5, 1))
    views = {"centers": centers, "rates": rates, "factors": np.tile([1.0, 0.3], (5, 1))}
    queries |= {
        "kernels": (view_sums.KernelSums(_VIEWS, 2**30), views),
        "fine_kernels": (view_sums.FineKernelSums(_VIEWS), {**views, **cells}),
    }
  return {name: sum_query.SumQuery(*query) for name, query in queries.items()}


_LIMITS = {"residual_sums": 1e7, "counts": 2e7, "excesses": 3e7}


def _in_steps(clients):
  steps = np.full(clients.num_columns, point_grid.POINT_STEPS / _RADIUS)
  return clients.scaled(secure_sums.Scaling(np.zeros(clients.num_columns), steps))


class BothWaysTest(parameterized.TestCase):
  """The contract of `secure_sums.ClientPoints`: the same bits in this process and through TFF.

  Multi-view k-means, whose sums have kernels, computes in NumPy alone.
  """

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.enterClassContext(runtime.LocalRuntime())

  def _both(self, parts):
    """Returns clients with these points in this process, and as TFF's."""
    clients = {str(index): part for index, part in enumerate(parts)}
    yield secure_sums.hold(clients)
    yield point_files.write_files(clients, self.create_tempdir().full_path)

  def _check(self, parts, ask):
    in_process, through_tff = map(ask, self._both(parts))
    self.assertEqual(in_process.dtype, np.int64)
    np.testing.assert_array_equal(in_process, through_tff)

  @parameterized.parameters(
      *((name, None) for name in _queries() if "kernels" not in name), ("excesses", _LIMITS),
      ("clipped", {name: _LIMITS[name] for name in ("residual_sums", "counts")}),
  )
  def test_every_kind_of_query(self, name, limits):
    query = _queries()[name]

    def ask(has_shares, clients):
      draw = functools.partial(np.random.default_rng(3).integers, -(2**60), 2**60, query.shape)
      points = secure_sums.FederatedPoints(_in_steps(clients), _CAPACITY)
      return points.totals(query, draw if has_shares else None, limits)

    # A client without points, one of few, and some of more than a block.  The sum of all shares
    # leaves the modulus.
    parts = np.split(_points(), [0, 7, 2600])
    # By day, `point_files_test` fits without shares, too.
    for has_shares in nightly.either((True,), (False, True)):
      self._check(parts, functools.partial(ask, has_shares))

  @parameterized.product(
      question=[
          grid_scaling.ColumnExponents(), grid_scaling.ColumnMoments(),
          grid_scaling.NormExponents(),
      ],
      size=[1.0, 2.0**20, 1e100, 1e-100, 1e-310],
  )
  def test_every_question_of_the_grid(self, question, size):
    rng = np.random.default_rng(4)
    # Powers of two are edges between exponents.
    powers = 2.0 ** rng.integers(-30, 30, (3000, 3)) * rng.choice([-1, 0, 1], (3000, 3))
    points = size * np.concatenate([powers, powers + 1e-9, rng.standard_normal((3000, 3))])
    if not isinstance(question, grid_scaling.ColumnExponents):
      bits = 30 if isinstance(question, grid_scaling.ColumnMoments) else 20
      points = np.clip(points * 2.0**bits, -(2.0**bits), 2.0**bits)
    self._check(np.split(points, [1, 4000]), lambda clients: clients.total(question, {}))


class ScalingTest(absltest.TestCase):

  def test_a_column_without_factor_gets_its_shift_back(self):
    chosen = secure_sums.Scaling(np.array([1.0, 5.0, 2.0]), np.array([2.0, 0.0, 0.5]))
    points = np.array([[3.0, 5.0, 4.0], [0.0, 5.0, 2.0]])
    scaled = chosen.apply(points)
    np.testing.assert_allclose(scaled, [[4.0, 0.0, 1.0], [-2.0, 0.0, 0.0]])
    np.testing.assert_allclose(chosen.undo(scaled), points)


class MessageBytesTest(parameterized.TestCase):

  @parameterized.parameters((None,), (_LIMITS,))
  def test_what_is_stated_is_what_is_sent(self, limits):
    messages, total = [], secure_sums.PointArrays.total

    def record(clients, question, sent, shares):
      answer = total(clients, question, sent, shares)
      arrays = [array for name, array in sent.items() if name != "num_groups"]
      messages.append((sum(array.nbytes for array in arrays), answer.nbytes))
      return answer

    points = secure_sums.FederatedPoints(
        _in_steps(secure_sums.hold({"a": _points(7)})), _CAPACITY
    )
    query = _queries()["clipped"]  # More groups than columns.
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

  @parameterized.parameters((1, 1), (5, 3), (96, 43), (1, 4097))
  def test_libraries_round_alike(self, *shape):
    rng = np.random.default_rng(0)
    # So large that the integers show every bit of a factor.
    limits = 2.0 ** rng.uniform(54, 55, shape[1])
    for size in [2.0**20] + 20 * [2.0**58]:
      totals = np.rint(size * rng.standard_normal(shape)).astype(np.int64)
      np.testing.assert_array_equal(
          secure_sums.within_limits(np, totals, limits),
          secure_sums.within_limits(tnp, tf.constant(totals), tf.constant(limits)).numpy(),
      )


class FederatedPointsTest(parameterized.TestCase):

  def _federation(self, parts):
    """Returns `FederatedPoints` of one client for each part."""
    clients = secure_sums.hold({str(index): part for index, part in enumerate(parts)})
    return secure_sums.FederatedPoints(_in_steps(clients), _CAPACITY)

  @parameterized.parameters(*_queries())
  def test_the_same_bits_as_pooled_points_however_they_are_split(self, name):
    query, points = _queries()[name], _points()
    expected = private_sums.PooledPoints(points, _RADIUS).totals(query)
    shuffled = points[np.random.default_rng(2).permutation(len(points))]
    for edges in ([], [1], [0, 7, 7, 4000]):
      found = self._federation(np.split(shuffled, edges)).totals(query)
      self.assertEqual(found.dtype, np.int64)
      np.testing.assert_array_equal(found, expected)

  def test_squares_are_rounded_alike(self):
    # Half a unit in the last place of the square decides how this excess is truncated.
    arrays = {"centers": [[0.0]], "clip_radii": [[45151793.11723978]]}
    kind = cluster_statistics.ClippedResiduals(True)
    points = np.full((64, 1), 26193683.0)
    _, expected = kind.contributions(np, points, {k: np.array(v) for k, v in arrays.items()})
    arrays = {name: tf.constant(rows, tf.float64) for name, rows in arrays.items()}
    _, found = kind.contributions(tnp, tf.constant(points), arrays)
    np.testing.assert_array_equal(found.numpy(), expected)

  def test_one_column(self):
    query, points = _queries(1)["scores"], _points(100, 1)
    expected = private_sums.PooledPoints(points, _RADIUS).totals(query)
    found = self._federation(np.split(points, 2)).totals(query)
    np.testing.assert_array_equal(found, expected)

  def test_every_client_is_kept_within_limits_by_itself(self):
    parts = np.split(_points(), [20, 2000])
    query = _queries()["excesses"]
    expected = sum(
        secure_sums.within_limits(
            np, self._federation([part]).totals(query), query.by_column(_LIMITS)
        )
        for part in parts
    )
    found = self._federation(parts).totals(query, limits=_LIMITS)
    np.testing.assert_array_equal(found, expected)
    self.assertFalse(np.array_equal(found, self._federation(parts).totals(query)))

  def test_shares_are_added_once_for_each_client(self):
    query = _queries()["excesses"]
    federation = self._federation(np.split(_points(), 4))
    exact, shares = federation.totals(query), []

    def draw_share():
      shares.append(np.random.default_rng(len(shares)).integers(-2**40, 2**40, query.shape))
      return shares[-1]

    noisy = federation.totals(query, draw_share)
    self.assertLen(shares, 4)
    np.testing.assert_array_equal(noisy - exact, sum(shares))

  def test_totals_may_be_large_and_below_zero(self):
    query = _queries()["clipped"]
    federation = self._federation(np.split(_points(), 2))
    for share in (2**59, -(2**59)):
      found = federation.totals(query, lambda: np.full(query.shape, share))
      np.testing.assert_array_equal(found - federation.totals(query), 2 * share)


class SinglePointsTest(parameterized.TestCase):

  @parameterized.parameters(
      *((name, None) for name in _queries() if "kernels" not in name),
      ("excesses", {"residual_sums": 1e5, "counts": 2e5, "excesses": 3e5}),
      ("clipped", {"residual_sums": 1e5, "counts": 2e5}),
  )
  def test_the_bits_of_as_many_clients_one_after_the_other(self, name, limits):
    # By day, some; `test_every_kind_of_query` has all.
    nightly.skip_by_day(self, limits is None and name not in ("clipped", "scores", "fine_sums"))
    query, points = _queries()[name], _points(2100)  # More than a block.

    def totals(clients, limits):
      draw = functools.partial(np.random.default_rng(3).integers, -(2**60), 2**60, query.shape)
      return secure_sums.FederatedPoints(_in_steps(clients), _CAPACITY).totals(query, draw, limits)

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
