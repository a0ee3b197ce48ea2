"""Runs the federated k-means program as a user does; its files are read."""

import os
from unittest import mock

from absl.testing import parameterized
import pandas as pd

from experiment_shell import launch
from experiments.federated_kmeans import __main__ as federated_kmeans
from experiments.federated_kmeans import data
from experiments.federated_kmeans import methods
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder


def _run(*arguments):
  """Runs the program in this process; returns what it prints."""
  return in_process.run_main(federated_kmeans.main, *arguments)


class ProgramTest(parameterized.TestCase):
  """A study of two small figures."""

  def setUp(self):
    super().setUp()
    self.out = os.path.join(self.create_tempdir().full_path, "out")

  def test_what_it_leaves_whose_numbers_depend_on_data_seed_and_method_alone(self):
    grid = data.grid_name(0.1, 50, 1.0)
    figures = {
        "rounds": {grid: ("central", "sums", "fkm")}, "sse": {"table iris": ("central", "sums")},
    }
    self.enter_context(mock.patch.dict(methods.FIGURES, figures))
    _run("--figures=rounds,sse", "--num_seeds=1", f"--output_dir={self.out}")
    self.assertContainsSubset(
        {"results.csv", "curves.csv", "report.html", "figures/rounds.png", "tables/sse.csv"},
        run_folder.files(self.out),
    )
    _run("--figures=sse", "--num_seeds=1", f"--output_dir={self.out}_2")
    folders = self.out, f"{self.out}_2"
    whole, alone = (run_folder.rows(folder, "results.csv") for folder in folders)
    self.assertEqual([row for row in whole if row["data"] == "table iris"], alone)
    results = pd.read_csv(f"{self.out}/results.csv")
    found = results.pivot(index=["data", "method"], columns="metric", values="value")
    self.assertLen(found, 5)
    self.assertTrue((found["ari"] > 0.3).all())
    curves = pd.read_csv(f"{self.out}/curves.csv").groupby("method")["value"]
    self.assertEqual(set(curves.groups), {"fkm", "sums"})
    for method, own in curves:
      ended = found.loc[grid, method]
      self.assertEqual((own.iloc[-1], len(own)), (ended["ari"], ended["rounds"]))
    sums, reference = found.loc[grid, "sums"], found.loc[grid, "central"]
    self.assertBetween(sums["inertia"] / reference["inertia"], 0.99, 1.01)

  @parameterized.parameters(
      (("--figures=9",), "`figures`"), (("--figures=sse,sse",), "`figures`"),
      (("--figures=sse", "--dataset=emnist"), "`dataset`"), (("--cache_dir=x",), "`cache_dir`"),
  )
  def test_is_refused(self, arguments, message):
    with self.assertRaisesRegex(launch.InputError, message):
      _run(*arguments, f"--output_dir={self.out}")
    self.assertFalse(os.path.exists(self.out))
