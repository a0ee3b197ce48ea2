"""The demo's figures: loss and quality over k, and over epsilon."""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence, TYPE_CHECKING

from experiment_shell import figure_style

if TYPE_CHECKING:
  from matplotlib import figure

# Column, name, marker and marker size.  Where markers coincide, later ones are on top.
_QUALITIES = (
    ("dominant_label_accuracy", "dominant label accuracy", "o", 8),
    ("true_nonmatch_frac", "true non-matches", "s", 7),
    ("false_match_frac", "false matches", "^", 4.5),
)
_LOSS_COLOR, *_QUALITY_COLORS = figure_style.CATEGORY_COLORS
_MOST_TICKS = 10


def _set_up_axis(axes: Any, values: Sequence[float], places: list[float]) -> None:
  axes.set_xscale("log")
  shown = figure_style.evenly_spaced(range(len(values)), _MOST_TICKS)
  axes.set_xticks(
      [places[index] for index in shown],
      [f"{values[index]:g}" if math.isfinite(values[index]) else "no noise" for index in shown],
  )
  axes.set_xticks([], minor=True)
  axes.grid(True)


def sweep_figure(
    rows: Sequence[Mapping[str, Any]], over: str, true_loss: float, data: str, setting: str
) -> figure.Figure:
  """Returns a figure of the loss, and below it the quality, over k or over epsilon.

  Args:
    rows: The sweep's rows of the results, in any order.
    over: The column that varies: `k` or `epsilon`.
    data: Description of the data, for the title.
    setting: Description of what all rows share, for the title.
  """
  rows = sorted(rows, key=lambda row: row[over])
  values = [row[over] for row in rows]
  # A logarithmic axis has no place for infinity, so it comes after the rest.
  largest = max(filter(math.isfinite, values), default=1)
  places = [value if math.isfinite(value) else 2 * largest for value in values]
  figure = figure_style.new_figure(6.2)
  loss_axes, quality_axes = figure.subplots(2, 1)

  losses = [row["loss_per_point"] for row in rows]
  loss_axes.plot(places, losses, color=_LOSS_COLOR, marker="D", label="loss per point")
  loss_axes.axhline(
      true_loss, color=figure_style.QUIET, linestyle=":", label="loss of the true clusters"
  )
  largest_loss = max(*losses, true_loss)
  loss_axes.set_ylim(-0.04 * largest_loss, 1.08 * largest_loss)
  loss_axes.set_title("loss: mean squared distance to the nearest center", loc="left")

  for (column, name, marker, size), color in zip(_QUALITIES, _QUALITY_COLORS):
    quality_axes.plot(
        places, [row[column] for row in rows], color=color, marker=marker, markersize=size,
        linewidth=size / 3, label=name,
    )
  quality_axes.set_ylim(-0.04, 1.04)
  quality_axes.set_title(
      "how the clusters reflect the true ones (best: accuracy 1, matches 0)", loc="left"
  )
  quality_axes.set_xlabel("k, the number of clusters" if over == "k" else over)
  for axes in (loss_axes, quality_axes):
    _set_up_axis(axes, values, places)
  figure.legend(loc="outside lower center", ncols=3)
  figure_style.set_title(figure, data, f"Private clustering over {over}, with {setting}")
  return figure
