"""Tests tallies and what follows from them against scikit-learn, and losses against NumPy."""

from absl.testing import absltest
import numpy as np
from sklearn import metrics

from fl_clustering.engine import objectives
from fl_clustering.tables import label_scale
from fl_clustering.tasks import models

_SCALE = label_scale.LabelScale(40.0, 2.5)


def _regression():
  return objectives.of(models.build("linear", (3,), 1, "float32", _SCALE))


class RegressionTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    rng = np.random.default_rng(0)
    self.labels = rng.normal(size=30).astype(np.float32)
    self.outputs = rng.normal(size=(30, 1)).astype(np.float32)
    self.files = np.repeat([0, 1, 2], [5, 24, 1]).astype(np.int32)
    self.tallies = _regression().tallies(self.labels, self.outputs, self.files, 4).numpy()

  def _assert_metrics(self, found, rows):
    truth, predicted = _SCALE.in_units(self.labels[rows]), _SCALE.in_units(self.outputs[rows, 0])
    np.testing.assert_allclose(found["rmse"], metrics.root_mean_squared_error(truth, predicted))
    np.testing.assert_allclose(found["mse"], metrics.mean_squared_error(truth, predicted))
    np.testing.assert_allclose(found["mae"], metrics.mean_absolute_error(truth, predicted))
    np.testing.assert_allclose(found["r2"], metrics.r2_score(truth, predicted))

  def test_every_file_has_its_own_metrics_and_sums_those_of_all(self):
    found = _regression().metrics(self.tallies)
    for k in (0, 1):
      self._assert_metrics({name: values[k] for name, values in found.items()}, self.files == k)
    self._assert_metrics(_regression().metrics(self.tallies.sum(axis=0)), slice(None))

  def test_r2_of_labels_that_do_not_differ_is_undefined(self):
    r2 = _regression().metrics(self.tallies)["r2"]
    self.assertTrue(np.isnan(r2[2]))
    labels = np.full(7, 0.1, np.float32)
    tally = _regression().tallies(labels, self.outputs[:7], np.zeros(7, np.int32), 1)
    self.assertTrue(np.isnan(_regression().metrics(tally.numpy())["r2"][0]))

  def test_a_file_without_examples_has_no_metrics(self):
    found = _regression().metrics(self.tallies)
    self.assertTrue(all(np.isnan(values[3]) for values in found.values()))
    self.assertTrue(np.isnan(_regression().quality(self.tallies)[3]))

  def test_quality_is_1_over_the_squared_error_and_tells_the_rmse(self):
    objective = _regression()
    quality = objective.quality(self.tallies[:2])
    squares = (self.outputs[:, 0] - self.labels) ** 2
    np.testing.assert_allclose(quality[0], 1 / squares[:5].mean(), rtol=1e-6)
    np.testing.assert_allclose(
        objective.curve_of(quality), objective.metrics(self.tallies[:2])["rmse"]
    )

  def test_of_clients(self):
    rmse = _regression().metrics(self.tallies[:3])["rmse"]
    self.assertEqual(_regression().of_clients(self.tallies[:3]), {
        "clients_rmse_mean": rmse.mean(), "clients_rmse_p90": np.percentile(rmse, 90),
    })

  def test_the_loss_is_the_squared_error(self):
    losses = _regression().losses(self.labels, self.outputs)
    np.testing.assert_allclose(losses, (self.outputs[:, 0] - self.labels) ** 2, rtol=1e-6)


class ClassificationTest(absltest.TestCase):

  def test_outputs_that_are_not_finite_are_no_predictions(self):
    for model, labels in (
        (models.build("logistic", (2,), 3, "float32"), np.array([0, 0, 1, 2, 0, 0], np.int32)),
        (models.build("linear", (2,), 1, "float32", _SCALE), np.zeros(6, np.float32)),
    ):
      objective, outputs = objectives.of(model), np.zeros((6, model.num_classes), np.float32)
      outputs[[1, 3, 5], -1] = np.nan, np.inf, -np.inf
      tallies = objective.tallies(labels, outputs, np.array([0, 1, 2, 3, 4, 5], np.int32), 7)
      self.assertEqual(
          objective.are_finite(tallies.numpy()).tolist(), [True, False] * 3 + [True]
      )

  def test_tallies_are_confusion_matrices(self):
    rng = np.random.default_rng(2)
    labels, logits = rng.integers(3, size=20), rng.normal(size=(20, 3)).astype(np.float32)
    objective = objectives.of(models.build("logistic", (2,), 3, "float32"))
    files = np.repeat([0, 1], [8, 12]).astype(np.int32)
    tallies = objective.tallies(labels.astype(np.int32), logits, files, 2)
    for k in (0, 1):
      rows = files == k
      np.testing.assert_array_equal(
          tallies[k],
          metrics.confusion_matrix(labels[rows], logits[rows].argmax(1), labels=range(3)),
      )
    balanced = objective.metrics(tallies.numpy())["recall"]
    self.assertAlmostEqual(
        balanced[1], metrics.balanced_accuracy_score(labels[8:], logits[8:].argmax(1))
    )


class PenaltyTest(absltest.TestCase):

  def test_only_linear_has_one(self):
    self.assertEqual(models.build("linear", (3,), 1, "float32", _SCALE, ridge_penalty=0.5).l2, 0.5)
    self.assertEqual(models.build("mlp", (3,), 1, "float32", _SCALE).l2, 0)
    self.assertEqual(models.build("logistic", (3,), 2, "float32").l2, 0)


if __name__ == "__main__":
  absltest.main()
