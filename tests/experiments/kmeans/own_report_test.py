"""Tests for experiments.kmeans.own_report."""

import html
import json
import os
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from clustering_basics import file_format
from experiment_shell import finished_run
from experiments.kmeans import config
from experiments.kmeans import own_report
from fl_clustering.tables import schema as schema_lib

_SUMMARY = {
    "num_clusters": 2, "inertia": 12.5, "simplified_silhouette": 0.75, "rounds": 4,
    "share_explained": None,
    "points_by_client": {"<north>": [3, 1], "south": [0, 2]},
}


def _private_config(**settings):
  """Returns the `config.json` of a private run of two clients."""
  schema = schema_lib.Schema(tuple(
      schema_lib.Field(name, minimum=0, maximum=9) for name in "ab"
  ))
  settings = {"schema": schema, "epsilon": 0.5, "delta": 1e-5, "max_points": 7, **settings}
  return json.dumps(file_format.stamped({
      "config": config.OwnDataConfig(num_clusters=2, radius=100.0, **settings).to_json(),
      "data": {"clients": ["<north>", "south"], "features": ["a", "b"]},
      "versions": {"numpy": "1"},
  }))


_PRIVATE_FILES = {
    "config.json": _private_config(),
    "summary.json": json.dumps({
        "num_clusters": 2, "rounds": 9,
        "privacy": {
            "epsilon": 0.5, "delta": 1e-5, "unit": "one client with at most 7 points",
            "trust": "none", "noise": "secure: of <someone>", "num_rounds": 9, "min_clients": 3,
            "num_clients": 4,
        },
    }),
    "centroids.csv": "cluster,column_1,column_2\n0,71.5,20.25\n1,82.5,50.0\n",
}


class PrivateReportTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.finished, self.page = self._report()

  def _report(self, **files):
    """Returns a finished private run, with other files than usual, and its page."""
    folder = self.create_tempdir().full_path
    for name, text in {**_PRIVATE_FILES, **files}.items():
      with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
    finished = finished_run.FinishedRun(folder)
    own_report.write_report(finished)
    with open(finished.join("report.html"), encoding="utf-8") as file:
      return finished, file.read()

  def test_what_is_guaranteed(self):
    for text in (
        "2 clusters, (0.5, 1e-05)-differentially private for one client with at most 7 points",
        "with at most 7 points, all of them there or none, all 9 rounds together. That a client "
        "takes part is not hidden.", "Every client adds a share of the noise",
        "holds as long as at least 3 of the 4 clients",
        "secure: of &lt;someone&gt;", "The radius, 100, must have been known beforehand",
        "NOT private: the clusters of a client&#x27;s rows",
    ):
      self.assertIn(text, self.page)

  def test_points_are_added_or_removed(self):
    _, page = self._report(**{"config.json": _private_config(max_points=None)})
    self.assertIn(", added or removed, all 9 rounds together.", page)
    self.assertNotIn("takes part is not hidden", page)
    self.assertNotIn("added or removed", self.page)

  def test_a_budget_that_protects_little(self):
    title = "The privacy budget protects little"
    self.assertNotIn(title, self.page)
    for settings, text in (
        ({"epsilon": 25.0}, "`epsilon` should be at most 20, got 25"),
        ({"delta": 0.5}, "`delta` should be well below one over the number of clients, 2, got 0.5"),
        ({"delta": 0.001, "max_points": None}, "one over the number of points, got 0.001"),
    ):
      _, page = self._report(**{"config.json": _private_config(**settings)})
      self.assertEqual(page.count(title), 1)
      self.assertIn(text, page)

  def test_nothing_exact_is_shown(self):
    for text in ("inertia", "silhouette", "How many points", "<figure>"):
      self.assertNotIn(text, self.page)
    self.assertEqual(
        own_report.result_text(self.finished),
        "2 clusters, (0.5, 1e-05)-differentially private for one client with at most 7 points",
    )

  def test_centroids(self):
    for centroid in (("71.5", "20.25"), ("82.5", "50")):
      self.assertIn("".join(f"<td>{value}</td>" for value in centroid), self.page)


class OwnReportTest(parameterized.TestCase):

  def _finished(self, names=("x", "y"), more_summary=None, **settings):
    """Returns a finished run in a folder, as the program leaves it."""
    folder = self.create_tempdir().full_path
    files = {
        "config.json": json.dumps(file_format.stamped({
            "config": config.OwnDataConfig(
                schema_lib.strict(("a", "b")), **settings
            ).to_json(),
            "data": {
                "clients": {"<north>": 4, "south": 2}, "features": names,
                "sha256": "0" * 64,
            },
            "versions": {"numpy": "1"},
        })),
        "summary.json": json.dumps(_SUMMARY | (more_summary or {})),
        "k_selection.csv": "num_clusters,simplified_silhouette,inertia,rounds\n"
                           "2,0.75,12.5,4\n3,0.5,9.0,6\n",
        "profiles.csv": "cluster,num_rows,feature,mean,standard_deviation,share_explained\n"
                        "0,3,7,71.5,1,0.5\n0,3,x,20.25,2,0.25\n1,3,7,82.5,3,0.5\n"
                        "1,3,x,50,4,0.25\n",
        "centroids.csv": "cluster,num_points,cluster,age\n0,3,71.5,20.25\n1,3,82.5,50.0\n",
    }
    for name, text in files.items():
      with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
    return finished_run.FinishedRun(folder)

  def _page(self, *arguments, **settings):
    finished = self._finished(*arguments, **settings)
    own_report.write_report(finished)
    with open(finished.join("report.html"), encoding="utf-8") as file:
      return file.read()

  @parameterized.named_parameters(
      (
          "the largest", "2,0.5,12.5,4\n3,0.75,9.0,6\n",
          "3 clusters are the most that were tried, and the best. More may be better: "
          "--k_range=2:6 tries them.",
      ),
      (
          "the largest of few points", "2,0.2,12.5,4\n3,0.4,9.0,6\n4,0.5,9.0,6\n",
          "4 clusters are the most that were tried, and the best. More may be better: "
          "--k_range=2:6 tries them.",
      ),
      ("as many as points", "5,0.5,12.5,4\n6,0.75,0.0,6\n", None),
      (
          "the smallest", "3,0.75,12.5,4\n4,0.5,9.0,6\n",
          "3 clusters are the fewest that were tried, and the best. Fewer may be better: "
          "--k_range=2:4 tries them.",
      ),
      (
          "nearly tied", "2,0.75,12.5,4\n3,0.745,9.0,6\n4,0.741,9.0,6\n5,0.5,9.0,6\n",
          "The data hardly decide between 2 and 3 or 4 clusters: their silhouettes differ by less "
          "than 0.01.",
      ),
      ("none below two", "2,0.75,12.5,4\n3,0.5,9.0,6\n", None),
      ("the only one", "2,0.75,12.5,4\n", None),
  )
  def test_an_uncertain_number_of_clusters_is_said(self, rows, text):
    finished = self._finished(["cluster", "age"], k_range=(2, 3))
    with open(finished.join("k_selection.csv"), "w", encoding="utf-8") as file:
      file.write(f"num_clusters,simplified_silhouette,inertia,rounds\n{rows}")
    expected = [] if text is None else [text]
    self.assertEqual(own_report.result_text(finished).splitlines()[3:], expected)
    self.assertEqual(
        own_report.warnings(finished), [("The number of clusters", said) for said in expected]
    )
    own_report.write_report(finished)
    with open(finished.join("report.html"), encoding="utf-8") as file:
      self.assertEqual("The number of clusters</" in file.read(), text is not None)

  def test_the_terminal_says_how_the_number_was_chosen(self):
    finished = self._finished(["cluster", "age"], k_range=(2, 3))
    self.assertEqual(
        own_report.result_text(finished).splitlines()[-1],
        "Chosen of --k_range=2:3 by the largest simplified silhouette: 2 0.750, 3 0.500",
    )

  def test_a_given_number_was_not_chosen(self):
    finished = self._finished(["cluster", "age"], num_clusters=2)
    with open(finished.join("k_selection.csv"), "w", encoding="utf-8") as file:
      file.write("num_clusters,simplified_silhouette,inertia,rounds\n2,0.75,12.5,4\n")
    self.assertNotIn("Chosen", own_report.result_text(finished))

  @parameterized.named_parameters(
      ("standardized", True, "in columns of standard deviation 1"),
      ("as they are", False, "in the data's units"),
  )
  def test_the_inertia_has_a_unit(self, standardize, unit):
    finished = self._finished(
        ["cluster", "age"], {"share_explained": 0.256}, standardize=standardize
    )
    text = (
        "The inertia is the squared distance to the nearest centroid, summed over 6 points, "
        f"{unit}. The clusters explain 25.6% of the points' variance."
    )
    self.assertEqual(own_report.result_text(finished).splitlines()[1], text)
    own_report.write_report(finished)
    with open(finished.join("report.html"), encoding="utf-8") as file:
      self.assertIn(html.escape(text), file.read())

  def test_one_cluster_of_one_client(self):
    finished = self._finished(
        ["age"], {"num_clusters": 1, "rounds": 1, "points_by_client": {"south": [6]}},
        num_clusters=1,
    )
    finished.document["data"]["clients"] = {"south": 6}
    own_report.write_report(finished)
    with open(finished.join("report.html"), encoding="utf-8") as file:
      page = file.read()
    self.assertIn("1 cluster in the points of 1 client<", page)
    for text in ("6 points, 1 column.", "1 cluster, inertia", "after 1 round."):
      self.assertIn(text, page)

  def test_warnings_of_the_data_are_shown(self):
    finished = self._finished(["cluster", "age"], k_range=(2, 3))
    finished.document["warnings"] = ["the column x is odd"]
    self.assertIn(("The data", "the column x is odd."), own_report.warnings(finished))

  def test_warnings_of_the_run_are_shown(self):
    self.enter_context(mock.patch.object(
        finished_run.FinishedRun, "warnings", (("Other <versions>", "of numpy"),)
    ))
    self.assertIn("Other &lt;versions&gt;", self._page(["cluster", "age"], k_range=(2, 3)))

  def test_centers_on_few_points_are_a_warning(self):
    for number, shown in ((0, False), (1, True)):
      page = self._page(more_summary={"num_centers_on_few_points": number})
      self.assertEqual("1 of 2 centers stands on fewer than 5 points" in page, shown)

  def test_everything_is_there(self):
    page = self._page(["cluster", "age"], k_range=(2, 3))
    for text in (
        "2 clusters in the points of 2 clients", "6 points, 2 columns.",
        "inertia 12.5, simplified silhouette 0.750 (at most 1), after 4 rounds", "&lt;north&gt;",
        "<td>0.5000</td>", "Numbers are means in the data&#x27;s units",
    ):
      self.assertIn(text, page)
    self.assertEqual(page.count("<figure>"), 2)

  def test_a_column_may_be_called_as_one_of_ours(self):
    page = self._page(["cluster", "age"])
    for centroid in (("71.5", "20.25"), ("82.5", "50")):
      self.assertIn("".join(f"<td>{value}</td>" for value in centroid), page)

  def test_the_default_sends_totals(self):
    page = self._page()
    self.assertIn("A cluster of one point is that point", page)
    self.assertNotIn("own means and counts", page)

  def test_means_are_not_spoken_of_where_none_are_sent(self):
    page = self._page(algorithm="lloyd")
    self.assertNotIn("No mean of fewer than", page)
    self.assertIn("The server gets exact sums, counts and the inertia.", page)

  def test_where_means_are_sent_it_is_said(self):
    page = self._page(algorithm="fkm_lloyd", min_count=3)
    self.assertIn("every client&#x27;s own means and counts", page)
    self.assertIn("No mean of fewer than 3 points leaves a client", page)


if __name__ == "__main__":
  absltest.main()
