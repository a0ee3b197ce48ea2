import os
import types

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import figure_style
from experiments.three_phase import cluster_figures
from experiments.three_phase import figures
from experiments.three_phase import method_looks
from tests.experiments.three_phase import sample_run


_FIGURES = (
    figures.gains, figures.learning_curves, figures.accuracy_by_cost, figures.client_accuracy,
    figures.group_recovery, cluster_figures.client_weights, cluster_figures.distance_matrix,
    cluster_figures.label_mix,
)
_ALL_METHODS = (
    "pretrain", "kmeans", "dynamic_distance", "hierarchical", "ifca", "cfl", "fesem", "pacfl",
    "clove", "flexcfl", "flux", "fedavg", "finetuned", "local", "ditto", "fedrep", "apfl", "mr_mtl",
    "fedavg_matched",
)


def _choice(scores, criterion):
  """Returns rows of `num_clusters.csv`."""
  chosen = np.argmax(scores)
  return [
      {"criterion": criterion, "num_clusters": k + 1, "score": score, "chosen": int(k == chosen)}
      for k, score in enumerate(scores)
  ]


_CHOICE = [
    *_choice([0.08, 0.1, 0.12, 0.2, 0.17], "silhouette"),
    *_choice([0.6, 0.01, 0.05, 0.3, 0.02], "eigengap"),
]


def _titles(figure):
  return " ".join([figure.get_suptitle(), *(axes.get_title("left") for axes in figure.axes)])


class _FigureTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.enter_context(figure_style.style())

  def _run(self, **changes):
    run = sample_run.sample_run(**changes)
    return sample_run.results(run, self.create_tempdir().full_path)


class AllFiguresTest(_FigureTest):

  def test_a_known_method_always_has_its_look(self):
    few = method_looks.method_looks(["kmeans"])
    many = method_looks.method_looks(["other", "fedavg", "kmeans"])

    self.assertEqual(few["kmeans"], many["kmeans"])

  def test_all_methods_look_different(self):
    methods = [*_ALL_METHODS, "first_unknown", "second_unknown"]

    looks = [tuple(look.values()) for look in method_looks.method_looks(methods).values()]

    self.assertLen(set(looks), len(methods))
    # Two methods may share a colour, if their lines or markers differ.
    self.assertGreaterEqual(len({color for color, *_ in looks}), 9)

  def test_same_figure_gives_the_same_file(self):
    folder = self.create_tempdir().full_path
    contents = []
    for name in ("a.png", "b.png"):
      figure = figures.learning_curves(self._run())
      figure_style.save(figure, os.path.join(folder, name))
      with open(os.path.join(folder, name), "rb") as file:
        contents.append(file.read())

    self.assertEqual(contents[0], contents[1])
    self.assertCountEqual(os.listdir(folder), ["a.png", "b.png"])

  @parameterized.parameters(*_FIGURES)
  def test_every_figure_names_the_data(self, draw):
    title = draw(self._run()).get_suptitle()

    self.assertIn("digits, 6 clients, rotated (2 groups, alpha 0.5)", title)


class AccuracyFiguresTest(_FigureTest):

  def _line(self, axes, method):
    """Returns the line of a method."""
    look = method_looks.method_looks([method])[method]
    (line,) = (
        line for line in axes.lines
        if (line.get_color(), line.get_marker()) == (look["color"], look["marker"])
    )
    return line

  def test_curves_start_where_the_methods_start(self):
    accuracy = dict.fromkeys(("pretrain", "kmeans", "fedavg", "local", "fedavg_matched"), 0.7)
    run = self._run(rounds=3, mean_accuracy=accuracy, groupings=("kmeans",))

    panel, enlarged, _ = figures.learning_curves(run).axes

    rounds = {method: list(self._line(panel, method).get_xdata()) for method in accuracy}
    self.assertEqual(rounds, {
        "pretrain": [1, 2, 3],
        "kmeans": [3, 4, 5, 6],
        "fedavg": [3, 4, 5, 6],
        "local": [0, 1, 2, 3, 4, 5, 6],
        "fedavg_matched": [6, 7, 8, 9],
    })
    self.assertSequenceEqual(list(self._line(panel, "kmeans").get_ydata()), [0.7] * 4)
    self.assertEqual(self._line(panel, "kmeans").get_linestyle(), "-")
    self.assertEqual(self._line(panel, "fedavg").get_linestyle(), "--")
    self.assertSequenceEqual(list(self._line(enlarged, "local").get_xdata()), [3, 4, 5, 6])

  def test_a_very_long_control_is_cut_off_and_that_is_said(self):
    run = self._run(mean_accuracy={"pretrain": 0.5, "fedavg": 0.6, "fedavg_matched": 0.7},
                    groupings=(), rounds=2, matched_rounds=30)

    figure = figures.learning_curves(run)

    self.assertEqual(max(self._line(figure.axes[0], "fedavg_matched").get_xdata()), 6)
    self.assertIn("FedAvg matched goes on to round 34, which is not shown", _titles(figure))

  def test_accuracy_by_cost_adds_up(self):
    run = self._run(rounds=2, work={"dynamic_distance": 2})

    sent, steps = figures.accuracy_by_cost(run).axes

    self.assertSequenceEqual(
        list(self._line(steps, "dynamic_distance").get_xdata()), [180, 300, 420]
    )
    self.assertSequenceEqual(list(self._line(sent, "fedavg").get_xdata()), [54e3, 72e3, 90e3])
    self.assertSequenceEqual(list(self._line(sent, "local").get_xdata())[:2], [0, 18e3])

  def _dots(self, axes):
    """Returns the dots (place and look) and the ends of the intervals, by row."""
    _, *lines = axes.lines  # The first is the line at zero.
    dots = {row: (x, line) for line in lines for x, row in line.get_xydata()}
    ends = (ends for bars in axes.collections for ends in bars.get_segments() if len(ends))
    return dots, {row: (low, high) for (low, row), (high, _) in ends if not np.isnan(low)}

  def test_gains_have_a_dot_and_an_interval_per_method(self):
    run = self._run()
    (axes,) = figures.gains(run).axes

    labels = [label.get_text() for label in axes.get_yticklabels()]
    self.assertEqual(
        labels, ["K-means", "dynamic distance", "local (control)", "fine-tuned (control)"]
    )
    dots, intervals = self._dots(axes)
    np.testing.assert_allclose([dots[row][0] for row in range(4)], [10, 5, -5, 2])
    np.testing.assert_allclose(
        [intervals[row] for row in range(4)], [[7, 13], [2, 8], [-8, -2], [-1, 5]]
    )
    self.assertEqual(
        [text.get_text() for text in axes.texts if text.get_text()],
        ["+10.0  better", "+5.0  better", "-5.0  worse", "+2.0  can't tell"],
    )
    self.assertEqual(dots[3][1].get_markerfacecolor(), "white")
    self.assertEqual(dots[0][1].get_markerfacecolor(), dots[0][1].get_color())
    self.assertLen({dot.get_color() for _, dot in dots.values()}, 3)

  def test_gains_without_intervals_or_without_repeats(self):
    axes = figures.gains(self._run(half_width=None)).axes[0]

    dots, intervals = self._dots(axes)
    self.assertLen(dots, 4)
    self.assertEmpty(intervals)
    self.assertIn(
        "about these trained models only", _titles(figures.gains(self._run(control_repeats=0)))
    )
    self.assertNotIn("trained models only", _titles(figures.gains(self._run())))

  def test_no_gains_of_fedavg_alone(self):
    run = self._run(mean_accuracy={"pretrain": 0.5, "fedavg": 0.6}, groupings=())

    self.assertIsNone(figures.gains(run))

  def test_every_figure_holds_all_methods(self):
    ids = tuple(f"client_{i:04d}" for i in range(12))
    overlapping = [ids[:5], ids[4:9], ids[8:]]
    run = self._run(
        num_clients=12,
        groupings=(),
        mean_accuracy={name: 0.5 + 0.02 * i for i, name in enumerate(_ALL_METHODS)},
        assignments={
            name: {"clusters": overlapping if name == "dynamic_distance" else [ids[:6], ids[6:]],
                   "overlapping": name == "dynamic_distance", "warning": None}
            for name in _ALL_METHODS[1:8]
        },
    )

    for draw in _FIGURES:
      with self.subTest(draw.__name__):
        figure_style.save(draw(run), self.create_tempfile().full_path)

  def test_a_single_round_is_drawn_as_a_point(self):
    panel = figures.learning_curves(self._run(rounds=1)).axes[0]

    self.assertLen(self._line(panel, "pretrain").get_xdata(), 1)

  def test_client_accuracy_has_every_client_and_the_table_s_numbers(self):
    run = self._run()
    (axes,) = figures.client_accuracy(run).axes

    labels = [label.get_text() for label in axes.get_yticklabels()]
    self.assertEqual(
        labels,
        ["phase 1", "K-means", "dynamic distance", "local (control)", "fine-tuned (control)",
         "FedAvg (control)"],
    )
    for points in axes.collections:
      self.assertLen(points.get_offsets(), 6)
    kmeans = run.summary["methods"]["kmeans"]["clients"]
    texts = [text.get_text() for text in axes.texts]
    self.assertIn(f"{kmeans['accuracy']['mean']:.3f}", texts)
    self.assertIn(f"{kmeans['share_at_target']:.0%}", texts)

  def test_thousands_of_clients_have_histograms_and_no_points(self):
    run = self._run(num_clients=1200)
    figure = figures.client_accuracy(run)
    (axes,) = figure.axes
    self.assertEmpty(axes.collections)
    self.assertLen(axes.containers, len(axes.get_yticks()))
    for bars, middle in zip(axes.containers, axes.get_yticks()):
      heights = np.array([bar.get_height() for bar in bars])
      self.assertAlmostEqual(heights.max(), 0.64)
      np.testing.assert_allclose([bar.get_y() + bar.get_height() / 2 for bar in bars], middle)
    self.assertIn("as histograms", _titles(figure))

  def test_recovery_has_words_before_numbers_and_shows_negative_values(self):
    (panel,) = figures.group_recovery(self._run()).axes

    self.assertEqual([label.get_text() for label in panel.get_xticklabels()], ["last round", "5"])
    self.assertLess(panel.get_ylim()[0], -0.2)

  def test_no_recovery_without_true_groups(self):
    self.assertIsNone(figures.group_recovery(self._run(true_groups=False)))


class NumClustersTest(_FigureTest):

  def _draw(self, rows=_CHOICE, criterion=None):
    return figures.num_clusters(types.SimpleNamespace(
        num_clusters_choice=rows, data_line="digits, 20 clients",
        settings={"num_clusters_criterion": criterion},
    ))

  def test_a_panel_a_criterion_with_its_choice(self):
    figure = self._draw(criterion="eigengap")
    titles = [axes.get_title("left") for axes in figure.axes]
    self.assertEqual(titles, ["silhouette: 4", "eigengap: 1 (used by this run)"])
    self.assertIn("digits, 20 clients", figure.get_suptitle())

  def test_draws_the_scores_and_marks_the_choice(self):
    silhouette, eigengap = self._draw().axes
    score, level, choice = silhouette.lines
    self.assertEqual(list(score.get_xdata()), [2, 3, 4, 5])
    self.assertEqual(list(score.get_ydata()), [0.1, 0.12, 0.2, 0.17])
    self.assertEqual(set(level.get_ydata()), {0.08})
    self.assertEqual((list(choice.get_xdata()), list(choice.get_ydata())), ([4], [0.2]))
    score, choice = eigengap.lines
    self.assertEqual(list(score.get_xdata()), [1, 2, 3, 4, 5])
    self.assertEqual((list(choice.get_xdata()), list(choice.get_ydata())), ([1], [0.6]))

  def test_order_of_the_rows_does_not_matter(self):
    score = self._draw(_CHOICE[::-1]).axes[-1].lines[0]
    self.assertEqual(list(score.get_ydata()), [0.1, 0.12, 0.2, 0.17])

  def test_one_client(self):
    (axes,) = self._draw(_choice([0.0], "silhouette")).axes
    self.assertEqual(axes.get_title("left"), "silhouette: 1")

  def test_a_number_that_was_given_has_no_figure(self):
    self.assertIsNone(self._draw([]))


class WeightFiguresTest(_FigureTest):

  def test_a_panel_per_grouping_and_one_for_the_true_groups(self):
    figure = cluster_figures.client_weights(self._run())

    self.assertLen(figure.axes, 3)
    self.assertIn("K-means: 2 clusters", _titles(figure))
    self.assertIn("size: in how many it is (1 to 2)", _titles(figure))
    self.assertIn("true groups: 2", _titles(figure))
    for axes in figure.axes:
      self.assertEqual(sum(len(points.get_offsets()) for points in axes.collections), 6)

  def test_nothing_is_drawn_without_weights(self):
    run = self._run(keeps_weights=False)

    self.assertIsNone(cluster_figures.client_weights(run))
    self.assertIsNone(cluster_figures.distance_matrix(run))

  def test_explained_variance_is_in_the_labels(self):
    run = self._run()
    ids = [client["client_id"] for client in run.clients]
    vectors = run.vectors(ids).astype(float)
    eigenvalues = np.linalg.eigvalsh(np.cov(vectors.T))[::-1]

    axes = cluster_figures.client_weights(run).axes[0]

    share = eigenvalues[0] / eigenvalues.sum()
    self.assertEqual(axes.get_xlabel(), f"component 1: {share:.0%} of variance")

  def test_distances_are_ordered_by_cluster(self):
    ids = tuple("abcd")
    run = self._run(
        num_clients=4, client_ids=ids, groupings=("kmeans",), true_groups=False,
        assignments={
            "kmeans": {"clusters": [["c", "a"], ["b", "d"]], "overlapping": False,
                       "warning": None},
        },
    )
    order = ["a", "c", "b", "d"]  # Within a cluster, as in clients.csv.
    vectors = run.vectors(order)

    image = cluster_figures.distance_matrix(run).axes[0].images[0].get_array()

    expected = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    np.testing.assert_allclose(image, expected, atol=1e-3)

  def test_identical_weights(self):
    run = self._run()
    path = run.finished.join("client_weights.npz")
    np.savez(path, client_ids=np.array([client["client_id"] for client in run.clients]),
             vectors=np.ones((6, 5), np.float32), global_vector=np.ones(5, np.float32))

    axes = cluster_figures.client_weights(run).axes[0]

    self.assertEqual(axes.get_xlabel(), "component 1: 0% of variance")
    self.assertLen(cluster_figures.distance_matrix(run).axes, 4)  # The last: the colour bar.

  def test_what_is_left_out_is_said(self):
    run = self._run(num_clients=1200)

    self.assertIn("shown: 1,000 of 1,200 clients", _titles(cluster_figures.client_weights(run)))
    self.assertIn("shown: 200 of 1,200 clients", _titles(cluster_figures.distance_matrix(run)))
    self.assertIn("shown: 100 of 1,200 clients", _titles(cluster_figures.label_mix(run)))

  def test_of_very_many_clusters_the_largest_are_coloured(self):
    ids = [f"{i:02d}" for i in range(82)]
    run = self._run(
        num_clients=82, client_ids=tuple(ids), groupings=("kmeans",), true_groups=False,
        assignments={"kmeans": {
            "clusters": [*([i] for i in ids[:78]), ids[78:]], "overlapping": False,
            "warning": None,
        }},
    )
    (axes,) = cluster_figures.client_weights(run).axes
    self.assertIn("coloured: the 9 largest clusters", axes.get_title(loc="left"))
    sizes = [len(points.get_offsets()) for points in axes.collections]
    self.assertEqual(sizes, [82 - 8 - 4, *(8 * [1]), 4])
    self.assertEqual(axes.get_legend().get_texts()[-1].get_text(), "78 (4)")

  def test_no_lines_between_many_clusters(self):
    ids = tuple(f"{i:02d}" for i in range(60))
    run = self._run(
        num_clients=60, client_ids=ids, groupings=("kmeans",), true_groups=False,
        assignments={"kmeans": {
            "clusters": [[i] for i in ids], "overlapping": False, "warning": None,
        }},
    )
    distances, _ = cluster_figures.distance_matrix(run).axes
    self.assertEmpty(distances.lines)
    self.assertIn("too many clusters for lines", distances.get_title(loc="left"))
    _, labels = cluster_figures.label_mix(run).axes
    self.assertEmpty(labels.lines)
    self.assertNotIn("lines", labels.get_xlabel())


class LabelFiguresTest(_FigureTest):

  def test_bars_end_at_the_number_of_training_examples(self):
    run = self._run()

    panel = cluster_figures.label_mix(run).axes[0]

    (last_label,) = panel.collections[-1].get_paths()
    heights = last_label.vertices[:, 1]
    sizes = [client["num_train"] for client in run.clients]
    self.assertContainsSubset(sizes, heights)
    self.assertEqual(heights.max(), max(sizes))

  def test_many_labels_get_a_colour_bar(self):
    few = cluster_figures.label_mix(self._run(num_classes=10))
    many = cluster_figures.label_mix(self._run(num_classes=47))

    self.assertLen(few.legends, 1)
    self.assertLen(many.axes, len(few.axes) + 1)
    self.assertEmpty(many.legends)

  def _key(self, **changes):
    """Returns the texts of a figure's legend, which is inside of the figure."""
    figure = cluster_figures.label_mix(self._run(label_column="num", **changes))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    self.assertBetween(box.x0, 0, box.x1)
    self.assertLessEqual(box.x1, figure.bbox.x1)
    self.assertGreaterEqual(box.y0, 0)
    # It doesn't cover a panel, and leaves them room.
    for axes in figure.axes:
      self.assertGreater(axes.get_tightbbox().y0, box.y1)
      self.assertGreater(axes.get_window_extent().height, 0.2 * 6.4 * figure.dpi)
    return legend.get_title().get_text(), [text.get_text() for text in legend.get_texts()]

  def test_names_of_the_labels_are_in_the_key(self):
    title, names = self._key(num_classes=3, class_names=("lying", "$x^{$", "walking"))

    self.assertEqual(title, "class (column num)")
    self.assertEqual(names, ["lying", "$x^{$", "walking"])

  def test_many_long_names_fit(self):
    names = tuple(f"a class with a name that is too long: {i}" for i in range(40))

    _, shown = self._key(num_classes=40, class_names=names)

    self.assertLen(set(shown), 40)
    self.assertLessEqual(max(map(len, shown)), 32)

  def test_too_many_names_get_a_colour_bar(self):
    names = tuple(f"{i}" for i in range(41))

    figure = cluster_figures.label_mix(
        self._run(num_classes=41, class_names=names, label_column="num")
    )

    self.assertEmpty(figure.legends)
    self.assertIn("class_names of config.json", figure.axes[-1].get_xlabel())

  def test_overlapping_clusters_alone_give_no_order(self):
    run = self._run(groupings=("dynamic_distance",), true_groups=False)

    self.assertLen(cluster_figures.label_mix(run).axes, 1)


if __name__ == "__main__":
  absltest.main()
