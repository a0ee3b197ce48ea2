"""How many points of every known class are in every cluster, as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from scipy import optimize

from experiment_shell import figure_shapes
from experiment_shell import figure_style

if TYPE_CHECKING:
  from matplotlib.axes import Axes

READING = (
    "A good clustering has all points of a class in one cluster: a dark diagonal and nothing "
    "beside it. Clusters are in the order that puts most points there."
)
# Names of more classes would overlap.
_MOST_NAMED = 24
_MOST_CHARACTERS = 20
# Inches of a character of a class's name, of a digit, and of what else is beside two panels.
_CHARACTER, _DIGIT, _BESIDE = 0.075, 0.065, 0.5


def frame(counts: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows that `draw` takes: `class`, `cluster` and `points`.

  Args:
    counts: Numbers of points, with the classes as index and the clusters as columns.
  """
  rows, columns = optimize.linear_sum_assignment(-counts.to_numpy())
  matched = [column for _, column in sorted(zip(rows, columns))]
  rest = [column for column in range(counts.shape[1]) if column not in matched]
  counts = counts[counts.columns[matched + rest]].rename_axis("class")
  return counts.stack().rename("points").reset_index()


def draw(found: pd.DataFrame, axes: Axes) -> None:
  """Draws the percent of each class in each cluster."""
  classes, clusters = found["class"].unique(), found["cluster"].unique()
  points = found.pivot(index="class", columns="cluster", values="points").loc[classes, clusters]
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
