"""Tests of the multi-view program, on a few points in files."""

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
import pandas as pd

from experiment_shell import launch
from experiments import multi_view
from experiments import report
from experiments.multiview import comparison
from fl_clustering import load_model
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views
from tests.experiment_shell import in_process

_SMALL = ("--seeds=2", "--n_init=1", "--num_rounds=5")


_CLASSES = np.array(["bird", "cat", "dog"])


def _write_schemas(folder):
  """Writes what the views hold; returns the flag that names the file."""
  def numbers(*names):
    return (schema_lib.Field("key", "string"), *map(schema_lib.Field, names))

  path = os.path.join(folder, "schemas.json")
  with open(path, "w", encoding="utf-8") as file:
    json.dump(views.to_json({
        "x": schema_lib.Schema(numbers("u", "v", "w"), key="key"),
        "y": schema_lib.Schema(numbers("pay", "flat"), key="key", delimiter=";", decimal=","),
    }), file)
  return f"--schema={path}"


def _write_sites(folder, labelled=True, plain=False):
  """Writes 50 rows of three classes at two sites: as an array, and as text with an id."""
  rng = np.random.default_rng(0)
  for site, size in (("north", 30), ("south", 20)):
    site_folder = os.path.join(folder, site)
    os.makedirs(site_folder)
    labels = rng.integers(3, size=size)
    ids = [f"{site[0]}{i}" for i in range(size)]
    x = 9 * np.eye(3)[labels] + rng.random((size, 3))
    pd.DataFrame({"key": ids, "u": x[:, 0], "v": x[:, 1], "w": x[:, 2]}).to_parquet(
        os.path.join(site_folder, "x.parquet")
    )
    y = 1e4 * (9 * labels + rng.random(size))
    frame = pd.DataFrame({"key": ids, "pay": y, "flat": 5})
    # Another order of the columns at each site.
    frame = frame if site == "north" else frame[frame.columns[::-1]]
    dialect = {} if plain else {"sep": ";", "decimal": ","}
    frame.to_csv(os.path.join(site_folder, "y.csv"), index=False, **dialect)
    if labelled:
      pd.DataFrame({"key": ids, "kind": _CLASSES[labels]}).to_csv(
          os.path.join(site_folder, "labels.csv"), index=False
      )


def _run(output, *arguments):
  return in_process.run_main(multi_view.main, f"--output_dir={output}", *arguments)


def _read(folder, name):
  with open(os.path.join(folder, name), "rb") as file:
    return file.read()


def _rows(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
    return list(csv.DictReader(file))


class SitesTest(absltest.TestCase):
  """One run on sites with labels; its files are read, and it is cut off and resumed."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.sites = os.path.join(temporary.name, "sites")
    _write_sites(cls.sites)
    cls.base = temporary.name
    cls.output = os.path.join(temporary.name, "out")
    cls.flags = (f"--data_dir={cls.sites}", _write_schemas(cls.base), *_SMALL)
    cls.printed = _run(cls.output, *cls.flags)

  def test_prints_scores_and_where_the_report_is(self):
    self.assertRegex(
        self.printed, r"equal weights +federated +1\.000 ± 0\.000 +1\.000 ± 0\.000"
    )
    self.assertEndsWith(self.printed, f"\nreport: {self.output}/report.html\n")

  def test_leaves_results_and_nothing_else(self):
    self.assertCountEqual(
        os.listdir(self.output),
        ["centroids.csv", "cluster_sizes.csv", "clusters.csv", "config.json", "figures", "model",
         "points.csv", "profiles.csv", "report.html", "results.csv", "rounds.csv", "summary.json",
         "tables", "view_weights.csv"],
    )
    self.assertCountEqual(
        os.listdir(os.path.join(self.output, "figures")),
        ["confusion.png", "objectives.png", "profiles.png", "weights.png"],
    )

  def _labels(self):
    return [
        (site, row["kind"]) for site in ("north", "south")
        for row in _rows(os.path.join(self.sites, site), "labels.csv")
    ]

  def test_every_row_has_its_cluster_and_id(self):
    rows = _rows(self.output, "clusters.csv")
    self.assertEqual(
        [(row["client"], row["row"], row["id"]) for row in rows],
        [(site, str(i + 1), f"{site[0]}{i}") for site, size in (("north", 30), ("south", 20))
         for i in range(size)],
    )
    pairs = {(kind, row["cluster"]) for (_, kind), row in zip(self._labels(), rows)}
    self.assertLen(pairs, 3)

  def test_the_clusters_are_those_of_equal_weights_and_the_first_seed(self):
    def measured(name):
      return [
          row for row in _rows(self.output, name) if row["method"] == "equal" and row["seed"] == "0"
      ]

    clusters = [int(row["cluster"]) for row in _rows(self.output, "clusters.csv")]
    kinds = [list(_CLASSES).index(kind) for _, kind in self._labels()]
    counts = np.zeros((3, 3), int)
    np.add.at(counts, (kinds, clusters), 1)
    self.assertEqual([int(row["value"]) for row in measured("points.csv")], counts.ravel().tolist())
    saved = load_model.load_model(self.output).model
    self.assertEqual(
        [float(row["value"]) for row in measured("view_weights.csv")],
        saved.on_grid.view_weights.tolist(),
    )

  def test_centroids_and_profiles_are_in_the_datas_units(self):
    clusters = [int(row["cluster"]) for row in _rows(self.output, "clusters.csv")]
    pay = np.concatenate([
        pd.read_csv(os.path.join(self.sites, site, "y.csv"), sep=";", decimal=",")["pay"]
        for site in ("north", "south")
    ])
    means = np.array([pay[np.array(clusters) == k].mean() for k in range(3)])
    rows = _rows(self.output, "centroids.csv")
    self.assertEqual(
        list(rows[0]),
        ["cluster", "num_points", "x: u", "x: v", "x: w", "y: pay", "y: flat"],
    )
    self.assertEqual([int(row["num_points"]) for row in rows], np.bincount(clusters).tolist())
    # Centroids are means that are weighted by a kernel, so they are near the profiles' means.
    np.testing.assert_allclose([float(row["y: pay"]) for row in rows], means, atol=2e3)
    self.assertEqual({row["y: flat"] for row in rows}, {"5.0"})
    profiles = {
        int(row["cluster"]): float(row["mean"]) for row in _rows(self.output, "profiles.csv")
        if row["feature"] == "y: pay"
    }
    np.testing.assert_allclose([profiles[k] for k in range(3)], means, rtol=1e-9)

  def test_predictions_are_the_clusters(self):
    path = os.path.join(self.base, "predictions.csv")
    printed = in_process.run_predict(
        f"--run={self.output}", f"--data_dir={self.sites}", f"--output={path}"
    )
    self.assertEqual(printed, f"50 rows of 2 clients: {path}\n")
    self.assertEqual(_read(self.base, "predictions.csv"), _read(self.output, "clusters.csv"))

  def test_predict_refuses_other_views(self):
    other = os.path.join(self.base, "other")
    shutil.copytree(self.sites, other, dirs_exist_ok=True)
    for site in ("north", "south"):
      os.remove(os.path.join(other, site, "y.csv"))
    path = os.path.join(self.base, "none.csv")
    with self.assertRaisesRegex(launch.InputError, "data_dir.*'north'"):
      in_process.run_predict(
          f"--run={self.output}", f"--data_dir={other}", f"--output={path}"
      )
    self.assertFalse(os.path.exists(path))

  def test_the_model_predicts_frames(self):
    model = load_model.load_model(self.output)
    south = os.path.join(self.sites, "south")
    frames = {
        "x": pd.read_parquet(os.path.join(south, "x.parquet")),
        "y": pd.read_csv(os.path.join(south, "y.csv"), sep=";", decimal=","),
    }
    clusters = [
        int(row["cluster"]) for row in _rows(self.output, "clusters.csv")
        if row["client"] == "south"
    ]
    self.assertEqual(model.predict(frames).tolist(), clusters)

  def test_config_has_the_schemas_and_the_classes(self):
    inputs = json.loads(_read(self.output, "config.json"))["inputs"]
    self.assertEqual(inputs["datasets"]["sites"]["classes"], list(_CLASSES))
    self.assertEqual(inputs["datasets"]["sites"]["sites"], {"north": 30, "south": 20})
    self.assertEqual(list(inputs["schemas"]), ["x", "y"])

  def test_the_report_can_be_drawn_again(self):
    before = _read(self.output, "report.html")
    in_process.run_main(report.main, f"--run={self.output}")
    self.assertEqual(_read(self.output, "report.html"), before)

  def test_a_run_that_was_cut_off_ends_the_same(self):
    copy = os.path.join(self.base, "copy")
    with mock.patch.object(load_model, "SavedMultiView", side_effect=KeyboardInterrupt):
      with self.assertRaises(KeyboardInterrupt):
        _run(copy, *self.flags)
    self.assertFalse(os.path.exists(os.path.join(copy, "clusters.csv")))
    with mock.patch.object(comparison, "_outcome", side_effect=AssertionError):  # Not again.
      _run(copy, *self.flags, "--resume")
    for path in pathlib.Path(self.output).rglob("*"):
      if path.is_file():
        name = path.relative_to(self.output)
        self.assertEqual(path.read_bytes(), pathlib.Path(copy, name).read_bytes(), name)
    self.assertIn("this run is finished", _run(copy, *self.flags, "--resume"))

  def test_a_run_on_other_ids_is_not_resumed(self):
    other = os.path.join(self.base, "renamed")
    shutil.copytree(self.sites, other, dirs_exist_ok=True)
    for name in ("x.parquet", "y.csv"):
      path = os.path.join(other, "south", name)
      os.remove(path)
      pd.DataFrame({"key": range(20), **{
          column: np.arange(20.0) for column in (("u", "v", "w") if name[0] == "x" else (
              "pay", "flat"))
      }}).to_csv(
          path[: path.rindex(".")] + ".csv", index=False,
          **({} if name[0] == "x" else {"sep": ";", "decimal": ","})
      )
    pd.DataFrame({"key": range(20), "kind": ["a", "b"] * 10}).to_csv(
        os.path.join(other, "south", "labels.csv"), index=False
    )
    flags = (f"--data_dir={other}", *self.flags[1:], "--resume")
    with self.assertRaisesRegex(launch.InputError, "output_dir.* got another south/labels"):
      _run(self.output, *flags)


class ProgramTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.sites = os.path.join(self.folder, "sites")
    self.output = os.path.join(self.folder, "out")

  def test_sites_without_labels_and_ids(self):
    _write_sites(self.sites, labelled=False, plain=True)
    printed = _run(
        self.output, f"--data_dir={self.sites}", "--num_clusters=3", "--seeds=1", "--n_init=1",
        "--num_rounds=2", "--exclude=key,flat",
    )
    self.assertIn("objective", printed)
    self.assertNotIn("NMI", printed)
    rows = _rows(self.output, "clusters.csv")
    self.assertLen(rows, 50)
    self.assertEqual(list(rows[0]), ["client", "row", "cluster"])

  @parameterized.named_parameters(
      ("dataset", ["--datasets=mnist"], "`datasets` must be one of"),
      ("features", ["--datasets=multiple_features", "--features_dir=/no/such"],
       "`features_dir` must hold mfeat-fac.csv, got '/no/such'"),
      ("unused_features", ["--datasets=digits", "--features_dir=x"],
       "`features_dir` must be left out without multiple_features, got x."),
      ("sites_and_features", ["--data_dir=x", "--features_dir=x"], "`features_dir` must be left"),
      ("skew_of_the_tutorials_sites", ["--datasets=simulated_dha", "--dirichlet_alpha=1"],
       "`dirichlet_alpha` must be left out with simulated_dha alone, got 1.0."),
      ("unused_clusters", ["--num_clusters=3"], "`num_clusters` must be left out"),
      ("sites_and_datasets", ["--data_dir=x", "--datasets=digits"],
       "`datasets` must be left out with --data_dir, got digits."),
      ("sites_and_skew", ["--data_dir=x", "--dirichlet_alpha=1"], "`dirichlet_alpha` must be"),
      ("no_sites", ["--data_dir=/no/such"], "/no/such"),
      ("a_flag_of_tables_without_sites", ["--row_key=key"],
       "`row_key` must be left out without --data_dir, got key."),
      ("alpha", ["--alpha=1"], "`alpha` must be > 1"),
  )
  def test_refuses(self, flags, message):
    with self.assertRaisesRegex(launch.InputError, message):
      _run(self.output, *flags)
    self.assertFalse(os.path.exists(self.output))

  @parameterized.named_parameters(
      ("a_missing_file", lambda site: os.remove(os.path.join(site, "y.csv")), ("--row_key=key",),
       "'south'"),
      ("clients", None, ("--client_column=u",), "`client_column` must be left out of views"),
      ("an_unknown_column", None, ("--exclude=t",), "exclude"),
      ("a_schema_and_columns", None, ("--schema=x", "--exclude=t"), "exclude"),
      ("no_schema", None, ("--schema=/no/such",), "/no/such"),
      ("ids", None, (), "north/x.parquet, row 1, column 'key'"),
      ("numbers_that_are_none", None, (), "drafts a schema"),
      ("too_many_clusters", None, ("--row_key=key", "--num_clusters=51"),
       "`num_clusters` must be at most the 50 points"),
      ("a_view_that_is_the_same_everywhere", None, ("--row_key=key", "--exclude=pay"),
       "`data_dir` must hold views that vary over all rows, got the same values everywhere in "
       "view 'y'"),
  )
  def test_refuses_sites(self, spoil, flags, message):
    _write_sites(self.sites, plain=True)
    if spoil is not None:
      spoil(os.path.join(self.sites, "south"))
    with self.assertRaises(launch.InputError) as raised:
      _run(self.output, f"--data_dir={self.sites}", *flags)
    self.assertIn(message, str(raised.exception))
    self.assertNotIn("\n", str(raised.exception))
    self.assertFalse(os.path.exists(self.output))


if __name__ == "__main__":
  absltest.main()
