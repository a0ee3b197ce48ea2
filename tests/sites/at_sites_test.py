"""Tests for experiments.cluster_tables.at_sites, with sites of this process and no network."""

import contextlib
import os
import signal
import sys
import types
from unittest import mock

from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiment_shell import finished_run
from experiment_shell import launch
from experiment_shell import tidy_experiment
from experiment_shell import tidy_report
from experiment_shell import tidy_tables
from experiments.cluster_tables import __main__ as cluster_tables
from experiments.cluster_tables import config as config_lib
from experiments.cluster_tables import experiment
from experiments.cluster_tables import summary
from fl_clustering import load_model
from fl_clustering.kmeans import FederatedKMeans
from fl_clustering.multiview import FederatedMultiViewKMeans
from fl_clustering.sites import coordinator
from fl_clustering.sites import federation as federation_lib
from fl_clustering.sites import nvflare_kit
from fl_clustering.tables import views
from tests.experiment_shell import in_process
from tests.sites import sample_sites

# It takes NVFlare.
_OPERATOR = "fl_clustering.sites.nvflare_operator"
_PRIVATE = {**sample_sites.PRIVATE, "radius": 0.5}
# What NVFlare says of a site.
_ADDRESS = "192.0.2.7"
# So that units of the data and of the schema differ by more than a factor.
_BOUNDS = 60, 140


def _sites(
    folder, privacy, num_sites=3, widths=(5,), num_levels=0, has_outlier=False, rows=None
):
  """Returns the sites of a folder, with the files of their federation; they may be there.

  The last so many columns are those of levels.
  """
  _, schema = sample_sites.write_schema(folder, widths, *_BOUNDS, num_levels=num_levels)
  rows = rows or sample_sites.rows_of(num_sites)
  if num_levels:
    for own in rows.values():
      own[:, -num_levels:] = np.eye(num_levels)[np.arange(len(own)) % num_levels // 2]
  if has_outlier:
    rows["east"][0] = 39
  if privacy is not None:  # In the schema's units.
    rows = {name: own / 40 for name, own in rows.items()}
  sites = sample_sites.make(folder, widths=widths, privacy=privacy, rows=rows)
  sites.federation = federation_lib.Federation({**sites.federation.document, "schema": schema})
  for name in sites.by_name.copy():
    sites.open(name)
  sites.federation.write(os.path.join(folder, "federation.json"))
  return sites


def _fit(sites, exchange=None, resume=False, folder="out", **settings):
  """Runs the experiment; returns the finished run."""
  output_dir = os.path.join(sites.folder, folder)
  schemas = views.load(os.path.join(sites.folder, "schema.json"))
  config = config_lib.Config(schemas, at_sites=True, **{"num_clusters": 4, **settings})
  kit = os.path.join(sites.folder, "kit")
  os.makedirs(kit, exist_ok=True)

  def open_operator(unused_kit, unused_sites, log, *unused_arguments):
    with open(log, "w", encoding="utf-8") as file:
      file.write(_ADDRESS)
    return contextlib.nullcontext(exchange or sites.exchange)

  # Not by `patch.dict`, which would take away what is imported meanwhile.
  sys.modules[_OPERATOR] = types.SimpleNamespace(open_operator=open_operator)
  try:
    with mock.patch.object(nvflare_kit, "check_operator"):
      tidy_experiment.run(
          experiment.EXPERIMENT, config, output_dir, resume=resume,
          federation=os.path.join(sites.folder, "federation.json"), kit=kit, seconds=1.0,
          seconds_to_join=1.0,
      )
  finally:
    sys.modules.pop(_OPERATOR, None)
  finished = finished_run.FinishedRun(output_dir)
  tidy_report.report(experiment.EXPERIMENT, finished)
  return finished


def _fit_until_killed(folder, num_exchanges):
  """Runs a private fit of a folder in which the operator is killed."""
  sites, left = _sites(folder, _PRIVATE), iter(range(num_exchanges))

  def exchange(requests):
    if next(left, None) is None:
      sample_sites.kill()
    return sites.exchange(requests)

  _fit(sites, exchange, epsilon=1.0)


def _headline(finished):
  tidy = tidy_experiment.tidy(experiment.EXPERIMENT, finished)
  (row,) = summary.summarise(tidy, finished.document)["headline"].to_dict("records")
  return row


class FitTest(parameterized.TestCase):

  def _run(
      self, privacy, num_sites=3, widths=(5,), num_levels=0, has_outlier=False, **settings
  ):
    """Returns the sites, the finished run, its model and what is printed of it."""
    folder = self.create_tempdir().full_path
    sites = _sites(folder, privacy, num_sites, widths, num_levels, has_outlier)
    finished = _fit(sites, **settings)
    text = tidy_report.text(experiment.EXPERIMENT, finished)
    return sites, finished, load_model.load_model(finished.path), text

  def test_an_exact_fit_says_so_and_its_model_predicts(self):
    sites, finished, model, text = self._run(None, seed=3)
    one = FederatedKMeans(4, random_state=3).fit(sites.rows)

    np.testing.assert_array_equal(model.centroids, one.cluster_centers_)
    np.testing.assert_array_equal(
        model.predictions(sites.rows["east"])["cluster"],
        one.predict({"east": sites.rows["east"]})["east"],
    )
    # A later row without numbers is one of means, not of zeros.
    means = np.concatenate([*sites.rows.values()]).mean(axis=0, keepdims=True)
    np.testing.assert_allclose(
        model.tables.features(np.full((1, 5), np.nan)), model.tables.features(means), atol=1e-6
    )
    for what in ("EXACT", "hello", "keys", "ChildSums", "Scores"):
      self.assertIn(what, text)
    exchanges = tidy_tables.read(finished, "exchanges.csv")
    up = exchanges[exchanges["metric"] == "most_bytes_up"].groupby("what")["value"].sum()
    left = pd.read_csv(os.path.join(finished.path, "tables", "left.csv")).set_index("what")
    self.assertEqual(left["most_bytes_up"].to_dict(), up.to_dict())

  def test_a_center_that_may_be_a_row_is_told(self):
    with self.assertLogs(level="WARNING"):
      _, finished, _, _ = self._run(None, has_outlier=True, seed=3, num_clusters=5)

    (few,) = pd.read_csv(os.path.join(finished.path, "tables", "few_points.csv")).to_dict("records")
    self.assertEqual(few, {"centers": 1, "of": 5})

  def test_levels_count_at_sites_as_in_one_process(self):
    sites, _, model, _ = self._run(None, num_levels=3, standardize=True, seed=3)
    one = FederatedKMeans(4, standardize=True, field_widths=(1, 1, 3), random_state=3)

    np.testing.assert_array_equal(model.centroids, one.fit(sites.rows).cluster_centers_)

  def test_an_exact_fit_of_views_has_the_bits_of_one_process_and_its_model_predicts(self):
    widths = sample_sites.WIDTHS
    sites, finished, model, text = self._run(
        None, 5, widths, view_weights="mvkm", alpha=4.0, standardize=True, seed=3
    )
    views = {name: np.split(own, [widths[0]], axis=1) for name, own in sites.rows.items()}
    one = FederatedMultiViewKMeans(4, view_weights="mvkm", alpha=4.0, random_state=3).fit(views)

    np.testing.assert_array_equal(model.centroids, np.concatenate(one.cluster_centers_, axis=1))
    np.testing.assert_array_equal(
        model.predictions(sites.rows["east"])["cluster"],
        one.predict({"east": views["east"]})["east"],
    )
    scores = tidy_tables.read(finished, "results.csv").set_index("metric")["value"]
    self.assertEqual(
        [scores[name] for name in ("objective", "weight of view0", "weight of view1")],
        [one.objective_, *one.view_weights_],
    )
    self.assertIn("EXACT", text)
    self.assertIn("objective", text)

  @parameterized.named_parameters(
      ("centroids", _PRIVATE, (5,)),
      ("views", {**sample_sites.VIEWS, "view_norms": [0.4, 0.5]}, sample_sites.WIDTHS),
  )
  def test_a_private_fit_takes_half_of_the_epsilon_and_its_model_is_in_the_datas_units(
      self, privacy, widths
  ):
    sites, finished, model, text = self._run(privacy, widths=widths)

    # All rows are moved to near the middle, 100.
    printed = pd.read_csv(os.path.join(finished.path, "centroids.csv"))
    self.assertEqual(printed.shape, (4, 3 + 2 * 5))
    np.testing.assert_allclose(printed["noisy_count"], model.noise.noisy_counts)
    np.testing.assert_allclose(printed.iloc[:, -5:], model.noise.noise_sd)
    values = printed.iloc[:, 3:8].replace("unknown", np.nan).astype(float)
    np.testing.assert_allclose(values, np.where(model.are_known, model.centroids, np.nan))
    np.testing.assert_allclose(model.centroids, 100, atol=40)
    # Beyond a norm, a row is moved.
    rows = sites.rows["east"]
    np.testing.assert_array_equal(model.model.assign(100 * rows), model.model.assign(200 * rows))
    # The noise is secure.  The largest clusters are .2 apart, and ten deviations of their noise:
    # they are one less than once in 10^9 runs.
    self.assertGreater(len(set(model.model.assign(rows).tolist())), 1)
    self.assertIn("(2, 1e-06)-differential privacy", text)
    self.assertNotIn("EXACT", text)
    spent, budget = sites.by_name["east"].budget
    self.assertBetween(spent / budget, 0.2, 0.5)

  def test_nothing_that_is_sent_to_all_has_addresses_or_names_of_folders(self):
    sites, finished, *_ = self._run(_PRIVATE)
    names = _ADDRESS, sites.folder
    for folder, _, files in os.walk(finished.path):
      for name in files:
        with open(os.path.join(folder, name), "rb") as file:
          text = file.read()
        self.assertEmpty([one for one in names if one.encode() in text], name)

  def test_kill_9_of_the_operator(self):
    folder = self.create_tempdir().full_path
    self.assertEqual(sample_sites.ending(_fit_until_killed, folder, 6), -signal.SIGKILL)
    sites = _sites(folder, _PRIVATE)
    before = sites.spent()
    finished = _fit(sites, resume=True, epsilon=1.0)

    scores = tidy_tables.read(finished, "results.csv").set_index("metric")["value"]
    for name, spent in sites.spent().items():
      self.assertGreater(before[name], 0)
      self.assertAlmostEqual((spent - before[name]) / scores["mu_spent"] ** 2, 1)
    load_model.load_model(finished.path)
    self.assertEqual(_headline(finished)["verdict"], "private_at_sites_again")
    # What the report says left a site is what left it in the fit that is reported.
    num_exchanges = len(sites.sent) // len(sites.by_name)
    exchanges = tidy_tables.read(finished, "exchanges.csv")
    self.assertLen(exchanges, 3 * num_exchanges)  # Three numbers of each.

  def test_a_kit_is_one_operators_at_a_time(self):
    sites = _sites(self.create_tempdir().full_path, None)

    def exchange(requests):
      with self.assertRaisesRegex(launch.InputError, "^`kit` must be used by one program"):
        _fit(sites, num_clusters=3, folder="other")
      return sites.exchange(requests)

    _fit(sites, exchange)
    _fit(sites, num_clusters=3, folder="other")

  def test_clusters_without_rows_are_not_counted(self):
    folder = self.create_tempdir().full_path
    rows = {name: 10 * np.eye(5)[[0, 1, 2]] for name in ("east", "north", "south")}
    sites = _sites(folder, None, rows=rows)
    with self.assertLogs(level="WARNING") as logs:
      finished = _fit(sites)
    self.assertEqual(_headline(finished)["clusters"], 3)
    self.assertIn("3 of 4", "".join(logs.output))

  @parameterized.parameters(
      (None, {"epsilon": 1.0}, "epsilon"), (sample_sites.PRIVATE, {"epsilon": 5.0}, "epsilon"),
      (None, {"num_clusters": 10**4}, "n_clusters"),
  )
  def test_settings_that_do_not_fit_are_bad_input(self, privacy, settings, name):
    with self.assertRaisesRegex((ValueError, launch.InputError), f"`{name}` must"):
      self._run(privacy, **settings)

  @parameterized.parameters(
      (coordinator.SiteRefused, launch.InputError), (coordinator.SiteLost, launch.RunFailed),
      (coordinator.CarrierFailed, launch.RunFailed),
  )
  def test_what_ends_a_fit_is_one_line(self, raised, expected):
    sites = _sites(self.create_tempdir().full_path, None)
    with self.assertRaisesRegex(expected, "north"):
      _fit(sites, mock.Mock(side_effect=raised("north: why")))

  @parameterized.parameters(
      ("data_dir",), ("data_dir", "--data_dir=a", "--federation=b"),
      ("kit", "--data_dir=a", "--kit=b"), ("seconds", "--data_dir=a", "--seconds=9"),
      ("row_key", "--federation=a", "--row_key=b"), ("schema", "--federation=a", "--kit=b"),
      ("kit", "--federation=a", "--schema=b"),
  )
  def test_flags_that_do_not_go_together_are_bad_input(self, name, *arguments):
    with self.assertRaisesRegex(launch.InputError, f"^`{name}` must"):
      in_process.run_main(cluster_tables.main, *arguments)
