"""Tests of what the federated estimators share, each by both of them."""

import inspect
from unittest import mock
import warnings

from absl.testing import parameterized
import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn import exceptions
from sklearn.utils import estimator_checks

from fl_clustering import kmeans
from fl_clustering import multiview
from fl_clustering.points import secure_sums

# What `check_estimator` asks for and can't hold, by estimator, with the reason.
_CANNOT_HOLD = {
    "kmeans": {},
    "multiview": {
        "check_n_features_in_after_fitting": "The message names the view.",
        "check_fit2d_1sample": "A view that is the same at all points has no scale.",
    },
}
_BOTH = (("kmeans", "kmeans"), ("multiview", "multiview"))
_PRIVACY = {
    "kmeans": kmeans.PointPrivacy(1e4, 1e-6, 10.0),
    "multiview": multiview.ViewPrivacy(1e4, 1e-6, (10.0,)),
}


def _estimator(name, **settings):
  if name == "kmeans":
    return kmeans.FederatedKMeans(3, **settings)
  if "privacy" in settings:
    settings["standardize"] = False
  return multiview.FederatedMultiViewKMeans(3, **{"n_init": 1, **settings})


def _private(name, **settings):
  return _estimator(name, privacy=_PRIVACY[name], **settings)


def _listed(name, tables):
  """Returns clients as a list; a list of tables alone would be one client's views."""
  return list(tables) if name == "kmeans" else [[table] for table in tables]


def _points(seed=0, size=60):
  rng = np.random.default_rng(seed)
  corners = np.array([[6.0, 0.0], [0.0, 6.0], [-6.0, -6.0]])
  return corners[rng.integers(3, size=size)] + 0.3 * rng.standard_normal((size, 2))


def _frame(seed=0, columns=("height", "weight"), **kwargs):
  return pd.DataFrame(_points(seed, **kwargs), columns=columns)


class RulesOfScikitLearnTest(parameterized.TestCase):

  @parameterized.named_parameters(*_BOTH)
  def test_all_but_the_exceptions_hold(self, name):
    outcomes = estimator_checks.check_estimator(
        _estimator(name), expected_failed_checks=_CANNOT_HOLD[name], on_skip=None
    )
    failed = {outcome["check_name"] for outcome in outcomes if outcome["status"] == "xfail"}
    self.assertGreater(len(outcomes), 40)
    self.assertEqual(failed, set(_CANNOT_HOLD[name]))

  @parameterized.named_parameters(*_BOTH)
  def test_every_argument_is_documented_where_it_is_typed(self, name):
    kind = type(_estimator(name))
    for argument in inspect.signature(kind).parameters:
      self.assertIn(f"\n  {argument}: ", inspect.getdoc(kind.__init__))


class FormsTest(parameterized.TestCase):
  """One table is one client; a list or a mapping has many, and results have the same form."""

  @parameterized.named_parameters(*_BOTH)
  def test_results_have_the_form_of_what_was_given(self, name):
    clients = {"b": _points(1, 20), 7: _points(2, 30), "a": _points(3, 10)}
    by_id = _estimator(name).fit(clients)
    self.assertEqual(list(by_id.labels_), ["b", 7, "a"])
    as_list = _estimator(name).fit(_listed(name, clients.values()))
    self.assertIsInstance(as_list.labels_, list)
    alone = _estimator(name).fit(np.concatenate(list(clients.values())))
    # The same bits, but perhaps another order of the clusters.
    np.testing.assert_array_equal(alone.labels_, np.concatenate(as_list.labels_))
    for model, given in ((by_id, clients), (as_list, _listed(name, clients.values()))):
      for method in (model.predict, model.transform):
        self.assertIs(type(method(given)), type(given))
    predicted, distances = by_id.fit_predict(clients), by_id.fit_transform(clients)
    for client_id, labels in by_id.labels_.items():
      np.testing.assert_array_equal(labels, by_id.predict(clients[client_id]))
      np.testing.assert_array_equal(labels, predicted[client_id])
      np.testing.assert_array_equal(labels, distances[client_id].argmin(axis=1))
      np.testing.assert_array_equal(distances[client_id], by_id.transform(clients[client_id]))
    np.testing.assert_allclose(
        by_id.score(clients), sum(by_id.score(table) for table in clients.values())
    )

  @parameterized.named_parameters(*_BOTH)
  def test_names_and_containers_of_distances(self, name):
    tables = [_frame(seed).set_index(pd.RangeIndex(7, 67)) for seed in (0, 1)]
    clients = _listed(name, tables)
    model = _estimator(name)
    expected = model.fit(clients).transform(clients)
    names = [f"{type(model).__name__.lower()}{k}" for k in range(3)]
    self.assertIsInstance(expected[1], np.ndarray)
    model.set_output(transform="pandas")
    for found in (model.fit_transform(clients), model.transform(clients)):
      for i in (0, 1):
        pd.testing.assert_frame_equal(
            found[i].reset_index(drop=True), pd.DataFrame(expected[i], columns=names)
        )
    alone = model.transform(clients[0])
    pd.testing.assert_frame_equal(alone, model.transform({"u": clients[0]})["u"])
    if name == "kmeans":  # A client of several views has several indices.
      self.assertEqual(alone.index[0], 7)
    with config_context(transform_output="pandas"):
      self.assertIsInstance(_estimator(name).fit(clients).transform(clients)[1], pd.DataFrame)

  def test_the_score_is_minus_the_loss(self):
    clients = [_points(seed) for seed in range(3)]
    for standardize in (False, True):
      model = _estimator("kmeans", standardize=standardize).fit(clients)
      np.testing.assert_allclose(model.score(clients), -model.inertia_, rtol=1e-5)
    views = [[_points(seed), _points(seed)[:, :1] ** 2] for seed in range(3)]
    model = _estimator("multiview", view_weights="mvkm").fit(views)
    np.testing.assert_allclose(model.score(views), -model.objective_, rtol=1e-5)

  @parameterized.parameters("sums", "lloyd")
  def test_transform_measures_in_the_data_s_units(self, algorithm):
    # In the fit one column is constant, and a later point may differ in it.
    points = np.insert(_points(), 1, 5.0, axis=1)
    model = _estimator("kmeans", algorithm=algorithm).fit(points)
    points[:, 1] = 9.0
    expected = np.linalg.norm(points[:, np.newaxis] - model.cluster_centers_, axis=2)
    np.testing.assert_allclose(model.transform(points), expected, rtol=1e-6)


class SettingsTest(parameterized.TestCase):

  @parameterized.product(
      name=("kmeans", "multiview"),
      wrong=(("n_clusters", 0), ("random_state", None), ("compute_labels", 1)),
  )
  def test_only_fit_refuses_settings(self, name, wrong):
    setting, value = wrong
    model = _estimator(name).set_params(**{setting: value})
    with self.assertRaisesRegex(ValueError, f"`{setting}`"):
      model.fit(_points())
    self.assertFalse(hasattr(model, "cluster_centers_"))

  @parameterized.named_parameters(*_BOTH)
  def test_labels_are_secret_with_privacy(self, name):
    clients = {"a": _points(), "b": np.full((3, 2), np.nan), "c": np.zeros((0, 2))}
    model = _private(name, compute_labels=True).fit(clients)
    self.assertEqual([len(model.labels_[c]) for c in clients], [60, 3, 0])
    self.assertEqual([model.transform(clients)[c].shape for c in "bc"], [(3, 3), (0, 3)])
    self.assertLess(model.score(clients), 0)
    model.set_params(compute_labels=None)
    labels = model.fit_predict(clients)
    for name in ("labels_", "clipped_share_"):  # Exact ones, of the fit before.
      self.assertFalse(hasattr(model, name), name)
    self.assertEqual([len(labels[c]) for c in clients], [60, 3, 0])


class ColumnNamesTest(parameterized.TestCase):

  @parameterized.product(name=("kmeans", "multiview"), names=(
      ("height", "weight"), (2, 0), (("cm", 1), ("kg", 1)), (True, False),
  ))
  def test_columns_go_by_name(self, name, names):
    clients = {"a": _frame(1, names), "b": _frame(2, names)}
    plain = _estimator(name).fit({c: table.to_numpy() for c, table in clients.items()})
    clients["b"] = clients["b"].iloc[:, ::-1]
    model = _estimator(name).fit(clients)
    fitted = model.feature_names_in_ if name == "kmeans" else model.feature_names_in_[0]
    self.assertEqual(tuple(fitted), names)
    self.assertEqual(model.n_features_in_, 2)
    np.testing.assert_array_equal(
        np.ravel(model.cluster_centers_), np.ravel(plain.cluster_centers_)
    )
    np.testing.assert_array_equal(model.labels_["b"], plain.labels_["b"])
    np.testing.assert_array_equal(model.fit_predict(clients)["b"], plain.labels_["b"])
    for method in (model.predict, model.transform, model.score):
      with self.assertRaisesRegex(ValueError, r"`X`\['b'\]"):
        method(clients)
    with self.assertRaisesRegex(ValueError, r"`clients`\['b'\]"):
      model.fit({"a": _frame(1, names), "b": _points()})

  @parameterized.named_parameters(*_BOTH)
  def test_numbered_columns_have_no_names_nor_has_a_fit_after_one_with_them(self, name):
    model = _estimator(name).fit(_frame())
    model.fit({"a": _frame(columns=(0, 1)), "b": _points()})
    self.assertFalse(hasattr(model, "feature_names_in_"))
    np.testing.assert_array_equal(
        model.labels_["a"], _estimator(name).fit({"a": _points(), "b": _points()}).labels_["a"]
    )
    with self.assertRaisesRegex(ValueError, "`X`"):
      model.predict(_frame(columns=(1, 0)))

  @parameterized.named_parameters(*_BOTH)
  def test_kinds_of_columns(self, name):
    frame = _frame().round()
    mixed = frame.astype({"height": "Int64", "weight": object})
    model = _estimator(name).fit(frame)
    np.testing.assert_array_equal(model.predict(mixed), model.labels_)
    with self.assertRaisesRegex(ValueError, "`clients`"):
      _estimator(name).fit(frame.assign(city="Delft"))
    mixed.loc[3, "height"] = pd.NA
    with self.assertRaisesRegex((TypeError, ValueError), "`X`"):
      model.predict(mixed)
    _private(name).fit({"a": mixed, "b": []} if name == "kmeans" else mixed)

  @parameterized.named_parameters(*_BOTH)
  def test_a_warning_at_the_caller_s_line_says_that_names_can_t_be_compared(self, name):
    model = _estimator(name).fit(_frame())
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      model.predict(_frame())
    with self.assertWarnsRegex(UserWarning, "`X`") as told:
      model.predict(_points())
    self.assertEqual(told.filename, __file__)
    with self.assertWarnsRegex(UserWarning, "`X`"):
      model.fit(_points()).predict(_frame())

  @parameterized.named_parameters(*_BOTH)
  def test_fewer_different_rows_than_clusters_are_a_warning_at_the_caller_s_line(self, name):
    with self.assertWarnsRegex(exceptions.ConvergenceWarning, "2 .* 3") as told:
      model = _estimator(name).fit({"a": [[0.0, 0.0]] * 5, "b": [[9.0, 9.0]] * 5})
    self.assertEqual(told.filename, __file__)
    self.assertLen({*model.labels_["a"], *model.labels_["b"]}, 2)

  def test_views_have_names_of_their_own(self):
    clients = {c: [_frame(c, ("a", "b")), _points(c), _frame(c, ("a", "c"))] for c in (1, 2)}
    clients[2][2] = clients[2][2][["c", "a"]]
    model = _estimator("multiview").fit(clients)
    names = [None if own is None else list(own) for own in model.feature_names_in_]
    self.assertEqual(names, [["a", "b"], None, ["a", "c"]])
    self.assertEqual(model.n_features_in_, 6)
    with self.assertRaisesRegex(ValueError, "`X`, view 2"):
      model.predict(clients[2])
    np.testing.assert_array_equal(model.predict(clients[1]), model.labels_[1])


class BudgetTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("points_and_epsilon", "kmeans", kmeans.PointPrivacy(21.0, 1e-6, 1.0), "`epsilon`"),
      ("points_and_delta", "kmeans", kmeans.PointPrivacy(1.0, 1e-3, 1.0), "`delta`"),
      ("views_and_epsilon", "multiview", multiview.ViewPrivacy(21.0, 1e-6, (1.0,)), "`epsilon`"),
      ("views_and_delta", "multiview", multiview.ViewPrivacy(1.0, 1e-3, (1.0,)), "`delta`"),
      ("public_points_and_delta", "kmeans",
       kmeans.PointPrivacy(1.0, 1e-4, 1.0, public_num_points=20_000), "`delta`.*20000"),
      ("clients_and_delta", "kmeans", kmeans.ClientPrivacy(1.0, 0.5, 1.0, max_points=2),
       "`delta`.*clients, 2,"),
  )
  def test_one_that_protects_little_is_told_once(self, name, privacy, message):
    estimator = _estimator(name, privacy=privacy)
    with warnings.catch_warnings(record=True) as caught:
      warnings.simplefilter("always")
      estimator.fit_transform({0: np.zeros((0, 2)), 1: np.ones((3, 2))})
    told = [
        warning for warning in caught
        if warning.category is UserWarning and "the noise is" not in str(warning.message)
    ]
    self.assertLen(told, 1)
    self.assertRegex(str(told[0].message), message)
    self.assertEqual(told[0].filename, __file__)

  @parameterized.named_parameters(
      ("kmeans", "kmeans", kmeans.PointPrivacy(20.0, 1e-4, 1.0)),
      ("multiview", "multiview", multiview.ViewPrivacy(20.0, 1e-4, (1.0,))),
      ("clients", "kmeans", kmeans.ClientPrivacy(20.0, 0.4, 1.0, max_points=2)),
  )
  def test_a_better_one_is_not(self, name, privacy):
    with warnings.catch_warnings():
      warnings.simplefilter("error", UserWarning)
      warnings.filterwarnings("ignore", "the noise is")
      _estimator(name, privacy=privacy).fit({0: np.ones((3, 2)), 1: np.ones((3, 2))})

  @parameterized.named_parameters(
      ("points", kmeans.PointPrivacy(0.3, 1e-6, 2.0, public_num_points=6000), True),
      ("enough_points", kmeans.PointPrivacy(8.0, 1e-6, 2.0, public_num_points=10**7), False),
      ("points_whose_number_is_secret", kmeans.PointPrivacy(0.3, 1e-6, 2.0), False),
      ("clients", kmeans.ClientPrivacy(0.3, 1e-6, 2.0, max_points=9), True),
  )
  def test_too_many_clusters_for_the_noise_are_told_before_anything_is_asked(self, privacy, told):
    with warnings.catch_warnings(record=True) as caught, mock.patch.object(
        secure_sums.FederatedPoints, "totals", side_effect=ZeroDivisionError
    ):
      warnings.simplefilter("always")
      with self.assertRaises(ZeroDivisionError):
        kmeans.FederatedKMeans(200, privacy=privacy).fit(np.ones((9, 2)))
    self.assertEqual(any("the noise is" in str(one.message) for one in caught), told)

  def test_points_that_are_cut_are_told_beside_labels_alone(self):
    rows = 100 * np.random.default_rng(0).normal(size=(50, 4))
    rows[:9, 0] = np.nan  # It counts as 0.
    for estimator in (
        kmeans.FederatedKMeans(2, privacy=kmeans.PointPrivacy(4.0, 1e-6, 50.0)),
        multiview.FederatedMultiViewKMeans(
            2, standardize=False, privacy=multiview.ViewPrivacy(4.0, 1e-6, (50.0, 50.0))
        ),
    ):
      views = [rows[:, :2], rows[:, 2:]] if estimator._has_views else rows
      estimator.fit(views)
      self.assertFalse(hasattr(estimator, "clipped_share_"))
      with self.assertWarnsRegex(UserWarning, "beyond the radius"):
        estimator.set_params(compute_labels=True).fit(views)
      norms = [
          np.linalg.norm(np.nan_to_num(one), axis=1)
          for one in (views if len(views) == 2 else [rows])
      ]
      share = (np.max(norms, axis=0) > 50).mean()
      several = [
          [one[part] for one in views] if estimator._has_views else rows[part]
          for part in (slice(9), slice(9, None))
      ]
      for clients in (views, several):
        self.assertEqual(estimator.fit(clients).clipped_share_, share)
