"""Figures of the multi-view experiment: convergence, view weights, confusion."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

import numpy as np
import pandas as pd

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import scores as scores_lib
from experiments.multiview import methods
from experiments.multiview import results as results_lib

if TYPE_CHECKING:
  from matplotlib.figure import Figure

_LOOKS: dict[str, dict[str, Any]] = {
    "equal": {"color": "#0072b2", "marker": "o", "markerfacecolor": "none"},
    "mvkm": {"color": "#d55e00", "marker": "s"},
    "regret": {"color": "#009e73", "marker": "^"},
}
_LEAST_EXCESS = 1e-7
# With regret weights the objective rises when the weights become less equal.
_FALLING = ("equal", "mvkm")
# Counts of more classes would not fit into their fields.
_MOST_COUNTED = 12


def _label(rule: str) -> str:
  return methods.METHODS[rule].label


def _excess(objectives: tuple[float, ...]) -> np.ndarray:
  """Returns how far each objective but the last is above the last, as a share of it."""
  values = np.array(objectives)
  return np.maximum(values[:-1] / values[-1] - 1, _LEAST_EXCESS)


def convergence(results: results_lib.Results) -> Figure:
  """Returns how far the objective is above its last value, by round, one line per seed."""
  figure = figure_style.new_figure(3.6)
  panels = figure.subplots(1, len(results.partitions), sharey=True, squeeze=False)
  looks = {
      rule: {"color": _LOOKS[rule]["color"], "linewidth": 1.1, "alpha": 0.75, "label": _label(rule)}
      for rule in _FALLING
  }
  for axes, partition in zip(panels[0], results.partitions):
    for rule, look in looks.items():
      for outcome in results.outcomes(rule, partition).values():
        axes.plot(_excess(outcome.objectives), **look)
    axes.set_yscale("log")
    axes.set_title(partition, loc="left")
    axes.grid(True)
  figure_shapes.label_edges(panels, "round", "objective above its last value\n(share of it)")
  figure_shapes.legend(figure, looks)
  figure_style.set_title(
      figure, results.source, "The objective falls with every round (lines: seeds)"
  )
  return figure


def view_weights(results: results_lib.Results) -> Figure:
  """Returns the final weight of every view by rule, and the NMI of the view alone."""
  names = results.view_names
  figure = figure_style.new_figure(1.9 + 0.42 * len(names))
  axes = figure.add_subplot()
  partition = results.partitions[-1]
  figure_shapes.set_rows(axes, names)
  for rule in methods.RULES:
    weights = zip(names, results.view_weights(rule, partition))
    found = scores_lib.spread_table(({"row": name}, spread) for name, spread in weights)
    figure_shapes.dots(
        axes, names, figure_shapes.with_deviations(found), markersize=7, markeredgewidth=1.6,
        label=_label(rule), **_LOOKS[rule],
    )
  if results.has_classes:
    alone = [results.single_view(view, "nmi") for view in names]
    figure_shapes.write_beside(
        axes, ["" if nmi is None else f"{nmi.mean:.2f}" for nmi in alone], "NMI alone"
    )
  axes.set_xlim(left=0)
  axes.tick_params(axis="y", length=0)
  axes.grid(True)
  axes.set_xlabel(f"view weight ({partition}; mean and deviation over the seeds)")
  figure.legend(loc="outside lower center", ncols=3)
  figure_style.set_title(figure, results.source, "How much each view counts")
  return figure


def confusion(results: results_lib.Results) -> Figure | None:
  """Returns classes against clusters for every rule; None where classes are unknown."""
  partition, seed = results.partitions[-1], results.seeds[0]
  if not results.has_classes:
    return None
  figure = figure_style.new_figure(3.3)
  panels = figure.subplots(1, len(methods.RULES), sharey=True)
  for axes, rule in zip(panels, methods.RULES):
    one = results.outcomes(rule, partition)[seed]
    matrix = results_lib.matched_points(one.points)
    classes = [
        label if results.class_names is None else results.class_names[label] for label in one.points
    ]
    counts = [[str(count or "") for count in row] for row in matrix.tolist()]
    figure_shapes.heat_map(
        axes, pd.DataFrame(matrix / matrix.sum(axis=1, keepdims=True), classes), (0, 1), "Blues",
        counts if len(classes) <= _MOST_COUNTED else None, dark=0.55, fontsize=7,
    )
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.set_title(f"{_label(rule)}\nARI {one.ari:.3f}", loc="left")
    axes.set_xlabel("cluster")
  panels[0].set_ylabel("class")
  figure_style.set_title(
      figure, results.source, "Points of each class in each cluster",
      f"{partition}, seed {seed}; clusters in the order that puts most points on the diagonal",
  )
  return figure
