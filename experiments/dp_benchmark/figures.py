"""The benchmark's figures: loss over k, and loss over epsilon."""

from __future__ import annotations

import functools
import math
from typing import Any, TYPE_CHECKING

from matplotlib import ticker

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.dp_benchmark import methods
from experiments.dp_benchmark import summary

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  import pandas as pd

_COLORS = figure_style.METHOD_COLORS
# As in the figures of federated k-means.  What is not private is grey and dashed.
_LOOKS: dict[str, dict[str, Any]] = {methods.LABELS.get(name, name): look for name, look in {
    "sklearn": {"color": _COLORS["grey"], "linestyle": "--", "marker": "s", "markersize": 4},
    "lsh": {"color": _COLORS["orange"], "marker": "D", "markersize": 4},
    "refine": {"color": _COLORS["vermilion"], "marker": "o", "markersize": 5},
    # Rings around the marks of the central form, which are nearly at the same place.
    "refine_server": {
        "color": _COLORS["blue"], "marker": "o", "markersize": 9, "markerfacecolor": "none",
        "linestyle": ":",
    },
    "refine_none": {
        "color": _COLORS["sky blue"], "marker": "s", "markersize": 12, "markerfacecolor": "none",
        "linestyle": ":",
    },
    summary.PEER: {
        "color": _COLORS["black"], "marker": "x", "markersize": 7, "linestyle": "",
        "markeredgewidth": 1.8,
    },
}.items()}
# Ticks in a decade: many where the axis spans little of one.
_FEW_TICKS = (1, 2, 5)
_MANY_TICKS = (1, 1.5, 2, 3, 5, 7)
_NARROW_RANGE = 12


def _draw(column: str, frame: pd.DataFrame, axes: Axes) -> None:
  """Draws a data set's losses over a column."""
  figure_shapes.lines(axes, frame, column, "method", _LOOKS)
  figure_shapes.set_powers_of_two(axes, frame[column])
  axes.set_yscale("log")
  low, high = axes.get_ylim()
  # At least a factor of two from end to end, so that small differences look small.
  middle, half = math.sqrt(low * high), max(math.sqrt(high / low), math.sqrt(2))
  axes.set_ylim(middle / half, middle * half)
  is_narrow = half**2 < _NARROW_RANGE
  axes.yaxis.set_major_locator(ticker.LogLocator(subs=_MANY_TICKS if is_narrow else _FEW_TICKS))
  axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
  axes.yaxis.set_minor_formatter(ticker.NullFormatter())
  axes.set_ylabel("loss per point")


FIGURES = (
    tidy_experiment.Figure(
        "loss_over_k",
        "Loss over k (epsilon {fixed_epsilon:g}, delta {delta:g}); lines: "
        "means of the runs ({runs}), bands: 25th to 75th percentile",
        "Lower is better, on a logarithmic scale. The grey dashed line is k-means without "
        "privacy: the closer a method is to it, the less its privacy costs. Crosses, where there "
        "are any, show another implementation of the LSH tree, measured elsewhere (see its table).",
        functools.partial(_draw, "k"), panels="dataset",
    ),
    tidy_experiment.Figure(
        "loss_over_epsilon",
        "Loss over epsilon ({fixed_k} clusters, delta {delta:g}); lines: means of the runs "
        "({runs}), bands: 25th to 75th percentile",
        "Lower is better; both axes are logarithmic. Privacy decreases to the right. If a line "
        "still falls at the right end, noise still costs loss there; if it is level, it does not.",
        functools.partial(_draw, "epsilon"), panels="dataset",
    ),
)
