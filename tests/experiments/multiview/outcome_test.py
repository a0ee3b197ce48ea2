"""Tests for experiments.multiview.outcome."""

import csv
import io

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.multiview import outcome


class OutcomeTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ("nothing", outcome.Outcome()),
      ("scores", outcome.Outcome(nmi=1 / 3, ari=-0.1)),
      ("one_view", outcome.Outcome(rounds=1, view_weights=(1.0,), objectives=(2.5,))),
      ("all", outcome.Outcome(0.5, 0.25, 7, (0.1, 0.9), (1e300, 1 / 3), {-1: (0, 2), 5: (1, 0)})),
  )
  def test_a_row_is_read_back_exactly(self, one):
    self.assertEqual(set(one.to_row()), set(outcome.VALUES))
    self.assertEqual(outcome.from_row(one.to_row()), one)
    # As a CSV file has it, in which nothing is None and a lone number is a number.
    text = io.StringIO()
    csv.writer(text).writerow(["" if v is None else v for v in one.to_row().values()])
    (cells,) = csv.reader(io.StringIO(text.getvalue()))
    row = dict(zip(one.to_row(), (cell or None for cell in cells)))
    for name in ("nmi", "ari", "rounds"):
      row[name] = None if row[name] is None else float(row[name])
    for name in ("view_weights", "objectives"):
      row[name] = float(row[name]) if row[name] and " " not in row[name] else row[name]
    self.assertEqual(outcome.from_row(row), one)

  def test_score(self):
    one = outcome.score(np.array([0, 0, 1, 1]), np.array([5, 5, 3, 3]))
    self.assertEqual((one.nmi, one.ari), (1.0, 1.0))
    self.assertEqual(outcome.score(None, np.array([0, 1])), outcome.Outcome())

  def test_mean_score_weighs_the_clients(self):
    right, wrong = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    pair = outcome.score(right, wrong)
    alike = outcome.mean_score([right, right], [right, wrong])
    self.assertAlmostEqual(alike.ari, (1 + pair.ari) / 2)
    by_size = outcome.mean_score([right, right], [right, wrong], [3, 1])
    self.assertAlmostEqual(by_size.ari, (3 + pair.ari) / 4)

  def test_count_points(self):
    counts = outcome.count_points(np.array([7, 7, 2]), np.array([1, 0, 1]), 3)
    self.assertEqual(counts, {2: (0, 1, 0), 7: (1, 1, 0)})


if __name__ == "__main__":
  absltest.main()
