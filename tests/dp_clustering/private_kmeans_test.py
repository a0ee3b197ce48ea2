import decimal
import math
import warnings

from absl.testing import parameterized
import numpy as np
import pandas as pd
from sklearn import pipeline
from sklearn.utils import estimator_checks

from dp_clustering import clustering
from dp_clustering import clustering_params
from dp_clustering import private_kmeans

# The reason is in the docstring of the class.
_CANNOT_HOLD = {
    "check_estimators_empty_data_messages": (
        "That there are no rows is content of the data, and must not lead to an error."
    ),
}
_METHODS = tuple((name, name) for name in clustering.METHODS)


def _blobs(num_points=3000, seed=0):
  rng = np.random.default_rng(seed)
  groups = rng.integers(3, size=num_points)
  centers = np.array([[0.6, 0.0], [-0.3, 0.5], [-0.3, -0.5]])
  return centers[groups] + rng.normal(scale=0.05, size=(num_points, 2)), groups


def _estimator(**parameters):
  defaults = {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "radius": 1.0, "random_state": 0}
  return private_kmeans.PrivateKMeans(**{**defaults, **parameters})


class PrivateKMeansTest(parameterized.TestCase):

  @parameterized.product(method=tuple(clustering.METHODS), num_points=(0, 50))
  def test_a_budget_that_protects_little_is_told_once_whatever_the_points_are(
      self, method, num_points
  ):
    points = np.full((num_points, 2), 0.5)
    with warnings.catch_warnings(record=True) as caught:
      warnings.simplefilter("always")
      for epsilon, delta in ((30.0, 1e-6), (1.0, 1e-3), (1.0, 1e-4)):
        private_kmeans.PrivateKMeans(2, epsilon, delta, 1.0, method).fit(points)
    told = [str(warning.message) for warning in caught if warning.category is UserWarning]
    self.assertEqual([text.split()[0] for text in told], ["`epsilon`", "`delta`"])

  def test_warnings_point_at_the_callers_line(self):
    points, names = np.full((50, 2), 0.5), ["x", "y"]
    fitted = _estimator().fit(pd.DataFrame(points, columns=names))
    of_a_pipeline = pipeline.make_pipeline(_estimator(epsilon=30.0))
    for warn in (
        lambda: _estimator(epsilon=30.0).fit(points),
        lambda: _estimator(epsilon=math.inf).fit_predict(points),
        lambda: of_a_pipeline.fit_transform(points),
        lambda: fitted.transform(points),
        lambda: clustering.private_clustering(
            2, clustering_params.Data(points, 1.0),
            clustering_params.DifferentialPrivacyParam(30.0, 1e-6),
        ),
    ):
      with self.assertWarns(UserWarning) as told:
        warn()
      self.assertEqual(told.filename, __file__)

  @parameterized.named_parameters(*_METHODS)
  def test_rules_of_scikit_learn(self, method):
    # The data of the checks have norms up to about 10, and 20 to 50 rows: a large
    # epsilon lets the check that expects clusters in them be met for sure.
    estimator = _estimator(epsilon=1000.0, radius=10.0, method=method)
    outcomes = estimator_checks.check_estimator(
        estimator, expected_failed_checks=_CANNOT_HOLD, on_skip=None
    )
    failed = {
        outcome["check_name"] for outcome in outcomes if outcome["expected_to_fail"]
        and outcome["status"] == "xfail"
    }
    self.assertGreater(len(outcomes), 40)
    self.assertEqual(failed, set(_CANNOT_HOLD))

  @parameterized.named_parameters(*_METHODS)
  def test_is_the_method(self, method):
    points, _ = _blobs()
    estimator = _estimator(method=method).fit(points)
    result = clustering.METHODS[method](
        3, clustering_params.Data(points, 1.0),
        clustering_params.DifferentialPrivacyParam(1.0, 1e-6), random_state=0,
    )
    np.testing.assert_array_equal(estimator.cluster_centers_, result.centers)
    np.testing.assert_array_equal(estimator.labels_, result.labels)
    self.assertEqual(estimator.inertia_, result.loss)
    self.assertEqual(estimator.n_features_in_, 2)
    self.assertEqual(str(estimator.ledger_), str(result.ledger))

  def test_labels_can_be_left_out(self):
    points, _ = _blobs()
    kept = _estimator().fit(points)
    estimator = _estimator().fit(points).set_params(compute_labels=False).fit(points)
    self.assertFalse({"labels_", "inertia_"} & set(vars(estimator)))
    np.testing.assert_array_equal(estimator.fit_predict(points), kept.labels_)
    self.assertFalse(hasattr(estimator, "labels_"))

  def test_predictions_distances_and_score(self):
    points, _ = _blobs()
    estimator = _estimator().fit(points)
    np.testing.assert_array_equal(estimator.predict(points), estimator.labels_)
    expected = np.linalg.norm(points[:, np.newaxis] - estimator.cluster_centers_, axis=2)
    np.testing.assert_allclose(estimator.transform(points), expected, atol=1e-7)
    np.testing.assert_allclose(estimator.score(points), -(expected.min(axis=1) ** 2).sum())
    self.assertEqual(estimator.score(points), -estimator.inertia_)
    self.assertLen(estimator.ledger_.releases, estimator.n_iter_)

  @parameterized.named_parameters(*_METHODS)
  def test_points_outside_count_as_those_that_the_fit_clips_them_to(self, method):
    points = np.append(_blobs()[0], [[30.0, 40.0], [-5.0, 12.0]], axis=0)
    clipped = np.append(points[:-2], [[0.6, 0.8], [-5 / 13, 12 / 13]], axis=0)
    estimator, expected = (_estimator(method=method).fit(rows) for rows in (points, clipped))
    np.testing.assert_allclose(estimator.transform(points), expected.transform(clipped))
    np.testing.assert_array_equal(estimator.labels_, expected.labels_)
    np.testing.assert_array_equal(estimator.predict(points), expected.labels_)
    # Or else the radius that cuts most would have the best score.
    losses = np.linalg.norm(points[:, np.newaxis] - estimator.cluster_centers_, axis=2).min(axis=1)
    self.assertAlmostEqual(estimator.score(points), -(losses**2).sum())
    self.assertEqual(estimator.inertia_, -estimator.score(points))

  def test_noise_is_secure_by_default(self):
    estimator = private_kmeans.PrivateKMeans(3, 1.0, 1e-6, 1.0)
    self.assertTrue(estimator.fit(_blobs()[0]).ledger_.is_private)
    self.assertFalse(_estimator().fit(_blobs()[0]).ledger_.is_private)

  @parameterized.named_parameters(
      ("no_points", np.zeros((0, 2))),
      ("objects", np.array([[None, 1.0], [pd.NA, 10**400], [decimal.Decimal(1), 0]])),
      ("frame", pd.DataFrame({
          "a": pd.array([1, None, 3], dtype="Int64"), "b": np.array([pd.NA, 0.5, 1], object)})),
      ("not_finite", np.array([[math.nan, 1.0], [math.inf, 0.0], [1e308, 1e308], [0, 0]])),
  )
  def test_content_is_no_error(self, points):
    estimator = _estimator().fit(points)
    self.assertEqual(estimator.cluster_centers_.shape, (3, 2))
    self.assertTrue(np.isfinite(estimator.cluster_centers_).all())
    np.testing.assert_array_equal(estimator.predict(points), estimator.labels_)

  @parameterized.named_parameters(
      ("list", [[1.0, np.ma.masked], [0.5, 0.25]]),
      ("array", np.ma.array([[1.0, 2.0], [0.5, 0.25]], mask=[[0, 1], [0, 0]])),
      ("rows", [np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([0.5, 0.25])]),
  )
  def test_masked_entries_are_nan_and_are_not_told(self, points):
    estimator = _estimator()
    with warnings.catch_warnings():
      warnings.simplefilter("error", UserWarning)
      estimator.fit(points)
    expected = estimator.transform(np.array([[1.0, math.nan], [0.5, 0.25]]))
    np.testing.assert_array_equal(estimator.transform(points), expected)

  @parameterized.parameters(
      (np.array([[0.12345, "54321"]], object),), ([[0.12345 + 1j, 0.0]],),
      ([[0.12345, 0.0], [0.54321]],), (np.array([0.12345, 0.54321]),),
      (0.12345,), (np.array([[0.12345], [0.54321, 0]], object),),
      (pd.DataFrame({"a": [0.12345 + 1j]}),),
  )
  def test_no_message_shows_a_row(self, points):
    with self.assertRaisesRegex((TypeError, ValueError), "`X`") as raised:
      _estimator().fit(points)
    self.assertNotRegex(str(raised.exception), "12345|54321")
    self.assertTrue(raised.exception.__suppress_context__ or not raised.exception.__context__)

  def test_plans_with_a_public_number_of_points(self):
    points, _ = _blobs()
    few = _estimator(public_num_points=10).fit(points)
    self.assertLess(few.n_iter_, _estimator().fit(points).n_iter_)

  @parameterized.parameters(
      {"n_clusters": 0}, {"epsilon": -1.0}, {"delta": 1.0}, {"radius": math.nan},
      {"method": "lloyd"}, {"random_state": -1}, {"public_num_points": 0},
      {"compute_labels": None}, {"public_num_points": 10, "method": "lsh"},
  )
  def test_refuses(self, **settings):
    estimator = _estimator(**settings)  # Only a fit may complain.
    with self.assertRaisesRegex(ValueError, f"`{next(iter(settings))}`"):
      estimator.fit(_blobs()[0])
    self.assertFalse(hasattr(estimator, "cluster_centers_"))
