"""Draws a finished comparison of peers: one figure, and one page with tables."""

from __future__ import annotations

import statistics
from typing import Any, TYPE_CHECKING

from bench.contest import cells
from bench.contest import contestants
from bench.contest import results as results_lib
from bench.contest import workloads
from experiment_shell import figure_style
from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections

if TYPE_CHECKING:
  from matplotlib import axes as axes_lib
  from matplotlib import figure as figure_lib

_COLORS = dict(zip(
    contestants.CONTESTANTS, ("grey", "blue", "vermilion", "green", "purple", "orange")
))
_MARKERS = dict(zip(contestants.CONTESTANTS, "oxs^vD"))


def _color(name: str) -> str:
  return figure_style.METHOD_COLORS[_COLORS[name]]


def _draw_curves(axes: axes_lib.Axes, rows: list[dict[str, Any]], workload: str) -> None:
  for i, row in enumerate(rows):
    name, accuracies = row["contestant"], row["accuracies"]
    # Later lines are thinner, so that equal curves do not hide each other.
    axes.plot(
        range(1, len(accuracies) + 1), accuracies, color=_color(name), linewidth=4 - 0.6 * i,
        marker=_MARKERS[name] if len(accuracies) <= 20 else None, markersize=4,
    )
  axes.set_title(workloads.WORKLOADS[workload].label, loc="left")
  axes.set_xlabel("round")
  axes.set_ylabel("accuracy")
  axes.grid(axis="y")


def _draw_ratios(axes: axes_lib.Axes, rows: list[dict[str, Any]], labels: list[str]) -> None:
  for place, row in enumerate(rows):
    ratios = row["ratios_to_plain"]
    if not ratios:
      continue
    median = statistics.median(ratios)
    axes.barh(place, median, color=_color(row["contestant"]))
    axes.plot([min(ratios), max(ratios)], [place, place], color="black", linewidth=1)
    axes.text(max(ratios), place, f" {results_lib.shown([median])}", va="center")
  axes.axvline(1, color=figure_style.QUIET, linewidth=1)
  axes.set_yticks(range(len(rows)), labels)
  axes.invert_yaxis()
  axes.set_xlabel("round, times plain TensorFlow's")
  axes.margins(x=0.15)


def curves_and_ratios(results: results_lib.Results) -> figure_lib.Figure | None:
  """Returns the figure, a column of panels with two per workload; None without results."""
  drawn = [workload for workload in results.workloads if results.of(workload)]
  if not drawn:
    return None
  figure = figure_style.new_figure(0.8 + 2.8 * len(drawn))
  grid = figure.add_gridspec(len(drawn), 2, width_ratios=(1, 1.1))
  for place, workload in enumerate(drawn):
    rows = results.of(workload)
    _draw_curves(figure.add_subplot(grid[place, 0]), rows, workload)
    _draw_ratios(figure.add_subplot(grid[place, 1]), rows, list(map(results.label, rows)))
  figure_style.set_title(
      figure, "Accuracy on the global test set after each round; bars: median of launches, "
      "lines: lowest to highest", "FedAvg with the same clients, weights and batches",
  )
  return figure


_FIGURE = report_sections.Figure(
    "curves_and_ratios.png", curves_and_ratios,
    "Learning curves and ratios of the contestants",
    "Left: the curves must lie on each other, for all contestants train alike. Right: the "
    "shorter the bar, the faster; 1 is the same arithmetic without any framework.",
)

_FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figure as PNG",
    output_folder.SUMMARY: "seconds, ratios, memory and curves as numbers",
    output_folder.CONFIG: "all settings, versions, sizes of the environments, the data used",
    cells.MEASUREMENTS: "one row per workload, launch and contestant, with every round",
}

_NOTES = (
    "All contestants start from the same weights and train the same clients with the same "
    "batches in the same order: one pass, plain SGD, the mean weighted by examples. Each runs in "
    "a process of its own and is asked for one round at a time, by turns. The first round "
    "compiles and is not timed.",
    "Differences of weights of 1e-7 are rounding. They grow from round to round: where two "
    "inputs of a max-pooling are as good as equal, rounding decides which one learns. The EMNIST "
    "baseline has dropout. Plain TensorFlow, and Flower's clients with it, draw the same masks "
    "as ours; the other frameworks draw their own, so only their curves compare.",
    "Ours reads and shuffles the clients' data inside the round. The others get them in the "
    "right order before it, in memory, which is not timed.",
    "Ours, plain TensorFlow and TFF compute as many clients at a time as there are cores, and "
    "so does Flower with one Ray actor per core. pfl and fedjax compute one client after the "
    "other and may use all cores for each. Flower looks for answers every 0.1 s.",
    "Memory is the sum over a contestant's processes of the highest memory of each. The start "
    "is from launching the process until it is ready, which compiles nothing yet.",
)


def verdict(results: results_lib.Results) -> list[str]:
  """Returns sentences that compare the peers with ours."""
  sentences = []
  for workload in results.workloads:
    rows = {row["contestant"]: row for row in results.of(workload)}
    if workload == workloads.FLUTE or not rows:
      continue
    parts = [
        f"{results.label(row)} {results_lib.shown(row['ratios_to_ours'])}"
        for name, row in rows.items() if name not in (contestants.OURS, contestants.PLAIN)
    ]
    ours = rows[contestants.OURS]["ratios_to_plain"] if contestants.OURS in rows else []
    sentence = (
        f"{workloads.WORKLOADS[workload].label}: our round takes {results_lib.shown(ours)} times "
        "that of plain TensorFlow."
    )
    if parts:
      sentence += f" Times ours: {', '.join(parts)}."
    sentences.append(sentence)
  return sentences


def published_comparison(results: results_lib.Results) -> str | None:
  """Returns a sentence on our time and the published ones; None if it was not measured."""
  rows = {row["contestant"]: row for row in results.of(workloads.FLUTE)}
  if contestants.OURS not in rows:
    return None
  ours = results_lib.minutes_with_start(rows[contestants.OURS])
  published = ", ".join(
      f"{one.label} {results_lib.minutes(one.seconds)}" for one in results_lib.PUBLISHED
  )
  return (
      f"{workloads.WORKLOADS[workloads.FLUTE].label}: ours takes {ours} (minutes:seconds) "
      f"with the start of the program. Published, on another machine: {published}."
  )


def _remarks(results: results_lib.Results) -> dict[str, str]:
  """Returns what is said below tables, by their titles."""
  data = results.run.document["data"].get(workloads.FLUTE)
  return {
      workloads.WORKLOADS[workloads.FLUTE].label: (
          "The published times are those of FLUTE's README for a processor "
          "(github.com/microsoft/msrflute). They are whole runs on another machine, so only the "
          "order of magnitude compares. Its clients differ in size, too; ours have equal shares "
          f"of two kinds of digits. Data here: {data}."
      ),
      "What each needs": (
          "Ours, plain TensorFlow and TFF share this project's environment, which also holds "
          "what its other programs need."
      ),
  }


def write_report(run: finished_run.FinishedRun) -> None:
  """Writes `figures/` and `report.html` of a finished comparison."""
  results = results_lib.read(run)
  comparison = published_comparison(results)
  remarks = _remarks(results)
  sections = {
      "Curves and ratios": report_sections.write_figures(run.path, [_FIGURE], results)
  }
  for table in results_lib.tables(results):
    sections[table.title] = [
        html_page.table(
            list(table.header), table.rows, table.caption, header_groups=table.groups,
            text_columns=table.text_columns,
        )
    ]
    if table.title in remarks:
      sections[table.title].append(html_page.paragraph(remarks[table.title], quiet=True))
  report_sections.write(run, report_sections.Report(
      title="FedAvg in several frameworks",
      subtitle=(
          f"{run.document['num_cores']} cores, launches: {run.settings['launches']}, highest load "
          f"of the machine: {results.load:g}"
      ),
      verdict=verdict(results),
      findings=[] if comparison is None else [comparison],
      warnings=[*run.warnings, *results.problems],
      notes={"What is compared": _NOTES},
      sections=sections,
      settings=report_sections.settings_section(
          "All settings and versions",
          {
              "Settings": run.settings,
              "Data": run.document["data"],
              "Versions of this program": run.versions,
          },
      ),
      files=_FILES,
  ))
