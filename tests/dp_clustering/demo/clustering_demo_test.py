import csv
import json
import os
import subprocess
import sys

from absl.testing import absltest
from absl.testing import parameterized

_SMALL = (
    "--num_points=2000", "--dim=3", "--num_clusters=4", "--cluster_ratio=20", "--radius=2",
    "--fixed_epsilon=5", "--k_to_try=4,2", "--fixed_k=4", "--epsilon_to_try=1,inf",
)


class ClusteringDemoTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = os.path.join(self.create_tempdir().full_path, "run")

  def _run(self, *flags):
    return subprocess.run(
        [sys.executable, "-m", "dp_clustering.demo.clustering_demo", *flags],
        check=False, capture_output=True, text=True, cwd=os.path.dirname(self.folder),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

  def _run_well(self, *flags):
    result = self._run(*_SMALL, f"--output_dir={self.folder}", *flags)
    self.assertEqual(result.returncode, 0, result.stderr)
    return result

  def _rows(self):
    with open(os.path.join(self.folder, "results.csv"), encoding="utf-8", newline="") as file:
      return list(csv.DictReader(file))

  @parameterized.named_parameters(("refine", "refine"), ("lsh", "lsh"))
  def test_leaves_numbers_and_plots(self, method):
    printed = self._run_well(f"--method={method}", "--seed=3").stdout
    self.assertEqual(
        [(row["varies"], row["k"], row["epsilon"]) for row in self._rows()],
        [("k", "4", "5.0"), ("k", "2", "5.0"), ("epsilon", "4", "1.0"),
         ("epsilon", "4", "inf")],
    )
    # Without noise, four separated clusters are found: their variance is (2 / 20)^2.
    best = self._rows()[-1]
    self.assertAlmostEqual(float(best["loss_per_point"]), 0.01, delta=0.001)
    self.assertEqual(float(best["dominant_label_accuracy"]), 1.0)
    self.assertAlmostEqual(float(best["loss"]), 2000 * float(best["loss_per_point"]))
    for row in self._rows():
      self.assertIn(f"{float(row['loss_per_point']):.5f}", printed)
      self.assertIn(f"noise {row['noise']}", printed)
      self.assertStartsWith(row["noise"], "none" if row["epsilon"] == "inf" else "seeded with 3")
    for name in ("loss_over_k.png", "loss_over_epsilon.png"):
      with open(os.path.join(self.folder, name), "rb") as file:
        self.assertStartsWith(file.read(), b"\x89PNG")

  def test_config_holds_every_setting(self):
    self._run_well("--seed=3")
    with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
      config = json.load(file)["config"]
    self.assertEqual(config, {
        "num_points": 2000, "dim": 3, "num_clusters": 4, "cluster_ratio": 20.0, "radius": 2.0,
        "fixed_epsilon": 5.0, "k_to_try": ["4", "2"], "fixed_k": 4,
        "epsilon_to_try": ["1", "inf"], "method": "refine", "seed": 3, "delta": 1e-6,
    })

  def test_the_same_seed_gives_the_same_numbers(self):
    self._run_well("--seed=3")
    first = self._rows()
    self._run_well("--seed=3", "--overwrite")
    self.assertEqual(self._rows(), first)
    self._run_well("--seed=4", "--overwrite")
    self.assertNotEqual(self._rows()[0]["loss"], first[0]["loss"])

  def test_noise_is_secure_by_default(self):
    self._run_well()
    self.assertStartsWith(self._rows()[0]["noise"], "secure")
    first = self._rows()
    self._run_well("--overwrite")
    self.assertNotEqual(self._rows()[0]["loss"], first[0]["loss"])

  def test_resume_measures_what_is_missing(self):
    self._run_well("--seed=3")
    first = self._rows()
    path = os.path.join(self.folder, "results.csv")
    with open(path, encoding="utf-8") as file:
      text = file.read()
    with open(path, "w", encoding="utf-8") as file:
      file.write(text[: text.index("epsilon,4,inf") + 9])
    self._run_well("--seed=3", "--resume")
    self.assertEqual(self._rows(), first)

  def test_a_folder_in_use_is_left_alone(self):
    self._run_well("--seed=3")
    before = self._rows()
    result = self._run(*_SMALL, f"--output_dir={self.folder}")
    self.assertEqual(result.returncode, 2)
    self.assertIn("`output_dir` must be empty without", result.stderr)
    self.assertEqual(self._rows(), before)

  def test_default_folder_is_new(self):
    self.assertEqual(self._run(*_SMALL).returncode, 0)
    (name,) = os.listdir(os.path.join(os.path.dirname(self.folder), "results"))
    self.assertStartsWith(name, "clustering_demo-")

  @parameterized.named_parameters(
      ("no_k", "--k_to_try=", "`k_to_try` must be a comma-separated list of integers"),
      ("text_as_k", "--k_to_try=2,many", "`k_to_try` must be .*'2,many'"),
      ("zero_clusters", "--k_to_try=2,0", "`k_to_try` must be an integer >= 1, got 0"),
      ("fixed_k", "--fixed_k=0", "`fixed_k` must be"),
      ("nan_epsilon", "--epsilon_to_try=nan", "`epsilon_to_try` must be a number > 0"),
      ("fixed_epsilon", "--fixed_epsilon=0", "`fixed_epsilon` must be a number > 0"),
      ("method", "--method=lloyd", "method=lloyd"),
      ("seed", "--seed=-1", "`seed` must be"),
      ("ratio", "--cluster_ratio=0.5", "`cluster_ratio` must be"),
      ("too_many_points", f"--num_points={10**15}", "`num_points` and `dim` must fit"),
  )
  def test_bad_input_is_one_line(self, flag, message):
    result = self._run(*_SMALL, f"--output_dir={self.folder}", flag)
    self.assertEqual(result.returncode, 2, result.stderr)
    self.assertLen(result.stderr.splitlines(), 1, result.stderr)
    self.assertRegex(result.stderr, message)
    self.assertFalse(os.path.exists(self.folder))


if __name__ == "__main__":
  absltest.main()
