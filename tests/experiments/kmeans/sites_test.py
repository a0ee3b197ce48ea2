"""Runs the federated k-means program on sites, and on one folder with the same files."""

import csv
import json
import os
import shutil
import tempfile
from unittest import mock

from absl.testing import absltest
import numpy as np

from experiment_shell import launch
from experiments import federated_kmeans
from experiments import report
from experiments.kmeans import own_data
from fl_clustering import load_model
from fl_clustering.distribution import pool
from fl_clustering.tables import table_options
from tests import nightly
from tests.distribution import started_sites
from tests.experiment_shell import in_process

_CLIENTS = ("east", "north", "south", "west")
_LOST_SOON = ("--worker_timeout=2", "--site_timeout=1")


def _run(*arguments):
  return in_process.run_main(federated_kmeans.main, *arguments)


def _read(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
    return file.read()


def _rows(folder, name):
  return list(csv.DictReader(_read(folder, name).splitlines()))


def _json(folder, name):
  return json.loads(_read(folder, name))


def _write_clients(folder):
  rng = np.random.default_rng(0)
  groups = np.array([(20.0, 1e5), (50.0, 2e5), (80.0, 1e5)])
  for client_id in _CLIENTS:
    clusters = rng.integers(3, size=50)
    points = groups[clusters] + [2.0, 5e3] * rng.standard_normal((50, 2))
    levels = np.array(["f", "f", "m"])[clusters]
    lines = (f"{age!r},{income!r},{s},5" for (age, income), s in zip(points.tolist(), levels))
    with open(os.path.join(folder, f"{client_id}.csv"), "w", encoding="utf-8") as file:
      file.write("\n".join(("age,income,sex,flat", *lines)) + "\n")


class SitesTest(absltest.TestCase):
  """Four clients at two sites."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = temporary.name
    cls.data = os.path.join(cls.base, "data")
    os.mkdir(cls.data)
    _write_clients(cls.data)
    options = table_options.TableOptions(categories=("sex",))
    test = started_sites.OfClass(cls)
    cls.sites = [
        started_sites.StartedSite(test, cls.data, options, ("east", "south")),
        started_sites.StartedSite(test, cls.data, options, ("north", "west")),
    ]
    cls.workers = "--workers=" + ",".join(site.address for site in cls.sites)
    cls.at_sites, cls.in_folder = os.path.join(cls.base, "sites"), os.path.join(cls.base, "folder")
    cls.flags = ("--k_range=3:4", "--standardize")
    cls.printed = _run(cls.workers, *cls.flags, f"--output_dir={cls.at_sites}")
    _run(f"--data_dir={cls.data}", "--categories=sex", *cls.flags, f"--output_dir={cls.in_folder}")

  def setUp(self):
    super().setUp()
    self.enter_context(mock.patch.object(pool, "_CONNECT_SECONDS", 4))
    self.output = os.path.join(self.create_tempdir().full_path, "out")

  def _restart(self, site):
    site.kill()
    site.start()

  def test_files(self):
    self.assertCountEqual(os.listdir(self.at_sites), [
        "centroids.csv", "config.json", "figures", "k_selection.csv", "model", "profiles.csv",
        "report.html", "rounds.csv", "summary.json",
    ])
    self.assertStartsWith(self.printed, "data: 4 clients at 2 sites\n")
    self.assertRegex(self.printed, r"\n3 clusters, inertia .*, simplified silhouette 0\.\d+\n")

  def _assert_same_fit(self, folder, other):
    model, expected = load_model.load_model(folder), load_model.load_model(other)
    np.testing.assert_array_equal(model.centroids, expected.centroids)
    np.testing.assert_array_equal(model.scaling.shift, expected.scaling.shift)
    np.testing.assert_array_equal(model.scaling.factor, expected.scaling.factor)
    self.assertEqual(model.format.to_json(), expected.format.to_json())

  def test_the_fit_is_that_of_all_files_in_one_folder_to_the_bit(self):
    self._assert_same_fit(self.at_sites, self.in_folder)
    for name in ("k_selection.csv", "rounds.csv"):
      rows = _rows(self.at_sites, name)
      self.assertEqual({row.pop("missing_sites") for row in rows}, {""})
      self.assertEqual(rows, _rows(self.in_folder, name))
    summary, expected = (_json(f, "summary.json") for f in (self.at_sites, self.in_folder))
    for name in ("num_clusters", "rounds", "inertia", "simplified_silhouette"):
      self.assertEqual(summary[name], expected[name])
    self.assertAlmostEqual(summary["share_explained"], expected["share_explained"])

  def test_centroids_and_profiles_are_those_of_all_files_in_one_folder(self):
    for name in ("centroids.csv", "profiles.csv"):
      # Columns that explain the same share are in any order.
      rows, expected = (
          sorted(_rows(folder, name), key=lambda row: (row["cluster"], row.get("feature")))
          for folder in (self.at_sites, self.in_folder)
      )
      self.assertLen(rows, len(expected))
      for row, other in zip(rows, expected):
        self.assertEqual(row.pop("missing_sites"), "")
        self.assertEqual(list(row), list(other))
        for column, value in row.items():
          if column == "feature":
            self.assertEqual(value, other[column])
          else:
            self.assertAlmostEqual(float(value), float(other[column]), delta=1e-9 * 2e5)
    by_client = _json(self.in_folder, "summary.json")["points_by_client"]
    self.assertEqual(
        _json(self.at_sites, "summary.json")["num_points"],
        np.sum(list(by_client.values()), axis=0).tolist(),
    )

  def test_a_site_can_predict_its_rows(self):
    site, path = (os.path.join(self.create_tempdir().full_path, name) for name in ("site", "p.csv"))
    os.mkdir(site)
    for client_id in ("north", "west"):
      shutil.copy(os.path.join(self.data, f"{client_id}.csv"), site)
    printed = in_process.run_predict(
        f"--run={self.at_sites}", f"--data_dir={site}", f"--output={path}"
    )
    self.assertEqual(printed, f"100 rows of 2 clients: {path}\n")
    expected = [
        {"client": client_id, **row} for client_id in ("north", "west")
        for row in _rows(self.in_folder, f"assignments/{client_id}.csv")
    ]
    with open(path, encoding="utf-8") as file:
      self.assertEqual(list(csv.DictReader(file)), expected)

  def test_config_says_whose_rows_they_were_and_not_where(self):
    text = _read(self.at_sites, "config.json")
    data = json.loads(text)["data"]
    self.assertEqual(
        [site["clients"] for site in data["sites"]],
        [{"east": 50, "south": 50}, {"north": 50, "west": 50}],
    )
    self.assertEqual(data["features"], ["age", "income", "sex=f", "sex=m", "flat"])
    self.assertEqual(data["levels"], {"sex": ["f", "m"]})
    self.assertNotIn("127.0.0.1", text)

  def test_report(self):
    page = _read(self.at_sites, "report.html")
    for text in (
        "3 clusters in the points of 4 clients at 2 sites", "200 points, 5 columns.",
        "No site sent a row as such.", "No secure sum hides", "Exact totals don&#x27;t protect rows",
        "experiments:predict",
    ):
      self.assertIn(text, page)
    for text in ("secure sums, so it gets nothing", "One machine played", "Without 1 site"):
      self.assertNotIn(text, page)
    in_process.run_main(report.main, f"--run={self.at_sites}")
    self.assertEqual(_read(self.at_sites, "report.html"), page)

  def test_a_finished_run_is_left_as_it_is(self):
    printed = _run(self.workers, *self.flags, f"--output_dir={self.at_sites}", "--resume")
    self.assertIn("this run is finished", printed)

  def test_other_sites_are_not_resumed(self):
    with self.assertRaisesRegex(
        launch.InputError, "^`workers` must be the sites that the run to resume began with"
    ):
      _run(f"--workers={self.sites[0].address}", *self.flags, f"--output_dir={self.at_sites}",
           "--resume")

  def test_a_folder_does_not_resume_a_run_at_sites(self):
    with self.assertRaises(launch.InputError):
      _run(f"--data_dir={self.data}", *self.flags, f"--output_dir={self.at_sites}", "--resume")

  @nightly.only
  def test_algorithms_that_gather_and_tffs_own(self):
    for algorithm in ("fkm_lloyd", "kfed", "tff_minibatch"):
      with self.subTest(algorithm):
        folders = []
        for data in ((self.workers,), (f"--data_dir={self.data}", "--categories=sex")):
          folders.append(os.path.join(self.output, algorithm, str(len(folders))))
          _run(*data, "--num_clusters=3", "--standardize", f"--algorithm={algorithm}",
               f"--output_dir={folders[-1]}")
        inertias = [_json(folder, "summary.json")["inertia"] for folder in folders]
        # Sums of float32 in another order.
        self.assertAlmostEqual(inertias[0], inertias[1], delta=1e-4 * inertias[1])

  def _losing(self, site, after):
    """Returns a patch that kills a site as soon as some fits have been made."""
    fit, calls = own_data.estimator.fit, []

    def losing_fit(*arguments):
      if len(calls) == after:
        site.kill()
      calls.append(arguments)
      return fit(*arguments)

    return mock.patch.object(own_data.estimator, "fit", losing_fit)

  def test_a_site_that_comes_back_changes_nothing(self):
    site = self.sites[1]
    fit, calls = own_data.estimator.fit, []

    def restarting_fit(*arguments):
      calls.append(arguments)
      if len(calls) == 2:
        self._restart(site)
      return fit(*arguments)

    with mock.patch.object(own_data.estimator, "fit", restarting_fit):
      _run(self.workers, *self.flags, f"--output_dir={self.output}")
    for name in ("k_selection.csv", "rounds.csv", "centroids.csv", "profiles.csv", "summary.json"):
      self.assertEqual(_read(self.output, name), _read(self.at_sites, name))

  @nightly.only
  def test_a_lost_site_ends_the_run_and_it_can_be_resumed(self):
    site = self.sites[1]
    self.addCleanup(self._restart, site)
    arguments = (self.workers, *self.flags, *_LOST_SOON, f"--output_dir={self.output}")
    with self._losing(site, after=1), self.assertRaisesRegex(
        launch.RunFailed, f"the site at {site.address} .*; --resume continues from there"
    ):
      _run(*arguments)
    self.assertLen(_rows(self.output, "k_selection.csv"), 1)
    site.start()
    _run(*arguments, "--resume")
    for name in ("k_selection.csv", "rounds.csv", "centroids.csv", "profiles.csv", "summary.json"):
      self.assertEqual(_read(self.output, name), _read(self.at_sites, name))

  def _assert_without(self, site, clients):
    """Checks that a run says everywhere that it is without a site."""
    self.assertEqual(
        _json(self.output, "summary.json")["missing_sites"],
        {"addresses": [site.address], "clients": clients},
    )
    for name in ("k_selection.csv", "rounds.csv", "centroids.csv", "profiles.csv"):
      self.assertEqual({row["missing_sites"] for row in _rows(self.output, name)}, {site.address})
    page = _read(self.output, "report.html")
    self.assertIn("Without 1 site", page)
    self.assertIn("in the points of 2 clients at 1 site<", page)
    self.assertIn("100 points", page)

  def _alone(self):
    """Returns the folder of a run on the first site alone."""
    folder = os.path.join(self.create_tempdir().full_path, "alone")
    _run(f"--workers={self.sites[0].address}", *self.flags, f"--output_dir={folder}")
    return folder

  @nightly.only
  def test_a_lost_site_can_be_left_out(self):
    site = self.sites[1]
    self.addCleanup(self._restart, site)
    with self._losing(site, after=1):
      printed = _run(
          self.workers, *self.flags, *_LOST_SOON, "--missing_sites=skip",
          f"--output_dir={self.output}",
      )
    self.assertIn("; without 1 site\n", printed)
    self._assert_without(site, ["north", "west"])
    self.assertLen(_rows(self.output, "k_selection.csv"), 2)
    self._assert_same_fit(self.output, self._alone())

  @nightly.only
  def test_a_run_that_stopped_can_be_resumed_without_the_site(self):
    site = self.sites[1]
    self.addCleanup(self._restart, site)
    arguments = (self.workers, *self.flags, *_LOST_SOON, f"--output_dir={self.output}")
    with self._losing(site, after=1), self.assertRaises(launch.RunFailed):
      _run(*arguments)
    with self.assertRaisesRegex(launch.InputError, f"{site.address} refused the .*; --missing"):
      _run(*arguments, "--resume")
    _run(*arguments, "--resume", "--missing_sites=skip")
    self._assert_without(site, ["north", "west"])
    self._assert_same_fit(self.output, self._alone())

  def test_the_last_site_is_not_left_out(self):
    site = self.sites[1]
    self.addCleanup(self._restart, site)
    with self._losing(site, after=0), self.assertRaisesRegex(launch.RunFailed, site.address):
      _run(f"--workers={site.address}", *self.flags, *_LOST_SOON, "--missing_sites=skip",
           f"--output_dir={self.output}")

  def test_the_papers_data_are_not_at_sites(self):
    with self.assertRaisesRegex(
        launch.InputError, "own no clients .* those of the sites, give --num_clusters or --k_range,"
    ):
      _run(self.workers, "--figure=regular", "--seeds=1", f"--output_dir={self.output}")

  def test_refuses(self):
    for arguments, message in (
        (("--num_clusters=2", "--epsilon=1"), "`epsilon` must be left out with points of sites"),
        (("--num_clusters=2", "--columns=age"), "`columns` must be left out with points of sites"),
        (("--num_clusters=2", "--missing=mean"), "sites, which can't fill in missing cells, got"),
        (("--num_clusters=2", "--figure=sse"), "`figure` must be left out with points of sites"),
        (("--num_clusters=201",), "`num_clusters` must be at most the 200 points"),
    ):
      with self.subTest(arguments), self.assertRaisesRegex(launch.InputError, message):
        _run(self.workers, *arguments, f"--output_dir={self.output}")
      self.assertFalse(os.path.exists(self.output))


if __name__ == "__main__":
  absltest.main()
