from absl.testing import absltest
from absl.testing import parameterized
import pandas as pd
from sklearn import metrics

from experiments.cluster_tables import config
from experiments.cluster_tables import fitted_rows
from experiments.cluster_tables import summary
from fl_clustering.points import privacy
from fl_clustering.tables import schema as schema_lib

_SCHEMA = schema_lib.Schema(tuple(schema_lib.Field(name, minimum=0, maximum=9) for name in "ab"))
_MIXED = schema_lib.Schema((
    schema_lib.Field("x"), schema_lib.Field("constant"),
    schema_lib.Field("level", "string", enum=("u", "v")),
))


def _exact(scores, num_rows=(4, 2), different=9, inertia=5.0, numbers=(), **settings):
  """Returns the frames of a run with silhouettes by numbers of clusters.

  No more clusters than there are `different` rows are found.
  """
  measured = [
      {"num_clusters": number, "metric": metric, "value": value}
      for number, silhouette in scores.items()
      for metric, value in (
          ("simplified_silhouette", silhouette), ("inertia", inertia), ("rounds", 3),
          ("clusters_found", min(number, different)),
      )
  ] + [
      {"num_clusters": number, "metric": "silhouette_of_numbers", "value": value}
      for number, value in zip(scores, numbers)
  ]
  sizes = [
      {"client": client, "cluster": cluster, "rows": rows // 2}
      for client, rows in zip(("<north>", "south"), num_rows) for cluster in range(2)
  ]
  profiles = [
      {"cluster": cluster, "num_rows": sum(num_rows) // 2, "feature": feature, "mean": mean,
       "standard_deviation": 0.0, "share_explained": 1.0}
      for cluster in range(2)
      for feature, mean in (
          ("x", 2.0 * cluster), ("constant", 7.0), ("level=u", cluster), ("level=v", 1 - cluster)
      )
  ]
  tidy = {"results": measured, "cluster_sizes": sizes, "profiles": profiles}
  document = {
      "config": config.Config({schema_lib.NO_VIEW: _MIXED}, **settings).to_json(),
      "inputs": {"rows": dict(zip(("<north>", "south"), num_rows))},
      "about": {"missing": {"x": 3}, "is_private": False},
  }
  return summary.summarise({name: pd.DataFrame(rows) for name, rows in tidy.items()}, document)


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
    self.assertIn(f"Clusters: {row['clusters']},", summary.HEADLINES[verdict].format(**row))

  @parameterized.named_parameters(
      # Three rows at 0 and three at 2: a variance of one.  Each level's is a quarter.
      ("in_the_datas_units", False, 1 / 2), ("standardized", True, 1),
  )
  def test_what_is_explained_is_of_the_fields_that_vary(self, standardize, of_level):
    frames = _exact({2: 0.7}, standardize=standardize)
    (row,) = frames["fit"].to_dict("records")

    self.assertEqual((row["clients"], row["rows"], row["clusters"]), (2, 6, 2))
    self.assertAlmostEqual(row["explained"], 1 - 5 / (6 * (1 + of_level)))
    self.assertEqual(
        frames["filled_in"].to_dict("records"), [{"column": "x", "cells": 3, "share": 0.5}]
    )
    self.assertEqual(frames["fields"].to_dict("list"), {
        "field": ["x", "level"], "share_explained": [1, 1],
        "contribution": [1 / (1 + of_level), of_level / (1 + of_level)],
    })

  @parameterized.named_parameters(
      ("asked_for", {6: 0.9}, 0.0, "different", 4),
      ("tried", {5: 0.9, 6: 0.9}, 0.0, "different", 4),
      ("the_best", {3: 0.8, 4: 0.9, 5: 0.9}, 0.0, "best", 4),
      ("the_most", {3: 0.8, 4: 0.9}, 0.0, "best", 4), ("no_inertia", {6: 0.9}, 5.0, "with_rows", 4),
  )
  def test_there_are_no_more_clusters_than_different_rows(self, scores, inertia, verdict, clusters):
    frames = _exact(scores, (4, 40), different=4, inertia=inertia)
    (row,) = frames["headline"].to_dict("records")
    self.assertEqual((row["verdict"], row["clusters"]), (verdict, clusters))
    self.assertIn(f"Clusters: {clusters}", summary.HEADLINES[verdict].format(**row))
    self.assertEqual(frames["fit"]["clusters"].tolist(), [clusters])
    self.assertNotIn("nearly the best", list(frames["selection"].get("verdict", ())))

  def test_says_what_the_numbers_alone_would_choose(self):
    scores = {2: 0.5, 3: 0.6, 6: 0.7, 7: 0.6}
    for numbers, verdict in (((0.5, 0.9, 0.4, 0.3), "levels"), ((0.5, 0.6, 0.9, 0.3), "best")):
      frames = _exact(scores, (4, 40), numbers=numbers)
      (row,) = frames["headline"].to_dict("records")
      self.assertEqual((row["verdict"], row["clusters"]), (verdict, 6))
      self.assertEqual(row.get("numbers", 6), 3 if verdict == "levels" else 6)
      self.assertEqual(tuple(frames["selection"]["silhouette_of_numbers"]), numbers)


class AtSitesTest(absltest.TestCase):

  def test_columns_may_have_our_names(self):
    centroids = pd.DataFrame([[0, 1.5, 2.5], [1, 3.5, 4.5]], columns=["cluster", "cluster", "b"])
    frame = fitted_rows.exact_frame(centroids)
    self.assertEqual([*map(str, frame)], ["column", "0", "1"])
    self.assertEqual(frame.to_numpy().tolist(), [["cluster", 1.5, 3.5], ["b", 2.5, 4.5]])


class PrivateTest(absltest.TestCase):

  def _frames(self, trust="none", more=(), **settings):
    settings = {"epsilon": 0.5, "delta": 1e-5, "max_points": 7, **settings}
    stated = {
        "epsilon": "0.5", "delta": "1e-05", "unit": "one client", "trust": trust, **dict(more)
    }
    # A column of the user's is called as one of ours.
    rows = [
        [0, 90.4, 8.0, 71.52, "unknown", 0.25, 40.0], [1, 20, 8.0, 82.5, 50.04, 0.5, 3.0],
        [2, -0.01, 9.96, 70.1, 1e-17, 1e-17, 1e30],
    ]
    names = ["cluster", "noisy_count", "count_sd", "cluster", "b", "noise_sd of cluster", "of b"]
    centroids = pd.DataFrame(rows, columns=names).astype(str)
    results = pd.DataFrame([{"num_clusters": 2, "metric": "rounds", "value": 6.0}])
    return summary.summarise(
        {"results": results, "rounds": pd.DataFrame(), "centroids": centroids,
         "guarantee": pd.DataFrame(stated.items(), columns=["name", "value"])},
        {"config": config.Config(
             {schema_lib.NO_VIEW: _SCHEMA}, num_clusters=2, radius=1.0, **settings
         ).to_json(),
         "inputs": {"clients": {"<north>": 0, "south": 1}}, "about": {"is_private": True}},
    )

  def test_nothing_exact_is_shown(self):
    frames = self._frames()

    shown = {name for name, frame in frames.items() if len(frame)}
    self.assertEqual(shown, {"headline", "centroids", "leaves", "guarantee"})
    self.assertEqual([*frames["centroids"]], ["column", "0", "1", "2"])
    self.assertEqual(frames["centroids"].to_numpy().tolist(), [
        ["noisy_count", "90.4 ± 8.0", "20.0 ± 8.0", "0 ± 10"],
        ["cluster", "71.52 ± 0.25", "82.50 ± 0.50", "70.1 ± 1e-17"],
        ["b", "unknown", "50.0 ± 3.0", "0 ± 1e+30"],
    ])
    (row,) = frames["headline"].to_dict("records")
    self.assertIn("3, (0.5, 1e-05)-", summary.HEADLINES[row["verdict"]].format(**row))

  def test_the_budget_of_a_fit_that_was_repeated_is_not_that_of_all(self):
    (row,) = self._frames(more={"interrupted": "again"})["headline"].to_dict("records")
    self.assertEqual(row["verdict"], "private_again")
    self.assertIn("one client in this fit alone", summary.HEADLINES["private_again"].format(**row))

  def test_who_adds_the_noise_is_as_the_guarantee_states_it(self):
    for trust, text in (("server", "The server adds"), ("none", "Every client adds")):
      (row,) = self._frames(trust)["leaves"].to_dict("records")
      self.assertEqual(row["trust"], trust)
      self.assertStartsWith(row["what leaves a client"], text)

  def test_a_budget_that_protects_little_is_warned_of(self):
    for settings, name in (
        ({"epsilon": 25.0}, "epsilon"), ({"delta": 0.5}, "delta"),
        ({"delta": 0.001, "max_points": None}, "delta"),
        ({"delta": 1e-4, "max_points": None, "public_num_points": 20_000}, "delta"),
    ):
      (text,) = self._frames(**settings)["warnings"]["warning"]
      self.assertIn(f"`{name}`", text)


class KnownTest(absltest.TestCase):

  def test_scores_and_the_figure_are_of_all_clusters(self):
    counts = {("u", 0): 3, ("u", 1): 0, ("u", 2): 1, ("v", 0): 0, ("v", 1): 2, ("v", 2): 1}
    rows = [(*cell, number) for cell, number in counts.items()]
    table = pd.DataFrame(rows, columns=["class", "cluster", "rows"])
    found = summary._known(table)  # pylint: disable=protected-access
    labels, clusters = list("uuuuvvv"), [0, 0, 0, 2, 1, 1, 2]
    (scores,) = found["scores"]
    self.assertAlmostEqual(scores["nmi"], metrics.normalized_mutual_info_score(labels, clusters))
    self.assertAlmostEqual(scores["ari"], metrics.adjusted_rand_score(labels, clusters))
    figure = found["confusion"].set_index(["class", "cluster"])["points"]
    self.assertEqual(figure.to_dict(), counts)


class LeavesTest(absltest.TestCase):

  def test_every_trust_has_a_text(self):
    self.assertCountEqual(summary.TRUST, privacy.TRUST)
