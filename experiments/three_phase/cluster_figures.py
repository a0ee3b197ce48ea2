"""Figures of the clusters: the clients' weights, distances and labels."""

from __future__ import annotations

from typing import Any, Callable, Sequence, TYPE_CHECKING

import matplotlib
from matplotlib import cm
from matplotlib import colors as mpl_colors
from matplotlib import lines
import numpy as np

from experiment_shell import figure_style
from experiment_shell import tidy_experiment

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  from matplotlib.axis import Axis
  import pandas as pd

_MOST_SEPARATED, _MOST_IN_LEGEND = 50, 9
_LABEL_COLORS = (*figure_style.CATEGORY_COLORS, "#bbbbbb")
_MARKERS = "osD^vPX*"
_MOST_CHARACTERS = 32  # Of a label's name.


def _looks(frame: pd.DataFrame) -> dict[int, dict[str, Any]]:
  """Returns colour and marker of the clusters: of all, or of the largest of very many."""
  clusters = frame.groupby("cluster").agg(color=("color", "first"), size=("size", "first"))
  colors = figure_style.CATEGORY_COLORS
  if len(clusters) > len(colors) * len(_MARKERS):
    clusters = clusters.sort_values("size", ascending=False).head(_MOST_IN_LEGEND).sort_index()
  return {
      cluster: {
          "color": colors[color % len(colors)],
          "marker": _MARKERS[color // len(colors) % len(_MARKERS)],
      }
      for cluster, color in clusters["color"].items()
  }


def _draw_weights(frame: pd.DataFrame, axes: Axes) -> None:
  looks = _looks(frame)
  times = frame["times"]
  base_size = 22 if len(frame) <= 200 else 10
  sizes = base_size * (1 + 2 * (times - 1) / max(times.max() - 1, 1))
  is_other = ~frame["cluster"].isin(looks)
  axes.scatter(
      frame["x"][is_other], frame["y"][is_other], s=sizes[is_other], color=figure_style.QUIET,
      linewidths=0, alpha=0.35,
  )
  handles = []
  for cluster, look in looks.items():
    is_own = frame["cluster"] == cluster
    axes.scatter(
        frame["x"][is_own], frame["y"][is_own], s=sizes[is_own], edgecolors="white",
        linewidths=0.4, alpha=0.85, **look,
    )
    label = f"{cluster} ({frame['size'][is_own].iloc[0]:,})"
    handles.append(lines.Line2D([], [], linestyle="", markersize=5, label=label, **look))
  if 1 < len(looks) <= _MOST_IN_LEGEND:
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3,
        handletextpad=0.1, columnspacing=0.9, fontsize=8,
    )
  axes.tick_params(labelbottom=False, labelleft=False, length=0)
  axes.spines[["top", "right"]].set_visible(True)
  axes.set_ylabel(f"component 2: {frame['y_share'].iloc[0]:.0%}", fontsize=8.5)
  axes.set_xlabel(f"component 1: {frame['x_share'].iloc[0]:.0%}", fontsize=8.5)


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
        "client_weights", "The clients' weights in two dimensions (principal components)",
        "A point is a client, and all panels show the same points; of more than 1,000 clients, "
        "some evenly spaced. They are what the groupings saw: see representation among the "
        "settings. Percentages are shares of the variance; neighbours are alike in these two "
        "directions, and methods that group by weights use all. The number of a cluster has its "
        "number of clients beside it; clusters of mostly the same clients have the same colour in "
        "all panels. In overlapping clusters, the colour is that of a client's largest cluster, "
        "and larger points are in more of them. Methods that move clients later are shown with "
        "their last clusters.",
        _draw_weights, panels="panel", height=2.5,
    ),
    tidy_experiment.Figure(
        "distance_matrix", "Euclidean distances between every two clients, ordered by cluster",
        "Rows and columns are clients, at most 100 evenly spaced ones; distances are between what "
        "the groupings saw. If a method has put similar clients together, the squares along the "
        "diagonal, which white lines separate, are darker than the rest. A client's distance to "
        "itself is left out.",
        _draw_distances, panels="panel", height=2.3,
    ),
    tidy_experiment.Figure(
        "label_mix", "The labels that every client trains on",
        "Every bar is a client, and every colour a label, the same in both panels. Bars of "
        "different colours mean that clients have different data; bars of different heights, that "
        "some have more. At most 100 clients, evenly spaced by size. Black lines separate "
        "clusters.",
        _draw_labels, panels="panel", columns=1, height=2.2,
    ),
)
