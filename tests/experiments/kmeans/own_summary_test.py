from absl.testing import absltest
from absl.testing import parameterized
import pandas as pd

from experiment_shell import figure_style
from experiments.kmeans import config
from experiments.kmeans import own_rows
from experiments.kmeans import own_summary
from fl_clustering.tables import schema as schema_lib

_SCHEMA = schema_lib.Schema(tuple(schema_lib.Field(name, minimum=0, maximum=9) for name in "ab"))


def _exact(scores, num_rows=(4, 2), **settings):
  """Returns the frames of a run with silhouettes by numbers of clusters."""
  measured = [
      {"num_clusters": number, "metric": metric, "value": value}
      for number, silhouette in scores.items()
      for metric, value in (("simplified_silhouette", silhouette), ("inertia", 5.0), ("rounds", 3))
  ]
  sizes = [
      {"client": client, "cluster": cluster, "rows": rows // 2}
      for client, rows in zip(("<north>", "south"), num_rows) for cluster in range(2)
  ]
  profiles = [
      {"cluster": cluster, "num_rows": sum(num_rows) // 2, "feature": feature, "mean": mean,
       "standard_deviation": 0.0, "share_explained": 1.0}
      for cluster in range(2) for feature, mean in (("x", 2.0 * cluster), ("constant", 7.0))
  ]
  tidy = {"results": measured, "cluster_sizes": sizes, "profiles": profiles}
  document = {
      "config": config.OwnDataConfig(_SCHEMA, **settings).to_json(),
      "inputs": {"rows": dict(zip(("<north>", "south"), num_rows))},
  }
  return own_summary.summarise({name: pd.DataFrame(rows) for name, rows in tidy.items()}, document)


class ExactTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("the_most", {2: 0.5, 3: 0.75}, (4, 4), "most"),
      ("as_many_as_rows", {5: 0.5, 6: 0.75}, (4, 2), "best"),
      ("the_fewest", {3: 0.75, 4: 0.5}, (4, 2), "fewest"),
      ("none_below_two", {2: 0.75, 3: 0.5}, (4, 2), "best"),
      ("nearly_tied", {2: 0.745, 3: 0.75, 4: 0.5}, (4, 2), "tied"),
      ("the_only_one", {2: 0.75}, (4, 2), "given"),
  )
  def test_how_sure_the_number_of_clusters_is(self, scores, num_rows, verdict):
    (row,) = _exact(scores, num_rows)["headline"].to_dict("records")

    self.assertEqual(row, {"verdict": verdict, "clusters": max(scores, key=scores.get)})
    self.assertIn(f"Clusters: {row['clusters']},", own_summary.HEADLINES[verdict].format(**row))

  def test_numbers_that_were_tried_have_verdicts(self):
    frames = _exact({2: 0.745, 3: 0.75, 4: 0.5})

    self.assertEqual(frames["selection"]["verdict"].tolist(), ["nearly the best", "best", ""])
    with figure_style.style():
      axes = figure_style.new_figure(2).add_subplot()
      own_summary.SELECTION_FIGURE.draw(frames["selection"], axes)
    self.assertEqual(axes.lines[0].get_xdata().tolist(), [2, 3, 4])
    self.assertEqual(axes.lines[1].get_xydata().tolist(), [[3, 0.75]])
    self.assertEmpty(_exact({3: 0.75})["selection"])

  @parameterized.named_parameters(
      # Three rows at 0 and three at 2: a variance of one, in one column.
      ("in_the_datas_units", False), ("standardized", True),
  )
  def test_the_share_explained_is_of_the_columns_that_vary(self, standardize):
    (row,) = _exact({2: 0.7}, standardize=standardize)["fit"].to_dict("records")

    self.assertEqual((row["clients"], row["rows"], row["clusters"]), (2, 6, 2))
    self.assertAlmostEqual(row["explained"], 1 - 5 / 6)


class PrivateTest(absltest.TestCase):

  def _frames(self, **settings):
    settings = {"epsilon": 0.5, "delta": 1e-5, "max_points": 7, **settings}
    stated = {"epsilon": "0.5", "delta": "1e-05", "unit": "one client", "trust": "none"}
    # A column of the user's is called as one of ours.
    rows = [[0, 71.5, 20.25], [1, 82.5, 50.0]]
    centroids = pd.DataFrame(rows, columns=["cluster", "cluster", "b"])
    empty = {name: pd.DataFrame() for name in own_rows.EXPERIMENT.tidy}
    return own_summary.summarise(
        {**empty, "centroids": centroids,
         "guarantee": pd.DataFrame(stated.items(), columns=["name", "value"])},
        {"config": config.OwnDataConfig(_SCHEMA, 2, radius=9.0, **settings).to_json(),
         "inputs": {"clients": {"<north>": 0, "south": 1}}},
    )

  def test_nothing_exact_is_shown(self):
    frames = self._frames()

    shown = {name for name, frame in frames.items() if len(frame)}
    self.assertEqual(shown, {"headline", "centroids", "leaves", "guarantee"})
    self.assertEqual(
        frames["centroids"].to_numpy().tolist(), [["cluster", 71.5, 82.5], ["b", 20.25, 50]]
    )
    (row,) = frames["headline"].to_dict("records")
    self.assertIn("2, (0.5, 1e-05)-", own_summary.HEADLINES[row["verdict"]].format(**row))

  def test_a_budget_that_protects_little_is_warned_of(self):
    for settings, name in (
        ({"epsilon": 25.0}, "epsilon"), ({"delta": 0.5}, "delta"),
        ({"delta": 0.001, "max_points": None}, "delta"),
    ):
      (text,) = self._frames(**settings)["warnings"]["warning"]
      self.assertIn(f"`{name}`", text)


if __name__ == "__main__":
  absltest.main()
