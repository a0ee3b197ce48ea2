"""The report on points of sites, drawn from a finished run."""

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.kmeans import config as config_lib
from experiments.kmeans import own_report
from experiments.kmeans import privacy_box
from experiments import site_runs

_FILES = {
    **own_report.FILES,
    output_folder.SUMMARY: "number of clusters, scores, cluster sizes, sites that were left out",
    output_folder.CONFIG: "all settings, seed, versions, the sites' clients and fingerprints",
}


def result_text(finished):
  """Returns the number of clusters, and their scores, in one line."""
  return own_report.result_text(finished) + site_runs.without_text(finished)


def _privacy_notes(finished):
  config = config_lib.OwnDataConfig.from_json(finished.settings)
  min_count = config.kmeans(config.candidates[0]).min_count
  return (
      "No row left its site.",
      f"{privacy_box.leaves_site(config.algorithm, min_count)} {site_runs.SUMS_TEXT}",
      site_runs.MOMENTS_TEXT,
      "This run added no noise.",
  )


def write_report(finished):
  """Draws the figures and writes the page, last.

  Args:
    finished: The `FinishedRun`.
  """
  found, described = finished.summary, finished.document["data"]
  clients = site_runs.clients_text(finished, described)
  settings = {name: v for name, v in finished.settings.items() if v is not None and v != {}}
  html_page.write_page(
      finished.join(output_folder.REPORT),
      f"{found['num_clusters']} clusters in the points of {clients}",
      f"{sum(found['num_points']):,} points, {len(described['features'])} columns.",
      html_page.section(
          "Summary",
          html_page.paragraph(
              f"{result_text(finished)}. The silhouette is at most 1. The fit took "
              f"{found['rounds']} rounds."
          ),
          *(html_page.warning(*warning) for warning in site_runs.warnings(finished)),
          *report_sections.warnings(finished),
          html_page.note("What leaves a site", *_privacy_notes(finished)),
      ),
      *own_report.selection_sections(finished),
      html_page.section(
          "Clusters",
          *own_report.profile_figures(finished),
          own_report.centroids_table(finished),
          html_page.paragraph(site_runs.PREDICT_TEXT),
      ),
      report_sections.settings_section(
          "Settings and versions", {"Settings": settings, "Versions": finished.versions}
      ),
      report_sections.files_section(finished.path, _FILES),
  )
