import os

from absl.testing import absltest

from experiment_shell import figure_style
from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import report_sections


def _draw(results):
  figure = figure_style.new_figure(1)
  figure_style.set_title(figure, "invented", str(results["loss"]))
  return figure


_FIGURES = (
    report_sections.Figure("loss.png", _draw, "Loss", "Lower is better."),
    report_sections.Figure("groups.png", lambda results: None, "Groups", "None here."),
)


class ReportSectionsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def test_figures_that_apply_are_written_and_shown(self):
    (block,) = report_sections.write_figures(self.folder, _FIGURES, {"loss": 1.5})

    self.assertIsInstance(block, html_page.Html)
    self.assertIn("Lower is better.", block)
    self.assertEqual(os.listdir(os.path.join(self.folder, "figures")), ["loss.png"])

  def test_figures_are_drawn_again_in_the_same_folder(self):
    first = report_sections.write_figures(self.folder, _FIGURES, {"loss": 1.5})

    self.assertEqual(report_sections.write_figures(self.folder, _FIGURES, {"loss": 1.5}), first)

  def test_page_has_its_parts_in_order_and_no_empty_section(self):
    report_sections.write(
        finished_run.FinishedRun(self.folder),
        report_sections.Report(
            title="Title", subtitle="subtitle", verdict=["First."], findings=["Second."],
            warnings=[("Few runs", "One.", "Two.")], notes={"Private": ["Nothing is."]},
            sections={"Losses": [html_page.paragraph("None.")], "Failures": []},
            settings=report_sections.settings_section("All", {}), files={"report.html": "page"},
        ),
    )

    with open(os.path.join(self.folder, "report.html"), encoding="utf-8") as file:
      page = file.read()
    places = [page.index(text) for text in (
        "<strong>First.</strong>", "<p>Second.</p>", "Few runs", "Two.", "Private", "Nothing is.",
        "Losses", "Settings", "Files in this folder",
    )]
    self.assertEqual(places, sorted(places))
    self.assertNotIn("Failures", page)

  def test_names_are_words_of_a_sentence(self):
    self.assertEqual(report_sections.listed(["a"]), "a")
    self.assertEqual(report_sections.listed(["a", "b", "c"]), "a, b and c")

  def test_settings_are_folded_away_under_what_is_not(self):
    section = report_sections.settings_section(
        "All of them",
        {"Settings": {"k": [2, 4], "alpha": None, "methods": ()}, "Versions": {"numpy": "1.25"}},
        html_page.paragraph("Two data sets."),
    )

    shown, folded = section.split("<details>")
    self.assertIn("Two data sets.", shown)
    for cell in ("2, 4", "not set", "none", "1.25"):
      self.assertIn(f'<td class="text">{cell}</td>', folded)

  def test_files_are_those_that_are_there_and_the_report_itself(self):
    with open(os.path.join(self.folder, "rows.csv"), "w", encoding="utf-8"):
      pass

    section = report_sections.files_section(
        self.folder,
        {"report.html": "this page", "rows.csv": "every <run>", "groups.csv": "the groups"},
    )

    self.assertIn("this page", section)
    self.assertIn("<code>rows.csv</code>", section)
    self.assertIn("every &lt;run&gt;", section)
    self.assertNotIn("groups.csv", section)


if __name__ == "__main__":
  absltest.main()
