import contextlib
import math
from unittest import mock

from absl.testing import absltest
import numpy as np
import pandas as pd

from dp_clustering import clustering
from dp_clustering.demo import config as config_lib
from dp_clustering.demo import data_generation
from dp_clustering.demo import sweeps
from experiment_shell import figure_style
from experiment_shell import tidy_experiment


class SeedTest(absltest.TestCase):

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


class SweepFigureTest(absltest.TestCase):

  def _axes(self, lines, values):
    """Returns the axes of lines, from their names to what they are over the values."""
    frame = pd.concat([
        pd.DataFrame({"line": name, "x": values, "y": numbers}) for name, numbers in lines.items()
    ])
    with figure_style.style():
      axes = figure_style.new_figure(2).add_subplot()
      sweeps.draw("k", frame, axes)
    return axes

  def test_lines_are_the_rows(self):
    axes = self._axes({"loss_per_point": [0.5, 0.2], "true_loss_per_point": [0.6, 0.6]}, [2, 8])
    self.assertEqual(axes.lines[0].get_xydata().tolist(), [[2, 0.5], [8, 0.2]])
    self.assertEqual(axes.lines[1].get_xydata().tolist(), [[2, 0.6], [8, 0.6]])
    low, high = axes.get_ylim()
    self.assertTrue(low < 0 and high > 0.6)

  def test_qualities_are_on_one_scale(self):
    lines = {"dominant_label_accuracy": [0.1, 0.2], "false_match_frac": [math.nan, 0.1]}
    axes = self._axes(lines, [2, 8])
    self.assertGreater(axes.get_ylim()[1], 1)

  def test_infinite_epsilon_has_a_place_and_a_name(self):
    axes = self._axes({"loss_per_point": [0.4, 0.3, 0.2]}, [0.5, 3.0, math.inf])
    self.assertEqual(axes.lines[0].get_xdata().tolist(), [0.5, 3, 6])
    names = [text.get_text() for text in axes.get_xticklabels()]
    self.assertEqual(names, ["0.5", "3", "no noise"])
    self.assertEqual(self._axes({"loss_per_point": [0.4]}, [math.inf]).lines[0].get_xdata(), [2])

  def test_many_values_have_few_ticks(self):
    axes = self._axes({"loss_per_point": [1 / k for k in range(1, 60)]}, range(1, 60))
    self.assertLen(axes.get_xticks(), 10)
