"""Runs the program of private clusters as a user does; its files are read."""

import csv
import json
import os
import pathlib
import shutil
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import launch
from experiments import private_clusters
from experiments import report
from experiments.private_training import released
from fl_clustering import runtime
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
  return in_process.run_main(private_clusters.main, *_FLAGS, *arguments)


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


def _bytes(folder):
  return {path.relative_to(folder): path.read_bytes() for path in pathlib.Path(folder).rglob("*.*")}


class SimulationTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = os.path.realpath(temporary.name)
    cls.folder = os.path.join(cls.base, "run")
    cls.printed = _run(f"--output_dir={cls.folder}")

  def test_writes_nothing_that_is_called_released(self):
    self.assertCountEqual(os.listdir(self.folder), [
        "clusters.csv", "config.json", "figures", "report.html", "results.csv", "rounds.csv",
        "summary.json", "tables",
    ])
    self.assertIn("NOT private", _read(self.folder, "report.html"))

  def test_prints_the_planning_number_first_and_the_methods_last(self):
    self.assertIn("privacy: epsilon 500 at delta 1e-05. The noise is 0.", self.printed)
    self.assertRegex(self.printed, r"IFCA, no privacy +– +– +0\.\d+ +0\.\d+ +\d\.\d+\n")

  def test_a_killed_run_gives_the_same_files(self):
    folder = os.path.join(self.base, "killed")
    with _interrupted_in("round 3"), self.assertRaises(KeyboardInterrupt):
      _run(f"--output_dir={folder}")
    _run(f"--output_dir={folder}", "--resume")
    self.assertEqual(_bytes(folder), _bytes(self.folder))

    with self.subTest("a lost worker fails a cell"):
      train = released.train

      def lost(settings, *arguments):
        if settings.num_clusters == 1 and settings.is_private:
          raise runtime.WorkerLost("it is gone")
        return train(settings, *arguments)

      with (
          mock.patch.object(released, "train", lost),
          self.assertRaisesRegex(launch.RunFailed, "some cells failed"),
      ):
        _run(f"--output_dir={folder}", "--overwrite")
      self.assertIn("dp_fedavg,500.0,0,it is gone", _read(folder, "failures.csv"))
      _run(f"--output_dir={folder}", "--resume")
      self.assertEqual(_bytes(folder), _bytes(self.folder))

  @parameterized.parameters(
      ("--trust=none", "trust"), ("--learning_rate=0.3", "learning_rate"),
      ("--local_steps=2", "local_steps"), ("--rounds=5", "rounds"),
      ("--epsilon=400", "epsilon"), ("--delta=1e-6", "delta"), ("--seed=1", "seed"),
      ("--num_clusters=3", "num_clusters"),
  )
  def test_other_settings_are_refused_on_resume(self, flag, name):
    before = _bytes(self.folder)
    with mock.patch.object(slot_sums.Door, "ask") as ask:
      with self.assertRaisesRegex(launch.InputError, f"`{name}`"):
        _run(f"--output_dir={self.folder}", "--resume", flag)
    ask.assert_not_called()
    self.assertEqual(_bytes(self.folder), before)

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

  def test_one_cluster_is_dp_fedavg(self):
    folder = os.path.join(self.base, "one")
    _run(f"--output_dir={folder}", "--num_clusters=1")
    rows = csv.DictReader(_read(folder, "results.csv").splitlines())
    self.assertEqual({row["method"] for row in rows}, {"dp_fedavg", "fedavg"})
    self.assertEqual(json.loads(_read(folder, "summary.json"))["headline"], "")

  def test_other_data_are_refused(self):
    folder = os.path.join(self.base, "other")
    shutil.copytree(self.folder, folder)
    os.remove(os.path.join(folder, "report.html"))
    document = json.loads(_read(folder, "config.json"))
    document["inputs"]["dataset"]["fingerprint"] = "of others"
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
      json.dump(document, file)
    with mock.patch.object(released, "train") as train:
      with self.assertRaisesRegex(launch.InputError, "`output_dir` must .*another fingerprint"):
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
        private_clusters.main, *_OF_FILES, f"--data_dir={data_dir or self.data}",
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
    self.assertRegex(printed, r"\nepsilon 1 at delta 0\.3 for one client .*replaced, epsilon ")
    self.assertCountEqual(
        os.listdir(folder), ["config.json", "journal", "released", "report.html", "summary.json"]
    )
    self.assertEqual(_read(folder, "summary.json"), _read(folder, "released/summary.json"))
    document = json.loads(_read(folder, "config.json"))
    self.assertEqual(document["inputs"], {
        "dataset": {
            "name": "files", "data_dir": self.data,
            "clients": ["clean", "no_rows", "no_test", "odd", "one_label"],
        },
        "model": {"name": "logistic", "num_parameters": 8},
    })
    self.assertEqual(document["config"]["schema"], _SCHEMA.to_json())
    self.assertIsNone(document["config"]["num_clients"])
    self._check_released(os.path.join(folder, "released"))

    with self.subTest("it_is_not_overwritten"):
      self._check_not_asked_again("real", "--delta=0.3", "--epsilon=1", "--overwrite")
    with self.subTest("it_is_finished"):
      resume = ("real", "--delta=0.3", "--epsilon=1", "--resume")
      before = _bytes(folder)
      with mock.patch.object(slot_sums.Door, "ask") as ask:
        _, again = self._run(*resume)
      ask.assert_not_called()
      self.assertEqual(again.splitlines()[1:], printed.splitlines()[3:])
      self.assertEqual(_bytes(folder), before)
    with self.subTest("its_pages_are_drawn_again"):
      for page in ("report.html", "released/report.html", "released/figures/rounds.png"):
        os.remove(os.path.join(folder, page))
      in_process.run_main(report.main, f"--run={folder}")
      self.assertEqual(_bytes(folder), before)
    os.remove(os.path.join(folder, "report.html"))
    more = self._write_tables("more", {**_TABLES, "new.csv": ""})
    with self.assertRaisesRegex(launch.InputError, "^`output_dir` must .* another data_dir"):
      self._run(*resume, data_dir=more)
    self._write_tables("data", {"new.csv": ""})
    self.addCleanup(os.remove, os.path.join(self.data, "new.csv"))
    with self.assertRaisesRegex(launch.InputError, "^`output_dir` must .* another clients"):
      self._run(*resume)

  def _check_released(self, folder):
    """Checks that a folder can be published: all of it is paid for, and says no client's name."""
    self.assertCountEqual(os.listdir(folder), [
        "clusters.csv", "config.json", "figures", "ledger.csv", "models.npz", "report.html",
        "rounds.csv", "summary.json",
    ])
    for name, content in _bytes(folder).items():
      for secret in ("one_label", self.base):
        self.assertNotIn(secret.encode(), content, name)
    with np.load(os.path.join(folder, "models.npz")) as models:
      shapes = {name: models[name].shape for name in models}
    self.assertEqual(shapes, {"dense_1/kernel": (2, 3, 2), "dense_1/bias": (2, 2)})
    rows = list(csv.DictReader(_read(folder, "ledger.csv").splitlines()))
    privacy = json.loads(_read(folder, "summary.json"))["privacy"]
    spent = sum(float(row["mu"]) ** 2 for row in rows) ** 0.5
    self.assertAlmostEqual(spent / privacy["mu"], 1, places=6)
    self.assertAlmostEqual(sum(part["share"] for part in privacy["budget"]), 1, places=6)
    self.assertTrue(privacy["is_private"])

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
            json.loads(_read(folder, "summary.json"))["lost"],
            [json.loads(line)["name"] for line in entered.splitlines()],
        )
        # All of it is charged, and once.
        self.assertEqual(
            _read(folder, "journal", "releases.jsonl"), _read(whole, "journal", "releases.jsonl")
        )

  def test_a_lost_report_is_charged_and_told(self):
    folder, _ = self._run("reported")
    os.remove(os.path.join(folder, "report.html"))
    *_, last = sorted(os.listdir(os.path.join(folder, "journal")))[:-1]
    os.remove(os.path.join(folder, "journal", last))
    _, printed = self._run(folder, "--resume")
    self.assertEqual(json.loads(_read(folder, "summary.json"))["lost"], ["report"])
    self.assertRegex(printed, r"\nall +6\.0\n")

  def _check_not_asked_again(self, name, *arguments, why=".*stays charged"):
    before = _bytes(os.path.join(self.base, name))
    with mock.patch.object(slot_sums.Door, "ask") as ask:
      with self.assertRaisesRegex(launch.InputError, f"^`output_dir` must {why}"):
        self._run(name, *arguments)
    ask.assert_not_called()
    self.assertEqual(_bytes(os.path.join(self.base, name)), before)

  def test_what_secure_noise_has_released_is_not_asked_again(self):
    with _interrupted_in("round 2"), self.assertRaises(KeyboardInterrupt):
      self._run("charged", "--trust=none")
    folder = os.path.join(self.base, "charged")
    before = _read(folder, "journal", "releases.jsonl")
    self.assertIn("round 1", before)
    for arguments in (
        ("--trust=none", "--overwrite"), ("--overwrite",), ("--epsilon=1", "--overwrite"),
    ):
      with self.subTest(arguments):
        self._check_not_asked_again("charged", *arguments)
    simulations = [("--simulation", "--trust=none", how) for how in ("--overwrite", "--resume")]
    for arguments in simulations:
      with self.subTest(arguments):
        self._check_not_asked_again("charged", *arguments, why=".* with one of private_clusters")
    settings, kept = os.path.join(folder, "config.json"), os.path.join(self.base, "kept.json")
    os.rename(settings, kept)
    for how in ("--overwrite", "--resume"):
      with self.subTest("without_its_settings", how=how):
        self._check_not_asked_again("charged", "--trust=none", how)
    for arguments in simulations:
      with self.subTest(arguments, without="its settings"):
        self._check_not_asked_again("charged", *arguments, why="hold a run of this program")
    os.rename(kept, settings)
    self.assertEqual(_read(folder, "journal", "releases.jsonl"), before)
    self._run("charged", "--trust=none", "--resume")
    self.assertStartsWith(_read(folder, "journal", "releases.jsonl"), before)

  def test_a_simulation_where_it_is_asked_for(self):
    folder, _ = self._run("simulation", "--simulation")
    rows = list(csv.DictReader(_read(folder, "results.csv").splitlines()))
    accuracies = [float(row["value"]) for row in rows if row["metric"] == "accuracy"]
    self.assertLen(accuracies, 4)
    for accuracy in accuracies:
      # The mean over the three clients with rows for training and testing, one of which each.
      self.assertAlmostEqual(3 * accuracy, round(3 * accuracy), places=5)
    self.assertNotIn("adjusted_rand_index", {row["metric"] for row in rows})

  @parameterized.named_parameters(
      ("a schema for other data", ("--dataset=digits",),
       "`schema` must be left out with `dataset` digits, got one for tables with the column 'y'"),
      ("no schema", ("--schema=/no/file",),
       "`schema` must be a file that can be read .*, got '/no/file'"),
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
          private_clusters.main, *_OF_FILES, f"--schema={self.schema}",
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
