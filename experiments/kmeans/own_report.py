"""The report on the user's own data, drawn from a finished run."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, TYPE_CHECKING

from experiment_shell import figure_style
from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiment_shell import scores
from experiments.kmeans import config as config_lib
from experiments.kmeans import own_data
from experiments.kmeans import privacy_box
from experiments.own_tables import cluster_profiles
from fl_clustering.points import privacy as privacy_lib

if TYPE_CHECKING:
  from matplotlib.figure import Figure

FILES = {
    output_folder.REPORT: "this page",
    config_lib.CENTROIDS: "the means of the clusters' points, with their numbers of points",
    config_lib.PROFILES: "mean and spread of every column in every cluster",
    config_lib.ASSIGNMENTS: "a file per client, with the cluster of each of its rows",
    config_lib.MODEL: "the model, for experiments:predict and load_model",
    config_lib.K_SELECTION: "the scores of the numbers of clusters that were tried",
    config_lib.ROUNDS: "the rounds of the fit: inertia, bytes that a client receives and sends",
    "figures": "the figures as PNG",
    output_folder.SUMMARY: "number of clusters, scores, cluster sizes by client",
    output_folder.CONFIG: "all settings, seed, versions, the data's fingerprint",
}
_FILES_OF_PRIVATE = {
    **FILES,
    config_lib.CENTROIDS: "the private centroids in the data's units",
    config_lib.ROUNDS: "the rounds of the fit: bytes that a client receives and sends",
    output_folder.SUMMARY: "number of clusters, and what is guaranteed",
    output_folder.CONFIG: "all settings, seed, versions, the clients' names",
}
_MOST_COLUMNS = 12
_MOST_CLIENTS = 30


def _draw_selection(selection: Sequence[Mapping[str, Any]]) -> Figure:
  """Returns the silhouette over the number of clusters."""
  figure = figure_style.new_figure(3.2)
  axes = figure.add_subplot()
  best = own_data.best_num_clusters(selection)
  scores = {row["num_clusters"]: row["simplified_silhouette"] for row in selection}
  numbers = sorted(scores)
  color = figure_style.METHOD_COLORS["blue"]
  axes.plot(numbers, [scores[number] for number in numbers], color=color, marker="o")
  axes.plot(best, scores[best], marker="o", markersize=11, color=color)
  axes.set_xlabel("number of clusters")
  axes.set_ylabel("simplified silhouette")
  locator: Any = axes.xaxis.get_major_locator()
  locator.set_params(integer=True)
  axes.grid(True)
  figure_style.set_title(figure, "The clients' points", f"The choice of K: {best}")
  return figure


_SELECTION_FIGURE = report_sections.Figure(
    "k_selection.png", _draw_selection, "Silhouette by number of clusters",
    "The higher the curve, the better the clusters are separated. A flat curve means that the "
    "data have no clear number of clusters.",
)


def _draw_profiles(table: Sequence[Mapping[str, Any]]) -> Figure:
  found = scores.table(table, cluster_profiles.HEADER, "cluster")
  height: Any = cluster_profiles.FIGURE.height
  figure = figure_style.new_figure(height(found) + 0.5, figure_style.NARROW)
  cluster_profiles.FIGURE.draw(found, figure.add_subplot())
  figure_style.set_title(figure, cluster_profiles.FIGURE.title, "What the clusters are like")
  return figure


_PROFILES = report_sections.Figure(
    "profiles.png", _draw_profiles, cluster_profiles.FIGURE.title, cluster_profiles.FIGURE.caption
)


def _is_private(finished: finished_run.FinishedRun) -> bool:
  return "privacy" in finished.summary


def _selection(finished: finished_run.FinishedRun) -> list[dict[str, Any]]:
  """Returns the scores of the numbers of clusters that were tried, if the fit was not private."""
  return [] if _is_private(finished) else finished.rows(config_lib.K_SELECTION)


def _selection_blocks(finished: finished_run.FinishedRun) -> list[html_page.Html]:
  selection = _selection(finished)
  if len(selection) < 2:
    return []
  rows = [
      [row["num_clusters"], f"{row['simplified_silhouette']:.4f}", f"{row['inertia']:.6g}",
       row["rounds"]]
      for row in selection
  ]
  return [
      *report_sections.write_figures(finished.path, (_SELECTION_FIGURE,), selection),
      html_page.table(
          ["clusters", "simplified silhouette", "inertia", "rounds"], rows, "What was tried"
      ),
  ]


def _cluster_blocks(finished: finished_run.FinishedRun) -> list[html_page.Html]:
  """Returns the clusters' profiles, if the fit was not private, and their centroids."""
  blocks = []
  if not _is_private(finished):
    table = finished.rows(config_lib.PROFILES, ("feature",))
    blocks = report_sections.write_figures(finished.path, (_PROFILES,), table)
  return [*blocks, _centroids_table(finished)]


def _centroids_table(finished: finished_run.FinishedRun) -> html_page.Html:
  names = finished.document["data"]["features"]
  shown = names[:_MOST_COLUMNS]
  note = "" if len(shown) == len(names) else f"; the first {len(shown)} of {len(names)} columns"
  # By place, because the user's columns may have our names.
  first = 1 if _is_private(finished) else 2
  _, rows = finished.table(config_lib.CENTROIDS)
  return html_page.table(
      ["cluster", *shown],
      [
          [row[0], *(f"{value:.4g}" for value in row[first : first + len(shown)])]
          for row in rows
      ],
      f"Centroids in the data's units{note}",
  )


def _clients_tables(finished: finished_run.FinishedRun) -> list[html_page.Html]:
  if _is_private(finished):
    return []
  summary = finished.summary
  by_client = summary["points_by_client"]
  shown = list(by_client.items())[:_MOST_CLIENTS]
  note = "" if len(shown) == len(by_client) else f"; the first {len(shown)} of {len(by_client)}"
  return [html_page.table(
      ["client", *range(summary["num_clusters"])],
      [[client_id, *counts] for client_id, counts in shown],
      f"How many points of each client are in which cluster{note}",
  )]


def _budget_warnings(finished: finished_run.FinishedRun) -> list[tuple[str, str]]:
  if not _is_private(finished):
    return []
  settings = finished.settings
  return [
      ("The privacy budget protects little", text)
      for text in privacy_lib.budget_warnings(
          settings["epsilon"], settings["delta"], settings["max_points"],
          len(finished.document["data"]["clients"]),
      )
  ]


def _private_notes(settings: Mapping[str, Any], spent: Mapping[str, Any]) -> list[str]:
  """Returns the privacy box of a private run, of which `spent` is guaranteed."""
  differing, not_hidden = "added or removed", ""
  if settings["max_points"] is not None:
    differing, not_hidden = "all of them there or none", " That a client takes part is not hidden."
  return [
      "Only totals over all clients leave them, and only with noise. The centroids are "
      f"({spent['epsilon']:g}, {spent['delta']:g})-differentially private for {spent['unit']}, "
      f"{differing}, all {spent['num_rounds']} rounds together.{not_hidden}",
      privacy_box.trust_text(spent["trust"]),
      *([] if spent["trust"] == privacy_lib.SERVER else [
          f"The guarantee holds as long as at least {spent['min_clients']} of the "
          f"{spent['num_clients']} clients add their share in every round and keep it secret."
      ]),
      f"The noise was {spent['noise']}.",
      f"The radius, {settings['radius']:g}, must have been known beforehand. The clients' "
      "names and the names of the columns are not protected.",
      "NOT private: the clusters of a client's rows, which experiments:predict gives. They are for "
      "that client alone.",
  ]


def _privacy_notes(finished: finished_run.FinishedRun) -> list[str]:
  if _is_private(finished):
    return _private_notes(finished.settings, finished.summary["privacy"])
  config = config_lib.OwnDataConfig.from_json(finished.settings)
  min_count = getattr(config.kmeans(config.candidates[0]).algorithm, "min_count", None)
  return [
      privacy_box.leaves_client(config.algorithm, min_count),
      "This run added no noise. One machine played the server and all clients, so whoever ran it "
      "could see everything.",
  ]


def _doubts(finished: finished_run.FinishedRun) -> list[str]:
  selection = _selection(finished)
  return own_data.doubts(selection, _num_points(finished)) if selection else []


def warnings(finished: finished_run.FinishedRun) -> list[tuple[str, ...]]:
  found = finished.summary
  few = privacy_lib.few_points_warnings(
      found.get("num_centers_on_few_points"), found["num_clusters"]
  )
  doubts = [("The number of clusters", text) for text in _doubts(finished)]
  return [*few, *doubts, *finished.warnings, *_budget_warnings(finished)]


def result_text(finished: finished_run.FinishedRun) -> str:
  """Returns what the program prints: the scores, their unit, and how K was chosen."""
  lines = [_scores_text(finished)]
  if not _is_private(finished):
    lines.append(_inertia_text(finished))
  selection = _selection(finished)
  if len(selection) > 1:
    lines.append(own_data.choice_text(selection))
  return "\n".join([*lines, *_doubts(finished)])


def _counted(number: int, noun: str) -> str:
  return f"{number} {noun}{'' if number == 1 else 's'}"


def _num_points(finished: finished_run.FinishedRun) -> int:
  return sum(finished.document["data"]["clients"].values())


def _inertia_text(finished: finished_run.FinishedRun) -> str:
  """Returns what the inertia measures, and the share of the variance that it leaves out."""
  unit = "the data's units"
  if finished.settings["standardize"]:
    unit = "columns of standard deviation 1"
  text = (
      "The inertia is the squared distance to the nearest centroid, summed over "
      f"{_num_points(finished):,} points, in {unit}."
  )
  share = finished.summary["share_explained"]
  if share is None:
    return text
  return f"{text} The clusters explain {share:.1%} of the points' variance."


def _scores_text(finished: finished_run.FinishedRun) -> str:
  """Returns the number of clusters, and their scores or privacy, in one line."""
  found = finished.summary
  clusters = _counted(found["num_clusters"], "cluster")
  if _is_private(finished):
    spent = found["privacy"]
    return (
        f"{clusters}, ({spent['epsilon']:g}, {spent['delta']:g})-"
        f"differentially private for {spent['unit']}"
    )
  return (
      f"{clusters}, inertia {found['inertia']:.6g}, simplified silhouette "
      f"{found['simplified_silhouette']:.3f}"
  )


def write_report(finished: finished_run.FinishedRun) -> None:
  """Draws the figures and writes the page, last."""
  found, described = finished.summary, finished.document["data"]
  files, findings, size, quality = _FILES_OF_PRIVATE, [], "", ""
  if not _is_private(finished):
    files, findings, quality = FILES, [_inertia_text(finished)], " (at most 1)"
    size = f"{_num_points(finished):,} points, "
  clients = _counted(len(described["clients"]), "client")
  rounds = _counted(found["rounds"], "round")
  settings = {name: value for name, value in finished.settings.items() if value is not None}
  report_sections.write(finished, report_sections.Report(
      title=f"{_counted(found['num_clusters'], 'cluster')} in the points of {clients}",
      subtitle=f"{size}{_counted(len(described['features']), 'column')}.",
      verdict=[],
      findings=[f"{_scores_text(finished)}{quality}, after {rounds}.", *findings],
      warnings=warnings(finished),
      notes={"What leaves a client": _privacy_notes(finished)},
      sections={
          "Number of clusters": _selection_blocks(finished),
          "Clusters": [*_cluster_blocks(finished), *_clients_tables(finished)],
      },
      settings=report_sections.settings_section(
          "Settings and versions", {"Settings": settings, "Versions": finished.versions}
      ),
      files=files,
  ))
