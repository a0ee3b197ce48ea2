"""The figures of a study: gains as heat maps, and accuracy by cost."""

from matplotlib import colors
from matplotlib import ticker
import numpy as np
import pandas as pd

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiments.grouping_study import intervals
from experiments.grouping_study import results as results_lib
from experiments.three_phase import comparison
from experiments.three_phase import figures as run_figures
from experiments.three_phase import results as run_results

# White lies between; both ends are colours of figures' verdicts.
_WORSE_TO_BETTER = colors.LinearSegmentedColormap.from_list(
    "worse to better", ["#d55e00", "#ffffff", "#009e73"]
)
_LEAST_LIMIT = 0.02  # Of the colours, so that tiny gains stay pale.
_NAMES = {results_lib.FEDAVG: "FedAvg", results_lib.FINETUNED: "the fine-tuned models"}
_LONG_NAME = 10
# Font size of the intervals, and of all those in a row together.
_LARGEST_SMALL_TEXT = 8
_SMALL_TEXT_OF_ROW = 44


def _wrapped(setting: str) -> str:
  return setting.replace("_", "\n") if len(setting) > _LONG_NAME else setting


def _grid(
    results: results_lib.Results, reference: str, num_comparisons: int
) -> dict[tuple[int, int], intervals.Interval | None]:
  """Returns the gains by place; a method is a row, and a setting a column."""
  return {
      (row, column): results.gain(setting, method, reference, num_comparisons)
      for row, method in enumerate(results.compared_with(reference))
      for column, setting in enumerate(results.settings)
  }


def _told_apart(grid: dict) -> dict[tuple[int, int], intervals.Interval]:
  return {place: gain for place, gain in grid.items() if gain and gain.leaves_out_zero}


def gains(results: results_lib.Results, reference: str) -> figure_style.Figure:
  """Returns the heat map of the gains over one of `results.REFERENCES`."""
  methods = results.compared_with(reference)
  plain = _grid(results, reference, 1)
  shown, together = map(_told_apart, (plain, _grid(results, reference, len(plain))))
  values = np.full((len(methods), len(results.settings)), np.nan)
  for place, found in shown.items():
    values[place] = found.mean
  limit = max([_LEAST_LIMIT, *(abs(found.mean) for found in shown.values())])
  figure = figure_style.new_figure(2.0 + 0.46 * len(methods))
  axes = figure.add_subplot()
  small = min(_LARGEST_SMALL_TEXT, _SMALL_TEXT_OF_ROW / len(results.settings))
  table = pd.DataFrame(
      values, list(map(run_results.method_label, methods)), list(map(_wrapped, results.settings))
  )
  figure_shapes.heat_map(axes, table, (-limit, limit), _WORSE_TO_BETTER)
  for (row, column), found in shown.items():
    dark = abs(found.mean) > 0.75 * limit
    look: run_figures.Look = {"ha": "center", "color": "white" if dark else "#1c1e21"}
    axes.text(
        column, row - 0.04, comparison.points(found.mean), va="bottom", fontsize=9.5,
        fontweight="bold" if (row, column) in together else "normal", **look,
    )
    ends = results_lib.ends_text(found)
    axes.text(column, row + 0.06, ends, va="top", fontsize=small, **look)
  for (row, column), gain in plain.items():
    if gain is None:
      axes.text(column, row, "failed", ha="center", va="center", fontsize=8, style="italic")
  axes.tick_params(axis="x", labelsize=8.5)
  axes.set_xticks(np.arange(len(results.settings) - 1) + 0.5, minor=True)
  axes.set_yticks(np.arange(len(methods) - 1) + 0.5, minor=True)
  axes.tick_params(which="both", length=0)
  axes.grid(True, which="minor")
  axes.spines[["left", "bottom"]].set_visible(False)
  figure_style.set_title(
      figure, results.data_line,
      f"Gain in accuracy over {_NAMES[reference]}, percentage points, "
      f"{intervals.LEVEL:.0%} intervals",
      f"blank: includes zero; bold: leaves out zero for all {len(plain)} comparisons together",
  )
  return figure


def accuracy_by_cost(results: results_lib.Results) -> figure_style.Figure:
  """Returns the clients' mean accuracy over bytes and over client steps, a row per setting."""
  methods = [method for method in results.methods if method != results_lib.MATCHED]
  looks = run_figures.line_looks(methods)
  figure = figure_style.new_figure(1.8 + 1.75 * len(results.settings))
  panels = figure.subplots(len(results.settings), 2, squeeze=False, sharey="row")
  for row, setting in zip(panels, results.settings):
    curves = results.curves[results.curves["setting"] == setting]
    for axes, cost in zip(row, ("bytes", "client_steps")):
      # Only a line's end has a marker.
      ends = {m: {**looks[m], "markevery": [-1]} for m in methods if m in set(curves["method"])}
      figure_shapes.lines(axes, curves, cost, "method", ends)
      axes.set_xlim(left=0)
      axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
      axes.xaxis.set_major_formatter(ticker.EngFormatter(unit="B" if cost == "bytes" else ""))
      axes.grid(True)
    row[0].set_title(setting, loc="left")
    row[0].set_ylabel("mean accuracy")
  panels[-1, 0].set_xlabel("bytes to and from the clients")
  panels[-1, 1].set_xlabel("steps of SGD of all clients together")
  run_figures.method_legend(figure, looks)
  figure_style.set_title(
      figure, results.data_line,
      "The clients' mean accuracy by what it cost, averaged over the repetitions",
  )
  return figure
