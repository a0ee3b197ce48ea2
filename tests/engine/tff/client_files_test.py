import os

from absl.testing import absltest

from fl_clustering.engine.tff import client_files
from tests import small_task


class ClientFilesTest(absltest.TestCase):

  def test_every_file_is_written(self):
    task = small_task.small_task()
    folder = self.create_tempdir().full_path
    files = client_files.write_client_files(task, folder)
    written = [*files.train, *files.test, *files.global_test]
    self.assertCountEqual(
        [os.path.basename(file.path) for file in written], os.listdir(os.fsencode(folder))
    )
    self.assertEqual(
        sum(file.num_examples for file in files.global_test), len(task.global_test)
    )


if __name__ == "__main__":
  absltest.main()
