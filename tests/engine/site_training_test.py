"""Tests for fl_clustering.engine.site_training; tests/integration:sites_test has real sites."""

from unittest import mock

from absl.testing import absltest
import numpy as np

from fl_clustering.engine import client_files
from fl_clustering.engine import client_update
from fl_clustering.engine import participation
from fl_clustering.engine import site_training
from tests import small_task


class SiteTrainingTest(absltest.TestCase):

  def test_one_cluster_s_sum_is_held_at_a_time(self):
    task = small_task.small_task()
    files = client_files.write_client_files(task, self.create_tempdir().full_path)
    training = site_training.SiteTraining(
        task, files, client_update.LocalTraining(batch_size=5, learning_rate=0.1), seed=1
    )
    vectors = np.zeros((3, task.model.num_parameters), np.float32)
    written = []

    def add_up(vector, jobs):
      del jobs
      written.append(np.count_nonzero(vectors.any(axis=1)))
      return np.full(vector.shape, 8, np.float32), 4, np.zeros(len(task.client_ids))

    with mock.patch.object(training, "_add_up", add_up):
      training.next(
          vectors, (("a",), ("b",), ("d",)), participation.Round(1, ("a", "d"), 1), in_place=True
      )
    # `b` does not take part.  The first model was there before the last sum was asked for.
    self.assertEqual(written, [0, 1])
    np.testing.assert_array_equal(vectors[:, 0], [2, 0, 2])


if __name__ == "__main__":
  absltest.main()
