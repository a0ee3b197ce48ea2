"""Runs the program as a user does, on rows and on views; its files are read."""

import contextlib
import json
import os
import shutil
import tempfile
from unittest import mock

from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiment_shell import launch
from experiment_shell import tidy_report
from experiments import report
from experiments.cluster_tables import __main__ as cluster_tables
from fl_clustering import fits
from fl_clustering import load_model
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views
from tests import nightly
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder

_GROUPS = np.array([(20.0, 1e5), (50.0, 2e5), (80.0, 1e5)])


def _run(*arguments):
  """Runs the program in this process; returns what it prints."""
  return in_process.run_main(cluster_tables.main, *arguments)


def _write(folder, **tables):
  os.makedirs(folder, exist_ok=True)
  for name, text in tables.items():
    with open(os.path.join(folder, f"{name}.csv"), "w", encoding="utf-8") as file:
      file.write(text)


def _numbers(rows, *names):
  return np.array([[float(row[name]) for name in names] for row in rows])


class _ProgramTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.temporary = self.create_tempdir().full_path
    self.data = os.path.join(self.temporary, "data")
    self.out = os.path.join(self.temporary, "out")

  def _refused(self, message):
    return self.assertRaisesRegex(launch.InputError, message)

  def _schema(self, *fields, **options):
    """Writes a schema; returns the flag that names it."""
    path = os.path.join(self.temporary, "schema.json")
    schema_lib.Schema(fields, **options).write(path)
    return f"--schema={path}"


class RowsTest(_ProgramTest):
  """A practitioner's three hospitals, with three groups in columns of very different size."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    base = os.path.realpath(cls.enterClassContext(tempfile.TemporaryDirectory()))
    cls.hospitals = os.path.join(base, "data")
    rng = np.random.default_rng(0)
    cls.groups, cls.points = {}, {}
    for name in ("north", "south", "west"):
      cls.groups[name] = rng.integers(3, size=60)
      noise = np.array([2.0, 5e3]) * rng.standard_normal((60, 2))
      frame = pd.DataFrame(_GROUPS[cls.groups[name]] + noise, columns=["age", "income"])
      cls.points[name] = frame.to_numpy()
      _write(cls.hospitals, **{name: frame.to_csv(index=False)})
    cls.folder = os.path.join(base, "out")
    cls.flags = (f"--data_dir={cls.hospitals}", "--k_range=2:5", "--standardize")
    cls.printed = _run(*cls.flags, f"--output_dir={cls.folder}")

  def _clusters(self, client=None):
    rows = run_folder.rows(self.folder, "clusters.csv")
    return [int(row["cluster"]) for row in rows if client in (None, row["client"])]

  def _check_same_file(self, name, other, other_name=None):
    """Checks that a file of another folder is that of the run."""
    self.assertEqual(
        run_folder.read(other, other_name or name), run_folder.read(self.folder, name)
    )

  def _bounded(self):
    return self._schema(
        schema_lib.Field("age", minimum=0, maximum=100),
        schema_lib.Field("income", minimum=0, maximum=3e5),
    )

  def test_what_it_leaves_and_prints(self):
    self.assertCountEqual(os.listdir(self.folder), [
        "centroids.csv", "cluster_sizes.csv", "clusters.csv", "config.json", "figures", "model",
        "profiles.csv", "report.html", "results.csv", "rounds.csv", "summary.json", "tables",
    ])
    self.assertCountEqual(
        os.listdir(os.path.join(self.folder, "figures")), ["profiles.png", "selection.png"]
    )
    self.assertRegex(self.printed, r"\nClusters: 3, .*\n")
    document = json.loads(run_folder.read(self.folder, "config.json"))
    self.assertEqual(document["inputs"]["rows"], dict.fromkeys(self.groups, 60))
    self.assertEqual(document["experiment"], "cluster_tables")
    self.assertTrue(document["config"]["standardize"])
    rows = run_folder.rows(self.folder, "tables/selection.csv")
    self.assertEqual([row["num_clusters"] for row in rows], ["2", "3", "4", "5"])
    self.assertEqual([row["verdict"] for row in rows][1], "best")
    before = run_folder.times(self.folder)
    again = _run(*self.flags, f"--output_dir={self.folder}", "--resume")
    self.assertIn("finished", again)
    self.assertEqual(run_folder.times(self.folder), before)

  def test_a_group_is_one_cluster_at_all_clients_with_its_means_and_profile(self):
    clusters = np.array(self._clusters())
    groups = np.concatenate(list(self.groups.values()))
    self.assertLen(set(zip(groups, clusters)), 3)
    rows = run_folder.rows(self.folder, "clusters.csv")
    self.assertEqual([int(row["row"]) for row in rows], 3 * list(range(1, 61)))
    points = np.concatenate(list(self.points.values()))
    for k, row in enumerate(run_folder.rows(self.folder, "centroids.csv")):
      own = points[clusters == k]
      found = [float(row[name]) for name in ("num_points", "age", "income")]
      np.testing.assert_allclose(found, [len(own), *own.mean(axis=0)], rtol=1e-12)
      profiles = {row["feature"]: float(row["standard_deviation"])
                  for row in run_folder.rows(self.folder, "profiles.csv")
                  if row["cluster"] == str(k)}
      np.testing.assert_allclose([profiles["age"], profiles["income"]], own.std(axis=0), rtol=1e-6)
    (fit,) = run_folder.rows(self.folder, "tables/fit.csv")
    self.assertAlmostEqual(float(fit["explained"]), 1 - float(fit["inertia"]) / points.size)

  def test_predictions_are_the_clusters(self):
    path = os.path.join(self.temporary, "found.csv")
    printed = in_process.run_predict(
        f"--run={self.folder}", f"--data_dir={self.hospitals}", f"--output={path}"
    )
    self.assertEqual(printed, f"180 rows of 3 clients: {path}\n")
    self._check_same_file("clusters.csv", self.temporary, "found.csv")
    # A link is there, even if what it leads to is not.
    link, nowhere = (os.path.join(self.temporary, name) for name in ("link", "nowhere"))
    os.symlink(nowhere, link)
    with self._refused("`output`"):
      in_process.run_predict(
          f"--run={self.folder}", f"--data_dir={self.hospitals}", f"--output={link}"
      )
    self.assertFalse(os.path.exists(nowhere))
    model = load_model.load_model(self.folder)
    frame = pd.read_csv(os.path.join(self.hospitals, "west.csv"))
    frame.insert(0, "name", "x")
    found = model.predict(frame[["income", "name", "age"]])
    self.assertEqual(found.tolist(), self._clusters("west"))
    with self.assertRaisesRegex(ValueError, "'age'"):
      model.predict(frame[["income"]])

  def test_distances_and_rows_that_are_far_from_all(self):
    rows = run_folder.rows(self.folder, "clusters.csv")
    self.assertEqual({row["far_from_all"] for row in rows}, {"False"})
    farthest = max(float(row["distance"]) for row in rows)
    points = np.concatenate(list(self.points.values()))
    centers = _numbers(run_folder.rows(self.folder, "centroids.csv"), "age", "income")
    later = centers[0] + points.std(axis=0) * [[0, 0], [0, 0.9 * farthest], [0, -50 * farthest]]
    _write(self.data, a="age,income\n" + "".join(f"{age},{income}\n" for age, income in later))
    path = os.path.join(self.temporary, "found.csv")
    printed = in_process.run_predict(
        f"--run={self.folder}", f"--data_dir={self.data}", f"--output={path}"
    )
    self.assertStartsWith(printed, "note: far from all centers: 1 ")
    found = run_folder.rows(self.temporary, "found.csv")
    self.assertEqual([row["far_from_all"] for row in found], ["False", "False", "True"])
    offsets = (later[:, np.newaxis] - centers) / points.std(axis=0)
    expected = np.linalg.norm(offsets, axis=2).min(axis=1)
    np.testing.assert_allclose(_numbers(found, "distance")[:, 0], expected, rtol=1e-4, atol=1e-4)
    # One row's number is not in the model.
    kept = json.loads(run_folder.read(self.folder, "model/model.json"))["farthest"]
    self.assertAlmostEqual(2 * np.log2(kept) % 1, 0)
    self.assertBetween(kept, farthest, 1.42 * farthest)

  def test_says_what_the_numbers_alone_would_choose_and_what_is_filled_in(self):
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
      groups = rng.integers(3, size=90)
      frame = pd.DataFrame(_GROUPS[groups] + [2, 5e3] * rng.standard_normal((90, 2)))
      frame.columns = ["age", "income"]
      frame["sex"] = np.array(["f", "m"])[rng.integers(2, size=90)]
      frame["kind"] = np.array(["child", "worker", "retired"])[groups]
      # The mean of all ages is that of this group.
      frame.loc[np.flatnonzero(groups == 1)[:5], "age"] = np.nan
      _write(self.data, **{name: frame.to_csv(index=False)})
    schema = self._schema(
        schema_lib.Field("age"), schema_lib.Field("income"),
        schema_lib.Field("sex", "string", enum=("f", "m")), schema_lib.Field("kind", "string"),
        label="kind", missing="mean",
    )
    _run(f"--data_dir={self.data}", "--k_range=3:6", "--standardize", schema,
         f"--output_dir={self.out}")
    (headline,) = run_folder.rows(self.out, "tables/headline.csv")
    self.assertEqual(
        [headline[name] for name in ("verdict", "clusters", "numbers")], ["levels", "6", "3"]
    )
    fields = run_folder.rows(self.out, "tables/fields.csv")
    self.assertCountEqual([row["field"] for row in fields], ["age", "income", "sex"])
    self.assertAlmostEqual(sum(float(row["contribution"]) for row in fields), 1)
    # Six clusters, of one sex and one kind each.
    (score,) = _numbers(run_folder.rows(self.out, "tables/scores.csv"), "nmi", "ari")
    self.assertBetween(score.min(), 0.4, 1)
    counts = pd.read_csv(f"{self.out}/classes.csv").pivot(index="cluster", columns="class")
    self.assertLess((counts > 5).sum(axis=1).max(), 2)
    (filled_in,) = run_folder.rows(self.out, "tables/filled_in.csv")
    self.assertEqual((filled_in["column"], filled_in["cells"]), ("age", "10"))

  def test_centers_that_stand_on_few_rows_are_told(self):
    _write(self.data, a="x,y\n" + 6 * "1,2\n" + 3 * "3,4\n")
    with self.assertLogs("absl", "WARNING") as told:
      _run(f"--data_dir={self.data}", "--num_clusters=2", f"--output_dir={self.out}")
    self.assertRegex(" ".join(told.output), "fewer than 5 points: 1 of 2")
    (row,) = run_folder.rows(self.out, "tables/few_points.csv")
    self.assertEqual(row, {"centers": "1", "of": "2"})

  def test_private(self):
    flags = (f"--data_dir={self.hospitals}", "--num_clusters=3", "--epsilon=50", "--delta=1e-3",
             self._bounded(), "--trust=none", "--min_clients=2",
             f"--output_dir={self.out}")
    self.assertRegex(_run(*flags), r"\nClusters: 3, \(50, 0.001\)-")
    self.assertCountEqual(os.listdir(self.out), [
        "centroids.csv", "config.json", "figures", "guarantee.csv", "model", "report.html",
        "results.csv", "rounds.csv", "summary.json", "tables",
    ])
    self.assertCountEqual(
        os.listdir(os.path.join(self.out, "tables")),
        ["centroids.csv", "guarantee.csv", "headline.csv", "leaves.csv", "warnings.csv"],
    )
    self.assertEmpty(os.listdir(os.path.join(self.out, "figures")))
    inputs = json.loads(run_folder.read(self.out, "config.json"))["inputs"]
    self.assertEqual(inputs, {"clients": {"north": 0, "south": 1, "west": 2}})
    stated = {row["name"]: row["value"] for row in run_folder.rows(self.out, "guarantee.csv")}
    self.assertEqual((stated["trust"], stated["min_clients"]), ("none", "2"))
    self.assertStartsWith(stated["noise"], "secure")
    metrics = [row["metric"] for row in run_folder.rows(self.out, "results.csv")]
    self.assertEqual(metrics, ["rounds", "epsilon", "mu_spent"])
    self.assertNotIn("inertia", {row["metric"] for row in run_folder.rows(self.out, "rounds.csv")})
    rows = run_folder.rows(self.out, "centroids.csv")
    self.assertEqual([list(row) for row in rows], [[
        "cluster", "noisy_count", "count_sd", "age", "income", "noise_sd of age",
        "noise_sd of income",
    ]] * 3)
    model = load_model.load_model(self.out)
    for name, unit in (("age", 50), ("income", 1.5e5)):
      values, noise_sd = (
          _numbers(rows, f"{prefix}{name}")[:, 0] for prefix in ("", "noise_sd of ")
      )
      # As far from a group's mean as cut residuals allow: the noise is secure, of a deviation of
      # .0004, and adds .08 less than once in 10^14 runs.
      for group in _GROUPS[:, ("age", "income").index(name)]:
        self.assertLess(abs(values - group).min(), 0.1 * unit)
      self.assertBetween(noise_sd.min() / unit, 1e-4, 0.02)
      np.testing.assert_allclose(
          model.noise.noise_sd[:, ("age", "income").index(name)], noise_sd, rtol=1e-9
      )
    sizes = np.bincount(np.concatenate([*self.groups.values()]))
    # The noise is secure: that of three counts exceeds 8 deviations once in 10^14 runs.
    noisy_counts, count_sd = (_numbers(rows, name)[:, 0] for name in ("noisy_count", "count_sd"))
    self.assertLess((np.abs(np.sort(noisy_counts) - np.sort(sizes)) / count_sd).max(), 8)
    self.assertIn(" ± ", run_folder.read(self.out, "report.html"))
    # Of a row out of bounds, the cluster is that of the row that the fit made of it.
    ages, incomes = [-9.0, 0.0, np.nan, 50.0], [4e9, 3e5, 1e5, 1e5]
    far, near, lacking, middle = model.predict(pd.DataFrame({"age": ages, "income": incomes}))
    self.assertEqual((far, lacking), (near, middle))
    with self.assertRaisesRegex(ValueError, "'age'"):
      model.predict(pd.DataFrame({"age": ["old"], "income": [1e5]}))
    ((_, _, predicted), *_) = model.predict_tables(model.tables.open_folder(self.hospitals))
    self.assertEqual(list(predicted), ["cluster", "distance"])
    before = run_folder.files(self.out)
    in_process.run_main(report.main, f"--run={self.out}")
    self.assertIn("finished", _run(*flags, "--resume"))
    with self._refused("`output_dir` .*budgets"):
      _run(*flags, "--overwrite")
    self.assertEqual(run_folder.files(self.out), before)
    os.remove(os.path.join(self.out, "centroids.csv"))
    with self._refused("centroids"):
      _run(*flags, "--resume")

  @parameterized.parameters(
      (load_model.SavedKMeans, "of_fit", True), (tidy_report, "write_page", False)
  )
  def test_an_interrupted_private_run_is_charged_again_and_not_overwritten(
      self, owner, name, is_charged_again
  ):
    flags = (f"--data_dir={self.hospitals}", "--num_clusters=3", "--epsilon=50", "--delta=1e-3",
             self._bounded(), f"--output_dir={self.out}")
    with mock.patch.object(owner, name, side_effect=KeyboardInterrupt):
      with self.assertRaises(KeyboardInterrupt):
        _run(*flags)
    with self._refused("`output_dir` .*budgets"):
      _run(*flags, "--overwrite")
    logged = self.assertLogs("absl", "WARNING") if is_charged_again else contextlib.nullcontext()
    with mock.patch.object(fits, "fit", wraps=fits.fit) as fit, logged as told:
      _run(*flags, "--resume")
    self.assertEqual(fit.called, is_charged_again)
    stated = [row["name"] for row in run_folder.rows(self.out, "guarantee.csv")]
    self.assertEqual("interrupted" in stated, is_charged_again)
    if is_charged_again:
      self.assertRegex(" ".join(told.output), r"\(50, 0\.001\)")
    os.remove(os.path.join(self.out, "report.html"))  # Nothing says now where it would go on.
    before = run_folder.files(self.out)
    with mock.patch.object(fits, "fit") as fit, self._refused("`output_dir` .*budgets"):
      _run(*flags, "--resume")
    fit.assert_not_called()
    self.assertEqual(run_folder.files(self.out), before)
    # Whatever is left of it.
    for name in ("config.json", "model", "figures", "tables", *before):
      path = os.path.join(self.out, name)
      if os.path.isdir(path):
        shutil.rmtree(path)
      elif os.path.exists(path):
        os.remove(path)
      if os.listdir(self.out):
        for how in ("--resume", "--overwrite"):
          with self._refused("`output_dir` .*budgets"):
            _run(*flags, how)

  @parameterized.parameters(("east", "clients"), ("south", "south"))
  def test_other_data_are_not_resumed(self, name, named):
    shutil.copytree(self.hospitals, self.data)
    _write(self.data, **{name: "age,income\n1,2\n3,4\n"})
    with self._refused(f"`output_dir` .*{named}"):
      _run(f"--data_dir={self.data}", *self.flags[1:], f"--output_dir={self.folder}", "--resume")

  @parameterized.parameters((fits, "fit", 3),
                            (load_model.SavedKMeans, "of_fit", 1), (tidy_report, "write_page", 1))
  def test_a_run_that_was_cut_off_ends_the_same(self, owner, name, num_fits):
    # By day, in the middle of a cell; `tidy_experiment_test` stops a run between and after them.
    nightly.skip_by_day(self, owner is not fits)
    flags = (*self.flags, f"--output_dir={self.out}")
    really, calls = getattr(owner, name), []

    def stop(*arguments, **options):
      calls.append(arguments)
      if owner is not fits or len(calls) == 3:
        raise KeyboardInterrupt
      return really(*arguments, **options)

    with mock.patch.object(owner, name, stop), self.assertRaises(KeyboardInterrupt):
      _run(*flags)
    with mock.patch.object(fits, "fit", wraps=fits.fit) as fit:
      _run(*flags, "--resume")
    # Two of four numbers of clusters were tried; the best one is fitted again.
    self.assertEqual(fit.call_count, num_fits)
    self.assertEqual(run_folder.files(self.out), run_folder.files(self.folder))


class ViewsTest(_ProgramTest):
  """Two sites with 50 rows of three classes, as an array and as text with a key."""

  _CLASSES = np.array(["bird", "cat", "dog"])
  _DIALECT = {"sep": ";", "decimal": ","}

  def setUp(self):
    super().setUp()
    rng = np.random.default_rng(0)
    self.kinds = []
    for site, size in (("north", 30), ("south", 20)):
      path = os.path.join(self.data, site)
      os.makedirs(path)
      labels = rng.integers(3, size=size)
      ids = [f"{site[0]}{i}" for i in range(size)]
      x = 9 * np.eye(3)[labels] + rng.random((size, 3))
      pd.DataFrame({"key": ids, "u": x[:, 0], "v": x[:, 1], "w": x[:, 2]}).to_parquet(
          os.path.join(path, "x.parquet")
      )
      frame = pd.DataFrame({"key": ids, "pay": 1e4 * (9 * labels + rng.random(size)), "flat": 5})
      # Another order of the rows and the columns at each site.
      frame = frame if site == "north" else frame.iloc[::-1, ::-1]
      frame.to_csv(os.path.join(path, "y.csv"), index=False, **self._DIALECT)
      pd.DataFrame({"key": ids, "kind": self._CLASSES[labels]}).to_csv(
          os.path.join(path, "labels.csv"), index=False
      )
      self.kinds += self._CLASSES[labels].tolist()

  def _schemas(self, key="key", **bounds):
    """Writes what the views hold; returns the flag that names the file."""
    def numbers(*names):
      own = tuple(schema_lib.Field(name, **bounds) for name in names)
      return own if key is None else (schema_lib.Field(key, "string"), *own)

    path = os.path.join(self.temporary, "schemas.json")
    views.write({
        "x": schema_lib.Schema(numbers("u", "v", "w"), key=key),
        "y": schema_lib.Schema(numbers("pay", "flat"), key=key, delimiter=";", decimal=","),
    }, path)
    return f"--schema={path}"

  def test_clusters_of_views_with_known_classes(self):
    flags = (f"--data_dir={self.data}", self._schemas(), "--num_clusters=3", "--seed=1")
    printed = _run(*flags, f"--output_dir={self.out}")
    self.assertRegex(printed, "\nClusters: 3, as asked for")
    self.assertCountEqual(os.listdir(self.out), [
        "centroids.csv", "classes.csv", "cluster_sizes.csv", "clusters.csv", "config.json",
        "figures", "model", "profiles.csv", "report.html", "results.csv", "rounds.csv",
        "summary.json", "tables",
    ])
    self.assertCountEqual(
        os.listdir(os.path.join(self.out, "figures")), ["confusion.png", "profiles.png"]
    )
    rows = run_folder.rows(self.out, "clusters.csv")
    self.assertEqual(
        [(row["client"], row["row"], row["id"]) for row in rows],
        [(site, str(i + 1), f"{site[0]}{i}") for site, size in (("north", 30), ("south", 20))
         for i in range(size)],
    )
    clusters = [int(row["cluster"]) for row in rows]
    self.assertLen(set(zip(self.kinds, clusters)), 3)
    scores = run_folder.rows(self.out, "tables/scores.csv")
    np.testing.assert_allclose(_numbers(scores, "nmi", "ari"), [[1, 1]])
    counts = {(row["class"], int(row["cluster"])): int(row["rows"])
              for row in run_folder.rows(self.out, "classes.csv")}
    self.assertLen(counts, 9)
    self.assertEqual(sum(counts.values()), 50)
    # Each view has a total variance of one, and one of its two fields is constant in y.
    fields = {row["field"]: row for row in run_folder.rows(self.out, "tables/fields.csv")}
    self.assertCountEqual(fields, ["x: u", "x: v", "x: w", "y: pay"])
    parts = {name: float(row["contribution"]) for name, row in fields.items()}
    self.assertAlmostEqual(sum(parts.values()), 1)
    self.assertBetween(parts["y: pay"], 0.45, 0.55)
    weights = run_folder.rows(self.out, "tables/weights.csv")
    self.assertEqual([tuple(row.values()) for row in weights], [("x", "0.5"), ("y", "0.5")])
    path = os.path.join(self.temporary, "found.csv")
    in_process.run_predict(f"--run={self.out}", f"--data_dir={self.data}", f"--output={path}")
    self.assertEqual(
        run_folder.read(self.temporary, "found.csv"), run_folder.read(self.out, "clusters.csv")
    )
    south = os.path.join(self.data, "south")
    found = load_model.load_model(self.out).predict({
        "x": pd.read_parquet(os.path.join(south, "x.parquet")),
        "y": pd.read_csv(os.path.join(south, "y.csv"), **self._DIALECT).iloc[::-1],
    })
    self.assertEqual(found.tolist(), clusters[30:])
    labels = os.path.join(south, "labels.csv")
    pd.read_csv(labels).assign(kind="cat").to_csv(labels, index=False)
    with self._refused("`output_dir` .*south/labels"):
      _run(*flags, f"--output_dir={self.out}", "--resume")

  def test_private_views_show_nothing_but_centers_and_weights(self):
    _run(
        f"--data_dir={self.data}", self._schemas(key=None, minimum=0, maximum=1e5),
        "--view_norms=2,1.5", "--num_clusters=2", "--epsilon=50", "--delta=1e-3",
        "--view_weights=mvkm", f"--output_dir={self.out}",
    )
    self.assertCountEqual(os.listdir(self.out), [
        "centroids.csv", "config.json", "figures", "guarantee.csv", "model", "report.html",
        "results.csv", "rounds.csv", "summary.json", "tables",
    ])
    metrics = [row["metric"] for row in run_folder.rows(self.out, "results.csv")]
    self.assertEqual(
        metrics, ["rounds", "weight of x", "weight of y", "epsilon", "mu_spent"]
    )
    self.assertEqual(load_model.load_model(self.out).model.view_norms, [2, 1.5])

  @parameterized.parameters(
      ("`client_column`", "--client_column=u"), ("exclude", "--exclude=t"),
      ("/no/such", "--schema=/no/such"), ("`num_clusters`", "--row_key=key"),
      ("`k_range`", "--row_key=key", "--k_range=2:3"),
      ("north/x.parquet, row 1, column 'key'.*drafts a schema", "--num_clusters=3"),
      ("`num_clusters`", "--row_key=key", "--num_clusters=51"),
      ("`alpha`", "--row_key=key", "--num_clusters=3", "--alpha=3"),
      # It is the same everywhere.
      ("`data_dir`.*'y'", "--row_key=key", "--exclude=pay", "--num_clusters=3"),
      ("'south'", "--row_key=key", "--num_clusters=3", "without y"),
  )
  def test_refuses(self, message, *flags):
    for site in ("north", "south"):
      path = os.path.join(self.data, site, "y.csv")
      pd.read_csv(path, **self._DIALECT).to_csv(path, index=False)
    if "without y" in flags:
      os.remove(os.path.join(self.data, "south", "y.csv"))
    flags = [flag for flag in flags if flag.startswith("--")]
    with self._refused(f"^[^\n]*{message}[^\n]*$"):
      _run(f"--data_dir={self.data}", *flags, f"--output_dir={self.out}")
    self.assertFalse(os.path.exists(self.out))


class BadInputTest(_ProgramTest):

  _OWN = "--data_dir={0}/a"
  _PRIVATE = (_OWN, "--num_clusters=2", "--epsilon=1", "--delta=1e-6", "--schema={0}/schema.json")

  @parameterized.parameters(
      (("--num_clusters=3",), "`data_dir`"), ((_OWN, "--k_range=2-4"), "`k_range`"),
      ((_OWN, "--k_range=2:2:9"), "`k_range`"), ((_OWN, "--num_clusters=5"), "`num_clusters`"),
      ((*_PRIVATE, "--view_norms=1,x"), "`view_norms`"),
      (_PRIVATE[:-1], "`schema`"),
      ((*_PRIVATE, "--max_points=2", "--public_num_points=9"), "`public_num_points`"),
      ((*_PRIVATE[:-1], "--schema={0}/unbounded.json"), "`radius`"),
      ((*_PRIVATE[:-1], "--schema={0}/far.json", "--radius=1.75"), "`radius`"),
      (("--federation={0}/agreed.json", "--num_clusters=2", "--kit={0}"), "`schema`"),
      (("--federation={0}/agreed.json", "--num_clusters=2", "--schema={0}/schema.json"), "`kit`"),
      (("--data_dir=/no/such",), "/no/such"),
      (("--data_dir={0}/bad",), "b.csv, line 3, column 'x'"),
      ((*_PRIVATE, "--exclude=y"), "exclude"),
      ((*_PRIVATE, "--trust=none", "--min_clients=2"), "`min_clients`"),
  )
  def test_is_refused(self, arguments, message):
    _write(f"{self.data}/a", a="x,y\n1,2\n3,4\n")
    _write(f"{self.data}/bad", b="x,y\n1,2\nthree,4\n")
    schema_lib.Schema(tuple(
        schema_lib.Field(name, minimum=-9, maximum=9) for name in "xy"
    )).write(f"{self.data}/schema.json")
    schema_lib.Schema((schema_lib.Field("x", center=0, scale=1),)).write(
        f"{self.data}/unbounded.json"
    )
    schema_lib.Schema((schema_lib.Field("x", minimum=80, maximum=90, center=0, scale=40),)).write(
        f"{self.data}/far.json"
    )
    with self._refused(message):
      _run(*(a.format(self.data) for a in arguments), f"--output_dir={self.out}")
    self.assertFalse(os.path.exists(self.out))
