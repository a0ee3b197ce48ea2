import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized

from dp_clustering.demo import clustering_demo
from experiment_shell import launch
from tests.experiment_shell import in_process

_SMALL = (
    "--num_points=2000", "--dim=3", "--num_clusters=4", "--cluster_ratio=20", "--radius=2",
    "--fixed_epsilon=5", "--k_to_try=4,2", "--fixed_k=4", "--epsilon_to_try=1,inf",
)
_FIGURES = ("loss_over_k.png", "loss_over_epsilon.png")


def _run(folder, *flags):
  """Runs the demo and returns what it prints."""
  return in_process.run_main(
      clustering_demo.main, *_SMALL, f"--output_dir={folder}", *flags
  )


def _rows(folder):
  with open(os.path.join(folder, "results.csv"), encoding="utf-8", newline="") as file:
    return list(csv.DictReader(file))


class SeededTest(absltest.TestCase):
  """One seeded run per method; its files are read, copied and resumed."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.base = temporary.name
    cls.folder = os.path.join(cls.base, "refine")
    cls.printed = _run(cls.folder, "--seed=3")

  def _copy(self):
    folder = os.path.join(self.create_tempdir().full_path, "copy")
    return shutil.copytree(self.folder, folder)

  def _check_numbers_and_plots(self, folder, printed):
    rows = _rows(folder)
    self.assertEqual(
        [(row["varies"], row["k"], row["epsilon"]) for row in rows],
        [("k", "4", "5.0"), ("k", "2", "5.0"), ("epsilon", "4", "1.0"),
         ("epsilon", "4", "inf")],
    )
    # Without noise, four separated clusters are found: their variance is (2 / 20)^2.
    best = rows[-1]
    self.assertAlmostEqual(float(best["loss_per_point"]), 0.01, delta=0.001)
    self.assertEqual(float(best["dominant_label_accuracy"]), 1.0)
    self.assertAlmostEqual(float(best["loss"]), 2000 * float(best["loss_per_point"]))
    for row in rows:
      self.assertIn(f"{float(row['loss_per_point']):.5f}", printed)
      self.assertIn(f"noise {row['noise']}", printed)
      self.assertStartsWith(row["noise"], "none" if row["epsilon"] == "inf" else "seeded with 3")
    for name in _FIGURES:
      with open(os.path.join(folder, name), "rb") as file:
        self.assertStartsWith(file.read(), b"\x89PNG")

  def test_refine_leaves_numbers_and_plots(self):
    self._check_numbers_and_plots(self.folder, self.printed)

  def test_lsh_leaves_numbers_and_plots(self):
    folder = os.path.join(self.base, "lsh")
    self._check_numbers_and_plots(folder, _run(folder, "--method=lsh", "--seed=3"))

  def test_config_holds_every_setting(self):
    with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
      document = json.load(file)
    self.assertEqual(document["config"], {
        "num_points": 2000, "dim": 3, "num_clusters": 4, "cluster_ratio": 20.0, "radius": 2.0,
        "fixed_epsilon": 5.0, "k_to_try": ["4", "2"], "fixed_k": 4,
        "epsilon_to_try": ["1", "inf"], "method": "refine", "seed": 3, "delta": 1e-6,
    })
    self.assertEqual(
        list(document["versions"]), ["python", "numpy", "scikit-learn", "scipy"]
    )

  def test_the_seed_decides_the_numbers(self):
    folder = self._copy()
    _run(folder, "--seed=3", "--overwrite")
    self.assertEqual(_rows(folder), _rows(self.folder))
    _run(folder, "--seed=4", "--overwrite")
    self.assertNotEqual(_rows(folder)[0]["loss"], _rows(self.folder)[0]["loss"])

  def test_resume_measures_what_is_missing(self):
    folder = self._copy()
    path = os.path.join(folder, "results.csv")
    with open(path, encoding="utf-8") as file:
      text = file.read()
    with open(path, "w", encoding="utf-8") as file:
      file.write(text[: text.index("epsilon,4,inf") + 9])
    _run(folder, "--seed=3", "--resume")
    self.assertEqual(_rows(folder), _rows(self.folder))

  def test_a_folder_in_use_is_left_alone(self):
    before = _rows(self.folder)
    with self.assertRaisesRegex(launch.InputError, "`output_dir` must be empty without"):
      _run(self.folder)
    self.assertEqual(_rows(self.folder), before)


class ClusteringDemoTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.base = self.create_tempdir().full_path

  def _run_program(self, *flags):
    return subprocess.run(
        [sys.executable, "-m", "dp_clustering.demo.clustering_demo", *_SMALL, *flags],
        check=False, capture_output=True, text=True, cwd=self.base,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

  def test_by_default_noise_is_secure_and_the_folder_new(self):
    result = self._run_program()
    self.assertEqual(result.returncode, 0, result.stderr)
    results = os.path.join(self.base, "results")
    (name,) = os.listdir(results)
    self.assertStartsWith(name, "clustering_demo-")
    first = _rows(os.path.join(results, name))[0]
    self.assertStartsWith(first["noise"], "secure")

    again = os.path.join(self.base, "again")
    _run(again)
    self.assertNotEqual(_rows(again)[0]["loss"], first["loss"])

  @parameterized.named_parameters(
      ("no_k", "--k_to_try=", "`k_to_try` must be a comma-separated list of integers"),
      ("text_as_k", "--k_to_try=2,many", "`k_to_try` must be .*'2,many'"),
      ("zero_clusters", "--k_to_try=2,0", "`k_to_try` must be an integer >= 1, got 0"),
      ("fixed_k", "--fixed_k=0", "`fixed_k` must be"),
      ("nan_epsilon", "--epsilon_to_try=nan", "`epsilon_to_try` must be a number in"),
      ("fixed_epsilon", "--fixed_epsilon=0", "`fixed_epsilon` must be a number "),
      ("epsilon_to_try", "--epsilon_to_try=1,1e300", "`epsilon_to_try` must be a number "),
      ("method", "--method=lloyd", "method=lloyd"),
      ("seed", "--seed=-1", "`seed` must be"),
      ("ratio", "--cluster_ratio=0.5", "`cluster_ratio` must be"),
      ("too_many_points", f"--num_points={10**15}", "`num_points` and `dim` must fit"),
  )
  def test_refuses(self, flag, message):
    folder = os.path.join(self.base, "run")
    with self.assertRaisesRegex(launch.InputError, message):
      _run(folder, flag)
    self.assertFalse(os.path.exists(folder))

  def test_bad_flags_end_the_program_with_one_line(self):
    result = self._run_program("--seed=-1")
    self.assertEqual(
        (result.returncode, result.stderr),
        (2, "error: `seed` must be an integer >= 0, got -1.\n"),
    )
    self.assertEmpty(os.listdir(self.base))


if __name__ == "__main__":
  absltest.main()
