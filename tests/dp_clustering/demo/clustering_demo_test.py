import contextlib
import json
import math
import os
import pathlib
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from dp_clustering import clustering
from dp_clustering.demo import clustering_demo
from dp_clustering.demo import config as config_lib
from dp_clustering.demo import data_generation
from dp_clustering.demo import sweeps
from experiment_shell import frames
from experiment_shell import launch
from experiment_shell import tidy_experiment
from tests.experiment_shell import in_process

_SMALL = (
    "--num_points=2000", "--dim=3", "--num_clusters=4", "--cluster_ratio=20", "--radius=2",
    "--fixed_epsilon=5", "--k_to_try=4,2", "--fixed_k=4", "--epsilon_to_try=1,inf",
)
_FIGURES = ("loss_over_k.png", "loss_over_epsilon.png")
_KEYS = ["varies", "k", "epsilon"]


def _run(folder, *flags):
  """Runs the demo and returns what it prints."""
  return in_process.run_main(
      clustering_demo.main, *_SMALL, f"--output_dir={folder}", *flags
  )


def _table(folder):
  """Returns a row for every clustering, in the order of measuring."""
  rows = pd.read_csv(os.path.join(folder, "results.csv"))
  return frames.wide(rows, [*_KEYS, "noise"]).set_index(_KEYS)


class SeededTest(absltest.TestCase):
  """One seeded run per method; its files are read, copied and resumed."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.base = cls.enterClassContext(tempfile.TemporaryDirectory())
    cls.folder = os.path.join(cls.base, "refine")
    cls.printed = _run(cls.folder, "--seed=0")  # Zero is a seed, too.

  def _check_numbers_and_plots(self, folder, printed):
    rows = _table(folder)
    self.assertEqual(
        rows.index.tolist(),
        [("k", 4, 5.0), ("k", 2, 5.0), ("epsilon", 4, 1.0), ("epsilon", 4, math.inf)],
    )
    # Without noise, four separated clusters are found: their variance is (2 / 20)^2.
    best = rows.iloc[-1]
    self.assertAlmostEqual(best["loss_per_point"], 0.01, delta=0.001)
    self.assertAlmostEqual(best["true_loss_per_point"], best["loss_per_point"], delta=0.001)
    self.assertEqual(best["dominant_label_accuracy"], 1.0)
    for (_, _, epsilon), row in rows.iterrows():
      self.assertIn(f"{row['loss_per_point']:.5f}", printed)
      self.assertIn(row["noise"], printed)
      self.assertStartsWith(row["noise"], "none" if epsilon == math.inf else "seeded with 0")
    self.assertCountEqual(os.listdir(os.path.join(folder, "figures")), _FIGURES)
    self.assertIn("NOT private", pathlib.Path(folder, "report.html").read_text(encoding="utf-8"))

  def test_refine_leaves_numbers_and_plots(self):
    self._check_numbers_and_plots(self.folder, self.printed)

  def test_lsh_leaves_numbers_and_plots(self):
    folder = os.path.join(self.base, "lsh")
    self._check_numbers_and_plots(folder, _run(folder, "--method=lsh", "--seed=0"))

  def test_config_holds_every_setting(self):
    with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
      document = json.load(file)
    self.assertEqual(document["config"], {
        "num_points": 2000, "dim": 3, "num_clusters": 4, "cluster_ratio": 20.0, "radius": 2.0,
        "fixed_epsilon": 5.0, "k_to_try": [4, 2], "fixed_k": 4, "epsilon_to_try": [1.0, "inf"],
        "method": "refine", "seed": 0, "delta": 1e-6,
    })
    self.assertEqual(
        list(document["versions"]), ["python", "numpy", "scikit-learn", "scipy"]
    )

  def test_a_clusterings_numbers_depend_on_its_settings_and_the_seed_alone(self):
    folder, few = os.path.join(self.base, "few"), ("--k_to_try=2", "--epsilon_to_try=inf")
    _run(folder, *few, "--seed=0")
    expected = _table(self.folder)
    pd.testing.assert_frame_equal(_table(folder), expected.iloc[[1, 3]])
    _run(folder, *few, "--seed=4", "--overwrite")
    self.assertNotEqual(
        _table(folder)["loss_per_point"].iloc[0], expected["loss_per_point"].iloc[1]
    )

  def test_data_and_clustering_are_by_the_seed(self):
    settings = {"num_points": 60, "dim": 2, "num_clusters": 3, "cluster_ratio": 9.0}
    demo = config_lib.DemoConfig(**settings, method="lsh", seed=7)
    inputs = sweeps.EXPERIMENT.load(demo, contextlib.ExitStack())
    expected = data_generation.generate_synthetic_dataset(
        *settings.values(), 1.0, np.random.default_rng(7)
    )
    np.testing.assert_array_equal(inputs.data[0].datapoints, expected.datapoints)
    run = tidy_experiment.Run(demo, inputs.data, "")
    lsh = mock.Mock(wraps=clustering.METHODS["lsh"])
    with mock.patch.dict(clustering.METHODS, lsh=lsh):
      sweeps.EXPERIMENT.measure(run, varies="k", k=3, epsilon=8.0)
    self.assertEqual(lsh.call_args.kwargs, {"random_state": 7})


class ClusteringDemoTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.base = self.create_tempdir().full_path

  def test_by_default_noise_is_secure_and_the_folder_new(self):
    with contextlib.chdir(self.base):
      code, _, stderr = in_process.run_program(clustering_demo.main, *_SMALL)
    self.assertEqual(code, 0, stderr)
    results = os.path.join(self.base, "results")
    (name,) = os.listdir(results)
    self.assertStartsWith(name, "clustering_demo-")
    first = _table(os.path.join(results, name)).iloc[0]
    self.assertStartsWith(first["noise"], "secure")

  @parameterized.parameters(
      ("k_to_try", ""), ("k_to_try", "2,many"), ("k_to_try", "2,0"), ("fixed_k", 0),
      ("epsilon_to_try", "nan"), ("fixed_epsilon", 0), ("epsilon_to_try", "1,1e300"),
      ("method", "lloyd"), ("seed", -1), ("cluster_ratio", 0.5), ("num_points", 10**15),
  )
  def test_refuses(self, name, value):
    folder = os.path.join(self.base, "run")
    with self.assertRaisesRegex(launch.InputError, name):
      _run(folder, f"--{name}={value}")
    self.assertFalse(os.path.exists(folder))
