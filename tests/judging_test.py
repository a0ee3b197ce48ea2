"""Tests the metrics by which methods are compared against their definitions."""

import types

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.three_phase import judging


def _task(labels, num_classes=2, has_tables=True):
  counts = np.bincount(labels, minlength=num_classes)
  return types.SimpleNamespace(
      tables="tables" if has_tables else None, train_label_counts=counts,
  )


class MetricTest(parameterized.TestCase):

  @parameterized.parameters(
      ([0] * 77 + [1] * 23, "balanced_accuracy"), ([0] * 75 + [1] * 25, "accuracy"),
      ([0, 1] * 5, "accuracy"), ([1] * 10, "balanced_accuracy"),
  )
  def test_the_rarest_class_decides(self, labels, expected):
    self.assertEqual(judging.metric_of(_task(labels)), expected)

  def test_images_have_the_accuracy(self):
    self.assertEqual(judging.metric_of(_task([0] * 9 + [1], has_tables=False)), "accuracy")

  def test_the_balanced_accuracy_is_the_mean_recall(self):
    matrices = np.array([[[9, 1], [1, 1]], [[4, 0], [0, 0]]])
    found = judging.client_scores("balanced_accuracy", matrices)
    self.assertEqual(found.tolist(), [0.7, 1.0])


if __name__ == "__main__":
  absltest.main()
