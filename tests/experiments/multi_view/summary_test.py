from absl.testing import parameterized

from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiments.multi_view import comparison
from experiments.multi_view import summary
from tests.experiments.multi_view import sample_run


def _read(run):
  return tidy_experiment.tidy(comparison.EXPERIMENT, run)


class SummaryTest(parameterized.TestCase):

  def _frames(self, **changes):
    run = sample_run.write(self.create_tempdir().full_path, **changes)
    return summary.summarise(_read(run), run.document)

  def _scores(self, dataset="sample", **changes):
    scores = self._frames(**changes)["scores"]
    return scores[scores["dataset"] == dataset].dropna(axis="columns", how="all")

  def test_scores_have_a_row_for_every_method(self):
    scores = self._scores()

    self.assertEqual(
        list(scores),
        ["dataset", "method", "points", "nmi, IID", "ari, IID", "nmi, Dirichlet", "ari, Dirichlet"],
    )
    self.assertEqual(
        scores[["method", "points"]].iloc[[0, 1, 3, -1]].to_numpy().tolist(),
        [["best single view (pixels)", "central"], ["concatenated k-means", "central"],
         ["concatenated k-means", "local"], ["equal weights", "federated"]],
    )
    self.assertEqual(
        scores.iloc[-1].tolist()[3:], ["0.800 ± 0.010", "0.700 ± 0.010"] * 2
    )
    self.assertEqual(scores["ari, IID"].iloc[0], "0.500 ± 0.005")
    # The same at every partition.
    self.assertEqual(scores.iloc[1].tolist()[3:], ["0.700 ± 0.005", "0.600 ± 0.005"] * 2)
    self.assertEqual(self._scores(num_seeds=1).iloc[-1].tolist()[3:], ["0.790", "0.690"] * 2)

  def test_gains_have_intervals_and_verdicts(self):
    for names in (("sample",), ("sample", "other")):
      gains = self._frames(names=names)["gains"]
      self.assertLen(gains, 5 * len(names))
      row = gains.iloc[1]
      self.assertEqual((row["dataset"], row["method"]), ("sample", "concatenated k-means"))
      self.assertAlmostEqual(row["gain"], 0.1)
      expected = frames.compared((0.69, 0.7, 0.71), (0.595, 0.6, 0.605), 5 * len(names))
      for name in ("low", "high"):
        self.assertAlmostEqual(row[name], expected[name])
      self.assertEqual(row["verdict"], "better")
      self.assertAlmostEqual(gains["gain"].iloc[2], 0.3)  # Of `local_only`, with label skew.

  @parameterized.named_parameters(
      ("both", {"ari": {"equal": 0.55}}, [5, 3, 0, 2]),
      ("two_seeds", {"num_seeds": 2}, [5, 0, 5, 0]),
      ("the_tutorials_data_alone", {"names": (), "datasets": ("simulated_dha",)}, []),
  )
  def test_headline(self, changes, counts):
    headline = self._frames(**changes)["headline"]

    columns = ["cases", "better", "unclear", "worse"]
    self.assertEqual(headline.reindex(columns=columns).to_numpy().ravel().tolist(), counts)
    # Not those of the tutorial's data, of which there are no gains.
    for seeds in headline.get("seeds", ()):
      self.assertEqual(seeds, changes.get("num_seeds", 3))

  def test_views_have_their_scores_alone_and_weights(self):
    views = self._frames()["views"].set_index("view")
    self.assertEqual(views.loc["<shape>", "nmi alone"], "0.300 ± 0.005")
    self.assertEqual(views.loc["<shape>", "the paper's weights, IID"], "0.800 ± 0.000")

  def test_clusters_are_in_the_order_of_the_diagonal(self):
    rows = self._frames()["confusion"]
    own = rows[rows["panel"] == "sample\nequal weights"]
    self.assertEqual(list(own["class"].unique()), ["0", "1", "2"])
    self.assertEqual(own["cluster"].tolist()[:3], [1, 2, 0])
    self.assertEqual(own["points"].tolist(), [4, 0, 0, 0, 3, 1, 1, 0, 3])
