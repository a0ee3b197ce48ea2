"""Tests of the multi-view program, on a few points in files."""

import json
import os
import re
import shutil
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiment_shell import launch
from experiments import report
from experiments.multi_view import __main__ as multi_view
from experiments.multi_view import comparison
from fl_clustering import load_model
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views
from tests import nightly
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder

_CLASSES = np.array(["bird", "cat", "dog"])
_DIALECT = {"sep": ";", "decimal": ","}


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


def _write_sites(folder, labelled=True, dialect=None):
  """Writes 50 rows of three classes at two sites: as an array, and as text with an id."""
  rng = np.random.default_rng(0)
  for site, size in (("north", 30), ("south", 20)):
    path = os.path.join(folder, site)
    os.makedirs(path)
    labels = rng.integers(3, size=size)
    ids = [f"{site[0]}{i}" for i in range(size)]
    x = 9 * np.eye(3)[labels] + rng.random((size, 3))
    pd.DataFrame({"key": ids, "u": x[:, 0], "v": x[:, 1], "w": x[:, 2]}).to_parquet(
        os.path.join(path, "x.parquet")
    )
    frame = pd.DataFrame({"key": ids, "pay": 1e4 * (9 * labels + rng.random(size)), "flat": 5})
    # Another order of the columns at each site.
    frame = frame if site == "north" else frame[frame.columns[::-1]]
    frame.to_csv(os.path.join(path, "y.csv"), index=False, **(dialect or {}))
    if labelled:
      pd.DataFrame({"key": ids, "kind": _CLASSES[labels]}).to_csv(
          os.path.join(path, "labels.csv"), index=False
      )


def _run(output, *arguments):
  return in_process.run_main(multi_view.main, f"--output_dir={output}", *arguments)


class SitesTest(absltest.TestCase):
  """One run on sites with labels; its files are read, and it is cut off and resumed."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = temporary.name
    cls.sites, cls.output = (os.path.join(cls.base, name) for name in ("sites", "out"))
    _write_sites(cls.sites, dialect=_DIALECT)
    cls.flags = (
        f"--data_dir={cls.sites}", _write_schemas(cls.base), "--seed=1", "--num_seeds=2",
        "--n_init=1", "--num_rounds=5",
    )
    cls.printed = _run(cls.output, *cls.flags)
    cls.rows = run_folder.rows(cls.output, "clusters.csv")
    cls.clusters = [int(row["cluster"]) for row in cls.rows]
    cls.kinds = [
        row["kind"] for site in ("north", "south")
        for row in run_folder.rows(os.path.join(cls.sites, site), "labels.csv")
    ]

  def test_what_it_leaves_and_prints(self):
    self.assertRegex(
        self.printed, r"equal weights +federated +1\.000 ± 0\.000 +1\.000 ± 0\.000"
    )
    self.assertRegex(self.printed, r"\nClusters: 3, as many as .* 50 rows at 2 sites")
    self.assertEndsWith(self.printed, f"\nreport: {self.output}/report.html\n")
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
    inputs = json.loads(run_folder.read(self.output, "config.json"))["inputs"]
    self.assertEqual(inputs["datasets"]["sites"]["classes"], list(_CLASSES))
    self.assertEqual(inputs["datasets"]["sites"]["sites"], {"north": 30, "south": 20})
    self.assertEqual(list(inputs["schemas"]), ["x", "y"])

  def test_every_row_has_its_cluster_and_id(self):
    self.assertEqual(
        [(row["client"], row["row"], row["id"]) for row in self.rows],
        [(site, str(i + 1), f"{site[0]}{i}") for site, size in (("north", 30), ("south", 20))
         for i in range(size)],
    )
    self.assertLen(set(zip(self.kinds, self.clusters)), 3)

  def test_the_clusters_are_those_of_equal_weights_and_the_first_seed(self):
    def measured(name):
      return [
          float(row["value"]) for row in run_folder.rows(self.output, name)
          if row["method"] == "equal" and row["seed"] == "1"
      ]

    counts = np.zeros((3, 3), int)
    np.add.at(counts, (np.searchsorted(_CLASSES, self.kinds), self.clusters), 1)
    self.assertEqual(measured("points.csv"), counts.ravel().tolist())
    saved = load_model.load_model(self.output).model
    self.assertEqual(measured("view_weights.csv"), saved.on_grid.view_weights.tolist())

  def _predict(self, data):
    path = os.path.join(self.base, "predictions.csv")
    return in_process.run_predict(
        f"--run={self.output}", f"--data_dir={data}", f"--output={path}", "--overwrite"
    )

  def test_predictions_are_the_clusters(self):
    self.assertStartsWith(self._predict(self.sites), "50 rows of 2 clients: ")
    found, expected = ((self.base, "predictions.csv"), (self.output, "clusters.csv"))
    self.assertEqual(run_folder.read(*found), run_folder.read(*expected))
    south = os.path.join(self.sites, "south")
    found = load_model.load_model(self.output).predict({
        "x": pd.read_parquet(os.path.join(south, "x.parquet")),
        "y": pd.read_csv(os.path.join(south, "y.csv"), **_DIALECT),
    })
    self.assertEqual(found.tolist(), self.clusters[30:])

  @nightly.only  # By day, one of k-means is.
  def test_a_run_that_was_cut_off_ends_the_same(self):
    copy = os.path.join(self.base, "copy")
    with mock.patch.object(load_model, "SavedMultiView", side_effect=KeyboardInterrupt):
      with self.assertRaises(KeyboardInterrupt):
        _run(copy, *self.flags)
    self.assertFalse(os.path.exists(os.path.join(copy, "clusters.csv")))
    with mock.patch.object(comparison, "_outcome", side_effect=AssertionError):  # Not again.
      _run(copy, *self.flags, "--resume")
    self.assertEqual(run_folder.files(copy), run_folder.files(self.output))
    self.assertIn("finished", _run(copy, *self.flags, "--resume"))
    os.remove(os.path.join(copy, "report.html"))
    in_process.run_main(report.main, f"--run={copy}")
    pages = [run_folder.read(one, "report.html") for one in (copy, self.output)]
    self.assertEqual(*pages)

  def test_a_run_on_other_ids_is_not_resumed(self):
    other = shutil.copytree(self.sites, os.path.join(self.base, "renamed"))
    for name, dialect in (("y", _DIALECT), ("labels", {})):
      path = os.path.join(other, "south", f"{name}.csv")
      pd.read_csv(path, **dialect).assign(key=range(20)).to_csv(path, index=False, **dialect)
    path = os.path.join(other, "south", "x.parquet")
    frame = pd.read_parquet(path).assign(key=list(map(str, range(20))))
    frame.to_parquet(path)
    flags = (f"--data_dir={other}", *self.flags[1:], "--resume")
    with self.assertRaisesRegex(launch.InputError, "output_dir.* got another south/labels"):
      _run(self.output, *flags)


class ProgramTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    base = self.create_tempdir().full_path
    self.sites, self.output = (os.path.join(base, name) for name in ("sites", "out"))

  @parameterized.parameters(
      ("`datasets`", "--datasets=mnist"),
      ("`features_dir`", "--datasets=multiple_features", "--features_dir=/no/such"),
      ("`features_dir`", "--datasets=digits", "--features_dir=x"),
      ("`features_dir`", "--data_dir=x", "--features_dir=x"),
      ("`dirichlet_alpha`", "--datasets=simulated_dha", "--dirichlet_alpha=1"),
      ("`num_clusters`", "--num_clusters=3"), ("`datasets`", "--data_dir=x", "--datasets=digits"),
      ("`dirichlet_alpha`", "--data_dir=x", "--dirichlet_alpha=1"),
      ("/no/such", "--data_dir=/no/such"), ("`row_key`", "--row_key=key"), ("`alpha`", "--alpha=1"),
  )
  def test_refuses(self, message, *flags):
    with self.assertRaisesRegex(launch.InputError, message):
      _run(self.output, *flags)
    self.assertFalse(os.path.exists(self.output))

  def test_the_report_of_sites_without_classes_is_of_their_clusters(self):
    _write_sites(self.sites, labelled=False)
    printed = _run(
        self.output, f"--data_dir={self.sites}", "--row_key=key", "--num_clusters=3",
        "--num_seeds=1", "--n_init=1", "--num_rounds=3",
    )
    self.assertRegex(printed, "\nClusters: 3, .* 50 rows at 2 sites in 2 views")
    page = run_folder.read(self.output, "report.html")
    first, *_ = re.findall('alt="([^"]*)"', page)
    self.assertEqual(first, "Means of the clusters by column")
    text = re.sub("<style>.*</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    self.assertNotRegex(text, "(?i)class|tutorial|simulated|NMI|Dirichlet|known")
    # Each view has a total variance of one, and one of its two fields is constant in y.
    fields = {row["field"]: row for row in run_folder.rows(self.output, "tables/fields.csv")}
    self.assertCountEqual(fields, ["x: u", "x: v", "x: w", "y: pay"])
    parts = {name: float(row["part_of_explained"]) for name, row in fields.items()}
    self.assertAlmostEqual(sum(parts.values()), 1)
    self.assertBetween(parts["y: pay"], 0.45, 0.55)

  @parameterized.parameters(
      ("`client_column`", "--client_column=u"), ("exclude", "--exclude=t"),
      ("exclude", "--schema=x", "--exclude=t"), ("/no/such", "--schema=/no/such"),
      ("north/x.parquet, row 1, column 'key'.*drafts a schema",),
      ("`num_clusters`", "--row_key=key", "--num_clusters=51"),
      ("`data_dir`.*'y'", "--row_key=key", "--exclude=pay"),  # It is the same everywhere.
      ("'south'", "--row_key=key", "without y"),
  )
  def test_refuses_sites(self, message, *flags):
    _write_sites(self.sites)
    if "without y" in flags:
      os.remove(os.path.join(self.sites, "south", "y.csv"))
    flags = [flag for flag in flags if flag.startswith("--")]
    with self.assertRaisesRegex(launch.InputError, f"^[^\n]*{message}[^\n]*$"):
      _run(self.output, f"--data_dir={self.sites}", *flags)
    self.assertFalse(os.path.exists(self.output))


if __name__ == "__main__":
  absltest.main()
