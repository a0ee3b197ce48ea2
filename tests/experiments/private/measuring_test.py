import math

from absl.testing import absltest
import numpy as np

from experiments.private import config as config_lib
from experiments.private import datasets
from experiments.private import measuring


def _config(**changes):
  values = {"k_to_try": (2, 16), "fixed_k": 16, "epsilon_to_try": (0.5, 1.0), "runs": 2}
  return config_lib.BenchmarkConfig(**{**values, **changes})


class CellsTest(absltest.TestCase):

  def test_every_setting_once_for_every_run(self):
    cells = measuring.cells(_config(), ["letter"], ["refine"])

    # k = 16 at epsilon 1 belongs to both sweeps.
    expected = {(2, 1.0), (16, 1.0), (16, 0.5)}
    self.assertEqual({(cell["k"], cell["epsilon"]) for cell in cells}, expected)
    self.assertLen(cells, 2 * len(expected))
    self.assertLen({tuple(cell.values()) for cell in cells}, len(cells))

  def test_what_is_not_private_has_no_epsilon(self):
    cells = measuring.cells(_config(k_to_try=(2,)), ["letter"], ["sklearn"])

    self.assertEqual(
        [(cell["k"], cell["epsilon"], cell["run"]) for cell in cells],
        [(2, math.inf, 0), (2, math.inf, 1), (16, math.inf, 0), (16, math.inf, 1)],
    )

  def test_fixed_k_counts_only_with_epsilons(self):
    cells = measuring.cells(_config(k_to_try=(2,), epsilon_to_try=()), ["letter"], ["lsh"])

    self.assertEqual({cell["k"] for cell in cells}, {2})

  def test_data_sets_one_after_another(self):
    cells = measuring.cells(_config(), ["letter", "synthetic"], ["sklearn", "lsh"])

    names = [cell["dataset"] for cell in cells]
    self.assertEqual(names, sorted(names))


class CellSeedTest(absltest.TestCase):

  def test_every_cell_has_its_own(self):
    cells = measuring.cells(_config(), ["letter", "synthetic"], ["lsh", "refine"])
    seeds = {measuring.cell_seed(seed, **cell) for cell in cells for seed in (0, 1)}

    self.assertLen(seeds, 2 * len(cells))
    self.assertEqual(
        measuring.cell_seed(0, **cells[3]), measuring.cell_seed(0, **dict(cells[3]))
    )
    self.assertBetween(min(seeds), 0, 2**32 - 1)


class MeasureTest(absltest.TestCase):

  def test_is_the_mean_squared_distance_to_the_nearest_center(self):
    calls = []

    def clusterer(points, k, epsilon, delta, seed):
      calls.append((len(points), k, epsilon, delta, seed))
      return np.array([[0.0, 0.0], [0.5, 0.0]])

    points = np.array([[0.1, 0.0], [0.5, 0.2], [0.0, -0.3]])
    dataset = datasets.BenchmarkDataset("letter", points, "three points")
    config = _config(seed=5)
    measure = measuring.build_measure(config, {"letter": dataset}, {"lsh": clusterer})
    cell = {"dataset": "letter", "method": "lsh", "k": 2, "epsilon": 0.5, "run": 1}

    values = measure(**cell)

    self.assertEqual(set(values), set(measuring.VALUES))
    self.assertAlmostEqual(values["loss"], (0.01 + 0.04 + 0.09) / 3)
    self.assertEqual(calls, [(3, 2, 0.5, config.delta, measuring.cell_seed(5, **cell))])


if __name__ == "__main__":
  absltest.main()
