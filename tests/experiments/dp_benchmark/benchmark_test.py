import contextlib
import hashlib
import math
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import tidy_experiment
from experiments.dp_benchmark import benchmark
from experiments.dp_benchmark import config as config_lib
from experiments.dp_benchmark import data
from experiments.dp_benchmark import methods

_EXPERIMENT = benchmark.EXPERIMENT


def _config(**changes):
  values = {"k_to_try": (2, 16), "fixed_k": 16, "epsilon_to_try": (0.5, 1.0), "runs": 2}
  return config_lib.BenchmarkConfig(**{**values, **changes})


def _cells(datasets, names, **changes):
  return benchmark.cells(_config(methods=tuple(names), **changes), dict.fromkeys(datasets))


class LoadTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(mock.patch.object(data, "load_letter", self._load_letter))

  def _load_letter(self, folder):
    """Stands for UCI's file: a few points."""
    return np.random.default_rng(0).random((300, 3)), f"letters of {folder}"

  def _load(self, **changes):
    config = _config(**{"datasets": ("letter",), "methods": ("sklearn", "refine"), **changes})
    return _EXPERIMENT.load(config, contextlib.ExitStack(), data_dir="uci")

  def test_identity_is_that_of_the_points(self):
    inputs = self._load()

    # Others are no inputs of the same run.
    digest = hashlib.sha256(inputs.data["letter"].points.tobytes()).hexdigest()
    self.assertEqual(inputs.identity["datasets"]["letter"]["sha256"], digest)

  def test_data_are_drawn_by_the_seed(self):
    drawn = mock.Mock(side_effect=lambda seed, folder: data.BenchmarkDataset(
        "drawn", np.full((20, 2), seed), f"seed {seed}"
    ))
    with mock.patch.dict(data.DATASETS, synthetic=drawn):
      self._load(datasets=("synthetic",), seed=7)
    drawn.assert_called_once_with(7, "uci")

  @parameterized.parameters(("k_to_try", {"k_to_try": (301,)}), ("fixed_k", {"fixed_k": 301}))
  def test_refuses(self, name, changes):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      self._load(**changes)


class CellsTest(absltest.TestCase):

  def test_every_setting_once_for_every_run(self):
    cells = _cells(["letter"], ["refine"], k_to_try=(2, 8), fixed_k=8)

    # k = 8 at epsilon 1 belongs to both sweeps.
    expected = {(2, 1.0), (8, 1.0), (8, 0.5)}
    self.assertEqual({(cell["k"], cell["epsilon"]) for cell in cells}, expected)
    self.assertLen(cells, 2 * len(expected))
    self.assertLen({tuple(cell.values()) for cell in cells}, len(cells))
    # Without epsilons, no fixed number of clusters.
    cells = _cells(["letter"], ["lsh"], k_to_try=(2,), epsilon_to_try=())
    self.assertEqual({cell["k"] for cell in cells}, {2})

  def test_what_is_not_private_has_no_epsilon(self):
    settings = {(cell["k"], cell["epsilon"]) for cell in _cells(["letter"], ["sklearn"])}
    self.assertEqual(settings, {(2, math.inf), (16, math.inf)})

  def test_every_cell_has_its_own_seed(self):
    cells = _cells(["letter", "synthetic"], ["lsh", "refine"])
    seeds = {benchmark.cell_seed(seed, **cell) for cell in cells for seed in (0, 1)}

    self.assertLen(seeds, 2 * len(cells))
    self.assertBetween(min(seeds), 0, 2**32 - 1)

  def test_measures_the_mean_squared_distance_to_the_nearest_center(self):
    method = mock.Mock(return_value=np.array([[0.0, 0.0], [0.5, 0.0]]))
    points = np.array([[0.1, 0.0], [0.5, 0.2], [0.0, -0.3]])
    dataset = data.BenchmarkDataset("letter", points, "three points")
    cell = {"dataset": "letter", "method": "lsh", "k": 2, "epsilon": 0.5, "run": 1}

    whole = tidy_experiment.Run(_config(seed=5, delta=1e-4), {"letter": dataset}, "")
    with mock.patch.dict(methods.METHODS, {"lsh": methods.Method("", method)}):
      found = _EXPERIMENT.measure(whole, **cell)

    (row,) = found["results"]
    self.assertEqual(row["metric"], "loss_per_point")
    self.assertAlmostEqual(row["value"], (0.01 + 0.04 + 0.09) / 3)
    method.assert_called_once_with(dataset, 2, 0.5, 1e-4, benchmark.cell_seed(5, **cell))

  def test_a_budget_for_which_there_is_no_noise_fails_its_cell(self):
    dataset = data.BenchmarkDataset("letter", np.eye(9), "nine points", num_clients=3)
    whole = tidy_experiment.Run(_config(seed=5), {"letter": dataset}, "")
    with self.assertRaises(_EXPERIMENT.failures):
      _EXPERIMENT.measure(whole, dataset="letter", method="refine_none", k=2, epsilon=1e10, run=0)


class BenchmarkConfigTest(parameterized.TestCase):

  @parameterized.parameters(
      ("datasets", ("iris",)), ("methods", ("sklearn", "spectral")), ("k_to_try", (2, 0)),
      ("k_to_try", ()), ("fixed_epsilon", 0.0), ("fixed_epsilon", float("inf")),
      ("fixed_epsilon", 1e300), ("epsilon_to_try", (1.0, 1e-9)), ("fixed_k", 0),
      ("epsilon_to_try", (1.0, float("nan"))), ("delta", 1.0), ("runs", 0), ("seed", -1),
  )
  def test_refuses(self, name, value):
    with self.assertRaisesRegex(ValueError, f"`{name}`"):
      config_lib.BenchmarkConfig(**{name: value})
