"""Draws the comparison's figure: learning curves and ratios."""

import statistics

from bench.contest import contestants
from bench.contest import results as results_lib
from bench.contest import workloads
from experiment_shell import figure_style

_COLORS = dict(zip(
    contestants.CONTESTANTS, ("grey", "blue", "vermilion", "green", "purple", "orange")
))
_MARKERS = dict(zip(contestants.CONTESTANTS, "oxs^vD"))


def _color(name):
  return figure_style.METHOD_COLORS[_COLORS[name]]


def _draw_curves(axes, results, workload):
  for i, name in enumerate(results.contestants(workload)):
    accuracies = results.first_launch(workload, name).accuracies
    # Later lines are thinner, so that equal curves do not hide each other.
    axes.plot(
        range(1, len(accuracies) + 1), accuracies, color=_color(name), linewidth=4 - 0.6 * i,
        marker=_MARKERS[name] if len(accuracies) <= 20 else None, markersize=4,
    )
  axes.set_title(workloads.WORKLOADS[workload].label, loc="left")
  axes.set_xlabel("round")
  axes.set_ylabel("accuracy")
  axes.grid(axis="y")


def _draw_ratios(axes, results, workload):
  names = results.contestants(workload)
  ratios = [results.ratios(workload, name, contestants.PLAIN) for name in names]
  for place, (name, values) in enumerate(zip(names, ratios)):
    if not values:
      continue
    median = statistics.median(values)
    axes.barh(place, median, color=_color(name))
    axes.plot([min(values), max(values)], [place, place], color="black", linewidth=1)
    axes.text(max(values), place, f" {results_lib.shown([median])}", va="center")
  axes.axvline(1, color=figure_style.QUIET, linewidth=1)
  axes.set_yticks(range(len(names)), [results.peers[name]["label"] for name in names])
  axes.invert_yaxis()
  axes.set_xlabel("round, times plain TensorFlow's")
  axes.margins(x=0.15)


def curves_and_ratios(results):
  """Returns the figure, a column of panels with two per workload; None without results."""
  drawn = [workload for workload in results.workloads if results.contestants(workload)]
  if not drawn:
    return None
  figure = figure_style.new_figure(0.8 + 2.8 * len(drawn))
  grid = figure.add_gridspec(len(drawn), 2, width_ratios=(1, 1.1))
  for row, workload in enumerate(drawn):
    _draw_curves(figure.add_subplot(grid[row, 0]), results, workload)
    _draw_ratios(figure.add_subplot(grid[row, 1]), results, workload)
  figure_style.set_title(
      figure, "Accuracy on the global test set after each round; bars: median of launches, "
      "lines: lowest to highest", "FedAvg with the same clients, weights and batches",
  )
  return figure
