"""The benchmark's figures: loss over k, and loss over epsilon."""

import math

from matplotlib import lines
from matplotlib import ticker

from experiment_shell import figure_style
from experiments.private import methods
from experiments.private import results as results_lib

_COLORS = figure_style.METHOD_COLORS
# What is not private is grey and dashed.
_STYLES = {
    "sklearn": {"color": _COLORS["grey"], "linestyle": "--", "marker": "s", "markersize": 4},
    "diffprivlib": {"color": _COLORS["orange"], "marker": "^", "markersize": 5},
    "lsh": {"color": _COLORS["blue"], "marker": "D", "markersize": 4},
    "refine": {"color": _COLORS["vermilion"], "marker": "o", "markersize": 5},
    # Rings around the marks of the central form, which are nearly at the same place.
    "refine_server": {
        "color": _COLORS["green"], "marker": "o", "markersize": 9, "markerfacecolor": "none",
        "linestyle": ":",
    },
    "refine_none": {
        "color": _COLORS["purple"], "marker": "s", "markersize": 12, "markerfacecolor": "none",
        "linestyle": ":",
    },
}
_PEER_STYLE = {
    "color": _COLORS["black"], "marker": "x", "markersize": 7, "linestyle": "",
    "markeredgewidth": 1.8,
}
# Ticks in a decade: many where the axis spans little of one.
_FEW_TICKS = (1, 2, 5)
_MANY_TICKS = (1, 1.5, 2, 3, 5, 7)
_NARROW_RANGE = 12


def _set_up_axes(axes, places, dataset):
  axes.set_xscale("log", base=2)
  axes.set_yscale("log")
  axes.set_xticks(places, [f"{place:g}" for place in places])
  axes.set_xticks([], minor=True)
  low, high = axes.get_ylim()
  # At least a factor of two from end to end, so that small differences look small.
  middle, half = math.sqrt(low * high), max(math.sqrt(high / low), math.sqrt(2))
  axes.set_ylim(middle / half, middle * half)
  is_narrow = half**2 < _NARROW_RANGE
  axes.yaxis.set_major_locator(ticker.LogLocator(subs=_MANY_TICKS if is_narrow else _FEW_TICKS))
  axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
  axes.yaxis.set_minor_formatter(ticker.NullFormatter())
  axes.grid(True)
  axes.set_title(dataset, loc="left")


def _new_figure(results):
  """Returns a figure and the axes of each data set, by name."""
  names = list(results.datasets)
  num_rows = len(names) if len(names) == 1 else -(-len(names) // 2)
  figure = figure_style.new_figure(1.6 + 2.1 * num_rows)
  return figure, dict(zip(names, figure_style.panel_grid(figure, len(names))))


def _finish(figure, panels, results, x_label, setting, has_peer=False):
  """Labels the axes and writes legend and title; returns the figure."""
  panels = list(panels.values())
  for axes in panels[-2:]:
    axes.set_xlabel(x_label)
  for axes in panels[::2]:
    axes.set_ylabel("loss per point")
  handles = [
      lines.Line2D([], [], label=methods.LABELS[method], **_STYLES[method])
      for method in results.methods
  ]
  if has_peer:
    handles.append(lines.Line2D([], [], label=results_lib.PEER, **_PEER_STYLE))
  figure.legend(handles=handles, loc="outside lower center", ncols=3)
  runs = results.settings["runs"]
  note = "" if runs == 1 else f"lines: means of {runs} runs; bands: 25th to 75th percentile"
  figure_style.set_title(
      figure, f"{setting}, delta {results.settings['delta']:g}",
      f"Loss over {x_label} (mean squared distance to the nearest center)", note,
  )
  return figure


def loss_over_k(results):
  """Returns the figure of losses over k, with a panel for each data set."""
  figure, panels = _new_figure(results)
  settings = results.settings
  num_clusters = sorted(settings["k_to_try"])
  has_peer = False
  for dataset, axes in panels.items():
    for method in results.methods:
      spreads = [results.loss(dataset, method, k) for k in num_clusters]
      figure_style.draw_band(axes, num_clusters, spreads, **_STYLES[method])
    peer = results.peer_losses(dataset)
    axes.plot([loss.k for loss in peer], [loss.loss for loss in peer], **_PEER_STYLE)
    has_peer = has_peer or bool(peer)
    _set_up_axes(axes, num_clusters, dataset)
  return _finish(
      figure, panels, results, "number of clusters", f"epsilon {settings['fixed_epsilon']:g}",
      has_peer,
  )


def loss_over_epsilon(results):
  """Returns the figure of losses over epsilon; None if only one was tried."""
  epsilons = sorted(results.settings["epsilon_to_try"])
  if len(epsilons) < 2:
    return None
  figure, panels = _new_figure(results)
  for dataset, axes in panels.items():
    for method in results.methods:
      spreads = [
          results.loss(dataset, method, results.settings["fixed_k"], epsilon)
          for epsilon in epsilons
      ]
      figure_style.draw_band(axes, epsilons, spreads, **_STYLES[method])
    _set_up_axes(axes, epsilons, dataset)
  return _finish(
      figure, panels, results, "epsilon", f"{results.settings['fixed_k']} clusters"
  )
