"""Tests the metrics by which methods are compared against their definitions."""

import types

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import objectives
from fl_clustering.three_phase import judging


def _task(*labels, num_classes=2, num_sites=0, is_regression=False, has_tables=True):
  clients = [types.SimpleNamespace(test=types.SimpleNamespace(labels=np.array(own)))
             for own in labels]
  counts = np.bincount(np.concatenate(labels), minlength=num_classes)
  return types.SimpleNamespace(
      clients=clients, num_sites=num_sites, is_regression=is_regression,
      table_format="format" if has_tables else None, train_label_counts=counts,
  )


class MetricTest(parameterized.TestCase):

  @parameterized.parameters(
      ([0] * 77 + [1] * 23, "balanced_accuracy"), ([0] * 75 + [1] * 25, "accuracy"),
      ([0, 1] * 5, "accuracy"), ([1] * 10, "balanced_accuracy"),
  )
  def test_the_rarest_class_decides(self, labels, expected):
    self.assertEqual(judging.metric_of(_task(labels)), expected)

  def test_images_and_sites_have_the_accuracy_and_numbers_the_error(self):
    labels = [0] * 9 + [1]
    self.assertEqual(judging.metric_of(_task(labels, has_tables=False)), "accuracy")
    at_sites = _task(labels, num_sites=2)
    at_sites.train_label_counts = None
    self.assertEqual(judging.metric_of(at_sites), "accuracy")
    self.assertEqual(judging.metric_of(_task(labels, is_regression=True)), "mse")

  def test_less_is_better_of_losses(self):
    one, other = np.array([3.0, 1.0]), np.array([2.0, 2.0])
    self.assertEqual(judging.gains_between("mse", one, other).tolist(), [-1, 1])
    self.assertEqual(judging.gains_between("accuracy", one, other).tolist(), [1, -1])

  def test_the_balanced_accuracy_is_the_mean_recall(self):
    matrices = np.array([[[9, 1], [1, 1]], [[4, 0], [0, 0]]])
    found = judging.client_scores(
        "balanced_accuracy", objectives.Classification(2), matrices
    )
    self.assertEqual(found.tolist(), [0.7, 1.0])


if __name__ == "__main__":
  absltest.main()
