"""Tests the rows of a run's tables on an invented result; nothing is trained."""

import dataclasses
import os
from unittest import mock

from absl.testing import absltest
import numpy as np

from experiment_shell import launch
from experiments.three_phase import measure
from fl_clustering.methods import client_weights
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import stages
from tests.experiments.three_phase import sample_run

_CONFIG = config_lib.ThreePhaseConfig(num_clients=6, partition="iid", num_clusters=2)


class MeasureTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.task = sample_run.task(num_new=1)
    self.result = sample_run.result(self.task)

  def _clients(self, **values):
    rows = measure.client_rows(self.task, self.result)
    return [row for row in rows if all(row[name] == value for name, value in values.items())]

  def test_a_full_device_is_a_line_with_the_flag_that_helps(self):
    config = dataclasses.replace(_CONFIG, engine="jax")
    error = RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.")
    with mock.patch.object(measure.run_lib, "run", side_effect=error):
      with self.assertRaisesRegex(launch.RunFailed, "--clients_per_block"):
        measure.measure(config, self.task, self.create_tempdir().full_path)

  def test_every_model_of_a_client_has_its_metrics(self):
    methods = ("kmeans", "dynamic_distance", "fedavg", "finetuned", "local")
    accuracy = self._clients(metric="accuracy")

    self.assertEqual({(row["phase"], row["method"]) for row in accuracy}, {
        ("pretrain", "pretrain"), ("pretrain", "own_weights"), ("new_clients", "pretrain"),
        *((phase, name) for phase in ("cluster", "evaluate", "new_clients") for name in methods),
    })
    (row,) = self._clients(phase="cluster", method="kmeans", metric="accuracy", client="client_0")
    self.assertEqual(row["value"], 0.75)

  def test_a_client_in_several_clusters_has_a_row_for_each(self):
    found = self._clients(phase="cluster", method="dynamic_distance", metric="cluster")

    self.assertEqual(
        [(row["client"], row["value"]) for row in found[2:]],
        [("client_2", 0), ("client_3", 0), ("client_3", 1), ("client_4", 1), ("client_5", 1)],
    )
    self.assertLen(self._clients(phase="new_clients", metric="cluster", method="kmeans"), 1)

  def test_results_are_the_summary_s_numbers(self):
    tables = measure.tidy_rows(_CONFIG, self.task, self.result)
    found = {
        (row["method"], row["cluster"], row["metric"]): row["value"] for row in tables["results"]
    }

    self.assertEqual(found["", "", "num_test_examples_clients"], 120)
    self.assertAlmostEqual(found["kmeans", "", "gain_mean"], 0.2)
    self.assertEqual(found["pretrain", "", "global_accuracy"], 1)
    self.assertEqual(found["pretrain", "", "global_recall_class_2"], 1)
    self.assertEqual(found["kmeans", "", "cost_bytes_down"], 6_000_000)
    self.assertEqual(found["local", 5, "best_accuracy"], 0.6)
    self.assertAlmostEqual(found["kmeans", 1, "global_blended_accuracy"], 1 / 3)
    (warning,) = tables["warnings"]
    self.assertEqual((warning["method"], warning["value"]), ("dynamic_distance", 2))
    self.assertEmpty(tables["num_clusters"])

  def test_at_most_a_hundred_clients_in_the_matrix(self):
    vectors = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    weights = client_weights.ClientWeights(np.arange(200), vectors, np.zeros(3, np.float32))
    ids = [f"c{client}" for client in range(200)]

    found = list(measure.distance_rows(weights, ids, "weights"))

    self.assertLen(found, 100 * 99 // 2)
    self.assertEqual((found[98]["client"], found[98]["other"]), ("c0", "c199"))
    distance = np.linalg.norm(vectors[0] - vectors[199])
    self.assertAlmostEqual(found[98]["value"], distance, places=5)
    self.assertEmpty(list(measure.distance_rows(None, ids, "weights")))

  def test_the_rounds_and_the_weights_are_kept(self):
    folder = self.create_tempdir().full_path
    recorder = measure.Recorder(folder, self.task.client_ids)

    recorder.round_finished("kmeans", 1, stages.metric_rows("cluster", "kmeans", 0, 1, {"a": 0.5}))
    recorder.clients_grouped(self.result.client_weights, {})

    self.assertEqual(recorder.rows, [
        {"method": "kmeans", "cluster": 0, "round": 1, "metric": "a", "value": 0.5}
    ])
    self.assertEqual(os.listdir(folder), ["client_weights.npz"])


if __name__ == "__main__":
  absltest.main()
