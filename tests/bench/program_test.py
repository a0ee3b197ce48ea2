import json
import os
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from bench import peers
from experiment_shell import launch
from tests import nightly
from tests.experiment_shell import in_process


def _run(folder, *arguments):
  return in_process.run_main(peers.Peers().main, f"--output_dir={folder}", *arguments)


class ProgramTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.base = self.create_tempdir().full_path
    self.folder = os.path.join(self.base, "run")

  @nightly.only
  def test_a_run_without_a_peer_that_can_not_be_installed(self):
    arguments = (
        "--workloads=cnn_small", "--peers=fedjax", "--launches=1", "--rounds=2",
        f"--environments_dir={self.base}/environments",
    )
    with mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}):
      printed = _run(self.folder, *arguments)
      again = _run(self.folder, *arguments, "--resume")

    self.assertIn("left out: fedjax: ERROR: ", printed)
    self.assertRegex(printed, "ours +[0-9.]+ +[0-9.]+ +1.00")
    self.assertIn(f"report: {self.folder}/report.html", printed)
    self.assertIn("this run is finished", again)
    with open(os.path.join(self.folder, "summary.json"), encoding="utf-8") as file:
      plain, ours = json.load(file)["results"]
    self.assertEqual((plain["contestant"], ours["contestant"]), ("plain", "ours"))
    self.assertLess(max(ours["last_difference"]), 1e-5)
    self.assertLen(ours["accuracies"], 2)
    for one, other in zip(ours["accuracies"], plain["accuracies"]):
      # An example of the thousand may be on the edge.
      self.assertAlmostEqual(one, other, delta=0.0021)

  @parameterized.named_parameters(
      ("peer", ("--peers=fedml",), "`peers` must be one of tff, pfl, flower, fedjax, got 'fedml'"),
      ("workload", ("--workloads=lstm",), "`workloads` must be one of cnn_small"),
      ("no_workload", ("--workloads=",), "`workloads` must have at least one value"),
      ("twice", ("--peers=pfl,pfl",), "`peers` must name nothing twice"),
      ("rounds", ("--rounds=1",), "`rounds` must be an integer >= 2, got 1"),
      ("launches", ("--launches=0",), "`launches` must be an integer >= 1, got 0"),
      ("answer", ("--answer_seconds=0",), "`answer_seconds` must be a finite number > 0"),
      ("data", ("--workloads=cnn", "--data_dir=x"), "`data_dir` must be left out without flute"),
  )
  def test_bad_flags(self, arguments, message):
    with self.assertRaisesRegex(launch.InputError, message):
      _run(self.folder, *arguments)

    self.assertFalse(os.path.exists(self.folder))


if __name__ == "__main__":
  absltest.main()
