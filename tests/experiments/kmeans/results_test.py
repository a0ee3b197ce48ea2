"""Tests for experiments.kmeans.results, tables and findings."""

import json

from absl.testing import absltest

from experiments.kmeans import cells
from experiments.kmeans import findings
from experiments.kmeans import published
from experiments.kmeans import results as results_lib
from experiments.kmeans import tables
from tests.experiments.kmeans import sample_rows

_DATA = cells.grid_name(0.1, 50, 1.0)


class ResultsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.results = results_lib.Results(sample_rows.sample_rows())

  def test_a_cell_is_measured_once_though_several_figures_show_it(self):
    found = cells.cells(("regular", "noise", "rounds"), (0,))
    keys = [tuple(cell.values()) for cell in found]
    self.assertLen(set(keys), len(keys))
    self.assertIn((_DATA, 0, "fkm"), keys)

  def test_scores(self):
    score = self.results.score(_DATA, "central", "ari")
    self.assertAlmostEqual(score.mean, 0.905)
    self.assertAlmostEqual(score.sd, 0.01 / 2**0.5)
    self.assertIsNone(self.results.score(_DATA, "child_parent", "ari"))

  def test_excess_is_over_central_in_percent(self):
    # The default is the second method.
    self.assertAlmostEqual(self.results.excess(_DATA, "fkm_lloyd").mean, 2.0)
    self.assertEqual(self.results.excess(_DATA, "central").mean, 0)

  def test_a_fit_that_ended_stays_where_it_was(self):
    path = self.results.ari_by_round(_DATA, "fkm")
    for score, expected in zip(path, (0.6, 0.65, 0.725), strict=True):
      self.assertAlmostEqual(score.mean, expected)

  def test_summary_is_json(self):
    summary = json.loads(json.dumps(self.results.summary(), allow_nan=False))
    self.assertEqual(summary[_DATA]["fkm"]["ari"]["seeds"], 2)
    self.assertNotIn("silhouette", summary[_DATA]["fkm"])


class TablesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.results = results_lib.Results(sample_rows.sample_rows())

  def test_ours_stands_beside_the_papers(self):
    header, rows = tables.ari_rows(self.results, _DATA, tables.regular_paper(0.1))
    by_label = {row[0]: dict(zip(header, row)) for row in rows}
    self.assertEqual(by_label["FKM"]["paper (per client)"], "0.949")
    self.assertEqual(by_label["k-FED"]["paper (per client)"], "0.690")
    self.assertEqual(by_label["FKM, then Lloyd (default)"]["paper (per client)"], "–")
    self.assertEqual(by_label["central k-means (sees all points)"]["pooled"], "0.905 ± 0.007")
    self.assertIn("FKM as printed (clients send rows)", by_label)

  def test_noise(self):
    header, rows = tables.noise_rows(self.results, 50)
    self.assertLen(rows, 12)
    self.assertEqual(rows[2][0], "0.1, FKM")
    self.assertEqual(rows[2][-1], "0.949, 0.697")
    self.assertLen(header, len(rows[0]))

  def test_extreme_split_has_the_papers_number_at_noise_1_only(self):
    self.assertEqual(tables.extreme_paper(1.0), published.EXTREME_ARI)
    self.assertEmpty(tables.extreme_paper(1.5))

  def test_sse(self):
    _, rows = tables.sse_rows(self.results)
    self.assertEqual(rows[0][-1], "10.0")  # 1498.28 over 1362.20.
    self.assertEqual(rows[-1][1], "1000.0 ± 0.0")

  def test_messages(self):
    _, rows = tables.message_rows(60, 784)
    self.assertEqual([row[1] for row in rows], ["188,160", "188,400", "3,136"])


class FindingsTest(absltest.TestCase):

  def test_the_verdict_counts_fits_that_missed(self):
    results = results_lib.Results(sample_rows.sample_rows(("extreme",)))
    # Two data sets, two seeds, all 2% above.
    self.assertRegex(findings.verdict(results), r"^4 of 4 default fits .*worst: \+2\.00%")

  def test_a_verdict_without_synthetic_data(self):
    results = results_lib.Results(sample_rows.sample_rows(("sse",)))
    self.assertRegex(findings.verdict(results), "^The tables below")
    self.assertRegex(findings.sentences(results)[0], "^Child/parent as printed ends 2.0 to 2.0%")


if __name__ == "__main__":
  absltest.main()
