"""Tests for fl_clustering.multiview.FederatedMultiViewKMeans."""

import functools
import inspect
import unittest
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from sklearn import metrics

from fl_clustering.multiview import client_views
from fl_clustering.multiview import FederatedMultiViewKMeans
from fl_clustering.multiview import first_centers
from fl_clustering.multiview import multiview_config
from fl_clustering.multiview import PointPrivacy
from fl_clustering.multiview import rounds as rounds_lib
from fl_clustering.multiview import sums
from fl_clustering.multiview import view_weights
from fl_clustering.points import gathering
from fl_clustering.points import noise as noise_lib
from fl_clustering.points import point_files
from fl_clustering.points import scaling
from fl_clustering import runtime
from tests.multiview import central_reference
from tests.multiview import sample_views

_WIDTHS = sample_views.WIDTHS


def setUpModule():
  local = runtime.LocalRuntime()
  unittest.addModuleCleanup(local.close)


def _build(**settings):
  return FederatedMultiViewKMeans(sample_views.NUM_CLUSTERS, **{"n_init": 1, **settings})


@functools.lru_cache(maxsize=None)
def _sample_fit(rule):
  """Returns a fit to the sample, which tests share."""
  return _build(view_weights=rule).fit(sample_views.sample_views()[0])


def _scaled(clients):
  """Returns all points in scaled coordinates, and the columns' means and deviations."""
  points = np.concatenate(sample_views.pooled(clients), axis=1)
  mean, std = points.mean(axis=0), points.std(axis=0)
  return (points - mean) / std, mean, std


class FederatedEqualsCentralTest(parameterized.TestCase):

  def _start(self, clients, mean, std):
    """Returns the centers that the first restart begins with."""
    views = client_views.check_clients(clients, 1)
    files = point_files.write_files(views.points, self.create_tempdir().full_path)
    return first_centers.first_centers(
        multiview_config.MultiViewConfig(sample_views.NUM_CLUSTERS),
        files.scaled(scaling.Scaling(mean, 1 / std)), _WIDTHS, 1 / np.array(_WIDTHS), restart=0,
    )

  @parameterized.product(rule=["equal", "mvkm"], num_rounds=[1, 2, 10, 60])
  def test_any_number_of_rounds(self, rule, num_rounds):
    # Weakly separated clusters, so that it takes more than a few rounds.
    clients, _ = sample_views.sample_views(separation=0.7)
    model = _build(view_weights=rule, num_rounds=num_rounds, tol=0).fit(clients)
    self.assertEqual(model.n_rounds_, num_rounds)
    scaled, mean, std = _scaled(clients)
    centers, weights = self._start(clients, mean, std), np.full(3, 1 / 3)
    betas = 1 / np.array(_WIDTHS)
    for _ in range(num_rounds):
      centers, _, costs = central_reference.iterate(scaled, centers, betas, weights**2, _WIDTHS)
      weights = view_weights.VIEW_WEIGHTS[rule].weigh(costs, None, 2.0)
    found = (np.concatenate(model.cluster_centers_, axis=1) - mean) / std
    np.testing.assert_allclose(found, centers, atol=1e-5)
    np.testing.assert_allclose(model.view_weights_, weights, atol=1e-5)

  @parameterized.named_parameters(*((name, name) for name in view_weights.VIEW_WEIGHTS))
  def test_how_points_are_spread_over_clients_does_not_matter(self, rule):
    # Both must find the optimum, in each view alone as well for `regret`: the clusters are
    # so clear that every restart does.
    clients, _ = sample_views.sample_views(separation=8.0)
    pooled = sample_views.pooled(clients)
    federated = _build(view_weights=rule, n_init=3, tol=1e-12).fit(clients)
    central = _build(view_weights=rule, n_init=3, tol=1e-12).fit({"all": pooled})
    np.testing.assert_allclose(federated.objective_, central.objective_, rtol=1e-9)
    np.testing.assert_allclose(federated.view_weights_, central.view_weights_, atol=1e-9)
    self.assertEqual(
        metrics.adjusted_rand_score(federated.predict(pooled), central.predict(pooled)), 1.0
    )


class FederatedMultiViewKMeansTest(parameterized.TestCase):

  def test_every_argument_is_documented_where_it_is_typed(self):
    for name in inspect.signature(FederatedMultiViewKMeans).parameters:
      self.assertIn(f"\n      {name}: ", FederatedMultiViewKMeans.__init__.__doc__)

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

  @parameterized.named_parameters(("equal", "equal"), ("mvkm", "mvkm"))
  def test_no_round_raises_the_objective(self, rule):
    clients, _ = sample_views.sample_views(separation=0.5)
    model = _build(view_weights=rule, num_rounds=30, tol=0).fit(clients)
    objectives = np.array([record.objective for record in model.history_])
    self.assertLen(objectives, 31)
    self.assertTrue(np.all(np.diff(objectives) <= 1e-12 * objectives[0]), objectives)
    self.assertLess(objectives[-1], objectives[0])

  def test_history_counts_every_point_and_ends_with_the_result(self):
    clients, _ = sample_views.sample_views()
    model = _sample_fit("equal")
    for record in model.history_:
      self.assertEqual(record.cluster_sizes.sum(), 73)
    found = model.predict(sample_views.pooled(clients))
    np.testing.assert_array_equal(model.history_[-1].cluster_sizes, np.bincount(found))
    self.assertEqual(model.objective_, model.history_[-1].objective)
    self.assertIsNone(model.privacy_spent_)

  def test_tol_ends_a_restart(self):
    self.assertLess(_sample_fit("equal").n_rounds_, 50)

  def test_more_restarts_are_never_worse(self):
    clients, _ = sample_views.sample_views(separation=0.3)
    objectives = [
        FederatedMultiViewKMeans(10, n_init=n).fit(clients).objective_ for n in (1, 3, 6)
    ]
    self.assertEqual(objectives, sorted(objectives, reverse=True))
    self.assertLess(objectives[-1], objectives[0])

  def test_same_seed_same_numbers_whatever_the_order_of_clients(self):
    clients, _ = sample_views.sample_views(separation=0.3)
    first = _build(seed=3).fit(clients)
    second = _build(seed=3).fit(dict(reversed(clients.items())))
    self.assertEqual(first.objective_, second.objective_)
    for here, there in zip(first.cluster_centers_, second.cluster_centers_):
      np.testing.assert_array_equal(here, there)
    other = _build(seed=4).fit(clients)
    self.assertNotEqual(first.objective_, other.objective_)

  @parameterized.named_parameters(*((name, name) for name in view_weights.VIEW_WEIGHTS))
  def test_a_scaled_view_gives_the_same_clusters(self, rule):
    clients, _ = sample_views.sample_views()
    scaled = {c: [views[0], -1e6 * views[1] + 7, views[2]] for c, views in clients.items()}
    model = _sample_fit(rule)
    other = _build(view_weights=rule).fit(scaled)
    np.testing.assert_array_equal(
        model.predict(clients["a"]), other.predict(scaled["a"])
    )

  def test_a_constant_column_changes_nothing(self):
    clients, _ = sample_views.sample_views()
    wider = {
        c: [np.concatenate([v[0], np.full((len(v[0]), 1), 0.1)], axis=1), *v[1:]]
        for c, v in clients.items()
    }
    model = _build().fit(wider)
    np.testing.assert_allclose(model.objective_, _sample_fit("equal").objective_, rtol=1e-9)
    np.testing.assert_allclose(model.cluster_centers_[0][:, 4], 0.1)

  def test_regret_trusts_a_view_of_noise_less(self):
    clients, _ = sample_views.sample_views()
    rng = np.random.default_rng(1)
    noisy = {c: [*v, rng.standard_normal((len(v[0]), 3))] for c, v in clients.items()}
    weights = _build(view_weights="regret").fit(noisy).view_weights_
    self.assertLess(weights[3], 0.9 * weights[:3].min())

  def test_one_cluster_and_as_many_clusters_as_points(self):
    clients = {"a": [np.arange(6.0).reshape(6, 1)], "b": [np.arange(10.0, 12).reshape(2, 1)]}
    one = FederatedMultiViewKMeans(1).fit(clients)
    np.testing.assert_array_equal(one.predict([np.zeros((3, 1))]), [0, 0, 0])
    many = FederatedMultiViewKMeans(8).fit(clients)
    self.assertTrue(np.all(np.isfinite(many.cluster_centers_[0])))

  @parameterized.named_parameters(
      ("constant_view", lambda c: {k: [v[0], v[1] * 0 + 5, v[2]] for k, v in c.items()},
       "views that vary .* everywhere in view 1"),
      ("missing_view", lambda c: {**c, "c": c["c"][:2]}, r"`clients`\['c'\] must have 3 views"),
      ("few_points", lambda c: {"d": c["d"]}, "`n_clusters` must be at most the 1 points"),
  )
  def test_bad_clients_are_refused(self, change, message):
    with self.assertRaisesRegex(ValueError, message):
      _build().fit(change(sample_views.sample_views()[0]))

  def test_predict_refuses_other_views(self):
    clients, _ = sample_views.sample_views()
    with self.assertRaisesRegex(ValueError, "`fit` must come before `predict`"):
      _build().predict(clients["a"])
    model = _sample_fit("equal")
    with self.assertRaisesRegex(ValueError, "`views` must have 3 views"):
      model.predict(clients["a"][:2])
    with self.assertRaisesRegex(ValueError, "`views`, view 0, must have 4 columns"):
      model.predict(clients["a"][::-1])


class PrivateFitTest(absltest.TestCase):

  def _fit(self, epsilon):
    rng = np.random.default_rng(0)
    clusters = rng.integers(3, size=20_000)
    views = [
        (np.eye(3, width)[clusters] + 0.1 * rng.standard_normal((20_000, width))) * 5
        for width in (3, 4)
    ]
    clients = {f"site {i}": [view[i::4] for view in views] for i in range(4)}
    privacy = PointPrivacy(epsilon, 1e-6, (7.0, 7.0))
    model = _build(standardize=False, num_rounds=8, privacy=privacy).fit(clients)
    return model, metrics.adjusted_rand_score(clusters, model.predict(views))

  def test_finds_clear_clusters_and_says_what_it_guarantees(self):
    model, score = self._fit(1.0)
    self.assertGreater(score, 0.95)
    self.assertEqual(model.privacy_spent_["epsilon"], 1.0)
    self.assertEqual(model.privacy_spent_["num_rounds"], 8)
    self.assertIsNone(model.objective_)
    self.assertLen(model.history_, model.n_rounds_)

  def test_noise_does_not_follow_the_seed(self):
    first, _ = self._fit(1.0)
    second, _ = self._fit(1.0)
    self.assertFalse(np.array_equal(first.cluster_centers_[0], second.cluster_centers_[0]))

  def test_the_noise_that_is_stated_is_added_in_every_round(self):
    privacy = PointPrivacy(1.0, 1e-6, (20.0, 1500.0, 0.2))
    with mock.patch.object(
        rounds_lib.Rounds, "kernel_sums", autospec=True, side_effect=rounds_lib.Rounds.kernel_sums
    ) as kernel_sums, mock.patch.object(
        rounds_lib, "Rounds", wraps=rounds_lib.Rounds
    ) as rounds, mock.patch.object(
        noise_lib, "noisy_sum_factory", wraps=noise_lib.noisy_sum_factory
    ) as noisy_sum_factory:
      model = _build(standardize=False, num_rounds=4, tol=0, privacy=privacy)
      model.fit(sample_views.sample_views()[0])
    stated = privacy.round_noise(4)
    self.assertEqual(model.privacy_spent_, stated.spent)
    noisy_sum_factory.assert_called_once_with(stated.std)
    rounds.assert_called_once()
    settings = rounds.call_args.kwargs
    self.assertIs(settings["local_sums"], sums.projected_sums)
    self.assertIs(settings["sum_factory"], noise_lib.noisy_sum_factory(stated.std))
    self.assertEqual(kernel_sums.call_count, 4)

  def test_nothing_but_the_noisy_rounds_looks_at_the_data(self):
    privacy = PointPrivacy(1.0, 1e-6, (20.0, 1500.0, 0.2))
    with mock.patch.object(gathering, "gather_blocks") as gather_blocks, mock.patch.object(
        first_centers, "first_centers"
    ) as centers, mock.patch.object(point_files.PointFiles, "column_moments") as column_moments:
      _build(standardize=False, num_rounds=4, privacy=privacy).fit(
          sample_views.sample_views()[0]
      )
    for other in (gather_blocks, centers, column_moments):
      other.assert_not_called()

  def test_one_norm_per_view_is_needed(self):
    privacy = PointPrivacy(1.0, 1e-6, (7.0,))
    with self.assertRaisesRegex(ValueError, "`view_norms` must have one norm for each of the 3"):
      _build(standardize=False, privacy=privacy).fit(sample_views.sample_views()[0])


if __name__ == "__main__":
  absltest.main()
