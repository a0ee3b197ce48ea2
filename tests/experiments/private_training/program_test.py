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

from experiment_shell import launch
from experiments import private_clusters
from experiments.private_training import released
from experiments.private_training import report
from fl_clustering.engine import client_files
from fl_clustering.private_clusters import slot_sums
from fl_clustering.tasks import registry as task_registry
from fl_clustering.tables import schema as schema_lib
from tests.experiment_shell import damaged_files
from tests.experiment_shell import in_process

_FLAGS = (
    "--dataset=digits", "--num_clients=12", "--partition=permuted_labels", "--num_groups=2",
    "--image_size=7", "--examples_per_client=20", "--num_clusters=2", "--rounds=4",
    "--epsilon=500",
)


# All files of a run on real clients that stops in round 2; whether it is refused where they are
# damaged.
_FILES = {"config.json": True, "journal/releases.jsonl": True, "journal/answer_*": False}


def _run(*arguments):
  return in_process.run_main(private_clusters.PrivateClusters().main, *_FLAGS, *arguments)


def _interrupted_in(release):
  """Has a run stop before it asks for a release; None for a run that goes on to its end."""
  ask = slot_sums.Door.ask

  def interrupted(door, name, *arguments):
    if name == release:
      raise KeyboardInterrupt
    return ask(door, name, *arguments)

  return mock.patch.object(slot_sums.Door, "ask", interrupted)


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
        client_files, "write_examples", wraps=client_files.write_examples
    ) as write:
      cls.printed = _run(f"--output_dir={cls.folder}")
    cls.client_ids = tuple(write.call_args.args[0])

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
    data = json.loads(_read(self.folder, "config.json"))["dataset"]
    secrets = [self.base, data["fingerprint"], "fingerprint", "finetuned", "rand_index"]
    for row in simulated:
      secrets += [row["accuracy"], row["finetuned_accuracy"]]
    for secret in secrets:
      self.assertNotIn(secret, released)
    for client_id in self.client_ids:
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
    folder = self._interrupted("interrupted", "round 3")
    _run(f"--output_dir={folder}", "--resume")
    for name in ("summary.json", "ledger.csv", "config.json"):
      self.assertEqual(
          _read(folder, "released", name), _read(self.folder, "released", name), name
      )

  def _interrupted(self, name, release):
    """Returns the folder of a run that has asked for all that comes before a release."""
    folder = os.path.join(self.base, name)
    with _interrupted_in(release), self.assertRaises(KeyboardInterrupt):
      _run(f"--output_dir={folder}")
    return folder

  def test_seeded_noise_may_be_drawn_again(self):
    folder = self._interrupted("drawn_again", "round 2")
    _run(f"--output_dir={folder}", "--overwrite")
    self.assertEqual(
        _read(folder, "released", "summary.json"), _read(self.folder, "released", "summary.json")
    )

  @parameterized.parameters(
      ("--trust=none", "trust"), ("--learning_rate=0.3", "learning_rate"),
      ("--local_steps=2", "local_steps"), ("--rounds=5", "rounds"),
      ("--epsilon=400", "epsilon"), ("--delta=1e-6", "delta"), ("--seed=1", "seed"),
      ("--num_clusters=3", "num_clusters"),
  )
  def test_other_settings_are_refused_on_resume(self, flag, name):
    folder = self.create_tempdir().full_path
    shutil.copytree(self.folder, folder, dirs_exist_ok=True)
    before = _read(folder, "released", "ledger.csv")
    with mock.patch.object(slot_sums.Door, "ask") as ask:
      with self.assertRaisesRegex(launch.InputError, f"`{name}`"):
        _run(f"--output_dir={folder}", "--resume", flag)
    ask.assert_not_called()
    self.assertEqual(_read(folder, "released", "ledger.csv"), before)

  @parameterized.parameters(*(
      name for name, dataset in task_registry.DATASETS.items() if not dataset.reads_tables
  ))
  def test_a_private_run_of_data_without_a_schema_is_refused_before_they_are_read(self, name):
    with mock.patch.object(task_registry, "load_task") as load:
      with self.assertRaisesRegex(launch.InputError, "^`simulation`"):
        in_process.run_main(
            private_clusters.PrivateClusters().main, f"--dataset={name}", "--nosimulation",
            f"--data_dir={self.base}", f"--output_dir={os.path.join(self.base, 'refused')}",
        )
    load.assert_not_called()
    self.assertNotIn("refused", os.listdir(self.base))

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
    with mock.patch.object(released, "train") as train:
      with self.assertRaisesRegex(Exception, "`data_dir` must give the same data"):
        _run(f"--output_dir={folder}", "--resume")
    train.assert_not_called()

  @parameterized.parameters(
      (("--num_clusters=13",), "`num_clusters` must be at most the 12 clients"),
      (("--trust=none", "--min_clients=13"), "`min_clients` must be at most the 12 clients"),
      (("--epsilon=8,8",), "`epsilon` must be one number or several different ones"),
      (("--epsilon=0",), "`epsilon` must be a finite number > 0"),
      (("--delta=1",), "`delta` must be a number in"),
      (("--image_size=9",), "`image_size` must divide the sides of square images"),
      (("--dataset=files",), "`schema` must be given for `dataset` files, as no private row may "
       "decide how rows are read, got None; experiments:draft_schema drafts one from a public "),
      (("--label_column=y",), "Unknown command line flag 'label_column'"),
      (("--min_clients=3",), "`min_clients` must be left out with `trust`='server'"),
      (("--learning_rate=nan",), "`learning_rate` must be a finite number > 0"),
  )
  def test_refuses(self, arguments, message):
    with self.assertRaisesRegex(Exception, f"^{message}"):
      _run(f"--output_dir={os.path.join(self.base, 'refused')}", *arguments)


  @parameterized.named_parameters(
      ("too_small_to_be_drawn", "--epsilon=1e300"),
      ("too_small_to_be_shared", "--epsilon=1e50", "--trust=none"),
  )
  def test_noise(self, *flags):
    with self.assertRaisesRegex(launch.InputError, "^`epsilon` must be"):
      _run(f"--output_dir={self.create_tempdir().full_path}", *flags)


_SCHEMA = schema_lib.Schema(
    (
        schema_lib.Field("x", center=2.0, scale=2.0),
        schema_lib.Field("c", "string", enum=("u", "v")),
        schema_lib.Field("y", "string", enum=("0", "1")), schema_lib.Field("part", "string"),
    ),
    label="y", split="part",
)
_HEADER = "x,c,y,part\n"
_TABLES = {
    "clean.csv": "1,u,0,train\n3,v,1,train\n5,u,1,test\n",
    "one_label.csv": "0,u,0,train\n0,v,0,train\n1,v,0,test\n",
    "odd.csv": "nan,,0,train\ntall,w,1,train\n1e999,u,2,train\n1,u,1,test\n",
    "no_rows.csv": "",
    "no_test.csv": "1,u,0,train\n",
}
_OF_FILES = ("--dataset=files", "--num_clusters=2", "--rounds=2")


class OwnTablesTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = os.path.realpath(temporary.name)
    cls.data = cls._write_tables("data", _TABLES)
    cls.schema = os.path.join(cls.base, "schema.json")
    _SCHEMA.write(cls.schema)

  @classmethod
  def _write_tables(cls, name, tables):
    folder = os.path.join(cls.base, name)
    os.makedirs(folder, exist_ok=True)
    for table, rows in tables.items():
      with open(os.path.join(folder, table), "w", encoding="utf-8") as file:
        file.write(_HEADER + rows)
    return folder

  def _run(self, name, *arguments, data_dir=None):
    folder = os.path.join(self.base, name)
    printed = in_process.run_main(
        private_clusters.PrivateClusters().main, *_OF_FILES, f"--data_dir={data_dir or self.data}",
        f"--schema={self.schema}", f"--output_dir={folder}", *arguments,
    )
    return folder, printed

  def test_is_no_simulation(self):
    with self.assertLogs("absl", "WARNING") as logged:
      folder, printed = self._run("real", "--delta=0.3", "--epsilon=1")
    (warning,) = logged.output
    self.assertIn("`delta` should be well below one over the number of clients, 5, got", warning)
    self.assertStartsWith(
        printed, "data: 3 features and 2 classes (in the column y) of the clients' own tables; 5 "
        "clients, logistic with 8 parameters\nprivacy: epsilon 1 at delta 0.3. ",
    )
    self.assertEqual(
        sorted(os.listdir(folder)),
        ["config.json", "journal", "released", "report.html", "summary.json"],
    )
    summary = json.loads(_read(folder, "released/summary.json"))
    self.assertTrue(summary["privacy"]["is_private"])
    document = json.loads(_read(folder, "config.json"))
    self.assertEqual(document["dataset"], {
        "name": "files", "data_dir": self.data,
        "clients": ["clean", "no_rows", "no_test", "odd", "one_label"],
    })
    self.assertEqual(document["config"]["schema"], _SCHEMA.to_json())
    self.assertIsNone(document["config"]["num_clients"])
    released = "".join(
        _read(folder, "released", name)
        for name in ("config.json", "ledger.csv", "summary.json", "report.html")
    )
    for secret in ("one_label", self.base):
      self.assertNotIn(secret, released)

    with self.subTest("it_is_not_overwritten"):
      self._check_not_asked_again("real", "--delta=0.3", "--epsilon=1", "--overwrite")
    os.remove(os.path.join(folder, "report.html"))
    resume = ("real", "--delta=0.3", "--epsilon=1", "--resume")
    more = self._write_tables("more", {**_TABLES, "new.csv": ""})
    with self.assertRaisesRegex(
        launch.InputError, "^`data_dir` must give the same data .*, got other folder for 'files'"
    ):
      self._run(*resume, data_dir=more)
    self._write_tables("data", {"new.csv": ""})
    self.addCleanup(os.remove, os.path.join(self.data, "new.csv"))
    with self.assertRaisesRegex(
        launch.InputError, "^`data_dir` must give the same data .*, got other clients for 'files'"
    ):
      self._run(*resume)

  def test_a_damaged_file_is_named_or_its_answers_are_lost(self):
    whole, _ = self._run("whole")
    with _interrupted_in("round 2"), self.assertRaises(KeyboardInterrupt):
      self._run("damaged")
    interrupted = os.path.join(self.base, "damaged")
    self.assertEmpty(damaged_files.without_pattern(interrupted, _FILES))
    entered = _read(interrupted, "journal", "releases.jsonl")
    for _, pattern, damage, is_refused in damaged_files.parameters(_FILES):
      with self.subTest(pattern, damage=damage):
        folder = os.path.join(self.create_tempdir().full_path, "run")
        damaged_files.damaged_copy(interrupted, folder, pattern, damage)
        if is_refused:
          with self.assertRaisesRegex(launch.InputError, pattern):
            self._run(folder, "--resume")
          continue
        self._run(folder, "--resume")
        self.assertEqual(
            json.loads(_read(folder, "released", "summary.json"))["lost"],
            [json.loads(line)["name"] for line in entered.splitlines()],
        )
        # All of it is charged, and once.
        self.assertEqual(
            _read(folder, "journal", "releases.jsonl"), _read(whole, "journal", "releases.jsonl")
        )

  def _check_not_asked_again(self, name, *arguments):
    with mock.patch.object(slot_sums.Door, "ask") as ask:
      with self.assertRaisesRegex(launch.InputError, "^`output_dir` must .*stays charged"):
        self._run(name, *arguments)
    ask.assert_not_called()

  def test_what_secure_noise_has_released_is_not_asked_again(self):
    with _interrupted_in("round 2"), self.assertRaises(KeyboardInterrupt):
      self._run("charged", "--trust=none")
    folder = os.path.join(self.base, "charged")
    before = _read(folder, "journal", "releases.jsonl")
    self.assertIn("round 1", before)
    for arguments in (
        ("--trust=none", "--overwrite"), ("--overwrite",), ("--simulation", "--overwrite"),
        ("--epsilon=1", "--overwrite"),
    ):
      with self.subTest(arguments):
        self._check_not_asked_again("charged", *arguments)
    settings, kept = os.path.join(folder, "config.json"), os.path.join(self.base, "kept.json")
    os.rename(settings, kept)
    for how in ("--overwrite", "--resume"):
      with self.subTest("without_its_settings", how=how):
        self._check_not_asked_again("charged", "--trust=none", how)
    os.rename(kept, settings)
    self.assertEqual(_read(folder, "journal", "releases.jsonl"), before)
    self._run("charged", "--trust=none", "--resume")
    self.assertStartsWith(_read(folder, "journal", "releases.jsonl"), before)

  def test_a_simulation_where_it_is_asked_for(self):
    folder, _ = self._run("simulation", "--simulation")
    rows = list(csv.DictReader(_read(folder, "simulation/results.csv").splitlines()))
    self.assertLen(rows, 4)
    for row in rows:
      # The mean over the three clients with rows for training and testing, one of which each.
      num_right = 3 * float(row["accuracy"])
      self.assertAlmostEqual(num_right, round(num_right), places=5)
      self.assertEqual(row["adjusted_rand_index"], "")

  @parameterized.named_parameters(
      ("a schema for other data", ("--dataset=digits",),
       "`schema` must be left out with `dataset` digits, got one for tables with the column 'y'"),
      ("no schema", ("--schema=/no/file",),
       "`schema` must be a file that can be read, got '/no/file': No such file"),
      ("a broken schema", (f"--schema={__file__}",), "`schema` "),
      ("a number of clients", ("--num_clients=5",),
       "`num_clients` must be left out for `dataset` files, got 5"),
      ("a partition", ("--partition=iid",),
       "`partition` must be left out for files, one per client, got 'iid'"),
      ("a number of groups", ("--num_groups=2",),
       "`num_groups` must be left out for files, one per client, got 2"),
      ("a size of images", ("--image_size=7",), "`image_size` must be left out but with"),
      ("clusters", ("--num_clusters=6",), "`num_clusters` must be at most the 5 clients, got 6"),
      ("shares of noise", ("--trust=none", "--min_clients=6"),
       "`min_clients` must be at most the 5 clients, got 6"),
      ("budgets", ("--epsilon=4,8",), "`epsilon` must be one without `simulation`"),
      ("seeds", ("--num_seeds=2",), "`num_seeds` must be one without `simulation`"),
      ("no budget", ("--epsilon=inf",), "`epsilon` must be a finite number > 0, got inf"),
      ("a model of images", ("--model=cnn",), "`model` must be .*mlp.* for features of"),
      ("a folder", ("--data_dir=/no/folder",), "`data_dir` must be a folder .*/no/folder"),
  )
  def test_refuses(self, arguments, message):
    with self.assertRaisesRegex(launch.InputError, f"^{message}"):
      self._run("refused", *arguments)
    self.assertNotIn("refused", os.listdir(self.base))

  def test_needs_a_folder(self):
    with self.assertRaisesRegex(
        launch.InputError, "^`data_dir` must name the folder with the clients' files, got None"
    ):
      in_process.run_main(
          private_clusters.PrivateClusters().main, *_OF_FILES, f"--schema={self.schema}",
          f"--output_dir={os.path.join(self.base, 'refused')}",
      )

  def test_only_a_simulation_needs_rows(self):
    empty = self._write_tables("empty", {"a.csv": "", "b.csv": "1,u,0,train\n"})
    with self.assertRaisesRegex(
        launch.InputError, "^`data_dir` must hold a client with rows for training and for testing"
    ):
      self._run("refused", "--simulation", data_dir=empty)
    self._run("of no rows", "--epsilon=1", data_dir=empty)


if __name__ == "__main__":
  absltest.main()
