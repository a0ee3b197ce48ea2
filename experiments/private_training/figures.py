"""The figures of private clusters: of what was released, and of a simulation."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, TYPE_CHECKING

import numpy as np
import pandas as pd

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiments.private_training import results

if TYPE_CHECKING:
  from matplotlib.figure import Figure

Summary = Mapping[str, Any]

_COLORS = figure_style.METHOD_COLORS
_PART_COLORS = ("blue", "black", "vermilion", "orange")
_CLUSTER_LINES = ("-", "--", ":")
_LEAST_NAMED_SHARE = 0.08
_LEGEND_COLUMNS = 5
# Of the axis of accuracies, so that small differences look small.
_LEAST_SPAN = 0.1


class _Line(NamedTuple):
  """A score of a method, and its look: keywords of `axes.plot`, with a `label`."""

  method: str
  score: str
  look: Mapping[str, Any]


def _line(method: str, score: str, **look: Any) -> _Line:
  label = results.LABELS[method]
  if score == results.FINETUNED:
    label += ", fine-tuned"
    look = {"linestyle": ":", "markerfacecolor": "white", **look}
  return _Line(method, score, {"label": label, "markersize": 6, **look})


# In the order of drawing.  What is not private has no marks.
_LINES = (
    _line(results.FEDAVG, results.ACCURACY, color=_COLORS["purple"], linestyle="--", linewidth=2),
    _line(results.IFCA, results.ACCURACY, color=_COLORS["sky blue"], linestyle="--", linewidth=2),
    _line(results.DP_FEDAVG, results.ACCURACY, color=_COLORS["black"], marker="^"),
    _line(results.DP_FEDAVG, results.FINETUNED, color=_COLORS["black"], marker="^"),
    _line(results.OURS, results.ACCURACY, color=_COLORS["vermilion"], marker="o"),
    _line(results.OURS, results.FINETUNED, color=_COLORS["vermilion"], marker="o"),
)
_RECOVERY_LINES = (
    _line(results.IFCA, results.ARI, color=_COLORS["sky blue"], linestyle="--", linewidth=2),
    _line(results.OURS, results.ARI, color=_COLORS["vermilion"], marker="o"),
)


def _table(simulation: Summary, lines: tuple[_Line, ...]) -> pd.DataFrame:
  """Returns the means and ranges of lines over epsilon; those without a budget are level."""
  rows = []
  for line in lines:
    of_method = simulation["methods"].get(line.method, {})
    for epsilon in results.epsilons(simulation):
      found = of_method.get(f"{epsilon:g}") or of_method.get(results.NO_EPSILON)
      spread = found and found["spread"][line.score]
      if spread:
        rows.append({
            "row": line.look["label"], "epsilon": epsilon, "mean": spread["mean"],
            "low": spread["least"], "high": spread["most"], "num_seeds": spread["num_seeds"],
            "color": line.look["color"], "marker": line.look.get("marker", "D"),
            "markerfacecolor": line.look.get("markerfacecolor", line.look["color"]),
        })
  return pd.DataFrame(rows)


def _limits(table: pd.DataFrame, score: str) -> tuple[float, float]:
  """Returns the ends of the axis: of all Rand indices, or around the accuracies."""
  low, high = table["low"].min(), table["high"].max()
  if score == results.ARI:
    return min(low, 0.0) - 0.03, 1.03
  half = max(0.55 * (high - low), _LEAST_SPAN / 2)
  return (low + high) / 2 - half, (low + high) / 2 + half


def _draw(simulation: Summary, lines: tuple[_Line, ...], title: str, label: str) -> Figure | None:
  """Returns lines over epsilon, or rows of dots at a single epsilon; None without scores."""
  table = _table(simulation, lines)
  if table.empty:
    return None
  looks = {
      line.look["label"]: line.look for line in lines if line.look["label"] in set(table["row"])
  }
  limits = _limits(table, lines[0].score)
  tried = sorted(set(table["epsilon"]))
  if len(tried) == 1:
    kind, place = "lines", f"epsilon {tried[0]:g}, "
    figure = _dots(table, list(looks), label, limits)
  else:
    kind, place = "bands", ""
    title = f"{title} over epsilon"
    figure = _over_epsilon(table, looks, label, limits)
  data, num_seeds = simulation["data"], int(table["num_seeds"].max())
  figure_style.set_title(
      figure,
      f"{data['source']}; {data['num_clients']:,} clients, {place}delta {simulation['delta']:g}",
      title, "NOT private; one seed" if num_seeds == 1
      else f"NOT private; means of {num_seeds} seeds; {kind}: from the lowest to the highest",
  )
  return figure


def _over_epsilon(
    table: pd.DataFrame, looks: Mapping[str, Mapping[str, Any]], label: str,
    limits: tuple[float, float],
) -> Figure:
  figure = figure_style.new_figure(4.6 if len(looks) > 2 else 3.4)
  axes = figure.add_subplot()
  figure_shapes.lines(axes, table, "epsilon", "row", looks)
  tried = sorted(set(table["epsilon"]))
  axes.set_xscale("log", base=2)
  axes.set_xticks(tried, [f"{epsilon:g}" for epsilon in tried])
  axes.set_xticks([], minor=True)
  axes.set_xlabel("epsilon")
  axes.set_ylabel(label)
  axes.set_ylim(limits)
  axes.grid(True)
  figure_shapes.legend(figure, looks, ncols=2)
  return figure


def _dots(
    table: pd.DataFrame, rows: list[str], label: str, limits: tuple[float, float]
) -> Figure:
  figure = figure_style.new_figure(1.6 + 0.33 * len(rows))
  axes = figure.add_subplot()
  figure_shapes.set_rows(axes, rows)
  figure_shapes.dots(axes, rows, table, markersize=7, capsize=3)
  means = table.set_index("row")["mean"]
  figure_shapes.write_beside(axes, [f"{means[row]:.3f}" for row in rows])
  axes.set_xlabel(label)
  axes.set_xlim(limits)
  return figure


def accuracy(simulation: Summary) -> Figure | None:
  """Returns the methods' mean accuracy over epsilon."""
  return _draw(simulation, _LINES, "Accuracy", "mean accuracy of the clients")


def recovery(simulation: Summary) -> Figure | None:
  """Returns how well the true groups are found over epsilon; None if they are not known."""
  return _draw(
      simulation, _RECOVERY_LINES, "How well the true groups are found", "adjusted Rand index"
  )


def _source(released: Summary) -> str:
  data, privacy = released["data"], released["privacy"]
  guarantee = (
      f"epsilon {privacy['epsilon']:g}, delta {privacy['delta']:g}" if privacy["is_private"]
      else "NOT private"
  )
  return f"{data['source']}; {data['num_clients']:,} clients, {guarantee}"


def budget(released: Summary) -> Figure:
  """Returns the parts of the budget, in one bar."""
  figure = figure_style.new_figure(1.75)
  axes = figure.add_subplot()
  start = 0.0
  looks = {}
  for part, name in zip(released["privacy"]["budget"], _PART_COLORS):
    share, color = part["share"], _COLORS[name]
    if not share:  # As that of grouping is with one cluster.
      continue
    axes.barh(0, share, left=start, color=color, edgecolor="white")
    if share >= _LEAST_NAMED_SHARE:
      axes.text(start + share / 2, 0, f"{share:.0%}", color="white", ha="center", va="center")
    looks[f"{part['part']}, {share:.0%}"] = {
        "color": color, "marker": "s", "markersize": 8, "linestyle": "",
    }
    start += share
  axes.set_xlim(0, start)
  axes.set_axis_off()
  figure_shapes.legend(figure, looks, ncols=4)
  figure_style.set_title(
      figure, _source(released), "The parts of the privacy budget, as shares of its mu²"
  )
  return figure


def rounds(released: Summary) -> Figure:
  """Returns the clusters' noisy sizes and the clip norm over the rounds."""
  sizes = np.array(released["sizes"], float)
  num_lines = -(-(sizes.shape[1] + 1) // _LEGEND_COLUMNS)
  figure = figure_style.new_figure(4.4 + 0.19 * num_lines)
  above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
  palette = figure_style.CATEGORY_COLORS
  looks = {}
  for cluster, of_cluster in enumerate(sizes.T):
    look = {
        "color": palette[cluster % len(palette)],
        "linestyle": _CLUSTER_LINES[cluster // len(palette) % len(_CLUSTER_LINES)],
    }
    looks[f"cluster {cluster}"] = look
    above.plot(range(1, len(sizes) + 1), of_cluster, **look)
  if released["revived_rounds"]:
    revival: dict[str, Any] = {"color": figure_style.QUIET, "linestyle": "-.", "linewidth": 1}
    looks["revival"] = revival
    for number in released["revived_rounds"]:
      above.axvline(number, zorder=0, **revival)
  above.set_ylabel("clients, noisy")
  clip_norms = released["clip_norms"]
  below.plot(range(1, len(clip_norms) + 1), clip_norms, color=_COLORS["black"])
  below.set_ylim(0, 1.1 * max(clip_norms))
  below.set_ylabel("clip norm")
  below.set_xlabel("round")
  locator: Any = below.xaxis.get_major_locator()
  locator.set_params(integer=True)
  for axes in (above, below):
    axes.grid(True)
  figure_shapes.legend(figure, looks, ncols=_LEGEND_COLUMNS)
  figure_style.set_title(
      figure, _source(released), "Sizes of the clusters and clip norm, by round",
      "Sizes are moving means of noisy counts.",
  )
  return figure
