"""The benchmark's figures: loss over k, and loss over epsilon."""

from __future__ import annotations

import math
from typing import Any, Sequence, TYPE_CHECKING

from matplotlib import ticker

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiments.private import methods
from experiments.private import results as results_lib

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  from matplotlib.figure import Figure

_COLORS = figure_style.METHOD_COLORS
# What is not private is grey and dashed.
_STYLES: dict[str, dict[str, Any]] = {
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
_PEER_STYLE: dict[str, Any] = {
    "color": _COLORS["black"], "marker": "x", "markersize": 7, "linestyle": "",
    "markeredgewidth": 1.8,
}
# Ticks in a decade: many where the axis spans little of one.
_FEW_TICKS = (1, 2, 5)
_MANY_TICKS = (1, 1.5, 2, 3, 5, 7)
_NARROW_RANGE = 12


def _set_up_axes(axes: Axes, places: Sequence[float], dataset: str) -> None:
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


def _draw(
    results: results_lib.Results,
    column: str,
    settings: Sequence[tuple[int, float]],
    x_label: str,
    fixed: str,
    with_peer: bool = False,
) -> Figure:
  """Returns a figure of the losses at pairs of k and epsilon, with a panel for each data set.

  Args:
    column: The horizontal axis, "k" or "epsilon".
    settings: The pairs, in ascending order.
    fixed: The setting that is the same for all pairs.
    with_peer: Whether the peer's losses are shown, which are at one epsilon.
  """
  names = list(results.datasets)
  num_rows = len(names) if len(names) == 1 else -(-len(names) // 2)
  figure = figure_style.new_figure(1.6 + 2.1 * num_rows)
  panels = figure_style.panel_grid(figure, len(names))
  looks = {
      method: {**_STYLES[method], "label": methods.LABELS[method]} for method in results.methods
  }
  has_peer = False
  for dataset, axes in zip(names, panels):
    losses = results.losses_at(dataset, settings)
    figure_shapes.lines(axes, losses, column, "method", looks)
    peer = results.peer_losses(dataset) if with_peer else []
    if peer:
      axes.plot([loss.k for loss in peer], [loss.loss for loss in peer], **_PEER_STYLE)
      has_peer = True
    _set_up_axes(axes, sorted(set(losses[column])), dataset)
  figure_shapes.label_edges(panels, x_label, "loss per point")
  figure_shapes.legend(figure, looks | ({results_lib.PEER: _PEER_STYLE} if has_peer else {}))
  runs = results.settings["runs"]
  note = "" if runs == 1 else f"lines: means of {runs} runs; bands: 25th to 75th percentile"
  figure_style.set_title(
      figure, f"{fixed}, delta {results.settings['delta']:g}",
      f"Loss over {x_label} (mean squared distance to the nearest center)", note,
  )
  return figure


def loss_over_k(results: results_lib.Results) -> Figure:
  epsilon = results.settings["fixed_epsilon"]
  settings = [(k, epsilon) for k in sorted(results.settings["k_to_try"])]
  return _draw(
      results, "k", settings, "number of clusters", f"epsilon {epsilon:g}", with_peer=True
  )


def loss_over_epsilon(results: results_lib.Results) -> Figure | None:
  """Returns the figure; None if only one epsilon was tried."""
  k = results.settings["fixed_k"]
  settings = [(k, epsilon) for epsilon in sorted(results.settings["epsilon_to_try"])]
  if len(settings) < 2:
    return None
  return _draw(results, "epsilon", settings, "epsilon", f"{k} clusters")
