import math
import os
import tracemalloc
from unittest import mock

from absl.testing import parameterized
import numpy as np

from dp_clustering import clustering_params
from dp_clustering import ledger as ledger_lib
from dp_clustering import noise
from dp_clustering import point_grid
from dp_clustering import private_sums

_CENTERS = np.array([[0.3, 0.0, 0.0], [-0.3, 0.1, 0.0], [0.0, 0.0, 0.9]])
_WEIGHTS = {"count_weight": 0.5, "squared_error_weight": 1.0}


def _points(num_points=500, dim=3, seed=0):
  rng = np.random.default_rng(seed)
  return rng.normal(0, 0.3, (num_points, dim))  # Some are outside the ball.


def _sums(points, epsilon=math.inf, seed=0, radius=1.0):
  source = noise.build_noise_source(epsilon, seed)
  ledger = ledger_lib.Ledger(epsilon, 1e-6, source)
  return private_sums.PrivateSums(np.asarray(points), radius, source, ledger), ledger


def _expected_statistics(points, centers, residual_radius):
  """Returns sums, counts and squared errors, one point after the other."""
  sums = np.zeros(centers.shape)
  counts, errors = np.zeros(len(centers)), np.zeros(len(centers))
  for point in clustering_params.map_to_ball(points, 1.0):
    residuals = point - centers
    nearest = np.argmin((residuals**2).sum(axis=1))
    residual = residuals[nearest]
    residual = residual * min(1, residual_radius / np.linalg.norm(residual))
    sums[nearest] += residual
    counts[nearest] += 1
    errors[nearest] += residual @ residual
  return sums, counts, errors


class ExactSumsTest(parameterized.TestCase):

  @parameterized.parameters(0.1, 0.4, 2.0)
  def test_cluster_statistics(self, residual_radius):
    sums, _ = _sums(_points())
    statistics = sums.private_cluster_statistics(
        _CENTERS, residual_radius, math.inf, name="step", **_WEIGHTS
    )
    expected = _expected_statistics(_points(), _CENTERS, residual_radius)
    # The grid takes less than a step per point and coordinate.
    tolerance = 2 * 500 / point_grid.CONTRIBUTION_STEPS
    np.testing.assert_allclose(statistics.residual_sums, expected[0], atol=tolerance)
    np.testing.assert_array_equal(statistics.counts, expected[1])
    np.testing.assert_allclose(statistics.squared_errors, expected[2], atol=4 * tolerance)

  def test_errors_only_where_they_are_asked_for(self):
    sums, ledger = _sums(_points(), epsilon=1.0)
    statistics = sums.private_cluster_statistics(
        _CENTERS, 1.0, 0.1, name="step", count_weight=0.5, squared_error_weight=0.0
    )
    self.assertIsNone(statistics.squared_errors)
    self.assertAlmostEqual(ledger.releases[0].sensitivity, math.sqrt(1.25))

  def test_prefix_counts_and_leaf_sums(self):
    hyperplanes = np.random.default_rng(1).normal(size=(5, 3))
    sums, _ = _sums(_points())
    hashed = sums.hashed(hyperplanes)
    points = clustering_params.map_to_ball(_points(), 1.0)
    bits = points @ hyperplanes.T < 0
    for level in range(6):
      prefixes = np.arange(2**level)
      codes = bits[:, :level] @ (2 ** np.arange(level)[::-1]).astype(int)
      expected = [np.count_nonzero(codes == prefix) for prefix in prefixes]
      counts = hashed.private_prefix_counts(level, prefixes, 0.0)
      np.testing.assert_array_equal(counts, expected)
    # Not all points are in a leaf, and the leaves are of different levels.
    leaf_sums = hashed.private_leaf_sums([3, 0], [2, 1], 0.0)
    inside = [bits[:, 0] & bits[:, 1], ~bits[:, 0]]
    expected = [points[members].sum(axis=0) for members in inside]
    np.testing.assert_allclose(leaf_sums, expected, atol=500 / point_grid.CONTRIBUTION_STEPS)

  def test_codes_of_many_bits(self):
    hyperplanes = np.random.default_rng(1).normal(size=(24, 3))
    hashed = _sums(_points())[0].hashed(hyperplanes)
    bits = clustering_params.map_to_ball(_points(), 1.0) @ hyperplanes.T < 0
    code = int("".join(str(int(bit)) for bit in bits[7]), 2)
    same = np.count_nonzero((bits == bits[7]).all(axis=1))
    self.assertEqual(hashed.private_prefix_counts(24, [code], 0.0), [same])

  def test_no_points(self):
    sums, _ = _sums(np.zeros((0, 3)))
    self.assertEqual(sums.private_count(0.0, "count"), 0)
    statistics = sums.private_cluster_statistics(
        _CENTERS, 1.0, math.inf, name="step", **_WEIGHTS
    )
    np.testing.assert_array_equal(statistics.counts, [0, 0, 0])
    hashed = sums.hashed(np.eye(3))
    np.testing.assert_array_equal(hashed.private_leaf_sums([0], [0], 0.0), np.zeros((1, 3)))


def _all_releases(points, epsilon):
  sums, _ = _sums(points, epsilon)
  mu = 0.01 if epsilon < math.inf else math.inf
  std = 1 / mu if mu < math.inf else 0.0
  hashed = sums.hashed(np.random.default_rng(1).normal(size=(4, 3)))
  statistics = sums.private_cluster_statistics(_CENTERS, 0.4, mu, name="step", **_WEIGHTS)
  return [
      sums.private_count(std, "count"),
      hashed.private_prefix_counts(2, [0, 1, 2, 3], std),
      hashed.private_leaf_sums([0, 1], [1, 1], std),
      statistics.residual_sums,
      statistics.counts,
      statistics.squared_errors,
  ]


class InvarianceTest(parameterized.TestCase):

  def _assert_same(self, points, other):
    for epsilon in (1.0, math.inf):
      for first, second in zip(_all_releases(points, epsilon), _all_releases(other, epsilon)):
        np.testing.assert_array_equal(first, second)

  def test_the_order_of_the_points_does_not_matter(self):
    points = _points()
    self._assert_same(points, points[np.random.default_rng(2).permutation(500)])

  @parameterized.parameters((1, 10**9), (100, 10**9), (10**9, 1), (10**9, 50), (10**9, 10**9))
  def test_the_block_size_does_not_matter(self, elements, products):
    points = _points()
    expected = _all_releases(points, 1.0)
    with mock.patch.multiple(
        private_sums, BLOCK_ELEMENTS=elements, BLOCK_PRODUCTS=products
    ):
      for first, second in zip(_all_releases(points, 1.0), expected):
        np.testing.assert_array_equal(first, second)

  def test_on_a_border_no_point_depends_on_the_others(self):
    # A product of matrices rounds a row differently when it is the only one.
    rng = np.random.default_rng(6)
    normal = rng.choice([-1, 1], 40) / math.sqrt(40)
    points = rng.normal(0, 0.1, (500, 40))
    points -= (points @ normal)[:, np.newaxis] * normal
    centers = np.stack([0.5 * normal, -0.5 * normal])

    def counts():
      sums, _ = _sums(points)
      statistics = sums.private_cluster_statistics(
          centers, 1.0, math.inf, "step", **_WEIGHTS
      )
      hashed = sums.hashed(np.tile(normal, (8, 1)))
      return [*statistics.counts, *hashed.private_prefix_counts(1, [0, 1], 0.0)]

    together = counts()
    with mock.patch.object(private_sums, "BLOCK_ELEMENTS", 1):
      self.assertEqual(counts(), together)

  @parameterized.parameters(np.float16, np.float32, np.int8, np.int64, bool)
  def test_points_of_any_type_count_as_what_they_are(self, dtype):
    points = (2 * _points()).astype(dtype)
    self._assert_same(points, points.astype(np.float64))

  def test_the_layout_of_the_points_does_not_matter(self):
    points = _points()
    self._assert_same(points, np.asfortranarray(points))
    self._assert_same(points, np.repeat(points, 2, axis=0)[::2])

  def test_the_points_are_not_changed(self):
    points = _points()
    points[0] = np.nan
    copy = points.copy()
    _all_releases(points, 1.0)
    np.testing.assert_array_equal(points, copy)


class MemoryTest(parameterized.TestCase):

  @parameterized.parameters((20_000, 64), (100_000, 4))
  def test_takes_little_beside_the_points(self, num_points, dim):
    points = _points(num_points, dim)  # Blocks with rows outside of the ball are copied.
    sums, _ = _sums(points)
    centers = clustering_params.map_to_ball(_points(1000, dim, seed=1), 1.0)
    tracemalloc.start()
    with (
        mock.patch.multiple(private_sums, BLOCK_ELEMENTS=2**13, BLOCK_PRODUCTS=2**17),
        mock.patch.object(os, "sched_getaffinity", return_value={0, 1}),
    ):
      hashed = sums.hashed(np.random.default_rng(1).normal(size=(4, dim)))
      hashed.private_leaf_sums([0, 1], [1, 1], 0.0)
      sums.private_cluster_statistics(centers, 0.4, math.inf, "step", **_WEIGHTS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The codes, once in 32 bits and twice in 64, and what two blocks need.
    self.assertLess(peak, 20 * num_points + 2**23)


class PrivacyTest(parameterized.TestCase):

  @parameterized.parameters(1, 2, 17, 300)
  def test_the_grid_makes_no_contribution_longer(self, dim):
    # Of norm 1 up to rounding, and on or near the grid's points.
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, dim))
    rows[:50] = np.rint(rows[:50] * 3)
    rows[0] = 1
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    on_grid = np.trunc(point_grid.contributions(rows, 1.0))
    squares = (on_grid.astype(int).astype(object) ** 2).sum(axis=1)
    self.assertLessEqual(max(squares), point_grid.CONTRIBUTION_STEPS**2)

  @parameterized.parameters((0.5, 1.0), (0.25, 0.0), (0.4, 3.0))
  def test_no_point_changes_more_than_the_ledger_says(self, count_weight, error_weight):
    # The points of a single cluster, so that the sums are one point's contribution.
    center = np.zeros((1, 3))
    rng = np.random.default_rng(4)
    largest = 0.0
    for _ in range(200):
      direction = rng.normal(size=3)
      point = direction / np.linalg.norm(direction) * rng.choice([0, 0.3, 0.5, 0.7, 1])
      statistics = _sums([point])[0].private_cluster_statistics(
          center, 0.5, math.inf, "step", count_weight, error_weight
      )
      y = statistics.residual_sums[0] / 0.5
      parts = [y @ y, count_weight**2]
      if error_weight:
        parts.append((error_weight * (statistics.squared_errors[0] / 0.5**2 - 0.5)) ** 2)
      largest = max(largest, math.sqrt(sum(parts)))
    sums, ledger = _sums(np.zeros((0, 3)), epsilon=1.0)
    sums.private_cluster_statistics(center, 0.5, 0.1, "step", count_weight, error_weight)
    sensitivity = ledger.releases[0].sensitivity
    self.assertLessEqual(largest, sensitivity)
    self.assertGreater(largest, 0.999 * sensitivity)

  @parameterized.parameters(1e-100, 1e-30, 1e30, 1e100)
  def test_residuals_are_clipped_whatever_the_unit(self, radius):
    points = radius * np.array([[0.5, 0.0, 0.0], [0.0, np.inf, 0.0], [1e90, 0.0, 0.0]])
    sums, _ = _sums(points, radius=radius)
    statistics = sums.private_cluster_statistics(
        np.zeros((1, 3)), 0.02 * radius, math.inf, "step", **_WEIGHTS
    )
    np.testing.assert_allclose(
        statistics.residual_sums, [[0.04 * radius, 0.02 * radius, 0]], rtol=1e-5
    )
    self.assertAlmostEqual(statistics.squared_errors[0] / (0.02 * radius) ** 2, 3, places=4)

  @parameterized.parameters(1e-200, 1e-150, 1e150, math.inf, 0.0, math.nan)
  def test_refuses_a_radius_that_could_switch_clipping_off(self, radius):
    with self.assertRaisesRegex(ValueError, "^`radius` must be a number in"):
      _sums(_points(), radius=radius)

  @parameterized.parameters(2**53 + 1, 2**54 + 2, 2**62 - 3, -(2**62) + 1)
  def test_noise_and_sums_are_added_as_integers(self, draw):
    # In float64, 2^53 + 1 is 2^53, and 2^54 + 2 plus an odd sum is a multiple of 4.
    grid_sums = np.arange(-3, 4)
    with mock.patch.object(
        noise.SeededNoise, "discrete_gaussian", return_value=np.full(7, draw)
    ):
      # pylint: disable-next=protected-access
      noisy = _sums(_points(), epsilon=1.0)[0]._noisy(grid_sums, 1.0)
    expected = [float(draw + int(x)) / point_grid.CONTRIBUTION_STEPS for x in grid_sums]
    np.testing.assert_array_equal(noisy, expected)

  def test_nothing_is_released_beyond_the_budget(self):
    sums, ledger = _sums(_points(), epsilon=1.0)
    hashed = sums.hashed(np.eye(3))
    for release in (
        lambda: sums.private_count(0.1, "count"),
        lambda: hashed.private_prefix_counts(1, [0], 0.1),
        lambda: hashed.private_leaf_sums([0], [0], 0.1),
        lambda: sums.private_cluster_statistics(_CENTERS, 1.0, 9.0, name="step", **_WEIGHTS),
    ):
      with mock.patch.object(noise.SeededNoise, "discrete_gaussian") as draw:
        with self.assertRaises(ledger_lib.PrivacyBudgetExceeded):
          release()
        draw.assert_not_called()
    self.assertEmpty(ledger.releases)

  def test_the_noise_is_what_the_statistics_say(self):
    # Sums of squares of 4,000 draws: outside of 10% with probability below 1e-5.
    points = np.zeros((0, 40))
    centers = np.random.default_rng(5).normal(size=(100, 40))
    sums, ledger = _sums(points, epsilon=1.0)
    statistics = sums.private_cluster_statistics(centers, 0.2, 0.1, "step", 0.5, 2.0)
    std = statistics.residual_sum_std
    self.assertAlmostEqual(std, 0.2 * ledger.releases[0].sensitivity / 0.1)
    self.assertBetween(statistics.residual_sums.std() / std, 0.9, 1.1)
    # Of 100 draws: outside of 35% with probability below 1e-5.
    self.assertBetween(statistics.counts.std() / statistics.count_std, 0.65, 1.35)
    self.assertAlmostEqual(statistics.count_std, std / 0.2 / 0.5)
    errors = statistics.squared_errors / 0.2**2 - statistics.counts / 2
    self.assertBetween(errors.std() / (std / 0.2 / 2.0), 0.65, 1.35)

  def test_the_noise_on_counts_and_leaf_sums_is_what_the_ledger_says(self):
    # 4,096 and 4,000 draws: outside of 6% with probability below 1e-6.
    sums, ledger = _sums(np.zeros((0, 40)), epsilon=1.0)
    hashed = sums.hashed(np.random.default_rng(5).normal(size=(12, 40)))
    counts = hashed.private_prefix_counts(12, np.arange(4096), 50.0)
    leaf_sums = hashed.private_leaf_sums(np.arange(100), np.full(100, 12), 70.0)
    self.assertBetween(counts.std() / ledger.releases[0].std, 0.94, 1.06)
    self.assertBetween(leaf_sums.std() / ledger.releases[1].std, 0.94, 1.06)
    self.assertEqual([release.std for release in ledger.releases], [50.0, 70.0])
    # 400 draws: outside of 16% with probability below 1e-5.
    draws = [_sums(np.zeros((0, 1)), 1.0, seed)[0].private_count(9.0, "n") for seed in range(400)]
    self.assertBetween(np.std(draws) / 9.0, 0.84, 1.16)
