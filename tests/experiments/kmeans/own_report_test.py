"""Tests for experiments.kmeans.own_report."""

import json
import os
from unittest import mock

from absl.testing import absltest

from experiment_shell import finished_run
from experiments.kmeans import config
from experiments.kmeans import own_report

_SUMMARY = {
    "num_clusters": 2, "inertia": 12.5, "simplified_silhouette": 0.75, "rounds": 4,
    "points_by_client": {"<north>": [3, 1], "south": [0, 2]},
}


class OwnReportTest(absltest.TestCase):

  def _finished(self, column_names, **settings):
    """Returns a finished run in a folder, as the program leaves it."""
    folder = self.create_tempdir().full_path
    files = {
        "config.json": json.dumps({
            "config": config.OwnDataConfig(**settings).to_json(),
            "data": {
                "clients": {"<north>": 4, "south": 2}, "num_columns": 2,
                "column_names": column_names, "sha256": "0" * 64,
            },
            "versions": {"numpy": "1"},
        }),
        "summary.json": json.dumps(_SUMMARY),
        "k_selection.csv": "num_clusters,simplified_silhouette,inertia,rounds\n"
                           "2,0.75,12.5,4\n3,0.5,9.0,6\n",
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

  def test_warnings_of_the_run_are_shown(self):
    self.enter_context(mock.patch.object(
        finished_run.FinishedRun, "warnings", (("Other <versions>", "of numpy"),)
    ))
    self.assertIn("Other &lt;versions&gt;", self._page(["cluster", "age"], k_range=(2, 3)))

  def test_everything_is_there(self):
    page = self._page(["cluster", "age"], k_range=(2, 3))
    for text in (
        "2 clusters in the points of 2 clients", "6 points, 2 columns.",
        "inertia 12.5, simplified silhouette 0.750 (at most 1), after 4 rounds", "&lt;north&gt;",
        "No mean of fewer than 2 points", "<td>0.5000</td>",
    ):
      self.assertIn(text, page)
    self.assertEqual(page.count("<figure>"), 1)

  def test_a_column_may_be_called_as_one_of_ours(self):
    page = self._page(["cluster", "age"])
    for centroid in (("71.5", "20.25"), ("82.5", "50")):
      self.assertIn("".join(f"<td>{value}</td>" for value in centroid), page)

  def test_columns_without_names_get_numbers(self):
    self.assertIn("column_2", self._page(None))

  def test_means_are_not_spoken_of_where_none_are_sent(self):
    page = self._page(None, algorithm="lloyd")
    self.assertNotIn("No mean of fewer than", page)
    self.assertIn("Rounds of Lloyd send sums and counts", page)


if __name__ == "__main__":
  absltest.main()
