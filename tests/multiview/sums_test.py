"""Tests for fl_clustering.multiview.sums."""

from absl.testing import absltest
import numpy as np

from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import sums as sums_lib
from tests.multiview import central_reference

_WIDTHS = (3, 1, 2)
_BETAS = np.array([0.2, 1.0, 0.05])
_FACTORS = np.array([0.5, 0.2, 0.3]) ** 2


def _points(num_points, seed=0):
  return np.random.default_rng(seed).standard_normal((num_points, sum(_WIDTHS)))


def _sums(points, centers):
  sums = sums_lib.kernel_sums(points, centers, _BETAS, _FACTORS, _WIDTHS)
  return {name: value.numpy() for name, value in sums.items()}


class KernelSumsTest(absltest.TestCase):

  def test_clusters_are_those_of_the_definition(self):
    points, centers = _points(60), _points(4, seed=1)
    _, expected, _ = central_reference.iterate(points, centers, _BETAS, _FACTORS, _WIDTHS)
    clusters, kernels = sums_lib.assign(points, centers, _BETAS, _FACTORS, _WIDTHS)
    np.testing.assert_array_equal(clusters, expected)
    np.testing.assert_allclose(
        kernels, central_reference.kernels(points, centers, _BETAS, _WIDTHS)
    )

  def test_a_view_without_weight_does_not_decide(self):
    points, centers = _points(60), _points(4, seed=1)
    changed = points.copy()
    changed[:, 3] += 100.0
    factors = np.array([0.5, 0.0, 0.5])
    before, _ = sums_lib.assign(points, centers, _BETAS, factors, _WIDTHS)
    after, _ = sums_lib.assign(changed, centers, _BETAS, factors, _WIDTHS)
    np.testing.assert_array_equal(before, after)

  def test_sums_are_those_of_the_definition(self):
    points, centers = _points(60), _points(4, seed=1)
    moved, clusters, costs = central_reference.iterate(
        points, centers, _BETAS, _FACTORS, _WIDTHS
    )
    sums = _sums(points, centers)
    np.testing.assert_allclose(sums["view_costs"], costs)
    np.testing.assert_array_equal(sums["counts"], np.bincount(clusters, minlength=4))
    weights = np.repeat(sums["kernel_weights"], _WIDTHS, axis=1)
    np.testing.assert_allclose(sums["weighted_points"] / weights, moved, atol=1e-12)

  def test_sums_add_up_over_parts(self):
    points, centers = _points(60), _points(4, seed=1)
    whole, first, second = (_sums(p, centers) for p in (points, points[:11], points[11:]))
    for name, value in whole.items():
      np.testing.assert_allclose(first[name] + second[name], value, atol=1e-12)

  def test_views_apart_are_each_view_alone(self):
    points, centers = _points(60), _points(4, seed=1)
    sums = sums_lib.kernel_sums_apart(points, centers, _BETAS, None, _WIDTHS)
    start = 0
    for view, width in enumerate(_WIDTHS):
      columns = slice(start, start + width)
      moved, clusters, costs = central_reference.iterate(
          points[:, columns], centers[:, columns], _BETAS[[view]], np.ones(1), (width,)
      )
      np.testing.assert_allclose(
          sums["weighted_points"][:, columns] / sums["kernel_weights"][:, view : view + 1],
          moved, atol=1e-12,
      )
      np.testing.assert_allclose(sums["view_costs"][view], costs[0])
      np.testing.assert_array_equal(sums["counts"][:, view], np.bincount(clusters, minlength=4))
      start += width

  def test_no_points_give_zeros(self):
    for value in _sums(_points(0), _points(4)).values():
      np.testing.assert_array_equal(value, np.zeros_like(value))

  def test_a_step_raises_no_view_cost_of_its_clusters(self):
    points, centers = _points(200), 2 * _points(5, seed=1)
    moved, clusters, costs = central_reference.iterate(
        points, centers, _BETAS, _FACTORS, _WIDTHS
    )
    values = central_reference.kernels(points, moved, _BETAS, _WIDTHS)
    after = (1 - values[:, np.arange(200), clusters]).sum(axis=1)
    self.assertTrue(np.all(after <= costs), f"{costs} rose to {after}")

  def test_project_moves_long_rows_to_the_ball_and_leaves_short_ones(self):
    points = np.array([[3.0, 4.0, 0.0, 0.5, 0.1, 0.2], [0.1, 0.0, 0.0, -7.0, 3.0, -4.0]])
    np.testing.assert_allclose(
        sums_lib.project(points, _WIDTHS),
        [[0.6, 0.8, 0.0, 0.5, 0.1, 0.2], [0.1, 0.0, 0.0, -1.0, 0.6, -0.8]],
    )


class ProjectedSumsTest(absltest.TestCase):

  def test_no_point_changes_the_sums_by_more_than_the_sensitivity(self):
    widths = (2, 3)
    rng = np.random.default_rng(0)
    largest = 0.0
    for scale in (1e-3, 0.3, 1.0, 10.0):
      for _ in range(100):
        points = scale * rng.standard_normal((1, 5))
        centers = sums_lib.project(rng.standard_normal((4, 5)), widths)
        # The worst case: a long point on its center has weight one in every view.
        for center in (centers, np.repeat(sums_lib.project(points, widths), 4, axis=0)):
          sums = sums_lib.projected_sums(points, center, np.ones(2), np.ones(2), widths)
          change = np.sqrt(sum(np.sum(value.numpy() ** 2) for value in sums.values()))
          largest = max(largest, change)
    self.assertLessEqual(largest, multiview_config.sensitivity(2) * (1 + 1e-6))
    self.assertGreater(largest, 0.999 * multiview_config.sensitivity(2))


if __name__ == "__main__":
  absltest.main()
