"""Tests confusion matrices against scikit-learn's."""

from unittest import mock

from absl.testing import absltest
import numpy as np
from sklearn import metrics

from fl_clustering.engine import divergence
from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.engine.tff import client_files
from fl_clustering.engine.tff import client_update
from fl_clustering.engine.tff import evaluation
from tests import local_runtime
from tests import small_task
from tests.engine.tff import small_engine

setUpModule = local_runtime.use


class ConfusionsTest(absltest.TestCase):

  def test_every_file_has_its_own(self):
    rng = np.random.default_rng(2)
    labels, logits = rng.integers(3, size=20), rng.normal(size=(20, 3)).astype(np.float32)
    files = np.repeat([0, 1], [8, 12]).astype(np.int32)
    found = evaluation.confusions_of_logits(labels.astype(np.int32), logits, files, 2, 3).numpy()
    for k in (0, 1):
      rows = files == k
      np.testing.assert_array_equal(
          found[k],
          metrics.confusion_matrix(labels[rows], logits[rows].argmax(1), labels=range(3)),
      )
    self.assertAlmostEqual(
        metrics_lib.model_metrics(found)["recall"][1],
        metrics.balanced_accuracy_score(labels[8:], logits[8:].argmax(1)),
    )

  def test_outputs_that_are_not_finite_are_no_predictions(self):
    logits = np.zeros((6, 3), np.float32)
    logits[[1, 3, 5], -1] = np.nan, np.inf, -np.inf
    files = np.arange(6, dtype=np.int32)
    labels = np.array([0, 0, 1, 2, 0, 0], np.int32)
    found = evaluation.confusions_of_logits(labels, logits, files, 7, 3)
    self.assertEqual(divergence.are_finite(found.numpy()).tolist(), [True, False] * 3 + [True])


class GlobalConfusionsTest(absltest.TestCase):

  def test_it_may_fill_several_jobs(self):
    task = small_task.small_task()
    vectors = small_task.vectors(task, 2)
    expected = small_engine.engine().global_confusions(vectors)
    for vector, confusion in zip(vectors, expected, strict=True):
      parameters = client_update.unflatten(task.model, vector)
      logits = task.model.logits(
          parameters, task.global_test.features.astype(np.float32) / 255, None
      )
      np.testing.assert_array_equal(confusion, metrics.confusion_matrix(
          task.global_test.labels, np.argmax(logits, axis=1), labels=range(10)
      ))
    with (
        mock.patch.object(evaluation, "JOB_EXAMPLES", 100),
        mock.patch.object(client_files, "GLOBAL_TEST_FILE_EXAMPLES", 70),
    ):
      found = small_engine.engine().global_confusions(vectors)
    np.testing.assert_array_equal(found, expected)
