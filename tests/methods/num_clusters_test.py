"""Tests for fl_clustering.methods.num_clusters."""

from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.methods import client_weights as client_weights_lib
from fl_clustering.methods import num_clusters


def _weights(vectors, clients=None):
  """Returns clients whose updates are `vectors`; the global model is far from the origin."""
  vectors = np.asarray(vectors, np.float32)
  clients = np.arange(len(vectors)) if clients is None else clients
  global_vector = np.full(vectors.shape[1], 3, np.float32)
  return client_weights_lib.ClientWeights(clients, vectors + global_vector, global_vector)


def _blobs(num_blobs, per_blob=6, dim=200, spread=0.25, seed=0):
  """Returns updates of clients in `num_blobs` directions at right angles to each other."""
  rng = np.random.default_rng(seed)
  centers = np.repeat(np.eye(num_blobs, dim), per_blob, axis=0)
  return centers + spread / np.sqrt(dim) * rng.standard_normal(centers.shape)


def _choose(vectors, clients=None, max_k=6, **options):
  rng = np.random.default_rng(0)
  return num_clusters.choose(_weights(vectors, clients), rng, max_k=max_k, **options)


def _all(num):
  return {criterion: num for criterion in num_clusters.CRITERIA}


class ChooseTest(parameterized.TestCase):

  @parameterized.product(
      num_blobs=[2, 3, 5], representation=list(client_weights_lib.REPRESENTATIONS)
  )
  def test_finds_blobs(self, num_blobs, representation):
    choice = _choose(_blobs(num_blobs), representation=representation)
    self.assertEqual(choice.choices, _all(num_blobs))

  def test_eigengap_looks_at_updates_whatever_is_grouped(self):
    vectors = _blobs(4, spread=1) * np.random.default_rng(3).uniform(0.1, 9, (24, 1))
    choices = [_choose(vectors, representation=r) for r in client_weights_lib.REPRESENTATIONS]
    for choice in choices:
      self.assertEqual(choice.choices["eigengap"], 4)
      np.testing.assert_allclose(
          choice.scores["eigengap"], choices[0].scores["eigengap"], atol=1e-5
      )

  @parameterized.parameters(
      # Clients with something in common, and each with a direction of its own.
      *((0.3 + np.random.default_rng(seed).standard_normal((24, 400)),) for seed in (0, 1)),
      # No two clients have an edge, and all distances are equal.
      (np.eye(12),),
      (np.zeros((9, 5)),), (np.ones((9, 5)),),
  )
  def test_one_cluster_where_there_is_no_structure(self, vectors):
    self.assertEqual(_choose(vectors).choices, _all(1))

  def test_groups_of_identical_clients(self):
    choice = _choose(np.repeat(np.eye(3, 7), 5, axis=0))
    self.assertEqual(choice.choices, _all(3))
    self.assertEqual(choice.rows()[-1]["num_clusters"], 3)

  @parameterized.parameters(1, 2, 3, 5)
  def test_few_clients(self, num_clients):
    choice = _choose(np.eye(num_clients, 5))
    self.assertEqual(choice.choices, _all(1))
    for scores in choice.scores.values():
      # At most as many clusters as there are other clients.
      self.assertLen(scores, max(1, num_clients - 1))
      self.assertTrue(np.isfinite(scores).all())

  def test_two_of_three_clients_alike(self):
    choice = _choose([[1, 0, 0], [1, 0.1, 0], [0, 0, 1]], criterion="silhouette")
    self.assertEqual(choice.num_clusters, 2)

  def test_order_of_the_clients_does_not_matter(self):
    vectors = _blobs(3, spread=1.5)
    order = np.random.default_rng(5).permutation(len(vectors))
    choice = _choose(vectors)
    reordered = _choose(vectors[order], order)
    self.assertEqual(reordered.choices, choice.choices)
    for criterion in num_clusters.CRITERIA:
      np.testing.assert_allclose(reordered.scores[criterion], choice.scores[criterion], atol=1e-6)

  def test_of_many_clients_a_sample_is_scored(self):
    vectors = _blobs(2, per_blob=20)
    order = np.random.default_rng(0).permutation(len(vectors))
    with mock.patch.object(num_clusters, "MOST_CLIENTS", 12):
      choice = _choose(vectors, max_k=40)
      self.assertEqual(choice.choices, _all(2))
      self.assertEqual(_choose(vectors[order], order, max_k=40), choice)
    for scores in choice.scores.values():
      self.assertLen(scores, 11)  # At most as many clusters as there are other clients.

  def test_decisive_criterion(self):
    # Lengths differ, directions do not: groups for K-means, none for the angles.
    vectors = np.concatenate([_blobs(1, 10), 4 * _blobs(1, 10, seed=1)])
    self.assertEqual(_choose(vectors, criterion="silhouette").num_clusters, 2)
    self.assertEqual(_choose(vectors, criterion="eigengap").num_clusters, 1)
    choice = _choose(vectors)
    self.assertEqual(choice.num_clusters, choice.choices[num_clusters.DEFAULT_CRITERION])

  def test_largest_number_of_clusters(self):
    choice = _choose(_blobs(5), max_k=3)
    for scores in choice.scores.values():
      self.assertLen(scores, 3)
    self.assertEqual(_choose(_blobs(5), max_k=1).choices, _all(1))

  def test_rows(self):
    choice = num_clusters.NumClustersChoice(
        {"silhouette": (0.1, 0.5, 0.5), "eigengap": (0.4, 0.2)}, "eigengap"
    )
    self.assertEqual(choice.choices, {"silhouette": 2, "eigengap": 1})
    self.assertEqual(
        [tuple(row.values()) for row in choice.rows()],
        [
            ("silhouette", 1, 0.1, 0),
            ("silhouette", 2, 0.5, 1),
            ("silhouette", 3, 0.5, 0),
            ("eigengap", 1, 0.4, 1),
            ("eigengap", 2, 0.2, 0),
        ],
    )
    self.assertEqual(list(choice.rows()[0]), ["criterion", "num_clusters", "score", "chosen"])


class ScoresTest(absltest.TestCase):

  def test_silhouette_of_two_pairs(self):
    choice = _choose([[0], [1], [10], [11]], criterion="silhouette")
    # A client's neighbour is 1 away; the other pair is 10.5 or 9.5 away on average.
    expected = np.mean([1 - 1 / 10.5, 1 - 1 / 9.5])
    self.assertAlmostEqual(choice.scores["silhouette"][1], expected, places=6)

  def test_gaps_of_separate_groups(self):
    # A group of n clients that go the same way, all by another length, has the eigenvalues 0 and,
    # n - 1 times, n / (n - 1).
    directions = np.repeat([[1, 0], [-0.5, 0.5]], [3, 5], axis=0)
    choice = _choose(directions * np.arange(1, 9)[:, None], max_k=6)
    self.assertEqual(choice.num_clusters, 2)
    # 0, 0, 5/4 four times, 3/2 twice.
    expected = np.diff([0, 0, 1.25, 1.25, 1.25, 1.25, 1.5])
    np.testing.assert_allclose(choice.scores["eigengap"], expected, atol=1e-12)


if __name__ == "__main__":
  absltest.main()
