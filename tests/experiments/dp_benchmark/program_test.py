import json
import os
import tempfile

from absl.testing import parameterized
import pandas as pd

from experiment_shell import launch
from experiments.dp_benchmark import __main__ as dp_benchmark
from tests.experiment_shell import in_process
from tests.experiment_shell import run_folder

_SMALL = (
    "--datasets=sklearn_digits", "--methods=sklearn,lsh,refine", "--k_to_try=2",
    "--epsilon_to_try=0.5,1", "--fixed_k=2", "--runs=2",
)
_NUM_CELLS = 2 * (1 + 2 + 2)


def _run(folder, *arguments):
  return in_process.run_main(dp_benchmark.main, f"--output_dir={folder}", *arguments)


def _losses(folder):
  rows = pd.read_csv(os.path.join(folder, "results.csv"))
  return rows[rows["metric"] == "loss_per_point"]["value"]


class RunTest(parameterized.TestCase):
  """One small run; its files are read."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.base = cls.enterClassContext(tempfile.TemporaryDirectory())
    cls.folder = os.path.join(cls.base, "run")
    cls.printed = _run(cls.folder, *_SMALL)

  def test_what_it_leaves_and_prints(self):
    self.assertIn("data: sklearn_digits, 1,797 x 64: digits", self.printed)
    self.assertRegex(self.printed, r"split and refine +0\.\d+\n")
    self.assertEndsWith(self.printed, f"report: {self.folder}/report.html\n")
    self.assertCountEqual(os.listdir(self.folder), [
        "config.json", "figures", "report.html", "results.csv", "summary.json", "tables",
    ])
    # One cluster for all would have 0.54; two centers with noise stay near that.
    losses = _losses(self.folder)
    self.assertLen(losses, _NUM_CELLS)
    self.assertTrue(losses.between(0.4, 0.7).all())
    document = json.loads(run_folder.files(self.folder)["config.json"])
    self.assertEqual(document["experiment"], "dp_benchmark")
    self.assertEqual(document["config"]["epsilon_to_try"], [0.5, 1])
    self.assertEqual(document["inputs"]["datasets"]["sklearn_digits"]["num_points"], 1797)
    self.assertIn("dp-accounting", document["versions"])

  @parameterized.parameters(
      "datasets=iris", "k_to_try=2,many", "k_to_try=2,1798", "data_dir=uci", "clusters=2",
  )
  def test_bad_flags_are_refused(self, flag):
    folder = os.path.join(self.base, "refused")
    with self.assertRaisesRegex(launch.InputError, f"[`']{flag.split('=')[0]}[`']"):
      _run(folder, *_SMALL, f"--{flag}")
    self.assertFalse(os.path.exists(folder))
