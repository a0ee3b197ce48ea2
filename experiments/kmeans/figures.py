"""The papers' figures, drawn from our measurements."""

from __future__ import annotations

from typing import Any, Sequence, TYPE_CHECKING

import numpy as np
import pandas as pd

from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import scores as scores_lib
from experiments.kmeans import cells
from experiments.kmeans import data
from experiments.kmeans import methods
from experiments.kmeans import results

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  from matplotlib.figure import Figure

# In the order of drawing: the best come last, on top.
_NOISE_METHODS = tuple(reversed(cells.COMPARED))
_BETA_MARKERS = dict(zip(data.BETAS, "osD"))


def _color(method: str) -> str:
  return figure_style.METHOD_COLORS[methods.METHODS[method].color]


def _labels(compared: Sequence[str]) -> list[str]:
  return [methods.METHODS[method].label for method in compared]


def _seeds(scores: scores_lib.Scores) -> str:
  return f"{len(scores.repetitions)} seeds" if len(scores.repetitions) > 1 else "one seed"


def _scatter_clients(axes: Axes, clients: data.LabelledClients, title: str) -> None:
  for points, color in zip(clients.points.values(), figure_style.CATEGORY_COLORS):
    axes.scatter(points[:, 0], points[:, 1], s=4, color=color, linewidths=0)
  axes.scatter(
      data.CENTERS[:, 0], data.CENTERS[:, 1], s=16, marker="+", color="black", linewidths=0.8
  )
  axes.set_title(title, loc="left")
  axes.set_aspect("equal")
  axes.set_xticks([])
  axes.set_yticks([])


def _draw_scores(
    axes: Axes, scores: scores_lib.Scores, name: str, column: str, compared: Sequence[str],
    margin: float | None = 0.6, **look: Any,
) -> None:
  """Draws a row per method: mean and standard deviation of a column, an index of at most 1."""
  found = scores_lib.spread_table(
      ({"row": methods.METHODS[method].label, "color": _color(method)},
       scores.spread(column, name, method))
      for method in compared
  )
  rows = _labels(compared)
  figure_shapes.set_rows(axes, rows, margin)
  figure_shapes.dots(
      axes, rows, figure_shapes.with_deviations(found, most=1.0),
      **{"capsize": 3, "markersize": 5, **look},
  )


def regular(scores: scores_lib.Scores) -> Figure:
  """Figure 1: who has which points, and the scores."""
  figure = figure_style.new_figure(6.2)
  halves: Any = figure.subfigures(2, 1, height_ratios=(1, 1.45))
  top, bottom = halves
  for axes, beta in zip(top.subplots(1, 3), data.BETAS):
    clients = data.draw_grid(beta, 50, 1.0, scores.repetitions[0])
    _scatter_clients(axes, clients, f"beta {beta:g}")
  axes = bottom.subplots()
  compared = results.methods_of(scores, data.grid_name(0.1, 50, 1.0))
  for index, (beta, marker) in enumerate(_BETA_MARKERS.items()):
    _draw_scores(
        axes, scores, data.grid_name(beta, 50, 1.0), "ari", compared, margin=None,
        shift=0.22 * (index - 1), marker=marker, capsize=2,
    )
  axes.set_xlabel("adjusted Rand index, all points")
  figure_shapes.legend(axes, {
      f"beta {beta:g}": {"color": figure_style.QUIET, "marker": marker, "linestyle": ""}
      for beta, marker in _BETA_MARKERS.items()
  }, ncols=1, loc="lower left")
  figure_style.set_title(
      figure, f"16 clusters of 50 points, noise 1, five clients, {_seeds(scores)}",
      "Who has which points, and how well the clusters are found",
  )
  return figure


def noisy_data(scores: scores_lib.Scores) -> Figure:
  """Figure 2: the data with more noise."""
  figure = figure_style.new_figure(4.6)
  panels = figure.subplots(2, 3)
  for row, points in zip(panels, (50, 200)):
    for axes, noise in zip(row, (1.0, 1.3, 1.5)):
      clients = data.draw_grid(1.0, points, noise, scores.repetitions[0])
      _scatter_clients(axes, clients, f"{points} points, noise {noise:g}")
  figure_style.set_title(
      figure, "16 clusters, five clients (colours), beta 1", "The points, with more and more noise"
  )
  return figure


def noise(scores: scores_lib.Scores) -> Figure:
  """Figures 3a-c and 6: the scores over the noise."""
  figure = figure_style.new_figure(8.4)
  panels = figure.subplots(3, 3, sharex=True, sharey=True)
  looks = {
      method: {
          "color": _color(method), "marker": "o", "markersize": 3,
          "label": methods.METHODS[method].label,
          "linestyle": "--" if method == methods.CENTRAL else "-",
      }
      for method in _NOISE_METHODS
  }
  for row, points in zip(panels, data.POINTS):
    for axes, beta in zip(row, data.BETAS):
      found = scores_lib.spread_table(
          ({"noise": noise, "method": method},
           scores.spread("ari", data.grid_name(beta, points, noise), method))
          for method in _NOISE_METHODS for noise in data.NOISES
      )
      for method, look in looks.items():
        figure_shapes.lines(axes, found, "noise", "method", {method: look})
        published = results.PUBLISHED_ARI.get(method, {}) if points == 50 else {}
        axes.plot(
            [noise for (b, noise) in published if b == beta],
            [value for (b, _), value in published.items() if b == beta],
            "x", color=_color(method), markersize=7, markeredgewidth=1.8,
        )
      axes.set_title(f"{points} points, beta {beta:g}", loc="left")
      axes.grid(True)
  figure_shapes.label_edges(panels, "noise", "adjusted Rand index")
  figure_shapes.legend(figure, looks)
  figure_style.set_title(
      figure, f"16 clusters, five clients, {_seeds(scores)}; bands: the middle half",
      "How well the clusters are found, over noise",
      "Crosses: the paper's means (averaged over clients), where it prints them.",
  )
  return figure


def rounds(scores: scores_lib.Scores) -> Figure:
  """Figure 3d-f: the score after every round."""
  figure = figure_style.new_figure(5.2)
  panels = figure.subplots(2, 3, sharex=True, sharey=True)
  shades = dict(zip(data.NOISES, np.linspace(0.95, 0.25, len(data.NOISES))))
  for row, method in zip(panels, ("fkm", methods.DEFAULT)):
    for axes, beta in zip(row, data.BETAS):
      for noise, shade in shades.items():
        path = results.ari_by_round(scores, data.grid_name(beta, 50, noise), method)
        axes.plot(
            range(1, len(path) + 1), path, color=_color(method), alpha=shade, marker="o",
            markersize=2,
        )
      axes.set_title(f"{methods.METHODS[method].label}, beta {beta:g}", loc="left")
      axes.xaxis.get_major_locator().set_params(integer=True)
      axes.grid(True)
  figure_shapes.label_edges(panels, "round", "adjusted Rand index")
  figure_shapes.legend(figure, {
      f"noise {noise:g}": {"color": "black", "alpha": shade, "marker": "o", "markersize": 3}
      for noise, shade in shades.items()
  })
  figure_style.set_title(
      figure, f"16 clusters of 50 points, five clients, mean of {_seeds(scores)}",
      "How well the clusters are found after every round",
  )
  return figure


def extreme(scores: scores_lib.Scores) -> Figure:
  """Figure 4: the extreme split."""
  figure = figure_style.new_figure(5.6)
  halves: Any = figure.subfigures(2, 1, height_ratios=(1, 2.1))
  top, bottom = halves
  clients = data.draw_extreme(1.0, scores.repetitions[0])
  for axes, color, (client_id, points) in zip(
      top.subplots(1, len(clients.points)), figure_style.CATEGORY_COLORS, clients.points.items()
  ):
    axes.scatter(points[:, 0], points[:, 1], s=3, color=color, linewidths=0)
    num_clusters = len(np.unique(clients.labels[client_id]))
    axes.set_title(f"{num_clusters} clusters" if num_clusters > 1 else "1 cluster", loc="left")
    axes.set(xlim=(-12, 12), ylim=(-12, 12), xticks=[], yticks=[], aspect="equal")
  for axes, noise_std in zip(bottom.subplots(1, 2, sharey=True), data.EXTREME_NOISES):
    name = data.extreme_name(noise_std)
    _draw_scores(axes, scores, name, "ari", results.methods_of(scores, name))
    axes.set_title(f"noise {noise_std:g}", loc="left")
    axes.set_xlabel("adjusted Rand index")
  figure_style.set_title(
      figure, f"Each panel above is a client; {_seeds(scores)}", "The extreme split"
  )
  return figure


def real(scores: scores_lib.Scores) -> Figure:
  """Figure 5: silhouettes on real data."""
  figure = figure_style.new_figure(3.4)
  compared = results.methods_of(scores, data.REAL)
  panels = figure.subplots(1, 2, sharey=True)
  for axes, column in zip(panels, ("silhouette", "simplified_silhouette")):
    _draw_scores(axes, scores, data.REAL, column, compared)
    axes.set_title(column.replace("_", " "), loc="left")
  figure_style.set_title(
      figure, f"Digits at ten clients, K = {data.DIGIT_CLUSTERS}, {_seeds(scores)}",
      "Silhouettes on real data",
  )
  return figure


def sse(scores: scores_lib.Scores) -> Figure:
  """The child/parent table: inertia over central."""
  figure = figure_style.new_figure(5.6)
  compared = [method for method in cells.TABLE_METHODS if method != methods.CENTRAL]
  rows = _labels(compared)
  for axes, name in zip(figure_style.panel_grid(figure, len(data.TABLES)), data.TABLES):
    found = pd.DataFrame([
        {"row": label, "color": _color(method), "mean": value}
        for method, label in zip(compared, rows)
        for value in scores.values(results.EXCESS, data.table_name(name), method)
    ])
    means = found.groupby(["row", "color"], as_index=False).mean()
    figure_shapes.set_rows(axes, rows, margin=None)
    figure_shapes.dots(axes, rows, found, markersize=4, alpha=0.6, markeredgewidth=0)
    figure_shapes.dots(axes, rows, means, marker="D", markersize=7)
    axes.axvline(0, color=figure_style.QUIET, linewidth=1, zorder=0)
    axes.margins(x=0.1)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel("% over central")
    axes.set_title(name.replace("_", " "), loc="left")
  figure_style.set_title(
      figure, f"{data.TABLE_CLIENTS} clients by label skew, {_seeds(scores)} (dots; "
      "diamonds: means)", "Sum of squared errors over that of central k-means",
  )
  return figure


def privacy(scores: scores_lib.Scores) -> Figure:
  """The loss of private fits over epsilon."""
  figure = figure_style.new_figure(4.4)
  panels = figure.subplots(1, 2, sharey=True)
  true_centers = methods.METHODS[methods.TRUE_CENTERS]
  looks = {
      key: {
          "color": figure_style.METHOD_COLORS[kind.color], "marker": "o", "markersize": 4,
          "label": kind.label,
      }
      for key, kind in methods.PRIVATE.items()
  }
  for axes, noise_std in zip(panels, data.PRIVATE_NOISES):
    name = data.private_grid_name(noise_std)
    found = scores_lib.spread_table(
        ({"epsilon": epsilon, "kind": key},
         scores.spread(results.EXCESS, name, methods.private_name(key, epsilon)))
        for key in methods.PRIVATE for epsilon in methods.EPSILONS
    )
    figure_shapes.lines(axes, found, "epsilon", "kind", looks)
    axes.axhline(
        np.mean(scores.values(results.EXCESS, name, methods.TRUE_CENTERS)),
        color=_color(methods.TRUE_CENTERS), linestyle="--", linewidth=1, label=true_centers.label,
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(methods.EPSILONS, [f"{epsilon:g}" for epsilon in methods.EPSILONS])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("epsilon")
    axes.set_title(f"noise {noise_std:g}", loc="left")
    axes.grid(True)
  panels[0].set_ylabel("inertia over central, %")
  figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
  num_points = len(data.CENTERS) * data.PRIVATE_POINTS
  figure_style.set_title(
      figure, f"{num_points:,} points, 16 clusters, five clients, {_seeds(scores)}; bands: the "
      "middle half", "What privacy costs over central k-means without privacy",
  )
  return figure
