"""The three-phase program at sites, which have the clients' rows, against one machine."""

import csv
import os
import shutil
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiment_shell import finished_run
from experiments.three_phase import report
from fl_clustering.distribution import pool
from fl_clustering.tables import table_options
from fl_clustering.tasks import files
from tests import nightly
from tests.distribution import started_sites
from tests.distribution import started_workers
from tests.experiment_shell import in_process
from tests.integration import three_phase_program as program

_SMALL = (
    "--dataset=files", "--pretrain_rounds=2", "--cluster_rounds=2",
    "--control_repeats=2", "--method_repeats=0",
    "--methods=kmeans,ifca,cfl,pacfl", "--num_clusters=2", "--cfl_ratio=1e9", "--cfl_gap=-2",
    "--personal=ditto,fedrep,apfl,mr_mtl",
    "--learning_rate=0.5", "--hidden_units=8", "--client_epochs_per_round=5",
)
_TABLES = table_options.TableOptions(
    label_column="sick", categories=("ward",), id_column="id", split_column="part"
)
_DRAWN = table_options.TableOptions(
    label_column="sick", categories=("ward",), id_column="id", exclude=("part",)
)
_SHARES = ((0, 3, 4), (1, 2, 5))


def _frame(i):
  """Returns a client's table; every other client has the classes the other way round."""
  rng = np.random.default_rng(i)
  num_rows = 40 + i
  age = rng.uniform(20, 80, num_rows)
  return pd.DataFrame({
      "id": [f"p{i}_{row}" for row in range(num_rows)],
      "age": age.round(1),
      "ward": np.where(age > 50, "north", rng.choice(["north", "south"], num_rows)),
      "dose": 1e4 + rng.normal(size=num_rows).round(3),
      "sick": np.where((age > 50) ^ (i % 2 == 1), "yes", "no"),
      "part": np.where(np.arange(num_rows) < 30, "train", "test"),
  })


def _write(folder, clients):
  os.makedirs(folder)
  for i in clients:
    _frame(i).to_csv(os.path.join(folder, f"client_{i}.csv"), index=False)


def _numbers(value, path=()):
  """Returns all leaves of a JSON document by their paths."""
  if isinstance(value, dict):
    return {
        name: leaf for key, child in value.items()
        for name, leaf in _numbers(child, (*path, key)).items()
    }
  return {path: value}


def _missing_by_table(folder):
  """Returns what the column of missing sites holds in each table of a run, sets by file name."""
  found = {}
  for name in os.listdir(folder):
    if name.endswith(".csv"):
      rows = csv.DictReader(program.read_text(folder, name).splitlines())
      found[name] = {row["missing_sites"] for row in rows}
  return found


def _started(test, base, tables):
  """Starts two sites; returns them and the flag that names them."""
  sites = []
  for i, share in enumerate(_SHARES):
    folder = os.path.join(base, f"site_{i}")
    _write(folder, share)
    sites.append(started_sites.StartedSite(test, folder, tables))
  return sites, f"--workers={','.join(site.address for site in sites)}"


def _finished(folder, *flags):
  """Runs the program, which must end well; returns its folder's `FinishedRun`."""
  result = program.run(*in_process.overriding(_SMALL, *flags), f"--output_dir={folder}")
  assert result.code == 0, result.stderr
  return finished_run.FinishedRun(folder)


class SitesTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    """Runs the program at two sites to the end."""
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.sites, workers = _started(started_sites.OfClass(cls), temporary.name, _TABLES)
    with mock.patch.object(report, "FIRST_FIGURES", ()), mock.patch.object(report, "FIGURES", ()):
      cls.whole = _finished(os.path.join(temporary.name, "whole"), workers)

  def setUp(self):
    super().setUp()
    files.open_folder.cache_clear()
    for name in ("FIRST_FIGURES", "FIGURES"):  # They take much of the time.
      self.enter_context(mock.patch.object(report, name, ()))
    temporary = tempfile.TemporaryDirectory()
    self.addCleanup(temporary.cleanup)
    self.base = os.path.realpath(temporary.name)
    self.enter_context(mock.patch.object(pool, "_CONNECT_SECONDS", 4))

  def _sites(self, tables):
    return _started(self, self.base, tables)

  def _run(self, name, *flags):
    return _finished(os.path.join(self.base, name), *flags)

  def _alone(self, *flags):
    """Runs the program on one machine with all files."""
    data = os.path.join(self.base, "data")
    _write(data, range(6))
    return self._run(
        "alone", f"--data_dir={data}", "--label_column=sick", "--categories=ward",
        "--id_column=id", *flags,
    )

  def _assert_same(self, found, expected):
    self.assertEqual(found.json("assignments.json"), expected.json("assignments.json"))
    summary = dict(found.summary)
    self.assertEqual(summary.pop("missing_sites"), {"addresses": [], "clients": []})
    here, there = _numbers(expected.summary), _numbers(summary)
    # What takes labels of test data is known where these are, and not at sites.
    here = {path: value for path, value in here.items() if path[0] != "baseline"}
    self.assertEqual(list(there), list(here))
    for path, value in here.items():
      if isinstance(value, float):
        self.assertAlmostEqual(there[path], value, delta=1e-5, msg=path)
      else:
        self.assertEqual(there[path], value, path)

  def test_two_sites_give_what_one_machine_gives(self):
    self._assert_same_run(self.whole, self._alone("--split_column=part"))

  def test_two_sites_that_draw_the_split_give_what_one_machine_gives(self):
    common = (
        "--test_share=0.3", "--seed=5", "--aggregator=clipped", "--num_new_clients=1",
        "--methods=kmeans,cfl", "--personal=ditto", "--control_repeats=0",
    )
    expected = self._alone(*common, "--exclude=part")
    _, workers = self._sites(_DRAWN)
    with mock.patch.object(pool, "Pool", wraps=pool.Pool) as opened:
      found = self._run("sites", workers, *common)
    opened.assert_called_once()
    self._assert_same_run(found, expected)

  def _assert_same_run(self, found, expected):
    self._assert_same(found, expected)
    dataset = found.document["dataset"]
    self.assertEqual((dataset["num_sites"], dataset["data_dir"]), (2, None))
    for name in ("train_examples", "client_test_examples", "global_test_examples",
                 "global_test_is_clients", "class_names", "num_clients"):
      self.assertEqual(dataset[name], expected.document["dataset"][name], name)
    self.assertEqual(found.settings, expected.settings)

  def test_what_the_program_writes_and_predicts(self):
    found = self.whole
    for row in found.rows("clients.csv", ("client_id",)):
      self.assertEqual((row["num_train"], row["train_label_0"], row["train_label_1"]),
                       (27, None, None))
      self.assertEqual(row["num_validation"], 3)
    self.assertFalse(found.has("profiles.csv"))
    page = program.read_text(found.path, "report.html")
    self.assertIn("<h1>Three-phase clustering of 6 clients at 2 sites: files</h1>", page)
    self.assertIn("The files stay at the sites", page)

    predictions = os.path.join(self.base, "predictions.csv")
    folder = os.path.join(self.base, "site_0")
    _write(folder, _SHARES[0])
    in_process.run_predict(
        f"--run={found.path}", f"--data_dir={folder}", f"--output={predictions}"
    )
    with open(predictions, encoding="utf-8") as file:
      rows = list(csv.DictReader(file))
    method = found.json("model/model.json")["method"]
    for i in _SHARES[0]:
      truth = _frame(i)
      own = [row["class"] for row in rows if row["client"] == f"client_{i}"]
      right = np.array(own) == truth["sick"].to_numpy()
      (metrics,) = [
          row for row in found.rows("client_metrics.csv", ("clusters",))
          if (row["phase"], row["method"]) == ("cluster", method)
          and row["client_id"] == f"client_{i}"
      ]
      self.assertAlmostEqual(right[truth["part"] == "test"].mean(), metrics["accuracy"])
    for site in self.sites:
      self.assertNotEmpty(site.files())

  def test_a_run_that_lost_a_site_goes_on_when_it_is_back(self):
    sites, workers = self._sites(_TABLES)
    folder = os.path.join(self.base, "sites")
    flags = (*_SMALL, workers, "--site_timeout=1", f"--output_dir={folder}")
    with program.after("ifca", 1, sites[0].kill):
      result = program.run(*flags)
    self.assertEqual(result.code, 1, result.stderr)
    *_, line = result.stderr.splitlines()
    self.assertRegex(line, f"^error: the site at {sites[0].address} .*--resume")

    result = program.run(*flags, "--resume")  # It is still away.
    self.assertEqual(result.code, 2, result.stderr)
    self.assertRegex(
        result.stderr,
        f"error: the worker at {sites[0].address} refused the connection; --missing_sites=skip ",
    )

    sites[0].start()
    result = program.run(*flags, "--resume")
    self.assertEqual(result.code, 0, result.stderr)
    self.assertEqual(
        program.read_text(folder, "summary.json"),
        program.read_text(self.whole.path, "summary.json"),
    )

  @nightly.only
  def test_files_that_a_site_lost_are_written_again(self):
    sites, workers = self._sites(_TABLES)
    flags = (*_SMALL, workers, f"--output_dir={self.base}/sites")

    def remove():
      for name in os.listdir(sites[0].folder):
        if name.endswith(".train"):
          os.remove(os.path.join(sites[0].folder, name))

    with program.after("ifca", 1, remove):
      result = program.run(*flags)
    self.assertEqual(result.code, 1, result.stderr)
    *_, line = result.stderr.splitlines()
    self.assertRegex(line, r"^error: the clients' file .*\.train' can't be read .*--resume")
    result = program.run(*flags, "--resume")
    self.assertEqual(result.code, 0, result.stderr)
    self.assertEqual(
        program.read_text(f"{self.base}/sites", "summary.json"),
        program.read_text(self.whole.path, "summary.json"),
    )

  @nightly.only
  def test_a_lost_site_may_be_left_out(self):
    sites, workers = self._sites(_TABLES)
    folder = os.path.join(self.base, "sites")
    flags = (*_SMALL, workers, "--site_timeout=1", "--missing_sites=skip")
    with program.after("ifca", 1, sites[0].kill):
      result = program.run(*flags, f"--output_dir={folder}")
    self.assertEqual(result.code, 0, result.stderr)
    self.assertIn(
        "The run starts again without its clients, client_0, client_3, client_4.", result.stderr
    )
    lost = {"addresses": [sites[0].address], "clients": ["client_0", "client_3", "client_4"]}
    page = program.read_text(folder, "report.html")
    self.assertIn("<h1>Three-phase clustering of 3 clients at 1 site: files</h1>", page)
    self.assertIn(f"Left out because it was lost or did not answer: {sites[0].address}", page)
    self.assertIn("; without 1 site", result.stdout)

    tables = ("client_metrics.csv", "clients.csv", "metrics.csv")
    self.assertEqual(_missing_by_table(folder), dict.fromkeys(tables, {sites[0].address}))

    found = finished_run.FinishedRun(folder)
    summary = dict(found.summary)
    self.assertEqual(summary.pop("missing_sites"), lost)
    self.assertEqual(found.document["dataset"]["missing_sites"], lost)
    self.assertEqual(found.settings["num_clients"], 3)
    alone = self._run("alone", f"--workers={sites[1].address}")
    self.assertEqual(_missing_by_table(alone.path), dict.fromkeys(tables, {""}))
    expected = dict(alone.summary)
    del expected["missing_sites"]
    self.assertEqual(summary, expected)
    self.assertEqual(found.settings, alone.settings)
    self.assertEqual(found.json("assignments.json"), alone.json("assignments.json"))

    result = program.run(*flags, "--resume", f"--output_dir={folder}")  # It is finished.
    self.assertEqual(result.code, 0, result.stderr)

    # One that does not answer from the beginning is left out, too.
    late = self._run("late", workers, "--missing_sites=skip")
    self.assertEqual(late.summary["methods"], expected["methods"])
    self.assertEqual(
        late.summary["missing_sites"], {"addresses": [sites[0].address], "clients": []}
    )

  @nightly.only
  def test_a_run_that_stopped_begins_again_with_the_sites_that_are_there(self):
    sites, workers = self._sites(_TABLES)
    # The default number of clusters depends on that of the clients.
    small = [flag for flag in _SMALL if not flag.startswith("--num_clusters=")]
    folder = os.path.join(self.base, "sites")

    def run(folder, *flags):
      return program.run(*small, "--site_timeout=1", *flags, f"--output_dir={folder}")

    def resume():
      return run(folder, workers, "--missing_sites=skip", "--resume")

    def read(folder):
      found = finished_run.FinishedRun(folder)
      return found.settings, found.document["dataset"]["missing_sites"]["clients"]

    with program.after("kmeans", 1, sites[0].kill):
      result = run(folder, workers)
    self.assertEqual(result.code, 1, result.stderr)
    with program.interrupted_after("kmeans", 1):
      result = resume()
    self.assertEqual(result.code, 130, result.stderr)
    settings, missing = read(folder)
    self.assertEqual((settings["num_clients"], settings["num_clusters"]), (3, 3))
    self.assertEqual(missing, ["client_0", "client_3", "client_4"])

    copy, alone = (os.path.join(self.base, name) for name in ("copy", "alone"))
    shutil.copytree(folder, copy)
    with mock.patch.object(shutil, "rmtree", wraps=shutil.rmtree) as removed:
      result = resume()
    self.assertEqual(result.code, 0, result.stderr)
    # It went on from there.
    self.assertNotIn(os.path.join(folder, "checkpoints"), [c.args[0] for c in removed.mock_calls])
    result = run(alone, f"--workers={sites[1].address}")
    self.assertEqual(result.code, 0, result.stderr)
    found, expected = (finished_run.FinishedRun(path) for path in (folder, alone))
    self.assertEqual(found.settings, expected.settings)
    self.assertEqual(found.summary["methods"], expected.summary["methods"])
    self.assertEqual(found.json("assignments.json"), expected.json("assignments.json"))

    # If the site is back, it takes part again.
    shutil.rmtree(folder)
    shutil.move(copy, folder)
    sites[0].start()
    result = resume()
    self.assertEqual(result.code, 0, result.stderr)
    settings, missing = read(folder)
    self.assertEqual((settings["num_clients"], missing), (6, []))

  def test_settings_that_the_other_clients_do_not_fit(self):
    sites, workers = self._sites(_TABLES)
    with program.after("pretrain", 1, sites[0].kill):
      result = program.run(
          *_SMALL, workers, "--site_timeout=1", "--missing_sites=skip", "--clients_per_round=4",
          f"--output_dir={self.base}/out",
      )
    self.assertEqual(result.code, 2, result.stderr)
    *_, line = result.stderr.splitlines()
    self.assertRegex(line, r"^error: `clients_per_round` must be .*\[1, 3\].* got 4")

  def test_a_run_is_not_resumed_on_other_rows(self):
    sites, workers = self._sites(_TABLES)
    folder = os.path.join(self.base, "sites")
    flags = (*_SMALL, workers, f"--output_dir={folder}")
    with program.interrupted_after("pretrain", 1):
      self.assertEqual(program.run(*flags).code, 130)
    data = os.path.join(self.base, "site_1")
    shutil.rmtree(data)
    _write(data, (1, 2, 5))
    path = os.path.join(data, "client_1.csv")
    frame = pd.read_csv(path)
    frame.loc[3, "age"] += 1
    frame.to_csv(path, index=False)
    sites[1].open(data, _TABLES)
    result = program.run(*flags, "--resume")
    self.assertEqual(result.code, 2)
    self.assertIn("`workers` must be the sites that the run to resume began with", result.stderr)

  def _assert_refused(self, message, *flags):
    out = os.path.join(self.base, "out")
    result = program.run(*in_process.overriding(_SMALL, *flags), f"--output_dir={out}")
    self.assertEqual(result.code, 2, result.stderr)
    *_, line = result.stderr.splitlines()
    self.assertRegex(line, f"^error: .*{message}")

  def test_what_the_sites_say_is_refused(self):
    _, workers = self._sites(_TABLES)
    for flag, message in (
        ("--label_column=ward", "`label_column` must be left out .* sites .*got 'ward'"),
        ("--split_column=part", "`split_column` must be left out"),
        ("--missing=mean", "`missing` must be left out .* sites .* can't fill in missing cells, got"),
        ("--exclude=dose", r"`exclude` must be left out .* got \('dose',\)"),
        ("--num_clients=6", "`num_clients` must be left out"),
        ("--test_share=0.5", "`test_share` must be left out with `split_column`"),
        ("--num_new_clients=6", r"`num_new_clients` must be .*\[0, 5\]"),
        ("--partition=iid", "`partition` must be natural or left out"),
    ):
      self._assert_refused(message, workers, flag)
    self.assertFalse(os.path.exists(os.path.join(self.base, "out")))

  def test_other_workers(self):
    _, sites = self._sites(_TABLES)
    worker = started_workers.StartedWorker(self)
    self._assert_refused(
        "`workers` must own clients if there is no --data_dir", f"--workers={worker.address}"
    )
    self._assert_refused("owns no clients, but others do", f"{sites},{worker.address}")
    self._assert_refused("`data_dir` must name the folder .*or `workers` the sites")
    self._assert_refused(
        "`workers` must own no clients where the data are on this machine, .* if the clients are "
        "those of the sites, give --dataset=files and no --data_dir; else", sites,
        f"--data_dir={self.base}/site_0", "--label_column=sick", "--categories=ward",
        "--id_column=id", "--split_column=part",
    )

  def test_a_site_without_classes(self):
    _, workers = self._sites(table_options.TableOptions(exclude=("id", "ward", "sick", "part")))
    self._assert_refused("`workers` must be sites that were started with `label_column`", workers)


if __name__ == "__main__":
  absltest.main()
