import contextlib
import math
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.private import cells as cells_lib
from experiments.private import config as config_lib
from experiments.private import data
from experiments.private import diffprivlib_process
from experiments.private import uci
from tests.experiments.private import fake_diffprivlib


def _letter(data_dir):
  """Stands for UCI's files: a few points."""
  return np.random.default_rng(0).random((300, 3)), f"letters of {data_dir}"


def _config(**changes):
  values = {"k_to_try": (2, 16), "fixed_k": 16, "epsilon_to_try": (0.5, 1.0), "runs": 2}
  return config_lib.BenchmarkConfig(**{**values, **changes})


def _benchmark(datasets, methods, **changes):
  """Returns a `Benchmark` of mappings, or of names alone, and a small config."""
  return cells_lib.Benchmark(_config(**changes), datasets, methods, {}, {})


class LoadBenchmarkTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(mock.patch.object(uci, "load_letter", _letter))
    self.enter_context(
        mock.patch.object(diffprivlib_process, "default_python", return_value=None)
    )

  def _load(self, python=None, **changes):
    config = config_lib.BenchmarkConfig(**{
        "datasets": ("letter",), "methods": ("sklearn", "refine"), "k_to_try": (2,),
        "epsilon_to_try": (), "fixed_k": 3, "runs": 1, **changes,
    })
    stack = self.enter_context(contextlib.ExitStack())
    return cells_lib.load_benchmark(config, "uci", python, stack)

  def test_has_the_data_sets_and_methods_asked_for(self):
    benchmark = self._load()

    self.assertEqual(list(benchmark.datasets), ["letter"])
    self.assertEqual(list(benchmark.methods), ["sklearn", "refine"])
    self.assertEqual(benchmark.skipped, {})

  def test_leaves_out_diffprivlib_if_it_is_missing_and_says_so(self):
    benchmark = self._load(methods=("diffprivlib", "lsh"))

    self.assertEqual(list(benchmark.methods), ["lsh"])
    self.assertIn("name one with --diffprivlib_python", benchmark.skipped["diffprivlib"])
    self.assertEqual(benchmark.diffprivlib_versions, {})

  def test_leaves_out_a_broken_diffprivlib_of_bazel(self):
    diffprivlib_process.default_python.return_value = "/bin/false"
    benchmark = self._load(methods=("diffprivlib", "lsh"))

    self.assertIn("/bin/false has no diffprivlib", benchmark.skipped["diffprivlib"])

  def test_starts_diffprivlib(self):
    python = fake_diffprivlib.write_python(self.create_tempdir().full_path)
    benchmark = self._load(methods=("diffprivlib", "lsh"), python=python)

    self.assertEqual(list(benchmark.methods), ["diffprivlib", "lsh"])
    self.assertIn("diffprivlib", benchmark.diffprivlib_versions)

  def test_does_not_start_what_is_not_asked_for(self):
    diffprivlib_process.default_python.side_effect = AssertionError

    self.assertEqual(self._load(methods=("lsh",)).skipped, {})

  def test_names_missing_data_sets(self):
    unavailable = mock.patch.object(uci, "load_gas_emissions", side_effect=uci.Unavailable("why"))
    with unavailable:
      benchmark = self._load(datasets=("letter", "gas_emissions"))

    self.assertEqual(benchmark.skipped, {"gas_emissions": "why"})
    self.assertNotIn("gas_emissions", benchmark.describe()["datasets"])

  @parameterized.named_parameters(
      ("no_method_left", {"methods": ("diffprivlib",)}, "`methods` must name one that can be run"),
      ("no_diffprivlib", {"methods": ("diffprivlib",), "python": "/bin/false"},
       "`diffprivlib_python` must have diffprivlib"),
      ("k_above_n", {"k_to_try": (301,)}, "`k_to_try` must be at most 300.*of letter"),
      ("fixed_k_above_n", {"fixed_k": 301}, "`fixed_k` must be at most 300"),
  )
  def test_refuses(self, changes, message):
    with self.assertRaisesRegex(ValueError, message):
      self._load(**changes)


class CheckRecordedTest(absltest.TestCase):

  def test_names_what_is_not_the_same(self):
    before = {"datasets": {"letter": {"sha256": "a"}}, "diffprivlib_versions": {"numpy": "1"}}
    cells_lib.check_recorded(before, dict(before))

    for change, name in (
        ({"datasets": {"letter": {"sha256": "b"}}}, "letter"),
        ({"datasets": {**before["datasets"], "synthetic": {}}}, "synthetic"),
        ({"datasets": {}}, "letter"),
        ({"diffprivlib_versions": {}}, "numpy"),
    ):
      with self.assertRaisesRegex(ValueError, f"same data sets.* got another {name}"):
        cells_lib.check_recorded(before, {**before, **change})


class CellsTest(absltest.TestCase):

  def test_every_setting_once_for_every_run(self):
    cells = cells_lib.cells(_benchmark(["letter"], ["refine"]))

    # k = 16 at epsilon 1 belongs to both sweeps.
    expected = {(2, 1.0), (16, 1.0), (16, 0.5)}
    self.assertEqual({(cell["k"], cell["epsilon"]) for cell in cells}, expected)
    self.assertLen(cells, 2 * len(expected))
    self.assertLen({tuple(cell.values()) for cell in cells}, len(cells))

  def test_what_is_not_private_has_no_epsilon(self):
    cells = cells_lib.cells(_benchmark(["letter"], ["sklearn"], k_to_try=(2,)))

    self.assertEqual(
        [(cell["k"], cell["epsilon"], cell["run"]) for cell in cells],
        [(2, math.inf, 0), (2, math.inf, 1), (16, math.inf, 0), (16, math.inf, 1)],
    )

  def test_fixed_k_counts_only_with_epsilons(self):
    cells = cells_lib.cells(_benchmark(["letter"], ["lsh"], k_to_try=(2,), epsilon_to_try=()))

    self.assertEqual({cell["k"] for cell in cells}, {2})

  def test_data_sets_one_after_another(self):
    cells = cells_lib.cells(_benchmark(["letter", "synthetic"], ["sklearn", "lsh"]))

    names = [cell["dataset"] for cell in cells]
    self.assertEqual(names, sorted(names))

  def test_every_cell_has_its_own_seed(self):
    cells = cells_lib.cells(_benchmark(["letter", "synthetic"], ["lsh", "refine"]))
    seeds = {cells_lib.cell_seed(seed, **cell) for cell in cells for seed in (0, 1)}

    self.assertLen(seeds, 2 * len(cells))
    self.assertEqual(
        cells_lib.cell_seed(0, **cells[3]), cells_lib.cell_seed(0, **dict(cells[3]))
    )
    self.assertBetween(min(seeds), 0, 2**32 - 1)


class MeasureTest(absltest.TestCase):

  def test_is_the_mean_squared_distance_to_the_nearest_center(self):
    calls = []

    def method(dataset, k, epsilon, delta, seed):
      calls.append((len(dataset.points), k, epsilon, delta, seed))
      return np.array([[0.0, 0.0], [0.5, 0.0]])

    points = np.array([[0.1, 0.0], [0.5, 0.2], [0.0, -0.3]])
    dataset = data.BenchmarkDataset("letter", points, "three points")
    benchmark = _benchmark({"letter": dataset}, {"lsh": method}, seed=5)
    cell = {"dataset": "letter", "method": "lsh", "k": 2, "epsilon": 0.5, "run": 1}

    values = cells_lib.build_measure(benchmark)(**cell)

    self.assertEqual(set(values), set(cells_lib.VALUES))
    self.assertAlmostEqual(values["loss"], (0.01 + 0.04 + 0.09) / 3)
    self.assertEqual(
        calls, [(3, 2, 0.5, benchmark.config.delta, cells_lib.cell_seed(5, **cell))]
    )


if __name__ == "__main__":
  absltest.main()
