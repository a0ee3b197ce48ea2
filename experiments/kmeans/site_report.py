"""The report on points of sites, drawn from a finished run."""

from __future__ import annotations

from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.kmeans import config as config_lib
from experiments.kmeans import own_report
from experiments.kmeans import privacy_box
from experiments import site_runs

FILES = {
    **own_report.FILES,
    output_folder.SUMMARY: "number of clusters, scores, cluster sizes, sites that were left out",
    output_folder.CONFIG: "all settings, seed, versions, the sites' clients and fingerprints",
}


def result_text(finished: finished_run.FinishedRun) -> str:
  """Returns the number of clusters and their scores in one line, and what may be better."""
  scores = own_report.scores_text(finished) + site_runs.without_text(finished)
  return "\n".join((scores, *own_report.edge_texts(finished)))


def _privacy_notes(finished: finished_run.FinishedRun) -> tuple[str, ...]:
  config = config_lib.OwnDataConfig.from_json(finished.settings)
  min_count = getattr(config.kmeans(config.candidates[0]).algorithm, "min_count", None)
  return (
      "No site sent a row as such.",
      f"{privacy_box.leaves_site(config.algorithm, min_count)} {site_runs.SUMS_TEXT}",
      site_runs.MOMENTS_TEXT,
      "This run added no noise.",
  )


def write_report(finished: finished_run.FinishedRun) -> None:
  """Draws the figures and writes the page, last."""
  found, described = finished.summary, finished.document["data"]
  predict = html_page.paragraph(site_runs.PREDICT_TEXT)
  report_sections.write(finished, report_sections.Report(
      title=f"{found['num_clusters']} clusters in the points of "
      f"{site_runs.clients_text(finished, described)}",
      subtitle=f"{sum(found['num_points']):,} points, {len(described['features'])} columns.",
      verdict=[],
      findings=[
          f"{own_report.scores_text(finished)}. The silhouette is at most 1. The fit took "
          f"{found['rounds']} rounds."
      ],
      warnings=[*site_runs.warnings(finished), *own_report.warnings(finished)],
      notes={"What leaves a site": _privacy_notes(finished)},
      sections={
          "Number of clusters": own_report.selection_blocks(finished),
          "Clusters": [*own_report.cluster_blocks(finished), predict],
      },
      settings=own_report.settings_section(finished, unset=(None, {})),
      files=FILES,
  ))
