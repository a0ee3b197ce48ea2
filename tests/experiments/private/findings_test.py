from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import scores
from experiments.private import findings
from experiments.private import finished_benchmark
from tests.experiments.private import sample_benchmark


class FindingsTest(parameterized.TestCase):

  def _read(self, **changes):
    run = sample_benchmark.write(self.create_tempdir().full_path, **changes)
    return finished_benchmark.read_benchmark(run)

  @parameterized.named_parameters(
      ("refine", {"lsh": 1.0, "refine": 0.75}, "Split and refine has the smallest mean loss of "
       "the 2 private methods on every data set and for every k"),
      ("another", {"lsh": 0.6, "refine": 0.75, "diffprivlib": 2.0},
       "LSH tree has the smallest mean loss of the 3 private methods on every"),
      ("only_one", {"sklearn": 0.5, "lsh": 1.0}, "LSH tree is the only private method"),
      ("none", {"sklearn": 0.5}, "No private method was run"),
  )
  def test_verdict_follows_the_numbers(self, factors, expected):
    self.assertStartsWith(findings.verdict(self._read(factors=factors)), expected)

  def test_verdict_counts_where_no_method_is_best_everywhere(self):
    finished = self._read(factors={"lsh": 1.0, "refine": 0.75})
    worse = scores.summarize([9.0])
    finished.bands["letter", "refine", 2, 1.0] = worse

    self.assertIn("Split and refine has the smallest", findings.verdict(finished))
    self.assertIn("in 3 of 4 cases (data set and k)", findings.verdict(finished))

  def test_ratios_are_ranges_over_data_sets_and_k(self):
    finished = self._read()
    better = finished.band("letter", "sklearn", 2, 1.0).mean / 2
    finished.bands["letter", "refine", 2, 1.0] = scores.summarize([better])

    price, others, _ = findings.sentences(finished)

    # The factors 0.75 and 0.5, and a tenth more for the noise of epsilon 1.
    self.assertIn("has 0.50 to 1.65 times the loss of k-means without privacy", price)
    # 0.5 / 2 / (1.0 * 1.1), and the quotient of the factors.
    self.assertIn("0.23 to 0.75 times that of LSH tree", others)

  def test_compares_with_the_peer(self):
    sentence = findings.sentences(self._read())[-1]

    ratio = sample_benchmark.invented_loss(0.75, 16, 1.0, 1.5) / 0.0985
    self.assertIn(f"has {ratio:.2f} times the loss of google/differential-privacy", sentence)
    self.assertIn("reaches 1 of 1 targets", sentence)

  @parameterized.named_parameters(("one", 1, "1 run:"), ("four", 4, "4 runs:"))
  def test_warns_of_few_runs(self, runs, words):
    (title, text), = findings.warnings(self._read(runs=runs))

    self.assertEqual(title, "Few runs")
    self.assertIn(words, text)

  def test_names_what_is_left_out(self):
    found = findings.warnings(self._read(runs=20, skipped={"gas_emissions": "no network"}))

    self.assertEqual(found, [("gas_emissions is left out", "no network.")])

  @parameterized.named_parameters(
      ("with_diffprivlib", ("diffprivlib", "refine"), True), ("without", ("refine",), False)
  )
  def test_says_that_diffprivlib_promises_more(self, methods, expected):
    factors = {method: sample_benchmark.FACTORS[method] for method in methods}
    notes = " ".join(findings.notes(self._read(factors=factors)))

    self.assertEqual("stricter" in notes, expected)
    self.assertIn("dp-clustering-icml17", notes)
    self.assertIn("Nothing in this folder is private", notes)


if __name__ == "__main__":
  absltest.main()
