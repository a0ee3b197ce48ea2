from absl.testing import absltest

from experiment_shell import text_table


class TextTableTest(absltest.TestCase):

  def test_columns_are_aligned(self):
    header, rows = ["method", "mean", "sd"], [["k-means", "0.5", "0.01"], ["a", "100.25", ""]]
    self.assertEqual(
        text_table.text_table(header, rows),
        "method     mean    sd\nk-means     0.5  0.01\na        100.25",
    )
    self.assertEqual(text_table.text_table(header, []), "method  mean  sd")


if __name__ == "__main__":
  absltest.main()
