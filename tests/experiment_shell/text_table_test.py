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

  def test_groups_stand_above_their_first_heading(self):
    group_line, *rest = text_table.text_table(
        _HEADER, _ROWS, [("who", 1), ("on the test set", 2)]
    ).splitlines()

    self.assertEqual(group_line, "who        on the test set")
    self.assertEqual(rest, text_table.text_table(_HEADER, _ROWS).splitlines())

  def test_a_group_without_name_leaves_a_gap(self):
    group_line = text_table.text_table(
        _HEADER, _ROWS, [("", 2), ("over seeds", 1)]
    ).splitlines()[0]

    self.assertEqual(group_line, " " * len("method     mean    ") + "over seeds")

  def test_a_long_heading_of_a_group_is_followed_by_a_gap(self):
    self.assertEqual(
        text_table.text_table(
            ["method", "mean", "sd", "n"], [["a", "100.25", "0.5", "9"]],
            [("", 1), ("gain in accuracy", 2), ("cost", 1)],
        ).splitlines(),
        [
            "          gain in accuracy  cost",
            "method    mean   sd         n",
            "a       100.25  0.5         9",
        ],
    )

  def test_no_rows(self):
    self.assertEqual(text_table.text_table(_HEADER, []), "method  mean  sd")


if __name__ == "__main__":
  absltest.main()
