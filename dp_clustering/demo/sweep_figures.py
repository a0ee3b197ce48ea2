"""The demo's figures: loss and quality over k, and over epsilon."""

from __future__ import annotations

import math
from typing import Any, TYPE_CHECKING

from experiment_shell import figure_style

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  import pandas as pd

LOSS, TRUE_LOSS = "loss_per_point", "true_loss_per_point"
# Where markers coincide, later ones are on top.
QUALITIES = ("dominant_label_accuracy", "true_nonmatch_frac", "false_match_frac")
# From a panel to the metrics that it shows.
PANELS = {"loss per point": (LOSS, TRUE_LOSS), "agreement with the true clusters": QUALITIES}
_LOSS_COLOR, *_COLORS = figure_style.CATEGORY_COLORS
_LOOKS: dict[str, dict[str, Any]] = {
    LOSS: {"color": _LOSS_COLOR, "marker": "D"},
    TRUE_LOSS: {"color": figure_style.QUIET, "linestyle": ":"},
    **{
        name: {"color": color, "marker": marker, "markersize": size, "linewidth": size / 3}
        for name, color, marker, size in zip(QUALITIES, _COLORS, "os^", (8, 7, 4.5))
    },
}
_MOST_TICKS = 10


def draw(label: str, frame: pd.DataFrame, axes: Axes) -> None:
  """Draws the lines of a panel.

  Args:
    label: Of the axis of what varies.
    frame: With `line`, `x` in ascending order, and `y`.
  """
  values = frame["x"].unique().tolist()
  # A logarithmic axis has no place for infinity, so it comes after the rest.
  largest = max(filter(math.isfinite, values), default=1)
  places = {value: value if math.isfinite(value) else 2 * largest for value in values}
  for name, rows in frame.groupby("line", sort=False):
    text = str(name).replace("_", " ")
    axes.plot(rows["x"].map(places), rows["y"], label=text, **_LOOKS[str(name)])
  top = 1 if set(frame["line"]) <= set(QUALITIES) else frame["y"].max()
  axes.set_ylim(-0.04 * top, 1.08 * top)
  axes.set_xscale("log")
  shown = figure_style.evenly_spaced(values, _MOST_TICKS)
  axes.set_xticks(
      [places[value] for value in shown],
      [f"{value:g}" if math.isfinite(value) else "no noise" for value in shown],
  )
  axes.set_xticks([], minor=True)
  axes.grid(True)
  axes.set_xlabel(label)
