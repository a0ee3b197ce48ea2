"""Tests the metrics by which methods are compared against their definitions."""

import types

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from fl_clustering.engine import objectives
from fl_clustering.three_phase import judging


def _auroc(is_positive, scores):
  """Returns the share of pairs in which the positive one has the higher score."""
  positive, negative = scores[is_positive], scores[~is_positive]
  pairs = np.sign(positive[:, None] - negative[None, :])
  return ((pairs + 1) / 2).mean()


def _average_precision(is_positive, scores):
  """Returns the mean over the positives of the precision where each is found."""
  order = np.argsort(-scores)
  found = is_positive[order]
  precision = np.cumsum(found) / np.arange(1, len(found) + 1)
  return precision[found].mean()


def _draw(num_rows, num_classes, seed=0):
  rng = np.random.default_rng(seed)
  return rng.integers(num_classes, size=num_rows), rng.dirichlet(np.ones(num_classes), num_rows)


def _task(*labels, num_classes=2, is_regression=False, has_tables=True):
  clients = [types.SimpleNamespace(test=types.SimpleNamespace(labels=np.array(own)))
             for own in labels]
  counts = np.bincount(np.concatenate(labels), minlength=num_classes)
  return types.SimpleNamespace(
      clients=clients, is_regression=is_regression,
      table_format="format" if has_tables else None, train_label_counts=counts,
  )


class OfRowsTest(parameterized.TestCase):

  def test_two_classes(self):
    labels, probabilities = _draw(40, 2)
    found, positive = judging.of_rows(labels, probabilities), labels == 1
    self.assertAlmostEqual(found["auroc"], _auroc(positive, probabilities[:, 1]))
    self.assertAlmostEqual(found["auprc"], _average_precision(positive, probabilities[:, 1]))
    own = probabilities[np.arange(40), labels]
    self.assertAlmostEqual(found["log_loss"], -np.log(own).mean())
    self.assertAlmostEqual(found["brier"], ((probabilities[:, 1] - positive) ** 2).mean())

  def test_of_more_classes_those_that_occur_count(self):
    labels, probabilities = _draw(50, 4)
    labels[labels == 2] = 1
    found = judging.of_rows(labels, probabilities)
    for name, score in (("auroc", _auroc), ("auprc", _average_precision)):
      expected = np.mean([score(labels == c, probabilities[:, c]) for c in (0, 1, 3)])
      self.assertAlmostEqual(found[name], expected)
    one_hot = np.eye(4)[labels]
    self.assertAlmostEqual(found["brier"], ((probabilities - one_hot) ** 2).sum(1).mean())

  @parameterized.parameters(2, 3)
  def test_what_needs_two_classes_is_undefined_with_one(self, num_classes):
    labels, probabilities = np.zeros(5, int), _draw(5, num_classes)[1]
    found = judging.of_rows(labels, probabilities)
    self.assertTrue(np.isnan(found["auroc"]) and np.isnan(found["auprc"]))
    self.assertAlmostEqual(found["log_loss"], -np.log(probabilities[:, 0]).mean())

  def test_clients_and_all_their_rows(self):
    rng = np.random.default_rng(3)
    outputs = [(rng.integers(2, size=n), rng.normal(size=(n, 2)).astype(np.float32))
               for n in (30, 50)]
    found = judging.output_metrics(outputs)
    labels, margins = (np.concatenate(part) for part in zip(*(
        (own, logits[:, 1] - logits[:, 0]) for own, logits in outputs
    )))
    self.assertAlmostEqual(found.pooled["auroc"], _auroc(labels == 1, margins))
    first, logits = outputs[0]
    self.assertAlmostEqual(
        found.clients["auroc"][0], _auroc(first == 1, logits[:, 1] - logits[:, 0])
    )
    predicted = 1 / (1 + np.exp(-margins.astype(np.float64)))
    self.assertLen(found.calibration, 8)
    order = np.argsort(predicted)
    np.testing.assert_allclose(found.calibration, [
        (predicted[rows].mean(), labels[rows].mean()) for rows in np.split(order, 8)
    ])


class MetricTest(parameterized.TestCase):

  @parameterized.parameters(
      ([0] * 77 + [1] * 23, "balanced_accuracy"), ([0] * 75 + [1] * 25, "accuracy"),
      ([0, 1] * 5, "accuracy"), ([1] * 10, "balanced_accuracy"),
  )
  def test_the_rarest_class_decides(self, labels, expected):
    self.assertEqual(judging.default_metric(_task(labels)), expected)

  def test_images_have_the_accuracy_and_numbers_the_error(self):
    labels = [0] * 9 + [1]
    self.assertEqual(judging.default_metric(_task(labels, has_tables=False)), "accuracy")
    self.assertEqual(judging.default_metric(_task(labels, is_regression=True)), "mse")

  @parameterized.parameters(
      ("auroc", _task([0, 1], is_regression=True), "be mse for a regression, got 'auroc'"),
      ("mse", _task([0, 1]), "be accuracy or .* for classes, got 'mse'"),
      ("auprc", _task([0, 1], [0, 0], [1, 1]), "which 1 of 3 clients have"),
  )
  def test_what_can_not_be(self, metric, task, message):
    with self.assertRaisesRegex(ValueError, f"`primary_metric` must.*{message}"):
      judging.metric_of(metric, task)

  def test_what_can_be(self):
    self.assertEqual(judging.metric_of("auroc", _task([0, 1], [1, 0], [0, 0])), "auroc")
    self.assertEqual(judging.metric_of("brier", _task([0, 0], [1, 1])), "brier")

  def test_less_is_better_of_losses(self):
    one, other = np.array([3.0, 1.0]), np.array([2.0, 2.0])
    self.assertEqual(judging.gains_between("mse", one, other).tolist(), [-1, 1])
    self.assertEqual(judging.gains_between("auroc", one, other).tolist(), [1, -1])

  def test_the_balanced_accuracy_is_the_mean_recall(self):
    matrices = np.array([[[9, 1], [1, 1]], [[4, 0], [0, 0]]])
    found = judging.client_scores(
        "balanced_accuracy", objectives.Classification(2), matrices, None
    )
    self.assertEqual(found.tolist(), [0.7, 1.0])


if __name__ == "__main__":
  absltest.main()
