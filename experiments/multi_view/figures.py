"""Figures of the multi-view experiment: convergence, view weights, classes against clusters."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from matplotlib import ticker

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.multi_view import methods

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  import pandas as pd

_COLORS = figure_style.METHOD_COLORS
_LOOKS: dict[str, dict[str, Any]] = {
    methods.RULES["equal"]: {"color": _COLORS["blue"], "marker": "o", "markerfacecolor": "none"},
    methods.RULES["mvkm"]: {"color": _COLORS["vermilion"], "marker": "s"},
    methods.RULES["regret"]: {"color": _COLORS["green"], "marker": "^"},
}
# Of the rules' weights from the middle of their row.
_SHIFTS = (-0.22, 0.0, 0.22)
# Names of more classes would overlap.
_MOST_NAMED = 24
_MOST_CHARACTERS = 20
# Inches of a character of a class's name, of a digit, and of what else is beside two panels.
_CHARACTER, _DIGIT, _BESIDE = 0.075, 0.065, 0.5


def _draw_objectives(frame: pd.DataFrame, axes: Axes) -> None:
  """Draws a line for every rule and seed."""
  for (method, _), fit in frame.groupby(["method", "seed"], sort=False):
    axes.plot(
        fit["round"], fit["excess"], label=method, color=_LOOKS[method]["color"], linewidth=1.1,
        marker=".", markersize=3,
    )
  axes.set_yscale("log")
  axes.xaxis.set_major_locator(ticker.MaxNLocator(4, integer=True))
  axes.grid(True)
  axes.set_xlabel("round")
  axes.set_ylabel("above its last value\n(share of it)")


def _draw_weights(frame: pd.DataFrame, axes: Axes) -> None:
  views = list(frame["weighed"].unique())
  figure_shapes.set_rows(axes, [figure_style.shortened(view, 28) for view in views])
  for shift, (method, look) in zip(_SHIFTS, _LOOKS.items()):
    own = frame[frame["method"] == method].rename(columns={"weighed": "row"})
    figure_shapes.dots(
        axes, views, own, shift, markersize=5.5, markeredgewidth=1.4, label=method, **look
    )
  alone = frame.drop_duplicates("weighed")["nmi alone"]
  if alone.notna().all():
    figure_shapes.write_beside(axes, map("{:.2f}".format, alone), "nmi alone")
  axes.set_xlim(0, 1.08 * frame[["mean", "high"]].max(axis=None))
  axes.tick_params(axis="y", length=0)
  axes.set_xlabel("weight of the view")


def _height_of_weights(frame: pd.DataFrame) -> float:
  return 0.7 + 0.3 * frame.groupby("dataset")["weighed"].nunique().max()


def _draw_confusion(frame: pd.DataFrame, axes: Axes) -> None:
  classes, clusters = frame["class"].unique(), frame["cluster"].unique()
  points = frame.pivot(index="class", columns="cluster", values="points").loc[classes, clusters]
  points.index = [figure_style.shortened(name, _MOST_CHARACTERS) for name in classes]
  percent = points.div(points.sum(axis=1), axis=0) * 100
  texts = [[f"{one:.0f}" if one > 0.5 else "" for one in row] for row in percent.to_numpy()]
  names = _CHARACTER * max(map(len, points.index))
  fit = 2 * len(clusters) * 3 * _DIGIT <= figure_style.WIDTH - _BESIDE - names
  figure_shapes.heat_map(
      axes, percent, (0, 100), "Blues", texts if fit else None, fontsize=7
  )
  if not fit:
    axes.set_xticks([])
  # Panels beside each other are of the same classes.
  place = axes.get_subplotspec()
  if len(classes) > _MOST_NAMED or (place and not place.is_first_col()):
    axes.set_yticks([])
  axes.tick_params(length=0)
  axes.set_xlabel("cluster")
  axes.set_ylabel("class")


FIGURES = (
    tidy_experiment.Figure(
        "confusion", "Percent of each class in each cluster (seed {seed})",
        "A good clustering has all points of a class in one cluster: a dark diagonal and nothing "
        "beside it. Clusters are in the order that puts most points there. Clients are those of "
        "the most skewed partition. Regret weights are left out.",
        _draw_confusion, panels="panel",
    ),
    tidy_experiment.Figure(
        "weights", "Weight of each view, mean ± deviation (seeds: {num_seeds})",
        "A view of small weight hardly counts. A rule that helps gives weight to views with a high "
        "NMI alone, in the column beside where classes are known. A short bar is hidden by its "
        "mark; one seed has none.",
        _draw_weights, panels="dataset", columns=1, height=_height_of_weights,
    ),
    tidy_experiment.Figure(
        "objectives", "The objective falls with every round (lines: seeds)",
        "Every line is one fit and ends before its last round: the steeper the line, the fewer "
        "rounds are needed; equal ones lie on each other. A round is the same however the points "
        "are split over the clients. Regret weights are left out, as their objective rises when "
        "the weights become less equal.",
        _draw_objectives, panels="dataset",
    ),
)
