"""Runs the multi-view program on sites, and on one folder with the same files."""

import csv
import json
import os
import tempfile
from unittest import mock

from absl.testing import absltest
import numpy as np
import pandas as pd

from experiment_shell import launch
from experiments import multi_view
from experiments import report
from experiments.multiview import own_model
from fl_clustering import load_model
from fl_clustering.distribution import pool
from tests import nightly
from tests.distribution import started_sites
from tests.experiment_shell import in_process

_CLIENTS = ("east", "north", "west")
_SMALL = ("--num_clusters=3", "--seeds=1", "--n_init=1", "--num_rounds=2")


def _run(*arguments):
  return in_process.run_main(multi_view.main, *arguments)


def _read(folder, name):
  with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
    return file.read()


def _rows(folder, name):
  return list(csv.DictReader(_read(folder, name).splitlines()))


def _write_clients(folder, flat=False):
  rng = np.random.default_rng(0)
  for client_id in _CLIENTS:
    client = os.path.join(folder, client_id)
    os.makedirs(client)
    labels = rng.integers(3, size=20)
    x = 9 * np.eye(3)[labels] + rng.random((20, 3))
    pd.DataFrame(x, columns=list("uvw")).to_csv(os.path.join(client, "x.csv"), index=False)
    y = np.zeros(20) if flat else 1e4 * (9 * labels + rng.random(20))
    pd.DataFrame({"pay": y, "flat": 5}).to_csv(os.path.join(client, "y.csv"), index=False)


class SitesTest(absltest.TestCase):
  """Three clients at two sites."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = temporary.name
    cls.data = os.path.join(cls.base, "data")
    _write_clients(cls.data)
    test = started_sites.OfClass(cls)
    cls.sites = [
        started_sites.StartedSite(test, cls.data, client_ids=("north",)),
        started_sites.StartedSite(test, cls.data, client_ids=("east", "west")),
    ]
    cls.workers = "--workers=" + ",".join(site.address for site in cls.sites)
    cls.at_sites, cls.in_folder = os.path.join(cls.base, "sites"), os.path.join(cls.base, "folder")
    cls.printed = _run(cls.workers, *_SMALL, f"--output_dir={cls.at_sites}")
    _run(f"--data_dir={cls.data}", *_SMALL, f"--output_dir={cls.in_folder}")

  def setUp(self):
    super().setUp()
    self.enter_context(mock.patch.object(pool, "_CONNECT_SECONDS", 4))
    self.output = os.path.join(self.create_tempdir().full_path, "out")

  def test_files(self):
    self.assertCountEqual(os.listdir(self.at_sites), [
        "centroids.csv", "config.json", "figures", "measurements.csv", "model", "profiles.csv",
        "report.html", "summary.json",
    ])
    self.assertStartsWith(self.printed, "data: 3 clients at 2 sites\n")
    self.assertIn("objective", self.printed)

  def test_the_fits_are_those_of_all_files_in_one_folder_to_the_bit(self):
    rows = _rows(self.at_sites, "measurements.csv")
    self.assertEqual({row.pop("missing_sites") for row in rows}, {""})
    self.assertEqual(rows, _rows(self.in_folder, "measurements.csv"))
    model, expected = (load_model.load_model(f) for f in (self.at_sites, self.in_folder))
    np.testing.assert_array_equal(model.centroids, expected.centroids)
    np.testing.assert_array_equal(model.model.on_grid.centers, expected.model.on_grid.centers)
    np.testing.assert_array_equal(model.scaling.factor, expected.scaling.factor)
    self.assertEqual(model.format.to_json(), expected.format.to_json())
    rows = _rows(self.at_sites, "centroids.csv")
    self.assertEqual({row.pop("missing_sites") for row in rows}, {""})
    self.assertEqual(rows, _rows(self.in_folder, "centroids.csv"))

  def test_profiles_are_those_of_all_files_in_one_folder(self):
    of_folders = []
    for folder in (self.at_sites, self.in_folder):
      of_folders.append({
          (row["cluster"], row["feature"]): [
              float(row[name]) for name in ("num_rows", "mean", "standard_deviation")
          ] for row in _rows(folder, "profiles.csv")
      })
    rows, expected = of_folders
    self.assertEqual(rows.keys(), expected.keys())
    for place, values in rows.items():
      np.testing.assert_allclose(values, expected[place], rtol=1e-9, atol=1e-12, err_msg=place)

  def test_config_says_whose_rows_they_were_and_not_where(self):
    text = _read(self.at_sites, "config.json")
    described = json.loads(text)["data"]["sites"]
    self.assertEqual(
        [site["clients"] for site in described["sites"]], [{"east": 20, "west": 20}, {"north": 20}]
    )
    self.assertEqual(described["views"], {"x": 3, "y": 2})
    self.assertNotIn("127.0.0.1", text)

  def test_report(self):
    page = _read(self.at_sites, "report.html")
    for text in (
        "3 clusters in 2 views of 3 clients at 2 sites", "No site sent a row as such.",
        "No secure sum hides", "experiments:predict", "so nothing is scored",
    ):
      self.assertIn(text, page)
    for text in ("clusters.csv", "Without 1 site", "one machine can only simulate"):
      self.assertNotIn(text, page)
    in_process.run_main(report.main, f"--run={self.at_sites}")
    self.assertEqual(_read(self.at_sites, "report.html"), page)

  def test_a_finished_run_is_left_as_it_is(self):
    self.assertIn(
        "this run is finished",
        _run(self.workers, *_SMALL, f"--output_dir={self.at_sites}", "--resume"),
    )

  def test_other_sites_are_not_resumed(self):
    with self.assertRaisesRegex(launch.InputError, "^`workers` must be the sites that the run"):
      _run(f"--workers={self.sites[0].address}", *_SMALL, f"--output_dir={self.at_sites}",
           "--resume")

  @nightly.only
  def test_a_lost_site(self):
    site, calls = self.sites[1], []
    self.addCleanup(lambda: (site.kill(), site.start()))
    fit = own_model.fitting.fit

    def losing_fit(*arguments):
      if len(calls) == 1:
        site.kill()
      calls.append(arguments)
      return fit(*arguments)

    arguments = (
        self.workers, *_SMALL, "--seeds=2", "--worker_timeout=2", "--site_timeout=1",
        f"--output_dir={self.output}",
    )
    with mock.patch.object(own_model.fitting, "fit", losing_fit):
      with self.assertRaisesRegex(launch.RunFailed, f"the site at {site.address} .*; --resume"):
        _run(*arguments)
    self.assertLen(_rows(self.output, "measurements.csv"), 1)
    self.assertIn("without 1 site\n", _run(*arguments, "--resume", "--missing_sites=skip"))
    summary = json.loads(_read(self.output, "summary.json"))
    self.assertEqual(
        summary["missing_sites"], {"addresses": [site.address], "clients": ["east", "west"]}
    )
    for name in ("measurements.csv", "centroids.csv", "profiles.csv"):
      self.assertEqual({row["missing_sites"] for row in _rows(self.output, name)}, {site.address})
    self.assertLen(_rows(self.output, "measurements.csv"), 6)
    page = _read(self.output, "report.html")
    self.assertIn("Without 1 site", page)
    self.assertIn("2 views of 1 client at 1 site.", page)

  def test_data_of_this_machine_are_not_at_sites(self):
    with self.assertRaisesRegex(
        launch.InputError, "own no clients .* those of the sites, give --num_clusters and no"
    ):
      _run(self.workers, "--datasets=digits", "--seeds=1", f"--output_dir={self.output}")

  def test_refuses(self):
    for arguments, message in (
        (("--datasets=digits",), "`datasets` must be left out with views of sites"),
        (("--exclude=u",), "`exclude` must be left out with views of sites"),
        (("--missing=mean",), "sites, which can't fill in missing cells, got"),
        (("--num_clusters=61",), "`num_clusters` must be at most the 60 points"),
    ):
      with self.subTest(arguments), self.assertRaisesRegex(launch.InputError, message):
        _run(self.workers, "--num_clusters=3", *arguments, f"--output_dir={self.output}")
      self.assertFalse(os.path.exists(self.output))

  def test_a_view_that_is_the_same_everywhere_is_refused(self):
    data = os.path.join(self.create_tempdir().full_path, "flat")
    _write_clients(data, flat=True)
    site = started_sites.StartedSite(self, data)
    with self.assertRaisesRegex(launch.InputError, "must have views that vary over all points"):
      _run(f"--workers={site.address}", *_SMALL, f"--output_dir={self.output}")


if __name__ == "__main__":
  absltest.main()
