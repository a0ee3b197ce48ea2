"""The figures of private clusters: of what is released, and of a simulation."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.private_clusters import released

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  import pandas as pd

OURS, IFCA = "private clusters", "IFCA, no privacy"
DP_FEDAVG, FEDAVG = "DP-FedAvg", "FedAvg, no privacy"

_CLUSTER_LINES = ("-", "--", ":")
_COLORS = figure_style.METHOD_COLORS
# In the order of drawing.  What is not private is dashed, with marks that show around others.
_LOOKS: dict[str, dict[str, Any]] = {
    FEDAVG: {"color": _COLORS["purple"], "linestyle": "--", "marker": "D", "markersize": 8},
    IFCA: {"color": _COLORS["sky blue"], "linestyle": "--", "marker": "s", "markersize": 8},
    DP_FEDAVG: {"color": _COLORS["black"], "marker": "^", "markersize": 5},
    OURS: {"color": _COLORS["vermilion"], "marker": "o", "markersize": 5},
}
# Of the axis of a score, so that small differences look small.
_LEAST_SPAN, _HIGHEST = 0.1, 1.03


def _draw_rounds(frame: pd.DataFrame, axes: Axes) -> None:
  palette = figure_style.CATEGORY_COLORS
  cluster = 0
  for line, rows in frame.groupby("line", sort=False):
    if line == released.REVIVAL:
      label = {"label": line}
      for number in rows["round"]:
        axes.axvline(number, zorder=0, color=figure_style.QUIET, linestyle="-.", **label)
        label = {}
    elif line == released.NORM:
      axes.plot(rows["round"], rows["value"], color=_COLORS["black"])
    else:
      axes.plot(
          rows["round"], rows["value"], label=line, color=palette[cluster % len(palette)],
          linestyle=_CLUSTER_LINES[cluster // len(palette) % len(_CLUSTER_LINES)],
      )
      cluster += 1
  if set(frame["line"]) == {released.NORM}:
    axes.set_ylim(0, 1.1 * frame["value"].max())
  locator: Any = axes.xaxis.get_major_locator()
  locator.set_params(integer=True)
  axes.grid(True)
  axes.set_xlabel("round")


ROUNDS = tidy_experiment.Figure(
    "rounds",
    "Sizes of the clusters in a round (moving means of noisy counts) and clip norm, by round",
    "Level lines at the end mean that the clients have settled on their clusters; lines that go on "
    "swinging, also below zero, are noise. The clip norm follows a quantile of the updates' norms. "
    "In a round of revival, never one of the last, the smallest cluster had hardly any clients and "
    "took over one half of the largest.",
    _draw_rounds, panels="metric", height=2.4,
)


def _draw_scores(frame: pd.DataFrame, axes: Axes) -> None:
  figure_shapes.lines(axes, frame, "epsilon", "method", _LOOKS)
  figure_shapes.set_powers_of_two(axes, frame["epsilon"])
  axes.set_xlim(frame["epsilon"].min() / 1.3, frame["epsilon"].max() * 1.3)
  low, high = axes.get_ylim()
  half = max(high - low, _LEAST_SPAN) / 2
  middle = min((low + high) / 2, _HIGHEST - half)
  axes.set_ylim(middle - half, middle + half)


SCORES = tidy_experiment.Figure(
    "scores",
    "NOT private: scores over epsilon (delta {delta:g}); means of the seeds ({num_seeds}), bands: "
    "lowest to highest",
    "Accuracies are means over the clients; the panels have axes of their own. IFCA without "
    "privacy is what private clusters could reach without noise. Compare like with like: "
    "fine-tuned with fine-tuned. An adjusted Rand index of 1 means that every client is with those "
    "of its true group, 0 that the clusters are no better than chance.",
    _draw_scores, panels="metric", height=2.4,
)
