"""Figures of accuracy per round, cost and client, of gains, and of how groups were found."""

from typing import Any, Iterable, Mapping, Sequence

from matplotlib import axes as mpl_axes
from matplotlib import lines
from matplotlib import ticker
import numpy as np

from experiment_shell import figure_style
from experiments.three_phase import comparison
from experiments.three_phase import results as results_lib
from fl_clustering.three_phase import gains as gains_lib

Look = dict[str, Any]  # Keywords of a line, such as its colour.

_COLORS = {
    **figure_style.METHOD_COLORS,
    # Two of the colours of clusters, as there are more methods than colours for methods.
    "wine": "#882255",
    "indigo": "#332288",
}
_DOTTED_DASHES = (0, (4, 1, 1, 1))
# Colour, line and marker of known methods, which are the same in every run.
_KNOWN_LOOKS = {
    results_lib.PRETRAIN: ("grey", "-", "."),
    "kmeans": ("blue", "-", "o"),
    "dynamic_distance": ("vermilion", "-", "s"),
    "hierarchical": ("green", "-", "^"),
    "ifca": ("sky blue", "-", "D"),
    "cfl": ("black", "-", "v"),
    "cfl_as_copied": ("yellow", "-", "P"),
    "fesem": ("wine", "-", "X"),
    "pacfl": ("indigo", "-", "*"),
    results_lib.LOCAL: ("orange", "--", "<"),
    results_lib.FINETUNED: ("orange", _DOTTED_DASHES, ">"),
    results_lib.FEDAVG: ("purple", "--", "d"),
    results_lib.FEDAVG_MATCHED: ("purple", _DOTTED_DASHES, "h"),
}
_SPARE_MARKERS = "pH8"
# More clients are shown by a histogram: points would lie on top of each other.
_MAX_POINTS = 500
_BINS = 40  # Of the range from 0 to 1.
_FEW_ROUNDS = 12
_MATCHED_SHOWN = 1.5  # Times the rounds of all others.
# Smaller markers come later, so that all show where they coincide.
_REPRESENTATION_LOOKS: dict[str, Look] = {
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
    "stability": "stability beyond chance",
}
# Criteria that have no score at one cluster: the level is drawn that others must exceed.
_WITH_LEVEL = ("silhouette", "stability")
_SCORE_LOOK: Look = {"color": figure_style.METHOD_COLORS["blue"], "marker": "o", "markersize": 4}
_LEVEL_LOOK: Look = {"color": figure_style.QUIET, "linestyle": ":"}
_CHOICE_LOOK: Look = {
    "color": figure_style.METHOD_COLORS["vermilion"], "marker": "o", "markersize": 11,
    "linestyle": "", "markerfacecolor": "none", "markeredgewidth": 1.8,
}
_USED_LOOK: Look = {
    "color": "#1c1e21", "marker": "o", "linestyle": "", "markerfacecolor": "none",
}


def method_looks(methods: Sequence[str]) -> dict[str, Look]:
  """Returns colour, line style and marker for each method, as keywords of a line.

  A known method always has the same look, and no two methods of a run have the same.
  """
  used = {_KNOWN_LOOKS[method][0] for method in methods if method in _KNOWN_LOOKS}
  # Colours that are not used come first.
  spare = sorted(figure_style.METHOD_COLORS, key=lambda color: color in used)
  others = [method for method in methods if method not in _KNOWN_LOOKS]
  known = dict(_KNOWN_LOOKS)
  for i, method in enumerate(others):
    marker = _SPARE_MARKERS[i % len(_SPARE_MARKERS)]
    known[method] = (spare[i % len(spare)], "-", marker)
  return {
      method: dict(zip(("color", "linestyle", "marker"), (_COLORS[color], line, marker)))
      for method, (color, line, marker) in ((method, known[method]) for method in methods)
  }


def line_looks(methods: Sequence[str]) -> dict[str, Look]:
  """Returns the look of every method's line.

  Methods that agree have the same curve.  Earlier ones are wider, so that they show
  beneath later ones.
  """
  looks = method_looks(methods)
  chosen = [m for m in methods if m not in (results_lib.PRETRAIN, *results_lib.CONTROLS)]
  step = min(0.8, 3 / max(len(chosen), 1))
  for method, look in looks.items():
    later = len(chosen) - 1 - chosen.index(method) if method in chosen else 0
    look["linewidth"] = 1.3 + step * later
    look["markersize"] = 4 + look["linewidth"] / 2
  return looks


def _draw_curve(
    axes: mpl_axes.Axes, places: Sequence[float], values: Sequence[float], look: Look, position: int
) -> None:
  """Draws a line; where it has many points, about eight have a marker.

  Args:
    axes: The axes to draw on.
    places: Positions on the horizontal axis.
    values: The values there.
    look: The line's look.
    position: The line's number, by which its markers are shifted.
  """
  every = 1 if len(places) <= _FEW_ROUNDS else -(-len(places) // 8)
  axes.plot(places, values, **look, markevery=(position % every, every))


def handle(label: str, look: Look) -> lines.Line2D:
  """Returns a line for the legend."""
  return lines.Line2D([], [], **look, label=label)


def method_legend(
    figure: figure_style.Figure, looks: Mapping[str, Look], *handles: lines.Line2D
) -> None:
  """Draws the legend of the methods and of what else there is."""
  of_methods = [handle(results_lib.method_label(method), look) for method, look in looks.items()]
  figure.legend(handles=[*of_methods, *handles], loc="outside lower center", ncols=3)


def _last_round(curves: Mapping[str, tuple[list[int], list[float]]]) -> int:
  """Returns the last round to show; the matched control may have very many."""
  last = {method: rounds[-1] for method, (rounds, _) in curves.items() if rounds}
  matched = last.pop(results_lib.FEDAVG_MATCHED, 0)
  others = max(last.values(), default=0)
  return min(max(matched, others), int(_MATCHED_SHOWN * others))


def learning_curves(results: results_lib.Results) -> figure_style.Figure:
  """Returns the clients' accuracy per round, mean and 10th percentile."""
  start = results.settings["pretrain_rounds"]
  methods = [results_lib.PRETRAIN, *results_lib.ordered_methods(results.summary)]
  looks = line_looks(methods)
  figure = figure_style.new_figure(8.4 + 0.2 * -(-len(methods) // 3))
  panels = figure.subplots(3, 1)
  panel_contents = (
      ("mean over the clients, both phases", "clients_accuracy_mean", 0),
      ("mean over the clients, phase 2 enlarged", "clients_accuracy_mean", start),
      ("10th percentile of the clients, both phases", "clients_accuracy_p10", 0),
  )
  for axes, (title, metric, first) in zip(panels, panel_contents):
    curves = {method: results.curve_from_phase_1(method, metric) for method in methods}
    last = _last_round(curves)
    first = max(first, min(rounds[0] for rounds, _ in curves.values() if rounds))
    for position, (method, (rounds, values)) in enumerate(curves.items()):
      shown = [point for point in zip(rounds, values) if first <= point[0] <= last]
      if shown:
        places, shown_values = zip(*shown)
        _draw_curve(axes, places, shown_values, looks[method], position)
    axes.axvline(start, color=figure_style.QUIET, linewidth=1.2, linestyle=":")
    margin = 0.015 * (last - first) + 0.02
    axes.set_xlim(first - margin, last + margin)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.set_title(title, loc="left")
    axes.set_ylabel("accuracy (share correct)")
    axes.grid(True)
  panels[-1].set_xlabel("round (phase 1, then phase 2)")
  method_legend(figure, looks, handle("phase 2 starts", _LEVEL_LOOK))
  whole, _ = curves.get(results_lib.FEDAVG_MATCHED, ([0], []))
  note = ""
  if whole[-1] > last:
    note = f"FedAvg matched goes on to round {whole[-1]:,}, which is not shown"
  figure_style.set_title(
      figure, results.data_line, "Accuracy on the clients' own test data per round", note
  )
  return figure


def accuracy_by_cost(results: results_lib.Results) -> figure_style.Figure:
  """Returns the clients' mean accuracy over what was sent, and over the steps of SGD."""
  methods = [results_lib.PRETRAIN, *results_lib.ordered_methods(results.summary)]
  looks = line_looks(methods)
  figure = figure_style.new_figure(6.4 + 0.2 * -(-len(methods) // 3))
  panels = figure.subplots(2, 1)
  panel_contents = (
      (("bytes_down", "bytes_up"), "sent to and from the clients", "B"),
      (("client_steps",), "steps of SGD of all clients together", ""),
  )
  for axes, (costs, label, unit) in zip(panels, panel_contents):
    for position, method in enumerate(methods):
      _, values = results.curve(method, "clients_accuracy_mean")
      _draw_curve(axes, results.cost_curve(method, costs), values, looks[method], position)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(ticker.EngFormatter(unit=unit))
    axes.set_xlabel(label)
    axes.set_ylabel("mean accuracy")
    axes.grid(True)
  method_legend(figure, looks)
  figure_style.set_title(
      figure, results.data_line, "Accuracy on the clients' own test data by what it cost"
  )
  return figure


def _draw_points(
    axes: mpl_axes.Axes, position: int, values: np.ndarray, color: str, rng: np.random.Generator
) -> None:
  """Draws a point per client."""
  axes.scatter(
      values, position + rng.uniform(-0.3, 0.3, values.size), color=color, linewidths=0,
      s=22 if values.size <= 20 else 9, alpha=0.2 if values.size > 200 else 0.55,
  )


def _draw_shape(axes: mpl_axes.Axes, position: int, values: np.ndarray, color: str) -> None:
  """Draws a histogram around the row's middle, its highest bar as high as the box."""
  # Bins have their middle at 0, .025, .05 ... 1.
  counts, edges = np.histogram(values, _BINS + 1, (-0.5 / _BINS, 1 + 0.5 / _BINS))
  half = 0.32 * counts / counts.max()
  axes.bar(
      edges[:-1], 2 * half, np.diff(edges), position - half, align="edge", color=color,
      alpha=0.35, linewidth=0,
  )


def _draw_distribution(
    axes: mpl_axes.Axes, position: int, values: np.ndarray, color: str, rng: np.random.Generator
) -> None:
  """Draws one row of `client_accuracy`: points or a histogram, box and mean."""
  if values.size > _MAX_POINTS:
    _draw_shape(axes, position, values, color)
  else:
    _draw_points(axes, position, values, color, rng)
  axes.boxplot(
      values, positions=[position], orientation="horizontal", widths=0.64, whis=(10, 90),
      showfliers=False, manage_ticks=False, boxprops={"color": color},
      whiskerprops={"color": color}, capprops={"color": color},
      medianprops={"color": color, "linewidth": 2.2},
  )
  axes.plot(values.mean(), position, marker="D", markersize=6, color=color,
            markeredgecolor="white")


def _write_numbers(axes: mpl_axes.Axes, rows: Iterable[comparison.Row]) -> None:
  """Writes the comparison's mean and share at target right of every row."""
  for offset, column in ((6, comparison.MEAN), (44, comparison.AT_TARGET)):
    axes.annotate(column.heading, (1, 1), xycoords="axes fraction", xytext=(offset, 4),
                  textcoords="offset points", fontsize=9)
    for position, row in enumerate(rows):
      axes.annotate(row.text(column), (1, position), xycoords=("axes fraction", "data"),
                    xytext=(offset, 0), textcoords="offset points", va="center", fontsize=9)


def _name_rows(axes: mpl_axes.Axes, labels: Sequence[str]) -> None:
  """Names the rows of a figure that has one at every integer, the first at the top."""
  axes.set_yticks(range(len(labels)), labels)
  axes.set_ylim(len(labels) - 0.5, -0.5)
  axes.tick_params(axis="y", length=0)
  axes.spines["left"].set_visible(False)
  axes.grid(True, axis="x")


def client_accuracy(results: results_lib.Results) -> figure_style.Figure:
  """Returns the distribution of the clients' accuracy, one row per method."""
  rows = comparison.comparison_rows(results.summary)
  looks = method_looks([row.method for row in rows])
  figure = figure_style.new_figure(1.7 + (0.62 if len(rows) <= 8 else 0.5) * len(rows))
  axes = figure.add_subplot()
  rng = np.random.default_rng(0)  # Only spreads the points; no number depends on it.
  for position, row in enumerate(rows):
    values = np.array(list(results.client_accuracy(row.method).values()))
    _draw_distribution(axes, position, values, looks[row.method]["color"], rng)
  _write_numbers(axes, rows)
  target = results.settings["target_accuracy"]
  axes.axvline(target, color="#1c1e21", linewidth=1, linestyle=":")
  _name_rows(axes, [row.label for row in rows])
  axes.set_xlim(right=1.01)
  axes.set_xlabel("accuracy on a client's own test data (share correct)")
  shown = "one point per client"
  if results.num_clients > _MAX_POINTS:
    shown = "as histograms"
  figure_style.set_title(
      figure, results.data_line,
      f"Every client's accuracy after phase 1 and after phase 2, {shown}",
      "box: quartiles and median; whiskers: 10th and 90th percentile; diamond: mean; dotted "
      f"line: target accuracy {target:g}",
  )
  return figure


def gains(results: results_lib.Results) -> figure_style.Figure | None:
  """Returns the gain of every method over FedAvg with its interval; None without any."""
  basis = results.summary["comparison"]
  rows = [
      (row.label, row.part["gain"])
      for row in comparison.comparison_rows(results.summary)
      if "gain" in row.part
  ]
  if not rows:
    return None
  figure = figure_style.new_figure(1.6 + 0.36 * len(rows))
  axes = figure.add_subplot()
  axes.axvline(0, color="#1c1e21", linewidth=1)
  for position, (_, gain) in enumerate(rows):
    color = _VERDICT_COLORS[gain["verdict"]]
    if gain["low"] is not None:
      axes.plot(
          [100 * gain["low"], 100 * gain["high"]], [position] * 2, color=color, linewidth=2.4,
          solid_capstyle="butt",
      )
    axes.plot(
        100 * gain["mean"], position, marker="o", markersize=8, color=color,
        markerfacecolor="white" if gain["verdict"] == gains_lib.UNCLEAR else color,
        markeredgewidth=1.8,
    )
    axes.annotate(
        f"{comparison.points(gain['mean'])}  {comparison.VERDICTS[gain['verdict']]}",
        (1.02, position), va="center", xycoords=("axes fraction", "data"), fontsize=9,
    )
  _name_rows(axes, [label for label, _ in rows])
  axes.set_xlabel("gain over FedAvg in percentage points of accuracy")
  note = ""
  if not basis["control_repeats"]:
    note = "about these trained models only: the intervals leave out the chance in training"
  figure_style.set_title(
      figure, results.data_line,
      f"Gain in the clients' mean accuracy over FedAvg, with {basis['level']:.0%} intervals "
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
    _draw_criterion(axes, own_rows, criterion in _WITH_LEVEL)
    choice = next(row["num_clusters"] for row in own_rows if row["chosen"])
    is_used = criterion == results.settings["num_clusters_criterion"]
    axes.set_title(f"{criterion}: {choice}{' (used by this run)' if is_used else ''}", loc="left")
    axes.set_ylabel(_CRITERION_SCORES.get(criterion, "score"))
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.margins(x=0.04, y=0.16)
    axes.grid(True)
  panels[-1].set_xlabel("number of clusters")
  handles = [
      handle("score", _SCORE_LOOK),
      handle("least score for more than one cluster", _LEVEL_LOOK),
      handle("choice", _CHOICE_LOOK),
  ]
  figure.legend(handles=handles, loc="outside lower center", ncols=3)
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
    axes.set_title(results_lib.method_label(grouping), loc="left")
    axes.set_xticks(range(len(epochs)), epochs)
    axes.set_xlim(-0.3, len(epochs) - 0.7)
    axes.set_ylim(min(-0.05, lowest - 0.05), 1.09)
    axes.grid(True)
  for axes in panels[-2:]:
    axes.set_xlabel("local epochs before grouping")
  for axes in panels[::2]:
    axes.set_ylabel("adjusted Rand index")
  handles = [
      handle(representation.replace("_", " "), look)
      for representation, look in _REPRESENTATION_LOOKS.items()
  ]
  handles.append(handle("used by this run", {**_USED_LOOK, "markersize": 12}))
  figure.legend(handles=handles, loc="outside lower center", ncols=4)
  figure_style.set_title(
      figure, results.data_line,
      "How well each grouping finds the true groups (1: exactly, 0: by chance)",
  )
  return figure
