"""The report on views of sites, drawn from a finished run."""

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.multiview import report
from experiments.multiview import results as results_lib
from experiments import site_runs

_FILES = {
    **report.FILES,
    config_lib.MEASUREMENTS: "one row per seed and method: rounds, view weights, objective by "
    "round",
    output_folder.SUMMARY: "the tables as numbers, sites that were left out",
    output_folder.CONFIG: "all settings, seeds, versions, the sites' clients and fingerprints",
}

_PRIVACY_NOTES = (
    "No row left its site.",
    "In each round, a client answers with integers: sums over its points for every cluster and "
    "view. The first centers and the columns' means and deviations come from such totals, too. "
    + site_runs.SUMS_TEXT,
    site_runs.MOMENTS_TEXT,
    "This run added no noise. A total can show a point: a cluster that has one point at a site is "
    "that point.",
)


def result_text(run):
  """Returns the table for the terminal, and how many sites it is without."""
  return results_lib.text(results_lib.read(run)) + site_runs.without_text(run).lstrip("; ")


def write_report(run):
  """Draws the figures and writes report.html, last.

  Args:
    run: The `FinishedRun`.
  """
  results = results_lib.read(run)[data_lib.SITES]
  settings = run.settings
  clients = site_runs.clients_text(run, run.document["data"][data_lib.SITES])
  html_page.write_page(
      run.join(output_folder.REPORT),
      "Federated multi-view k-means",
      f"{clients}. Seeds: {settings['num_seeds']} from {settings['seed']}.",
      html_page.section(
          "Summary",
          html_page.paragraph(
              f"{settings['num_clusters']} clusters in {len(results.view_names)} views of "
              f"{clients}. Classes don't leave their sites, so nothing is scored."
          ),
          *(html_page.warning(*warning) for warning in site_runs.warnings(run)),
          *report_sections.warnings(run),
          html_page.note("What leaves a site", *_PRIVACY_NOTES),
      ),
      report.dataset_section(run, results),
      report.model_section(
          run, (config_lib.CENTROIDS, config_lib.PROFILES),
          html_page.paragraph(site_runs.PREDICT_TEXT),
      ),
      report.settings_section(run),
      report_sections.files_section(run.path, _FILES),
  )
