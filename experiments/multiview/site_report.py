"""The report on views of sites, drawn from a finished run."""

from __future__ import annotations

from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.multiview import config as config_lib
from experiments.multiview import data as data_lib
from experiments.multiview import report
from experiments.multiview import results as results_lib
from experiments import site_runs

FILES = {
    **report.FILES,
    config_lib.MEASUREMENTS: "one row per seed and method: rounds, view weights, objective by "
    "round",
    output_folder.SUMMARY: "the tables as numbers, sites that were left out",
    output_folder.CONFIG: "all settings, seeds, versions, the sites' clients and fingerprints",
}

_PRIVACY_NOTES = (
    "No site sent a row as such.",
    "In each round, a client answers with integers: sums over its points for every cluster and "
    "view. The first centers and the columns' means and deviations come from such totals, too. "
    + site_runs.SUMS_TEXT,
    site_runs.MOMENTS_TEXT,
    "This run added no noise. A total can show a point: a cluster that has one point at a site is "
    "that point.",
)


def result_text(run: finished_run.FinishedRun) -> str:
  """Returns the table for the terminal, and how many sites it is without."""
  return results_lib.text(results_lib.read(run)) + site_runs.without_text(run).lstrip("; ")


def write_report(run: finished_run.FinishedRun) -> None:
  """Draws the figures and writes report.html, last."""
  results = results_lib.read(run)[data_lib.OWN]
  settings = run.settings
  clients = site_runs.clients_text(run, run.document["data"][data_lib.OWN])
  report_sections.write(run, report_sections.Report(
      title="Federated multi-view k-means",
      subtitle=f"{clients}. Seeds: {settings['num_seeds']} from {settings['seed']}.",
      verdict=[],
      findings=[
          f"{settings['num_clusters']} clusters in {len(results.view_names)} views of {clients}. "
          "Classes don't leave their sites, so nothing is scored."
      ],
      warnings=[*site_runs.warnings(run), *report.warnings(run)],
      notes={"What leaves a site": [*_PRIVACY_NOTES, *report.min_count_notes(run)]},
      sections={
          results.name: report.dataset_blocks(run, results),
          **report.model_sections(
              run, (config_lib.CENTROIDS, config_lib.PROFILES),
              html_page.paragraph(site_runs.PREDICT_TEXT),
          ),
      },
      settings=report.settings_section(run),
      files=FILES,
  ))
