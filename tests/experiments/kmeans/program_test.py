"""Runs the federated k-means program as a user does; its files are read."""

import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiment_shell import launch
from experiment_shell import tidy_report
from experiments import federated_kmeans
from experiments.kmeans import data
from experiments.kmeans import methods
from experiments import report
from fl_clustering.kmeans import estimator
from fl_clustering import load_model
from fl_clustering import runtime
from fl_clustering.tables import schema as schema_lib
from tests.experiment_shell import in_process


def _run(*arguments):
  """Runs the program in this process; returns what it prints."""
  return in_process.run_main(federated_kmeans.main, *arguments)


def _run_process(program, *arguments):
  """Runs a program as a process of its own; returns what came of it."""
  return subprocess.run(
      [sys.executable, "-m", program, *arguments], check=False, capture_output=True, text=True,
      env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
  )


def _draw_again(folder):
  in_process.run_main(report.main, f"--run={folder}")


def _read(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
    return file.read()


def _rows(folder, name):
  return list(csv.DictReader(_read(folder, name).splitlines()))


def _of_client(folder, client):
  return [row for row in _rows(folder, "clusters.csv") if row["client"] == client]


class OwnDataTest(absltest.TestCase):
  """A practitioner's three hospitals."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = os.path.realpath(temporary.name)
    cls.data = os.path.join(cls.base, "data")
    os.mkdir(cls.data)
    rng = np.random.default_rng(0)
    # Three groups, in columns of very different size.
    groups = np.array([(20.0, 1e5), (50.0, 2e5), (80.0, 1e5)])
    cls.groups = {}
    for name in ("north", "south", "west"):
      clusters = rng.integers(3, size=60)
      points = groups[clusters] + np.array([2.0, 5e3]) * rng.standard_normal((60, 2))
      np.savetxt(os.path.join(cls.data, f"{name}.csv"), points, delimiter=",",
                 header="age,income", comments="")
      cls.groups[name] = clusters
    cls.folder = os.path.join(cls.base, "out")
    cls.flags = (f"--data_dir={cls.data}", "--k_range=2:5", "--standardize",
                 f"--output_dir={cls.folder}")
    cls.printed = _run(*cls.flags)

  def test_files(self):
    self.assertCountEqual(os.listdir(self.folder), [
        "centroids.csv", "cluster_sizes.csv", "clusters.csv", "config.json", "figures", "model",
        "profiles.csv", "report.html", "results.csv", "rounds.csv", "summary.json", "tables",
    ])
    self.assertCountEqual(
        os.listdir(os.path.join(self.folder, "figures")), ["profiles.png", "selection.png"]
    )
    self.assertRegex(self.printed, r"\nClusters: 3, .*\n")
    self.assertEndsWith(self.printed, f"report: {self.folder}/report.html\n")

  def test_the_share_explained_is_of_the_columns_that_the_inertia_is_in(self):
    points = np.concatenate([
        np.loadtxt(os.path.join(self.data, f"{client}.csv"), delimiter=",", skiprows=1)
        for client in self.groups
    ])
    folder = os.path.join(self.create_tempdir().full_path, "out")
    _run(f"--data_dir={self.data}", "--num_clusters=3", f"--output_dir={folder}")
    for folder, total in ((self.folder, points.size), (folder, points.var(axis=0).sum() * 180)):
      (fit,) = _rows(folder, "tables/fit.csv")
      self.assertAlmostEqual(float(fit["explained"]), 1 - float(fit["inertia"]) / total)
      self.assertIn(f"<td>{float(fit['explained']):.1%}</td>", _read(folder, "report.html"))

  def test_no_share_is_explained_of_a_column_that_is_constant_but_for_rounding(self):
    base = self.create_tempdir().full_path
    folder = os.path.join(base, "out")
    pressure = np.random.default_rng(0).normal(np.repeat([100, 110], 50), 1)
    os.mkdir(os.path.join(base, "data"))
    for client, own in (("a", pressure[::2]), ("b", pressure[1::2])):
      total = np.resize([0.1 + 0.2, 0.15 + 0.15], len(own))
      frame = pd.DataFrame({"pressure": own, "total": total})
      frame.to_csv(os.path.join(base, "data", f"{client}.csv"), index=False)
    for num_clusters in (2, 1):
      _run(f"--data_dir={base}/data", "--standardize", f"--num_clusters={num_clusters}",
           f"--output_dir={folder}_{num_clusters}")
      (fit,) = _rows(f"{folder}_{num_clusters}", "tables/fit.csv")
      left = float(fit["inertia"]) / 100
      self.assertAlmostEqual(float(fit["explained"]), 1 - left)
      shares = {row["feature"]: float(row["share_explained"])
                for row in _rows(f"{folder}_{num_clusters}", "profiles.csv")}
      self.assertEqual(shares["total"], 0)
      self.assertAlmostEqual(shares["pressure"], 1 - left)
      self.assertBetween(float(fit["explained"]), 0, 1)

  def test_centers_on_few_points_are_told(self):
    folder = os.path.join(self.create_tempdir().full_path, "out")
    with self.assertLogs("absl", "WARNING") as logged:
      _run(f"--data_dir={self.data}", "--num_clusters=60", f"--output_dir={folder}")
    (row,) = _rows(folder, "tables/few_points.csv")
    self.assertEqual(row["of"], "60")
    self.assertIn(f"{row['centers']} of 60 centers", logged.output[0])
    sizes = [int(row["num_points"]) for row in _rows(folder, "centroids.csv")]
    self.assertEqual(int(row["centers"]), sum(size < 5 for size in sizes))

  def test_the_number_of_clusters_is_found(self):
    rows = _rows(self.folder, "tables/selection.csv")
    self.assertEqual([row["clusters"] for row in rows], ["2", "3", "4", "5"])
    best = max(rows, key=lambda row: float(row["silhouette"]))
    self.assertEqual((best["clusters"], best["verdict"]), ("3", "best"))

  def test_centroids_are_in_the_datas_units(self):
    rows = sorted(_rows(self.folder, "centroids.csv"), key=lambda row: float(row["age"]))
    for row, (age, income) in zip(rows, ((20, 1e5), (50, 2e5), (80, 1e5)), strict=True):
      self.assertAlmostEqual(float(row["age"]), age, delta=1.5)
      self.assertAlmostEqual(float(row["income"]), income, delta=4e3)
    self.assertEqual(sum(int(row["num_points"]) for row in rows), 180)

  def test_centroids_are_the_means_of_their_points_to_the_last_digit(self):
    points = np.concatenate([
        np.loadtxt(os.path.join(self.data, f"{client}.csv"), delimiter=",", skiprows=1)
        for client in self.groups
    ])
    clusters = np.array([int(row["cluster"]) for row in _rows(self.folder, "clusters.csv")])
    for k, row in enumerate(_rows(self.folder, "centroids.csv")):
      found = [float(row["age"]), float(row["income"])]
      np.testing.assert_allclose(found, points[clusters == k].mean(axis=0), rtol=1e-12)

  def test_every_row_has_its_cluster(self):
    names = {}
    for client, clusters in self.groups.items():
      rows = _of_client(self.folder, client)
      self.assertEqual([int(row["row"]) for row in rows], list(range(1, 61)))
      for row, group in zip(rows, clusters):
        names.setdefault(group, set()).add(row["cluster"])
    # A group is one cluster, the same one at all clients.
    self.assertEqual([len(found) for found in names.values()], [1, 1, 1])

  def test_profiles(self):
    rows = _rows(self.folder, "profiles.csv")
    self.assertLen(rows, 6)
    for row in rows:
      self.assertAlmostEqual(
          float(row["standard_deviation"]), {"age": 2.0, "income": 5e3}[row["feature"]],
          delta=dict(age=0.5, income=1.3e3)[row["feature"]],
      )
      self.assertGreater(float(row["share_explained"]), 0.9)

  def test_predictions_are_the_clusters(self):
    path = os.path.join(self.base, "predictions.csv")
    result = _run_process(
        "experiments.predict", f"--run={self.folder}", f"--data_dir={self.data}",
        f"--output={path}",
    )
    self.assertEqual(result.stdout, f"180 rows of 3 clients: {path}\n", result.stderr)
    self.assertEqual(_read(self.base, "predictions.csv"), _read(self.folder, "clusters.csv"))
    # A link is there, even if what it leads to is not.
    link, nowhere = os.path.join(self.base, "link"), os.path.join(self.base, "nowhere")
    os.symlink(nowhere, link)
    with self.assertRaisesRegex(launch.InputError, "`output` must not exist"):
      in_process.run_predict(
          f"--run={self.folder}", f"--data_dir={self.data}", f"--output={link}"
      )
    self.assertFalse(os.path.exists(nowhere))

  def test_the_model_predicts_frames_with_columns_in_any_order(self):
    model = load_model.load_model(self.folder)
    frame = pd.read_csv(os.path.join(self.data, "west.csv"))
    frame.insert(0, "name", "x")
    clusters = [int(row["cluster"]) for row in _of_client(self.folder, "west")]
    self.assertEqual(model.predict(frame[["income", "name", "age"]]).tolist(), clusters)
    with self.assertRaisesRegex(ValueError, "'age'"):
      model.predict(frame[["income"]])

  def test_arrays(self):
    base = self.create_tempdir().full_path
    folder = os.path.join(base, "out")
    os.mkdir(os.path.join(base, "data"))
    for client in self.groups:
      points = np.loadtxt(os.path.join(self.data, f"{client}.csv"), delimiter=",", skiprows=1)
      # Rows of the same label are not alike.
      labels = 1e9 * np.resize([0, 1], len(points))
      np.savez(os.path.join(base, "data", f"{client}.npz"), x=points, y=labels)
    flags = [f"--data_dir={base}/data", "--k_range=2:5", "--standardize"]
    _run(*flags, f"--output_dir={folder}")
    self.assertEqual(list(_rows(folder, "centroids.csv")[0])[2:], ["x0", "x1"])
    self.assertEqual(_read(folder, "clusters.csv"), _read(self.folder, "clusters.csv"))
    _run(*flags[:1], "--num_clusters=2", "--label_column=x0", f"--output_dir={folder}_1")
    self.assertEqual(list(_rows(f"{folder}_1", "centroids.csv")[0])[2:], ["x1"])
    path = os.path.join(base, "data", "south.npz")
    for later, of in ((points, "x2"), (points[:, :, np.newaxis], "x0")):
      np.savez(path, x=np.concatenate([later, later], axis=1), y=labels)
      with self.assertRaisesRegex(launch.InputError, f"south.npz, column '{of}"):
        _run(*flags, f"--output_dir={folder}_2")

  def test_config_and_report(self):
    document = json.loads(_read(self.folder, "config.json"))
    self.assertEqual(document["inputs"]["rows"], dict.fromkeys(self.groups, 60))
    self.assertEqual(document["experiment"], "federated_kmeans_own_data")
    self.assertTrue(document["config"]["standardize"])
    page = _read(self.folder, "report.html")
    for text in ("Clusters: 3,", "south", "A cluster of one point is that point"):
      self.assertIn(text, page)

  def test_a_finished_run_is_left_as_it_is(self):
    before = {name: os.stat(os.path.join(self.folder, name)).st_mtime_ns
              for name in os.listdir(self.folder)}
    self.assertIn("this run is finished", _run(*self.flags, "--resume"))
    for name, time in before.items():
      self.assertEqual(os.stat(os.path.join(self.folder, name)).st_mtime_ns, time)

  def test_the_report_is_drawn_again_from_the_files(self):
    again = os.path.join(self.base, "again")
    shutil.copytree(self.folder, again)
    os.remove(os.path.join(again, "report.html"))
    _draw_again(again)
    self.assertEqual(_read(again, "report.html"), _read(self.folder, "report.html"))

  def _schema(self, **bounds):
    """Writes a schema of bounded numbers; returns the flag that names it."""
    path = os.path.join(self.create_tempdir().full_path, "schema.json")
    schema_lib.Schema(tuple(
        schema_lib.Field(name, minimum=low, maximum=high) for name, (low, high) in bounds.items()
    )).write(path)
    return f"--schema={path}"

  def test_private(self):
    folder = os.path.join(self.base, "private")
    flags = (f"--data_dir={self.data}", "--num_clusters=3", "--epsilon=50", "--delta=1e-3",
             "--radius=3e5", self._schema(age=(0, 100), income=(0, 3e5)),
             f"--output_dir={folder}")
    shares = ("--trust=none", "--min_clients=2")
    self.assertRegex(
        _run(*flags, *shares),
        r"\nClusters: 3, \(50, 0.001\)-differentially private for one point of one client.\n",
    )
    self.assertCountEqual(os.listdir(folder), [
        "centroids.csv", "config.json", "figures", "guarantee.csv", "model", "report.html",
        "results.csv", "rounds.csv", "summary.json", "tables",
    ])
    self.assertCountEqual(
        os.listdir(os.path.join(folder, "tables")),
        ["centroids.csv", "guarantee.csv", "headline.csv", "leaves.csv", "warnings.csv"],
    )
    self.assertEmpty(os.listdir(os.path.join(folder, "figures")))
    document = json.loads(_read(folder, "config.json"))
    self.assertEqual(document["inputs"], {"clients": {"north": 0, "south": 1, "west": 2}})
    stated = {row["name"]: row["value"] for row in _rows(folder, "guarantee.csv")}
    self.assertEqual((stated["trust"], stated["min_clients"]), ("none", "2"))
    self.assertStartsWith(stated["noise"], "secure")
    self.assertEqual([row["metric"] for row in _rows(folder, "results.csv")], ["rounds"])
    self.assertNotIn("inertia", {row["metric"] for row in _rows(folder, "rounds.csv")})
    rows = _rows(folder, "centroids.csv")
    self.assertEqual([list(row) for row in rows], [["cluster", "age", "income"]] * 3)
    # The groups' incomes; the radius is so large that the noise hides their ages.
    for income in (1e5, 2e5):
      self.assertLess(min(abs(float(row["income"]) - income) for row in rows), 3e4)
    page = _read(folder, "report.html")
    _draw_again(folder)
    self.assertEqual(_read(folder, "report.html"), page)
    self.assertIn("this run is finished", _run(*flags, *shares, "--resume"))
    with self.assertRaisesRegex(launch.InputError, "^`output_dir` must .*budgets add up"):
      _run(*flags, *shares, "--overwrite")
    self.assertEqual(_read(folder, "report.html"), page)

  def test_an_interrupted_private_run_is_charged_again_and_not_overwritten(self):
    folder = os.path.join(self.create_tempdir().full_path, "out")
    flags = (f"--data_dir={self.data}", "--num_clusters=3", "--epsilon=50", "--delta=1e-3",
             "--radius=3e5", self._schema(age=(0, 100), income=(0, 3e5)),
             f"--output_dir={folder}")
    for owner, name, is_charged_again in (
        (load_model, "SavedKMeans", True), (tidy_report, "write_page", False),
    ):
      with mock.patch.object(owner, name, side_effect=KeyboardInterrupt):
        with self.assertRaises(KeyboardInterrupt):
          _run(*flags)
      with self.assertRaisesRegex(launch.InputError, "^`output_dir` must .*budgets add up"):
        _run(*flags, "--overwrite")
      with mock.patch.object(estimator, "fit", wraps=estimator.fit) as fit:
        if is_charged_again:
          with self.assertLogs("absl", "WARNING") as logged:
            _run(*flags, "--resume")
          self.assertRegex(" ".join(logged.output), r"released.* \(50, 0\.001\)")
        else:  # All was released by then.
          _run(*flags, "--resume")
      self.assertEqual(fit.called, is_charged_again)
      shutil.rmtree(folder)

  def test_private_with_cells_that_are_no_numbers(self):
    data, folder = (os.path.join(self.base, name) for name in ("odd", "private_odd"))
    os.makedirs(data)
    for name, text in (
        ("a", "x,y\n1,2\n3,4\n1e300,-inf\n"), ("b", "x,y\n,2\ntall,1\n3,4,5\n"), ("c", ""),
    ):
      with open(os.path.join(data, f"{name}.csv"), "w", encoding="utf-8") as file:
        file.write(text)

    _run(f"--data_dir={data}", "--num_clusters=2", "--epsilon=1", "--delta=1e-3", "--radius=9",
         self._schema(x=(-9, 9), y=(-8, 10)), f"--output_dir={folder}")

    # A missing cell is the middle of its bounds.
    model = load_model.load_model(folder)
    self.assertEqual(model.tables.scaling.fill.tolist(), [0, 1])
    # Later rows are read strictly, but missing cells are filled.
    output = os.path.join(self.base, "odd.csv")
    flags = (f"--run={folder}", f"--data_dir={data}", f"--output={output}")
    with self.assertRaisesRegex(launch.InputError, "a.csv, line 4, column 'x'"):
      in_process.run_predict(*flags)
    for file_name in ("b.csv", "c.csv"):
      os.remove(os.path.join(data, file_name))
    with open(os.path.join(data, "a.csv"), "w", encoding="utf-8") as file:
      file.write("x,y\n1,2\n,8\n")
    self.assertEqual(in_process.run_predict(*flags), f"2 rows of 1 client: {output}\n")
    nearest = [
        np.argmin(np.linalg.norm(model.centroids - point, axis=1)) for point in ((1, 2), (0, 8))
    ]
    self.assertEqual([row["cluster"] for row in _rows(self.base, "odd.csv")], [*map(str, nearest)])
    with self.assertRaisesRegex(launch.InputError, "output"):
      in_process.run_predict(*flags)

  def test_later_files_may_have_another_dialect(self):
    base = self.create_tempdir().full_path
    frame = pd.read_csv(os.path.join(self.data, "west.csv"))
    os.mkdir(os.path.join(base, "data"))
    frame.to_csv(os.path.join(base, "data", "west.csv"), index=False, sep=";", decimal=",")
    schema = os.path.join(base, "schema.json")
    flags = (f"--run={self.folder}", f"--data_dir={base}/data", f"--output={base}/found.csv")
    with self.assertRaisesRegex(launch.InputError, "west.csv, line 1"):
      in_process.run_predict(*flags)
    fields = (schema_lib.Field("income"), schema_lib.Field("age"))
    schema_lib.Schema(fields, delimiter=";", decimal=",").write(schema)
    in_process.run_predict(*flags, f"--schema={schema}")
    self.assertEqual(
        [row["cluster"] for row in _rows(base, "found.csv")],
        [row["cluster"] for row in _of_client(self.folder, "west")],
    )
    who = schema_lib.Field("who", "string")
    for other, named in (
        (schema_lib.Schema(fields[:1]), r"fields\[age\]"),
        (schema_lib.Schema((fields[0], schema_lib.Field("age", minimum=0))), r"fields\[age\]"),
        (schema_lib.Schema((*fields, who), client="who"), "client"),
    ):
      other.write(schema)
      with self.assertRaisesRegex(launch.InputError, named):
        in_process.run_predict(*flags, f"--schema={schema}", "--overwrite")

  def test_the_schema_of_later_files_says_whether_cells_may_be_missing(self):
    base = self.create_tempdir().full_path
    os.mkdir(os.path.join(base, "data"))
    with open(os.path.join(base, "data", "a.csv"), "w", encoding="utf-8") as file:
      file.write("age,income\n,100000\n")
    fields = (schema_lib.Field("age"), schema_lib.Field("income"))
    schema_lib.Schema(fields, missing="mean").write(f"{base}/schema.json")
    flags = (f"--run={self.folder}", f"--data_dir={base}/data", f"--output={base}/found.csv")
    with self.assertRaisesRegex(launch.InputError, "a.csv, line 2, column 'age'"):
      in_process.run_predict(*flags)
    in_process.run_predict(*flags, f"--schema={base}/schema.json")
    self.assertLen(_rows(base, "found.csv"), 1)

  def test_other_data_are_not_resumed(self):
    other = os.path.join(self.base, "other")
    os.makedirs(other)
    with open(os.path.join(other, "north.csv"), "w", encoding="utf-8") as file:
      file.write("age,income\n1,2\n3,4\n5,6\n7,8\n9,0\n")
    with self.assertRaisesRegex(
        launch.InputError, "^`output_dir` must .*same clients"
    ):
      _run(f"--data_dir={other}", "--k_range=2:5", "--standardize", f"--output_dir={self.folder}",
           "--resume")
    changed = os.path.join(self.base, "changed")
    shutil.copytree(self.data, changed)
    with open(os.path.join(changed, "south.csv"), "a", encoding="utf-8") as file:
      file.write("1,2\n")
    with self.assertRaisesRegex(launch.InputError, "`output_dir` must .*same files.* south"):
      _run(f"--data_dir={changed}", "--k_range=2:5", "--standardize",
           f"--output_dir={self.folder}", "--resume")

  def test_a_run_that_was_cut_off_ends_the_same(self):
    whole = pathlib.Path(self.folder)
    for place, (owner, name) in enumerate((
        (estimator, "fit"), (load_model, "SavedKMeans"), (tidy_report, "write_page"),
    )):
      folder = pathlib.Path(self.base, f"cut_off_{place}")
      flags = (*self.flags[:-1], f"--output_dir={folder}")
      really, calls = getattr(owner, name), []

      def stop(*arguments, **options):
        calls.append(arguments)
        if owner is not estimator or len(calls) == 3:
          raise KeyboardInterrupt
        return really(*arguments, **options)

      with mock.patch.object(owner, name, stop), self.assertRaises(KeyboardInterrupt):
        _run(*flags)
      with mock.patch.object(estimator, "fit", wraps=estimator.fit) as fit:
        _run(*flags, "--resume")
      # Two of four numbers of clusters were tried; the best one is fitted again.
      self.assertEqual(fit.call_count, 1 if place else 3)
      names = {path.relative_to(whole) for path in whole.rglob("*") if path.is_file()}
      self.assertEqual(
          names, {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
      )
      for path in names:
        self.assertEqual((whole / path).read_bytes(), (folder / path).read_bytes(), path)


class PaperTest(parameterized.TestCase):
  """A study of two small figures."""

  _FLAGS = ("--figure=rounds,sse", "--seeds=1")

  def setUp(self):
    super().setUp()
    grid = data.grid_name(0.1, 50, 1.0)
    self.enter_context(mock.patch.dict(methods.FIGURES, {
        "rounds": {grid: ("central", "sums", "fkm")}, "sse": {"table iris": ("central", "kfed")},
    }))
    self.base = self.create_tempdir().full_path

  @parameterized.named_parameters(
      ("lost worker", runtime.WorkerLost("gone"), launch.RunFailed),
      ("interrupted", KeyboardInterrupt(), KeyboardInterrupt),
  )
  def test_a_resumed_run_ends_with_the_same_files(self, what, raised):
    whole, resumed = (pathlib.Path(self.base, name) for name in ("whole", "resumed"))
    printed = _run(*self._FLAGS, f"--output_dir={whole}")
    self.assertIn(" of 1 default fits", printed)
    self.assertEndsWith(printed, f"report: {whole}/report.html\n")

    with mock.patch.dict(methods.METHODS, {"fkm": mock.Mock(side_effect=what)}):
      with self.assertRaises(raised):
        _run(*self._FLAGS, f"--output_dir={resumed}")
    _run(*self._FLAGS, f"--output_dir={resumed}", "--resume")

    names = {path.relative_to(whole) for path in whole.rglob("*") if path.is_file()}
    self.assertContainsSubset(
        {"results.csv", "curves.csv", "report.html", "figures/rounds.png", "tables/sse.csv"},
        set(map(str, names)),
    )
    for name in names:
      self.assertEqual((whole / name).read_bytes(), (resumed / name).read_bytes(), name)
    self.assertFalse((resumed / "cells.jsonl").exists())

  def test_what_is_measured(self):
    _run(*self._FLAGS, f"--output_dir={self.base}/out")

    results = pd.read_csv(f"{self.base}/out/results.csv")
    found = results.pivot(index=["data", "method"], columns="metric", values="value")
    self.assertLen(found, 5)
    self.assertEqual(found.loc[("table iris", "kfed"), "rounds"], 1)
    self.assertTrue((found["ari"] > 0.3).all())
    curves = pd.read_csv(f"{self.base}/out/curves.csv")
    last = curves.groupby("method")["value"].last()
    for method in ("sums", "fkm"):
      of_method = found.xs(method, level="method").iloc[0]
      self.assertEqual(last[method], of_method["ari"])
      self.assertEqual((curves["method"] == method).sum(), of_method["rounds"])
    inertia = found["inertia"].unstack("method").iloc[0]
    self.assertBetween(inertia["sums"] / inertia["central"], 0.99, 1.01)


class BadInputTest(parameterized.TestCase):

  _PRIVATE = ("--data_dir={0}", "--num_clusters=2", "--epsilon=1", "--delta=1e-6", "--radius=9",
              "--schema={0}.json")

  def setUp(self):
    super().setUp()
    self.data = self.create_tempdir().full_path
    with open(os.path.join(self.data, "a.csv"), "w", encoding="utf-8") as file:
      file.write("x,y\n1,2\n3,4\n")
    schema_lib.Schema(tuple(
        schema_lib.Field(name, minimum=-9, maximum=9) for name in "xy"
    )).write(f"{self.data}.json")

  @parameterized.named_parameters(
      ("an unknown figure", ("--figure=9",), "`figure` must be one of"),
      ("own data's flag", ("--num_clusters=3",),
       "`num_clusters` must be left out without --data_dir"),
      ("a figure of own data", ("--data_dir={}", "--figure=sse"), "`figure` must be left out with"),
      ("no range", ("--data_dir={}", "--k_range=2-4"),
       "`k_range` must be two numbers such as 2:10"),
      ("too many clusters", ("--data_dir={}", "--num_clusters=5"),
       "`num_clusters` must be at most the 2 points"),
      ("restarts of the default", ("--data_dir={}", "--num_clusters=2", "--n_init=3"),
       "`n_init` must be left out with `algorithm`='sums', got 3."),
      ("privacy without own data", ("--epsilon=1",),
       "`epsilon` must be left out without --data_dir"),
      ("a range of private fits", ("--data_dir={0}", "--k_range=2:3", "--epsilon=1", _PRIVATE[-1]),
       "`k_range` must be left out with `epsilon`, got (2, 3)."),
      ("no radius", (*_PRIVATE[:4], _PRIVATE[-1]),
       "`radius` must be given with `epsilon`, got None."),
      ("no epsilon", ("--data_dir={}", "--num_clusters=2", "--max_points=4"),
       "`max_points` must be left out without `epsilon`, got 4."),
      ("no schema of a private fit", _PRIVATE[:-1], "`schema` must be given with `epsilon`"),
      ("a column of one file", ("--data_dir={}/.more",), "b.csv, line 1, column 'z'"),
      ("a table's flag without own data", ("--exclude=x",),
       "`exclude` must be left out without --data_dir"),
      ("no folder", ("--data_dir=/no/such",), "/no/such"),
      ("a bad cell", ("--data_dir={}/.bad",), "b.csv, line 3, column 'x'"),
      ("a bad cell, and what helps", ("--data_dir={}/.bad", "--exclude=y"),
       " --exclude=y --output=schema.json"),
      ("a schema and columns", (*_PRIVATE, "--exclude=y"), "exclude"),
      ("a column of another table", ("--data_dir={}", "--client_column=who"), "client"),
      ("no clients", ("--min_clients=1",), "`min_clients` must be left out without --data_dir"),
      ("the server adds the noise", (*_PRIVATE, "--min_clients=1"),
       "`min_clients` must be left out with `trust`='server', got 1."),
      ("more shares than clients", (*_PRIVATE, "--trust=none", "--min_clients=2"),
       "`min_clients` must be at most the 1 clients, got 2."),
      ("data of another figure", ("--figure=sse", "--dataset=emnist"),
       "`dataset` must be left out without the figure `real`"),
  )
  def test_is_refused(self, arguments, message):
    for name, text in (
        (".bad/b", "x,y\n1,2\nthree,4\n"), (".more/a", "x\n1\n2\n"), (".more/b", "x,z\n1,2\n3,4\n"),
    ):
      path = os.path.join(self.data, f"{name}.csv")
      os.makedirs(os.path.dirname(path), exist_ok=True)
      with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    out = os.path.join(self.create_tempdir().full_path, "out")
    with self.assertRaises(launch.InputError) as raised:
      _run(*(a.format(self.data) for a in arguments), f"--output_dir={out}")
    self.assertIn(message, str(raised.exception))
    self.assertFalse(os.path.exists(out))

  def test_ids_may_be_what_no_file_can_be_called(self):
    ids = ("../up", "a/b", ".hidden", "50%", "Österbotten 1", "x" * 300, "y" * 300)
    with open(os.path.join(self.data, "all.csv"), "w", encoding="utf-8") as file:
      file.write("who,x\n" + "".join(f"{i},{n}\n" for n, i in enumerate((*ids, *ids))))
    os.remove(os.path.join(self.data, "a.csv"))
    out = os.path.join(self.create_tempdir().full_path, "out")
    _run(
        f"--data_dir={self.data}", "--client_column=who", "--num_clusters=2", f"--output_dir={out}"
    )
    self.assertCountEqual({row["client"] for row in _rows(out, "clusters.csv")}, ids)

  def test_ends_a_process_with_one_line_and_code_2(self):
    result = _run_process("experiments.federated_kmeans", "--figure=9", "--output_dir=/x")
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertRegex(result.stderr, r"^error: `figure` must be one of .*\n$")


if __name__ == "__main__":
  absltest.main()
