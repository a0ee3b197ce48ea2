"""Draws a finished league: areas under the loss over epsilon, in one figure and one table."""

from __future__ import annotations

from typing import Any, Sequence, TYPE_CHECKING

from matplotlib import ticker
import numpy as np
import pandas as pd

from bench.league import cells
from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import finished_run
from experiment_shell import html_page
from experiment_shell import output_folder
from experiment_shell import report_sections
from experiment_shell import scores
from experiment_shell import text_table
from experiments.private import methods as methods_lib

if TYPE_CHECKING:
  from matplotlib.figure import Figure

OURS = "refine"
# The better of PE-means' two forms, as the paper compares.
_PEER = "PE-means' best (published)"
_PUBLISHED = {"google": "Google's (published)", "pe": _PEER}
_COLORS = figure_style.METHOD_COLORS
_LOOKS: dict[str, dict[str, Any]] = {
    "sklearn": {"color": _COLORS["grey"], "marker": "|", "markersize": 11},
    "diffprivlib": {"color": _COLORS["orange"], "marker": "^"},
    "lsh": {"color": _COLORS["blue"], "marker": "D"},
    "google": {"color": _COLORS["black"], "marker": "x"},
    "pe": {"color": _COLORS["green"], "marker": "s"},
    OURS: {"color": _COLORS["vermilion"], "marker": "o"},
}


def area(losses: Sequence[float]) -> float:
  """Returns the area under the losses at `cells.EPSILONS`, by trapezoids."""
  values = np.array(losses)
  return float(np.diff(cells.EPSILONS) @ (values[1:] + values[:-1]) / 2)


def areas(run: finished_run.FinishedRun) -> pd.DataFrame:
  """Returns a row for each data set and method: mean and standard deviation of its runs' areas.

  The loss without privacy is the same for every epsilon.
  """
  table = pd.DataFrame(run.rows(cells.MEASUREMENTS, text_columns=("dataset", "method")))
  rows = []
  for (dataset, method), of_method in table.groupby(["dataset", "method"], sort=False):
    of_runs = []
    for _, one in of_method.groupby("run"):
      losses = one.sort_values("epsilon")["loss"].tolist()
      if method == methods_lib.NOT_PRIVATE:
        losses *= len(cells.EPSILONS)
      of_runs.append(area(losses))
    spread = scores.summarize(of_runs)
    assert spread is not None  # Every group has a run.
    rows.append({"dataset": dataset, "method": method, "mean": spread.mean, "sd": spread.sd})
  for dataset in table["dataset"].unique():
    published = cells.PUBLISHED[dataset].areas
    best = min(published[name] for name in ("pe_means", "hdpe_means") if name in published)
    rows += [
        {"dataset": dataset, "method": "pe", "mean": best, "sd": 0.0},
        {"dataset": dataset, "method": "google", "mean": published["google"], "sd": 0.0},
    ]
  return pd.DataFrame(rows)


def _label(method: str) -> str:
  return _PUBLISHED.get(method) or methods_lib.LABELS[method]


def _columns(found: pd.DataFrame) -> list[str]:
  return [method for method in _LOOKS if method in set(found["method"])]


def _header(found: pd.DataFrame) -> list[str]:
  ratio = [f"{_label(OURS)} / {_PEER}"] if OURS in set(found["method"]) else []
  return ["data set", "points", "d", "k", *map(_label, _columns(found)), *ratio]


def _rows(found: pd.DataFrame) -> list[list[str]]:
  by_name = found.set_index(["dataset", "method"])
  rows = []
  for dataset in found["dataset"].unique():
    published = cells.PUBLISHED[dataset]
    row = [dataset, f"{published.num_points:,}", f"{published.dim}", f"{published.k}"]
    for method in _columns(found):
      mean, sd = by_name.loc[(dataset, method), ["mean", "sd"]]
      row.append(f"{mean:.4f} ± {sd:.4f}" if sd else f"{mean:.4f}")
    if (dataset, OURS) in by_name.index:
      ratio = by_name.loc[(dataset, OURS), "mean"] / by_name.loc[(dataset, "pe"), "mean"]
      row.append(f"{ratio:.2f}")
    rows.append(row)
  return rows


def _draw(found: pd.DataFrame, runs: int) -> Figure:
  names = list(found["dataset"].unique())
  figure = figure_style.new_figure(1.6 + 0.32 * len(names))
  axes = figure.subplots()
  axes.set_xscale("log")
  axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
  axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
  axes.xaxis.set_minor_formatter(ticker.NullFormatter())
  looks = {method: {**_LOOKS[method], "label": _label(method)} for method in _columns(found)}
  for method in looks:
    of_method = found[found["method"] == method].rename(columns={"dataset": "row"})
    figure_shapes.dots(axes, names, of_method[["row", "mean"]], **_LOOKS[method])
  figure_shapes.set_rows(axes, names)
  axes.set_xlabel("area under the loss over epsilon")
  figure_shapes.legend(figure, {m: {**look, "linestyle": ""} for m, look in looks.items()}, ncols=2)
  figure_style.set_title(
      figure, f"means of {runs} runs; epsilon 0.25 to 4",
      "Private k-means on data sets with published losses: smaller is better",
  )
  return figure


def verdict(found: pd.DataFrame) -> str:
  """Returns how often ours is smaller than the best published private area."""
  by_name = found.set_index(["dataset", "method"])["mean"]
  names = list(found["dataset"].unique())
  if (names[0], OURS) not in by_name.index:
    return "Split and refine was not run."
  won = sum(by_name[name, OURS] < by_name[name, "pe"] for name in names)
  return (
      f"Split and refine has a smaller area than the better form of PE-means on {won} of "
      f"{len(names)} data sets."
  )


_NOTES = (
    "The measure is that of PE-means: the mean loss per point at epsilon 0.25, 0.5, 1, 2 and 4, "
    "integrated over epsilon by trapezoids. Delta is n^-1.1. The data are centered and scaled to "
    "the unit ball, and the number of points is public: both as in PE-means.",
    "Published areas are means of 50 runs, cited from paper_tables.ipynb of "
    "github.com/t3humphries/PE-means, commit e67d051. They were not measured here. Above 32 "
    "dimensions, the better form may be the one with projections. Its code adds the same draw of "
    "noise to all coordinates of a sum, so their differences are exact: it is less private than "
    "stated.",
    "The constants of split and refine were chosen on mixtures of Gaussians and on letter. Its "
    "noise here, and that of the LSH tree, is secure and can't be repeated. diffprivlib needs no "
    "delta, and spends more than its epsilon.",
)

_FILES = {
    output_folder.REPORT: "this page",
    "figures": "the figure as PNG",
    output_folder.SUMMARY: "mean and standard deviation of every area",
    output_folder.CONFIG: "all settings, versions, the data used",
    cells.MEASUREMENTS: "the loss of every single run",
}


def summary(run: finished_run.FinishedRun) -> dict[str, Any]:
  return {"areas": areas(run).to_dict("records")}


def result_text(run: finished_run.FinishedRun) -> str:
  found = areas(run)
  return f"{text_table.text_table(_header(found), _rows(found))}\n{verdict(found)}"


def write_report(run: finished_run.FinishedRun) -> None:
  """Draws the figure and writes report.html, last."""
  found, runs = areas(run), run.settings["runs"]
  figure = report_sections.Figure(
      "areas.png", lambda _: _draw(found, runs), "Areas of every method on every data set",
      "One row per data set, on a logarithmic scale: the farther left, the better. Grey bars are "
      "k-means without privacy.",
  )
  report_sections.write(run, report_sections.Report(
      title="Private k-means: a league",
      subtitle=f"Runs: {runs}. Smaller is better.",
      verdict=[verdict(found)],
      findings=[],
      warnings=[
          *run.warnings,
          *((f"{name} is left out", f"{why}.") for name, why in run.document["skipped"].items()),
      ],
      notes={"What is compared": _NOTES},
      sections={
          "Areas": [
              *report_sections.write_figures(run.path, [figure], run),
              html_page.table(
                  _header(found), _rows(found),
                  "Area under the loss over epsilon: mean ± standard deviation of the runs",
              ),
          ],
      },
      settings=report_sections.settings_section(
          "Settings and versions", {"Settings": run.settings, "Versions": run.versions}
      ),
      files=_FILES,
  ))
