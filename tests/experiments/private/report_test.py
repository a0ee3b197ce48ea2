import contextlib
import os
import re
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from experiments.private import finished_benchmark
from experiments.private import report
from experiments.private import report_tables
from tests.experiments.private import sample_benchmark


def _cells(page, label):
  """Returns the cells of all rows with this label, without markup."""
  rows = re.findall(f'<tr><th scope="row">{re.escape(label)}</th>(.*?)</tr>', page)
  return [
      [re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?>(.*?)</td>", row)]
      for row in rows
  ]


class ReportTest(parameterized.TestCase):

  def _write(self, draw=False, **changes):
    """Writes a sample and its report; returns the run and the page's text."""
    run = sample_benchmark.write(self.create_tempdir().full_path, **changes)
    with contextlib.ExitStack() as stack:
      if not draw:  # Figures take nearly all of the time.
        stack.enter_context(mock.patch.object(report, "_FIGURES", ()))
      report.write_report(run)
    with open(run.join("report.html"), encoding="utf-8") as file:
      return run, file.read()

  def test_writes_page_and_figures(self):
    run, page = self._write(draw=True)

    self.assertCountEqual(
        os.listdir(run.path),
        ["config.json", "figures", "ledgers.json", "measurements.csv", "report.html"],
    )
    self.assertCountEqual(
        os.listdir(run.join("figures")), ["loss_over_epsilon.png", "loss_over_k.png"]
    )
    self.assertEqual(page.count("<figure>"), 2)

  def test_begins_with_the_verdict(self):
    _, page = self._write()

    first = page[page.index("<h2>Summary") :]
    self.assertRegex(first, "^<h2>Summary</h2>\n<p><strong>Split and refine has the smallest")

  def test_tables_show_means_and_bands_and_mark_the_best_private_loss(self):
    _, page = self._write()

    mean = sample_benchmark.invented_loss(0.75, 2, 1.0, 1.5)
    over_k_of_letter = _cells(page, "split and refine")[0]
    self.assertStartsWith(over_k_of_letter[0], f"{mean:#.3g} ")
    self.assertIn(f"<strong>{mean:#.3g}</strong>", page)
    not_private = sample_benchmark.invented_loss(0.5, 2, float("inf"), 1.5)
    self.assertNotIn(f"<strong>{not_private:#.3g}</strong>", page)

  def test_compares_with_the_peer_and_says_what_was_not_run(self):
    _, page = self._write()

    (row,) = [row for row in _cells(page, "letter") if row[0] == "16" and "yes" in row]
    self.assertEqual(row[1], "0.0985")
    self.assertIn("was not run here", page)

  @parameterized.named_parameters(
      ("over_epsilon", {"epsilon_to_try": ()}, "<h2>Loss over epsilon"),
      ("the_peer", {"fixed_epsilon": 2.0}, "<h2>Beside google"),
      ("ledgers", {"factors": {"sklearn": 0.5, "lsh": 1.0}}, "<h2>What was released"),
  )
  def test_leaves_out_what_there_is_none_of(self, changes, heading):
    self.assertIn(heading, self._write()[1])
    self.assertNotIn(heading, self._write(**changes)[1])

  def test_shows_the_ledger(self):
    _, page = self._write()

    self.assertIn("1 releases, epsilon 0.98 of 1 at delta 1e-06", page)
    self.assertEqual(_cells(page, "split step 0"), [["1.25", "5", "0.25"]])
    self.assertIn("seeded with 4: NOT private", page)

  def test_what_is_skipped_is_escaped(self):
    _, page = self._write(skipped={"gas_emissions": "<urlopen error>"})

    self.assertIn("gas_emissions is left out", page)
    self.assertIn("&lt;urlopen error&gt;", page)

  def test_only_without_privacy(self):
    _, page = self._write(draw=True, factors={"sklearn": 0.5})

    self.assertIn("No private method was run.", page)


class TextTablesTest(absltest.TestCase):

  def test_has_a_line_for_every_method_and_the_peer(self):
    run = sample_benchmark.write(self.create_tempdir().full_path)
    text = report_tables.text_tables(finished_benchmark.read_benchmark(run))

    letter, synthetic = text.split("\n\n")[1:]
    self.assertLen(letter.splitlines(), 6)
    self.assertRegex(letter.splitlines()[-1], r"google/differential-privacy +- +0\.0985")
    self.assertLen(synthetic.splitlines(), 5)
    self.assertIn("IBM diffprivlib", synthetic)


if __name__ == "__main__":
  absltest.main()
