"""Tests for experiments.kmeans.results."""

import json

from absl.testing import absltest

from experiments.kmeans import cells
from experiments.kmeans import data
from experiments.kmeans import results
from tests.experiments.kmeans import sample_rows

_DATA = data.grid_name(0.1, 50, 1.0)


class ResultsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.scores = results.of_rows(sample_rows.sample_rows())

  def test_a_cell_is_measured_once_though_several_figures_show_it(self):
    found = cells.cells(("regular", "noise", "rounds"), (0,))
    keys = [tuple(cell.values()) for cell in found]
    self.assertLen(set(keys), len(keys))
    self.assertIn((_DATA, 0, "fkm"), keys)

  def test_scores(self):
    score = self.scores.spread("ari", _DATA, "central")
    self.assertAlmostEqual(score.mean, 0.905)
    self.assertAlmostEqual(score.sd, 0.01 / 2**0.5)
    self.assertIsNone(self.scores.spread("ari", _DATA, "child_parent"))

  def test_excess_is_over_central_in_percent(self):
    # The default is the second method.
    self.assertAlmostEqual(self.scores.spread(results.EXCESS, _DATA, "sums").mean, 2.0)
    self.assertEqual(self.scores.spread(results.EXCESS, _DATA, "central").mean, 0)

  def test_a_fit_that_ended_stays_where_it_was(self):
    path = results.ari_by_round(self.scores, _DATA, "fkm")
    for mean, expected in zip(path, (0.6, 0.65, 0.725), strict=True):
      self.assertAlmostEqual(mean, expected)

  def test_summary_is_json(self):
    summary = json.loads(json.dumps(results.summary(self.scores), allow_nan=False))
    self.assertEqual(summary[_DATA]["fkm"]["ari"]["seeds"], 2)
    self.assertNotIn("silhouette", summary[_DATA]["fkm"])


class TablesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.scores = results.of_rows(sample_rows.sample_rows())

  def test_ours_stands_beside_the_papers(self):
    header, rows = results.ari_rows(self.scores, _DATA, results.published_regular(0.1))
    by_label = {row[0]: dict(zip(header, row)) for row in rows}
    self.assertEqual(by_label["FKM"]["paper (per client)"], "0.949")
    self.assertEqual(by_label["k-FED"]["paper (per client)"], "0.690")
    self.assertEqual(by_label["Sums (default)"]["paper (per client)"], "–")
    self.assertEqual(by_label["central k-means (sees all points)"]["pooled"], "0.905 ± 0.007")
    self.assertIn("FKM as printed (clients send rows)", by_label)

  def test_noise(self):
    header, rows = results.noise_rows(self.scores, 50)
    self.assertLen(rows, 15)
    self.assertEqual(rows[1][0], "0.1, Sums (default)")
    self.assertEqual(rows[3][0], "0.1, FKM")
    self.assertEqual(rows[3][-1], "0.949, 0.697")
    self.assertLen(header, len(rows[0]))

  def test_extreme_split_has_the_papers_number_at_noise_1_only(self):
    self.assertEqual(results.published_extreme(1.0), results.PUBLISHED_EXTREME_ARI)
    self.assertEmpty(results.published_extreme(1.5))

  def test_sse(self):
    _, rows = results.sse_rows(self.scores)
    self.assertEqual(rows[0][-1], "10.0")  # 1498.28 over 1362.20.
    self.assertEqual(rows[-1][1], "1000.0 ± 0.0")

  def test_messages(self):
    _, rows = results.message_rows(60, 784)
    # M is 180.
    self.assertEqual(
        [row[1] for row in rows], ["2,259,360", "2,260,800", "188,160", "188,400", "3,136"]
    )

  def test_privacy(self):
    header, rows = results.privacy_rows(self.scores, 1.5)
    self.assertEqual(header[:3], ["epsilon", "0.25", "0.5"])
    by_label = {row[0]: row[1:] for row in rows}
    self.assertLen(rows, 5)
    for row in rows:
      self.assertLen(row, len(header))
    inertias = {
        method: self.scores.values("inertia", data.private_grid_name(1.5), method)[0]
        for method in ("true_centers", "central", "private none epsilon=0.5")
    }
    for method, shown in (
        ("central", by_label["central k-means, no privacy"][3]),
        ("private none epsilon=0.5", by_label["private sums, the clients add the noise"][1]),
    ):
      expected = inertias[method] / inertias["true_centers"]
      self.assertEqual(shown, f"{expected:.4f} ± 0.0000")


if __name__ == "__main__":
  absltest.main()
