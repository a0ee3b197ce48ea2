"""Figures of gains, of accuracy per round, cost and client, and of how groups were found."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from matplotlib import ticker
import numpy as np

from clustering_basics import intervals
from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.three_phase_emnist import method_looks
from experiments.three_phase_emnist import method_names

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  import pandas as pd

_INK = "#1c1e21"
# More clients are shown by a histogram: points would lie on top of each other.
_MAX_POINTS = 500
_BINS = 40  # Of the range from 0 to 1.
_FEW_ROUNDS = 12
_MATCHED_SHOWN = 1.5  # Times the rounds of all others.
# Smaller markers come later, so that all show where they coincide.
_REPRESENTATION_LOOKS: dict[str, method_looks.Look] = {
    name: {"color": color, "marker": marker, "markersize": size, "linewidth": size / 3,
           "label": name.replace("_", " ")}
    for name, color, marker, size in (
        ("weights", "#332288", "o", 7.5), ("update", "#cc6677", "s", 5.5),
        ("normalized_update", "#44aa99", "^", 3.5),
    )
}
_VERDICT_COLORS = {
    intervals.BETTER: figure_style.METHOD_COLORS["green"],
    intervals.WORSE: figure_style.METHOD_COLORS["vermilion"],
    intervals.UNCLEAR: figure_style.QUIET,
}
_LEVEL_LOOK: method_looks.Look = {"color": figure_style.QUIET, "linestyle": ":"}


def _lines(frame: pd.DataFrame, axes: Axes, x: str) -> None:
  """Draws a line per method; where one has many points, about eight have a marker."""
  methods = list(frame["method"].unique())
  looks = method_looks.line_looks(methods)
  for position, (method, look) in enumerate(looks.items()):
    num_points = (frame["method"] == method).sum()
    every = 1 if num_points <= _FEW_ROUNDS else -(-num_points // 8)
    look |= {
        "label": method_names.method_label(method), "markevery": (position % every, every),
    }
  figure_shapes.lines(axes, frame, x, "method", looks)
  axes.set_ylabel("accuracy")
  axes.grid(True)


def _draw_learning_curves(frame: pd.DataFrame, axes: Axes) -> None:
  is_matched = frame["method"] == method_names.FEDAVG_MATCHED
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


def _draw_accuracy_by_cost(frame: pd.DataFrame, axes: Axes) -> None:
  _lines(frame, axes, "cost")
  axes.set_xlim(left=-0.02 * frame["cost"].max())  # Some lines are at 0.
  axes.xaxis.set_major_locator(ticker.MaxNLocator(6))  # Texts such as `17.5 k` need room.
  axes.xaxis.set_major_formatter(ticker.EngFormatter())


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
  looks, target = method_looks.method_looks(methods), frame["target"].iloc[0]
  rng = np.random.default_rng(0)  # Only spreads the points; no number depends on it.
  groups = [frame[frame["method"] == method]["accuracy"].to_numpy() for method in methods]
  for position, (method, values) in enumerate(zip(methods, groups)):
    _draw_distribution(axes, position, values, looks[method]["color"], rng)
  figure_shapes.write_beside(axes, [f"{values.mean():.3f}" for values in groups], "mean")
  axes.axvline(target, color=_INK, linewidth=1, linestyle=":", label="target accuracy")
  axes.set_xlim(right=1.01)
  _set_rows(axes, [method_names.method_label(method) for method in methods])
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


def _draw_group_recovery(frame: pd.DataFrame, axes: Axes) -> None:
  epochs = sorted(
      frame["epochs"].unique(),
      key=lambda text: (text.isdigit(), int(text) if text.isdigit() else text),  # Words first.
  )
  shown = frame.assign(place=frame["epochs"].map(epochs.index))
  for representation, look in _REPRESENTATION_LOOKS.items():
    line = shown[shown["representation"] == representation].sort_values("place")
    axes.plot(line["place"], line["adjusted_rand_index"], **look)
  used = shown[shown["used"] == 1]
  axes.plot(
      used["place"], used["adjusted_rand_index"], color=_INK, marker="o", markersize=13,
      linestyle="", markerfacecolor="none", label="used by this run",
  )
  axes.set_xticks(range(len(epochs)), [text.replace(" ", "\n") for text in epochs])
  axes.set_xlim(-0.3, len(epochs) - 0.7)
  axes.set_ylim(min(-0.05, frame["adjusted_rand_index"].min() - 0.05), 1.09)
  axes.set_xlabel("local epochs")
  axes.set_ylabel("adjusted Rand index")
  axes.grid(True)


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
        _draw_accuracy_by_cost, panels="panel", columns=1, height=2.3,
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
        "group_recovery", "How well each grouping finds the true groups (1: exactly, 0: by chance)",
        "Each line is one way to represent a client, after so many local epochs, or as its last "
        "round of phase 1 left it; the circle marks what this run used.",
        _draw_group_recovery, panels="method",
    ),
)
