import statistics

from absl.testing import parameterized
import pandas as pd

from experiment_shell import figure_style
from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiments.dp_benchmark import benchmark
from experiments.dp_benchmark import methods
from tests.experiments.dp_benchmark import sample_benchmark

_OURS = methods.LABELS["refine"]


class SummaryTest(parameterized.TestCase):

  def _frames(self, **changes):
    run = sample_benchmark.write(self.create_tempdir().full_path, **changes)
    tidy = tidy_experiment.tidy(benchmark.EXPERIMENT, run)
    return benchmark.EXPERIMENT.summarise(tidy, run.document)

  def test_comparisons_have_gains_with_intervals_and_verdicts(self):
    found = self._frames()
    rows = found["comparisons"].set_index(["method", "dataset", "k", "epsilon"])

    self.assertLen(rows, 2 * 2 * 4)  # Methods, data sets, settings.
    row = rows.loc[(methods.LABELS["lsh"], "letter", 2, 1.0)]
    self.assertAlmostEqual(row["gain"], 25.0)
    other, ours = (
        [sample_benchmark.invented_loss(factor, 2, 1.0, run) for run in range(4)]
        for factor in (1.0, 0.75)
    )
    expected = frames.compared(other, ours, len(rows), in_pairs=False)
    for name in ("low", "high"):
      self.assertAlmostEqual(row[name], 100 * expected[name] / statistics.fmean(other))
    self.assertEqual(set(rows["verdict"]), {"better"})
    (of_lsh,) = found["opponents"].query("method == 'LSH tree'").to_dict("records")
    self.assertEqual((of_lsh["cases"], of_lsh["better"], of_lsh["smaller_mean"]), (8, 8, 8))

  @parameterized.named_parameters(
      ("worse", {"factors": {"lsh": 0.5, "refine": 0.75}}, [8, 0, 0, 8]),
      ("two_runs", {"runs": 2}, [8, 0, 8, 0]),
      ("federated_only", {"factors": {"refine": 0.75, "refine_none": 0.5}}, []),
      ("only_without_privacy", {"factors": {"sklearn": 0.5}}, []),
  )
  def test_headline(self, changes, counts):
    headline = self._frames(**changes)["headline"]

    columns = ["cases", "better", "unclear", "worse"]
    self.assertEqual(headline.reindex(columns=columns).to_numpy().ravel().tolist(), counts)

  def test_published_losses_of_the_same_data_and_privacy(self):
    (row,) = self._frames()["published"].to_dict("records")

    self.assertEqual((row["dataset"], row["k"], row["published"]), ("letter", 16, 0.0985))
    ours = sample_benchmark.invented_loss(0.75, 16, 1.0)
    self.assertAlmostEqual(row["ratio"], ours / 0.0985)
    self.assertEmpty(self._frames(fixed_epsilon=2.0)["published"])

  def test_losses_beside_the_optimum(self):
    optimum = {"k": 16, "loss": 0.01}
    letter = {**sample_benchmark.DATASETS["letter"], "optimum": optimum, "unit_points": 50}
    rows = self._frames(datasets={"letter": letter})["optimum"]

    (row,) = rows[(rows["method"] == _OURS) & (rows["epsilon"] == 2.0)].to_dict("records")
    self.assertEqual(row["unit_points"], 50)
    self.assertAlmostEqual(row["mean"], sample_benchmark.invented_loss(0.75, 16, 2.0) / 0.01)

  def test_small_differences_look_small(self):
    for means, ratio in (([1.0, 1.01], 2.0), ([1.0, 3.0], 3.0)):
      frame = pd.DataFrame({"method": _OURS, "k": [2, 4], "mean": means})
      axes = figure_style.new_figure(2).add_subplot()
      benchmark.EXPERIMENT.figures[0].draw(frame, axes)
      low, high = axes.get_ylim()
      self.assertGreaterEqual(high / low, ratio * (1 - 1e-9))
      self.assertLess(high / low, 1.5 * ratio)
