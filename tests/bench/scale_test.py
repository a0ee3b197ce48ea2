import json
import os
import subprocess
import sys

from absl.testing import absltest

from tests import nightly


class ScaleTest(absltest.TestCase):

  @nightly.only  # By day, `run_memory_test` measures such a run's memory.
  def test_a_run_finds_the_groups_and_gains(self):
    path = os.path.join(self.create_tempdir().full_path, "rows.json")
    run = subprocess.run(
        [
            sys.executable, "-m", "bench.scale", "--max_clients=1000", "--model=logistic",
            "--only=run", f"--output={path}",
        ],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    self.assertEqual(run.returncode, 0, run.stderr)
    with open(path, encoding="utf-8") as f:
      rows = {row["what"]: row for row in json.load(f)["rows"]}
    self.assertGreater(rows["run: k-means, adjusted Rand index"]["value"], 0.95)
    of_clusters, of_one = rows["run: accuracy"], rows["run: one model as long, accuracy"]
    self.assertGreater(of_clusters["value"], of_one["value"] + 0.1)
    # The same seeds, the same numbers.
    self.assertEqual(rows["compiled: accuracy"]["value"], of_clusters["value"])
