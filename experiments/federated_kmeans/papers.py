"""The papers' study: how close federated k-means comes to k-means on all points."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, TYPE_CHECKING

import numpy as np
from sklearn import metrics

from clustering_basics import agreement
from clustering_basics import single_thread_kmeans
from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.federated_kmeans import config as config_lib
from experiments.federated_kmeans import data as data_lib
from experiments.federated_kmeans import methods
from experiments.federated_kmeans import summary

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  import pandas as pd


def _load(
    config: config_lib.PaperConfig, stack: contextlib.ExitStack, *, cache_dir: str | None = None
) -> tidy_experiment.Inputs:
  """Finds the data; `cache_dir` is TFF's cache folder, or None."""
  described = data_lib.describe(config, cache_dir)
  # For so few points scikit-learn's several threads are ten times slower where other programs run,
  # too, and add up in an order that changes from run to run.
  stack.enter_context(single_thread_kmeans.one_thread())
  return tidy_experiment.Inputs(
      data_lib.build_draw(described.get("dataset"), cache_dir),
      identity={"data": described},
      lines=tuple(f"data: {what}: {source}" for what, source in described.items()),
  )


def cells(config: config_lib.PaperConfig, unused_draw: Any = None) -> list[dict[str, Any]]:
  """Returns what is measured, each once though several figures show it."""
  found = {
      (data, seed, method): None
      for figure in config.figures for data, compared in methods.FIGURES[figure].items()
      for seed in config.seeds for method in compared
  }
  return [dict(zip(EXPERIMENT.keys, cell)) for cell in found]


def _scores(
    clients: data_lib.LabelledClients, found: methods.Found, with_silhouette: bool
) -> Iterator[tuple[str, float | None]]:
  points, labels = clients.pooled_points, clients.pooled_labels
  own, other = np.sort(metrics.pairwise_distances(points, found.centroids), axis=1)[:, :2].T
  owners = methods.nearest(points, found.centroids)
  yield "ari", agreement.adjusted_rand_index(labels, owners)
  of_clients = [
      agreement.adjusted_rand_index(clients.labels[name], methods.nearest(rows, found.centroids))
      for name, rows in clients.points.items()
  ]
  sizes = list(map(len, clients.points.values()))
  yield "client_ari", float(np.average(of_clients, weights=sizes))
  yield "inertia", (own**2).sum()
  # It needs the distances of all pairs of points, so most data go without.
  yield "silhouette", metrics.silhouette_score(points, owners) if with_silhouette else None
  yield "simplified_silhouette", float(np.mean((other - own) / np.maximum(other, 1e-300)))
  yield "rounds", len(found.by_round) or None
  for name in ("bytes_down_per_client", "bytes_up_per_client", "local_clusters"):
    yield name, getattr(found, name)


def _measure(
    whole: tidy_experiment.Run, data: str, seed: int, method: str
) -> dict[str, list[dict[str, Any]]]:
  """Returns the scores, which are exact, and those after every round."""
  clients = whole.data(data, seed)
  found = methods.METHODS[method].run(clients, seed)
  is_shown = "rounds" in whole.config.figures and method in methods.FIGURES["rounds"].get(data, ())
  return {
      tidy_experiment.RESULTS: [
          {"metric": metric, "value": float(value)}
          for metric, value in _scores(clients, found, data == data_lib.REAL) if value is not None
      ],
      summary.BY_ROUND: [
          {"round": number, "metric": "ari", "value": agreement.adjusted_rand_index(
              clients.pooled_labels, methods.nearest(clients.pooled_points, centroids)
          )}
          for number, centroids in enumerate(found.by_round if is_shown else (), start=1)
      ],
  }


# Dashed is what no federated method can be expected to exceed.
_LOOKS: dict[str, dict[str, Any]] = {
    one.label: {
        "color": figure_style.METHOD_COLORS[one.color], "marker": "o", "markersize": 3,
        "linestyle": "--" if name == methods.CENTRAL else "-",
    }
    for name, one in methods.METHODS.items() if one.color is not None
}


def _draw_dots(frame: pd.DataFrame, axes: Axes) -> None:
  """Draws a row per method, with a mark for each value of the column `of`."""
  rows, series = list(frame["method"].unique()), frame["of"].unique()
  figure_shapes.set_rows(axes, rows)
  marked = frame.assign(
      row=frame["method"], color=[_LOOKS[method]["color"] for method in frame["method"]]
  )
  for of, marker, shift in zip(series, "os", (-0.1, 0.1)):
    figure_shapes.dots(
        axes, rows, marked[marked["of"] == of], shift, marker=marker, markersize=4, capsize=2
    )
    axes.plot([], [], marker, color=figure_style.QUIET, label=of)
  axes.set_xlabel("adjusted Rand index, all points")


def _draw_over_noise(frame: pd.DataFrame, axes: Axes) -> None:
  figure_shapes.lines(axes, frame, "noise", "method", _LOOKS)
  for method, own in frame.groupby("method", sort=False):
    color = _LOOKS[str(method)]["color"]
    axes.plot(own["noise"], own["paper"], "x", color=color, markersize=7, markeredgewidth=1.8)
  axes.set_ylim(min(0.3, frame["low"].min()), 1)
  axes.grid(True)
  axes.set_xlabel("noise")
  axes.set_ylabel("adjusted Rand index")


def _draw_rounds(frame: pd.DataFrame, axes: Axes) -> None:
  color = _LOOKS[frame["method"].iloc[0]]["color"]
  shades = dict(zip(data_lib.NOISES, np.linspace(0.95, 0.25, len(data_lib.NOISES))))
  for noise, shade in shades.items():
    own = frame[frame["noise"] == noise]
    look = {"alpha": shade, "marker": "o", "markersize": 2}
    axes.plot(own["round"], own["ari"], color=color, **look)
    axes.plot([], [], color="black", label=f"noise {noise:g}", **look)
  axes.set_xlim(0, max(31, frame["round"].max() + 1))
  axes.set_ylim(0, 1)
  axes.grid(True)
  axes.set_xlabel("round")
  axes.set_ylabel("adjusted Rand index")


_SEEDS = "seeds: {num_seeds}"

_FIGURES = (
    tidy_experiment.Figure(
        "noise", f"Figures 3a-c and 6: adjusted Rand index over noise; mean ± sd, {_SEEDS}",
        "The grey dashed line is k-means on all points, the best that can be expected. Of lines "
        "that lie on each other, only the last is seen; differences below 0.005 are noise. "
        "Crosses: the paper's means, averaged over clients, where it prints them.",
        _draw_over_noise, panels="panel",
    ),
    tidy_experiment.Figure(
        "rounds", f"Figure 3d-f: adjusted Rand index by round; mean, {_SEEDS}",
        "The lighter the line, the noisier the data. FKM's server starts afresh in every round, so "
        "nothing tells it when to stop. The default sees totals only, so it is the same for every "
        "beta. It splits one cluster into 48, merges them to 16, and then adds and drops some in "
        "turns; rounds with more clusters score lower. It stops once its inertia no longer falls.",
        _draw_rounds, panels="panel",
    ),
    tidy_experiment.Figure(
        "extreme", f"Figure 4: extreme split; mean ± sd, {_SEEDS}",
        "A wide bar means that some runs miss a cluster; a narrow one well left of central "
        "k-means, that all do.", _draw_dots, height=3.6,
    ),
)


EXPERIMENT = tidy_experiment.Experiment(
    name="federated_kmeans",
    title="Federated k-means: the papers' experiments",
    keys={"data": str, "seed": int, "method": str},
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=summary.TABLES,
    figures=_FIGURES,
    reading=summary.READING,
    tidy={tidy_experiment.RESULTS: {}, summary.BY_ROUND: {"round": int}},
    versions_of=("numpy", "scikit-learn"),
)
