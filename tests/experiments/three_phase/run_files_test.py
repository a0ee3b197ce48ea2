"""Tests the files of a run on an invented result; nothing is trained."""

import csv
import io
import json
import os
import types

from absl.testing import absltest
import numpy as np
from tensorboard.backend.event_processing import event_accumulator

from experiments.three_phase import run_files
from fl_clustering.engine import cost as cost_lib
from fl_clustering.methods import cluster_assignment
from fl_clustering.methods import num_clusters
from fl_clustering.three_phase import result as result_lib
from fl_clustering.three_phase import stages

# True labels are rows.
_CONFUSION = np.array([[1, 3], [1, 15]])
_ACCURACY, _RECALLS, _PRECISIONS = 16 / 20, (1 / 4, 15 / 16), (1 / 2, 15 / 18)
_RECALL, _PRECISION = np.mean(_RECALLS), np.mean(_PRECISIONS)


def _right(*num_right):
  """Returns for each model a matrix with so many of ten examples right, all of label 0."""
  return np.array([[[right, 10 - right], [0, 0]] for right in num_right])


def _client(client_id):
  return types.SimpleNamespace(client_id=client_id, test=range(10))


_TASK = types.SimpleNamespace(
    clients=(_client("a"), _client("b")), client_ids=("a", "b"),
    new_clients=(_client("c"),),
)
_NO_NEW_TASK = types.SimpleNamespace(
    clients=_TASK.clients, client_ids=_TASK.client_ids, new_clients=(),
)
_CONFIG = types.SimpleNamespace(
    pretrain_rounds=2, cluster_rounds=3, chosen_methods=("moving",)
)


def _result(choice=None):
  method = result_lib.MethodResult(
      assignment=cluster_assignment.ClusterAssignment((("a", "b"), ("b", "x"))),
      vectors=np.zeros((2, 3), np.float32),
      best_accuracy=np.array([0.25, 0.5]),
      clients=_right(1, 2),
      clients_blended=_right(3, 4),
      global_mean=_right(5)[0],
      global_weighted=_right(6)[0],
      global_blended=_right(7, 8),
      new_clients=_right(9),
      new_client_clusters=((0, 1),),
      cost=cost_lib.Cost(10, 20, 30),
      adjusted_rand_index=None,
      purity=None,
  )
  pretrain = result_lib.PretrainResult(
      vector=np.zeros(3, np.float32),
      global_test=_CONFUSION,
      clients=np.stack([_CONFUSION, _right(0)[0]]),
      own_weights=_right(10, 0),
      new_clients=_right(4),
      cost=cost_lib.Cost(1, 2, 3),
  )
  return result_lib.ThreePhaseResult(
      pretrain=pretrain, client_weights=None, methods={"moving": method, "fedavg": method},
      repeats={}, privacy=None, num_clusters_choice=choice, local_weights=None,
  )


class EvaluationRowsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.values = {
        (row.method, row.cluster, row.metric): row.value
        for row in run_files.evaluation_rows(_result())
    }

  def test_metrics_of_phase_1_s_model(self):
    found = {
        metric: value for (method, _, metric), value in self.values.items()
        if method == "pretrain" and metric.startswith("global")
    }

    self.assertEqual(found, {
        "global_accuracy": _ACCURACY,
        "global_recall": _RECALL,
        "global_precision": _PRECISION,
        "global_recall_class_0": _RECALLS[0],
        "global_recall_class_1": _RECALLS[1],
    })

  def test_every_model_has_its_own_accuracy(self):
    found = {
        (cluster, metric): value for (method, cluster, metric), value in self.values.items()
        if method == "moving" and metric.endswith("accuracy")
    }

    self.assertEqual(found, {
        (0, "best_accuracy"): 0.25, (1, "best_accuracy"): 0.5,
        ("", "global_mean_accuracy"): 0.5, ("", "global_weighted_accuracy"): 0.6,
        (0, "global_blended_accuracy"): 0.7, (1, "global_blended_accuracy"): 0.8,
    })

  def test_a_label_without_examples_has_no_recall(self):
    self.assertIn(("moving", "", "global_mean_recall_class_0"), self.values)
    self.assertNotIn(("moving", "", "global_mean_recall_class_1"), self.values)

  def test_total_costs(self):
    totals = {
        (method, metric): value for (method, _, metric), value in self.values.items()
        if metric.startswith("total")
    }

    self.assertEqual(totals, {
        ("pretrain", "total_client_steps"): 1, ("pretrain", "total_bytes_down"): 2,
        ("pretrain", "total_bytes_up"): 3,
        **{(name, "total_client_steps"): 10 for name in ("moving", "fedavg")},
        **{(name, "total_bytes_down"): 20 for name in ("moving", "fedavg")},
        **{(name, "total_bytes_up"): 30 for name in ("moving", "fedavg")},
    })


class ClientMetricsTest(absltest.TestCase):

  def _rows(self, task):
    text = run_files.client_metrics_text(task, _result())
    return {
        (row["phase"], row["method"], row["client_id"]): row
        for row in csv.DictReader(io.StringIO(text))
    }

  def test_metrics_of_a_client(self):
    row = self._rows(_TASK)["pretrain", "pretrain", "a"]

    self.assertEqual(float(row["accuracy"]), _ACCURACY)
    self.assertEqual(float(row["recall"]), _RECALL)
    self.assertEqual(float(row["precision"]), _PRECISION)
    self.assertEqual(float(row["recall_class_0"]), _RECALLS[0])
    self.assertEqual(float(row["recall_class_1"]), _RECALLS[1])
    self.assertEqual((row["clusters"], row["num_test"]), ("", "10"))

  def test_every_model_of_a_client_has_a_row(self):
    rows = self._rows(_TASK)

    found = {key: (float(row["accuracy"]), row["clusters"]) for key, row in rows.items()
             if key[1] != "fedavg"}
    self.assertEqual(found, {
        ("pretrain", "pretrain", "a"): (0.8, ""),
        ("pretrain", "pretrain", "b"): (0.0, ""),
        ("pretrain", "own_weights", "a"): (1.0, ""),
        ("pretrain", "own_weights", "b"): (0.0, ""),
        ("cluster", "moving", "a"): (0.1, "0"),
        ("cluster", "moving", "b"): (0.2, "0 1"),
        ("evaluate", "moving", "a"): (0.3, "0"),
        ("evaluate", "moving", "b"): (0.4, "0 1"),
        ("new_clients", "pretrain", "c"): (0.4, ""),
        ("new_clients", "moving", "c"): (0.9, "0 1"),
    })
    self.assertEqual(rows["cluster", "moving", "a"]["recall_class_1"], "")

  def test_no_rows_of_new_clients_without_any(self):
    self.assertNotIn("new_clients", {phase for phase, *_ in self._rows(_NO_NEW_TASK)})


class RunFilesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    path = self.create_tempdir().full_path
    self.folder = types.SimpleNamespace(
        join=lambda name: os.path.join(path, name), write_text=self._write_text
    )

  def _write_text(self, name, text):
    with open(self.folder.join(name), "w", encoding="utf-8") as file:
      file.write(text)

  def _read(self, name):
    with open(self.folder.join(name), encoding="utf-8") as file:
      return file.read()

  def test_every_round_is_written_at_once(self):
    with run_files.RunFiles(self.folder, _CONFIG) as files:
      files.stage_started("moving", 3, 0)
      files.round_finished(
          "moving", 1, stages.metric_rows("cluster", "moving", 0, 1, {"accuracy": 0.5})
      )

      self.assertEqual(
          self._read("metrics.csv"),
          "phase,method,cluster,round,metric,value\ncluster,moving,0,1,accuracy,0.5\n",
      )

  def test_tensorboard_counts_all_rounds_of_training(self):
    stages_told = {"pretrain": 2, "moving": 3, "local": 5, "fedavg_matched": 5}
    with run_files.RunFiles(self.folder, _CONFIG) as files:
      for stage, num_rounds in {**stages_told, "fedavg_repeat_1": 3}.items():
        files.stage_started(stage, num_rounds, 0)
        rows = stages.metric_rows("cluster", stage, "", 1, {"accuracy": 0.5})
        files.round_finished(stage, 1, rows if stage in stages_told else [])

    steps = {}
    for stage in os.listdir(self.folder.join("tensorboard")):
      events = event_accumulator.EventAccumulator(
          self.folder.join(f"tensorboard/{stage}"), {event_accumulator.TENSORS: 0}
      )
      events.Reload()
      (event,) = events.Tensors("accuracy")
      steps[stage] = event.step
    self.assertEqual(steps, {"pretrain": 1, "moving": 3, "local": 1, "fedavg_matched": 6})

  def test_tensorboard_leaves_out_clusters_that_are_too_many(self):
    with run_files.RunFiles(self.folder, _CONFIG) as files:
      for stage, num_clusters_ in (("few", 100), ("many", 101)):
        files.stage_started(stage, 2, 0)
        rows = stages.metric_rows("cluster", stage, "", 1, {"clients_accuracy_mean": 0.5})
        for k in range(num_clusters_):
          rows += stages.metric_rows("cluster", stage, k, 1, {"accuracy": 0.5})
        files.round_finished(stage, 1, rows)

    tags = {}
    for stage in ("few", "many"):
      events = event_accumulator.EventAccumulator(self.folder.join(f"tensorboard/{stage}"))
      events.Reload()
      tags[stage] = events.Tags()["tensors"]
    self.assertLen(tags["few"], 101)
    self.assertEqual(tags["many"], ["clients_accuracy_mean"])
    with open(self.folder.join("metrics.csv"), encoding="utf-8") as file:
      self.assertLen(file.readlines(), 1 + 101 + 102)

  def test_how_the_number_of_clusters_was_chosen(self):
    choice = num_clusters.NumClustersChoice({"eigengap": (0.5, 0.25)}, "eigengap")
    weights = types.SimpleNamespace(save=lambda path: None)
    with run_files.RunFiles(self.folder, _CONFIG) as files:
      files.clients_grouped(weights, {})
      files.finish(_TASK, _result(), [])
      self.assertFalse(os.path.exists(self.folder.join("num_clusters.csv")))
      files.finish(_TASK, _result(choice), [])

    self.assertEqual(
        self._read("num_clusters.csv"),
        "criterion,num_clusters,score,chosen\neigengap,1,0.5,1\neigengap,2,0.25,0\n",
    )

  def test_last_assignments_replace_the_first_and_hold_no_control(self):
    first = cluster_assignment.ClusterAssignment((("a",), ("b",)))
    weights = types.SimpleNamespace(save=lambda path: None)
    with run_files.RunFiles(self.folder, _CONFIG) as files:
      files.clients_grouped(weights, {"moving": first})
      before = json.loads(self._read("assignments.json"))
      files.finish(_TASK, _result(), [])

    self.assertEqual(before["moving"]["clusters"], [["a"], ["b"]])
    self.assertEqual(json.loads(self._read("assignments.json")), {
        "moving": {"clusters": [["a", "b"], ["b", "x"]], "overlapping": True, "warning": None}
    })


if __name__ == "__main__":
  absltest.main()
