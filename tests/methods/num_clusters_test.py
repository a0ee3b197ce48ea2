from unittest import mock

from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import client_weights as client_weights_lib
from fl_clustering.methods import num_clusters


def _blobs(num_blobs, per_blob=6, dim=200, spread=0.25, seed=0):
  """Returns updates of clients in `num_blobs` directions at right angles to each other."""
  rng = np.random.default_rng(seed)
  centers = np.repeat(np.eye(num_blobs, dim), per_blob, axis=0)
  return centers + spread / np.sqrt(dim) * rng.standard_normal(centers.shape)


def _choose(vectors, clients=None, max_k=6, seed=0):
  """Chooses for clients whose updates are `vectors`; the global model is far from the origin."""
  vectors = np.asarray(vectors, np.float32)
  clients = np.arange(len(vectors)) if clients is None else clients
  global_vector = np.full(vectors.shape[1], 3, np.float32)
  weights = client_weights_lib.ClientWeights(clients, vectors + global_vector, global_vector)
  return num_clusters.choose(weights, np.random.default_rng(seed), max_k)


class ChooseTest(parameterized.TestCase):

  @parameterized.parameters(2, 3, 5)
  def test_finds_blobs(self, num_blobs):
    self.assertEqual(_choose(_blobs(num_blobs)).num_clusters, num_blobs)

  def test_lengths_of_updates_do_not_count(self):
    vectors = _blobs(4, spread=1) * np.random.default_rng(3).uniform(0.1, 9, (24, 1))
    self.assertEqual(_choose(vectors).num_clusters, 4)
    lengths = np.concatenate([_blobs(1, 10), 4 * _blobs(1, 10, seed=1)])
    self.assertEqual(_choose(lengths).num_clusters, 1)

  @parameterized.parameters(
      # Clients with something in common, and each with a direction of its own.
      *((0.3 + np.random.default_rng(seed).standard_normal((24, 400)),) for seed in (0, 1)),
      # No two clients have an edge.
      (np.eye(12),),
      (np.zeros((9, 5)),), (np.ones((9, 5)),),
  )
  def test_one_cluster_where_there_is_no_structure(self, vectors):
    self.assertEqual(_choose(vectors).num_clusters, 1)

  def test_groups_of_identical_clients(self):
    choice = _choose(np.repeat(np.eye(3, 7), 5, axis=0))
    self.assertEqual(choice.num_clusters, 3)
    self.assertLen(choice.scores, 3)

  @parameterized.parameters(1, 2, 3, 5)
  def test_few_clients(self, num_clients):
    choice = _choose(np.eye(num_clients, 5))
    self.assertEqual(choice.num_clusters, 1)
    # At most as many clusters as there are other clients.
    self.assertLen(choice.scores, max(1, num_clients - 1))
    self.assertTrue(np.isfinite(choice.scores).all())

  def test_order_of_the_clients_does_not_matter(self):
    vectors = _blobs(3, spread=1.5)
    order = np.random.default_rng(5).permutation(len(vectors))
    choice, reordered = _choose(vectors), _choose(vectors[order], order)
    self.assertEqual(reordered.num_clusters, choice.num_clusters)
    np.testing.assert_allclose(reordered.scores, choice.scores, atol=1e-6)

  def test_of_many_clients_a_sample_is_scored(self):
    vectors = _blobs(2, per_blob=20)
    order = np.random.default_rng(0).permutation(len(vectors))
    with mock.patch.object(num_clusters, "MOST_CLIENTS", 12):
      choice = _choose(vectors, max_k=40)
      self.assertEqual(_choose(vectors[order], order, max_k=40), choice)
      self.assertNotEqual(_choose(vectors, max_k=40, seed=1), choice)
    self.assertEqual(choice.num_clusters, 2)
    self.assertLen(choice.scores, 11)  # At most as many clusters as there are other clients.

  def test_largest_number_of_clusters(self):
    self.assertLen(_choose(_blobs(5), max_k=3).scores, 3)
    self.assertEqual(_choose(_blobs(5), max_k=1).num_clusters, 1)

  def test_gaps_of_separate_groups(self):
    # A group of n clients that go the same way, all by another length, has the eigenvalues 0 and,
    # n - 1 times, n / (n - 1).
    directions = np.repeat([[1, 0], [-0.5, 0.5]], [3, 5], axis=0)
    choice = _choose(directions * np.arange(1, 9)[:, None])
    self.assertEqual(choice.num_clusters, 2)
    # 0, 0, 5/4 four times, 3/2 twice.
    expected = np.diff([0, 0, 1.25, 1.25, 1.25, 1.25, 1.5])
    np.testing.assert_allclose(choice.scores, expected, atol=1e-12)
