"""Figures of accuracy per round and per client, and of the recovery of true groups."""

from matplotlib import lines
from matplotlib import ticker
import numpy as np

from experiment_shell import figure_style
from experiment_shell import scores
from experiments.three_phase import results as results_lib
from experiments.three_phase import tables

_KNOWN_COLORS = {
    results_lib.PRETRAIN: "grey",
    "kmeans": "blue",
    "dynamic_distance": "vermilion",
    "hierarchical": "green",
    results_lib.LOCAL: "orange",
    results_lib.FEDAVG: "purple",
}
_SPARE_COLORS = ("sky blue", "black", "yellow")
_FEW_ROUNDS = 12
# Colour, marker and size; smaller markers come later, so that all show where they coincide.
_REPRESENTATION_MARKS = {
    "weights": ("#332288", "o", 7.5),
    "update": ("#cc6677", "s", 5.5),
    "normalized_update": ("#44aa99", "^", 3.5),
}


def method_colors(methods):
  """Returns a colour for each method; a known method always has the same one."""
  others = [method for method in methods if method not in _KNOWN_COLORS]
  spare = {method: _SPARE_COLORS[index % len(_SPARE_COLORS)] for index, method in enumerate(others)}
  return {
      method: figure_style.METHOD_COLORS[_KNOWN_COLORS.get(method) or spare[method]]
      for method in methods
  }


def _line_looks(methods):
  """Returns the look of every method's line.

  Groupings that agree have the same curve.  Earlier ones are wider, so that they show
  beneath later ones.
  """
  colors = method_colors(methods)
  groupings = [m for m in methods if m not in (results_lib.PRETRAIN, *results_lib.CONTROLS)]
  looks = {}
  for method in methods:
    later = len(groupings) - 1 - groupings.index(method) if method in groupings else 0
    looks[method] = {
        "color": colors[method],
        "linestyle": "--" if method in results_lib.CONTROLS else "-",
        "linewidth": 1.5 + 0.8 * later,
    }
  return looks


def _draw_curves(axes, curves, looks):
  """Draws (method, start, rounds, values) as lines; returns the last round drawn."""
  last_round = 0
  for method, start, rounds, values in curves:
    if not rounds:
      continue
    axes.plot(
        [start + round_num for round_num in rounds], values, **looks[method],
        marker="o" if len(rounds) <= _FEW_ROUNDS else "",
        markersize=2 + looks[method]["linewidth"],
    )
    last_round = max(last_round, start + rounds[-1])
  return last_round


def _learning_curve_legend(figure, looks):
  handles = [
      lines.Line2D([], [], **look, label=results_lib.method_label(method))
      for method, look in looks.items()
  ]
  handles.append(
      lines.Line2D([], [], color=figure_style.QUIET, linestyle=":", label="clusters start")
  )
  figure.legend(handles=handles, loc="outside lower center", ncols=4)


def learning_curves(results):
  """Returns the clients' accuracy per round, mean and 10th percentile."""
  pretrain_rounds, _ = results.curve("pretrain", results_lib.PRETRAIN, "clients_accuracy_mean")
  start = max(pretrain_rounds, default=0)
  methods = results_lib.ordered_methods(results.summary)
  looks = _line_looks([results_lib.PRETRAIN, *methods])
  figure = figure_style.new_figure(9)
  panels = figure.subplots(3, 1)
  panel_contents = (
      ("mean over the clients, both phases", "clients_accuracy_mean", True),
      ("mean over the clients, phase 2 enlarged", "clients_accuracy_mean", False),
      ("10th percentile of the clients, both phases", "clients_accuracy_p10", True),
  )
  for axes, (title, metric, both_phases) in zip(panels, panel_contents):
    curves = [(method, start, *results.curve("cluster", method, metric)) for method in methods]
    if both_phases:
      pretrain_curve = results.curve("pretrain", results_lib.PRETRAIN, metric)
      curves.insert(0, (results_lib.PRETRAIN, 0, *pretrain_curve))
    last_round = _draw_curves(axes, curves, looks)
    axes.axvline(start, color=figure_style.QUIET, linewidth=1.2, linestyle=":")
    first_round = min(1, start) if both_phases else start
    margin = 0.015 * (last_round - first_round) + 0.02
    axes.set_xlim(first_round - margin, last_round + margin)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.set_title(title, loc="left")
    axes.set_ylabel("accuracy (share correct)")
    axes.grid(True)
  panels[-1].set_xlabel("round (phase 1, then phase 2)")
  _learning_curve_legend(figure, looks)
  figure_style.set_title(
      figure, results.data_line, "Accuracy on the clients' own test data per round"
  )
  return figure


def _accuracy_of_clients(results, method):
  """Returns the clients' accuracy under a method (phase 1's last model, or phase 2's)."""
  phase = "pretrain" if method == results_lib.PRETRAIN else "cluster"
  return np.array(list(results.client_accuracy[phase, method].values()))


def _draw_distribution(axes, position, values, color, rng):
  """Draws one row of `client_accuracy`: points, box and mean."""
  many = values.size > 200
  axes.scatter(
      values, position + rng.uniform(-0.3, 0.3, values.size), color=color, linewidths=0,
      s=22 if values.size <= 20 else 9, alpha=0.2 if many else 0.55,
  )
  axes.boxplot(
      values, positions=[position], orientation="horizontal", widths=0.64, whis=(10, 90),
      showfliers=False, manage_ticks=False, boxprops={"color": color},
      whiskerprops={"color": color}, capprops={"color": color},
      medianprops={"color": color, "linewidth": 2.2},
  )
  axes.plot(values.mean(), position, marker="D", markersize=6, color=color,
            markeredgecolor="white")


def _write_numbers(axes, rows):
  """Writes the comparison's mean and share at target right of every row."""
  for x, heading, short_heading in ((1.02, "mean", "mean"), (1.13, "at target", "target")):
    axes.annotate(heading, (x, 1), xycoords="axes fraction", xytext=(0, 4),
                  textcoords="offset points", fontsize=9)
    for position, row in enumerate(rows):
      axes.annotate(row.shown(short_heading, absent=scores.ABSENT), (x, position), va="center",
                    xycoords=("axes fraction", "data"), fontsize=9)


def client_accuracy(results):
  """Returns the distribution of the clients' accuracy, one row per method."""
  rows = tables.comparison_rows(results.summary)
  colors = method_colors([row.method for row in rows])
  figure = figure_style.new_figure(1.7 + 0.62 * len(rows))
  axes = figure.add_subplot()
  rng = np.random.default_rng(0)  # Only spreads the points; no number depends on it.
  for position, row in enumerate(rows):
    values = _accuracy_of_clients(results, row.method)
    _draw_distribution(axes, position, values, colors[row.method], rng)
  _write_numbers(axes, rows)
  target = results.settings["target_accuracy"]
  axes.axvline(target, color="#1c1e21", linewidth=1, linestyle=":")
  axes.set_yticks(range(len(rows)), [row.label for row in rows])
  axes.set_ylim(len(rows) - 0.5, -0.5)
  axes.set_xlim(right=1.01)
  axes.tick_params(axis="y", length=0)
  axes.spines["left"].set_visible(False)
  axes.grid(True, axis="x")
  axes.set_xlabel("accuracy on a client's own test data (share correct)")
  figure_style.set_title(
      figure, results.data_line,
      "Every client's accuracy after phase 1 and after phase 2, one point per client",
      "box: quartiles and median; whiskers: 10th and 90th percentile; diamond: mean; dotted "
      f"line: target accuracy {target:g}",
  )
  return figure


def _in_order(epochs):
  """Returns the distinct `grouping_epochs`, words ("last round") before numbers."""
  return sorted(
      set(epochs), key=lambda text: (text.isdigit(), int(text) if text.isdigit() else text)
  )


def _draw_recovery(axes, scores, position):
  """Draws one panel of `group_recovery`; `position` maps epochs to the horizontal axis."""
  for representation, (color, marker, size) in _REPRESENTATION_MARKS.items():
    line = sorted(
        (score for score in scores if score["representation"] == representation),
        key=lambda score: position[score["grouping_epochs"]],
    )
    axes.plot(
        [position[score["grouping_epochs"]] for score in line],
        [score["adjusted_rand_index"] for score in line],
        color=color, marker=marker, markersize=size, linewidth=size / 3,
    )
  for score in scores:
    if score["used"]:
      axes.plot(position[score["grouping_epochs"]], score["adjusted_rand_index"], marker="o",
                markersize=15, markerfacecolor="none", markeredgecolor="#1c1e21")


def group_recovery(results):
  """Returns how well groupings find the true groups; None if they are unknown."""
  if not results.recovery:
    return None
  groupings = list(dict.fromkeys(score["grouping"] for score in results.recovery))
  epochs = _in_order(score["grouping_epochs"] for score in results.recovery)
  position = {text: index for index, text in enumerate(epochs)}
  lowest = min(score["adjusted_rand_index"] for score in results.recovery)
  figure = figure_style.new_figure(1.7 + 2.3 * -(-len(groupings) // 2))
  panels = figure_style.panel_grid(figure, len(groupings))
  for axes, grouping in zip(panels, groupings):
    _draw_recovery(axes, [s for s in results.recovery if s["grouping"] == grouping], position)
    axes.set_title(results_lib.method_label(grouping), loc="left")
    axes.set_xticks(range(len(epochs)), epochs)
    axes.set_xlim(-0.3, len(epochs) - 0.7)
    axes.set_ylim(min(-0.05, lowest - 0.05), 1.09)
    axes.grid(True)
  for axes in panels[-2:]:
    axes.set_xlabel("local epochs before grouping")
  for axes in panels[::2]:
    axes.set_ylabel("adjusted Rand index")

  handles = [
      lines.Line2D([], [], color=color, marker=marker, markersize=size, linewidth=size / 3,
                   label=representation.replace("_", " "))
      for representation, (color, marker, size) in _REPRESENTATION_MARKS.items()
  ]
  handles.append(lines.Line2D([], [], color="#1c1e21", marker="o", markersize=12, linestyle="",
                              markerfacecolor="none", label="used by this run"))
  figure.legend(handles=handles, loc="outside lower center", ncols=4)
  figure_style.set_title(
      figure, results.data_line,
      "How well each grouping finds the true groups (1: exactly, 0: by chance)",
  )
  return figure
