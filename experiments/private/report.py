"""Draws a finished benchmark: figures, and one page that tells it all."""

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.private import benchmark
from experiments.private import figures
from experiments.private import findings
from experiments.private import finished_benchmark
from experiments.private import report_tables

_FIGURES = (
    report_sections.Figure(
        "loss_over_k.png", figures.loss_over_k, "Loss over the number of clusters",
        "Lower is better, on a logarithmic scale. The grey dashed line is k-means without "
        "privacy: the nearer a method is to it, the less its privacy costs. Crosses are what "
        "another implementation of the LSH tree has on the same data.",
    ),
    report_sections.Figure(
        "loss_over_epsilon.png", figures.loss_over_epsilon, "Loss over epsilon",
        "Less privacy to the right: a line that is still falling at the right end pays for its "
        "noise there, one that is level does not.",
    ),
)

_FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "all means and bands, and the ratios to google/differential-privacy",
    output_folder.CONFIG: "all settings, seed, versions, the data really used",
    benchmark.MEASUREMENTS: "the loss of every single run",
    benchmark.LEDGERS: "what one run of each of our methods released, with what noise",
}


def _summary(finished):
  return html_page.section(
      "Summary",
      html_page.paragraph(html_page.strong(findings.verdict(finished))),
      *map(html_page.paragraph, findings.sentences(finished)),
      *(html_page.warning(title, text) for title, text in findings.warnings(finished)),
      html_page.note("What is compared, and what is private", *findings.notes(finished)),
  )


def _optional_section(title, blocks):
  return [html_page.section(title, *blocks)] if blocks else []


def write_report(run):
  """Draws the figures and writes report.html, last.

  Args:
    run: The `finished_run.FinishedRun`.
  """
  finished = finished_benchmark.read_benchmark(run)
  settings = finished.settings
  drawings = report_sections.write_figures(run.path, _FIGURES, finished)
  versions = {"Versions": finished.versions}
  if finished.diffprivlib_versions:
    versions["Versions in the environment of diffprivlib"] = finished.diffprivlib_versions
  html_page.write_page(
      run.join(output_folder.REPORT),
      "Differentially private k-means: how much loss for how much privacy",
      f"Data sets: {', '.join(finished.datasets)}. Loss: mean squared distance of the points to "
      f"the nearest center. Epsilon {settings['fixed_epsilon']:g}, delta {settings['delta']:g}, "
      f"runs: {settings['runs']}, seed: {settings['seed']}.",
      _summary(finished),
      *_optional_section("Beside google/differential-privacy", report_tables.peer_tables(finished)),
      html_page.section("Figures", *drawings),
      html_page.section("Loss over k", *report_tables.loss_over_k_tables(finished)),
      *_optional_section("Loss over epsilon", report_tables.loss_over_epsilon_tables(finished)),
      *_optional_section("What was released", report_tables.ledger_tables(finished)),
      report_sections.settings_section(
          "Settings and versions",
          {"Settings": settings, **versions},
          report_tables.dataset_table(finished),
      ),
      report_sections.files_section(run.path, _FILES),
  )
