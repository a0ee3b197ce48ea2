"""The figures of a run, and how methods look in all figures."""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence, TYPE_CHECKING

import matplotlib
from matplotlib import cm
from matplotlib import colors as mpl_colors
from matplotlib import ticker
import numpy as np

from clustering_basics import intervals
from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.three_phase_emnist import summary
from fl_clustering.methods import registry

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  from matplotlib.axis import Axis
  import pandas as pd

Look = dict[str, Any]  # Keywords of a line, such as its colour.

# Methods have them by their places in the registry, and controls from the end, so no two of a run
# look the same.
_COLORS = tuple(figure_style.METHOD_COLORS.get(one, one) for one in (
    "blue", "vermilion", "green", "sky blue", "black", "#882255", "#332288", "#44aa99", "#cc6677",
    "yellow", "purple", "orange", "#7a4b1e",
))
_MARKERS, _MARKERS_OF_CONTROLS = "os^DvX*", "<>dhpH8"
_INK = "#1c1e21"
# More clients are shown by a histogram: points would lie on top of each other.
_MAX_POINTS = 500
_BINS = 40  # Of the range from 0 to 1.
_FEW_ROUNDS = 12
_MATCHED_SHOWN = 1.5  # Times the rounds of all others.
_VERDICT_COLORS = {
    intervals.BETTER: figure_style.METHOD_COLORS["green"],
    intervals.WORSE: figure_style.METHOD_COLORS["vermilion"],
    intervals.UNCLEAR: figure_style.QUIET,
}
_MOST_SEPARATED, _LEAST_NAMED = 50, 0.055  # Clusters, and a share of the clients.
_LABEL_COLORS = (*figure_style.CATEGORY_COLORS, "#bbbbbb")
_MOST_CHARACTERS = 32  # Of a label's name.
_LEVEL_LOOK: Look = {"color": figure_style.QUIET, "linestyle": ":"}


def method_looks(methods: Sequence[str]) -> dict[str, Look]:
  """Returns colour, line style and marker for each method, as keywords of a line."""
  others = [name for name in methods if registry.groups(name) and name not in registry.METHODS]
  first = (registry.LOCAL, registry.FINETUNED, registry.FEDAVG, registry.FEDAVG_MATCHED)
  looks = {registry.PRETRAIN: (figure_style.METHOD_COLORS["grey"], "-", ".")}
  for names, colors, line, markers in (
      ((*registry.METHODS, *others), _COLORS, "-", _MARKERS),
      ((*first, *registry.PERSONAL), _COLORS[::-1], "--", _MARKERS_OF_CONTROLS),
  ):
    for place, name in enumerate(names):
      looks[name] = (colors[place % len(colors)], line, markers[place % len(markers)])
  return {name: dict(zip(("color", "linestyle", "marker"), looks[name])) for name in methods}


def _line_looks(methods: Sequence[str]) -> dict[str, Look]:
  """Returns the look of every method's line.

  Methods that agree have the same curve.  Earlier ones are wider, so that they show
  beneath later ones.
  """
  looks = method_looks(methods)
  chosen = list(filter(registry.groups, methods))
  step = min(0.8, 3 / max(len(chosen), 1))
  for method, look in looks.items():
    later = len(chosen) - 1 - chosen.index(method) if method in chosen else 0
    look["linewidth"] = 1.3 + step * later
    look["markersize"] = 4 + look["linewidth"] / 2
  return looks


def _lines(frame: pd.DataFrame, axes: Axes, x: str) -> None:
  """Draws a line per method; where one has many points, about eight have a marker."""
  methods = list(frame["method"].unique())
  looks = _line_looks(methods)
  for position, (method, look) in enumerate(looks.items()):
    num_points = (frame["method"] == method).sum()
    every = 1 if num_points <= _FEW_ROUNDS else -(-num_points // 8)
    look |= {"label": registry.title(method), "markevery": (position % every, every)}
  figure_shapes.lines(axes, frame, x, "method", looks)
  axes.set_ylabel("accuracy")
  axes.grid(True)


def _draw_learning_curves(frame: pd.DataFrame, axes: Axes) -> None:
  is_matched = frame["method"] == registry.FEDAVG_MATCHED
  # The matched control may have very many rounds.
  last = min(frame["round"].max(), int(_MATCHED_SHOWN * frame["round"][~is_matched].max()))
  frame = frame[frame["round"] <= last]
  first = frame["round"].min()
  _lines(frame, axes, "round")
  axes.axvline(frame["start"].iloc[0], linewidth=1.2, label="phase 2 starts", **_LEVEL_LOOK)
  margin = 0.015 * (last - first) + 0.02
  axes.set_xlim(first - margin, last + margin)
  axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
  axes.set_xlabel("round (phase 1, then phase 2)")


def draw_accuracy_by_cost(frame: pd.DataFrame, axes: Axes) -> None:
  """Draws a line for every method, of the columns `cost` and `mean`."""
  _lines(frame, axes, "cost")
  axes.set_xlim(left=-0.02 * frame["cost"].max())  # Some lines are at 0.
  axes.xaxis.set_major_locator(ticker.MaxNLocator(3))  # Texts such as `17.5k` need room.
  axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))


def _draw_distribution(
    axes: Axes, position: int, values: np.ndarray, color: str, rng: np.random.Generator
) -> None:
  """Draws one row of the clients' accuracy: points or a histogram, box and mean."""
  if values.size > _MAX_POINTS:
    # Bins have their middle at 0, .025, .05 ... 1; the highest bar is as high as the box.
    counts, edges = np.histogram(values, _BINS + 1, (-0.5 / _BINS, 1 + 0.5 / _BINS))
    half = 0.32 * counts / counts.max()
    axes.bar(
        edges[:-1], 2 * half, np.diff(edges), position - half, align="edge", color=color,
        alpha=0.35, linewidth=0,
    )
  else:
    axes.scatter(
        values, position + rng.uniform(-0.3, 0.3, values.size), color=color, linewidths=0,
        s=22 if values.size <= 20 else 9, alpha=0.2 if values.size > 200 else 0.55,
    )
  axes.boxplot(
      values, positions=[position], orientation="horizontal", widths=0.64, whis=(10, 90),
      showfliers=False, manage_ticks=False, boxprops={"color": color},
      whiskerprops={"color": color}, capprops={"color": color},
      medianprops={"color": color, "linewidth": 2.2},
  )
  axes.plot(values.mean(), position, marker="D", markersize=6, color=color,
            markeredgecolor="white")


def _draw_client_accuracy(frame: pd.DataFrame, axes: Axes) -> None:
  methods = list(frame["method"].unique())
  looks, target = method_looks(methods), frame["target"].iloc[0]
  rng = np.random.default_rng(0)  # Only spreads the points; no number depends on it.
  groups = [frame[frame["method"] == method]["accuracy"].to_numpy() for method in methods]
  for position, (method, values) in enumerate(zip(methods, groups)):
    _draw_distribution(axes, position, values, looks[method]["color"], rng)
  figure_shapes.write_beside(axes, [f"{values.mean():.3f}" for values in groups], "mean")
  axes.axvline(target, color=_INK, linewidth=1, linestyle=":", label="target accuracy")
  axes.set_xlim(right=1.01)
  _set_rows(axes, [registry.title(method) for method in methods])
  axes.set_xlabel("accuracy on a client's own test data")


def _set_rows(axes: Axes, rows: list[str]) -> None:
  figure_shapes.set_rows(axes, rows)
  axes.tick_params(axis="y", length=0)
  axes.spines["left"].set_visible(False)


def _draw_gains(frame: pd.DataFrame, axes: Axes) -> None:
  colors = frame["verdict"].map(_VERDICT_COLORS)
  table = frame.rename(columns={"method": "row", "gain": "mean"}).assign(
      color=colors, markerfacecolor=colors.where(frame["verdict"] != intervals.UNCLEAR, "white")
  )
  rows = list(frame["method"])
  axes.axvline(0, color=_INK, linewidth=1)
  figure_shapes.dots(axes, rows, table, markersize=7, markeredgewidth=1.8, elinewidth=2.4)
  texts = [f"{gain:+.1f} {word}" for gain, word in zip(frame["gain"], frame["verdict"])]
  figure_shapes.write_beside(axes, texts)
  _set_rows(axes, rows)
  axes.set_xlabel("gain in percentage points")


def _height(frame: pd.DataFrame, row: float) -> float:
  """Returns the height of a panel with a row per method."""
  return 0.6 + row * len(frame["method"].unique())


def _separate(
    axis: Axis, clusters: np.ndarray, draw_lines: Sequence[Callable[..., Any]], color: str,
    widths: tuple[float, float],
) -> None:
  """Draws lines between the clusters of ordered clients on an axis, and names the wide ones.

  Lines between too many clusters would hide what is between them.

  Args:
    draw_lines: What draws a line at a place of the axis.
    widths: The lines' width, and that of very many lines.
  """
  edges = [0, *(np.flatnonzero(np.diff(clusters)) + 1), len(clusters)]
  named = [
      (start, end) for start, end in zip(edges, edges[1:])
      if end - start >= _LEAST_NAMED * len(clusters)
  ]
  axis.set_ticks(
      [(start + end - 1) / 2 for start, end in named], [str(clusters[start]) for start, _ in named]
  )
  axis.set_tick_params(length=0)
  inner = edges[1:-1]
  for edge in inner if len(inner) < _MOST_SEPARATED else ():
    for draw_line in draw_lines:
      draw_line(edge - 0.5, color=color, linewidth=widths[len(inner) >= 12])


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
    *(
        tidy_experiment.Figure(
            name, f"Gain over {control}, with 95% intervals for all comparisons together",
            "A dot right of the line is a gain. Only where the bar leaves out zero can it be told "
            "from chance; where it doesn't, the dot is open. A short bar is hidden by its dot. "
            "Where training was repeated, bars include its chance: equal methods have one too.",
            _draw_gains, height=functools.partial(_height, row=0.26),
        )
        for name, control in (("gains", "FedAvg"), ("gains_over_finetuned", "fine-tuning"))
    ),
    tidy_experiment.Figure(
        "learning_curves", "Accuracy on the clients' own test data per round",
        "Solid lines are phase 1 and the methods, dashed lines the controls; lines have different "
        "widths, so that equal ones show. Where a method that builds on phase 1 begins, its "
        "clients get the models that they start phase 2 with, such as the mean of their cluster's "
        "own weights in place of the global model: so the lines jump there. A method that doesn't "
        "build on phase 1 starts at round 1. FedAvg matched, if it is there, may go on beyond the "
        "right edge.",
        _draw_learning_curves, panels="panel", columns=1, height=2.1,
    ),
    tidy_experiment.Figure(
        "accuracy_by_cost", "Accuracy on the clients' own test data by what it cost",
        "The further left a line reaches an accuracy, the less the clients had to send, or to "
        "compute, for it. Methods that build on phase 1 start where its cost ends, or later by "
        "what their grouping cost. Training alone sends nothing: its line of bytes is upright.",
        draw_accuracy_by_cost, panels="panel", columns=1, height=2.3,
    ),
    tidy_experiment.Figure(
        "client_accuracy",
        "Every client's accuracy after phase 1 and after phase 2 (target: {target_accuracy:g})",
        "A good method has its clients far to the right, and none far to the left. A point is a "
        "client; of more than 500, there is a histogram. Boxes are quartiles and medians, whiskers "
        "the 10th and 90th percentile, diamonds means.",
        _draw_client_accuracy, height=functools.partial(_height, row=0.4),
    ),
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
