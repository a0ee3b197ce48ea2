import os
import types

from absl.testing import absltest

from fl_clustering.engine import client_files
from fl_clustering.tasks import examples as examples_lib
from fl_clustering.tasks import federated_task
from tests import small_task


def _remote(name, num_examples):
  return examples_lib.RemoteExamples(
      f"site:host:1/{name}", num_examples, (10, 10, 1), "uint8", 10, name
  )


class ClientFilesTest(absltest.TestCase):

  def test_examples_of_this_machine_are_written(self):
    task = small_task.small_task()
    folder = self.create_tempdir().full_path
    files = client_files.write_client_files(task, folder)
    written = [*files.train.values(), *files.test.values(), *files.global_test]
    self.assertCountEqual(
        [os.path.basename(file.path) for file in written], os.listdir(os.fsencode(folder))
    )
    self.assertEqual({file.site for file in written}, {""})
    self.assertEqual(
        sum(file.num_examples for file in files.global_test), len(task.global_test)
    )

  def test_examples_at_a_site_stay_there(self):
    clients = [
        federated_task.ClientData(name, _remote(f"{name}.train", 5), _remote(f"{name}.test", 2))
        for name in "ab"
    ]
    folder = self.create_tempdir().full_path
    files = client_files.write_client_files(
        types.SimpleNamespace(
            all_clients=clients,
            global_test=tuple(client.test for client in clients),
        ),
        folder,
    )
    self.assertEqual(
        files.train["a"], client_files.ExampleFile(b"site:host:1/a.train", 5, "host:1")
    )
    self.assertEqual(files.global_test, tuple(files.test.values()))
    self.assertEmpty(os.listdir(folder))


if __name__ == "__main__":
  absltest.main()
