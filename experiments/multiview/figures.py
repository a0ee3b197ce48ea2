"""Figures of the multi-view experiment: convergence, view weights, confusion."""

import numpy as np

from experiment_shell import figure_style
from experiments.multiview import methods
from experiments.multiview import results as results_lib

_RULE_COLORS = {"equal": "#0072b2", "mvkm": "#d55e00", "regret": "#009e73"}
_RULE_MARKS = {"equal": "o", "mvkm": "s", "regret": "^"}
_LEAST_EXCESS = 1e-7
# With regret weights the objective rises when the weights become less equal.
_FALLING = ("equal", "mvkm")


def _label(rule):
  return methods.METHODS[rule].label


def _excess(objectives):
  """Returns how far each objective but the last is above the last, as a share of it."""
  values = np.array(objectives)
  return np.maximum(values[:-1] / values[-1] - 1, _LEAST_EXCESS)


def convergence(results):
  """Returns how far the objective is above its last value, by round, one line per seed."""
  figure = figure_style.new_figure(3.6)
  panels = np.atleast_1d(figure.subplots(1, len(results.partitions), sharey=True))
  for axes, partition in zip(panels, results.partitions):
    for rule in _FALLING:
      label = _label(rule)
      for seed in results.seeds:
        one = results.outcome(rule, partition, seed)
        axes.plot(
            _excess(one.objectives), color=_RULE_COLORS[rule], linewidth=1.1, alpha=0.75,
            label=label,
        )
        label = None  # One entry of the legend for all seeds.
    axes.set_yscale("log")
    axes.set_title(partition, loc="left")
    axes.set_xlabel("round")
    axes.grid(True)
  panels[0].set_ylabel("objective above its last value\n(share of it)")
  figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
  figure_style.set_title(
      figure, results.source, "The objective falls with every round (lines: seeds)"
  )
  return figure


def view_weights(results):
  """Returns the final weight of every view by rule, and the NMI of the view alone."""
  names = results.view_names
  figure = figure_style.new_figure(1.9 + 0.42 * len(names))
  axes = figure.add_subplot()
  partition = results.partitions[-1]
  for rule in methods.RULES:
    weights = results.view_weights(rule, partition)
    axes.errorbar(
        [score.mean for score in weights], np.arange(len(names)),
        xerr=[score.sd for score in weights], fmt=_RULE_MARKS[rule], markersize=7,
        color=_RULE_COLORS[rule], markerfacecolor="none" if rule == "equal" else None,
        markeredgewidth=1.6, label=_label(rule),
    )
  for position, view in enumerate(names):
    alone = results.single_view(view, "nmi")
    if alone is not None:
      axes.annotate(
          f"{alone.mean:.2f}", (1.02, position), xycoords=("axes fraction", "data"),
          va="center", fontsize=9,
      )
  if results.best_view() is not None:
    axes.annotate(
        "NMI alone", (1.02, 1), xycoords="axes fraction", xytext=(0, 4),
        textcoords="offset points", fontsize=9,
    )
  axes.set_yticks(range(len(names)), names)
  axes.set_ylim(len(names) - 0.5, -0.5)
  axes.set_xlim(left=0)
  axes.tick_params(axis="y", length=0)
  axes.grid(True)
  axes.set_xlabel(f"view weight ({partition}; mean and deviation over the seeds)")
  figure.legend(loc="outside lower center", ncols=3)
  figure_style.set_title(figure, results.source, "How much each view counts")
  return figure


def _draw_confusion(axes, points, class_names):
  matrix = results_lib.matched_points(points)
  shares = matrix / matrix.sum(axis=1, keepdims=True)
  axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
  if len(points) <= 12:
    for (row, column), count in np.ndenumerate(matrix):
      if count:
        axes.annotate(
            str(count), (column, row), ha="center", va="center", fontsize=7,
            color="white" if shares[row, column] > 0.55 else "#1c1e21",
        )
  names = points if class_names is None else [class_names[label] for label in points]
  axes.set_yticks(range(len(points)), names)
  axes.set_xticks([])
  axes.tick_params(length=0)


def confusion(results):
  """Returns classes against clusters for every rule; None where classes are unknown."""
  partition, seed = results.partitions[-1], results.seeds[0]
  if not results.has_classes:
    return None
  figure = figure_style.new_figure(3.3)
  panels = figure.subplots(1, len(methods.RULES), sharey=True)
  for axes, rule in zip(panels, methods.RULES):
    one = results.outcome(rule, partition, seed)
    _draw_confusion(axes, one.points, results.class_names)
    axes.set_title(f"{_label(rule)}\nARI {one.ari:.3f}", loc="left")
    axes.set_xlabel("cluster")
  panels[0].set_ylabel("class")
  figure_style.set_title(
      figure, results.source, "Points of each class in each cluster",
      f"{partition}, seed {seed}; clusters in the order that puts most points on the diagonal",
  )
  return figure
