import contextlib
import json
import os
import re
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from experiment_shell import finished_run
from experiments.three_phase import report
from tests import nightly
from tests.experiments.three_phase import sample_run

_FIGURES = (
    "accuracy_by_cost.png", "client_accuracy.png", "client_weights.png", "distance_matrix.png",
    "gains.png", "group_recovery.png", "label_mix.png", "learning_curves.png",
)


def _many_clusters(num_clients):
  """Returns assignments with 32 overlapping clusters, and one cluster of everyone."""
  ids = [f"client_{i:04d}" for i in range(num_clients)]
  overlapping = [ids[k:: 32] + [ids[k - 1]] for k in range(32)]
  return {
      "kmeans": {"clusters": [ids], "overlapping": False, "warning": None},
      "dynamic_distance": {"clusters": overlapping, "overlapping": True, "warning": None},
  }


class ReportTest(parameterized.TestCase):
  """The report of one sample run with all its figures, and of others that differ from it."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    temporary = tempfile.TemporaryDirectory()
    cls.addClassCleanup(temporary.cleanup)
    cls.folder = temporary.name
    results = sample_run.results(sample_run.sample_run(), cls.folder)
    cls.files = os.listdir(cls.folder)
    report.write_report(results.finished)
    with open(results.finished.join("report.html"), encoding="utf-8") as file:
      cls.page = file.read()

  def _write(self, draw=(), without=(), **changes):
    """Writes a sample run and its report; returns the folder and the page's text.

    Args:
      draw: Names of the figures that are drawn, as they take nearly all of the time; None for all.
        That of the profiles is always among them.
      without: Names of files that the run does not have.
      **changes: As of `sample_run`.
    """
    results = sample_run.results(
        sample_run.sample_run(**changes), self.create_tempdir().full_path
    )
    for name in without:
      os.remove(results.finished.join(name))
    with contextlib.ExitStack() as stack:
      for name in ("FIRST_FIGURES", "FIGURES") if draw is not None else ():
        chosen = tuple(figure for figure in getattr(report, name) if figure.name in draw)
        stack.enter_context(mock.patch.object(report, name, chosen))
      report.write_report(results.finished)
    with open(results.finished.join("report.html"), encoding="utf-8") as file:
      return results.finished.path, file.read()

  def test_writes_page_and_figures_and_no_other_file(self):
    self.assertCountEqual(os.listdir(self.folder), [*self.files, "report.html", "figures"])
    self.assertCountEqual(os.listdir(os.path.join(self.folder, "figures")), _FIGURES)
    self.assertEqual(self.page.count('src="data:image/png;base64,'), len(_FIGURES))

  def test_page_refers_to_nothing_outside(self):
    self.assertIn('src="data:image/png;base64,', self.page)
    self.assertNotRegex(self.page, r"https?://")
    self.assertEmpty(re.findall(r'(?:href|src)="(?!data:)', self.page))
    self.assertNotIn("<script", self.page)
    text = re.sub(r'src="[^"]*"|<style>.*?</style>', "", self.page, flags=re.DOTALL)
    self.assertNotRegex(text, r"\$\w|\{|None|nan\b")

  def test_verdict_and_gains_come_first(self):
    places = [
        self.page.index(text)
        for text in (
            "<strong>K-means and dynamic distance are more accurate than training everyone "
            "together for as many rounds (FedAvg). ",
            "This rests on 60 test examples", "<h2>Gains</h2>", "<h2>Comparison</h2>",
            "<h2>Figures</h2>",
        )
    ]
    self.assertEqual(places, sorted(places))

  def test_the_highest_mean_is_not_bold(self):
    self.assertIn("<td>0.800 ± 0.068</td>", self.page)
    self.assertIn("<td><strong>+10.0</strong></td>", self.page)

  def test_new_clients_have_a_section(self):
    _, page = self._write(new_client_ids=("late",))

    self.assertIn("<h2>New clients</h2>", page)
    self.assertIn('<th scope="row">late</th>', page)
    self.assertNotIn("<h2>New clients</h2>", self.page)

  def test_tables_have_the_profiles_of_the_saved_clusters(self):
    folder, page = self._write(
        label_column="num", class_names=("<= 0", "> 0", "x"), validation_examples=9
    )

    self.assertIn("profiles.png", os.listdir(os.path.join(folder, "figures")))
    self.assertIn(
        "The folder model holds the models of K-means. Of the methods that group clients, it has "
        "the best mean accuracy on the clients&#x27; validation rows, which may be chance.", page
    )
    self.assertIn("<code>profiles.csv</code>", page)
    self.assertIn('<p class="subtitle">invented digits. Model: cnn_small', page)
    self.assertNotIn("The folder model holds", self.page)
    self.assertIn('<p class="subtitle">invented digits. Partition: rotated (2 groups', self.page)


  def test_one_cluster_has_no_profile(self):
    folder, _ = self._write(without=("profiles.csv",), label_column="num")

    self.assertNotIn("profiles.png", os.listdir(os.path.join(folder, "figures")))

  def test_client_ids_are_escaped(self):
    ids = ("<script>alert(1)</script>", "a&b", "$title", "x")
    assignments = {
        "kmeans": {"clusters": [ids[:2], ids[2:]], "overlapping": False, "warning": "<b>"},
    }

    _, page = self._write(
        num_clients=4, groupings=("kmeans",), client_ids=ids, assignments=assignments
    )

    self.assertNotIn("<script", page)
    self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt;, a&amp;b", page)
    self.assertIn("$title, x", page)
    self.assertIn("&lt;b&gt;", page)

  def test_says_which_data_and_why(self):
    _, page = self._write(fallback_reason="there was no network")

    self.assertIn("<h1>Three-phase clustering of 6 clients: digits</h1>", page)
    self.assertIn("invented digits", page)
    self.assertIn("there was no network", page)

  def test_clusters_tell_size_examples_and_true_groups(self):
    folder, page = self._write(groupings=("kmeans",))
    with open(os.path.join(folder, "clients.csv"), encoding="utf-8") as file:
      sizes = [int(line.split(",")[3]) for line in file.readlines()[1:]]

    self.assertIn(
        f'<td>3</td><td>0.900</td><td>{sum(sizes[:3])}</td>'
        '<td class="text">group 0: 2, group 1: 1</td>'
        '<td class="text">client_0000, client_0001, client_0002</td>',
        page,
    )

  def test_per_label_recall_of_a_model_per_cluster_is_their_mean(self):
    _, page = self._write(groupings=("kmeans",))

    rows = re.findall('<tr><th scope="row">(.*?)</th>(.*?)</tr>', page)
    # Their last three cells are the labels', see sample_run.py.
    recalls = {label: re.findall("<td>(.*?)</td>", cells)[-3:] for label, cells in rows}
    self.assertEqual(recalls["K-means (a)"], ["0.400"] * 3)
    self.assertEqual(recalls["K-means (c)"], ["0.300"] * 3)

  @parameterized.named_parameters(
      ("two_clients", {
          "num_clients": 2, "groupings": ("kmeans",), "rounds": 1, "true_groups": False,
      }, 7),
      ("one_client", {
          "num_clients": 1, "groupings": (), "rounds": 1, "true_groups": False,
      }, 6),
      ("only_controls", {"groupings": ()}, 7),
      ("only_controls_without_weights", {
          "groupings": (), "true_groups": False, "keeps_weights": False,
      }, 5),
      ("32_overlapping_clusters_47_labels", {
          "num_clients": 100, "num_classes": 47, "assignments": _many_clusters(100),
      }, 8),
      ("number_of_clusters_left_to_the_run", {"chooses_num_clusters": True}, 9),
      ("1000_clients", {"num_clients": 1000, "groupings": ("kmeans",)}, 8),
  )
  def test_edge_cases(self, changes, num_figures):
    # One client is fewer.
    nightly.skip_by_day(self, changes.get("num_clients") == 2)
    folder, page = self._write(None, **changes)

    self.assertLen(os.listdir(os.path.join(folder, "figures")), num_figures)
    self.assertEqual(page.count("<figure>"), num_figures)
    self.assertEndsWith(page, "</html>\n")

  def test_a_summary_that_lacks_something_is_refused_in_one_line(self):
    folder = sample_run.write(sample_run.sample_run(), self.create_tempdir().full_path)
    path = os.path.join(folder, "summary.json")
    with open(path, encoding="utf-8") as file:
      summary = json.load(file)
    del summary["comparison"]
    with open(path, "w", encoding="utf-8") as file:
      json.dump(summary, file)

    with self.assertRaisesRegex(
        finished_run.DamagedFile, r"summary.json' can't be read \(it has no 'comparison'\)"
    ):
      report.write_report(finished_run.FinishedRun(folder))

    self.assertNotIn("report.html", os.listdir(folder))

  def test_no_page_without_a_summary(self):
    folder = sample_run.write(sample_run.sample_run(), self.create_tempdir().full_path)
    os.remove(os.path.join(folder, "summary.json"))

    with self.assertRaisesRegex(FileNotFoundError, "summary.json"):
      report.write_report(finished_run.FinishedRun(folder))

    self.assertNotIn("report.html", os.listdir(folder))


if __name__ == "__main__":
  absltest.main()
