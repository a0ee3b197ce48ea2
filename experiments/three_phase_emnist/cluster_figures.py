"""Figures of the clusters: the clients' distances and labels."""

from __future__ import annotations

from typing import Any, Callable, Sequence, TYPE_CHECKING

import matplotlib
from matplotlib import cm
from matplotlib import colors as mpl_colors
import numpy as np

from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.three_phase_emnist import summary

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  from matplotlib.axis import Axis
  import pandas as pd

_MOST_SEPARATED = 50
_LABEL_COLORS = (*figure_style.CATEGORY_COLORS, "#bbbbbb")
_MOST_CHARACTERS = 32  # Of a label's name.


def _separate(
    axis: Axis, clusters: np.ndarray, draw_lines: Sequence[Callable[..., Any]], color: str,
    widths: tuple[float, float],
) -> None:
  """Names the clusters of ordered clients on an axis, and draws lines between them.

  Lines between too many clusters would hide what is between them.

  Args:
    draw_lines: What draws a line at a place of the axis.
    widths: The lines' width, and that of very many lines.
  """
  stretches = figure_style.blocks(clusters)
  figure_style.set_block_ticks(axis, clusters, stretches)
  for start, _ in stretches[1:] if len(stretches) <= _MOST_SEPARATED else ():
    for draw_line in draw_lines:
      draw_line(start - 0.5, color=color, linewidth=widths[len(stretches) > 12])


def _draw_distances(frame: pd.DataFrame, axes: Axes) -> None:
  clusters = frame.drop_duplicates("client").set_index("client")["cluster"]
  clusters = clusters.sort_values(kind="stable")
  table = frame.pivot(index="client", columns="other", values="distance")
  # A client's distance to itself is left out: zeros would take up half of the colours.
  image = axes.imshow(
      table.loc[clusters.index, clusters.index].to_numpy(float), cmap="viridis",
      interpolation="nearest",
  )
  _separate(axes.yaxis, clusters.to_numpy(), (axes.axhline, axes.axvline), "white", (0.9, 0.5))
  axes.set_xticks([])
  axes.set_ylabel("cluster")
  axes.spines[:].set_visible(False)
  axes.figure.colorbar(image, ax=axes, location="bottom", shrink=0.9, aspect=25, pad=0.03)


def _label_colors(num_labels: int) -> Sequence[Any]:
  if num_labels <= len(_LABEL_COLORS):
    return _LABEL_COLORS[:num_labels]
  return matplotlib.colormaps["viridis"](np.linspace(0, 1, num_labels))


def _draw_labels(frame: pd.DataFrame, axes: Axes) -> None:
  """Draws stacked bars without gaps."""
  names = frame["label"].unique()
  table = frame.pivot(index="place", columns="label", values="height")[names].to_numpy(float)
  edges = np.arange(len(table) + 1) - 0.5
  # A step lasts until the next edge; the last bar needs its value once more there.
  tops = np.cumsum(np.concatenate([table, table[-1:]]), axis=1)
  bottom = np.zeros(len(edges))
  has_names = len(names) <= len(_LABEL_COLORS)
  for name, top, color in zip(names, tops.T, _label_colors(len(names))):
    axes.fill_between(
        edges, bottom, top, step="post", color=color, linewidth=0, antialiased=False,
        label=figure_style.shortened(str(name), _MOST_CHARACTERS) if has_names else None,
    )
    bottom = top
  if not has_names:
    scale = cm.ScalarMappable(mpl_colors.Normalize(0, len(names) - 1), "viridis")
    axes.figure.colorbar(scale, ax=axes, label="number of the label", aspect=15)
  axes.set_xlim(edges[0], edges[-1])
  axes.set_ylim(0, tops[:, -1].max())
  axes.set_xticks([])
  axes.set_xlabel("client")
  if frame["cluster"].notna().all():
    clusters = frame.drop_duplicates("place").sort_values("place")["cluster"].to_numpy(int)
    _separate(axes.xaxis, clusters, (axes.axvline,), "black", (1.4, 0.8))
    axes.set_xlabel("client, by cluster")


FIGURES = (
    tidy_experiment.Figure(
        "distance_matrix", "Euclidean distances between every two clients, ordered by cluster",
        "Rows and columns are clients, at most 100 evenly spaced ones; distances are the same in "
        "all panels, between the clients' representations (a setting) after phase 1. If a method "
        "has put similar clients together, the squares along the diagonal, which white lines "
        "separate, are darker than the rest. A client of several clusters is with the largest, "
        "so that others may have no row. A client's distance to itself is left out.",
        _draw_distances, panels="panel", height=2.3,
    ),
    tidy_experiment.Figure(
        "label_mix", "The labels that every client trains on",
        "Every bar is a client, and every colour a label, the same in both panels. Bars of "
        "different colours mean that clients have different data; bars of different heights, that "
        f"some have more. At most {summary.MOST_BARS} clients, evenly spaced by size. Black lines "
        "separate clusters.",
        _draw_labels, panels="panel", columns=1, height=2.2,
    ),
)
