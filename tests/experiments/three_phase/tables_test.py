from absl.testing import absltest

from experiments.three_phase import tables
from tests.experiments.three_phase import sample_run


def _column(heading, group="clients' own test data"):
  (position,) = (
      i for i, column in enumerate(tables.COLUMNS)
      if (column.short_heading, column.group) == (heading, group)
  )
  return position


class ComparisonRowsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.summary = sample_run.summary(sample_run.sample_run())
    self.rows = {row.method: row for row in tables.comparison_rows(self.summary)}

  def test_phase_1_first_groupings_in_order_controls_last(self):
    self.assertEqual(
        list(self.rows), ["pretrain", "kmeans", "dynamic_distance", "local", "fedavg"]
    )

  def test_unknown_grouping_stands_among_the_groupings(self):
    self.summary["methods"]["my_grouping"] = self.summary["methods"]["kmeans"]

    rows = tables.comparison_rows(self.summary)

    self.assertEqual(rows[3].method, "my_grouping")
    self.assertEqual(rows[3].label, "my grouping")

  def test_values_are_the_summary_s(self):
    clients = self.summary["methods"]["kmeans"]["clients"]
    kmeans = self.rows["kmeans"]
    self.assertEqual(kmeans.values[_column("mean")], clients["accuracy"]["mean"])
    self.assertEqual(kmeans.sds[_column("mean")], clients["accuracy"]["sd"])
    self.assertEqual(kmeans.values[_column("target")], clients["share_at_target"])
    self.assertEqual(
        kmeans.values[_column("(c)", "global test set")],
        self.summary["methods"]["kmeans"]["global_blended"]["accuracy"],
    )

  def test_phase_1_model_stands_under_the_mean(self):
    pretrain = self.rows["pretrain"]
    self.assertEqual(
        pretrain.values[_column("(a)", "global test set")],
        self.summary["pretrain"]["global"]["accuracy"],
    )
    self.assertIsNone(pretrain.values[_column("(b)", "global test set")])

  def test_absent_stays_absent(self):
    self.assertIsNone(self.rows["dynamic_distance"].values[_column("ARI", "true groups")])
    self.assertEqual(self.rows["kmeans"].values[_column("ARI", "true groups")], 0.951)

  def test_best_value_of_a_column_and_none_without_a_difference(self):
    rows = list(self.rows.values())
    best = tables.best_values(rows)

    self.assertEqual(best[_column("mean")], "0.800")
    self.assertIsNone(best[_column("K", "")])
    # Only one method has one: it is not better than any other.
    self.assertIsNone(best[_column("ARI", "true groups")])


class ComparisonTableTextTest(absltest.TestCase):

  def test_has_a_line_per_method_with_the_summary_s_numbers(self):
    summary = sample_run.summary(sample_run.sample_run())

    lines = tables.comparison_text(summary).splitlines()

    kmeans = next(line for line in lines if line.startswith("K-means"))
    accuracy = summary["methods"]["kmeans"]["clients"]["accuracy"]
    self.assertSequenceEqual(
        kmeans.split()[1:5],
        ["2", f"{accuracy['mean']:.3f}", f"{accuracy['sd']:.3f}", f"{accuracy['p10']:.3f}"],
    )
    self.assertEqual(kmeans.split()[-2:], ["0.951", "0.975"])
    phase_1 = next(line for line in lines if line.startswith("phase 1"))
    self.assertEqual(phase_1.split()[2], "-")
    self.assertEqual(phase_1.split()[-4:], ["-"] * 4)

  def test_fits_a_terminal_and_is_plain_ascii(self):
    text = tables.comparison_text(
        sample_run.summary(sample_run.sample_run(num_clients=3383))
    )

    self.assertLessEqual(max(map(len, text.splitlines())), 110)
    self.assertTrue(text.isascii())

  def test_columns_are_aligned(self):
    lines = tables.comparison_text(
        sample_run.summary(sample_run.sample_run())
    ).splitlines()
    group_line, heading_line, *rows = lines[:7]

    # A column's heading and its numbers end at the same place.
    end_of_mean = heading_line.index("mean") + len("mean")
    for row in rows:
      self.assertRegex(row[:end_of_mean], r" 0\.\d{3}$")
    self.assertEqual(group_line.index("global test set"), heading_line.index("(a)"))


if __name__ == "__main__":
  absltest.main()
