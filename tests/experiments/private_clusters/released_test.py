"""What is released follows from the noisy answers and public numbers, and from nothing else."""

import dataclasses
import os
import re

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.private_clusters import released
from experiments.private_clusters import released_page
from fl_clustering import runtime
from fl_clustering.engine.tff import client_files
from fl_clustering.private_clusters import plan
from fl_clustering.private_clusters import releases as releases_lib
from fl_clustering.private_clusters import training
from fl_clustering.tasks import own_clients
from tests import nightly
from tests.experiment_shell import run_folder
from tests.experiments.private_clusters import sample_runs

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

  @nightly.only  # By day, `neighbours_test` runs the program.
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


  def test_rounds_have_the_sizes_after_and_the_clip_norm_in_them(self):
    start = training.State.first(np.zeros(3), 2, 20, clip_norm=4.0)
    first, second = (
        dataclasses.replace(
            start, sizes=np.array([3.0, size]), clip_norm=norm, round_num=number, revived=revived
        ) for number, size, norm, revived in ((1, 5.0, 7.0, start.revived), (2, 6.0, 8.0, 1))
    )

    rows = released.round_rows([start, first, second])

    self.assertEqual([(row["round"], row["line"], row["value"]) for row in rows], [
        (1, "cluster 0", 3.0), (1, "cluster 1", 5.0), (1, "clip norm", 4.0),
        (2, "cluster 0", 3.0), (2, "cluster 1", 6.0), (2, "revival", 0.0), (2, "clip norm", 7.0),
    ])


class ReleasedPageTest(parameterized.TestCase):

  def _page(self, **changes):
    """Returns what is before the figures, and the whole page, both without their markup."""
    run = sample_runs.write_released(self.create_tempdir().full_path, **changes)
    released_page.write(run.path)
    with open(run.join("report.html"), encoding="utf-8") as file:
      page = file.read()
    page = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page[page.index("<body>") :]))
    return page[: page.index("Figures")], page

  def test_has_the_guarantee_first_and_then_what_it_means_and_its_ledger(self):
    header, page = self._page()

    for words in ("epsilon 8 at delta 1e-05 for one client with all of its data", "epsilon 19.1"):
      self.assertIn(words, header)
    for words in ("protects little", "lost:"):
      self.assertNotIn(words, header)
    for words in (
        "zero_out_one_client", "1% false alarms", "at most 25.6% of the clients",
        "The noise was secure: exact discrete Gaussian.", "0.10 of the signal",
        "round 2 1.021 3.53 0.2892 no", "all together – – 0.47325 –",
    ):
      self.assertIn(words, page)

  @parameterized.parameters((None, 1200), (900, 900))
  def test_shares_of_the_noise(self, min_clients, least):
    _, page = self._page(trust="none", min_clients=min_clients)
    self.assertIn(f"at least {least} of the 1,200 clients", page)
    self.assertNotIn("The server adds the noise", page)

  def test_clusters_are_unknown_under_too_much_noise_and_absent_if_lost(self):
    more = "2,sd of clients,4.2\nall,clients,0.2\nall,sd of clients,8.4\n"
    _, page = self._page(clusters=sample_runs.CLUSTERS + more)

    for row in (
        "0 301.7 4.2 0.855 0.009", "1 2.1 4.2 unknown 0.210", "2 – 4.2 – –",
        "all 0.2 8.4 unknown –",
    ):
      self.assertIn(f" {row} ", page)
    self.assertNotIn("0.432", page)

  def test_is_drawn_from_its_folder_alone_and_always_the_same(self):
    run = sample_runs.write_released(self.create_tempdir().full_path)
    released_page.write(run.path)
    names = ("report.html", "figures/rounds.png")
    before = [open(run.join(name), "rb").read() for name in names]
    for name in names:
      os.remove(run.join(name))
    released_page.write(run.path)

    self.assertEqual([open(run.join(name), "rb").read() for name in names], before)
    self.assertEqual(os.listdir(os.path.dirname(run.path)), [os.path.basename(run.path)])
    first, second, *lines = released_page.text(run.path).splitlines()
    self.assertIn("0.10 of the signal", first)
    self.assertStartsWith(second, "epsilon 8 at delta 1e-05 for one client")
    self.assertRegex("\n".join(lines), r"\n1 +2\.1 +4\.2 +unknown +0\.210$")


if __name__ == "__main__":
  absltest.main()
