import fractions
import functools
from unittest import mock

from absl import logging
from absl.testing import parameterized
import numpy as np
from sklearn import exceptions

from clustering_basics import agreement
from clustering_basics import callers_line
from clustering_basics import single_thread_kmeans
from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import rounds
from fl_clustering.kmeans import server_step
from tests import drawn_seeds
from tests.kmeans import numpy_reference

_GATHERING = ("fkm_lloyd", "fkm", "kfed", "child_parent")


@functools.lru_cache(maxsize=None)
def _sample_fit(algorithm, **options):
  """Returns a fit of nine clusters to the sample, which tests share."""
  algorithm = kmeans_config.ALGORITHMS[algorithm](**options)
  model = FederatedKMeans(9, algorithm, keep_history=True)
  return model.fit(numpy_reference.sample_clients())


class FederatedKMeansTest(parameterized.TestCase):

  @parameterized.parameters(*kmeans_config.ALGORITHMS)
  def test_every_algorithm(self, algorithm):
    points = numpy_reference.pooled(numpy_reference.sample_clients())
    model = _sample_fit(algorithm)
    centers = model.cluster_centers_
    self.assertEqual(centers.shape, (9, 2))
    np.testing.assert_array_equal(
        model.predict(points), numpy_reference.nearest(points, centers)[0]
    )
    inertia = numpy_reference.inertia(points, centers)
    np.testing.assert_allclose(model.inertia_, inertia, rtol=1e-4)
    # The restarts of `lloyd` end at centroids of different silhouettes.
    silhouette = numpy_reference.silhouette(points, centers)
    self.assertAlmostEqual(model.simplified_silhouette_, silhouette, delta=1e-4)
    self.assertBetween(len(model.history_), 1, model.n_iter_)
    last = model.history_[-1]
    np.testing.assert_array_equal(last.centroids, centers)
    self.assertEqual(last.inertia, model.inertia_)
    # Numbers are ids as their texts are.
    backwards = {int(c): p for c, p in reversed(numpy_reference.sample_clients().items())}
    other = FederatedKMeans(9, algorithm).fit(backwards)
    np.testing.assert_array_equal(other.cluster_centers_, centers)
    for name in ("inertia_", "simplified_silhouette_"):
      self.assertEqual(getattr(other, name), getattr(model, name))

  @parameterized.parameters(False, True)
  def test_clients_compute_around_zero_in_a_unit_of_mean_variance_one(self, standardize):
    points = 1e6 + np.random.default_rng(0).standard_normal((200, 3)) * [1.0, 1e-3, 50.0]
    asked, sums = [], rounds.Rounds.sums

    def record(own, centroids):
      asked.append(own.clients.scaling)
      return sums(own, centroids)

    with mock.patch.object(rounds.Rounds, "sums", record):
      FederatedKMeans(2, "lloyd", standardize=standardize).fit(np.split(points, 2))
    scaled = asked[0].apply(points)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.var(axis=0).mean(), 1, rtol=1e-5)
    if standardize:
      np.testing.assert_allclose(scaled.var(axis=0), 1, rtol=1e-5)
    else:
      np.testing.assert_array_equal(asked[0].factor, asked[0].factor[0])

  def test_lloyd_ends_when_it_settles(self):
    clients = numpy_reference.sample_clients()
    rough, fine = (
        FederatedKMeans(9, kmeans_config.Lloyd(n_init=1, tol=tol)).fit(clients) for tol in (0.2, 0)
    )
    told = [record.inertia for record in rough.history_]
    gains = [1 - after / before for before, after in zip(told, told[1:])]
    self.assertLess(rough.n_iter_, fine.n_iter_)
    self.assertLess(fine.n_iter_, 100)
    # The last round is the first one whose start a round had hardly improved.
    self.assertTrue(all(gain > 0.2 for gain in gains[:-2]), gains)

  @parameterized.parameters(
      (kmeans_config.Sums(num_rounds=9), 7 * ["split"] + 2 * ["lloyd"]),
      (kmeans_config.FkmLloyd(n_init=1, fkm_rounds=2, num_rounds=4, tol=0),
       2 * ["gather"] + 4 * ["lloyd"]),
      (kmeans_config.Lloyd(n_init=1, num_rounds=3, tol=0), 3 * ["lloyd"]),
      (kmeans_config.TffMinibatch(num_rounds=3), 3 * ["minibatch"]),
  )
  def test_there_are_as_many_rounds_as_the_options_say(self, algorithm, stages):
    model = FederatedKMeans(9, algorithm).fit(numpy_reference.sample_clients(noise=3.0))
    self.assertEqual([record.stage for record in model.history_], stages)

  def test_lloyd_goes_on_from_every_start_of_fkm(self):
    clients = numpy_reference.sample_clients(noise=2.0)
    taken_on, with_lloyd = [], algorithms._with_lloyd  # pylint: disable=protected-access

    def record(search, path, start, *args):
      taken_on.append(search.rounds.clients.scaling.undo(start))
      return with_lloyd(search, path, start, *args)

    with mock.patch.object(algorithms, "_with_lloyd", record):
      FederatedKMeans(9, "fkm_lloyd").fit(clients)
    points = numpy_reference.pooled(clients)
    best = min(taken_on, key=lambda start: numpy_reference.inertia(points, start))
    fkm = FederatedKMeans(9, kmeans_config.Fkm(n_init=5, num_rounds=3)).fit(clients)
    np.testing.assert_allclose(best, fkm.cluster_centers_)
    self.assertLen(np.unique(taken_on, axis=0), 5)

  def test_history_tells_the_inertia_of_its_centroids(self):
    points = numpy_reference.pooled(numpy_reference.sample_clients())
    model = _sample_fit("fkm_lloyd", tol=0)
    stages = [record.stage for record in model.history_]
    self.assertEqual(stages[:3], [algorithms.GATHER] * 3)
    self.assertEqual(set(stages[3:]), {algorithms.LLOYD})
    self.assertEqual([r.inertia for r in model.history_[:2]], [None, None])
    told = model.history_[2:]
    for record in told:
      np.testing.assert_allclose(
          record.inertia, numpy_reference.inertia(points, record.centroids), rtol=1e-4
      )
    for before, after in zip(told, told[1:]):
      self.assertLessEqual(after.inertia, before.inertia * (1 + 1e-6))
      centroids, _ = numpy_reference.lloyd_step(points, before.centroids)
      np.testing.assert_allclose(after.centroids, centroids, atol=1e-4)

    # Float32: nine centroids of two columns; up also their counts, and of Lloyd the inertia.
    sent = [(record.bytes_down, record.bytes_up) for record in model.history_[:4]]
    self.assertEqual(sent, [(0, 108), (72, 108), (72, 108), (72, 112)])
    self.assertEqual(_sample_fit("lloyd").history_[0].bytes_down, 72)
    for local_clusters, bytes_up in ((None, 108), (4, 48)):
      (gathered,) = _sample_fit("kfed", local_clusters=local_clusters).history_
      self.assertEqual(gathered.bytes_up, bytes_up)

  def test_the_inertia_is_that_at_the_centers_also_before_they_settle(self):
    clients = numpy_reference.sample_clients(noise=3.0)
    points = numpy_reference.pooled(clients)
    model = FederatedKMeans(9, kmeans_config.Sums(num_rounds=9)).fit(clients)
    moved, _ = numpy_reference.lloyd_step(points, model.cluster_centers_)
    self.assertGreater(np.abs(moved - model.cluster_centers_).max(), 1e-3)
    expected = numpy_reference.inertia(points, model.cluster_centers_)
    np.testing.assert_allclose(model.inertia_, expected, rtol=1e-6)

  @parameterized.parameters(False, True)
  def test_the_server_weighs_means_by_counts_if_asked(self, weight_by_counts):
    combine = server_step.combined_means
    with mock.patch.object(server_step, "combined_means", wraps=combine) as combined:
      FederatedKMeans(9, kmeans_config.ChildParent(weight_by_counts=weight_by_counts)).fit(
          numpy_reference.sample_clients()
      )
    self.assertEqual(combined.call_args.args[1].max() > 1, weight_by_counts)

  @parameterized.parameters((None, 9), (3, 3))
  def test_clients_of_kfed_look_for_as_many_clusters_as_asked(self, given, expected):
    build = local_work.separated_means
    with mock.patch.object(local_work, "separated_means", wraps=build) as built:
      FederatedKMeans(9, kmeans_config.KFed(local_clusters=given)).fit(
          numpy_reference.sample_clients()
      )
    self.assertEqual(built.call_args.args[0], expected)

  def test_the_seed_decides(self):
    clients = numpy_reference.sample_clients(noise=3.0)
    fkm = kmeans_config.Fkm(n_init=1)
    fits = [FederatedKMeans(9, fkm, random_state=seed).fit(clients) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)
    self.assertFalse(np.array_equal(fits[0].cluster_centers_, fits[2].cluster_centers_))

  @parameterized.parameters(*kmeans_config.ALGORITHMS)
  def test_all_is_drawn_by_the_seed(self, algorithm):
    clients = np.split(np.random.default_rng(0).standard_normal((60, 2)), 3)
    with drawn_seeds.recorded() as seeds:
      FederatedKMeans(3, algorithm, random_state=7).fit(clients)
    self.assertEqual(seeds, {7})

  @parameterized.parameters("sums", "fkm_lloyd")
  def test_without_keep_history_no_centroids_of_rounds_are_kept(self, algorithm):
    kept = _sample_fit(algorithm)
    plain = FederatedKMeans(9, algorithm).fit(numpy_reference.sample_clients())
    for record, expected in zip(plain.history_, kept.history_, strict=True):
      self.assertEqual((record.centroids.shape, record.centroids.base), ((0, 2), None))
      for name in ("stage", "inertia", "bytes_down", "bytes_up"):
        self.assertEqual(getattr(record, name), getattr(expected, name))

  @parameterized.named_parameters(
      ("own_units", False, [1e6, 1e-3, 1.0, 1e-9]),
      ("an_outlier", False, [1e6, 1e-3, 1.0, 1e-9], 1e3),
      ("standardized", True, [1e6, 1e-3, 1.0, 1e-9]),
      ("wide_and_constant", False, [1e90, 1e-90, 0.0, 1.0]),
  )
  def test_centers_are_means_in_columns_of_any_width(self, standardize, widths, outlier=1.0):
    rng = np.random.default_rng(0)
    clusters = rng.integers(3, size=300)
    points = np.stack([10 * clusters, clusters % 2, -clusters, 2 * (clusters == 1)], axis=1)
    points = (points + 0.3 * rng.standard_normal((300, 4)) + [0.0, 5.0, 1e3, 0.0]) * widths
    points[0, 3] *= outlier
    model = FederatedKMeans(3, standardize=standardize).fit(np.split(points, [1, 150]))
    labels = model.predict(points)
    means = np.array([points[labels == cluster].mean(axis=0) for cluster in range(3)])
    errors = np.abs(model.cluster_centers_ - means).max(axis=0)
    self.assertTrue(np.all(errors <= 1e-9 * points.std(axis=0)), errors)
    again = FederatedKMeans(3, standardize=standardize).fit(points[::-1])
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)

  @parameterized.product(algorithm=("tff_minibatch", "lloyd", "kfed"), standardize=(False, True))
  def test_no_center_leaves_a_constant_column(self, algorithm, standardize):
    # One column alone; and rows so few that centers are left where they started.
    points = np.stack([[0.0, 1e-3, 2.5e-3, 5e-3], np.full(4, 0.25)], axis=1)
    model = FederatedKMeans(4, algorithm, standardize=standardize).fit(points)
    np.testing.assert_array_equal(model.cluster_centers_[:, 1], 0.25)
    self.assertAlmostEqual(model.inertia_, -model.score(points), delta=1e-6)

  def test_rounds_of_fkm_are_those_of_numpy(self):
    clients = numpy_reference.sample_clients(noise=2.0)
    model = FederatedKMeans(
        9, kmeans_config.Fkm(num_rounds=6, min_count=4), keep_history=True
    ).fit(clients)
    for before, after in zip(model.history_, model.history_[1:]):
      means, weights = [], []
      for points in clients.values():
        own, counts = numpy_reference.lloyd_step(points, before.centroids)
        means.extend(own[counts >= 4])
        weights.extend(counts[counts >= 4])
      # The server's k-means has ended: from where it did, nothing moves.
      server = single_thread_kmeans.fit(
          np.array(means), 9, weights, init=after.centroids, n_init=1
      )
      np.testing.assert_allclose(after.centroids, server.cluster_centers_, atol=1e-4)

  def test_lloyd_rounds_after_others(self):
    clients = numpy_reference.sample_clients()
    points = numpy_reference.pooled(clients)
    plain = _sample_fit("child_parent")
    refined = FederatedKMeans(9, kmeans_config.ChildParent(lloyd_rounds=2)).fit(clients)
    expected = plain.cluster_centers_
    for _ in range(2):
      expected, _ = numpy_reference.lloyd_step(points, expected)
    np.testing.assert_allclose(refined.cluster_centers_, expected, atol=1e-4)
    self.assertEqual([r.stage for r in refined.history_], ["gather", "lloyd", "lloyd"])

  @parameterized.product(algorithm=["sums", "lloyd"], standardize=[False, True])
  def test_a_row_however_far_belongs_to_the_nearest_center(self, algorithm, standardize):
    rng = np.random.default_rng(0)
    points = np.repeat([[0, 1e5], [3, 1e5], [0, 2e5], [3, 2e5]], 50, axis=0)
    model = FederatedKMeans(4, algorithm, standardize=standardize).fit(points)
    rows = rng.standard_normal((200, 2)) * 10 ** rng.uniform(0, 99, (200, 2))
    rows[:100, 0] *= rows[:100, 1] / rows[:100, 0]  # As far in the one direction as in the other.
    rows = [*rows, [1e100, 1.4e5], [-1e40, 1.6e5], [1.4, 1e60]]  # Two centers are as far in it.
    units = points.std(axis=0) if standardize else np.ones(2)
    centers = [list(map(fractions.Fraction, center)) for center in model.cluster_centers_]
    for row, cluster, losses in zip(rows, model.predict(rows), model.transform(rows) ** 2):
      exact = [
          sum(((fractions.Fraction(x) - c) / fractions.Fraction(u)) ** 2
              for x, c, u in zip(row, center, units))
          for center in centers
      ]
      self.assertEqual(exact[cluster], min(exact), row)
      np.testing.assert_allclose(losses, list(map(float, exact)), rtol=1e-6)


class FieldsTest(parameterized.TestCase):

  def test_levels_without_a_bearing_hide_no_kinds(self):
    rng = np.random.default_rng(0)
    kinds = np.repeat(np.arange(3), 200)
    numbers = np.array([[0, 0], [4, 0], [2, 4]])[kinds] + rng.normal(scale=0.5, size=(600, 2))
    rows = np.append(numbers, np.eye(2)[rng.integers(2, size=600)], axis=1)
    for algorithm in ("sums", "lloyd"):
      model = FederatedKMeans(3, algorithm, standardize=True, field_widths=(1, 1, 2)).fit(rows)
      self.assertEqual(agreement.adjusted_rand_index(kinds, model.labels_), 1)
      # Both levels are divided by the root of the sum of their variances.
      units = np.append(numbers.std(axis=0), [np.sqrt(rows[:, 2:].var(axis=0).sum())] * 2)
      distances = np.linalg.norm(
          (rows[:, np.newaxis] - model.cluster_centers_) / units, axis=2
      )
      np.testing.assert_allclose(model.transform(rows), distances, rtol=1e-5)
      np.testing.assert_allclose(model.inertia_, (distances.min(axis=1) ** 2).sum(), rtol=1e-4)


class SmallDataTest(parameterized.TestCase):

  @parameterized.parameters(*kmeans_config.ALGORITHMS)
  def test_more_clusters_than_points(self, algorithm):
    with self.assertRaisesRegex(ValueError, "n_clusters"):
      FederatedKMeans(5, algorithm).fit([np.eye(2), np.ones((2, 2))])

  @parameterized.parameters(*_GATHERING)
  def test_clients_with_fewer_points_than_clusters(self, algorithm):
    rng = np.random.default_rng(0)
    clients = [rng.standard_normal((size, 2)) for size in (1, 2, 3, 5)]
    model = FederatedKMeans(9, algorithm).fit(clients)
    self.assertEqual(model.cluster_centers_.shape, (9, 2))
    self.assertTrue(np.isfinite(model.cluster_centers_).all())

  @parameterized.parameters("fkm", "kfed", "child_parent")
  def test_clients_that_may_send_nothing(self, algorithm):
    with self.assertRaisesRegex(ValueError, "min_count"):
      FederatedKMeans(9, algorithm).fit([[[0.0, float(index)]] for index in range(10)])

  @parameterized.parameters("fkm_lloyd", "lloyd")
  def test_clients_of_one_point_each_need_sums_only(self, algorithm):
    points = numpy_reference.pooled(numpy_reference.sample_clients())[:60]
    with mock.patch.object(logging, "warning") as warning:
      model = FederatedKMeans(9, algorithm).fit([point[np.newaxis] for point in points])
    self.assertEqual(warning.called, algorithm == "fkm_lloyd")
    central = single_thread_kmeans.fit(points, 9, n_init=10, random_state=0)
    self.assertLess(model.inertia_, 1.4 * central.inertia_)

  @parameterized.parameters("sums", "fkm_lloyd", "lloyd", "tff_minibatch")
  def test_identical_points(self, algorithm):
    model = FederatedKMeans(9, algorithm).fit([np.full((5, 2), 7.0)] * 2)
    self.assertLess(np.abs(model.cluster_centers_ - 7).min(axis=0).max(), 0.5)
    self.assertTrue(np.isfinite(model.cluster_centers_).all())

  @parameterized.product(place=[1e4, 1e8], standardize=[False, True])
  def test_clusters_that_are_small_beside_an_outlier_are_a_warning(self, place, standardize):
    rng = np.random.default_rng(0)
    blobs = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 20, axis=0)
    blobs += 0.05 * rng.standard_normal(blobs.shape)
    points = np.append(blobs, [[place, place]], axis=0)
    with mock.patch.object(logging, "warning") as warning:
      model = FederatedKMeans(4, standardize=standardize).fit([points[:60], points[60:]])
    found = [call.args for call in warning.call_args_list if "spread" in call.args[0]]
    self.assertLen(found, place == 1e8)
    for _, _, stated, _ in found:
      unit = points.std(axis=0) if standardize else 1
      distance = np.linalg.norm((points[-1] - points.mean(axis=0)) / unit)
      self.assertBetween(stated, distance, 1.5 * distance)
    # The row far away is a center, of which there is a warning, too.
    self.assertGreaterEqual(model.num_centers_on_few_points_, 1)
    self.assertLen(warning.call_args_list, len(found) + 1)

  @parameterized.product(
      points=[np.full((15, 2), 0.1), np.zeros((15, 3)), np.full((15, 1), -1e90)],
      standardize=[False, True], num_clusters=[1, 3],
  )
  def test_equal_points_are_at_no_distance_to_warn_of(self, points, standardize, num_clusters):
    with mock.patch.object(logging, "warning") as warning:
      FederatedKMeans(num_clusters, standardize=standardize).fit([points[:4], points[4:]])
    warning.assert_not_called()

  @parameterized.product(
      num_different=[1, 2, 4], num_clusters=[4, 6], standardize=[False, True]
  )
  def test_there_are_no_more_centers_than_different_points(
      self, num_different, num_clusters, standardize
  ):
    different = np.array([[26.0, 110.0], [26.0, 110.1], [1086.0, 348.7], [1190.0, 244.0]])
    points = np.repeat(different[:num_different], 7 + np.arange(num_different), axis=0)
    with mock.patch.object(logging, "warning") as warning, mock.patch.object(
        callers_line, "warn"
    ) as told:
      model = FederatedKMeans(num_clusters, standardize=standardize).fit([points[:4], points[4:]])
    warning.assert_not_called()  # No distance is too small to be told.
    self.assertEqual(told.called, num_different < num_clusters)
    for text, _ in (call.args for call in told.call_args_list):
      self.assertRegex(text, f" {num_different} .*{num_clusters}.* different")
    centers = model.cluster_centers_[np.lexsort(model.cluster_centers_.T[::-1])]
    np.testing.assert_allclose(centers, different[:num_different], rtol=1e-12)
    self.assertEqual((model.inertia_, model.num_centers_on_few_points_), (0, 0))
    self.assertEqual(model.simplified_silhouette_, 1 if num_different > 1 else None)

  def test_other_algorithms_say_so_too(self):
    points = np.repeat([[0.0, 0.0], [9.0, 9.0]], 5, axis=0)
    with self.assertWarnsRegex(exceptions.ConvergenceWarning, "2 .* 3"):
      FederatedKMeans(3, "lloyd").fit(points)

  def test_one_cluster_is_the_mean(self):
    clients = numpy_reference.sample_clients()
    mean = numpy_reference.pooled(clients).mean(axis=0)
    for algorithm in ("sums", "lloyd"):
      model = FederatedKMeans(1, algorithm).fit(clients)
      np.testing.assert_allclose(model.cluster_centers_, [mean], atol=1e-5)
      self.assertIsNone(model.simplified_silhouette_)


class PrivacyRulesTest(parameterized.TestCase):
  """What may leave a client; `rounds_test` has the rounds themselves."""

  @parameterized.parameters(*_GATHERING)
  def test_clients_are_told_the_smallest_count_that_may_leave(self, algorithm):
    gather = rounds.Rounds.gather
    with mock.patch.object(rounds.Rounds, "gather", autospec=True, side_effect=gather) as asked:
      FederatedKMeans(9, kmeans_config.ALGORITHMS[algorithm](min_count=3)).fit(
          numpy_reference.sample_clients()
      )
    self.assertNotEmpty(asked.call_args_list)
    for _, unused_work, min_count, *_ in (call.args for call in asked.call_args_list):
      self.assertEqual(min_count, 3)

  @parameterized.parameters("lloyd", "tff_minibatch")
  def test_sums_gather_nothing(self, algorithm):
    with mock.patch.object(rounds.Rounds, "gather") as gather:
      FederatedKMeans(9, algorithm).fit(numpy_reference.sample_clients())
    gather.assert_not_called()
