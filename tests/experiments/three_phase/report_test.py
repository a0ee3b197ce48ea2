import contextlib
import json
import os
import re
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from experiments.three_phase import report
from tests.experiments.three_phase import sample_run

_FIGURES = (
    "client_accuracy.png", "client_weights.png", "distance_matrix.png", "group_recovery.png",
    "label_mix.png", "learning_curves.png",
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
    report.write_report(results)
    with open(results.finished.join("report.html"), encoding="utf-8") as file:
      cls.page = file.read()

  def _write(self, draw=True, **changes):
    """Writes a sample run and its report; returns the folder and the page's text."""
    results = sample_run.results(
        sample_run.sample_run(**changes), self.create_tempdir().full_path
    )
    with contextlib.ExitStack() as stack:
      if not draw:  # Figures take nearly all of the time.
        stack.enter_context(mock.patch.object(report, "_FIGURES", ()))
      report.write_report(results)
    with open(results.finished.join("report.html"), encoding="utf-8") as file:
      return results.finished.path, file.read()

  def _row(self, page, label):
    """Returns the cells of the comparison's row, without markup."""
    (row,) = re.findall(f'<tr><th scope="row">{re.escape(label)}</th>(.*?)</tr>', page)
    return [re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?>(.*?)</td>", row)]

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

  def test_comparison_has_the_summary_s_numbers(self):
    with open(os.path.join(self.folder, "summary.json"), encoding="utf-8") as file:
      kmeans = json.load(file)["methods"]["kmeans"]
    accuracy = kmeans["clients"]["accuracy"]

    self.assertEqual(self._row(self.page, "K-means"), [
        "6",
        "2",
        f"{accuracy['mean']:.3f} ± {accuracy['sd']:.3f}",
        f"{accuracy['p10']:.3f}",
        f"{accuracy['max']:.3f}",
        f"{kmeans['clients']['share_at_target']:.0%}",
        f"{kmeans['clients']['recall']['mean']:.3f}",
        f"{kmeans['clients_blended']['accuracy']['mean']:.3f}",
        f"{kmeans['global_mean']['accuracy']:.3f}",
        f"{kmeans['global_weighted']['accuracy']:.3f}",
        f"{kmeans['global_blended']['accuracy']:.3f}",
        "0.951",
        "0.975",
    ])

  def test_memberships_say_what_a_round_costs(self):
    # One of the six clients is in both clusters of dynamic distance.
    memberships = {
        label: self._row(self.page, label)[0] for label in
        ("phase 1", "K-means", "dynamic distance", "local (control)", "FedAvg (control)")
    }
    self.assertEqual(memberships, {
        "phase 1": "6", "K-means": "6", "dynamic distance": "7", "local (control)": "6",
        "FedAvg (control)": "6",
    })

  def test_absent_is_a_dash(self):
    self.assertEqual(self._row(self.page, "phase 1")[1], "–")
    self.assertEqual(self._row(self.page, "phase 1")[-4:], ["–"] * 4)
    self.assertEqual(self._row(self.page, "dynamic distance")[-2:], ["–", "–"])

  def test_best_is_bold(self):
    self.assertIn("<td><strong>0.800</strong> ± 0.068</td>", self.page)
    self.assertEqual(self.page.count("± 0.068"), 5)

  @parameterized.named_parameters(
      ("control_wins", 0.9, "No grouping beats training everyone together"),
      ("grouping_wins", 0.5, "Grouping the clients beats training everyone together"),
  )
  def test_says_who_wins(self, fedavg, verdict):
    _, page = self._write(draw=False, groupings=("kmeans",), mean_accuracy={
        "pretrain": 0.6, "kmeans": 0.8, "fedavg": fedavg, "local": 0.5,
    })

    self.assertIn(f"<strong>{verdict} for as many rounds in this run.</strong>", page)

  def test_client_ids_are_escaped(self):
    ids = ("<script>alert(1)</script>", "a&b", "$title", "x")
    assignments = {
        "kmeans": {"clusters": [ids[:2], ids[2:]], "overlapping": False, "warning": "<b>"},
    }

    _, page = self._write(
        draw=False, num_clients=4, groupings=("kmeans",), client_ids=ids, assignments=assignments
    )

    self.assertNotIn("<script", page)
    self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt;, a&amp;b", page)
    self.assertIn("$title, x", page)
    self.assertIn("&lt;b&gt;", page)

  def test_says_which_data_and_why(self):
    _, page = self._write(draw=False, fallback_reason="there was no network")

    self.assertIn("<h1>Three-phase clustering of 6 clients: digits</h1>", page)
    self.assertIn("invented digits", page)
    self.assertIn("there was no network", page)

  def test_clusters_tell_size_examples_and_true_groups(self):
    folder, page = self._write(draw=False, groupings=("kmeans",))
    with open(os.path.join(folder, "clients.csv"), encoding="utf-8") as file:
      sizes = [int(line.split(",")[2]) for line in file.readlines()[1:]]

    self.assertIn(
        f'<td>3</td><td>0.900</td><td>{sum(sizes[:3])}</td>'
        '<td class="text">group 0: 2, group 1: 1</td>'
        '<td class="text">client_0000, client_0001, client_0002</td>',
        page,
    )

  def test_per_label_recall_of_a_model_per_cluster_is_their_mean(self):
    _, page = self._write(draw=False, groupings=("kmeans",))

    # Phase 1 (not kept), K-means (a) (b) (c), local (a) (b) (c), FedAvg: see sample_run.py.
    self.assertEqual(
        self._row(page, "recall of label 0"),
        ["–", "0.400", "0.400", "0.300", "0.400", "0.400", "0.367", "0.400"],
    )

  @parameterized.named_parameters(
      ("two_clients", {
          "num_clients": 2, "groupings": ("kmeans",), "rounds": 1, "true_groups": False,
      }, 5),
      ("one_client", {
          "num_clients": 1, "groupings": (), "rounds": 1, "true_groups": False,
      }, 4),
      ("only_controls", {"groupings": ()}, 5),
      ("only_controls_without_weights", {
          "groupings": (), "true_groups": False, "keeps_weights": False,
      }, 3),
      ("32_overlapping_clusters_47_labels", {
          "num_clients": 100, "num_classes": 47, "assignments": _many_clusters(100),
      }, 6),
      ("1000_clients", {"num_clients": 1000, "groupings": ("kmeans",)}, 6),
  )
  def test_edge_cases(self, changes, num_figures):
    folder, page = self._write(**changes)

    self.assertLen(os.listdir(os.path.join(folder, "figures")), num_figures)
    self.assertEqual(page.count("<figure>"), num_figures)
    self.assertEndsWith(page, "</html>\n")

  def test_writes_the_same_again(self):
    report.write_report(sample_run.read(self.folder))

    with open(os.path.join(self.folder, "report.html"), encoding="utf-8") as file:
      self.assertEqual(file.read(), self.page)

  def test_no_page_without_a_summary(self):
    folder = sample_run.write(sample_run.sample_run(), self.create_tempdir().full_path)
    os.remove(os.path.join(folder, "summary.json"))

    with self.assertRaisesRegex(FileNotFoundError, "summary.json"):
      report.write_report(sample_run.read(folder))

    self.assertNotIn("report.html", os.listdir(folder))


if __name__ == "__main__":
  absltest.main()
