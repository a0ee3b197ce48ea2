import dataclasses

from absl.testing import absltest

from experiments.three_phase import data
from fl_clustering import client_privacy
from fl_clustering import config as config_lib
from tests import small_task

_CONFIG = config_lib.ThreePhaseConfig(dataset="digits", num_clients=5)


class DataTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.task = small_task.small_task()
    cls.document = data.describe(_CONFIG, cls.task, None)

  def test_document_identifies_the_data(self):
    self.assertEqual(self.document["dataset"]["fingerprint"], self.task.fingerprint())
    self.assertEqual(self.document["dataset"]["num_clients"], 5)
    self.assertEqual(self.document["model"]["name"], "cnn_small")

  def test_document_says_what_privacy_is_spent(self):
    config = dataclasses.replace(_CONFIG, aggregator="dp")

    private = data.describe(config, self.task, None)

    self.assertIsNone(self.document["privacy"])
    self.assertEqual(private["privacy"], client_privacy.spent(config))

  def test_the_same_data_can_be_resumed(self):
    data.check_recorded(self.document, data.describe(_CONFIG, self.task, "elsewhere"))

  def test_other_data_are_refused(self):
    dataset = {**self.document["dataset"], "fingerprint": "0" * 64}

    with self.assertRaisesRegex(ValueError, "`data_dir` must give the same data"):
      data.check_recorded({**self.document, "dataset": dataset}, self.document)

  def test_resume_keeps_the_data_that_auto_chose(self):
    config = config_lib.ThreePhaseConfig(num_clients=5)

    # The folder is that of EMNIST's cache, which the digits don't take.
    task = data.load(config, "/no/such/folder", {"dataset": {"name": "digits"}})

    self.assertEqual(task.name, "digits")

  def test_clients_with_the_counts_of_their_labels(self):
    header, *rows = data.clients_text(self.task).splitlines()

    self.assertStartsWith(header, "client_id,group,num_train,num_test,train_label_0,")
    self.assertLen(rows, 5)
    for row, (client_id, size) in zip(rows, small_task.SIZES.items()):
      cells = row.split(",")
      self.assertEqual(cells[:3], [client_id, "", str(size)])
      self.assertEqual(sum(map(int, cells[4:])), size)


if __name__ == "__main__":
  absltest.main()
