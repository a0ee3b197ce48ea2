import json
import math
import statistics

from absl.testing import absltest
from absl.testing import parameterized

from experiments.private import results as results_lib
from tests.experiments.private import sample_benchmark


class ResultsTest(parameterized.TestCase):

  def _read(self, **changes):
    run = sample_benchmark.write(self.create_tempdir().full_path, **changes)
    return results_lib.read(run)

  def test_losses_are_mean_and_middle_half_of_the_runs(self):
    found = self._read().losses.loc["letter", "lsh", 2, 1.0]

    losses = [sample_benchmark.invented_loss(1.0, 2, 1.0, run) for run in range(4)]
    self.assertAlmostEqual(found["mean"], sum(losses) / 4)
    # Between the four equally spaced losses, three quarters of a step from either end.
    step = losses[1] - losses[0]
    self.assertAlmostEqual(found["low"], losses[0] + 0.75 * step)
    self.assertAlmostEqual(found["high"], losses[3] - 0.75 * step)

  def test_one_run_is_its_own_band(self):
    found = self._read(runs=1).losses.loc["letter", "lsh", 2, 1.0]

    self.assertEqual(found["low"], found["mean"])
    self.assertEqual(found["high"], found["mean"])

  def test_what_is_not_private_is_the_same_for_any_epsilon(self):
    results = self._read()

    self.assertEqual(results.loss("letter", "sklearn", 16, 0.5),
                     results.loss("letter", "sklearn", 16, 2.0))
    self.assertEqual(results.private_methods, ("diffprivlib", "lsh", "refine"))

  def test_compares_with_the_peer_where_the_data_are_the_same(self):
    (comparison,) = self._read().peer_comparisons()

    # The invented synthetic data have too few points, and k = 64 was not tried.
    self.assertEqual((comparison.dataset, comparison.k), ("letter", 16))
    mean = sample_benchmark.invented_loss(0.75, 16, 1.0, 1.5)
    self.assertAlmostEqual(comparison.ratio, mean / 0.0985)
    self.assertTrue(comparison.is_reached)

  def test_a_target_may_be_missed(self):
    # The factor that gives 0.0985 * 0.83 for 16 clusters; the target is 0.82.
    factor = 0.0985 * 0.83 / sample_benchmark.invented_loss(1.0, 16, 1.0, 1.5)
    (comparison,) = self._read(factors={"refine": factor}).peer_comparisons()

    self.assertAlmostEqual(comparison.ratio, 0.83)
    self.assertFalse(comparison.is_reached)

  @parameterized.named_parameters(
      ("another_epsilon", {"fixed_epsilon": 2.0}),
      ("another_delta", {"delta": 1e-5}),
      ("another_k", {"k_to_try": (2, 8), "fixed_k": 8}),
      ("without_our_method", {"factors": {"lsh": 1.0}}),
  )
  def test_does_not_compare_what_is_not_the_same(self, changes):
    self.assertEmpty(self._read(**changes).peer_comparisons())

  def test_summary_has_every_band(self):
    results = self._read(skipped={"gas_emissions": "no network"})
    summary = json.loads(json.dumps(results_lib.summary(results), allow_nan=False))

    self.assertLen(summary["losses"], len(results.losses))
    (row,) = [
        row for row in summary["losses"]
        if (row["dataset"], row["method"], row["k"]) == ("letter", "sklearn", 2)
    ]
    self.assertIsNone(row["epsilon"])
    self.assertEqual(row["mean"], results.loss("letter", "sklearn", 2, math.inf))
    self.assertEqual([row["k"] for row in summary["ratios_to_peer"]], [16])
    self.assertEqual(summary["skipped"], ["gas_emissions"])

  def test_ratios_to_the_optimum_are_only_for_its_k(self):
    optimum = {"k": 16, "loss": 0.01, "paper_epsilon": 2.0}
    letter = {**sample_benchmark.DATASETS["letter"], "optimum": optimum}
    results = self._read(datasets={"letter": letter}, factors={"sklearn": 0.5, "refine": 1.0})
    ratios = results.optimum_ratios()

    self.assertEqual([ratio["epsilon"] for ratio in ratios], [0.5, 1.0, 2.0])
    self.assertEqual([ratio["is_of_paper"] for ratio in ratios], [False, False, True])
    losses = [sample_benchmark.invented_loss(1.0, 16, 2.0, run) for run in range(4)]
    self.assertAlmostEqual(ratios[2]["mean"], sum(losses) / 4 / 0.01)
    self.assertAlmostEqual(ratios[2]["worst"], max(losses) / 0.01)
    self.assertAlmostEqual(ratios[2]["sd"], statistics.stdev(losses) / 0.01)
    self.assertLen(results_lib.summary(results)["ratios_to_optimum"], 3)

  def test_text_has_a_line_for_every_method_and_the_peer(self):
    heading, letter, synthetic = results_lib.text(self._read()).split("\n\n")
    self.assertEndsWith(heading, "seeded noise, for benchmarks only")

    self.assertLen(letter.splitlines(), 6)
    self.assertRegex(letter.splitlines()[-1], r"google/differential-privacy +- +0\.0985")
    self.assertLen(synthetic.splitlines(), 5)
    self.assertIn("IBM diffprivlib", synthetic)


if __name__ == "__main__":
  absltest.main()
