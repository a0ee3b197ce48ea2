import fractions
import math

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from sklearn import preprocessing

from clustering_basics import single_thread_kmeans
from dp_clustering import point_grid
from dp_clustering import private_sums
from experiments.federated_kmeans import data
from fl_clustering.kmeans import split_and_swap

_STEPS = point_grid.POINT_STEPS


def _grid_rows(points):
  """Returns points about their mean, on the grid."""
  centered = points - points.mean(axis=0)
  largest = np.linalg.norm(centered, axis=1).max()
  radius = 2.0 ** math.ceil(math.log2(largest)) if largest else 1.0
  return point_grid.on_point_grid(centered, radius)


def _integers(rows):
  """Returns rows of Python's integers, which never overflow."""
  return rows.astype(np.int64).astype(object)


class _Sums:
  """Sums over rows on the grid, with all that was asked."""

  def __init__(self, rows, num_parts=1):
    self.queries = []
    self._parts = [
        private_sums.PooledPoints(part, float(_STEPS))
        for part in np.array_split(rows, num_parts)
    ]

  def totals(self, query):
    self.queries.append(query)
    return sum(part.totals(query) for part in self._parts)


def _fit(rows, k, seed=0, sums=None, **settings):
  return split_and_swap.sums_kmeans(
      (sums or _Sums(rows)).totals, rows.shape[1], int((_integers(rows) ** 2).sum()), k,
      np.random.default_rng(seed), **settings,
  )


def _inertia(rows, centers):
  return sum(((row - centers) ** 2).sum(axis=1).min() for row in rows)


def _blobs(num_points=200, num_blobs=4, dim=2, seed=0):
  rng = np.random.default_rng(seed)
  centers = 5 * rng.standard_normal((num_blobs, dim))
  noise = rng.standard_normal((num_points, dim))
  return _grid_rows(centers[rng.integers(num_blobs, size=num_points)] + noise)


class InertiasTest(absltest.TestCase):

  def test_are_exact_far_from_the_origin(self):
    rng = np.random.default_rng(0)
    # Two clusters of a few steps, whose squared norms are 2^50 times as large as their
    # inertia.
    rows = rng.integers(-3, 4, (40, 3)) + np.repeat([[_STEPS // 2], [-_STEPS // 2]], 20, axis=0)
    rows = rows.astype(object)
    clusters = np.repeat([0, 1], 20)
    centers = np.array([rows[0], rows[39] + 5])
    counts = np.array([20, 20])
    residuals = rows - centers[clusters]
    sums = np.array([residuals[clusters == own].sum(axis=0) for own in (0, 1)])
    at_centers, at_means = split_and_swap.inertias(
        (rows**2).sum(), centers.astype(float), counts, sums
    )
    self.assertEqual(at_centers, (residuals**2).sum())
    means = [[fractions.Fraction(x, 20) for x in rows[clusters == own].sum(axis=0)]
             for own in (0, 1)]
    self.assertEqual(at_means, ((rows - np.array(means)[clusters]) ** 2).sum())


class RoundsTest(parameterized.TestCase):

  def test_what_is_asked_is_on_the_grid_and_in_the_ball(self):
    rows = _blobs(num_points=60, dim=5)
    rows *= _STEPS / np.linalg.norm(rows, axis=1, keepdims=True)
    sums = _Sums(np.rint(rows))
    _fit(np.rint(rows), 6, sums=sums)
    for query in sums.queries:
      for array in query.arrays.values():
        np.testing.assert_array_equal(array, np.rint(array))
      for name in ("centers", "directions"):
        norms = np.linalg.norm(query.arrays[name], axis=1)
        self.assertLessEqual(norms.max(), _STEPS + math.sqrt(5))

  def test_history(self):
    rows = _blobs(num_points=500, num_blobs=12)
    sums = _Sums(rows)
    result = _fit(rows, 8, sums=sums)
    self.assertLen(result.history, len(sums.queries))
    self.assertLessEqual(len(sums.queries), 30)
    for step in result.history:
      # The means are at least as good as centers: points may be nearer to another one.
      self.assertLess(_inertia(rows, step.centers), 1.000001 * step.inertia)
    stages = [step.stage for step in result.history]
    self.assertEqual(list(dict.fromkeys(stages)), ["split", "lloyd", "swap", "settle"])
    after_splits = [step.inertia for step in result.history if len(step.centers) <= 8]
    self.assertEqual(result.inertia, min(after_splits[-stages[::-1].index("split"):]))

  def test_a_swap_that_gains_is_followed_by_another(self):
    # Of six clusters, a cycle swaps one.  Here the first one gains two percent, the next nothing.
    history = _fit(_blobs(num_points=100, num_blobs=30, seed=8), 6).history
    inertias = {stage: [step.inertia for step in history if step.stage == stage]
                for stage in ("lloyd", "swap")}
    ends = inertias["swap"][3::4]  # A cycle takes four rounds.
    self.assertLess(ends[0], 0.99 * inertias["lloyd"][-1])
    self.assertLen(ends, 2)
    self.assertGreater(ends[1], ends[0])

  @parameterized.parameters(12, 15, 20)
  def test_stops_in_time(self, max_rounds):
    rows = _blobs(num_points=500, num_blobs=12)
    result = _fit(rows, 12, max_rounds=max_rounds)
    self.assertLessEqual(len(result.history), max_rounds)
    self.assertLess(result.inertia, 1.3 * _fit(rows, 12).inertia)

  @parameterized.parameters((2, 6), (4, 7), (8, 8))
  def test_rounds_after_the_sixth_double_the_centers(self, num_centers, max_rounds):
    for k in (num_centers, 2 * num_centers):
      centers = _fit(_blobs(num_blobs=k), k, max_rounds=max_rounds).centers
      self.assertLen(np.unique(centers, axis=0), num_centers)

  def test_neither_order_nor_split_matter(self):
    rows = _blobs()
    shuffled = rows[np.random.default_rng(1).permutation(len(rows))]
    expected, found = _fit(rows, 5), _fit(shuffled, 5, sums=_Sums(shuffled, num_parts=7))
    self.assertEqual(found.inertia, expected.inertia)
    np.testing.assert_array_equal(found.centers, expected.centers)


def _table(name):
  """Returns a function that draws a table, which is the same each time, and its clusters."""

  def draw(unused_rng):
    points, labels = data.TABLES[name](return_X_y=True)
    return preprocessing.StandardScaler().fit_transform(points), len(np.unique(labels))

  return draw


def _repeated_rows(rng):
  rows = np.repeat(5 * rng.standard_normal((5, 3)), 60, axis=0)
  return np.concatenate([rows, 5 * rng.standard_normal((3,)) + rng.standard_normal((100, 3))]), 6


def _two_cities(rng):
  """Returns rows around eight spots in each of two cities, in degrees."""
  cities = np.array([[4.9, 52.37], [139.69, 35.69]])
  spots = np.concatenate([city + 0.05 * rng.standard_normal((8, 2)) for city in cities])
  return np.repeat(spots, 100, axis=0) + 0.002 * rng.standard_normal((1600, 2)), 16


def _bursts(rng):
  """Returns ten bursts of half a minute in a year, in seconds."""
  times = np.repeat(rng.uniform(0, 365 * 86400, 10), 100) + rng.uniform(0, 30, 1000)
  return 1.7e9 + times[:, np.newaxis], 10


def _mixture(rng):
  k, dim = int(rng.integers(2, 31)), int(rng.choice([1, 2, 3, 5, 10, 30]))
  shares = rng.dirichlet(np.full(k, rng.choice([0.5, 2.0, 20.0])))
  clusters = rng.choice(k, int(rng.choice([300, 1000, 3000])), p=shares)
  spread = rng.choice([1.0, 2.0, 5.0])
  stds = rng.uniform(0.3, 1.7, k)[clusters, np.newaxis]
  centers = spread * rng.standard_normal((k, dim))
  return centers[clusters] + stds * rng.standard_normal((len(clusters), dim)), k


def _one_hot():
  return np.eye(12)[np.random.default_rng(0).integers(12, size=300)]


def _blobs_and_outlier(rng, place):
  blobs = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], 100, axis=0)
  return np.concatenate([blobs + rng.standard_normal(blobs.shape), [[place, place]]]), 4


def _subclusters(rng):
  centers = rng.standard_normal((4, 1, 5)) + 1e-4 * rng.standard_normal((4, 3, 5))
  points = np.repeat(centers.reshape(-1, 5), 20, axis=0)
  return points + 1e-5 * rng.standard_normal((240, 5)), 12


class QualityTest(parameterized.TestCase):
  """Against scikit-learn with ten restarts, over seeds of the data and the solver."""

  @parameterized.named_parameters(
      ("grid", lambda rng: (data.sample_points(50, 1.0, rng)[0], 16)),
      ("overlapping_grid", lambda rng: (data.sample_points(50, 1.5, rng)[0], 16)),
      ("outlier", lambda rng: _blobs_and_outlier(rng, 99.0)),
      ("far_outlier", lambda rng: _blobs_and_outlier(rng, 9999.0)),
      ("subclusters", _subclusters),
      ("almost_all_rows", lambda rng: (rng.standard_normal((40, 3)), 38)),
      ("one_column", lambda rng: (rng.standard_normal((300, 1)) ** 3, 9)),
      # It takes more than 18 centers for the best 6.
      ("a_long_tail", lambda rng: (np.random.default_rng(10).lognormal(size=(200, 1)), 6)),
      *((name, _table(name)) for name in ("breast_cancer", "digits", "wine")),
      ("repeated_rows", _repeated_rows), ("two_cities", _two_cities), ("bursts", _bursts),
      ("mixtures", _mixture),
  )
  def test_inertia(self, draw):
    for seed in range(3):
      points, k = draw(np.random.default_rng(seed))
      rows = _grid_rows(points)
      peer = single_thread_kmeans.fit(rows, k, n_init=10, random_state=seed).cluster_centers_
      result = _fit(rows, k, seed)
      self.assertLess(_inertia(rows, result.centers), 1.01 * _inertia(rows, peer), seed)
      self.assertLessEqual(len(result.history), 40)


class DegenerateTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("one_cluster", np.arange(12.0).reshape(4, 3), 1),
      ("one_point", np.ones((1, 2)), 1),
      ("one_point_of_many_clusters", np.ones((1, 2)), 3),
      ("equal_points", np.ones((50, 2)), 3),
      ("as_many_clusters_as_points", np.arange(20.0).reshape(10, 2) ** 2, 10),
      ("more_clusters_than_points", np.arange(20.0).reshape(10, 2) ** 2, 13),
      ("more_clusters_than_different_points", np.repeat(np.eye(3), 9, axis=0), 5),
      ("as_many_clusters_as_different_points", _one_hot(), 12),
      ("one_column", np.repeat([[1.0], [2.0], [9.0]], 7, axis=0), 3),
  )
  def test_centers_are_all_different_points(self, points, k):
    rows = _grid_rows(points)
    result = _fit(rows, k)
    self.assertEqual(result.centers.shape, (k, rows.shape[1]))
    expected = np.unique(rows, axis=0) if k > 1 else rows.mean(axis=0, keepdims=True)
    found = np.unique(result.centers, axis=0)
    np.testing.assert_allclose(found, expected, atol=0 if k > 1 else 0.01)
    self.assertAlmostEqual(result.inertia, float(((rows - rows.mean(axis=0)) ** 2).sum())
                           if k == 1 else 0.0, delta=1e-6 * result.inertia)
