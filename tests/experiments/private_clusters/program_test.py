"""Runs the program of private clusters as a user does; its files are read."""

import dataclasses
import glob
import json
import os
import shutil
import tempfile
from unittest import mock

from absl import logging
from absl.testing import parameterized
import numpy as np

from dp_clustering import noise
from experiment_shell import launch
from experiment_shell import tidy_report
from experiments.private_clusters import __main__ as private_clusters
from experiments.private_clusters import data
from experiments.private_clusters import release
from experiments.private_clusters import simulation
from fl_clustering import runtime
from fl_clustering.engine import engines
from fl_clustering.private_clusters import clients as clients_lib
from fl_clustering.private_clusters import slot_sums
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import registry as task_registry
from tests import nightly
from tests.experiment_shell import damaged_files
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder
from tests.experiments.private_clusters import shared_worker

# By day, `engine/tff/private_clusters_test` has whole runs of TFF.
_ENGINE = nightly.either(("--engine=jax",), ())
_SIMULATION = (
    "--dataset=digits", "--num_clients=12", "--partition=permuted_labels", "--num_groups=2",
    "--image_size=7", "--examples_per_client=20", "--num_clusters=2", "--rounds=2",
    "--epsilon=500", *_ENGINE,
)
_SCHEMA = schema_lib.Schema(
    (
        schema_lib.Field("x", center=2.0, scale=2.0),
        schema_lib.Field("c", "string", enum=("u", "v")),
        schema_lib.Field("y", "string", enum=("0", "1")), schema_lib.Field("part", "string"),
    ),
    label="y", split="part",
)
_TABLES = {
    "clean.csv": "1,u,0,train\n3,v,1,train\n5,u,1,test\n",
    "one_label.csv": "0,u,0,train\n0,v,0,train\n1,v,0,test\n",
    "odd.csv": "nan,,0,train\ntall,w,1,train\n1e999,u,2,train\n1,u,1,test\n",
    "no_rows.csv": "",
    "no_test.csv": "1,u,0,train\n",
}
# All files of a run on real clients that stops in round 2; whether it is refused where they are
# damaged.
_FILES = {"config.json": True, "journal/releases.jsonl": True, "journal/answer_*": False}


setUpModule = shared_worker.use


def _interrupted_in(release):
  """Has a run stop before it asks for a release."""
  ask = slot_sums.Door.ask

  def interrupted(door, name, *arguments, **parallel):
    if name == release:
      raise KeyboardInterrupt
    return ask(door, name, *arguments, **parallel)

  return mock.patch.object(slot_sums.Door, "ask", interrupted)


class _ProgramTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.base = os.path.realpath(cls.enterClassContext(tempfile.TemporaryDirectory()))
    cls.flags = _SIMULATION

  @classmethod
  def _run(cls, name, *arguments):
    """Runs the program; returns the path of the output folder, and what is printed."""
    folder = os.path.join(cls.base, name)
    flags = in_process.overriding(cls.flags, f"--output_dir={folder}", *arguments)
    return folder, in_process.run_main(private_clusters.main, *flags)

  def _check_refused(self, message, name, *arguments):
    """Checks that nobody is asked anything, and that what is there stays as it is."""
    before = run_folder.files(os.path.join(self.base, name))
    with (
        mock.patch.object(slot_sums.Door, "ask") as ask,
        self.assertRaisesRegex(launch.InputError, message),
    ):
      self._run(name, *arguments)
    ask.assert_not_called()
    self.assertEqual(run_folder.files(os.path.join(self.base, name)), before)

  def _check_engines(self):
    """Checks that clients are of the engine that is asked for."""
    for engine in filter(engines.is_installed, engines.ENGINES):
      with (
          mock.patch.object(clients_lib, "opened", side_effect=KeyboardInterrupt) as opened,
          self.assertRaises(KeyboardInterrupt),
      ):
        self._run(f"of_{engine}", f"--engine={engine}")
      self.assertEqual(opened.call_args.args[0], engine)


class SimulationTest(_ProgramTest):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.folder, cls.printed = cls._run("run")

  def test_leaves_nothing_that_is_called_released_and_prints_the_planning_number(self):
    self.assertCountEqual(os.listdir(self.folder), [
        "clusters.csv", "config.json", "figures", "report.html", "results.csv", "rounds.csv",
        "summary.json", "tables",
    ])
    self.assertIn("NOT private", run_folder.read(self.folder, "report.html"))
    self.assertIn("privacy: epsilon 500 at delta 1e-05. The noise is 0.", self.printed)
    self.assertRegex(self.printed, r"IFCA, no privacy +– +– +0\.\d+ +0\.\d+ +\d\.\d+\n")

  def test_clients_are_of_the_engine_that_is_asked_for(self):
    self._check_engines()

  def test_a_model_that_the_engine_can_not_compute_is_refused(self):
    load = data.load

    def of_keras(*arguments):
      clients = load(*arguments)
      model = dataclasses.replace(clients.model, layers=(), jax_logits=None)
      return dataclasses.replace(clients, model=model)

    with mock.patch.object(data, "load", of_keras):
      self._check_refused("^`engine` must be tff", "keras", "--engine=jax")

  def test_data_of_a_later_seed_that_can_not_be_used_fail_its_cell(self):
    run = mock.Mock(data=mock.Mock(side_effect=ValueError("`num_clients` must be smaller")))
    with self.assertRaises(simulation.EXPERIMENT.failures):
      simulation.EXPERIMENT.measure(run, method="fedavg", epsilon=1.0, seed=2)

  def test_clients_gain_from_training_alone_where_one_model_can_not_fit_all(self):
    scores = {
        row["metric"]: float(row["value"]) for row in run_folder.rows(self.folder, "results.csv")
        if row["method"] == "fedavg"
    }
    self.assertGreater(scores["finetuned_accuracy"], scores["accuracy"])

  @nightly.only  # By day, a run on tables is resumed.
  def test_a_killed_run_gives_the_same_files(self):
    with _interrupted_in("round 2"), self.assertRaises(KeyboardInterrupt):
      self._run("killed")
    folder, _ = self._run("killed", "--resume")
    self.assertEqual(run_folder.files(folder), run_folder.files(self.folder))
    self.assertIn(runtime.WorkerLost, simulation.EXPERIMENT.failures)

  @parameterized.parameters(
      ("num_clusters", "--num_clusters=13"), ("min_clients", "--trust=none", "--min_clients=13"),
      ("epsilon", "--epsilon=8,8"), ("epsilon", "--epsilon=0"), ("delta", "--delta=1"),
      ("image_size", "--image_size=9"), ("schema", "--dataset=files"),
      ("min_clients", "--min_clients=3"), ("learning_rate", "--learning_rate=nan"),
      ("epsilon", "--epsilon=1e300"),  # Its noise would be too small to be drawn.
      ("clients_per_round", "--clients_per_round=0"),
      ("clients_per_round", "--clients_per_round=13"),
      ("rounds", "--clients_per_round=6", "--rounds=3"),
      ("min_clients", "--trust=none", "--clients_per_round=6", "--min_clients=7"),
      ("evaluated_clients", "--evaluated_clients=0"),
      ("evaluated_clients", "--evaluated_clients=13"),
  )
  def test_refuses(self, name, *arguments):
    self._check_refused(f"[`']{name}[`']", "refused", *arguments)

  @parameterized.parameters(*(
      name for name, dataset in task_registry.DATASETS.items() if not dataset.reads_tables
  ))
  def test_a_private_run_of_data_without_a_schema_is_refused_before_they_are_read(self, name):
    with mock.patch.object(task_registry, "load_task") as load:
      with self.assertRaisesRegex(launch.InputError, "^`simulation`"):
        in_process.run_main(
            private_clusters.main, f"--dataset={name}", "--nosimulation",
            f"--data_dir={self.base}", f"--output_dir={os.path.join(self.base, 'refused')}",
        )
    load.assert_not_called()
    self.assertNotIn("refused", os.listdir(self.base))


class _TablesTest(_ProgramTest):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    data, schema = cls._write_tables("data", _TABLES), os.path.join(cls.base, "schema.json")
    _SCHEMA.write(schema)
    cls.flags = (
        "--dataset=files", "--num_clusters=2", "--rounds=2", "--delta=0.3", "--epsilon=1", data,
        f"--schema={schema}", *_ENGINE,
    )

  @classmethod
  def _write_tables(cls, name, tables):
    """Writes tables; returns the flag that names their folder."""
    folder = os.path.join(cls.base, name)
    os.makedirs(folder, exist_ok=True)
    for table, rows in tables.items():
      with open(os.path.join(folder, table), "w", encoding="utf-8") as file:
        file.write("x,c,y,part\n" + rows)
    return f"--data_dir={folder}"

  def _spent(self, folder):
    """Returns what single releases cost, the total, and the budget, of what a run released."""
    *spent, (last, total) = (
        (row["release"], float(row["value"]))
        for row in run_folder.rows(folder, "ledger.csv") if row["metric"] == "mu"
    )
    self.assertEqual(last, "all together")
    results = {
        row["metric"]: float(row["value"]) for row in run_folder.rows(folder, "results.csv")
    }
    return dict(spent), total, results["mu"], results["own_rounds"]


class SomeClientsTest(_TablesTest):
  """Rounds over some of the clients, in JAX."""

  _FLAGS = ("--engine=jax", "--clients_per_round=3", "--rounds=4")

  def test_each_client_pays_for_its_own_rounds_and_the_run_goes_on_after_an_interruption(self):
    with _interrupted_in("round 2"), self.assertRaises(KeyboardInterrupt):
      self._run("some", *self._FLAGS)
    folder = os.path.join(self.base, "some")
    before = run_folder.read(folder, "journal/releases.jsonl")
    self._check_refused("`clients_per_round`", "some", *self._FLAGS[:1], "--rounds=4", "--resume")
    self._run("some", *self._FLAGS, "--resume")
    self.assertStartsWith(run_folder.read(folder, "journal/releases.jsonl"), before)
    spent, total, budget, own_rounds = self._spent(os.path.join(folder, "released"))
    self.assertEqual(own_rounds, 2)
    self.assertAlmostEqual(total / budget, 1, places=6)
    # Of two rounds of a pass, each client pays for one.
    self.assertLen({name for name in spent if name.startswith("round ")}, 4)
    charged = [mu for name, mu in spent.items() if name not in ("round 2", "round 4")]
    self.assertAlmostEqual(np.linalg.norm(charged) / total, 1, places=6)
    released = run_folder.files(os.path.join(folder, "released"))
    shutil.rmtree(os.path.join(folder, "released"))
    os.remove(os.path.join(folder, "report.html"))
    self._run("some", *self._FLAGS, "--resume")
    self.assertEqual(run_folder.files(os.path.join(folder, "released")), released)

  def test_a_simulation_evaluates_some(self):
    folder, _ = self._run(
        "evaluated", *self._FLAGS, "--simulation", "--evaluated_clients=1", "--num_clusters=1"
    )
    accuracies = [
        float(row["value"]) for row in run_folder.rows(folder, "results.csv")
        if row["metric"] == "accuracy"
    ]
    self.assertContainsSubset(accuracies, (0.0, 1.0))  # Each has one row for testing.


class OwnTablesTest(_TablesTest):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    with mock.patch.object(logging, "warning") as warned:
      cls.folder, cls.printed = cls._run("real")
    cls.warned = warned.call_args_list

  def test_clients_are_of_the_engine_that_is_asked_for(self):
    self._check_engines()

  def test_is_no_simulation(self):
    (warning,) = self.warned
    self.assertIn("`delta`", warning.args[1])
    self.assertStartsWith(self.printed, "data: 3 features and 2 classes (in the column y)")
    self.assertIn("\nprivacy: epsilon 1 at delta 0.3. ", self.printed)
    self.assertCountEqual(
        os.listdir(self.folder),
        [
            "budget.csv", "clusters.csv", "config.json", "figures", "journal", "ledger.csv",
            "released", "report.html", "results.csv", "rounds.csv", "summary.json", "tables",
        ],
    )
    document = json.loads(run_folder.read(self.folder, "config.json"))
    self.assertEqual(document["inputs"], {
        "dataset": {
            "name": "files", "data_dir": os.path.join(self.base, "data"),
            "clients": ["clean", "no_rows", "no_test", "odd", "one_label"],
        },
        "model": {"name": "logistic", "num_parameters": 8},
    })
    self.assertEqual(document["config"]["schema"], _SCHEMA.to_json())
    self.assertIsNone(document["config"]["num_clients"])

  def test_what_was_warned_of_is_on_both_pages(self):
    for name in ("report.html", "released/report.html"):
      page = run_folder.read(self.folder, name)
      self.assertIn("`delta`", page[: page.index("<main>")])
      self.assertIn("too much to learn clusters", page[: page.index("<main>")])

  def test_what_is_released_can_be_published(self):
    folder = os.path.join(self.folder, "released")
    self.assertCountEqual(os.listdir(folder), [
        "budget.csv", "clusters.csv", "config.json", "figures", "ledger.csv", "models.npz",
        "report.html", "results.csv", "rounds.csv", "summary.json", "tables",
    ])
    for name, content in run_folder.files(folder).items():
      for secret in ("one_label", self.base):
        self.assertNotIn(secret.encode(), content, name)
    with np.load(os.path.join(folder, "models.npz")) as models:
      shapes = {name: models[name].shape for name in models}
    self.assertEqual(shapes, {"dense_1/kernel": (2, 3, 2), "dense_1/bias": (2, 2)})
    spent, total, budget, own_rounds = self._spent(folder)
    self.assertEqual(own_rounds, 2)
    self.assertAlmostEqual(np.linalg.norm(list(spent.values())) / budget, 1, places=6)
    self.assertAlmostEqual(total / budget, 1, places=6)
    shares = [float(row["value"]) for row in run_folder.rows(folder, "budget.csv")]
    self.assertAlmostEqual(sum(shares), 1, places=6)

  def _copy(self, name):
    """Returns a copy of the run."""
    return shutil.copytree(self.folder, os.path.join(self.base, name))

  def _lost(self, folder):
    """Returns the names of the releases that a run states as lost."""
    return [
        row["release"] for row in run_folder.rows(folder, "released/ledger.csv")
        if (row["metric"], float(row["value"])) == ("answered", 0.0)
    ]

  def test_what_is_drawn_again_from_the_answers_is_the_same_to_the_byte(self):
    folder = self._copy("again")
    for name in os.listdir(folder):
      path = os.path.join(folder, name)
      if os.path.isfile(path) and name != "config.json":
        os.remove(path)
      elif name not in ("config.json", "journal"):
        shutil.rmtree(path)
    self._run("again", "--resume")
    self.assertEqual(run_folder.files(folder), run_folder.files(self.folder))

  def test_nothing_is_released_with_noise_that_is_not_secure(self):
    with mock.patch.object(noise, "build_noise_source", lambda *_: noise.SeededNoise(0)):
      with mock.patch.object(slot_sums.Door, "ask") as ask:
        with self.assertRaisesRegex(launch.InputError, "`epsilon`"):
          self._run("seeded")
    ask.assert_not_called()
    self.assertNotIn("released", os.listdir(os.path.join(self.base, "seeded")))

  def test_a_lost_worker_is_told_and_the_run_goes_on_later(self):
    with mock.patch.object(release, "train", side_effect=runtime.WorkerLost("gone")):
      with self.assertRaisesRegex(launch.RunFailed, "gone.*--resume"):
        self._run("lost")
    folder, _ = self._run("lost", "--resume")
    self.assertIn("report.html", os.listdir(os.path.join(folder, "released")))

  def test_a_run_killed_while_it_publishes_asks_nothing_again(self):
    with mock.patch.object(tidy_report, "report", side_effect=KeyboardInterrupt):
      with self.assertRaises(KeyboardInterrupt):
        self._run("publishing")
    folder = os.path.join(self.base, "publishing")
    before = run_folder.files(os.path.join(folder, "released"))
    with mock.patch.object(slot_sums.Door, "ask") as ask:
      self._run("publishing", "--resume")
    ask.assert_not_called()
    after = run_folder.files(os.path.join(folder, "released"))
    self.assertEqual(before, {name: after[name] for name in before})
    self.assertCountEqual(after, run_folder.files(os.path.join(self.folder, "released")))

  def test_a_finished_run_is_neither_overwritten_nor_asked_again(self):
    self._check_refused("`output_dir` .*stays charged", "real", "--overwrite")
    before = run_folder.files(self.folder)
    with mock.patch.object(slot_sums.Door, "ask") as ask:
      _, again = self._run("real", "--resume")
    ask.assert_not_called()
    self.assertEqual(again.splitlines()[1:], self.printed.splitlines()[4:])
    self.assertEqual(run_folder.files(self.folder), before)

  @parameterized.parameters(
      ("config.json",), ("config.json", "report.html"), ("report.html", "journal"),
      ("report.html", "journal/releases.jsonl"), ("config.json", "journal", "released"),
      ("report.html", "summary.json", "journal", "released"),
      ("report.html", "summary.json", "released", "config.json"),
  )
  def test_whatever_is_lost_of_a_run_nothing_is_asked_again(self, *lost):
    folder = os.path.join(self.create_tempdir().full_path, "run")
    shutil.copytree(self.folder, folder)
    for path in (os.path.join(folder, name) for name in lost):
      (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
    for how in ("--overwrite", "--resume"):
      self._check_refused("stays charged", folder, how)

  def test_a_run_that_has_published_asks_nothing_though_its_journal_has_an_end_before(self):
    folder = os.path.join(self.create_tempdir().full_path, "run")
    shutil.copytree(self.folder, folder)
    for path in glob.glob(os.path.join(folder, "journal", "answer_*")):
      os.remove(path)
    os.remove(os.path.join(folder, "report.html"))
    with open(os.path.join(folder, "journal", "releases.jsonl"), "rb+") as file:
      file.readline()
      file.truncate(file.tell())
    with self.assertRaisesRegex(launch.InputError, "stays charged"):
      self._run(folder, "--resume")
    self.assertEqual(os.listdir(os.path.join(folder, "journal")), ["releases.jsonl"])

  def test_it_is_not_resumed_with_other_clients(self):
    os.remove(os.path.join(self._copy("unfinished"), "report.html"))
    more = self._write_tables("more", {**_TABLES, "new.csv": ""})
    self._check_refused("`output_dir` .* data_dir", "unfinished", "--resume", more)
    self._write_tables("data", {"new.csv": ""})
    self.addCleanup(os.remove, os.path.join(self.base, "data", "new.csv"))
    self._check_refused("`output_dir` .* clients", "unfinished", "--resume")

  def test_a_damaged_file_is_named_or_its_answers_are_lost(self):
    with _interrupted_in("round 2"), self.assertRaises(KeyboardInterrupt):
      self._run("damaged")
    interrupted = os.path.join(self.base, "damaged")
    # Of the only cell, nothing is measured yet.
    self.assertEqual(damaged_files.without_pattern(interrupted, _FILES), ["cells.jsonl"])
    self.assertEmpty(run_folder.read(interrupted, "cells.jsonl"))
    entered = run_folder.read(interrupted, "journal/releases.jsonl")
    for _, pattern, damage, is_refused in damaged_files.parameters(_FILES):
      with self.subTest(pattern, damage=damage):
        folder = os.path.join(self.create_tempdir().full_path, "run")
        damaged_files.damaged_copy(interrupted, folder, pattern, damage)
        if is_refused:
          self._check_refused(pattern, folder, "--resume")
          continue
        self._run(folder, "--resume")
        self.assertEqual(
            self._lost(folder), [json.loads(line)["name"] for line in entered.splitlines()]
        )
        # All of it is charged, and once.
        journals = [run_folder.read(one, "journal/releases.jsonl") for one in (folder, self.folder)]
        self.assertEqual(*journals)

  def test_a_lost_report_is_charged_and_told(self):
    folder = self._copy("reported")
    os.remove(os.path.join(folder, "report.html"))
    *_, last = sorted(os.listdir(os.path.join(folder, "journal")))[:-1]
    os.remove(os.path.join(folder, "journal", last))
    self._run("reported", "--resume")
    self.assertEqual(self._lost(folder), ["report"])
    self.assertIn("Answers were lost", run_folder.read(folder, "released/summary.json"))

  def test_what_secure_noise_has_released_is_not_asked_again(self):
    with _interrupted_in("round 2"), self.assertRaises(KeyboardInterrupt):
      self._run("charged", "--trust=none")
    folder = os.path.join(self.base, "charged")
    before = run_folder.read(folder, "journal/releases.jsonl")
    self.assertIn("round 1", before)
    stays = "`output_dir` .*stays charged"
    for arguments in (
        ("--trust=none", "--overwrite"), ("--overwrite",), ("--epsilon=2", "--overwrite"),
    ):
      self._check_refused(stays, "charged", *arguments)
    simulations = [("--simulation", "--trust=none", how) for how in ("--overwrite", "--resume")]
    for arguments in simulations:
      self._check_refused("`output_dir` .* with one of private_clusters", "charged", *arguments)
    settings, kept = os.path.join(folder, "config.json"), os.path.join(self.base, "kept.json")
    os.rename(settings, kept)
    for how in ("--overwrite", "--resume"):
      self._check_refused(stays, "charged", "--trust=none", how)
    for arguments in simulations:
      self._check_refused("`output_dir`", "charged", *arguments)
    os.rename(kept, settings)
    journal, elsewhere = (os.path.join(one, "journal") for one in (folder, self.base))
    os.rename(journal, elsewhere)
    self._check_refused(stays, "charged", "--trust=none", "--resume")
    os.rename(elsewhere, journal)
    self._run("charged", "--trust=none", "--resume")
    self.assertStartsWith(run_folder.read(folder, "journal/releases.jsonl"), before)

  @parameterized.parameters(
      ("schema", "--dataset=digits"), ("schema", f"--schema={__file__}"),
      ("num_clients", "--num_clients=5"), ("partition", "--partition=iid"),
      ("image_size", "--image_size=7"), ("num_clusters", "--num_clusters=6"),
      ("min_clients", "--trust=none", "--min_clients=6"), ("epsilon", "--epsilon=4,8"),
      ("num_seeds", "--num_seeds=2"), ("epsilon", "--epsilon=inf"),
      ("evaluated_clients", "--evaluated_clients=2"),
      ("clients_per_round", "--clients_per_round=6"),
      ("rounds", "--clients_per_round=3", "--rounds=3"),
      ("data_dir", "--data_dir=/no/folder"),
  )
  def test_refuses(self, name, *arguments):
    self._check_refused(f"^`{name}`", "refused", *arguments)
    self.assertNotIn("refused", os.listdir(self.base))

  def test_only_a_simulation_needs_rows(self):
    empty = self._write_tables("empty", {"a.csv": "", "b.csv": "1,u,0,train\n"})
    self._check_refused("^`data_dir`", "refused", "--simulation", empty)
    self._run("of no rows", empty)
