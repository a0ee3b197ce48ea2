"""Tests for fl_clustering.multiview.kernel_sums."""

from absl.testing import absltest
import numpy as np

from fl_clustering.multiview import kernel_sums
from tests.multiview import central_reference

_WIDTHS = (3, 1, 2)
_BETAS = np.array([0.2, 1.0, 0.05])
_FACTORS = np.array([0.5, 0.2, 0.3]) ** 2


def _points(num_points, seed=0):
  return np.random.default_rng(seed).standard_normal((num_points, sum(_WIDTHS)))


def _sums(points, centers):
  sums = kernel_sums.kernel_sums(points, centers, _BETAS, _FACTORS, _WIDTHS)
  return {name: value.numpy() for name, value in sums.items()}


class KernelSumsTest(absltest.TestCase):

  def test_squared_distances(self):
    points, centers = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[3.0, 4.0], [0.0, 1.0]])
    np.testing.assert_allclose(
        kernel_sums.squared_distances(points, centers), [[25.0, 1.0], [0.0, 18.0]]
    )

  def test_squared_distances_are_not_negative(self):
    points = _points(50) * 1e-3 + 1e3  # Here the expanded square loses all its digits.
    self.assertGreaterEqual(kernel_sums.squared_distances(points, points).numpy().min(), 0)

  def test_clusters_are_those_of_the_definition(self):
    points, centers = _points(60), _points(4, seed=1)
    _, expected, _ = central_reference.iterate(points, centers, _BETAS, _FACTORS, _WIDTHS)
    clusters, kernels = kernel_sums.assign(points, centers, _BETAS, _FACTORS, _WIDTHS)
    np.testing.assert_array_equal(clusters, expected)
    np.testing.assert_allclose(
        kernels, central_reference.kernels(points, centers, _BETAS, _WIDTHS)
    )

  def test_a_view_without_weight_does_not_decide(self):
    points, centers = _points(60), _points(4, seed=1)
    changed = points.copy()
    changed[:, 3] += 100.0
    factors = np.array([0.5, 0.0, 0.5])
    before, _ = kernel_sums.assign(points, centers, _BETAS, factors, _WIDTHS)
    after, _ = kernel_sums.assign(changed, centers, _BETAS, factors, _WIDTHS)
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
    sums = kernel_sums.kernel_sums_apart(points, centers, _BETAS, _WIDTHS)
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
        kernel_sums.project(points, _WIDTHS),
        [[0.6, 0.8, 0.0, 0.5, 0.1, 0.2], [0.1, 0.0, 0.0, -1.0, 0.6, -0.8]],
    )


if __name__ == "__main__":
  absltest.main()
