import collections
import csv
import glob
import os
import shutil
import tempfile

from absl.testing import absltest
import numpy as np
from tensorboard.backend.event_processing import event_accumulator

from experiment_shell import finished_run
from experiments.three_phase import report
from experiments.three_phase import results as results_lib
from tests.integration import three_phase_program as program

_CHOSEN = {"kmeans", "dynamic_distance", "hierarchical"}
_METHODS = {*_CHOSEN, "fedavg", "finetuned", "local"}
_COSTS = ("client_steps", "bytes_down", "bytes_up")


def _read_bytes(folder, name):
  with open(os.path.join(folder, name), "rb") as file:
    return file.read()


class OutputTest(absltest.TestCase):
  """One run of two rounds with known groups; every file it leaves is read."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.folder = os.path.join(os.path.realpath(temporary.name), "run")
    cls.result = program.run(
        "--dataset=digits", "--num_clients=9", "--num_new_clients=1", "--partition=rotated",
        "--num_groups=2", "--pretrain_rounds=2", "--cluster_rounds=2", "--num_clusters=2",
        "--batch_size=100", "--client_epochs_per_round=1", "--control_repeats=2", "--model=logistic",
        f"--output_dir={cls.folder}",
    )
    assert cls.result.code == 0, cls.result.stderr

  def _rows(self, name):
    with open(os.path.join(self.folder, name), newline="", encoding="utf-8") as f:
      return list(csv.DictReader(f))

  def test_ends_well_and_says_where_the_report_is(self):
    lines = self.result.stdout.splitlines()
    self.assertStartsWith(lines[0], "data: 5,000 MNIST digits")
    self.assertEndsWith(lines[0], ", 8 clients, 1 new")
    self.assertEqual(lines[1], f"results: {self.folder}")
    self.assertEqual(lines[-1], f"report: {self.folder}/report.html")
    self.assertTrue(any(line.startswith("FedAvg") for line in lines))

  def test_leaves_nothing_but_results(self):
    self.assertCountEqual(
        os.listdir(self.folder),
        [
            "assignments.json", "checkpoints", "client_metrics.csv",
            "client_weights.npz", "clients.csv", "config.json", "figures",
            "group_recovery.csv", "metrics.csv", "report.html", "summary.json",
            "tensorboard",
        ],
    )

  def test_config_says_what_was_used(self):
    document = program.read_json(self.folder, "config.json")
    self.assertEqual(document["experiment"], "three_phase_emnist")
    self.assertEqual(document["config"]["seed"], 0)
    self.assertEqual(document["config"]["num_clusters"], 2)
    self.assertEqual(document["dataset"]["name"], "digits")
    self.assertEqual(document["model"]["num_parameters"], 7850)
    self.assertIn("tensorflow-federated", document["versions"])

  def test_summary_has_its_schema(self):
    summary = program.read_json(self.folder, "summary.json")
    self.assertEqual(set(summary["methods"]), _METHODS)
    for name, method in summary["methods"].items():
      expected = {
          "num_clusters", "clients", "new_clients", "validation", "global_mean",
          "global_weighted", "clients_blended", "global_blended", "cost",
      }
      if name != "fedavg":
        expected.add("gain")
      if name in _CHOSEN:
        expected.add("gain_over_finetuned")
      agreement = {"adjusted_rand_index", "purity"}
      if name in ("kmeans", "hierarchical"):
        expected |= agreement
      # Whether the dynamic clusters overlap is not known beforehand.
      found = set(method) - agreement if name == "dynamic_distance" else set(method)
      self.assertEqual(found, expected, name)
      self.assertEqual(set(method["global_mean"]), {"accuracy", "recall", "precision"})
      self.assertEqual(
          set(method["clients"]),
          {"accuracy", "pooled_accuracy", "recall", "share_at_target"})
      self.assertEqual(
          set(method["clients"]["accuracy"]), {"mean", "sd", "p10", "max"})
    self.assertEqual(summary["methods"]["local"]["num_clusters"], 8)
    self.assertEqual(summary["methods"]["fedavg"]["num_clusters"], 1)

  def test_one_model_is_its_own_mean(self):
    fedavg = program.read_json(self.folder, "summary.json")["methods"]["fedavg"]
    self.assertEqual(fedavg["global_mean"], fedavg["global_weighted"])
    self.assertEqual(fedavg["global_mean"], fedavg["global_blended"])
    self.assertEqual(fedavg["clients"], fedavg["clients_blended"])

  def test_metrics_have_every_round_of_every_method(self):
    rows = self._rows("metrics.csv")
    self.assertEqual(
        list(rows[0]), ["phase", "method", "cluster", "round", "metric", "value"])
    rounds = {}
    for row in rows:
      rounds.setdefault((row["phase"], row["method"]), set()).add(row["round"])
    self.assertEqual(rounds.pop(("pretrain", "pretrain")), {"1", "2"})
    self.assertEqual(rounds.pop(("evaluate", "pretrain")), {""})
    for name in _METHODS:
      num_rounds = 4 if name == "local" else 2
      self.assertEqual(
          rounds.pop(("cluster", name)), {str(number) for number in range(num_rounds + 1)})
      self.assertEqual(rounds.pop(("evaluate", name)), {""})
    self.assertEmpty(rounds)

  def test_summary_follows_from_the_client_metrics(self):
    summary = program.read_json(self.folder, "summary.json")
    rows = self._rows("client_metrics.csv")
    for name in _METHODS:
      for phase, part in (("cluster", "clients"), ("evaluate", "clients_blended")):
        accuracy = [
            float(row["accuracy"])
            for row in rows
            if (row["phase"], row["method"]) == (phase, name)
        ]
        self.assertLen(accuracy, 8)
        self.assertAlmostEqual(
            np.mean(accuracy), summary["methods"][name][part]["accuracy"]["mean"])

  def test_costs_of_the_rounds_add_up_to_the_summary_s(self):
    summary = program.read_json(self.folder, "summary.json")
    results = results_lib.Results(finished_run.FinishedRun(self.folder))
    values = collections.defaultdict(list)
    for row in self._rows("metrics.csv"):
      if row["phase"] != "pretrain" and not row["cluster"]:
        values[row["method"], row["metric"]].append(float(row["value"]))
    curves = dict(iter(results.curves.groupby("method")))
    for name in _METHODS:
      total = summary["methods"][name]["cost"]
      before = dict.fromkeys(_COSTS, 0) if name == "local" else summary["pretrain"]["cost"]
      for cost in _COSTS:
        self.assertEqual(values[name, f"total_{cost}"], [total[cost]])
        self.assertEqual(before[cost] + sum(values[name, cost]), total[cost], name)
      for column, costs in (("steps", ("client_steps",)), ("bytes", ("bytes_down", "bytes_up"))):
        first, *_, last = curves[name][column]
        self.assertEqual(first, sum(before[cost] for cost in costs), name)
        self.assertEqual(last, sum(total[cost] for cost in costs), name)

  def test_new_clients_are_in_both_tables_of_clients(self):
    new = [row["client_id"] for row in self._rows("clients.csv") if row["new"] == "1"]
    self.assertLen(new, 1)
    rows = [row for row in self._rows("client_metrics.csv") if row["phase"] == "new_clients"]
    self.assertEqual({row["method"] for row in rows}, _METHODS | {"pretrain"})
    self.assertEqual({row["client_id"] for row in rows}, set(new))

  def test_best_accuracy_is_the_highest_of_the_rounds(self):
    rows = self._rows("metrics.csv")
    for name in _METHODS:
      by_cluster = {}
      for row in rows:
        if (row["phase"], row["method"], row["metric"]) == ("cluster", name, "accuracy"):
          by_cluster.setdefault(row["cluster"], []).append(float(row["value"]))
      best = {
          row["cluster"]: float(row["value"])
          for row in rows
          if (row["method"], row["metric"]) == (name, "best_accuracy")
      }
      self.assertEqual(best, {k: max(values) for k, values in by_cluster.items()})

  def test_assignments_cover_the_clients(self):
    clients = {row["client_id"] for row in self._rows("clients.csv") if row["new"] == "0"}
    self.assertLen(clients, 8)
    assignments = program.read_json(self.folder, "assignments.json")
    self.assertEqual(set(assignments), _CHOSEN)
    for assignment in assignments.values():
      self.assertEqual({c for cluster in assignment["clusters"] for c in cluster}, clients)

  def test_tensorboard_reads_the_events(self):
    folder = os.path.join(self.folder, "tensorboard")
    self.assertCountEqual(os.listdir(folder), _METHODS | {"pretrain"})
    events = event_accumulator.EventAccumulator(
        os.path.join(folder, "kmeans"), {event_accumulator.TENSORS: 0})
    events.Reload()
    steps = [event.step for event in events.Tensors("clients_accuracy_mean")]
    self.assertEqual(steps, [2, 3, 4])

  def test_figures_and_report(self):
    figures = glob.glob(os.path.join(self.folder, "figures", "*.png"))
    self.assertGreaterEqual(len(figures), 6)
    self.assertIn("<html", program.read_text(self.folder, "report.html"))

  def test_the_report_can_be_drawn_again_from_the_files(self):
    folder = os.path.join(self.create_tempdir().full_path, "copy")
    shutil.copytree(self.folder, folder)
    drawn = ["report.html", *(f"figures/{name}" for name in os.listdir(f"{folder}/figures"))]
    contents = [_read_bytes(folder, name) for name in drawn]
    for name in drawn:
      os.remove(os.path.join(folder, name))

    report.write_report(finished_run.FinishedRun(folder))

    self.assertEqual([_read_bytes(folder, name) for name in drawn], contents)

  def test_recovery_has_the_row_that_was_used(self):
    rows = self._rows("group_recovery.csv")
    summary = program.read_json(self.folder, "summary.json")
    used = {row["grouping"]: row for row in rows if row["used"] == "1"}
    self.assertAlmostEqual(
        float(used["kmeans"]["adjusted_rand_index"]),
        summary["methods"]["kmeans"]["adjusted_rand_index"])


if __name__ == "__main__":
  absltest.main()
