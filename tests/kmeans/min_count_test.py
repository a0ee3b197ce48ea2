"""No sum that a fit with `min_count` asks for is over fewer points: k-means and multi-view k-means.

Every question is looked at as it reaches the clients, and its cells are computed from the data.
"""

import dataclasses
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from sklearn import datasets

from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import least_counts
from fl_clustering.kmeans import sum_kinds
from fl_clustering.multiview import FederatedMultiViewKMeans
from fl_clustering.multiview import server_step
from fl_clustering.multiview import sums as view_sums
from fl_clustering.points import grid_scaling
from fl_clustering.points import secure_sums


def _ties():
  """Returns points of a lattice, many of which are as near to one mean as to another."""
  rng = np.random.default_rng(3)
  return rng.integers(0, 4, (90, 3)).astype(float)


def _outliers():
  rng = np.random.default_rng(4)
  blobs = np.repeat([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 9.0, 4.0]], 30, axis=0)
  far = [[99.0, 99.0, 9.0], [-60.0, 50.0, 1.0], [-60.0, 51.0, 1.0]]
  return np.concatenate([blobs + rng.standard_normal(blobs.shape), far])


# Points and the number of clusters.
_DATA = {
    "wine": lambda: (datasets.load_wine(return_X_y=True)[0], 30),
    "breast_cancer": lambda: (datasets.load_breast_cancer(return_X_y=True)[0], 6),
    "ties": lambda: (_ties(), 15),
    "outliers": lambda: (_outliers(), 5),
    "tiny": lambda: (np.random.default_rng(5).standard_normal((7, 3)), 3),
}


def _nearest(points, centers):
  """Returns the first nearest center of every point, in integers."""
  points, centers = points.astype(np.int64), centers.astype(np.int64)
  return ((points[:, np.newaxis] - centers) ** 2).sum(axis=2).argmin(axis=1)


class _Spy:
  """Notes how many points each part of a question is about, and passes the question on."""

  def __init__(self, points):
    self._points = points
    self.kinds, self.counts, self.in_cells = set(), [], []

  def patched(self):
    totals = secure_sums.FederatedPoints.totals

    def spied(asked, query):
      self.kinds.add(type(query.kind))
      if not isinstance(query.kind, sum_kinds.Counts):
        self.counts += self._parts(query, np.rint(asked.clients.scaling.apply(self._points)))
      return totals(asked, query)

    return mock.patch.object(secure_sums.FederatedPoints, "totals", spied)

  def _parts(self, query, points):
    arrays = query.arrays
    if "cells" in arrays:
      points = np.floor(points * arrays["cells"][:1] + 0.5)
    if isinstance(query.kind, (view_sums.KernelSums, view_sums.FineKernelSums)):
      cells = view_sums.nearest(np, points, arrays, query.kind.view_widths)
    elif "centers" in arrays:
      cells = _nearest(points, arrays["centers"])
    else:  # One group of all points.
      return [len(points)]
    num_cells = len(arrays["centers"])
    self.in_cells.append(np.bincount(cells, minlength=num_cells))
    parts = [*self.in_cells[-1]]
    if isinstance(query.kind, sum_kinds.ChildSums):
      heights = ((points - arrays["centers"][cells]) * arrays["directions"][cells]).sum(axis=1)
      is_upper = heights > arrays["thresholds"][cells, 0]
      parts += [*np.bincount(cells[is_upper], minlength=num_cells)]
      parts += [*np.bincount(cells[~is_upper], minlength=num_cells)]
    return parts


def _moved_cells(grid):
  """Does `in_column_steps` with other cells: as if rounding had moved points over borders."""
  own = grid.column_factor
  clients, cells = _in_column_steps(grid)
  return clients, np.where(own > 0, cells * np.linspace(0.3, 1.7, len(cells)), cells)


def _moved_model(*args):
  """Does `next_model`, and moves centers outwards, where few points are."""
  model = _next_model(*args)
  return dataclasses.replace(model, centers=server_step.on_grid(1.6 * model.centers))


_next_model = server_step.next_model
_in_column_steps = grid_scaling.Grid.in_column_steps


class MinCountTest(parameterized.TestCase):

  def _assert_enough(self, spy, min_count):
    asked = np.array(spy.counts)
    self.assertTrue(asked.size)
    self.assertFalse(least_counts.are_few(asked, min_count).any(), np.unique(asked)[:9])

  @parameterized.parameters(
      *((name, 5, False) for name in _DATA), ("wine", 2, False), ("wine", 5, True),
      ("ties", 5, True), ("outliers", 5, True),
  )
  def test_k_means_asks_for_no_sum_of_fewer(self, name, min_count, moved):
    points, k = _DATA[name]()
    clients = np.array_split(points, 3)
    if moved:
      self.enter_context(
          mock.patch.object(grid_scaling.Grid, "in_column_steps", _moved_cells)
      )
    for seed in range(2):
      spy = _Spy(points)
      model = FederatedKMeans(
          k, kmeans_config.Sums(min_count=min_count), standardize=name == "wine",
          random_state=seed,
      )
      with spy.patched():
        model.fit(clients)
      self.assertContainsSubset(
          {sum_kinds.ChildSums, sum_kinds.FineSums, sum_kinds.Scores, sum_kinds.Counts}, spy.kinds
      )
      self._assert_enough(spy, min_count)
      # The last question is at the released centers, of which each that is no repetition counts.
      distinct = len(np.unique(model.cluster_centers_, axis=0))
      self.assertEqual(np.count_nonzero(spy.in_cells[-1] >= min_count), distinct)
      self.assertEqual(model.cluster_centers_.shape, (k, points.shape[1]))
      if min_count == 5:
        self.assertEqual(model.num_centers_on_few_points_, 0)

  @parameterized.parameters(
      *((name, "equal", False) for name in ("breast_cancer", "ties", "outliers")),
      ("wine", "regret", False), ("wine", "equal", True), ("ties", "equal", True),
      ("outliers", "regret", True),
  )
  def test_multi_view_asks_for_no_sum_of_fewer(self, name, rule, moved):
    points, k = _DATA[name]()
    k, width = min(k, 12), points.shape[1] // 2
    clients = [[part[:, :width], part[:, width:]] for part in np.array_split(points, 3)]
    if moved:
      self.enter_context(
          mock.patch.object(grid_scaling.Grid, "in_column_steps", _moved_cells)
      )
      self.enter_context(mock.patch.object(server_step, "next_model", _moved_model))
    for seed in range(2):
      spy = _Spy(points)
      model = FederatedMultiViewKMeans(
          k, view_weights=rule, n_init=1, num_rounds=1 + 8 * seed, min_count=5,
          random_state=seed,
      )
      with spy.patched():
        model.fit(clients)
      self.assertContainsSubset(
          {view_sums.KernelSums, view_sums.FineKernelSums, sum_kinds.Counts}, spy.kinds
      )
      self._assert_enough(spy, 5)
      self.assertEqual(sum(map(len, model.cluster_centers_)), 2 * k)
      self.assertEqual(model.num_centers_on_few_points_, 0)
      # The released centers are those of the last question, some of them several times.
      sizes = np.bincount(np.concatenate(model.labels_), minlength=k)
      self.assertFalse(least_counts.are_few(sizes, 5).any(), sizes)

  def test_the_default_asks_for_no_counts_and_for_small_cells(self):
    points, k = _DATA["wine"]()
    clients = [[part[:, :6], part[:, 6:]] for part in np.array_split(points, 3)]
    for model, given in (
        (FederatedKMeans(k, standardize=True), np.array_split(points, 3)),
        (FederatedMultiViewKMeans(k, n_init=1), clients),
    ):
      spy = _Spy(points)
      with spy.patched():
        model.fit(given)
      self.assertNotIn(sum_kinds.Counts, spy.kinds)
      self.assertTrue(least_counts.are_few(np.array(spy.counts), 5).any())

  def test_all_points_are_enough_for_one_center(self):
    points = _DATA["tiny"]()[0]
    model = FederatedKMeans(3, kmeans_config.Sums(min_count=7)).fit(points)
    np.testing.assert_allclose(model.cluster_centers_, [points.mean(axis=0)] * 3, atol=1e-6)

  def test_more_than_there_are_points_are_refused(self):
    points = _DATA["tiny"]()[0]
    for model in (
        FederatedKMeans(3, kmeans_config.Sums(min_count=8)),
        FederatedMultiViewKMeans(3, min_count=8),
    ):
      with self.assertRaisesRegex(ValueError, "^`min_count` must be at most the 7 points of all"):
        model.fit([points])

  def test_rounds_of_counts_are_rounds(self):
    points, k = _DATA["wine"]()
    asked = []
    with mock.patch.object(secure_sums.FederatedPoints, "totals", _noted(asked)):
      model = FederatedKMeans(
          k, kmeans_config.Sums(min_count=5), standardize=True, keep_history=True
      ).fit(points)
    self.assertEqual(model.n_iter_, 5 + len(asked))
    told = [(record.bytes_down, record.bytes_up) for record in model.history_]
    self.assertEqual(told, asked[1 : 1 + len(told)])
    stages = [record.stage for record in model.history_]
    self.assertLessEqual(len(stages) - stages.count("counts"), kmeans_config.MOST_ROUNDS)
    for record in model.history_:
      self.assertEqual(record.inertia is None, record.stage == "counts")


def _noted(asked):
  totals = secure_sums.FederatedPoints.totals

  def noted(points, query):
    asked.append(points.message_bytes(query))
    return totals(points, query)

  return noted


if __name__ == "__main__":
  absltest.main()
