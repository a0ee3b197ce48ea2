from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from dp_clustering import clustering_params
from dp_clustering import clustering_result
from dp_clustering import metrics as metrics_lib


class ClusteringResultTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.data = clustering_params.Data([[0.0, 0], [4, 0], [0, 3]], 1.0, ["x", "y", "z"])
    self.centers = np.array([[0.0, 0.0], [1.0, 0.0]])

  def test_labels_and_loss_are_of_the_points_as_they_are(self):
    result = clustering_result.ClusteringResult(self.data, self.centers)
    self.assertEqual(result.labels.tolist(), [0, 1, 0])
    self.assertEqual(result.loss, 0 + 9 + 9)
    self.assertIsNone(result.ledger)

  def test_given_labels_and_loss_are_kept(self):
    result = clustering_result.ClusteringResult(self.data, self.centers, [1, 1, 1], 5.0)
    self.assertEqual((result.labels.tolist(), result.loss), ([1, 1, 1], 5.0))

  @parameterized.named_parameters(
      ("labels_alone", [0, 0, 0], None, ValueError, "`loss` must be given together with `labels`"),
      ("loss_alone", None, 1.0, ValueError, "`labels` must be given together with `loss`"),
      ("too_few", [0, 0], 1.0, ValueError, r"`labels` must be of shape .*=3,\), got \(2,\)"),
      ("too_large", [0, 2, 1], 1.0, ValueError, r"`labels` must be in \[0, k=2\), got 2"),
      ("negative", [0, -1, 1], 1.0, ValueError, r"`labels` must be in \[0, k=2\), got -1"),
      ("not_integers", [0.0, 1.0, 1.0], 1.0, TypeError, "`labels` must be integers"),
      ("text_as_loss", [0, 0, 0], "5", TypeError, "`loss` must be a number, got '5'"),
  )
  def test_refuses_labels_and_loss(self, labels, loss, error, message):
    with self.assertRaisesRegex(error, message):
      clustering_result.ClusteringResult(self.data, self.centers, labels, loss)

  @parameterized.named_parameters(
      ("other_dimension", np.zeros((2, 3))), ("none", np.zeros((0, 2))), ("one", np.zeros(2)),
  )
  def test_refuses_centers(self, centers):
    with self.assertRaisesRegex(ValueError, "`centers` must"):
      clustering_result.ClusteringResult(self.data, centers)

  def test_refuses_what_is_no_data(self):
    with self.assertRaisesRegex(TypeError, "`data` must be a Data, got ndarray"):
      clustering_result.ClusteringResult(np.zeros((2, 2)), self.centers)

  def test_histogram_has_a_row_for_each_cluster(self):
    data = clustering_params.Data([[0.0, 0], [0, 3], [4, 0]], 1.0, [7, 7, -1])
    centers = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, -9.0]])
    result = clustering_result.ClusteringResult(data, centers)
    np.testing.assert_array_equal(result.labels, [0, 0, 1])
    np.testing.assert_array_equal(result.cross_label_histogram(), [[0, 2], [1, 0], [0, 0]])

  def test_metrics_are_those_of_the_histogram(self):
    metrics = clustering_result.ClusteringResult(self.data, self.centers).get_clustering_metrics()
    self.assertIsInstance(metrics, metrics_lib.ClusteringMetrics)
    self.assertEqual(metrics.num_points, 3)
    self.assertEqual(metrics.dominant_label_correct_count, 2)
    self.assertEqual(metrics.false_match_count, 1)

  def test_metrics_need_true_labels(self):
    result = clustering_result.ClusteringResult(
        clustering_params.Data(self.data.datapoints, 1.0), self.centers
    )
    for call in (result.cross_label_histogram, result.get_clustering_metrics):
      with self.assertRaisesRegex(ValueError, "`data.labels` must be given"):
        call()

  def test_metrics_of_no_points(self):
    data = clustering_params.Data(np.zeros((0, 2)), 1.0, labels=[])
    metrics = clustering_result.ClusteringResult(data, self.centers).get_clustering_metrics()
    self.assertEqual(metrics.num_points, 0)


if __name__ == "__main__":
  absltest.main()
