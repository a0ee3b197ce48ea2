import math
import subprocess
import sys
from unittest import mock
import warnings

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import clustering
from dp_clustering import clustering_algorithm
from dp_clustering import clustering_params
from dp_clustering import private_sums

# Points and numbers of clusters.
_ODD_DATA = {
    "no_points": (np.zeros((0, 3)), 4),
    "one_point": (np.full((1, 3), 0.5), 1),
    "one_point_many_clusters": (np.full((1, 3), 0.5), 64),
    "identical_points": (np.full((100, 3), 0.5), 7),
    "more_clusters_than_points": (np.eye(3), 5),
    "many_clusters": (np.random.default_rng(0).normal(size=(500, 3)), 200),
    "one_dimension": (np.full((20, 1), -1.0), 3),
    "not_finite": (np.array([[math.nan] * 2, [math.inf, -math.inf], [1e308] * 2, [0, 1]]), 3),
}
_OTHER_TYPES = {
    "float32": lambda points: points.astype(np.float32),
    "int8": lambda points: points.astype(np.int8),
    "column_by_column": lambda points: np.asfortranarray(points, np.float64),
    "not_contiguous": lambda points: np.repeat(points, 2, axis=0)[::2],
    "lists": lambda points: points.tolist(),
}
_WRONG_ARGUMENTS = {
    "no_cluster": ("k", 0, ValueError),
    "part_of_a_cluster": ("k", 2.0, ValueError),
    "k_is_none": ("k", None, ValueError),
    "array_as_data": ("data", np.zeros((3, 2)), TypeError),
    "pair_as_budget": ("privacy_param", (1.0, 1e-6), TypeError),
    "negative_seed": ("random_state", -1, ValueError),
    "text_as_seed": ("random_state", "secure", ValueError),
}
_METHODS = tuple((name, name) for name in clustering.METHODS)
_PARAM = clustering_params.DifferentialPrivacyParam(1.0, 1e-6)
_NO_NOISE = clustering_params.DifferentialPrivacyParam(math.inf, 1e-6)


def _points(num_points=300, dim=4, seed=0):
  """Returns integers, so that every type holds them exactly; some outside of 20."""
  return np.random.default_rng(seed).integers(-15, 16, size=(num_points, dim))


def _cluster(
    method, points, k=5, param=_PARAM, radius=20.0, random_state=1, public=None, **arguments
):
  data = clustering_params.Data(points, radius, public_num_points=public)
  with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    return clustering.METHODS[method](k, data, param, random_state=random_state, **arguments)


class BothMethodsTest(parameterized.TestCase):

  @parameterized.product(
      method=list(clustering.METHODS), data=list(_ODD_DATA), epsilon=[0.01, 1.0, math.inf]
  )
  def test_always_gives_k_finite_centers_in_the_ball(self, method, data, epsilon):
    points, k = _ODD_DATA[data]
    param = clustering_params.DifferentialPrivacyParam(epsilon, 1e-6)
    for radius, public in ((1e-3, None), (1e6, 3)):
      result = _cluster(method, points, k, param, radius, public=public)
      self.assertEqual(result.centers.shape, (k, points.shape[1]))
      self.assertTrue(np.isfinite(result.centers).all())
      norms = np.linalg.norm(result.centers, axis=1)
      self.assertLessEqual(norms.max(), radius * (1 + 1e-12))
      self.assertEqual(result.labels.shape, (len(points),))

  def test_more_clusters_than_leaves(self):
    tree = clustering_params.TreeParam(1, 1, max_depth=1)
    result = _cluster("lsh", _points(), k=6, param=_NO_NOISE, tree_param=tree)
    self.assertLen(np.unique(result.centers, axis=0), 6)

  @parameterized.named_parameters(*_METHODS)
  def test_order_of_the_points_does_not_matter(self, method):
    points = _points()
    order = np.random.default_rng(5).permutation(len(points))
    result, permuted = _cluster(method, points), _cluster(method, points[order])
    np.testing.assert_array_equal(permuted.centers, result.centers)
    np.testing.assert_array_equal(permuted.labels, result.labels[order])
    self.assertAlmostEqual(permuted.loss, result.loss, delta=1e-12 * result.loss)

  @parameterized.product(method=list(clustering.METHODS), other_type=list(_OTHER_TYPES))
  def test_type_of_the_points_does_not_matter(self, method, other_type):
    result = _cluster(method, _points().astype(np.float64))
    other = _cluster(method, _OTHER_TYPES[other_type](_points()))
    np.testing.assert_array_equal(other.centers, result.centers)
    np.testing.assert_array_equal(other.labels, result.labels)

  @parameterized.product(method=list(clustering.METHODS), unit=[2.0**-330, 2.0**325])
  def test_the_unit_of_the_points_does_not_matter(self, method, unit):
    result = _cluster(method, _points())
    scaled = _cluster(method, unit * _points(), radius=20.0 * unit)
    np.testing.assert_allclose(scaled.centers / unit, result.centers, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(scaled.labels, result.labels)

  @parameterized.named_parameters(*_METHODS)
  def test_centers_depend_on_the_sums_alone(self, method):
    # The audit weighs what the sums release; nothing else may reach the centers.
    build, seen = private_sums.PrivateSums, _points(seed=3)
    with mock.patch.object(
        private_sums, "PrivateSums", lambda points, *others: build(seen, *others)
    ):
      result = _cluster(method, _points())
    np.testing.assert_array_equal(result.centers, _cluster(method, seen).centers)

  @parameterized.named_parameters(*_METHODS)
  def test_the_random_state_decides_and_the_input_is_not_changed(self, method):
    points = 10.0 * _points()
    points[0, 0] = math.nan
    before = points.copy()
    first, again, other = (_cluster(method, points, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(points, before)
    np.testing.assert_array_equal(first.centers, again.centers)
    self.assertGreater(abs(first.centers - other.centers).max(), 1e-3)
    self.assertFalse(first.ledger.is_private)
    self.assertIn("NOT private", str(first.ledger))

  @parameterized.named_parameters(*_METHODS)
  def test_secure_noise_does_not_repeat_and_leaves_global_state_alone(self, method):
    _, before, *_ = np.random.get_state()
    first, second = (_cluster(method, _points(), random_state=None) for _ in range(2))
    _, after, *_ = np.random.get_state()
    np.testing.assert_array_equal(after, before)
    self.assertGreater(abs(first.centers - second.centers).max(), 1e-6)
    self.assertTrue(first.ledger.is_private)
    self.assertAlmostEqual(first.ledger.mu_spent / first.ledger.mu, 1, places=9)
    self.assertEqual(first.ledger.epsilon_spent, 1.0)
    self.assertEqual((first.ledger.epsilon, first.ledger.delta), (1.0, 1e-6))
    with self.assertRaisesRegex(RuntimeError, "closed"):
      first.ledger.record("one more", mu=1e-9, sensitivity=1.0, std=1e9)

  @parameterized.product(
      method=list(clustering.METHODS), number_and_warnings=[(None, 1), (300, 0), (3000, 1)]
  )
  def test_delta_is_judged_by_the_public_number_of_points(self, method, number_and_warnings):
    number, num_warnings = number_and_warnings
    data = clustering_params.Data(_points(), 20.0, public_num_points=number)
    with warnings.catch_warnings(record=True) as caught:
      warnings.simplefilter("always")
      clustering.METHODS[method](
          3, data, clustering_params.DifferentialPrivacyParam(1.0, 1e-3), random_state=1
      )
    self.assertLen([one for one in caught if "`delta`" in str(one.message)], num_warnings)

  @parameterized.named_parameters(*_METHODS)
  def test_infinite_epsilon_warns(self, method):
    data = clustering_params.Data(_points(), 20.0)
    with self.assertWarnsRegex(UserWarning, "NOT private"):
      clustering.METHODS[method](3, data, _NO_NOISE)

  @parameterized.product(method=list(clustering.METHODS), wrong=list(_WRONG_ARGUMENTS))
  def test_refuses(self, method, wrong):
    name, value, error = _WRONG_ARGUMENTS[wrong]
    arguments = {
        "k": 3, "data": clustering_params.Data(_points(), 20.0), "privacy_param": _PARAM,
        name: value,
    }
    with self.assertRaisesRegex(error, f"`{name}`"):
      clustering.METHODS[method](**arguments)


class OptionsTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("split", {"privacy_budget_split": clustering_params.PrivacyBudgetSplit(0.5, 0.5)}),
      ("multipliers", {"multipliers": clustering_params.PrivacyCalculatorMultiplier(1, 5)}),
      ("tree", {"tree_param": clustering_params.TreeParam(30, 10, 3)}),
  )
  def test_options_change_the_noise(self, arguments):
    stds = [release.std for release in _cluster("lsh", _points()).ledger.releases]
    others = [
        release.std for release in _cluster("lsh", _points(), **arguments).ledger.releases
    ]
    self.assertNotAlmostEqual(stds[0], others[0])

  def test_without_noise_one_center_is_the_mean_of_the_clipped_points(self):
    points = 2.0 * _points(seed=7)
    clipped = clustering_params.Data(points, 20.0).clip_by_radius()
    result = _cluster("lsh", points, k=1, param=_NO_NOISE)
    np.testing.assert_allclose(result.centers, [clipped.mean(axis=0)], atol=20 * 2**-19)

  @parameterized.parameters(
      ("lsh", "multipliers", clustering_params.PrivacyCalculatorMultiplier(), ValueError,
       {"privacy_budget_split": clustering_params.PrivacyBudgetSplit()}),
      ("lsh", "privacy_budget_split", (0.8, 0.2), TypeError), ("lsh", "tree_param", 20, TypeError),
      ("lsh", "multipliers", {"gaussian": 1.0}, TypeError),
      # What belongs to the tree.
      ("refine", "privacy_budget_split", clustering_params.PrivacyBudgetSplit(), ValueError),
      ("refine", "tree_param", clustering_params.TreeParam(3, 1, 20), ValueError),
      ("refine", "multipliers", clustering_params.PrivacyCalculatorMultiplier(), ValueError),
  )
  def test_refuses_options(self, method, name, value, error, others=None):
    with self.assertRaisesRegex(error, f"`{name}`"):
      _cluster(method, _points(), **{name: value}, **(others or {}))


class ClusteringResultTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.data = clustering_params.Data([[0.0, 0], [4, 0], [0, 3]], 1.0, ["x", "y", "z"])
    self.centers = np.array([[0.0, 0.0], [1.0, 0.0]])

  def test_labels_and_loss_are_of_the_points_in_the_ball(self):
    result = clustering.ClusteringResult(self.data, self.centers)
    self.assertEqual(result.labels.tolist(), [0, 1, 0])
    self.assertEqual(result.loss, 0 + 0 + 1)
    self.assertIsNone(result.ledger)

  def test_given_labels_and_loss_are_kept(self):
    result = clustering.ClusteringResult(self.data, self.centers, [1, 1, 1], 5.0)
    self.assertEqual((result.labels.tolist(), result.loss), ([1, 1, 1], 5.0))

  @parameterized.parameters(
      ("loss", [0, 0, 0], None, ValueError), ("labels", None, 1.0, ValueError),
      ("labels", [0, 0], 1.0, ValueError), ("labels", [0, 2, 1], 1.0, ValueError),
      ("labels", [0, -1, 1], 1.0, ValueError), ("labels", [0.0, 1.0, 1.0], 1.0, TypeError),
      ("loss", [0, 0, 0], "5", TypeError),
  )
  def test_refuses_labels_and_loss(self, name, labels, loss, error):
    with self.assertRaisesRegex(error, f"^`{name}`"):
      clustering.ClusteringResult(self.data, self.centers, labels, loss)

  @parameterized.parameters(((2, 3),), ((0, 2),), ((2,),))
  def test_refuses_centers_of_other_shapes(self, shape):
    with self.assertRaisesRegex(ValueError, "`centers`"):
      clustering.ClusteringResult(self.data, np.zeros(shape))
    with self.assertRaisesRegex(TypeError, "`data`"):
      clustering.ClusteringResult(np.zeros(shape), self.centers)

  def test_histogram_has_a_row_for_each_cluster(self):
    data = clustering_params.Data([[0.0, 0], [0, 3], [4, 0]], 1.0, [7, 7, -1])
    centers = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, -9.0]])
    result = clustering.ClusteringResult(data, centers)
    np.testing.assert_array_equal(result.labels, [0, 0, 1])
    np.testing.assert_array_equal(result.cross_label_histogram(), [[0, 2], [1, 0], [0, 0]])
    self.assertEqual(result.get_clustering_metrics().dominant_label_correct_count, 3)

  def test_metrics_need_true_labels(self):
    result = clustering.ClusteringResult(
        clustering_params.Data(self.data.datapoints, 1.0), self.centers
    )
    for call in (result.cross_label_histogram, result.get_clustering_metrics):
      with self.assertRaisesRegex(ValueError, "`data.labels`"):
        call()


class ModuleTest(absltest.TestCase):

  def test_alias(self):
    for name in (
        "ClusteringMetrics", "ClusteringResult", "private_clustering",
        "private_lsh_clustering",
    ):
      self.assertIs(getattr(clustering_algorithm, name), getattr(clustering, name))

  def test_estimator_is_found_here(self):
    self.assertEqual(clustering.PrivateKMeans.__name__, "PrivateKMeans")
    with self.assertRaisesRegex(AttributeError, "no attribute 'PrivateKMedians'"):
      clustering.PrivateKMedians  # pylint: disable=pointless-statement

  def test_import_is_light(self):
    code = (
        "import sys; from dp_clustering import clustering; "
        "print([m for m in ('tensorflow', 'tensorflow_federated', 'sklearn', "
        "'dp_accounting') if m in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    ).stdout
    self.assertEqual(printed, "[]\n")
