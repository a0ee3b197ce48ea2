import dataclasses
from unittest import mock

from absl.testing import parameterized
import numpy as np
from sklearn import metrics

from fl_clustering.multiview import FederatedMultiViewKMeans
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import ViewPrivacy
from fl_clustering.points import secure_sums
from tests.multiview import central_reference
from tests.multiview import sample_views

_WIDTHS = sample_views.WIDTHS


def _build(**settings):
  return FederatedMultiViewKMeans(sample_views.NUM_CLUSTERS, **{"n_init": 1, **settings})


def _scaled(clients):
  """Returns all points in scaled coordinates, and the columns' means and deviations."""
  points = np.concatenate(sample_views.pooled(clients), axis=1)
  mean, std = points.mean(axis=0), points.std(axis=0)
  return (points - mean) / std, mean, std


def _rounds(model):
  """Returns all that a fit told of its rounds, as one list of arrays."""
  return [array for record in model.history_ for array in dataclasses.astuple(record)]


class FederatedEqualsCentralTest(parameterized.TestCase):

  @parameterized.product(rule=["equal", "mvkm"], num_rounds=[1, 60])
  def test_any_number_of_rounds(self, rule, num_rounds):
    # Weakly separated clusters, so that it takes more than a few rounds.
    clients, _ = sample_views.sample_views(separation=0.7)
    step = fitting.server_step
    with mock.patch.object(step, "moves", wraps=step.moves) as moves:
      model = _build(view_weights=rule, alpha=3.0, num_rounds=num_rounds, tol=0).fit(clients)
    start = moves.call_args_list[0].args[0]
    self.assertEqual(model.n_iter_, num_rounds)
    scaled, mean, std = _scaled(clients)
    betas = 1 / np.array(_WIDTHS)
    # On the grid every view has a total variance of one over its bandwidth, and here as much
    # as it has columns.
    units = np.sqrt(np.array(_WIDTHS) * start.rates)
    centers = start.centers * np.repeat(units, _WIDTHS)
    weights = np.full(3, 1 / 3)
    for _ in range(num_rounds):
      centers, _, costs = central_reference.iterate(scaled, centers, betas, weights**3, _WIDTHS)
      weights = multiview_config.VIEW_WEIGHTS[rule].weigh(costs, None, 3.0)
    found = (np.concatenate(model.cluster_centers_, axis=1) - mean) / std
    np.testing.assert_allclose(found, centers, atol=1e-5)
    np.testing.assert_allclose(model.view_weights_, weights, atol=1e-5)
    _, _, costs = central_reference.iterate(scaled, centers, betas, weights**3, _WIDTHS)
    np.testing.assert_allclose(model.objective_, weights**3 @ costs, rtol=1e-4)

  @parameterized.parameters(*multiview_config.VIEW_WEIGHTS)
  def test_how_points_are_spread_over_clients_does_not_change_a_bit(self, rule):
    clients, _ = sample_views.sample_views(separation=0.7)
    pooled = sample_views.pooled(clients)
    order = np.random.default_rng(1).permutation(len(pooled[0]))
    others = [
        {"all": pooled}, dict(reversed(clients.items())),
        {str(i): [view[order][i::9] for view in pooled] for i in range(9)},
    ]
    expected = _build(view_weights=rule, num_rounds=5).fit(clients)
    for other in others:
      model = _build(view_weights=rule, num_rounds=5).fit(other)
      for here, there in zip(_rounds(expected), _rounds(model), strict=True):
        np.testing.assert_array_equal(here, there)
      for here, there in zip(expected.cluster_centers_, model.cluster_centers_):
        np.testing.assert_array_equal(here, there)

  @parameterized.parameters((True, 1), (False, 50))
  def test_centers_are_means_in_columns_of_any_width(self, standardize, num_rounds):
    rng = np.random.default_rng(0)
    clusters = rng.integers(3, size=300)
    points = np.stack([10 * clusters, clusters % 2, -clusters, 2 * (clusters == 1)], axis=1)
    points = (points + 0.3 * rng.standard_normal((300, 4)) + 5) * [1e6, 1e-3, 1.0, 1e-9]
    asked, fine_query = [], fitting.server_step.fine_query

    def remembered(model, *args):
      asked.append(model)
      return fine_query(model, *args)

    clients = [[part[:, :3], part[:, 3:]] for part in np.split(points, [1, 150])]
    with mock.patch.object(fitting.server_step, "fine_query", remembered):
      model = _build(standardize=standardize, num_rounds=num_rounds).fit(clients)
    found = np.concatenate(model.cluster_centers_, axis=1)
    (start,), fit = asked, model._result  # pylint: disable=protected-access
    moved, _, _ = central_reference.iterate(
        fit.scaling.apply(points), start.centers, start.rates, start.view_factors, (3, 1)
    )
    errors = np.abs(found - fit.scaling.undo(moved)).max(axis=0) / points.std(axis=0)
    self.assertTrue(np.all(errors < 1e-6), errors)
    # They are the centers of the result, up to its grid.
    np.testing.assert_allclose(fit.scaling.apply(found), fit.model.on_grid.centers, atol=2)


class FederatedMultiViewKMeansTest(parameterized.TestCase):

  def test_finds_the_clusters_although_clients_lack_some(self):
    clients, clusters = sample_views.sample_views()
    by_cluster = {}
    for k in range(sample_views.NUM_CLUSTERS):
      views = zip(*(
          [view[clusters[c] == k] for view in clients[c]] for c in clients
      ))
      by_cluster[f"only {k}"] = [np.concatenate(view) for view in views]
    model = _build().fit(by_cluster)
    found = model.predict(sample_views.pooled(clients))
    self.assertEqual(
        metrics.adjusted_rand_score(np.concatenate(list(clusters.values())), found), 1.0
    )
    for centers, width in zip(model.cluster_centers_, _WIDTHS):
      self.assertEqual(centers.shape, (sample_views.NUM_CLUSTERS, width))
    # In the data's own units: the views lie at 10, 1000 and 0.1.
    np.testing.assert_allclose(model.cluster_centers_[1].mean(), 1000, rtol=0.5)

  @parameterized.parameters("equal", "mvkm")
  def test_no_round_raises_the_objective(self, rule):
    clients, _ = sample_views.sample_views(separation=0.5)
    model = _build(view_weights=rule, num_rounds=30, tol=0).fit(clients)
    objectives = np.array([record.objective for record in model.history_])
    self.assertLen(objectives, 31)
    self.assertTrue(np.all(np.diff(objectives) <= 1e-8 * objectives[0]), objectives)
    self.assertLess(objectives[-1], objectives[0])

  def test_history_counts_every_point_and_ends_with_the_result(self):
    clients, _ = sample_views.sample_views()
    model = _build().fit(clients)
    for record in model.history_:
      self.assertEqual(record.cluster_sizes.sum(), 73)
    found = model.predict(sample_views.pooled(clients))
    np.testing.assert_array_equal(model.history_[-1].cluster_sizes, np.bincount(found))
    self.assertEqual(model.objective_, model.history_[-1].objective)
    self.assertLess(model.n_iter_, 50)  # By `tol`.

  def test_the_seed_decides(self):
    clients, _ = sample_views.sample_views(separation=0.3)
    first, other = (_build(random_state=seed).fit(clients).objective_ for seed in (3, 4))
    self.assertNotEqual(first, other)

  def test_every_restart_has_first_centers_of_its_own(self):
    clients, _ = sample_views.sample_views()
    generator = fitting.randomness.generator
    with mock.patch.object(fitting.randomness, "generator", wraps=generator) as drawn:
      _build(n_init=3, random_state=5).fit(clients)
    expected = [mock.call(5, "first centers", restart) for restart in range(3)]
    self.assertEqual(drawn.call_args_list, expected)

  def test_centers_on_fewer_than_five_points_are_counted(self):
    points = 9 * np.repeat(np.eye(3), [4, 5, 40], axis=0)
    points += np.random.default_rng(0).random(points.shape)
    views = [points[:, :1], points[:, 1:]]
    self.assertEqual(_build().fit([views]).num_centers_on_few_points_, 1)

  def test_regret_trusts_a_view_of_noise_less(self):
    clients, _ = sample_views.sample_views()
    rng = np.random.default_rng(1)
    noisy = {c: [*v, rng.standard_normal((len(v[0]), 3))] for c, v in clients.items()}
    weights = _build(view_weights="regret").fit(noisy).view_weights_
    self.assertLess(weights[3], 0.9 * weights[:3].min())

  @parameterized.named_parameters(
      ("constant_view", lambda c: {k: [v[0], v[1] * 0 + 5, v[2]] for k, v in c.items()}, "view 1"),
      ("view_of_rounding",
       lambda c: {k: [v[0], np.resize([0.1 + 0.2, 0.3], v[1].shape), v[2]] for k, v in c.items()},
       "view 1"),
      ("few_points", lambda c: {"d": c["d"]}, "`n_clusters`"),
  )
  def test_bad_clients_are_refused(self, change, message):
    with self.assertRaisesRegex(ValueError, message):
      _build().fit(change(sample_views.sample_views()[0]))

  def test_predict_refuses_other_views(self):
    clients, _ = sample_views.sample_views()
    model = _build().fit(clients)
    for views, where in ((clients["a"][:2], "`X`"), (clients["a"][::-1], "`X`, view 0")):
      with self.assertRaisesRegex(ValueError, where):
        model.predict(views)

  def test_a_fit_that_fails_leaves_all_as_it_was(self):
    clients, _ = sample_views.sample_views()
    model = _build().fit(clients)
    others = {client_id: views[:1] for client_id, views in clients.items()}
    with self.assertRaisesRegex(ValueError, "n_clusters"):
      model.set_params(n_clusters=10_000).fit(others)
    for client_id, labels in model.predict(clients).items():
      np.testing.assert_array_equal(labels, model.labels_[client_id])


class PrivateFitTest(parameterized.TestCase):

  def _fit(self, trust="server"):
    rng = np.random.default_rng(0)
    clusters = rng.integers(3, size=6000)
    views = [
        (np.eye(3, width)[clusters] + 0.1 * rng.standard_normal((6000, width))) * 5
        for width in (3, 4)
    ]
    clients = {f"site {i}": [view[i::4] for view in views] for i in range(4)}
    privacy = ViewPrivacy(3.0, 1e-6, (7.0, 7.0), trust)
    model = _build(standardize=False, privacy=privacy).fit(clients)
    return model, metrics.adjusted_rand_score(clusters, model.predict(views))

  @parameterized.parameters("server", "none")
  def test_finds_clear_clusters_and_says_what_it_guarantees(self, trust):
    model, score = self._fit(trust)
    self.assertGreater(score, 0.95)
    other, _ = self._fit(trust)  # Noise does not follow the seed.
    self.assertFalse(np.array_equal(model.cluster_centers_[0], other.cluster_centers_[0]))
    spent = model.privacy_spent_
    self.assertEqual((spent["epsilon"], spent["trust"]), (3.0, trust))
    self.assertEqual(spent["num_rounds"], len(model.privacy_ledger_.releases))
    self.assertTrue(model.privacy_ledger_.is_private)
    self.assertIsNone(model.objective_)
    self.assertEqual(model.n_iter_, 3)
    self.assertLen(model.history_, 3)
    for record in model.history_:
      self.assertAlmostEqual(record.cluster_sizes.sum(), 6000, delta=200)

  def test_rows_outside_the_balls_count_as_those_that_the_fit_clips_them_to(self):
    model, _ = self._fit()
    directions = np.random.default_rng(0).standard_normal((50, 7))
    clipped = [
        7 * part / np.linalg.norm(part, axis=1, keepdims=True)
        for part in (directions[:, :3], directions[:, 3:])
    ]
    far = [part * np.geomspace(1, 1e250, 50)[:, np.newaxis] for part in clipped]
    np.testing.assert_array_equal(model.predict(far), model.predict(clipped))
    np.testing.assert_allclose(model.transform(far), model.transform(clipped), atol=1e-6)
    self.assertAlmostEqual(model.score(far), model.score(clipped), delta=1e-4)

  def test_nothing_but_the_noisy_totals_looks_at_the_data(self):
    privacy = ViewPrivacy(1.0, 1e-6, (20.0, 1500.0, 0.2))
    with mock.patch.object(
        secure_sums.FederatedPoints, "totals", autospec=True,
        side_effect=lambda self, query, *unused: np.zeros(query.shape, np.int64),
    ) as totals, mock.patch.object(secure_sums.PointArrays, "total") as total:
      model = _build(standardize=False, num_rounds=4, privacy=privacy)
      model.fit(sample_views.sample_views()[0])
    total.assert_not_called()
    self.assertEqual(totals.call_count, model.privacy_spent_["num_rounds"])

  def test_no_message_tells_how_many_points_there_are(self):
    clients, _ = sample_views.sample_views()
    privacy = ViewPrivacy(1.0, 1e-6, (20.0, 1500.0, 0.2))
    model = FederatedMultiViewKMeans(100, standardize=False, privacy=privacy).fit(clients)
    self.assertEqual(model.cluster_centers_[0].shape, (100, 4))
    clients["b"][1] = clients["b"][1][:-1]
    with self.assertRaisesRegex(ValueError, "`clients`.*'b'") as caught:
      model.fit(clients)
    self.assertNotRegex(str(caught.exception), "24|25|73")
