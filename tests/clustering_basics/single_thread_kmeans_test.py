from absl.testing import parameterized
import numpy as np

from clustering_basics import single_thread_kmeans


class SingleThreadKMeansTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("few_different_points", [4, 5, 5, 0, 0], [4, 4, 2, 4, 1], 5, {"random_state": 46}),
      ("far_starts", [3, 4, 0, 3, 5, 0], [1, 1, 4, 2, 1, 2], 3, {"init": [[-2.0], [3.0], [-3.0]]}),
  )
  def test_labels_and_inertia_are_those_of_the_centers(self, points, weights, k, settings):
    column = np.array(points, float)[:, np.newaxis]
    found = single_thread_kmeans.fit(column, k, np.array(weights, float), n_init=1, **settings)
    distances = np.abs(column - found.cluster_centers_.T)
    np.testing.assert_array_equal(
        distances[np.arange(len(column)), found.labels_], distances.min(axis=1)
    )
    self.assertAlmostEqual(found.inertia_, weights @ distances.min(axis=1) ** 2)

  def test_few_different_points_are_the_centers(self):
    points = np.array([[5.0, 1], [3, 1], [4, 1], [4, 1], [1, 1], [5, 1]])
    weights = np.array([1.0, 2, 2, 4, 1, 4])
    for seed in range(20):
      found = single_thread_kmeans.fit(points, 6, weights, n_init=1, random_state=seed)
      np.testing.assert_array_equal(
          np.unique(found.cluster_centers_, axis=0), np.unique(points, axis=0)
      )
      self.assertEqual(found.inertia_, 0)
