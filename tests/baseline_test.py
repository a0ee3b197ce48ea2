"""Tests what is reached without features against scikit-learn's dummies."""

import dataclasses

from absl.testing import absltest
import numpy as np
from sklearn import dummy
from sklearn import metrics

from fl_clustering.engine import metrics as metrics_lib
from fl_clustering.tasks import own_clients
from fl_clustering.three_phase import baseline

_TABLES = object()  # What tasks of tables have.


def _task(labels):
  rng = np.random.default_rng(0)
  clients = {f"{i}": (rng.normal(size=(len(y), 2)), y) for i, y in enumerate(labels)}
  task = own_clients.task_from_arrays(clients, "logistic", validation_share=0)
  return dataclasses.replace(task, tables=_TABLES)


class BaselineTest(absltest.TestCase):

  def test_a_client_s_most_frequent_class(self):
    rng = np.random.default_rng(1)
    task = _task([rng.choice(3, n, p=(0.2, 0.5, 0.3)) for n in (40, 60)])
    accuracy = metrics_lib.accuracy(baseline.of_task(task, np.arange(2)))
    for i, client in enumerate(task.clients):
      expected = dummy.DummyClassifier().fit(client.train.features, client.train.labels)
      predicted = expected.predict(client.test.features)
      self.assertAlmostEqual(accuracy[i], metrics.accuracy_score(client.test.labels, predicted))

  def test_none_of_other_data_than_tables(self):
    task = _task([[0, 1] * 5])
    self.assertIsNone(baseline.of_task(dataclasses.replace(task, tables=None), np.arange(1)))


if __name__ == "__main__":
  absltest.main()
