"""Tests for fl_clustering.kmeans.private_fit, and for `privacy` of FederatedKMeans."""

import dataclasses
import math
from unittest import mock

from absl.testing import parameterized
import numpy as np
import pandas as pd

from clustering_basics import randomness
from dp_clustering import cluster_statistics
from dp_clustering import ledger as ledger_lib
from dp_clustering import noise
from dp_clustering import point_grid
from dp_clustering import privacy_calculator
from dp_clustering import private_sums
from dp_clustering import refine
from dp_clustering import sum_query
from fl_clustering.kmeans import ClientPrivacy
from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import PointPrivacy
from fl_clustering.kmeans import private_fit
from fl_clustering.kmeans import rounds as rounds_lib
from fl_clustering import load_model
from fl_clustering.points import grid_scaling
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.points import secure_sums
from fl_clustering.tables import saved as saved_lib
from fl_clustering.tables import schema
from tests.kmeans import numpy_reference

_PRIVACY = PointPrivacy(1.0, 1e-6, 12.0)


class _PrivateTest(parameterized.TestCase):

  def _fit(self, clients, privacy=_PRIVACY, k=4, source=None):
    """Returns the `Fit` of a list of arrays, with seeded noise by default."""
    clients = {str(index): np.asarray(points) for index, points in enumerate(clients)}
    clients = privacy_lib.hold(clients, (2,), privacy)
    config = kmeans_config.KMeansConfig(k, privacy=privacy, seed=7)
    return private_fit.fit(config, clients, source or noise.SeededNoise(5))


class PooledTest(_PrivateTest):

  def test_the_same_bits_as_on_pooled_points_however_they_are_spread(self):
    # On a grid of its own, many points are on borders between centers.
    points = np.random.default_rng(0).standard_normal((4000, 2))
    points = 12 * np.where(np.arange(4000)[:, np.newaxis] % 2, points**3, np.rint(points))
    points[3] = [1e300, np.nan]
    points[4] = np.inf
    ledger = ledger_lib.Ledger(1.0, 1e-6, noise.SeededNoise(5))
    sums = private_sums.PrivateSums(points, 12.0, noise.SeededNoise(5), ledger)
    expected = refine.private_centers(
        sums, 4, privacy_calculator.gaussian_mu(1.0, 1e-6),
        randomness.generator(7, "private k-means"),
    )
    shuffled = points[np.random.default_rng(1).permutation(len(points))]
    for parts in ([points], np.array_split(shuffled, 7), [shuffled, np.zeros((0, 2))]):
      found = self._fit(parts)
      np.testing.assert_array_equal(found.centroids, expected.centers)
      np.testing.assert_array_equal(found.noise.noise_sd, expected.noise_sd)
      self.assertEqual(found.ledger.releases, ledger.releases)

  def test_few_points_whose_number_is_public_have_fewer_releases_of_the_same_budget(self):
    clients = list(numpy_reference.sample_clients().values())
    secret, many, few = (
        self._fit(clients, PointPrivacy(1.0, 1e-6, 12.0, public_num_points=number))
        for number in (None, 500, 100)
    )
    np.testing.assert_array_equal(many.centroids, secret.centroids)
    self.assertEqual(many.ledger.releases, secret.ledger.releases)
    self.assertLess(few.num_rounds, secret.num_rounds)
    self.assertAlmostEqual(few.ledger.mu_spent / few.ledger.mu, 1, places=9)
    self.assertFalse(np.array_equal(few.centroids, secret.centroids))

  def test_shares_of_the_clients_do_as_well(self):
    # 4 clusters of 5,000 points.  Of 40 fits, the worst had 1.0001 times the least inertia.
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0], [6, 0], [0, 6], [6, 6.0]])
    points = np.repeat(centers, 5000, axis=0) + rng.standard_normal((20000, 2))
    privacy = PointPrivacy(1.0, 1e-6, 12.0, trust="none", min_clients=3)
    found = self._fit(np.array_split(points, 5), privacy)
    least = numpy_reference.inertia(points, centers)
    self.assertLess(numpy_reference.inertia(points, found.centroids), 1.02 * least)
    self.assertEqual(found.privacy_spent["trust"], "none")
    self.assertEqual(found.privacy_spent["epsilon"], math.inf)  # The noise is seeded.
    self.assertEqual(found.privacy_spent["min_clients"], 3)

  @parameterized.parameters(None, 5, 2)
  def test_the_noise_that_is_expected_is_that_of_all_shares(self, min_clients):
    privacy = PointPrivacy(1.0, 1e-6, 12.0, trust="none", min_clients=min_clients)
    ledger = ledger_lib.Ledger(1.0, 1e-6, noise.SeededNoise(5))
    # Of clients without points the answer is noise.
    clients = privacy_lib.hold(
        {str(index): np.zeros((0, 2000)) for index in range(20)}, (2000,), privacy
    )
    sums = private_fit.FederatedSums(clients, 1, privacy, noise.SeededNoise(5), ledger)
    told = sums.private_cluster_statistics(
        np.zeros((1, 2000)), 3.0, 0.1, name="round", count_weight=0.5, squared_error_weight=0.0
    )
    (release,) = ledger.freeze().releases
    self.assertAlmostEqual(told.residual_sum_std, 3 * release.std)
    expected = told.noise_factor * told.residual_sum_std
    self.assertAlmostEqual(told.residual_sums.std() / expected, 1, delta=0.05)
    # A center whose move could be that noise alone stays.
    counted = dataclasses.replace(told, counts=np.array([1e5]))
    (squared_move,) = refine._moves(counted).squares  # pylint: disable=protected-access
    self.assertLess(squared_move, 0.01 * ((told.residual_sums / 1e5) ** 2).sum())


class SensitivityTest(parameterized.TestCase):
  """One row changes the totals by its own contribution, however the others lie."""

  def _totals(self, points, query, is_pooled):
    if is_pooled:
      return private_sums.PooledPoints(points, 1.0).totals(query)
    privacy = PointPrivacy(1.0, 1e-6, 1.0)
    clients = {"a": points[:5], "b": points[5:]}
    held = privacy_lib.hold(clients, (points.shape[1],), privacy)
    return secure_sums.FederatedPoints(held, 2).totals(query)

  @parameterized.product(
      # Blocks of a client have 2,048 rows, and of pooled points 6,553 of this width.
      is_pooled=[True, False],
      num_copies=[1, 15, 16, 2042, 2048, 6543, 13096],
  )
  def test_one_more_copy_of_a_row_on_a_border(self, is_pooled, num_copies):
    # In float32, the 16th copy of such a row sent the others to the other center.
    rng = np.random.default_rng(6)
    normal = rng.choice([-1, 1], 40) / np.sqrt(40)
    row = rng.normal(0, 0.1, 40)
    row -= (row @ normal) * normal
    others = rng.normal(0, 0.1, (10, 40))
    centers = point_grid.on_point_grid(np.stack([0.5 * normal, -0.5 * normal]), 1.0)
    query = sum_query.SumQuery(
        cluster_statistics.ClippedResiduals(True),
        {"centers": centers, "clip_radii": np.full((2, 1), 0.3 * point_grid.POINT_STEPS)},
    )
    copies = np.repeat(row[np.newaxis], num_copies + 1, axis=0)
    before = self._totals(np.concatenate([others, copies[:-1]]), query, is_pooled)
    after = self._totals(np.concatenate([others, copies]), query, is_pooled)
    steps = point_grid.CONTRIBUTION_STEPS
    change = query.split((after - before) / steps)
    self.assertEqual(np.abs(change["counts"]).sum(), 1)
    self.assertLessEqual(np.linalg.norm(change["residual_sums"]), 1)
    self.assertLessEqual(np.abs(change["excesses"]).sum(), 0.5)


class FederatedKMeansTest(_PrivateTest):

  def test_nothing_but_noisy_totals_looks_at_the_data(self):
    with mock.patch.object(grid_scaling, "find_grid") as find_grid, mock.patch.object(
        rounds_lib.Rounds, "gather"
    ) as gather, mock.patch.object(
        cluster_statistics, "private_cluster_statistics",
        wraps=cluster_statistics.private_cluster_statistics,
    ) as release:
      model = FederatedKMeans(3, privacy=_PRIVACY, keep_history=True).fit(
          numpy_reference.sample_clients()
      )
    find_grid.assert_not_called()
    gather.assert_not_called()
    self.assertEqual(release.call_count, model.n_iter_)
    for told in (model.inertia_, model.simplified_silhouette_, model.num_centers_on_few_points_):
      self.assertIsNone(told)
    asked = [call.args[3] for call in release.call_args_list]
    for record, after in zip(model.history_, [*asked[1:], model.cluster_centers_], strict=True):
      np.testing.assert_array_equal(record.centroids, after)

  def test_the_noise_is_secure_and_the_ledger_holds_the_whole_budget(self):
    clients = numpy_reference.sample_clients()
    model, other = (
        FederatedKMeans(3, privacy=_PRIVACY, random_state=1).fit(clients) for _ in range(2)
    )
    self.assertFalse(np.array_equal(model.cluster_centers_, other.cluster_centers_))
    self.assertTrue(model.privacy_ledger_.is_private)
    self.assertStartsWith(model.privacy_spent_["noise"], "secure")
    self.assertAlmostEqual(model.privacy_ledger_.epsilon_spent, 1.0, delta=1e-6)
    self.assertLen(model.privacy_ledger_.releases, model.n_iter_)
    self.assertEqual(model.privacy_spent_["unit"], "one point of one client")
    self.assertEqual(model.privacy_spent_["neighboring_relation"], "add_or_remove_one")

  @parameterized.named_parameters(
      ("points", _PRIVACY), ("clients", ClientPrivacy(1.0, 1e-6, 12.0, max_points=20))
  )
  def test_points_outside_count_as_those_that_the_fit_clips_them_to(self, privacy):
    model = FederatedKMeans(3, privacy=privacy).fit(numpy_reference.sample_clients())
    directions = np.random.default_rng(0).standard_normal((50, 2))
    clipped = 12 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    points = clipped * np.geomspace(1, 1e250, 50)[:, np.newaxis]
    np.testing.assert_array_equal(model.predict(points), model.predict(clipped))
    np.testing.assert_allclose(model.transform(points), model.transform(clipped))
    self.assertLess(model.score(points[:9]), model.score(clipped[:9]))
    features = ("x", "y")
    saved = load_model.SavedKMeans(
        model._result.model, model.cluster_centers_,  # pylint: disable=protected-access
        saved_lib.SavedTables.exact({schema.NO_VIEW: schema.strict(features)}, np.zeros(2)),
    )
    folder = self.create_tempdir().full_path
    saved.save(folder)
    later = pd.DataFrame(points[:15], columns=features)
    found = load_model.load_model(folder).predictions(later)
    np.testing.assert_array_equal(found["cluster"], model.predict(clipped[:15]))
    nearest = model.transform(clipped[:15]).min(axis=1)
    np.testing.assert_allclose(found["distance"], nearest, rtol=1e-6)


class ClientPrivacyTest(_PrivateTest):

  def test_the_noise_is_that_of_the_root_of_the_number_of_points(self):
    clients = list(numpy_reference.sample_clients().values())
    point = self._fit(clients, PointPrivacy(1.0, 1e-6, 12.0))
    client = self._fit(clients, ClientPrivacy(1.0, 1e-6, 12.0, max_points=20))
    # A client whose sums are cut counts less.
    self.assertTrue(np.isfinite(point.noise.noisy_counts).all())
    self.assertTrue(np.isnan([client.noise.noisy_counts, client.noise.count_sd]).all())
    for one, many in zip(point.ledger.releases, client.ledger.releases):
      self.assertAlmostEqual(many.sensitivity, math.sqrt(20) * one.sensitivity)
      self.assertAlmostEqual(many.std, math.sqrt(20) * one.std)
      self.assertAlmostEqual(many.mu, one.mu)
    for one, many in zip(point.history, client.history):
      # A limit for every column of the totals.
      columns = one.bytes_up / refine.largest_num_centers(4) / 8
      self.assertEqual(many.bytes_down - one.bytes_down, 8 * columns)
      self.assertEqual(many.bytes_up, one.bytes_up)

  def test_the_first_points_of_a_client_count(self):
    privacy = ClientPrivacy(1000.0, 1e-6, 12.0, max_points=20)
    others, client = (np.random.default_rng(i).normal(0, 5, (30, 2)) for i in range(2))
    found = self._fit([others[:20], client], privacy)
    np.testing.assert_array_equal(
        found.centroids, self._fit([others[:20], client[:20]], privacy).centroids
    )
    self.assertFalse(np.array_equal(
        found.centroids, self._fit([others[:20], client[10:]], privacy).centroids
    ))

  def test_no_client_changes_a_release_by_more_than_its_sensitivity(self):
    privacy = ClientPrivacy(1.0, 1e-6, 1.0, max_points=20)
    others = np.random.default_rng(0).normal(0, 0.2, (50, 2))
    releases = []

    def totals(clients):
      """Returns what a release adds noise to, in standard deviations of the noise."""
      held = privacy_lib.hold(clients, (2,), privacy)
      points = secure_sums.FederatedPoints(held, 2)

      def noisy_totals(query, stds):
        quiet = mock.Mock(discrete_gaussian=lambda shape, scale: np.zeros(shape, np.int64))
        answer = privacy_lib.noisy_totals(privacy, points, len(clients), quiet)
        releases.append(answer(0.3, query, stds) / query.by_column(stds))
        return answer(0.3, query, stds)

      cluster_statistics.private_cluster_statistics(
          noisy_totals, mock.Mock(), 1.0, np.array([[-0.5, 0], [0.5, 0]]), 0.3, 0.3, "a release",
          0.4, 0.5, unit_norm=privacy.unit_norm,
      )
      return releases[-1]

    without = totals({"a": others})
    # All of its points at one end of the ball, and more than may count: the worst.
    worst = totals({"a": others, "b": np.full((500, 2), 9.0)})
    self.assertBetween(np.linalg.norm(worst - without), 0.2999, 0.3)
    # One point alone is not made smaller: 20 points may be sqrt(20) times as large.
    one = totals({"a": others, "b": np.full((1, 2), 9.0)})
    self.assertBetween(np.linalg.norm(one - without), 0.2999 / math.sqrt(20), 0.3 / math.sqrt(20))
