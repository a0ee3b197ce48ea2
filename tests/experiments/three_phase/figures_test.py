import os

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiment_shell import figure_style
from experiments.three_phase import cluster_figures
from experiments.three_phase import figures
from tests.experiments.three_phase import sample_run


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

  def test_a_known_method_always_has_its_colour(self):
    few = figures.method_colors(["kmeans"])
    many = figures.method_colors(["other", "fedavg", "kmeans"])

    self.assertEqual(few["kmeans"], many["kmeans"])
    self.assertLen(set(many.values()), 3)

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

  @parameterized.parameters(
      figures.learning_curves, figures.client_accuracy,
      figures.group_recovery, cluster_figures.client_weights,
      cluster_figures.distance_matrix, cluster_figures.label_mix,
  )
  def test_every_figure_names_the_data(self, draw):
    title = draw(self._run()).get_suptitle()

    self.assertIn("digits, 6 clients, rotated (2 groups, alpha 0.5)", title)


class AccuracyFiguresTest(_FigureTest):

  def test_phase_2_goes_on_where_phase_1_ends(self):
    panel = figures.learning_curves(self._run(rounds=3)).axes[0]

    by_color = {line.get_color(): line for line in panel.lines}
    colors = figures.method_colors(["pretrain", "kmeans", "fedavg"])
    self.assertSequenceEqual(list(by_color[colors["pretrain"]].get_xdata()), [1, 2, 3])
    self.assertSequenceEqual(list(by_color[colors["kmeans"]].get_xdata()), [3, 4, 5, 6])
    self.assertSequenceEqual(list(by_color[colors["kmeans"]].get_ydata()), [0.8] * 4)
    self.assertEqual(by_color[colors["kmeans"]].get_linestyle(), "-")
    self.assertEqual(by_color[colors["fedavg"]].get_linestyle(), "--")

  def test_a_single_round_is_drawn_as_a_point(self):
    panel = figures.learning_curves(self._run(rounds=1)).axes[0]

    self.assertEqual(panel.lines[0].get_marker(), "o")

  def test_client_accuracy_has_every_client_and_the_table_s_numbers(self):
    run = self._run()
    (axes,) = figures.client_accuracy(run).axes

    labels = [label.get_text() for label in axes.get_yticklabels()]
    self.assertEqual(
        labels,
        ["phase 1", "K-means", "dynamic distance", "local (control)", "FedAvg (control)"],
    )
    for points in axes.collections:
      self.assertLen(points.get_offsets(), 6)
    kmeans = run.summary["methods"]["kmeans"]["clients"]
    texts = [text.get_text() for text in axes.texts]
    self.assertIn(f"{kmeans['accuracy']['mean']:.3f}", texts)
    self.assertIn(f"{kmeans['share_at_target']:.0%}", texts)

  def test_recovery_has_words_before_numbers_and_shows_negative_values(self):
    (panel,) = figures.group_recovery(self._run()).axes

    self.assertEqual([label.get_text() for label in panel.get_xticklabels()], ["last round", "5"])
    self.assertLess(panel.get_ylim()[0], -0.2)

  def test_no_recovery_without_true_groups(self):
    self.assertIsNone(figures.group_recovery(self._run(true_groups=False)))


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
    self.assertIn("shown: 400 of 1,200 clients", _titles(cluster_figures.distance_matrix(run)))
    self.assertIn("shown: 300 of 1,200 clients", _titles(cluster_figures.label_mix(run)))


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

  def test_overlapping_clusters_alone_give_no_order(self):
    run = self._run(groupings=("dynamic_distance",), true_groups=False)

    self.assertLen(cluster_figures.label_mix(run).axes, 1)


if __name__ == "__main__":
  absltest.main()
