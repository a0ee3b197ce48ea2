"""The shapes that figures are made of: dots with intervals, lines with bands, heat maps.

They take tidy tables, with a row for everything that is drawn.  Means and their intervals are in
the columns `mean`, `low` and `high`.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  from matplotlib.image import AxesImage
  import pandas as pd

_BAND_ALPHA = 0.22


def lines(
    axes: Axes, table: pd.DataFrame, x: str, line: str, looks: Mapping[Any, Mapping[str, Any]]
) -> None:
  """Draws a line of means over a column, with a band where the table has `low` and `high`.

  Args:
    table: With the columns `x`, `line` and `mean`.
    line: The column that tells lines apart.
    looks: For values of that column, in the order of drawing: keywords of `axes.plot`, with a
      `color`; lines are labelled by these values, and those that the table lacks left out.
  """
  for name, look in looks.items():
    points = table[table[line] == name]
    if points.empty:
      continue
    if "low" in points:
      axes.fill_between(
          points[x], points["low"], points["high"], color=look["color"], alpha=_BAND_ALPHA,
          linewidth=0,
      )
    axes.plot(points[x], points["mean"], **{"label": name, **look})


def set_powers_of_two(axes: Axes, column: pd.Series) -> None:
  """Makes the x axis one of powers of two; it has the column's name, and ticks at its values."""
  values = sorted(set(column))
  axes.set_xscale("log", base=2)
  axes.set_xticks(values, [f"{value:g}" for value in values])
  axes.set_xticks([], minor=True)
  axes.set_xlabel(str(column.name))
  axes.grid(True)


def dots(
    axes: Axes, rows: Sequence[str], table: pd.DataFrame, shift: float = 0.0, **look: Any
) -> None:
  """Draws dots in rows, each with the line of its interval where it has one.

  Args:
    table: With the columns `row` (a label) and `mean`, and maybe `low` and `high`, NaN where
      there is no interval.  Further columns hold what differs between dots: `color`, `marker`,
      `markerfacecolor`.
    shift: How far below the middle of their rows the dots are; rows are 1 apart.
    **look: Keywords of `axes.errorbar` for all dots.
  """
  own = [name for name in ("color", "marker", "markerfacecolor") if name in table]
  for group in [table.iloc[[i]] for i in range(len(table))] if own else [table]:
    means = group["mean"].to_numpy()
    places = group["row"].map(rows.index).to_numpy() + shift
    ends = None
    if "low" in group and group["low"].notna().any():
      ends = np.stack([means - group["low"], group["high"] - means])
    shown = {"marker": "o", "linestyle": "", **look, **{name: group[name].iloc[0] for name in own}}
    axes.errorbar(means, places, xerr=ends, **shown)


def set_rows(axes: Axes, rows: Sequence[str]) -> None:
  """Labels the rows that `dots` draws in, from top to bottom."""
  axes.set_yticks(range(len(rows)), rows)
  axes.set_ylim(len(rows) - 0.5, -0.5)
  axes.grid(True, axis="x")


def write_beside(axes: Axes, texts: Iterable[str], heading: str = "") -> None:
  """Writes a text right of every row, and a heading above."""
  x = 1.02  # As a share of the width of the axes.
  for position, text in enumerate(texts):
    axes.annotate(
        text, (x, position), xycoords=("axes fraction", "data"), va="center", fontsize=9
    )
  axes.annotate(
      heading, (x, 1), xycoords="axes fraction", xytext=(0, 4), textcoords="offset points",
      fontsize=9,
  )


def heat_map(
    axes: Axes,
    table: pd.DataFrame,
    limits: tuple[float, float],
    cmap: Any,
    texts: Sequence[Sequence[str]] | None = None,
    **text_look: Any,
) -> AxesImage:
  """Draws a field for each cell of a table in the order of its rows and columns.

  Args:
    axes: The axes to draw on.  Rows and columns are labelled by the table's index and columns.
    table: Numbers, NaN for an empty field.
    limits: The numbers at the ends of the colour map.
    texts: For each field; white where the number's size exceeds 0.6 of the upper limit.

  Returns:
    The image, for a colour bar.
  """
  values = table.to_numpy(float)
  image = axes.imshow(values, cmap=cmap, vmin=limits[0], vmax=limits[1], aspect="auto")
  for i, of_row in enumerate(texts or ()):
    for j, text in enumerate(of_row):
      color = "white" if abs(values[i, j]) > 0.6 * limits[1] else "#1c1e21"
      axes.text(j, i, text, **{"ha": "center", "va": "center", "color": color, **text_look})
  axes.set_xticks(range(len(table.columns)), table.columns)
  axes.set_yticks(range(len(table.index)), table.index, parse_math=False)
  return image
