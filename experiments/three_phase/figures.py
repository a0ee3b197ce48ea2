"""Figures of accuracy per round, cost and client, of gains, and of how groups were found."""

from typing import Any, Iterable, Mapping, Sequence

from matplotlib import axes as mpl_axes
from matplotlib import ticker
import numpy as np
import pandas as pd

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiments.three_phase import comparison
from experiments.three_phase import method_looks
from experiments.three_phase import method_names
from experiments.three_phase import results as results_lib
from fl_clustering.three_phase import gains as gains_lib

# More clients are shown by a histogram: points would lie on top of each other.
_MAX_POINTS = 500
_BINS = 40  # Of the range from 0 to 1.
_FEW_ROUNDS = 12
_MATCHED_SHOWN = 1.5  # Times the rounds of all others.
# Smaller markers come later, so that all show where they coincide.
_REPRESENTATION_LOOKS: dict[str, method_looks.Look] = {
    name: {"color": color, "marker": marker, "markersize": size, "linewidth": size / 3}
    for name, color, marker, size in (
        ("weights", "#332288", "o", 7.5), ("update", "#cc6677", "s", 5.5),
        ("normalized_update", "#44aa99", "^", 3.5),
    )
}
_VERDICT_COLORS = {
    gains_lib.BETTER: figure_style.METHOD_COLORS["green"],
    gains_lib.WORSE: figure_style.METHOD_COLORS["vermilion"],
    gains_lib.UNCLEAR: figure_style.QUIET,
}
# What a criterion's score is; a criterion that is not here is drawn by its name.
_CRITERION_SCORES = {
    "silhouette": "mean silhouette",
    "eigengap": "gap between eigenvalues",
}
# Has no score at one cluster: the level is drawn that others must exceed.
_WITH_LEVEL = "silhouette"
_SCORE_LOOK: method_looks.Look = {"color": figure_style.METHOD_COLORS["blue"], "marker": "o", "markersize": 4}
_LEVEL_LOOK: method_looks.Look = {"color": figure_style.QUIET, "linestyle": ":"}
_CHOICE_LOOK: method_looks.Look = {
    "color": figure_style.METHOD_COLORS["vermilion"], "marker": "o", "markersize": 11,
    "linestyle": "", "markerfacecolor": "none", "markeredgewidth": 1.8,
}
_USED_LOOK: method_looks.Look = {
    "color": "#1c1e21", "marker": "o", "linestyle": "", "markerfacecolor": "none",
}


def _marked(table: pd.DataFrame, looks: Mapping[str, method_looks.Look]) -> dict[str, method_looks.Look]:
  """Returns the looks of lines; where a line has many points, about eight have a marker."""
  marked = {}
  for position, (method, look) in enumerate(looks.items()):
    num_points = (table["method"] == method).sum()
    every = 1 if num_points <= _FEW_ROUNDS else -(-num_points // 8)
    marked[method] = {**look, "markevery": (position % every, every)}
  return marked


def _last_round(curves: pd.DataFrame) -> int:
  """Returns the last round to show; the matched control may have very many."""
  is_matched = curves["method"] == method_names.FEDAVG_MATCHED
  others = curves["round"][~is_matched].max()
  return min(curves["round"].max(), int(_MATCHED_SHOWN * others))


def learning_curves(results: results_lib.Results) -> figure_style.Figure:
  """Returns the clients' accuracy per round: mean and the worst tenth."""
  mean = "clients_accuracy_mean"
  start = results.settings["pretrain_rounds"]
  methods = [method_names.PRETRAIN, *results_lib.ordered_methods(results.summary)]
  looks = method_looks.line_looks(methods)
  curves = results.curves
  last = _last_round(curves)
  figure = figure_style.new_figure(8.4 + 0.2 * -(-len(methods) // 3))
  panels = figure.subplots(3, 1)
  panel_contents = (
      ("mean over the clients, both phases", mean, 0),
      ("mean over the clients, phase 2 enlarged", mean, start),
      ("10th percentile of the clients, both phases", "clients_accuracy_p10", 0),
  )
  for axes, (title, metric, first) in zip(panels, panel_contents):
    first = max(first, curves["round"].min())
    shown = curves[curves["round"].between(first, last)].rename(columns={metric: "mean"})
    figure_shapes.lines(axes, shown, "round", "method", _marked(shown, looks))
    axes.axvline(start, linewidth=1.2, **_LEVEL_LOOK)
    margin = 0.015 * (last - first) + 0.02
    axes.set_xlim(first - margin, last + margin)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.set_title(title, loc="left")
    axes.set_ylabel("accuracy (share correct)")
    axes.grid(True)
  panels[-1].set_xlabel("round (phase 1, then phase 2)")
  method_looks.method_legend(figure, looks, **{"phase 2 starts": _LEVEL_LOOK})
  note = ""
  if curves["round"].max() > last:
    note = f"FedAvg matched goes on to round {curves['round'].max():,.0f}, which is not shown"
  figure_style.set_title(
      figure, results.data_line, "Accuracy on the clients' own test data per round", note
  )
  return figure


def accuracy_by_cost(results: results_lib.Results) -> figure_style.Figure:
  """Returns the clients' mean accuracy over what was sent, and over the steps of SGD."""
  methods = [method_names.PRETRAIN, *results_lib.ordered_methods(results.summary)]
  looks = method_looks.line_looks(methods)
  figure = figure_style.new_figure(6.4 + 0.2 * -(-len(methods) // 3))
  panels = figure.subplots(2, 1)
  panel_contents = (
      ("bytes", "sent to and from the clients", "B"),
      ("steps", "steps of SGD of all clients together", ""),
  )
  curves = results.curves.rename(columns={"clients_accuracy_mean": "mean"})
  for axes, (cost, label, unit) in zip(panels, panel_contents):
    figure_shapes.lines(axes, curves, cost, "method", _marked(curves, looks))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(ticker.EngFormatter(unit=unit))
    axes.set_xlabel(label)
    axes.set_ylabel("mean accuracy")
    axes.grid(True)
  method_looks.method_legend(figure, looks)
  figure_style.set_title(
      figure, results.data_line, "Accuracy on the clients' own test data by what it cost"
  )
  return figure


def _draw_distribution(
    axes: mpl_axes.Axes, position: int, values: np.ndarray, color: str, rng: np.random.Generator
) -> None:
  """Draws one row of `client_accuracy`: points or a histogram, box and mean."""
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


def _set_rows(axes: mpl_axes.Axes, rows: Sequence[str]) -> None:
  figure_shapes.set_rows(axes, rows)
  axes.tick_params(axis="y", length=0)
  axes.spines["left"].set_visible(False)


def client_accuracy(results: results_lib.Results) -> figure_style.Figure:
  """Returns the distribution of the clients' accuracy, one row per method."""
  rows = comparison.comparison_rows(results.summary)
  looks = method_looks.method_looks([row.method for row in rows])
  figure = figure_style.new_figure(1.7 + (0.62 if len(rows) <= 8 else 0.5) * len(rows))
  axes = figure.add_subplot()
  rng = np.random.default_rng(0)  # Only spreads the points; no number depends on it.
  for position, row in enumerate(rows):
    values = np.array(list(results.client_accuracy(row.method).values()))
    _draw_distribution(axes, position, values, looks[row.method]["color"], rng)
  for offset, column in ((6, comparison.MEAN_ACCURACY), (44, comparison.AT_TARGET)):
    texts = [row.text(column) for row in rows]
    figure_shapes.write_beside(axes, texts, column.heading, 1, offset)
  target = results.settings["target_accuracy"]
  axes.axvline(target, color="#1c1e21", linewidth=1, linestyle=":")
  axes.set_xlim(right=1.01)
  _set_rows(axes, [row.label for row in rows])
  axes.set_xlabel("accuracy on a client's own test data (share correct)")
  shown = "one point per client"
  if results.num_clients > _MAX_POINTS:
    shown = "as histograms"
  figure_style.set_title(
      figure, results.data_line,
      f"Every client's accuracy after phase 1 and after phase 2, {shown}",
      "box: quartiles and median; whiskers: 10th and 90th percentile; diamond: mean; dotted line: "
      f"target accuracy {target:g}",
  )
  return figure


def gains(results: results_lib.Results) -> figure_style.Figure | None:
  """Returns the gain of every method over FedAvg with its interval; None without any."""
  basis = results.summary["comparison"]
  rows = [row for row in comparison.comparison_rows(results.summary) if "gain" in row.part]
  if not rows:
    return None
  table = pd.DataFrame([{"row": row.label, **row.part["gain"]} for row in rows])
  numbers = ["mean", "low", "high"]
  metric = results_lib.metric_label(results.summary)
  table[numbers] = 100 * table[numbers].astype(float)
  table["color"] = table["verdict"].map(_VERDICT_COLORS)
  table["markerfacecolor"] = table["color"].where(table["verdict"] != gains_lib.UNCLEAR, "white")
  figure = figure_style.new_figure(1.6 + 0.36 * len(rows))
  axes = figure.add_subplot()
  axes.axvline(0, color="#1c1e21", linewidth=1)
  labels = [row.label for row in rows]
  figure_shapes.dots(axes, labels, table, markersize=8, markeredgewidth=1.8, elinewidth=2.4)
  texts = (f"{row.text(comparison.GAIN)}  {row.text(comparison.VERDICT)}" for row in rows)
  figure_shapes.write_beside(axes, texts, "")
  _set_rows(axes, labels)
  axes.set_xlabel(f"gain over FedAvg in percentage points of {metric}")
  note = ""
  if not basis["control_repeats"]:
    note = "about these trained models only: the intervals leave out the chance in training"
  figure_style.set_title(
      figure, results.data_line,
      f"Gain in the clients' mean {metric} over FedAvg, with {basis['level']:.0%} intervals "
      f"for all {basis['num_comparisons']} comparisons together",
      note,
  )
  return figure


def _draw_criterion(
    axes: mpl_axes.Axes, rows: Sequence[Mapping[str, Any]], has_level: bool
) -> None:
  """Draws one panel: the score of every number of clusters, and the choice."""
  scored = rows[1:] if has_level else rows
  axes.plot(
      [row["num_clusters"] for row in scored], [row["score"] for row in scored], linewidth=1.5,
      **_SCORE_LOOK,
  )
  if has_level:
    axes.axhline(rows[0]["score"], linewidth=1.2, **_LEVEL_LOOK)
  for row in rows:
    if row["chosen"]:
      axes.plot(row["num_clusters"], row["score"], **_CHOICE_LOOK)


def num_clusters(results: results_lib.Results) -> figure_style.Figure | None:
  """Returns the scores of every number of clusters by criterion; None if it was given."""
  rows = results.num_clusters_choice
  if not rows:
    return None
  criteria = list(dict.fromkeys(row["criterion"] for row in rows))
  figure = figure_style.new_figure(1.6 + 1.75 * len(criteria))
  panels = figure.subplots(len(criteria), 1, squeeze=False, sharex=True)[:, 0]
  for axes, criterion in zip(panels, criteria):
    own_rows = sorted(
        (row for row in rows if row["criterion"] == criterion), key=lambda row: row["num_clusters"]
    )
    _draw_criterion(axes, own_rows, criterion == _WITH_LEVEL)
    choice = next(row["num_clusters"] for row in own_rows if row["chosen"])
    is_used = criterion == results.settings["num_clusters_criterion"]
    axes.set_title(f"{criterion}: {choice}{' (used by this run)' if is_used else ''}", loc="left")
    axes.set_ylabel(_CRITERION_SCORES.get(criterion, "score"))
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.margins(x=0.04, y=0.16)
    axes.grid(True)
  panels[-1].set_xlabel("number of clusters")
  figure_shapes.legend(figure, {
      "score": _SCORE_LOOK, "least score for more than one cluster": _LEVEL_LOOK,
      "choice": _CHOICE_LOOK,
  })
  figure_style.set_title(
      figure, results.data_line,
      "What each criterion gives every number of clusters, and what it chooses",
  )
  return figure


def _in_order(epochs: Iterable[str]) -> list[str]:
  """Returns the distinct `grouping_epochs`, words ("last round") before numbers."""
  return sorted(
      set(epochs), key=lambda text: (text.isdigit(), int(text) if text.isdigit() else text)
  )


def _draw_recovery(
    axes: mpl_axes.Axes, scores: Sequence[Mapping[str, Any]], position: Mapping[str, int]
) -> None:
  """Draws one panel of `group_recovery`; `position` maps epochs to the horizontal axis."""
  for representation, look in _REPRESENTATION_LOOKS.items():
    line = sorted(
        (score for score in scores if score["representation"] == representation),
        key=lambda score: position[score["grouping_epochs"]],
    )
    axes.plot(
        [position[score["grouping_epochs"]] for score in line],
        [score["adjusted_rand_index"] for score in line], **look,
    )
  for score in scores:
    if score["used"]:
      axes.plot(position[score["grouping_epochs"]], score["adjusted_rand_index"], markersize=15,
                **_USED_LOOK)


def group_recovery(results: results_lib.Results) -> figure_style.Figure | None:
  """Returns how well groupings find the true groups; None if they are unknown."""
  if not results.recovery:
    return None
  groupings = list(dict.fromkeys(score["grouping"] for score in results.recovery))
  epochs = _in_order(score["grouping_epochs"] for score in results.recovery)
  position = {text: index for index, text in enumerate(epochs)}
  lowest = min(score["adjusted_rand_index"] for score in results.recovery)
  figure = figure_style.new_figure(1.7 + 2.3 * -(-len(groupings) // 2))
  panels = figure_style.panel_grid(figure, len(groupings))
  for axes, grouping in zip(panels, groupings):
    _draw_recovery(axes, [s for s in results.recovery if s["grouping"] == grouping], position)
    axes.set_title(method_names.method_label(grouping), loc="left")
    axes.set_xticks(range(len(epochs)), epochs)
    axes.set_xlim(-0.3, len(epochs) - 0.7)
    axes.set_ylim(min(-0.05, lowest - 0.05), 1.09)
    axes.grid(True)
  figure_shapes.label_edges(panels, "local epochs before grouping", "adjusted Rand index")
  looks = {name.replace("_", " "): look for name, look in _REPRESENTATION_LOOKS.items()}
  figure_shapes.legend(figure, {**looks, "used by this run": {**_USED_LOOK, "markersize": 12}}, 4)
  figure_style.set_title(
      figure, results.data_line,
      "How well each grouping finds the true groups (1: exactly, 0: by chance)",
  )
  return figure
