"""What is released follows from the noisy answers and public numbers, and from nothing else."""

from absl.testing import absltest
import numpy as np

from experiments.private_training import released
from experiments.private_training import released_page
from fl_clustering import runtime
from fl_clustering.engine.tff import client_files
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.tasks import own_clients
from tests.experiment_shell import run_folder

_NUM_CLIENTS = 12
_SETTINGS = plan.PrivateClusters(2, 50.0, 1e-5, rounds=3)


def _task(seed, prefix):
  rng = np.random.default_rng(seed)
  clients = {}
  for index in range(_NUM_CLIENTS):
    features = rng.normal(size=(9, 4)).astype(np.float32) * seed
    labels = rng.integers(3, size=9)
    clients[f"{prefix}_{index}"] = (features[:6], labels[:6]), (features[6:], labels[6:])
  return own_clients.task_from_arrays(clients, "logistic", num_classes=3)


class ReleasedTest(absltest.TestCase):

  def _released(self, task, journal, noise_seed=None):
    """Returns the names and bytes of what a run on the clients of a task releases."""
    clients, folder = (self.create_tempdir().full_path for _ in range(2))
    trained = released.train(
        _SETTINGS, task.model, client_files.write_client_files(task, clients), clients, 0,
        releases_lib.Releases(_SETTINGS.epsilon, _SETTINGS.delta, noise_seed, journal),
    )
    released.write(folder, {"num_clusters": 2}, _SETTINGS, task.model, "of a test", trained)
    released_page.write(folder)
    return run_folder.files(folder)

  def test_other_clients_with_the_same_answers_are_released_as_the_same_bytes(self):
    self.enter_context(runtime.LocalRuntime())
    journal = self.create_tempdir().full_path
    found = self._released(_task(1, "secret"), journal)
    self.assertEqual(found, self._released(_task(2, "other"), journal))
    other = self._released(_task(2, "other"), self.create_tempdir().full_path)
    self.assertCountEqual(
        [name for name in found if found[name] != other[name]],
        ["clusters.csv", "models.npz", "report.html", "rounds.csv", "figures/rounds.png"],
    )
    self.assertCountEqual(found, {
        "clusters.csv", "config.json", "figures/rounds.png", "ledger.csv", "models.npz",
        "report.html", "rounds.csv", "summary.json",
    })
    for name, content in found.items():
      self.assertNotIn(b"secret_", content, name)
    with self.assertRaisesRegex(ValueError, "^`trained` must have secure noise"):
      self._released(_task(1, "secret"), None, noise_seed=1)


if __name__ == "__main__":
  absltest.main()
