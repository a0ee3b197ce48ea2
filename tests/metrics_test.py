from absl.testing import absltest
import numpy as np
import sklearn.metrics

from fl_clustering.engine import metrics


def _confusion(truth, predicted, num_classes):
  return sklearn.metrics.confusion_matrix(truth, predicted, labels=range(num_classes))


class MetricsTest(absltest.TestCase):

  def test_agree_with_scikit_learn_where_every_label_is_present(self):
    rng = np.random.default_rng(0)
    truth = np.concatenate([np.arange(4), rng.integers(0, 4, 96)])
    predicted = np.where(rng.random(100) < 0.7, truth, rng.integers(0, 4, 100))
    confusion = _confusion(truth, predicted, 4)
    self.assertAlmostEqual(
        metrics.accuracy(confusion), sklearn.metrics.accuracy_score(truth, predicted)
    )
    np.testing.assert_allclose(
        metrics.class_recall(confusion),
        sklearn.metrics.recall_score(truth, predicted, average=None),
    )
    np.testing.assert_allclose(
        metrics.class_precision(confusion),
        sklearn.metrics.precision_score(truth, predicted, average=None),
    )

  def test_absent_labels_are_left_out_of_macro_averages(self):
    # Label 2 has no example, though one is predicted as 2.
    confusion = _confusion([0, 0, 1, 1], [0, 2, 1, 1], 3)
    np.testing.assert_array_equal(metrics.class_recall(confusion), [0.5, 1.0, np.nan])
    self.assertAlmostEqual(metrics.macro(metrics.class_recall(confusion)), 0.75)
    self.assertAlmostEqual(metrics.macro(metrics.class_precision(confusion)), 1.0)

  def test_a_label_never_predicted_has_precision_zero(self):
    confusion = _confusion([0, 0, 1], [0, 0, 0], 2)
    np.testing.assert_allclose(metrics.class_precision(confusion), [2 / 3, 0.0])

  def test_leading_axes_are_kept(self):
    confusions = np.stack([np.eye(3, dtype=int), np.ones((3, 3), int)])
    np.testing.assert_allclose(metrics.accuracy(confusions), [1, 1 / 3])
    np.testing.assert_allclose(metrics.macro(metrics.class_recall(confusions)), [1, 1 / 3])

  def test_model_metrics(self):
    confusions = np.array([[[3, 1], [0, 4]], [[1, 1], [2, 0]]])
    found = metrics.model_metrics(confusions)
    np.testing.assert_allclose(found["accuracy"], [7 / 8, 1 / 4])
    np.testing.assert_allclose(found["recall"], [(3 / 4 + 1) / 2, 1 / 4])
    np.testing.assert_allclose(found["precision"], [(1 + 4 / 5) / 2, (1 / 3) / 2])

  def test_client_metrics(self):
    confusions = np.array([[[k, 10 - k], [0, 0]] for k in (0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 9)])
    found = metrics.client_metrics(confusions)
    np.testing.assert_allclose(found["accuracy"], 2.3 / 11)
    np.testing.assert_allclose(found["accuracy_p10"], 0.1)
    np.testing.assert_allclose(found["recall"], 2.3 / 11)

  def test_no_examples_have_no_accuracy(self):
    accuracy = metrics.accuracy(np.array([np.zeros((2, 2), int), [[1, 1], [0, 2]]]))
    np.testing.assert_array_equal(accuracy, [np.nan, 0.75])
