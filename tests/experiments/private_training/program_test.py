"""Runs the program of private clusters as a user does; its files are read."""

import csv
import json
import os
import re
import shutil
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments import private_clusters
from experiments.private_training import report
from experiments.private_training import training
from fl_clustering.engine import client_files
from fl_clustering.private_clusters import slot_sums
from tests.experiment_shell import in_process

_FLAGS = (
    "--dataset=digits", "--num_clients=12", "--partition=permuted_labels", "--num_groups=2",
    "--image_size=7", "--examples_per_client=20", "--num_clusters=2", "--rounds=4",
    "--epsilon=500",
)


def _run(*arguments):
  return in_process.run_main(private_clusters.PrivateClusters().main, *_FLAGS, *arguments)


def _read(*parts):
  with open(os.path.join(*parts), encoding="utf-8") as file:
    return file.read()


class ProgramTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = os.path.realpath(temporary.name)
    cls.folder = os.path.join(cls.base, "run")
    with mock.patch.object(
        client_files, "write_client_files", wraps=client_files.write_client_files
    ) as write:
      cls.printed = _run(f"--output_dir={cls.folder}")
    cls.task = write.call_args.args[0]

  def test_writes_what_may_be_published_apart(self):
    self.assertEqual(
        sorted(os.listdir(self.folder)),
        ["config.json", "journal", "released", "report.html", "simulation", "summary.json"],
    )
    self.assertEqual(
        sorted(name for name in os.listdir(os.path.join(self.folder, "released")) if "." in name),
        ["config.json", "ledger.csv", "models.npz", "report.html", "summary.json"],
    )
    released = "".join(
        _read(self.folder, "released", name)
        for name in ("config.json", "ledger.csv", "summary.json", "report.html")
    )
    simulated = list(csv.DictReader(_read(self.folder, "simulation/results.csv").splitlines()))
    self.assertEqual(
        [row["method"] for row in simulated], ["private_ifca", "ifca", "dp_fedavg", "fedavg"]
    )
    secrets = [self.base, self.task.fingerprint(), "fingerprint", "finetuned", "rand_index"]
    for row in simulated:
      secrets += [row["accuracy"], row["finetuned_accuracy"]]
    for secret in secrets:
      self.assertNotIn(secret, released)
    for client_id in self.task.client_ids:
      self.assertNotRegex(released, rf"\b{re.escape(client_id)}\b")

  def test_what_is_released_is_drawn_from_its_folder_alone(self):
    folder = os.path.join(self.base, "published")
    shutil.copytree(os.path.join(self.folder, "released"), folder)
    os.remove(os.path.join(folder, "report.html"))
    shutil.rmtree(os.path.join(folder, "figures"))
    report.write_released(folder)
    self.assertEqual(
        _read(folder, "report.html"), _read(self.folder, "released", "report.html")
    )
    self.assertCountEqual(
        os.listdir(os.path.join(folder, "figures")),
        os.listdir(os.path.join(self.folder, "released", "figures")),
    )

  def test_released_models_have_the_models_shapes(self):
    with np.load(os.path.join(self.folder, "released", "models.npz")) as models:
      shapes = {name: models[name].shape for name in models}
    self.assertEqual(shapes, {"dense_1/kernel": (2, 49, 10), "dense_1/bias": (2, 10)})

  def test_all_of_the_budget_is_in_the_ledger(self):
    rows = list(csv.DictReader(_read(self.folder, "released/ledger.csv").splitlines()))
    privacy = json.loads(_read(self.folder, "released/summary.json"))["privacy"]
    spent = sum(float(row["mu"]) ** 2 for row in rows) ** 0.5
    self.assertAlmostEqual(spent / privacy["mu"], 1, places=6)
    self.assertFalse(privacy["is_private"])  # Simulations draw seeded noise.
    self.assertAlmostEqual(sum(part["share"] for part in privacy["budget"]), 1, places=6)

  def test_prints_the_planning_number_first(self):
    self.assertIn("privacy: epsilon 500 at delta 1e-05. The noise is 0.", self.printed)

  def test_an_interrupted_run_goes_on_with_the_same_numbers(self):
    folder = os.path.join(self.base, "interrupted")
    asked = []

    def interrupted(door, name, *arguments):
      asked.append(name)
      if name == "round 3":
        raise KeyboardInterrupt
      return ask(door, name, *arguments)

    ask = slot_sums.SlotSums.ask
    with mock.patch.object(slot_sums.SlotSums, "ask", interrupted):
      with self.assertRaises((KeyboardInterrupt, SystemExit)):
        _run(f"--output_dir={folder}")
    self.assertIn("round 2", asked)
    _run(f"--output_dir={folder}", "--resume")
    for name in ("summary.json", "ledger.csv", "config.json"):
      self.assertEqual(
          _read(folder, "released", name), _read(self.folder, "released", name), name
      )

  def test_without_simulation_noise_is_secure_and_nothing_else_is_written(self):
    folder = os.path.join(self.base, "real")
    _run(f"--output_dir={folder}", "--nosimulation")
    self.assertNotIn("simulation", os.listdir(folder))
    summary = json.loads(_read(folder, "released/summary.json"))
    self.assertTrue(summary["privacy"]["is_private"])
    self.assertIsNone(json.loads(_read(folder, "summary.json"))["simulation"])

  def test_one_cluster_is_dp_fedavg(self):
    folder = os.path.join(self.base, "one")
    _run(f"--output_dir={folder}", "--num_clusters=1")
    rows = list(csv.DictReader(_read(folder, "simulation/results.csv").splitlines()))
    self.assertEqual([row["method"] for row in rows], ["dp_fedavg", "fedavg"])

  def test_other_data_are_refused(self):
    folder = os.path.join(self.base, "other")
    shutil.copytree(self.folder, folder)
    os.remove(os.path.join(folder, "report.html"))
    document = json.loads(_read(folder, "config.json"))
    document["dataset"]["fingerprint"] = "of others"
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
      json.dump(document, file)
    with mock.patch.object(training, "train") as train:
      with self.assertRaisesRegex(Exception, "`data_dir` must give the same data"):
        _run(f"--output_dir={folder}", "--resume")
    train.assert_not_called()

  @parameterized.parameters(
      (("--num_clusters=13",), "`num_clusters` must be at most the 12 clients"),
      (("--trust=none", "--min_clients=13"), "`min_clients` must be at most the 12 clients"),
      (("--epsilon=8,8",), "`epsilon` must be one number or several different ones"),
      (("--epsilon=0",), "`epsilon` must be a finite number > 0"),
      (("--nosimulation", "--epsilon=4,8"), "`epsilon` must be one without `simulation`"),
      (("--nosimulation", "--num_seeds=2"), "`num_seeds` must be one without `simulation`"),
      (("--delta=1",), "`delta` must be a number in"),
      (("--image_size=9",), "`image_size` must divide the sides of square images"),
      (("--dataset=files",), ".*value should be one of <auto|emnist|digits|idx>"),
      (("--min_clients=3",), "`min_clients` must be left out with `trust`='server'"),
      (("--learning_rate=nan",), "`learning_rate` must be a finite number > 0"),
  )
  def test_refuses(self, arguments, message):
    with self.assertRaisesRegex(Exception, f"^{message}"):
      _run(f"--output_dir={os.path.join(self.base, 'refused')}", *arguments)


if __name__ == "__main__":
  absltest.main()
