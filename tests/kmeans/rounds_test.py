"""Tests for fl_clustering.kmeans.rounds: what the server learns from the clients."""

import importlib.util

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.kmeans import algorithms
from fl_clustering.kmeans import kmeans_config
from fl_clustering.kmeans import local_work
from fl_clustering.kmeans import rounds
from fl_clustering.points import secure_sums
from tests import nightly
from tests.kmeans import numpy_reference


class SumsTest(absltest.TestCase):

  def test_are_a_central_step_and_the_scores_of_all_points(self):
    clients = numpy_reference.sample_clients()
    held = secure_sums.hold({**clients, "nothing": np.zeros((0, 2))})
    shift, factor = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    asked = rounds.Rounds(held.scaled(secure_sums.Scaling(shift, factor)))
    scaled = (numpy_reference.pooled(clients) - shift) * factor
    centroids = 4 * np.random.default_rng(0).standard_normal((6, 2))
    centroids[0] = 99  # Never the nearest.
    sums, counts, inertia = asked.sums(centroids)
    expected, expected_counts = numpy_reference.lloyd_step(scaled, centroids)
    np.testing.assert_allclose(local_work.moved(centroids, sums, counts), expected, atol=1e-5)
    np.testing.assert_array_equal(counts, expected_counts)
    np.testing.assert_allclose(inertia, numpy_reference.inertia(scaled, centroids), rtol=1e-6)
    found = asked.scores(centroids)
    np.testing.assert_array_equal(found[0], counts)
    silhouette = numpy_reference.silhouette(scaled, centroids)
    np.testing.assert_allclose(found[1:], [inertia, len(scaled) * silhouette], rtol=1e-6)


class MinibatchTest(absltest.TestCase):

  def test_a_centroid_is_the_mean_of_its_start_and_of_all_points_that_it_had(self):
    config = kmeans_config.KMeansConfig(5, kmeans_config.TffMinibatch(num_rounds=4))
    clients = numpy_reference.sample_clients()
    search = algorithms.Search(config, rounds.Rounds(secure_sums.hold(clients)))
    (path,) = algorithms.tff_minibatch(search)
    points, weights = numpy_reference.pooled(clients), np.ones((5, 1))
    now = totals = search.drawn(algorithms.START_OF_TFF, 0).astype(float)
    for step in path:
      members = np.eye(5)[numpy_reference.nearest(points, now)[0]]
      totals = totals + members.T @ points
      weights = weights + members.sum(axis=0)[:, np.newaxis]
      now = totals / weights
      np.testing.assert_allclose(step.centroids, now, atol=1e-4)

  @absltest.skipUnless(
      importlib.util.find_spec("tensorflow_federated"), "TFF is an extra"
  )
  def test_is_the_one_of_tff(self):
    # By day, the tests above compare the sums that it is made of with NumPy's.
    nightly.skip_by_day(self, True)
    import tensorflow as tf  # pylint: disable=g-import-not-at-top
    import tensorflow_federated as tff  # pylint: disable=g-import-not-at-top

    from fl_clustering import runtime  # pylint: disable=g-import-not-at-top

    config = kmeans_config.KMeansConfig(5, kmeans_config.TffMinibatch(num_rounds=4))
    clients = numpy_reference.sample_clients()
    search = algorithms.Search(config, rounds.Rounds(secure_sums.hold(clients)))
    (path,) = algorithms.tff_minibatch(search)
    process = tff.learning.algorithms.build_fed_kmeans(5, (2,), random_seed=(0, 0))
    sets = [tf.data.Dataset.from_tensor_slices(np.float32(own)) for own in clients.values()]
    with runtime.LocalRuntime():
      start = search.drawn(algorithms.START_OF_TFF, 0)
      state = process.set_model_weights(process.initialize(), start)
      for step in path:
        state = process.next(state, sets).state
        expected = np.asarray(process.get_model_weights(state))
        np.testing.assert_allclose(step.centroids, expected, atol=1e-5)


class RowRuleTest(parameterized.TestCase):
  """What the clients really send."""

  def _clients(self, columns):
    """Returns clients of two columns, or of three others."""
    rng = np.random.default_rng(0)
    drawn = lambda *shape: rng.standard_normal(shape)
    clients = {
        "drawn": drawn(60, 5),
        "few": drawn(3, 5),
        "one": drawn(1, 5),
        # Rows that are there several times, whose mean is a row: in all columns, or in some.
        "twins": np.repeat(50 * drawn(6, 5), 5, axis=0),
        "twins on the left": np.hstack([np.repeat(50 * drawn(6, 2), 5, axis=0), drawn(30, 3)]),
        "twins on the right": np.hstack([drawn(30, 2), np.repeat(50 * drawn(6, 3), 5, axis=0)]),
        # Whole numbers, which a mean can hit.
        "whole numbers": rng.integers(3, size=(40, 5)).astype(float),
        "a lone point": np.concatenate([drawn(30, 5), np.full((1, 5), 1e3)]),
    }
    return {client_id: points[:, columns] for client_id, points in clients.items()}

  @parameterized.parameters(
      (2, slice(0, 2), "twins on the left", "twins on the right"),
      (5, slice(2, 5), "twins on the right", "twins on the left"),
  )
  def test_no_row_and_no_small_count_leaves_a_client(self, min_count, columns, twins, others):
    clients = self._clients(columns)
    rngs = {client_id: np.random.default_rng(seed) for seed, client_id in enumerate(clients)}
    work = local_work.initial_means(8, min_count)
    sent = rounds.Rounds(secure_sums.hold(clients)).gather(work, min_count, rngs)
    gathered = dict(zip(clients, sent, strict=True))
    for client_id, (means, counts) in gathered.items():
      self.assertTrue(np.all(counts >= min_count), client_id)
      same = np.isclose(clients[client_id][:, np.newaxis], means, rtol=1e-6, atol=1e-6)
      self.assertFalse(same.all(axis=2).any(), f"{client_id} sent a row")
    # The test sees something: what may leave does.
    self.assertNotEmpty(gathered["drawn"][1])
    self.assertNotEmpty(gathered[others][1])
    for client_id in ("one", "twins", twins):
      self.assertEmpty(gathered[client_id][1])
    self.assertLess(np.abs(gathered["a lone point"][0]).max(), 10)
