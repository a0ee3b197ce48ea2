import json
import os
import tempfile

from absl.testing import absltest

from experiments.three_phase_emnist import experiment
from tests.experiment_shell import run_folder
from tests.integration import three_phase_program as program

_CHOSEN = {"kmeans", "dynamic_distance", "hierarchical"}
_METHODS = {*_CHOSEN, "fedavg", "finetuned", "local"}
_COSTS = ("steps", "bytes_down", "bytes_up")


class OutputTest(absltest.TestCase):
  """One run of two rounds with known groups; every file it leaves is read."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    base = os.path.realpath(cls.enterClassContext(tempfile.TemporaryDirectory()))
    cls.folder = os.path.join(base, "run")
    cls.result = program.run(
        "--dataset=digits", "--num_clients=9", "--num_new_clients=1", "--partition=rotated",
        "--num_groups=2", "--pretrain_rounds=2", "--cluster_rounds=2", "--num_clusters=2",
        "--batch_size=100", "--client_epochs_per_round=1", "--control_repeats=2",
        "--model=logistic", "--tensorboard", f"--output_dir={cls.folder}",
    )
    assert cls.result.code == 0, cls.result.stderr

  def _table(self, name, **values):
    return program.table(self.folder, name, **values)

  def _results(self, method):
    """Returns the metrics of a method as a whole."""
    rows = self._table("results", method=method, cluster=None)
    return rows.set_index("metric")["value"]

  def test_what_it_leaves_and_prints(self):
    lines = self.result.stdout.splitlines()
    self.assertEndsWith(lines[0], ", 8 clients, 1 new")
    self.assertIn("--dataset=emnist", lines[1])
    self.assertEqual(lines[-1], f"report: {self.folder}/report.html")
    self.assertNotIn("cell", self.result.stderr)  # There is one bar, that of the rounds.
    self.assertCountEqual(
        os.listdir(self.folder),
        [
            *(f"{name}.csv" for name in experiment.EXPERIMENT.tidy), "checkpoints",
            "client_weights.npz", "config.json", "figures", "report.html", "summary.json", "tables",
            "tensorboard",
        ],
    )
    # Images have no profiles.
    figures = {f"{figure.name}.png" for figure in experiment.EXPERIMENT.figures} - {"profiles.png"}
    self.assertCountEqual(os.listdir(os.path.join(self.folder, "figures")), figures)
    self.assertLen(os.listdir(os.path.join(self.folder, "tensorboard")), 1)
    document = json.loads(run_folder.read(self.folder, "config.json"))
    self.assertEqual(document["experiment"], "three_phase_emnist")
    self.assertEqual(document["config"]["seed"], 0)
    self.assertEqual(document["config"]["num_clusters"], 2)
    self.assertEqual(document["inputs"]["dataset"]["name"], "digits")
    self.assertEqual(document["about"]["model"]["num_parameters"], 7850)
    self.assertIn("tensorflow-federated", document["versions"])

  def test_every_method_has_its_results(self):
    for name in _METHODS:
      found = self._results(name)
      for part in ("", "blended_", "new_", "validation_"):
        self.assertIn(f"{part}accuracy", found, name)
      self.assertEqual("gain" in found, name != "fedavg")
      self.assertEqual("finetuned_gain" in found, name in _CHOSEN)
      if name in ("kmeans", "hierarchical"):  # Dynamic clusters may overlap.
        self.assertIn("ari", found)
    self.assertEqual(self._results("local")["clusters"], 8)
    self.assertEqual(self._results("fedavg")["clusters"], 1)

  def test_one_model_is_its_own_mean(self):
    fedavg = self._results("fedavg")
    for metric in ("accuracy", "recall", "precision"):
      self.assertEqual(fedavg[f"global_{metric}"], fedavg[f"global_weighted_{metric}"])
      self.assertEqual(fedavg[f"global_{metric}"], fedavg[f"global_blended_{metric}"])
    self.assertEqual(fedavg["accuracy"], fedavg["blended_accuracy"])

  def test_curves_have_every_round_of_every_method(self):
    rounds = self._table("curves").groupby("method")["round"].unique().map(set).to_dict()
    self.assertEqual(rounds.pop("pretrain"), {1, 2})
    for name in _METHODS:
      self.assertEqual(rounds.pop(name), set(range(5 if name == "local" else 3)))
    self.assertEmpty(rounds)

  def test_results_follow_from_those_of_the_clients(self):
    for name in _METHODS:
      for phase, part in (("cluster", ""), ("evaluate", "blended_")):
        accuracy = self._table("clients", phase=phase, method=name, metric="accuracy")["value"]
        self.assertLen(accuracy, 8)
        self.assertAlmostEqual(accuracy.mean(), self._results(name)[f"{part}accuracy"])

  def test_costs_of_the_rounds_go_from_phase_1_to_the_total(self):
    for name in _METHODS:
      total, before = self._results(name), self._results("pretrain")
      for cost in _COSTS:
        of_rounds = self._table("curves", method=name, cluster=None, metric=cost)["value"]
        start = 0 if name == "local" else before[cost]
        self.assertEqual(of_rounds.iloc[-1], total[cost], name)
        self.assertBetween(of_rounds.iloc[0], start, total[cost], name)
        self.assertTrue(of_rounds.is_monotonic_increasing, name)

  def test_new_clients_are_in_both_tables_of_clients(self):
    new = set(self._table("examples", new=1)["client"])
    self.assertLen(new, 1)
    rows = self._table("clients", phase="new_clients")
    self.assertEqual(set(rows["method"]), _METHODS | {"pretrain"})
    self.assertEqual(set(rows["client"]), new)

  def test_best_accuracy_is_the_highest_of_the_rounds(self):
    for name in _METHODS:
      of_rounds = self._table("curves", method=name, metric="accuracy")
      best = self._table("results", method=name, metric="best_accuracy")
      self.assertEqual(
          best.set_index("cluster")["value"].to_dict(),
          of_rounds.groupby("cluster")["value"].max().to_dict(),
      )

  def test_clusters_cover_the_clients(self):
    clients = set(self._table("examples", new=0)["client"])
    self.assertLen(clients, 8)
    for name in _METHODS:
      self.assertEqual(set().union(*program.clusters(self.folder, name).values()), clients)

  def test_recovery_has_the_row_that_was_used(self):
    (used,) = self._table(
        "group_recovery", method="kmeans", used=1, metric="ari"
    )["value"]
    self.assertAlmostEqual(used, self._results("kmeans")["ari"])
