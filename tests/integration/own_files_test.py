"""Three phases on a folder of clients' tables, from the files to predictions."""

import csv
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd
from sklearn import metrics

from experiment_shell import finished_run
from experiments.three_phase import report
from fl_clustering import load_model
from tests.experiment_shell import in_process
from tests.integration import three_phase_program as program

_SMALL = ("--pretrain_rounds=3", "--cluster_rounds=3", "--control_repeats=0",
          "--methods=kmeans,ifca", "--num_clusters=2", "--learning_rate=0.5", "--hidden_units=8",
          "--representation=update", "--client_epochs_per_round=10")
_COLUMNS = ("--label_column=sick", "--categories=ward", "--id_column=id", "--missing=mean",
            "--split_column=part")


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


class OwnFilesTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = os.path.realpath(temporary.name)
    cls.data = os.path.join(cls.base, "data")
    _write_clients(cls.data)
    cls.folder = os.path.join(cls.base, "run")
    result = program.run(
        "--dataset=files", f"--data_dir={cls.data}", "--num_new_clients=2", *_COLUMNS, *_SMALL,
        f"--output_dir={cls.folder}",
    )
    assert result.code == 0, result.stderr
    cls.run_ = finished_run.FinishedRun(cls.folder)

  def _predict(self, data):
    """Runs the program that predicts; returns the rows that it writes."""
    output = os.path.join(self.create_tempdir().full_path, "predictions.csv")
    in_process.run_predict(f"--run={self.folder}", f"--data_dir={data}", f"--output={output}")
    with open(output, encoding="utf-8") as file:
      return list(csv.DictReader(file))

  def test_the_data_are_described(self):
    dataset = self.run_.document["dataset"]
    self.assertEqual(dataset["num_clients"], 4)
    self.assertEqual(dataset["num_new_clients"], 2)
    self.assertEqual(dataset["partition"], "natural")
    counts = [dataset[f"{part}_examples"] for part in ("train", "validation", "client_test")]
    self.assertEqual(counts, [108, 12, 40])
    self.assertEqual(self.run_.settings["model"], "mlp")
    self.assertEqual(self.run_.settings["tables"]["label_column"], "sick")

  def test_names_instead_of_numbers_and_paths(self):
    self.assertEqual(self.run_.document["dataset"]["class_names"], ["no", "yes"])
    self.assertEqual(self.run_.summary["dataset"], "files")
    page = program.read_text(self.folder, "report.html")
    self.assertIn("<h1>Three-phase clustering of 4 clients: files</h1>", page)
    self.assertIn(
        "240 rows of tables in data: 3 features, and 2 classes in the column sick. Model",
        page,
    )
    self.assertIn('<th scope="col">yes</th>', page)

  def test_profiles_are_those_of_the_training_rows(self):
    clusters = load_model.load_model(self.folder).clusters
    training = {row["client_id"] for row in self.run_.rows("clients.csv") if not row["new"]}
    found = {
        (row["cluster"], row["feature"]): row
        for row in self.run_.rows("profiles.csv", ("feature",))
    }
    for k in (0, 1):
      rows = pd.concat([
          pd.read_csv(os.path.join(self.data, f"{client_id}.csv"), sep=";")
          for client_id in training if k in clusters[client_id]
      ])
      rows = rows[rows["part"] == "train"]
      north = found[k, "ward=north"]
      self.assertEqual(north["num_rows"], len(rows))
      self.assertAlmostEqual(north["mean"], (rows["ward"] == "north").mean(), places=5)

  def test_the_report_can_be_drawn_again_from_the_files(self):
    folder = os.path.join(self.create_tempdir().full_path, "copy")
    shutil.copytree(self.folder, folder)
    drawn = ["report.html", *(f"figures/{name}" for name in os.listdir(f"{folder}/figures"))]
    self.assertIn("figures/profiles.png", drawn)
    for name in drawn:
      os.remove(os.path.join(folder, name))

    report.write_report(finished_run.FinishedRun(folder))

    for name in drawn:
      with (
          open(os.path.join(folder, name), "rb") as again,
          open(os.path.join(self.folder, name), "rb") as before,
      ):
        self.assertEqual(again.read(), before.read(), name)

  def test_predictions_have_the_accuracy_of_the_run(self):
    rows = self._predict(self.data)
    self.assertLen(rows, 240)
    self.assertEqual(list(rows[0]), ["client", "row", "id", "cluster", "class", "probability"])
    method = load_model.load_model(self.folder).method
    for i in range(6):
      truth = pd.read_csv(os.path.join(self.data, f"site_{i}.csv"), sep=";")
      own = [row for row in rows if row["client"] == f"site_{i}"]
      self.assertEqual([row["id"] for row in own], list(truth["id"]))
      right = np.array([row["class"] for row in own]) == truth["sick"].to_numpy()
      found = [
          row for row in self.run_.rows("client_metrics.csv", ("clusters",))
          if row["client_id"] == f"site_{i}" and row["method"] == method
          and row["phase"] in ("cluster", "new_clients")
      ]
      self.assertLen(found, 1)
      self.assertAlmostEqual(right[truth["part"] == "test"].mean(), found[0]["accuracy"])
      self.assertEqual({row["cluster"] for row in own}, {found[0]["clusters"]})

  def test_metrics_of_probabilities_are_those_of_the_predictions(self):
    rows = pd.DataFrame(self._predict(self.data))
    rows["yes"] = rows["probability"].astype(float)
    rows.loc[rows["class"] == "no", "yes"] = 1 - rows["yes"]
    saved = load_model.load_model(self.folder)
    found = {
        row["client_id"]: row for row in self.run_.rows("client_metrics.csv", ("clusters",))
        if row["method"] == saved.method and row["phase"] in ("cluster", "new_clients")
    }
    self.assertLen(found, 6)
    pooled = []
    for client_id, row in found.items():
      truth = pd.read_csv(os.path.join(self.data, f"{client_id}.csv"), sep=";")
      is_test = (truth["part"] == "test").to_numpy()
      self.assertEqual(row["num_test"], is_test.sum())
      sick = (truth["sick"] == "yes").to_numpy()[is_test]
      yes = rows[rows["client"] == client_id]["yes"].to_numpy()[is_test]
      for name, score in (
          ("auroc", metrics.roc_auc_score), ("auprc", metrics.average_precision_score),
          ("log_loss", metrics.log_loss), ("brier", metrics.brier_score_loss),
      ):
        if name in ("auroc", "auprc") and len(set(sick)) < 2:
          self.assertIsNone(row[name])
        else:
          self.assertAlmostEqual(row[name], score(sick, yes), places=4)
      balanced = metrics.balanced_accuracy_score(sick, yes > 0.5)
      self.assertAlmostEqual(row["recall"], balanced)
      if row["phase"] == "cluster":
        pooled.append((sick, yes))
    sick, yes = map(np.concatenate, zip(*pooled))
    of_method = self.run_.summary["methods"][saved.method]["clients"]
    self.assertAlmostEqual(of_method["pooled_auroc"], metrics.roc_auc_score(sick, yes), places=4)

  def test_the_majority_class_is_a_row(self):
    page = program.read_text(self.folder, "report.html")
    self.assertIn(">majority class<", page)
    (first, *_) = [
        row for row in self.run_.rows("client_metrics.csv", ("clusters",))
        if row["phase"] == "baseline"
    ]
    self.assertEqual(first["auroc"], 0.5)
    self.assertAlmostEqual(first["recall"], 0.5)
    self.assertLen(self.run_.rows("calibration.csv", ("method",)), 5 * 4)

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

  def test_a_client_of_later_without_labels_is_refused(self):
    folder = os.path.join(self.create_tempdir().full_path, "data")
    os.mkdir(folder)
    frame = pd.read_csv(os.path.join(self.data, "site_0.csv"), sep=";")
    path = os.path.join(folder, "site_0.csv")
    frame.drop(columns=["sick", "part", "id"]).to_csv(path, index=False)
    rows = self._predict(folder)  # It is known.
    self.assertEqual(list(rows[0]), ["client", "row", "cluster", "class", "probability"])
    os.rename(path, os.path.join(folder, "later.csv"))
    result = subprocess.run(
        [sys.executable, "-m", "experiments.predict", f"--run={self.folder}",
         f"--data_dir={folder}"],
        check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    self.assertEqual(result.returncode, 2)
    self.assertRegex(
        result.stderr, "^error: `data_dir` must have the column 'sick' for clients .*'later'.\n$"
    )

  def test_from_python(self):
    model = load_model.load_model(self.folder)
    frame = pd.read_csv(os.path.join(self.data, "site_0.csv"), sep=";")
    probabilities = model.predict(frame, "site_0")
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    rows = self._predict(self.data)
    own = [row["class"] for row in rows if row["client"] == "site_0"]
    self.assertEqual([model.format.classes[k] for k in probabilities.argmax(axis=1)], own)
    with self.assertRaisesRegex(ValueError, "`client_id` must be a client of the run, got 'x'"):
      model.predict(frame, "x")


class SecondTryTest(absltest.TestCase):
  """Someone else's folder is accepted with the flags that the first message ends with."""

  def _try(self, *flags):
    return program.run(
        "--dataset=files", f"--data_dir={self.data}", "--label_column=sick", *_SMALL,
        "--pretrain_rounds=1", "--cluster_rounds=1", "--methods=kmeans", *flags,
        f"--output_dir={self.folder}",
    )

  def test_semicolons_ids_text_and_missing_cells(self):
    base = self.create_tempdir().full_path
    self.data, self.folder = os.path.join(base, "data"), os.path.join(base, "run")
    _write_clients(self.data, num_clients=3)

    first = self._try()

    self.assertEqual(first.code, 2)
    self.assertLen(first.stderr.splitlines(), 1)
    self.assertRegex(
        first.stderr,
        "^error: .*'id', looks like the rows' ids.*column '(ward|part)': .* is not a number.*"
        "column 'age' is empty",
    )
    self.assertFalse(os.path.exists(self.folder))
    second = self._try(*shlex.split(first.stderr.split(" Try: ")[1]))
    self.assertEqual(second.code, 0, second.stderr)


class BadInputTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("no folder", ("--label_column=sick",), "`data_dir` must name the folder"),
      ("no labels", ("--data_dir={}",), "`label_column` must be given for `dataset` files"),
      ("one class", ("--data_dir={}", *_COLUMNS, "--label_column=one", "--exclude=sick"),
       "`label_column` must hold at least two classes"),
      ("one client", ("--data_dir={}", *_COLUMNS, "--client_column=one"),
       "`data_dir` must hold two clients or more .* got 1 in '.*data'; --client_column says"),
      ("both splits", ("--data_dir={}", *_COLUMNS, "--test_share=0.5"),
       "`test_share` must be left out with `split_column`"),
      ("a share of all", ("--data_dir={}", "--label_column=sick", "--test_share=1"),
       "`test_share` must be a number in .0, 1."),
      ("a model of images", ("--data_dir={}", *_COLUMNS, "--exclude=one", "--model=cnn"),
       "`model` must be mlp or logistic for features of shape"),
      ("a partition", ("--data_dir={}", *_COLUMNS, "--exclude=one", "--partition=iid"),
       "`partition` must be natural or left out for files"),
      ("no new client left", ("--data_dir={}", *_COLUMNS, "--exclude=one",
                              "--num_new_clients=3"), "`num_new_clients` must be"),
      ("a number of clients", ("--data_dir={}", *_COLUMNS, "--exclude=one", "--num_clients=2"),
       "`num_clients` must be left out for `dataset` files"),
      ("text", ("--data_dir={}", "--label_column=sick"), "'id', looks like the rows' ids"),
      ("numbers of classes", ("--data_dir={}", *_COLUMNS, "--exclude=one", "--model=linear"),
       "`model` must be .*mlp or logistic for a classification, got 'linear'"),
      ("text as numbers", ("--data_dir={}", *_COLUMNS, "--exclude=one", "--task=regression"),
       "column 'sick': '(yes|no)' is not a number"),
      ("an error of classes", ("--data_dir={}", *_COLUMNS, "--exclude=one",
                               "--primary_metric=mse"),
       "`primary_metric` must be accuracy or .* or brier for classes, got 'mse'"),
      ("weights that tell of labels", ("--data_dir={}", *_COLUMNS, "--exclude=one",
                                       "--class_weights=balanced", "--aggregator=dp"),
       "`class_weights` must be left out with aggregator=dp"),
      ("weights that private methods ignore", (
          "--data_dir={}", *_COLUMNS, "--exclude=one", "--class_weights=balanced",
          "--methods=private_ifca"), "`class_weights` must be left out with the method private_i"),
  )
  def test_is_refused(self, flags, message):
    base = self.create_tempdir().full_path
    data, out = os.path.join(base, "data"), os.path.join(base, "out")
    _write_clients(data, num_clients=3)
    for name in os.listdir(data):
      frame = pd.read_csv(os.path.join(data, name), sep=";")
      frame.assign(one=1).to_csv(os.path.join(data, name), index=False)
    result = program.run(
        "--dataset=files", *(flag.format(data) for flag in flags), f"--output_dir={out}"
    )
    self.assertEqual(result.code, 2)
    self.assertRegex(result.stderr, f"^error: .*{message}.*\n$")
    self.assertFalse(os.path.exists(out))

  def test_a_flag_of_tables_with_other_data(self):
    result = program.run("--dataset=digits", "--label_column=x")
    self.assertEqual(result.code, 2)
    self.assertRegex(result.stderr, "`label_column` must be left out with `dataset` digits")


if __name__ == "__main__":
  absltest.main()
