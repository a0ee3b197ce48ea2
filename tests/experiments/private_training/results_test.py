import json

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy import stats

from experiments.private_training import results
from tests.experiments.private_training import sample_runs


def _of(summary, method, key):
  return summary["methods"][method][key]


class SimulationSummaryTest(parameterized.TestCase):

  def test_has_means_by_method_and_epsilon(self):
    summary = sample_runs.simulation()

    self.assertFalse(summary["is_private"])
    self.assertStartsWith(summary["note"], "NOT private")
    self.assertEqual(
        {method: list(found) for method, found in summary["methods"].items()},
        {"fedavg": ["none"], "ifca": ["none"], "dp_fedavg": ["2", "4", "8", "16"],
         "private_ifca": ["2", "4", "8", "16"]},
    )
    ours = _of(summary, "private_ifca", "8")
    rows = [
        row for row in sample_runs.rows()
        if (row["method"], row["epsilon"]) == ("private_ifca", 8.0)
    ]
    for name in (results.ARI, results.ACCURACY, results.FINETUNED):
      self.assertAlmostEqual(ours[name], np.mean([row[name] for row in rows]))
    self.assertEqual((ours["num_seeds"], ours["relative_noise"]), (3, 0.1025))
    json.dumps(summary, allow_nan=False)

  def test_unknown_groups_have_no_index(self):
    unknown = {("private_ifca", 8.0, seed): {results.ARI: None} for seed in range(3)}
    summary = sample_runs.simulation(epsilons=(8.0,), changes=unknown)

    self.assertIsNone(_of(summary, "private_ifca", "8")[results.ARI])
    self.assertIsNone(_of(summary, "dp_fedavg", "8")[results.ARI])
    self.assertIsNotNone(_of(summary, "ifca", "none")[results.ARI])

  def test_intervals_are_student_t_over_seeds(self):
    summary = sample_runs.simulation(epsilons=(8.0,))
    spread = _of(summary, "private_ifca", "8")["spread"][results.ACCURACY]
    values = [
        row[results.ACCURACY] for row in sample_runs.rows(epsilons=(8.0,))
        if row["method"] == "private_ifca"
    ]

    for end in ("low", "high"):
      self.assertAlmostEqual(stats.ttest_1samp(values, spread[end]).pvalue, 0.05)
    self.assertEqual((spread["least"], spread["most"]), (min(values), max(values)))

  @parameterized.parameters(1, 2)
  def test_few_seeds_have_no_interval(self, num_seeds):
    summary = sample_runs.simulation(seeds=tuple(range(num_seeds)))

    spreads = [
        spread for of_method in summary["methods"].values() for found in of_method.values()
        for spread in found["spread"].values() if spread is not None
    ]
    spreads += [found["difference"] for found in summary["comparisons"]]
    self.assertNotEmpty(spreads)
    for spread in spreads:
      self.assertEqual((spread["low"], spread["high"]), (None, None))
      self.assertEqual(spread["num_seeds"], num_seeds)

  def test_intervals_end_where_scores_do(self):
    indices = {
        ("private_ifca", 8.0, seed): {results.ARI: index}
        for seed, index in enumerate((1.0, 0.99, 1.0))
    }
    summary = sample_runs.simulation(epsilons=(8.0,), changes=indices)

    spread = _of(summary, "private_ifca", "8")["spread"][results.ARI]
    self.assertEqual(spread["high"], 1.0)
    self.assertLess(spread["low"], 0.99)

  def test_compares_runs_of_the_same_seed(self):
    # As different as the seeds are, ours is better by the same everywhere but at one.
    rows = sample_runs.rows(epsilons=(8.0,), seeds=(3, 4, 5, 6))
    by_method = {"dp_fedavg": 0.0, "private_ifca": 0.02}
    for row in rows:
      row[results.FINETUNED] = 0.1 * row["seed"] + by_method.get(row["method"], 0.0)
    rows[0], rows[-1] = rows[-1], rows[0]  # The order doesn't matter.
    del rows[[(r["method"], r["seed"]) for r in rows].index(("dp_fedavg", 6))]

    summary = results.simulation_summary(rows, {}, 1e-5)

    (found,) = results.comparisons(summary, "dp_fedavg")
    self.assertEqual((found["score"], found["epsilon"]), (results.FINETUNED, 8.0))
    self.assertEqual(found["difference"]["num_seeds"], 3)
    self.assertAlmostEqual(found["difference"]["least"], 0.02)
    self.assertAlmostEqual(found["difference"]["most"], 0.02)
    self.assertEmpty(summary["losses"])

  def test_ifca_is_compared_at_every_epsilon(self):
    found = results.comparisons(sample_runs.simulation(), "ifca")

    self.assertEqual([one["epsilon"] for one in found], list(sample_runs.EPSILONS))
    self.assertEqual({one["score"] for one in found}, {results.ACCURACY})
    self.assertAlmostEqual(found[2]["difference"]["mean"], 0.8635 - 0.8615 - 0.0042, places=3)

  def test_every_loss_against_finetuned_dp_fedavg_is_listed(self):
    worse = {("private_ifca", 8.0, 1): {results.FINETUNED: 0.5}}
    summary = sample_runs.simulation(epsilons=(8.0,), changes=worse)

    self.assertEqual(summary["losses"], [{
        "epsilon": 8.0, "seed": 1, "relative_noise": 0.1025, "private_ifca": 0.5,
        "dp_fedavg": sample_runs.rows(epsilons=(8.0,))[4][results.FINETUNED],
    }])

  def test_without_others_there_are_no_comparisons(self):
    summary = sample_runs.simulation(methods=("private_ifca",))

    self.assertEmpty(summary["comparisons"])
    self.assertEmpty(summary["losses"])


class TextTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("none", None, "–"),
      ("interval", (0.5, 0.4, 0.6, 0.3, 0.7), "0.500 [0.300, 0.700]"),
      ("range", (0.5, 0.4, 0.6, None, None), "0.500 (0.400 to 0.600)"),
      ("one", (0.5, 0.5, 0.5, None, None), "0.500"),
  )
  def test_spread(self, spread, expected):
    if spread is not None:
      spread = dict(zip(("mean", "least", "most", "low", "high"), spread))

    self.assertEqual(results.spread_text(spread), expected)

  def _text(self, simulation=None, **changes):
    return results.text({"released": sample_runs.released(**changes), "simulation": simulation})

  def test_says_what_was_released(self):
    lines = self._text().splitlines()

    self.assertStartsWith(lines[0], "planning number 0.10. The noise is 0.10 of the signal")
    self.assertStartsWith(lines[1], "epsilon 8 at delta 1e-05 for one client with all of its data")
    self.assertIn("replaced, epsilon 19.1 at delta 1e-05", lines[1])
    self.assertEqual([line.split() for line in lines[3:]], [
        ["0", "302", "0.855"], ["1", "296", "0.861"], ["2", "303", "0.848"],
        ["3", "299", "0.857"], ["all", "1200", "0.855"],
    ])

  def test_a_lost_report_has_no_numbers(self):
    text = self._text(clusters=[{"cluster": 0, **sample_runs.LOST}], all_clients=sample_runs.LOST)

    self.assertEqual(
        [line.split() for line in text.splitlines()[-2:]], [["0", "–", "–"], ["all", "–", "–"]]
    )

  @parameterized.parameters(
      (0.306, 0.201, "unknown"), (0.306, 0.2, "0.306"), (None, None, "unknown")
  )
  def test_an_accuracy_under_too_much_noise_is_unknown(self, accuracy, std, shown):
    found = {
        "num_clients": 7.0, "num_clients_std": 4.0, "accuracy": accuracy, "accuracy_std": std
    }
    text = self._text(clusters=[{"cluster": 0, **found}], all_clients=found)
    self.assertEqual(
        [line.split() for line in text.splitlines()[-2:]], [["0", "7", shown], ["all", "7", shown]]
    )

  def test_noise_that_can_be_repeated_is_told_first(self):
    changes = {"is_private": False, "noise": "seeded with 3"}

    self.assertStartsWith(
        self._text(privacy=changes), "NOT private. The noise was seeded with 3."
    )

  def test_a_simulation_is_marked(self):
    text = self._text(sample_runs.simulation())

    released, simulation = text.split("\n\n")
    self.assertNotIn("NOT private", released)
    self.assertStartsWith(simulation, "Simulation, NOT private")
    rows = [line.split() for line in simulation.splitlines()]
    self.assertIn(["private", "clusters", "8", "0.10", "3", "0.994", "0.859", "0.882"], rows)
    self.assertIn(["FedAvg,", "no", "privacy", "–", "–", "3", "–", "0.564", "0.815"], rows)


class NumbersTest(parameterized.TestCase):

  def test_detection_rate_is_that_of_two_gaussians(self):
    # The figures of mu at epsilon 8 and at epsilon 2, with delta 1e-5.
    self.assertAlmostEqual(results.detected(1.67, 0.01), 0.256, places=3)
    self.assertAlmostEqual(results.detected(0.0, 0.01), 0.01)


if __name__ == "__main__":
  absltest.main()
