import tempfile
import types
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pandas as pd

from experiment_shell import tidy_experiment
from experiments.federated_kmeans import config
from experiments.federated_kmeans import data
from experiments.federated_kmeans import methods
from experiments.federated_kmeans import papers
from experiments.federated_kmeans import summary
from tests import drawn_seeds
from tests import nightly
from tests.experiments.federated_kmeans import sample_papers

_GRID = data.grid_name(0.1, 50, 1.0)


def _frames(*arguments):
  with tempfile.TemporaryDirectory() as folder:
    run = sample_papers.write(folder, *arguments)
    return papers.EXPERIMENT.summarise(tidy_experiment.tidy(papers.EXPERIMENT, run), run.document)


def _row(frame, **values):
  for column, value in values.items():
    frame = frame[frame[column] == value]
  (row,) = frame.to_dict("records")
  return row


class SummaryTest(absltest.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.frames = _frames()

  def test_scores_have_mean_deviation_and_excess_over_central_in_percent(self):
    scores = pd.concat([self.frames[name] for name in ("regular", "extreme")])

    row = _row(scores, data=_GRID, method="central k-means")
    self.assertAlmostEqual(row["ari"], 0.905)
    self.assertAlmostEqual(row["ari_sd"], 0.01 / 2**0.5)
    self.assertTrue(np.isnan(row["bytes_up_per_client"]))
    self.assertNotIn("child/parent", set(scores[scores["data"] == _GRID]["method"]))
    for method, label in methods.LABELS.items():
      excess = scores[scores["method"] == label][summary.EXCESS].tolist()
      excess += self.frames["sse"].query("method == @label")["iris"].tolist()
      self.assertNotEmpty(excess)
      np.testing.assert_allclose(excess, 2 * sample_papers.PLACES[method], atol=1e-9)

  def test_seeds_follow_the_given_one(self):
    found = papers.cells(config.PaperConfig(("sse",), seed=5, num_seeds=3))
    self.assertEqual({cell["seed"] for cell in found}, {5, 6, 7})

  def test_ours_stands_beside_the_papers(self):
    published = self.frames["published"]
    for method, name, paper in (
        ("FKM", _GRID, 0.949), ("k-FED", data.grid_name(10.0, 50, 1.5), 0.607),
        ("central k-means", data.grid_name(1.0, 50, 1.5), 0.725),
        ("FKM", data.extreme_name(1.0), 0.902),
    ):
      self.assertEqual(_row(published, data=name, method=method)["paper"], paper)
    self.assertLen(published, 2 * 3 * 3 + 1)
    # The crosses of the figure.
    noise = self.frames["noise"].dropna(subset="paper")
    self.assertLen(noise, 2 * 3 * 3)
    self.assertEqual(set(noise["points"]), {50})

  def test_headline_counts_fits_that_missed(self):
    (row,) = _frames(("extreme",))["headline"].to_dict("records")

    self.assertEqual((row["exceeded"], row["fits"], row["verdict"]), (4, 4, "some"))
    self.assertAlmostEqual(row["worst"], 2 * sample_papers.PLACES["sums"])
    with mock.patch.dict(sample_papers.PLACES, {"sums": 0.4}):
      self.assertEqual(_frames(("extreme",))["headline"]["verdict"].tolist(), ["none"])
    self.assertEmpty(_frames(("sse", "real"))["headline"])

  def test_panels_and_tables_by_data(self):
    places, noise = sample_papers.PLACES, self.frames["noise"]

    row = _row(noise, panel="50 points, beta 0.1", method="FKM", noise=1.5)
    self.assertAlmostEqual(row["mean"], 0.905 - 0.01 * places["fkm"])
    self.assertEqual(noise["panel"].nunique(), 9)
    row = _row(self.frames["sse"], method="FKM, then Lloyd")
    self.assertAlmostEqual(row["breast cancer"], 2 * places["fkm_lloyd"])

  def test_every_figure_is_chosen_by_its_name(self):
    shown = {
        "regular": {"regular"}, "noise": {"noise"}, "rounds": {"rounds"},
        "extreme": {"extreme"}, "real": {"real"}, "sse": {"sse"},
    }
    self.assertCountEqual(shown, config.FIGURES)
    for chosen, names in shown.items():
      frames = _frames((chosen,), 1)
      of_all = set().union(*shown.values())
      self.assertEqual({name for name in of_all if len(frames[name])}, names)


class SyntheticDataTest(parameterized.TestCase):

  @parameterized.parameters(
      (data.grid_name(0.1, 200, 1.0), 1.0), (data.grid_name(10.0, 50, 1.5), 1.5),
      (data.extreme_name(1.5), 1.5),
  )
  def test_noise_is_the_deviation_in_each_direction(self, name, noise):
    clients = data.build_draw(None, None)(name, 0)
    offsets = clients.pooled_points - data.CENTERS[clients.pooled_labels]
    np.testing.assert_allclose(offsets.std(axis=0), noise, rtol=0.1)

  @parameterized.parameters((0.1, 8, 10), (1.0, 0, 16), (10.0, 14, 16))
  def test_every_point_is_at_one_client_and_a_small_beta_makes_them_differ(self, beta, low, high):
    rng = np.random.default_rng(3)
    points, clusters = data.sample_points(50, 1.0, rng)
    clients = data.split_by_place(points, clusters, beta, rng)
    self.assertLessEqual(len(clients.points), data.NUM_CLIENTS)
    rows = np.concatenate([clients.pooled_points, clients.pooled_labels[:, None]], axis=1)
    expected = np.concatenate([points, clusters[:, None]], axis=1)
    np.testing.assert_array_equal(
        rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)]
    )
    self.assertBetween(np.mean([len(set(own)) for own in clients.labels.values()]), low, high)
    # Most points that nobody claims are at the nearest client.
    if beta == 0.1:
      spreads = [own.std(axis=0).mean() for own in clients.points.values()]
      self.assertLess(np.mean(spreads), 0.6 * points.std(axis=0).mean())

  @parameterized.parameters(_GRID, data.extreme_name(1.5))
  def test_all_is_drawn_by_the_seed(self, name):
    with drawn_seeds.recorded() as seeds:
      data.build_draw(None, None)(name, 7)
    self.assertEqual(seeds, {7})

  def test_extreme_split(self):
    clients = data.draw_extreme(1.0, 0)
    counts = [len(set(labels.tolist())) for labels in clients.labels.values()]
    self.assertEqual(tuple(counts), data.EXTREME_CLUSTERS)
    sizes = [len(labels) for labels in clients.labels.values()]
    # By hand: 1 cluster of 50 // 5, 3 of 50 // 4, 3 of 50 // 3, 3 of 25, 6 of 50.
    self.assertEqual(sizes, [10 + 3 * 12 + 3 * 16 + 3 * 25 + 6 * 50, 10 + 36 + 48 + 75,
                             10 + 36 + 48, 10 + 36, 10])


class RealDataTest(parameterized.TestCase):

  @parameterized.parameters(*data.TABLES)
  def test_a_table_is_all_there_and_split_by_the_seed(self, name):
    clients, again, other = (data.load_table(name, seed) for seed in (0, 0, 1))
    points, labels = data.TABLES[name](return_X_y=True)
    deviation = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(deviation, deviation, 1)
    self.assertBetween(len(clients.points), 2, data.TABLE_CLIENTS)
    self.assertEqual(clients.num_clusters, len(set(labels)))
    rows = np.column_stack([clients.pooled_points, clients.pooled_labels]).round(6)
    expected = np.column_stack([points, labels]).round(6)
    np.testing.assert_allclose(
        rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)], atol=2e-6
    )
    np.testing.assert_array_equal(clients.pooled_points, again.pooled_points)
    self.assertFalse(np.array_equal(clients.pooled_points, other.pooled_points))
    # Clients have more of their most frequent class than clients of as many rows that are alike.
    def most_frequent(of_rows):
      ends = np.cumsum([len(own) for own in clients.labels.values()])[:-1]
      return sum(np.bincount(own).max() for own in np.split(of_rows, ends))

    found = most_frequent(np.concatenate(list(clients.labels.values())))
    rng = np.random.default_rng(0)
    self.assertGreater(found, max(most_frequent(rng.permutation(labels)) for _ in range(20)))

  def test_digits(self):
    clients = data.load_digits("digits", None, seed=0)
    self.assertLen(clients.points, data.DIGIT_CLIENTS)
    points = clients.pooled_points
    self.assertEqual((points.shape[1], points.min(), points.max()), (784, 0, 1))


class FederatedTest(absltest.TestCase):

  def test_all_methods_draw_by_the_seed(self):
    points = np.random.default_rng(0).standard_normal((40, 2)) + 9 * np.eye(2)[np.arange(40) % 2]
    labels = np.arange(40) % 2
    clients = data.LabelledClients(
        *({"a": all_[:25], "b": all_[25:]} for all_ in (points, labels)), 2
    )
    fit = methods.single_thread_kmeans.fit
    with mock.patch.object(methods.single_thread_kmeans, "fit", wraps=fit) as central:
      methods.METHODS[methods.CENTRAL].run(clients, 7)
    self.assertEqual(central.call_args.kwargs["random_state"], 7)
    for name in {*methods.METHODS} - {methods.CENTRAL}:
      with drawn_seeds.recorded() as seeds:
        methods.METHODS[name].run(clients, 7)
      self.assertEqual(seeds, {7}, name)

  def test_bytes_are_those_of_all_rounds_and_restarts(self):
    rounds = [types.SimpleNamespace(centroids=None, bytes_down=3, bytes_up=7) for _ in range(2)]
    model = types.SimpleNamespace(cluster_centers_=None, history_=rounds)
    with mock.patch.object(methods, "_fit", lambda *unused: model):
      found = methods.METHODS["best_one_round"].run(None, 0)
    self.assertEqual(found.bytes_down_per_client, 5 * 2 * 3)
    self.assertEqual(found.bytes_up_per_client, 5 * 2 * 7)


class PrintedFkmTest(absltest.TestCase):

  @nightly.only  # By day, nothing else: only a figure of the paper has it.
  def test_finds_the_clusters_and_leaves_out_means_of_single_points(self):
    # The second client's points are alone in their clusters.
    clients = [np.repeat([[0.0, 0.0], [4.0, 4.0]], 5, axis=0), np.array([[90.0, 0], [0, 90]])]
    by_round = methods.printed_fkm(clients, 2, np.random.default_rng(0))
    self.assertLen(by_round, 20)
    np.testing.assert_array_equal(np.sort(by_round[0], axis=0), [[0, 0], [4, 4]])
