"""The figures of a study: gains as heat maps, and accuracy by cost."""

from matplotlib import colors
from matplotlib import ticker
import numpy as np
import pandas as pd

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import scores
from experiments.grouping_study import intervals
from experiments.grouping_study import results as results_lib
from experiments.three_phase import method_looks
from experiments.three_phase import method_names

# White lies between; both ends are colours of figures' verdicts.
_WORSE_TO_BETTER = colors.LinearSegmentedColormap.from_list(
    "worse to better", ["#d55e00", "#ffffff", "#009e73"]
)
_LEAST_LIMIT = 0.02  # Of the colours, so that tiny gains stay pale.
_NAMES = {method_names.FEDAVG: "FedAvg", method_names.FINETUNED: "the fine-tuned models"}
_DOT: method_looks.Look = {"markersize": 4.5, "alpha": 0.75, "linestyle": ""}
_REPETITIONS: dict[str, method_looks.Look] = {
    "groups found": {**_DOT, "color": "#009e73", "marker": "o"},
    "not found": {**_DOT, "color": "#d55e00", "marker": "o", "markerfacecolor": "none"},
    "not scored": {**_DOT, "color": figure_style.QUIET, "marker": "|", "markersize": 7},
}
_LONG_NAME = 10
# Font size of the intervals, and of all those in a row together.
_LARGEST_SMALL_TEXT = 8
_SMALL_TEXT_OF_ROW = 44


def _wrapped(setting: str) -> str:
  return setting.replace("_", "\n") if len(setting) > _LONG_NAME else setting


def gains(results: results_lib.Results, reference: str) -> figure_style.Figure:
  """Returns the heat map of the gains over one of `results.REFERENCES`."""
  methods = results.compared_with(reference)
  found = {
      (row, column): results.gain(setting, method, reference)
      for row, method in enumerate(methods)
      for column, setting in enumerate(results.settings)
  }
  values = np.full((len(methods), len(results.settings)), np.nan)
  for place, gain in found.items():
    if gain and gain.leaves_out_zero:
      values[place] = gain.mean
  limit = np.nanmax([_LEAST_LIMIT, *np.abs(values).flat])
  figure = figure_style.new_figure(2.0 + 0.46 * len(methods))
  axes = figure.add_subplot()
  small = min(_LARGEST_SMALL_TEXT, _SMALL_TEXT_OF_ROW / len(results.settings))
  table = pd.DataFrame(
      values, list(map(method_names.method_label, methods)), list(map(_wrapped, results.settings))
  )
  figure_shapes.heat_map(axes, table, (-limit, limit), _WORSE_TO_BETTER)
  for (row, column), gain in found.items():
    look: method_looks.Look = {"ha": "center", "color": figure_style.QUIET}
    if gain is None:
      text = results.no_gain_text(results.settings[column], methods[row])
      axes.text(column, row, text, va="center", fontsize=8, style="italic", **look)
    elif not gain.leaves_out_zero:
      axes.text(column, row, scores.points(gain.mean), va="center", fontsize=small, **look)
    else:
      look["color"] = "white" if abs(gain.mean) > 0.75 * limit else "#1c1e21"
      axes.text(
          column, row - 0.04, scores.points(gain.mean), va="bottom", fontsize=9.5,
          fontweight="bold", **look,
      )
      axes.text(
          column, row + 0.06, results_lib.ends_text(gain), va="top", fontsize=small, **look
      )
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
      f"for all {results.num_comparisons} comparisons of the study together; grey: can't be told "
      "from zero",
  )
  return figure


def gains_by_repetition(results: results_lib.Results) -> figure_style.Figure:
  """Returns the gains over FedAvg in every repetition, a panel per setting."""
  methods = results.compared_with(method_names.FEDAVG)
  rows = [method_names.method_label(method) for method in methods]
  figure = figure_style.new_figure(
      1.4 + (0.8 + 0.24 * len(methods)) * -(-len(results.settings) // 2)
  )
  panels = figure_style.panel_grid(figure, len(results.settings))
  for axes, setting in zip(panels, results.settings):
    axes.axvline(0, color=figure_style.QUIET, linewidth=1)
    for method, row in zip(methods, rows):
      of_reference = results.reference_values(setting, method, method_names.FEDAVG)
      gains_ = 100 * (results.values(setting, method) - of_reference).dropna()
      found = results.values(setting, method, "adjusted_rand_index").reindex(gains_.index)
      table = pd.DataFrame({"row": row, "mean": gains_})
      for name, chosen in (
          ("groups found", found >= results_lib.FOUND), ("not found", found < results_lib.FOUND),
          ("not scored", found.isna()),
      ):
        if chosen.any():
          figure_shapes.dots(axes, rows, table[chosen], **_REPETITIONS[name])
    figure_shapes.set_rows(axes, rows)
    axes.set_title(setting, loc="left")
  for axes in panels[1::2]:
    axes.set_yticklabels([])
  figure_shapes.label_edges(panels, "gain, percentage points", "")
  figure_shapes.legend(figure, _REPETITIONS)
  figure_style.set_title(
      figure, results.data_line, "Gain in accuracy over FedAvg, a dot per repetition",
      f"groups found: an adjusted Rand index of at least {results_lib.FOUND}; not scored: no true "
      "groups, or clients in several clusters",
  )
  return figure


def accuracy_by_cost(results: results_lib.Results) -> figure_style.Figure:
  """Returns the clients' mean accuracy over bytes and over client steps, a row per setting."""
  methods = [method for method in results.methods if method != results_lib.MATCHED]
  looks = method_looks.line_looks(methods)
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
  method_looks.method_legend(figure, looks)
  figure_style.set_title(
      figure, results.data_line,
      "The clients' mean accuracy by what it cost, averaged over the repetitions",
  )
  return figure
