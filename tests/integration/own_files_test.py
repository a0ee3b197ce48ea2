"""Three phases on a folder of clients' tables, from the files to predictions."""

import csv
import dataclasses
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
from sklearn import metrics

from experiment_shell import finished_run
from experiment_shell import launch
from fl_clustering import load_model
from fl_clustering.tables import schema as schema_lib
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder
from tests.integration import three_phase_program as program

_SMALL = ("--pretrain_rounds=3", "--cluster_rounds=3", "--control_repeats=0",
          "--methods=kmeans,ifca", "--num_clusters=2", "--learning_rate=0.5", "--hidden_units=8",
          "--representation=update", "--client_epochs_per_round=10")
_SCHEMA = schema_lib.Schema(
    (
        schema_lib.Field("id", "string"), schema_lib.Field("age"),
        schema_lib.Field("ward", "string", enum=("north", "south")),
        schema_lib.Field("sick", "string"), schema_lib.Field("part", "string"),
    ),
    label="sick", split="part", key="id", missing="mean", delimiter=";",
)


def _write_clients(folder, num_clients=6):
  """Writes clients of which every other one has the classes the other way round."""
  rng = np.random.default_rng(0)
  os.makedirs(folder)
  for i in range(num_clients):
    age = rng.uniform(20, 80, 40)
    frame = pd.DataFrame({
        "id": [f"p{i}_{row}" for row in range(40)],
        "age": np.where(rng.random(40) < 0.1, np.nan, age.round(1)),
        "ward": np.where(age > 50, "north", rng.choice(["north", "south"], 40)),
        "sick": np.where((age > 50) ^ (i % 2 == 1), "yes", "no"),
        "part": np.where(np.arange(40) < 30, "train", "test"),
    })
    columns = list(frame)[:: 1 if i % 2 else -1]
    frame[columns].to_csv(os.path.join(folder, f"site_{i}.csv"), index=False, sep=";")


def setUpModule():
  """Leaves out the figures that `output_test.py` draws, which take much of the time."""
  unittest.enterModuleContext(program.without_figures())


class OwnFilesTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.base = os.path.realpath(cls.enterClassContext(tempfile.TemporaryDirectory()))
    cls.data = os.path.join(cls.base, "data")
    _write_clients(cls.data)
    cls.folder = os.path.join(cls.base, "run")
    schema = os.path.join(cls.base, "schema.json")
    _SCHEMA.write(schema)
    result = program.run(
        "--dataset=files", f"--data_dir={cls.data}", f"--schema={schema}", "--num_new_clients=2",
        *_SMALL,
        f"--output_dir={cls.folder}",
    )
    assert result.code == 0, result.stderr
    cls.run_ = finished_run.FinishedRun(cls.folder)

  def _predict(self, data):
    """Runs the program that predicts; returns the rows that it writes."""
    return self._predict_and_print(data)[0]

  def _predict_and_print(self, data, *flags, run=None):
    """Returns also what the program prints."""
    output = os.path.join(self.create_tempdir().full_path, "predictions.csv")
    printed = in_process.run_predict(
        f"--run={run or self.folder}", f"--data_dir={data}", f"--output={output}", *flags
    )
    with open(output, encoding="utf-8") as file:
      return list(csv.DictReader(file)), printed

  def test_the_data_are_described(self):
    dataset = self.run_.document["about"]["dataset"]
    self.assertEqual(dataset["num_clients"], 4)
    self.assertEqual(dataset["num_new_clients"], 2)
    self.assertEqual(dataset["partition"], "natural")
    counts = [dataset[f"{part}_examples"] for part in ("train", "validation", "client_test")]
    self.assertEqual(counts, [108, 12, 40])
    self.assertEqual(self.run_.settings["model"], "mlp")
    self.assertEqual(self.run_.settings["schema"]["label"], "sick")
    self.assertEqual(dataset["class_names"], ["no", "yes"])

  def _of_client(self, method, client):
    """Returns a client's metrics under the model that it gets in the end."""
    rows = program.table(self.folder, "clients", method=method, client=client)
    rows = rows[rows["phase"].isin(("cluster", "new_clients"))]
    return rows.set_index("metric")["value"].to_dict()

  def test_predictions_have_the_metrics_of_the_run(self):
    rows = pd.DataFrame(self._predict(self.data))
    self.assertLen(rows, 240)
    self.assertEqual(list(rows), ["client", "row", "id", "cluster", "class", "probability"])
    method = load_model.load_model(self.folder).method
    for i in range(6):
      client, truth = f"site_{i}", self._site(i)
      own = rows[rows["client"] == client]
      self.assertEqual(own["id"].tolist(), truth["id"].tolist())
      found = self._of_client(method, client)
      self.assertEqual(set(own["cluster"]), {f"{found['cluster']:g}"})
      is_test = (truth["part"] == "test").to_numpy()
      examples = program.table(self.folder, "examples", client=client, part="test")
      self.assertEqual(examples["value"].sum(), is_test.sum())
      sick, classes = truth["sick"].to_numpy()[is_test], own["class"].to_numpy()[is_test]
      self.assertAlmostEqual((sick == classes).mean(), found["accuracy"])
      self.assertAlmostEqual(
          metrics.balanced_accuracy_score(sick, classes), found["recall"]
      )

  def test_a_client_of_later_gets_the_cluster_of_least_loss(self):
    folder = os.path.join(self.create_tempdir().full_path, "data")
    os.mkdir(folder)
    for i in (0, 1):
      shutil.copy(
          os.path.join(self.data, f"site_{i}.csv"), os.path.join(folder, f"later_{i}.csv")
      )
    rows = self._predict(folder)
    clusters = load_model.load_model(self.folder).clusters
    for i in (0, 1):
      found = {row["cluster"] for row in rows if row["client"] == f"later_{i}"}
      self.assertEqual(found, {str(clusters[f"site_{i}"][0])})

  def _later(self, **frames):
    """Returns a folder with these tables."""
    folder = self.create_tempdir().full_path
    for name, frame in frames.items():
      frame.to_csv(os.path.join(folder, f"{name}.csv"), index=False, sep=";")
    return folder

  def _site(self, i=0):
    return pd.read_csv(os.path.join(self.data, f"site_{i}.csv"), sep=";")

  def test_clients_of_later_without_labels(self):
    with_labels = self._site()
    frame = with_labels.drop(columns=["sick", "part", "id"])
    own = str(load_model.load_model(self.folder).clusters["site_0"][0])
    rows, printed = self._predict_and_print(self._later(labelled=with_labels))
    self.assertEqual({row["cluster"] for row in rows}, {own})
    self.assertStartsWith(printed, "note: labelled: ")
    rows, printed = self._predict_and_print(self._later(site_0=frame, later=frame, other=frame))
    clusters = {row["client"]: row["cluster"] for row in rows}
    self.assertEqual(clusters, {"site_0": own, "later": "global", "other": "global"})
    self.assertRegex(printed, "note: later, other: .*--fallback=global")
    self.assertLen(rows, 120)
    with self.assertRaisesRegex(launch.InputError, "b.csv, line 1, column "):
      self._predict(self._later(a=with_labels, b=frame))
    model = load_model.load_model(self.folder)
    self.assertFalse((model.vectors == model.global_vector).all(axis=1).any())
    (accuracy,) = program.table(
        self.folder, "results", method="fedavg", metric="accuracy"
    )["value"]
    right = []
    for client in program.table(self.folder, "examples", new=0)["client"].unique():
      truth = self._site(client.removeprefix("site_"))
      rows = self._predict(self._later(x=truth.drop(columns=["sick"])))
      found = np.array([row["class"] for row in rows]) == truth["sick"].to_numpy()
      right.append(found[truth["part"] == "test"].mean())
    self.assertAlmostEqual(np.mean(right), accuracy, places=5)

  def test_the_cluster_of_the_nearest_profile(self):
    profiles = {(int(row["cluster"]), row["feature"]): float(row["mean"])
                for row in run_folder.rows(self.folder, "profiles.csv")}
    model = load_model.load_model(self.folder)
    scale = dict(zip(model.tables.schema.feature_names, model.tables.scaling.factor))
    folder = self._later(**{
        f"age_{age}_{ward}": pd.DataFrame({"age": [age - 5, age + 5], "ward": [ward] * 2})
        for age in (20, 50, 80) for ward in ("north", "south")
    })
    rows, printed = self._predict_and_print(folder, "--fallback=profile")
    self.assertIn("whose mean features are nearest to the client's (--fallback=profile)", printed)
    for row in rows:
      _, age, ward = row["client"].split("_")
      own = {"age": float(age), "ward=north": ward == "north", "ward=south": ward == "south"}
      distances = [
          sum((scale[name] * (value - profiles[k, name])) ** 2 for name, value in own.items())
          for k in (0, 1)
      ]
      self.assertEqual(row["cluster"], str(np.argmin(distances)))

  def test_methods_that_group_by_features_place_by_them(self):
    frame = self._site().drop(columns=["sick"])
    for method, cluster in (("flux", "01"), ("kmeans", "g")):
      run = self.create_tempdir().full_path
      saved = dataclasses.replace(load_model.load_model(self.folder), method=method)
      saved.save(model := os.path.join(run, "model"))
      for folder in (run, model):  # A model says the same where the rest of its run isn't.
        rows, _ = self._predict_and_print(self._later(x=frame), run=folder)
        self.assertIn(rows[0]["cluster"][0], cluster)
      shutil.rmtree(model)
      dataclasses.replace(saved, means=None).save(model)
      rows, _ = self._predict_and_print(self._later(x=frame), run=run)
      self.assertEqual(rows[0]["cluster"], "global")
      with self.assertRaisesRegex(launch.InputError, "`fallback` must be global"):
        self._predict_and_print(self._later(x=frame), "--fallback=profile", run=run)

  def test_later_files_are_read_as_strictly(self):
    frame = self._site().astype({"age": object})
    frame.loc[3, "age"] = "old"
    with self.assertRaisesRegex(launch.InputError, "site_0.csv, line 5, column 'age'"):
      self._predict(self._later(site_0=frame))
    frame.loc[3, "age"], frame.loc[5, "ward"] = 40, "west"
    with self.assertRaisesRegex(launch.InputError, "site_0.csv, line 7, column 'ward'"):
      self._predict(self._later(site_0=frame))
    with self.assertRaisesRegex(launch.InputError, "site_0.csv, line 1, column 'ward'"):
      self._predict(self._later(site_0=frame.drop(columns="ward")))
    with self.assertRaisesRegex(launch.InputError, "separator"):
      self._predict_and_print(self.data, "--separator=|")
    # Another dialect, with a schema of its own.
    folder, schema = self.create_tempdir().full_path, self.create_tempfile().full_path
    self._site().to_csv(os.path.join(folder, "site_0.csv"), index=False, sep="\t", decimal=",")
    dataclasses.replace(_SCHEMA, delimiter="\t", decimal=",").write(schema)
    rows, _ = self._predict_and_print(folder, f"--schema={schema}")
    expected = [row for row in self._predict(self.data) if row["client"] == "site_0"]
    self.assertEqual(rows, expected)


class SecondTryTest(absltest.TestCase):
  """The first message's command drafts the schema that someone else's folder needs."""

  def test_semicolons_ids_text_and_missing_cells(self):
    base = self.create_tempdir().full_path
    data, folder, schema = (os.path.join(base, name) for name in ("data", "run", "schema.json"))
    _write_clients(data, num_clients=3)

    first = program.run(
        "--dataset=files", f"--data_dir={data}", "--label_column=sick", "--row_key=id",
        "--split_column=part", f"--output_dir={folder}",
    )

    self.assertEqual(first.code, 2)
    self.assertLen(first.stderr.splitlines(), 1)
    self.assertRegex(first.stderr, "^error: .*site_[0-9].csv, line 1")
    self.assertFalse(os.path.exists(folder))
    command = first.stderr.split("experiments.draft_schema ")[1].split(" drafts a schema")[0]
    drafted = subprocess.run(
        [sys.executable, "-m", "experiments.draft_schema",
         *shlex.split(command.replace("schema.json", shlex.quote(schema)))],
        check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    self.assertEqual(drafted.returncode, 0, drafted.stderr)
    found, expected = schema_lib.load(schema), _SCHEMA.with_classes(("no", "yes"))
    self.assertCountEqual(found.fields, expected.fields, drafted.stdout)
    self.assertEqual(dataclasses.replace(found, fields=expected.fields), expected)


_ROLES = ("--data_dir={}", "--label_column=sick", "--exclude=id,ward,part")


class BadInputTest(parameterized.TestCase):

  @parameterized.parameters(
      ("`data_dir`", "--label_column=sick"),
      ("label_column", "--data_dir={}", "--exclude=id,ward,part,sick"),
      ("label_column", *in_process.overriding(
          _ROLES, "--label_column=one", "--exclude=id,ward,part,sick")),
      ("`data_dir`.*`client_column`", *_ROLES, "--client_column=one"),
      ("test_share", *in_process.overriding(
          _ROLES, "--exclude=id,ward", "--split_column=part", "--test_share=0.5")),
      ("test_share", *_ROLES, "--test_share=1"), ("`model`", *_ROLES, "--model=cnn"),
      ("`partition`", *_ROLES, "--partition=iid"),
      ("num_new_clients", *_ROLES, "--num_new_clients=3"),
      ("num_clients", *_ROLES, "--num_clients=2"), ("site_0.csv, line 2, column ", *_ROLES[:2]),
      ("label", *in_process.overriding(_ROLES, "--label_column=ill")),
  )
  def test_is_refused(self, message, *flags):
    base = self.create_tempdir().full_path
    data, out = os.path.join(base, "data"), os.path.join(base, "out")
    _write_clients(data, num_clients=3)
    for name in os.listdir(data):
      frame = pd.read_csv(os.path.join(data, name), sep=";")
      frame.assign(one=1, age=frame["age"].fillna(50)).to_csv(
          os.path.join(data, name), index=False
      )
    result = program.run(
        "--dataset=files", *(flag.format(data) for flag in flags), f"--output_dir={out}"
    )
    self.assertEqual(result.code, 2)
    self.assertRegex(result.stderr, f"^error: .*{message}.*\n$")
    self.assertFalse(os.path.exists(out))

  def test_a_flag_of_tables_with_other_data(self):
    result = program.run("--dataset=digits", "--label_column=x")
    self.assertEqual(result.code, 2)
    self.assertRegex(result.stderr, "^error: `label_column`")
