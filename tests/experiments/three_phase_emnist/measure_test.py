"""Tests the rows of a run's tables on an invented result; nothing is trained."""

import csv
import dataclasses
import io
import os
import types
from unittest import mock

from absl.testing import absltest
import numpy as np
import pandas as pd

from experiment_shell import launch
from experiments.three_phase_emnist import measure
from fl_clustering import saved_clusters
from fl_clustering.engine import divergence
from fl_clustering.methods import client_weights
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import held_out
from fl_clustering.tasks import registry as task_registry
from fl_clustering.three_phase import config as config_lib
from fl_clustering.three_phase import stages
from tests.experiments.three_phase_emnist import sample_run

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
        measure.measure(config, self.task, self.create_tempdir().full_path, None)

  def test_rows_are_of_the_clients_that_were_evaluated(self):
    chosen, first = np.array([1, 4]), self.result.pretrain
    some = dataclasses.replace(
        self.result, evaluated=chosen,
        pretrain=dataclasses.replace(
            first, clients=first.clients[chosen], own_weights=first.own_weights[chosen]
        ),
        methods={
            name: dataclasses.replace(
                one, clients=one.clients[chosen], clients_blended=one.clients_blended[chosen]
            )
            for name, one in self.result.methods.items()
        },
    )
    others = {f"client_{k}" for k in (0, 2, 3, 5)}
    everyone = self.result.evaluated
    for found, of_all in (
        (measure.client_rows(self.task, some), measure.client_rows(self.task, self.result)),
        (measure.example_rows(self.task, chosen), measure.example_rows(self.task, everyone)),
    ):
      self.assertEqual(list(found), [row for row in of_all if row["client"] not in others])

  def test_scores_are_of_the_numbers_of_clusters_from_one_on(self):
    result = sample_run.result(self.task, choice=sample_run.choice())
    found = measure.tidy_rows(_CONFIG, self.task, result)["num_clusters"]
    self.assertEqual(
        [(row["num_clusters"], row["chosen"], row["value"]) for row in found],
        [(1, 0, 0.2), (2, 1, 0.5), (3, 0, 0.1)],
    )

  def test_a_client_in_several_clusters_has_a_row_for_each(self):
    found = self._clients(phase="cluster", method="dynamic_distance", metric="cluster")

    self.assertEqual(
        [(row["client"], row["value"]) for row in found[2:]],
        [("client_2", 0), ("client_3", 0), ("client_3", 1), ("client_4", 1), ("client_5", 1)],
    )
    self.assertLen(self._clients(phase="new_clients", metric="cluster", method="kmeans"), 1)

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
    # Of clients 0 and 2, as above.
    one, other = (vectors[client] / np.linalg.norm(vectors[client]) for client in (0, 2))
    found = next(measure.distance_rows(weights, ids, "normalized_update"))
    self.assertAlmostEqual(found["value"], np.linalg.norm(one - other), places=5)

  def test_distances_are_of_what_is_grouped(self):
    # Beside sketches, another method may have grouped weights.
    beside = config_lib.ThreePhaseConfig(
        num_clients=4, methods=("kmeans", "cfl"), num_clusters=2, representation="sketch"
    )
    for config, used in (
        *((dataclasses.replace(_CONFIG, representation=one), one)
          for one in ("weights", "normalized_update")),
        (beside, "weights"),
    ):
      found = measure.tidy_rows(config, self.task, self.result)["distances"]
      self.assertEqual(list(found), list(measure.distance_rows(
          self.result.client_weights, self.task.client_ids, used
      )))

  def test_the_rounds_and_the_weights_are_kept(self):
    folder = self.create_tempdir().full_path
    recorder = measure.Recorder(folder, self.task.client_ids, 5)

    recorder.round_finished("kmeans", 1, stages.metric_rows("kmeans", 0, 1, {"a": 0.5}))
    recorder.clients_grouped(self.result.client_weights, {})

    self.assertEqual(list(recorder.rows(self.result)), [
        {"method": "kmeans", "cluster": 0, "round": 1, "metric": "a", "value": 0.5}
    ])
    self.assertCountEqual(os.listdir(folder), ["client_weights.npz", "curves.csv"])
    self.assertEqual(
        pd.read_csv(f"{folder}/curves.csv", keep_default_na=False).to_dict("records"),
        [{"seed": 5, "method": "kmeans", "cluster": 0, "round": 1, "metric": "a", "value": 0.5}],
    )


_CLUSTERS = {"a": (0,), "b": (1,), "c": (0, 1), "d": (1,)}


def _frames():
  """Returns clients' tables; the last two rows of each are for testing."""
  rng = np.random.default_rng(0)
  return {
      client_id: pd.DataFrame({
          # Where b has zeros, float32 has none.
          "dose": np.zeros(24) if client_id in "bd" else rng.normal(230, 80, 24).round(1),
          "year": rng.integers(1990, 2020, 24),
          "same": np.full(24, 7),
          "ward": rng.choice(["north", "south"], 24),
          "sick": rng.choice(["yes", "no"], 24),
          "part": ["train"] * 22 + ["test"] * 2,
      })
      for client_id in _CLUSTERS
  }


class ProfilesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    folder = self.create_tempdir()
    self.frames = _frames()
    for client_id, frame in self.frames.items():
      folder.create_file(f"{client_id}.csv", frame.to_csv(index=False))
    task = task_registry.load_task(task_registry.TaskOptions(
        dataset="files", model="logistic",
        schema=schema_lib.Schema(
            (
                *map(schema_lib.Field, ("dose", "year", "same")),
                schema_lib.Field("ward", "string", enum=("north", "south")),
                schema_lib.Field("sick", "string"), schema_lib.Field("part", "string"),
            ), label="sick", split="part",
        ),
    ), folder.full_path, held_out.HeldOut(validation_share=0.5))
    # What comes later has no part in the profiles.
    clients = task.clients
    self.task = dataclasses.replace(task, clients=clients[:-1], new_clients=clients[-1:])
    self.saved = saved_clusters.SavedClusters(
        "kmeans", np.zeros((2, task.num_parameters), np.float32), _CLUSTERS, task.tables,
        {"name": "logistic"},
    )
    text = self._text(self.saved)
    self.rows = list(csv.DictReader(io.StringIO(text)))

  def _text(self, saved):
    profiles = measure.scaled_profiles(self.task, saved)
    return measure.profiles_text(self.task.tables, profiles)

  def test_moments_are_those_of_the_training_rows_in_the_data_s_units(self):
    for cluster, members in enumerate(("ac", "bc")):
      rows = pd.concat([self.frames[client_id][:22] for client_id in members])
      found = {row["feature"]: row for row in self.rows if row["cluster"] == str(cluster)}
      self.assertCountEqual(found, ["dose", "year", "same", "ward=north", "ward=south"])
      for name, values in (
          ("dose", rows["dose"]), ("year", rows["year"]), ("same", rows["same"]),
          ("ward=north", rows["ward"] == "north"),
      ):
        self.assertEqual(found[name]["num_rows"], "44")
        self.assertAlmostEqual(float(found[name]["mean"]), values.mean(), delta=1e-3)
        self.assertAlmostEqual(
            float(found[name]["standard_deviation"]), values.std(ddof=0), delta=1e-3
        )

  def test_zeros_and_constants_are_exact(self):
    only = dataclasses.replace(self.saved, clusters={**_CLUSTERS, "c": (0,)})
    text = self._text(only)
    found = {(row["cluster"], row["feature"]): row for row in csv.DictReader(io.StringIO(text))}
    for place, mean in ((("1", "dose"), "0"), (("0", "same"), "7"), (("1", "same"), "7")):
      self.assertEqual((found[place]["mean"], found[place]["standard_deviation"]), (mean, "0"))


_GROUPS = np.array([0, 1, 0, 1])


def _weights(spread):
  """Returns weights whose groups are on different sides by `spread`."""
  vectors = [[10 + i, spread * (1 if group else -1)] for i, group in enumerate(_GROUPS)]
  return client_weights.ClientWeights(
      np.arange(4), np.array(vectors, np.float32), np.array([10, 0], np.float32)
  )


def _rows(groupings, true_groups=_GROUPS, chosen=None, diverging=(), **settings):
  """Returns the rows, and the epochs for which clients would have been trained."""
  config = config_lib.ThreePhaseConfig(
      num_clients=4, num_clusters=2, methods=groupings, **settings
  )
  trained = []

  def local_weights(epochs):
    if epochs in diverging:
      raise divergence.TrainingDiverged("a client")
    trained.append(epochs)
    return _weights(100 * epochs)

  result = types.SimpleNamespace(
      client_weights=_weights(0.01), local_weights=local_weights, num_clusters_choice=chosen
  )
  task = types.SimpleNamespace(true_groups=true_groups)
  return measure.recovery_rows(config, task, result), trained


class GroupRecoveryTest(absltest.TestCase):

  def test_tries_every_representation_and_number_of_epochs(self):
    rows, trained = _rows(("kmeans", "hierarchical"), representation="update")
    self.assertEqual(trained, [1, 5])
    self.assertEqual(
        [(row["method"], row["epochs"], row["representation"]) for row in rows[::2]],
        [
            (grouping, epochs, representation)
            for grouping in ("kmeans", "hierarchical")
            for epochs in ("last round", 1, 5)
            for representation in ("weights", "update", "normalized_update")
        ],
    )
    used = [row for row in rows if row["used"]]
    self.assertEqual(
        {(row["epochs"], row["representation"]) for row in used},
        {("last round", "update")},
    )
    self.assertLen(used, 4)
    # Training tells the groups apart here, the last round does not.
    for row in rows:
      if row["epochs"] != "last round":
        self.assertEqual(row["value"], 1)
    self.assertEqual(rows[0]["metric"], "ari")
    self.assertLess(rows[0]["value"], 1)

  def test_more_epochs_that_diverge_end_nothing(self):
    rows, trained = _rows(("kmeans",), diverging=(5,))
    self.assertEqual(trained, [1])
    self.assertEqual({row["epochs"] for row in rows}, {"last round", 1})

  def test_groups_into_as_many_clusters_as_the_run_chose(self):
    for number, recovered in ((2, 1.0), (1, 0.0)):
      rows, _ = _rows(("kmeans",), chosen=types.SimpleNamespace(num_clusters=number))
      found = [row["value"] for row in rows if (row["epochs"], row["metric"]) == (
          5, "ari")]
      self.assertEqual(found, 3 * [recovered])

  def test_every_setting_draws_by_the_seed(self):
    with mock.patch.object(
        measure.randomness, "generator", wraps=measure.randomness.generator
    ) as drawn:
      _rows(("kmeans",), seed=3)
    self.assertEqual(drawn.call_args_list, 9 * [mock.call(3, "grouping")])

  def test_nothing_to_recover(self):
    self.assertEqual(_rows(("kmeans",), true_groups=None), ([], []))
