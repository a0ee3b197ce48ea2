from absl.testing import absltest

from experiment_shell import text_table

_HEADER = ["method", "mean", "sd"]
_ROWS = [["k-means", "0.5", "0.01"], ["a", "100.25", ""]]


class TextTableTest(absltest.TestCase):

  def test_columns_are_aligned(self):
    self.assertEqual(
        text_table.text_table(_HEADER, _ROWS).splitlines(),
        [
            "method     mean    sd",
            "k-means     0.5  0.01",
            "a        100.25",
        ],
    )

  def test_no_rows(self):
    self.assertEqual(text_table.text_table(_HEADER, []), "method  mean  sd")


if __name__ == "__main__":
  absltest.main()
