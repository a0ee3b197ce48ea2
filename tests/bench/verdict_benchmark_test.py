import os
import subprocess
import sys

from absl.testing import absltest

from tests import nightly


class VerdictBenchmarkTest(absltest.TestCase):

  @nightly.only
  def test_judges_methods_against_themselves(self):
    run = subprocess.run(
        [
            sys.executable, "-m", "bench.verdict_benchmark", "--runs=1", "--num_clients=4",
            "--rounds=1", "--control_repeats=2", "--method_repeats=0", "--methods=fedavg,kmeans",
        ],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    self.assertEqual(run.returncode, 0, run.stderr)
    self.assertRegex(run.stdout, "1 runs of 4 clients, 1 . 1 rounds, 2 and 0 repeats\n")
    for name in ("fedavg", "kmeans"):
      for how in ("with repeats", "without"):
        self.assertRegex(run.stdout, f"{name} +{how} +[01] of 1 called better or worse")


if __name__ == "__main__":
  absltest.main()
