from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import figure_style
from experiments.private import figures
from experiments.private import results as results_lib
from tests.experiments.private import sample_benchmark


def _lines(axes):
  """Returns the curves with at least two points, as (x, y) arrays."""
  return [line.get_data() for line in axes.lines if len(line.get_xdata()) > 1]


def _legend(figure):
  (legend,) = figure.legends
  return [text.get_text() for text in legend.get_texts()]


class FiguresTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(figure_style.style())

  def _read(self, **changes):
    run = sample_benchmark.write(self.create_tempdir().full_path, **changes)
    return results_lib.read(run)

  def test_every_data_set_has_a_panel_and_every_method_a_curve(self):
    results = self._read()
    figure = figures.loss_over_k(results)

    self.assertEqual(
        [axes.get_title("left") for axes in figure.axes], ["letter", "synthetic"]
    )
    for axes in figure.axes:
      self.assertLen(_lines(axes), 4)
      self.assertLen(axes.collections, 4)  # The bands.
    self.assertLen(_legend(figure), 5)

  def test_curves_are_the_means_over_ascending_k(self):
    results = self._read(k_to_try=(16, 2))
    (k, losses), *_ = _lines(figures.loss_over_k(results).axes[0])

    self.assertEqual(list(k), [2, 16])
    expected = [results.loss("letter", "sklearn", k) for k in (2, 16)]
    np.testing.assert_array_equal(losses, expected)

  def test_the_peer_is_marked_where_it_was_measured(self):
    with_peer, without = figures.loss_over_k(self._read()).axes

    marks = [line.get_data() for line in with_peer.lines if line.get_marker() == "x"]
    self.assertEqual([(list(x), list(y)) for x, y in marks], [([16], [0.0985])])
    for line in without.lines:
      self.assertFalse(line.get_marker() == "x" and len(line.get_xdata()))

  def test_no_peer_in_the_legend_if_there_is_none(self):
    figure = figures.loss_over_k(self._read(fixed_epsilon=2.0))

    self.assertNotIn("google/differential-privacy", _legend(figure))

  def test_over_epsilon_what_is_not_private_is_level(self):
    results = self._read(epsilon_to_try=(2.0, 0.5, 1.0))
    (epsilons, level), *others = _lines(figures.loss_over_epsilon(results).axes[0])

    self.assertEqual(list(epsilons), [0.5, 1, 2])
    self.assertLen(set(level), 1)
    for _, losses in others:
      self.assertEqual(sorted(losses, reverse=True), list(losses))

  @parameterized.named_parameters(("none", ()), ("one", (1.0,)))
  def test_no_figure_over_a_single_epsilon(self, epsilons):
    self.assertIsNone(figures.loss_over_epsilon(self._read(epsilon_to_try=epsilons)))

  def test_one_data_set_and_one_k(self):
    dataset = {"letter": sample_benchmark.DATASETS["letter"]}
    figure = figures.loss_over_k(self._read(datasets=dataset, k_to_try=(16,), runs=1))

    self.assertLen(figure.axes, 1)
    self.assertNotIn("percentile", figure.get_suptitle())

  def test_federated_forms_are_rings_around_the_central_marks(self):
    factors = {"refine": 1.0, "refine_server": 1.0, "refine_none": 1.0}
    figure = figures.loss_over_epsilon(self._read(factors=factors))

    sizes = [line.get_markersize() for line in figure.axes[0].lines]
    self.assertEqual(sizes, sorted(set(sizes)))
    self.assertLen(_legend(figure), 3)

  def test_alike_losses_look_alike(self):
    figure = figures.loss_over_k(self._read(factors={"lsh": 1.0}, k_to_try=(15, 17)))

    low, high = figure.axes[0].get_ylim()
    self.assertGreaterEqual(high / low, 1.999)


if __name__ == "__main__":
  absltest.main()
