"""The figures of a study: gains as heat maps and by repetition, and accuracy by cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import colors
from matplotlib import patches
from matplotlib import ticker
import numpy as np

from clustering_basics import intervals
from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.study import summary
from experiments.study import tuning
from experiments.three_phase_emnist import figures as three_phase_figures

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  import pandas as pd

_COLORS = figure_style.METHOD_COLORS
# White lies between; both ends are colours of verdicts.
_WORSE_TO_BETTER = colors.LinearSegmentedColormap.from_list(
    "worse to better", [_COLORS["vermilion"], "#ffffff", _COLORS["green"]]
)
_BEST_TO_WORSE = colors.LinearSegmentedColormap.from_list(
    "best to worse", ["#ffffff", _COLORS["vermilion"]]
)
_MOST_LOST = 10.0  # Of the darkest color, in points.
_LEAST_LIMIT = 2.0  # Of the colours, in points, so that tiny gains stay pale.
_REPETITIONS: dict[str, three_phase_figures.Look] = {
    summary.GROUPS_FOUND: {"color": _COLORS["green"], "marker": "o"},
    summary.GROUPS_MISSED: {
        "color": _COLORS["vermilion"], "marker": "o", "markerfacecolor": "none"
    },
    summary.NOT_SCORED: {
        "color": figure_style.QUIET, "marker": "|", "markeredgewidth": 2, "markersize": 8
    },
}


def _draw_gains(frame: pd.DataFrame, axes: Axes) -> None:
  """Draws a field for every method and setting, colored where the gain can be told from zero."""
  methods, settings = (list(frame[name].unique()) for name in ("method", "setting"))
  clear = frame["gain"].where(frame["verdict"] != intervals.UNCLEAR)
  limit = np.nanmax([_LEAST_LIMIT, *clear.abs()])
  fields, texts = (
      frame.assign(shown=shown).pivot(index="method", columns="setting", values="shown").reindex(
          index=methods, columns=settings
      ) for shown in (clear, frame["gain"].map("{:+.1f}".format))
  )
  figure_shapes.heat_map(
      axes, fields, (-limit, limit), _WORSE_TO_BETTER, texts.fillna("").to_numpy().tolist(),
      fontsize=8,
  )
  axes.set_xticks(axes.get_xticks(), settings, rotation=40, ha="right", rotation_mode="anchor")
  axes.set_xticks(np.arange(len(settings) - 1) + 0.5, minor=True)
  axes.set_yticks(np.arange(len(methods) - 1) + 0.5, minor=True)
  axes.tick_params(which="both", length=0)
  axes.grid(True, which="minor")
  axes.spines[["left", "bottom"]].set_visible(False)


def _draw_repetitions(frame: pd.DataFrame, axes: Axes) -> None:
  """Draws a dot for every repetition, in a row for every method."""
  rows = list(frame["method"].cat.categories)  # The same in all panels.
  axes.axvline(0, color=figure_style.QUIET, linewidth=1)
  for groups, look in _REPETITIONS.items():
    own = frame[frame["groups"] == groups]
    if own.empty:
      continue
    table = own.assign(row=own["method"].astype(str), mean=own["gain"])
    figure_shapes.dots(axes, rows, table, label=groups, alpha=0.75, **{"markersize": 4.5, **look})
  figure_shapes.set_rows(axes, rows)
  axes.xaxis.set_major_locator(ticker.MaxNLocator(4))
  axes.set_xlabel("gain, points")
  place = axes.get_subplotspec()
  if place is not None and not place.is_first_col():
    axes.set_yticklabels([])


def _height_of_repetitions(frame: pd.DataFrame) -> float:
  return 0.6 + 0.2 * len(frame["method"].cat.categories)


def _draw_candidates(frame: pd.DataFrame, axes: Axes) -> None:
  """Draws a field for every method and candidate; that which is taken has a frame."""
  names = list(frame["method"].unique()), list(frame[tuning.CANDIDATE].unique())
  best = frame.groupby("method")["mean"].transform("max")
  is_allowed = frame[tuning.FAILED] == 0
  fields, texts, chosen = (
      frame.assign(shown=shown).pivot(
          index="method", columns=tuning.CANDIDATE, values="shown"
      ).reindex(index=names[0], columns=names[1])
      for shown in (
          (100 * (best - frame["mean"])).where(is_allowed),
          (100 * frame["mean"]).map("{:.1f}".format, na_action="ignore").where(
              is_allowed, "failed"
          ).fillna(""),
          frame["chosen"],
      )
  )
  figure_shapes.heat_map(
      axes, fields, (0, _MOST_LOST), _BEST_TO_WORSE, texts.to_numpy().tolist(), fontsize=8
  )
  for row, column in np.argwhere(chosen.to_numpy() == 1):
    axes.add_patch(patches.Rectangle(
        (column - 0.5, row - 0.5), 1, 1, fill=False, linewidth=1.6, edgecolor="#1c1e21"
    ))
  axes.set_xlabel(frame["option"].iloc[0])
  axes.tick_params(length=0)
  axes.spines[["left", "bottom"]].set_visible(False)
  place = axes.get_subplotspec()
  if place is not None and not place.is_first_col():
    axes.set_yticklabels([])


_DATA = "clients: {num_clients}, seeds: {num_seeds}"
FIGURES = (
    *(
        tidy_experiment.Figure(
            name, f"Gain over {reference}, percentage points; {_DATA}",
            "Look for green: there a method is more accurate. Gains on white can't be told from "
            "chance. A method that is green over FedAvg and red over fine-tuning helps less than "
            "fine-tuning the common model does.",
            _draw_gains, height=lambda frame: 0.26 * frame["method"].nunique() + 0.5,
        )
        for name, reference in summary.REFERENCES.values()
    ),
    tidy_experiment.Figure(
        "by_repetition",
        f"Gain over FedAvg of equal work in every repetition; {_DATA}",
        "A mark is a seed, or a fold. Two heaps in a row: the method depends on luck, and its mean "
        f"says little. Groups found: an adjusted Rand index of {summary.FOUND:g} or more. Not "
        "scored: controls; no true groups; or clients in several clusters.",
        _draw_repetitions, panels="setting", height=_height_of_repetitions,
    ),
    tidy_experiment.Figure(
        "accuracy_by_cost",
        "The clients' mean accuracy by bytes to and from them, and by steps of SGD of all of them; "
        f"{_DATA}",
        "The further left a line reaches an accuracy, the less it cost. Methods that build on phase "
        "1 start where its cost ends, or later by what their grouping cost. Lines have different "
        "widths, so that equal ones show. Means over the repetitions; FedAvg matched is left out.",
        three_phase_figures.draw_accuracy_by_cost, panels="panel", height=1.8,
    ),
    tidy_experiment.Figure(
        "candidates",
        "Accuracy on validation rows by candidate, percent; clients: {num_clients}, tuning seeds: "
        "{tuning_seeds}",
        "Look for frames: the candidate that the method has in this setting. The darker a field, "
        "the less accurate is the method than with its best candidate. A frame at the lowest or "
        "highest number: one beyond may be better.",
        _draw_candidates, panels="setting",
        height=lambda frame: 0.6 + 0.19 * frame["method"].nunique(),
    ),
)
