from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import figure_style
from experiments.private_training import figures
from experiments.private_training import results
from tests.experiments.private_training import sample_runs

_LABELS = [
    "FedAvg, no privacy", "IFCA, no privacy", "DP-FedAvg", "DP-FedAvg, fine-tuned",
    "private clusters", "private clusters, fine-tuned",
]


def _legend(figure):
  (legend,) = figure.legends
  return [text.get_text() for text in legend.get_texts()]


def _overflow(figure):
  """Returns how far, in pixels, anything that is drawn juts out of the figure."""
  figure.canvas.draw()
  box = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
  width, height = figure.bbox.size
  return max(-box.x0, -box.y0, box.x1 - width, box.y1 - height)


class FiguresTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(figure_style.style())

  def test_accuracy_has_a_line_for_each_method_and_fine_tuning(self):
    figure = figures.accuracy(sample_runs.simulation())
    (axes,) = figure.axes

    self.assertEqual(_legend(figure), _LABELS)
    lines = {line.get_label(): line.get_data() for line in axes.lines}
    summary = sample_runs.simulation()["methods"]
    epsilons, accuracies = lines["private clusters, fine-tuned"]
    self.assertEqual(list(epsilons), list(sample_runs.EPSILONS))
    expected = [summary["private_ifca"][f"{e:g}"][results.FINETUNED] for e in epsilons]
    np.testing.assert_array_equal(accuracies, expected)
    self.assertEqual(set(lines["IFCA, no privacy"][1]), {summary["ifca"]["none"]["accuracy"]})
    self.assertEqual(axes.get_xscale(), "log")
    self.assertIn("NOT private; means of 3 seeds", figure.get_suptitle())

  def test_recovery_is_on_the_whole_scale(self):
    figure = figures.recovery(sample_runs.simulation())
    (axes,) = figure.axes

    self.assertEqual(_legend(figure), ["IFCA, no privacy", "private clusters"])
    low, high = axes.get_ylim()
    self.assertLess(low, 0)
    self.assertGreater(high, 1)

  def test_no_recovery_of_unknown_groups(self):
    rows = [{**row, results.ARI: None} for row in sample_runs.rows()]
    summary = results.simulation_summary(rows, sample_runs.RELEASED["data"], 1e-5)

    self.assertIsNone(figures.recovery(summary))

  def test_a_single_epsilon_has_rows_of_dots(self):
    figure = figures.accuracy(sample_runs.simulation(epsilons=(8.0,), seeds=(0,)))
    (axes,) = figure.axes

    self.assertEqual([text.get_text() for text in axes.get_yticklabels()], _LABELS)
    self.assertIn("epsilon 8, delta 1e-05", figure.get_suptitle())
    self.assertIn("NOT private; one seed", figure.get_suptitle())
    shown = [text.get_text() for text in axes.texts]
    self.assertIn("0.853", shown)

  def test_alike_accuracies_look_alike(self):
    rows = [{**row, "accuracy": 0.8, "finetuned_accuracy": 0.801} for row in sample_runs.rows()]
    summary = results.simulation_summary(rows, sample_runs.RELEASED["data"], 1e-5)
    low, high = figures.accuracy(summary).axes[0].get_ylim()

    self.assertAlmostEqual(high - low, 0.1)

  def test_the_budget_is_one_bar_of_its_parts(self):
    figure = figures.budget(sample_runs.RELEASED)
    (axes,) = figure.axes

    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    np.testing.assert_allclose(ends, [(0, 0.2), (0.2, 0.21), (0.21, 0.96), (0.96, 1)])
    self.assertEqual(
        _legend(figure), ["grouping, 20%", "first clip norm, 1%", "training, 75%", "report, 4%"]
    )

  def test_one_cluster_has_no_part_for_grouping(self):
    parts = [{"part": "grouping", "share": 0.0}, {"part": "training", "share": 1.0}]

    figure = figures.budget(sample_runs.released(privacy={"budget": parts}))

    self.assertEqual(_legend(figure), ["training, 100%"])

  def test_sizes_and_clip_norms_are_those_of_the_rounds(self):
    figure = figures.rounds(sample_runs.RELEASED)
    above, below = figure.axes

    *sizes, revival = [line.get_data() for line in above.lines]
    np.testing.assert_array_equal(np.array(sample_runs.RELEASED["sizes"]).T, [y for _, y in sizes])
    self.assertEqual(list(sizes[0][0]), list(range(1, 26)))
    self.assertEqual(set(revival[0]), {7})
    (clip_norms,) = [line.get_ydata() for line in below.lines]
    np.testing.assert_array_equal(clip_norms, sample_runs.RELEASED["clip_norms"])

  @parameterized.parameters(1, 4, 20)
  def test_everything_is_within_the_figure(self, num_clusters):
    sizes = [[100.0 * i + round_ for i in range(num_clusters)] for round_ in range(25)]

    self.assertLess(_overflow(figures.rounds(sample_runs.released(sizes=sizes))), 1)

  @parameterized.parameters(((8.0,),), (sample_runs.EPSILONS,))
  def test_simulations_are_within_the_figure(self, epsilons):
    summary = sample_runs.simulation(epsilons=epsilons)

    for figure in (figures.accuracy(summary), figures.recovery(summary)):
      self.assertLess(_overflow(figure), 1)

  def test_seeded_noise_is_not_private(self):
    released = sample_runs.released(privacy={"is_private": False})

    for figure in (figures.budget(released), figures.rounds(released)):
      self.assertIn("NOT private", figure.get_suptitle())
    self.assertIn("epsilon 8", figures.budget(sample_runs.RELEASED).get_suptitle())


if __name__ == "__main__":
  absltest.main()
