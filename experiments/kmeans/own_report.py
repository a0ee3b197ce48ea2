"""The report on the user's own data."""

import os

import numpy as np

from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiments.kmeans import own_data
from experiments.kmeans import own_figures
from experiments.kmeans import run_folder

_FILES = {
    output_folder.REPORT: "this page",
    run_folder.CENTROIDS: "the centroids in the data's units, with their numbers of points",
    run_folder.ASSIGNMENTS: "for every client a file with the cluster of each of its rows",
    run_folder.K_SELECTION: "the scores of the numbers of clusters that were tried",
    run_folder.ROUNDS: "every round of the fit: inertia, and what a client receives and sends",
    run_folder.FIGURES: "the figures as PNG",
    output_folder.SUMMARY: "number of clusters, scores, cluster sizes by client",
    output_folder.CONFIG: "all settings, seed, versions, the data's fingerprint",
}
_MOST_COLUMNS = 12
_MOST_CLIENTS = 30


def summary_json(found):
  """Returns the result as numbers."""
  model = found.model
  num_clusters = len(model.cluster_centers_)
  return {
      "num_clusters": num_clusters,
      "inertia": model.inertia_,
      "simplified_silhouette": model.silhouette_,
      "rounds": model.n_rounds_,
      "points_by_client": {
          client_id: np.bincount(clusters, minlength=num_clusters).tolist()
          for client_id, clusters in found.assignments.items()
      },
  }


def _selection_blocks(path, found):
  num_clusters = len(found.model.cluster_centers_)
  if len(found.selection) < 2:
    return []
  figure = report_sections.Figure(
      "k_selection.png", own_figures.k_selection, "Silhouette by number of clusters",
      "The higher, the better the clusters are told apart; a flat line means that the data "
      "have no clear number of clusters.",
  )
  return [html_page.section(
      "Number of clusters",
      *report_sections.write_figures(path, (figure,), found.selection, num_clusters),
      html_page.table(
          ["clusters", "simplified silhouette", "inertia", "rounds"],
          [
              [row["num_clusters"], f"{row['simplified_silhouette']:.4f}",
               f"{row['inertia']:.6g}", row["rounds"]]
              for row in found.selection
          ],
          "What was tried",
      ),
  )]


def _centroids_table(tables, found):
  names = own_data.column_names(tables)
  shown = names[:_MOST_COLUMNS]
  note = "" if len(shown) == len(names) else f"; the first {len(shown)} of {len(names)} columns"
  return html_page.table(
      ["cluster", *shown],
      [
          [k, *(f"{value:.4g}" for value in centroid[: len(shown)])]
          for k, centroid in enumerate(found.model.cluster_centers_)
      ],
      f"Centroids in the data's units{note}",
  )


def _clients_table(found):
  by_client = summary_json(found)["points_by_client"]
  shown = list(by_client.items())[:_MOST_CLIENTS]
  note = "" if len(shown) == len(by_client) else f"; the first {len(shown)} of {len(by_client)}"
  return html_page.table(
      ["client", *range(len(found.model.cluster_centers_))],
      [[client_id, *counts] for client_id, counts in shown],
      f"How many points of each client are in which cluster{note}",
  )


def _privacy_notes(min_count):
  sums = (
      "Rounds of Lloyd send sums and counts. They hide a client only behind secure aggregation "
      "or noise, which this run has neither of."
  )
  if min_count is None:
    return [sums]
  return [
      "Rounds that gather show the server every client's own means and counts: none of fewer "
      f"than {min_count} points, and none that equals a row. With a small least count that is "
      "weak protection.",
      sums,
  ]


def write_report(path, tables, found, document, min_count):
  """Draws the figure and writes report.html, last.

  Args:
    path: The output folder.
    tables: `ClientTables`.
    found: `OwnClusters`.
    document: What `config.json` holds.
    min_count: The least count whose mean left a client, or None if none did.
  """
  model = found.model
  num_points = sum(map(len, tables.points.values()))
  settings = {name: v for name, v in document["config"].items() if v is not None}
  html_page.write_page(
      os.path.join(path, output_folder.REPORT),
      f"{len(model.cluster_centers_)} clusters in the points of {len(tables.points)} clients",
      f"{num_points:,} points, {len(own_data.column_names(tables))} columns.",
      html_page.section(
          "Summary",
          html_page.paragraph(
              f"{len(model.cluster_centers_)} clusters, inertia {model.inertia_:.6g}, simplified "
              f"silhouette {model.silhouette_:.3f} (at most 1), after {model.n_rounds_} rounds."
          ),
          html_page.note("What the server sees", *_privacy_notes(min_count)),
      ),
      *_selection_blocks(path, found),
      html_page.section("Clusters", _centroids_table(tables, found), _clients_table(found)),
      report_sections.settings_section(
          "Settings and versions", {"Settings": settings, "Versions": document["versions"]}
      ),
      report_sections.files_section(path, _FILES),
  )
