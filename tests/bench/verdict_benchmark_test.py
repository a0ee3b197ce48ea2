from absl.testing import absltest

from tests import nightly
from tests.experiment_shell import run_folder


class VerdictBenchmarkTest(absltest.TestCase):

  @nightly.only  # By day, `gains_test` counts wrong verdicts.
  def test_judges_methods_against_themselves(self):
    code, stdout, stderr = run_folder.ended(
        "-m", "bench.verdict_benchmark", "--runs=1", "--num_clients=4", "--rounds=1",
        "--control_repeats=2", "--method_repeats=0", "--methods=fedavg,finetuned,kmeans",
    )
    self.assertEqual(code, 0, stderr)
    self.assertRegex(stdout, "1 runs of 4 clients, 1 . 1 rounds, 2 and 0 repeats\n")
    for name in ("fedavg", "finetuned", "kmeans"):
      for how in ("with repeats", "without"):
        self.assertRegex(stdout, f"{name} +{how} +[01] of 1 called better or worse")
