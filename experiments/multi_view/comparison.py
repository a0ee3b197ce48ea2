"""Federated multi-view k-means against its alternatives, on data sets or the user's own sites.

A cell is a data set, a partition of its points over clients, a seed, a method, and the view of a
method that sees only one.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping, TYPE_CHECKING

from matplotlib import ticker
import numpy as np

from clustering_basics import randomness
from experiment_shell import figure_shapes
from experiment_shell import figure_style
from experiment_shell import tidy_experiment
from experiments.multi_view import config as config_lib
from experiments.multi_view import data as data_lib
from experiments.multi_view import methods
from experiments.multi_view import simulated_dha
from experiments.multi_view import summary
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tasks import shares as shares_lib

if TYPE_CHECKING:
  from matplotlib.axes import Axes
  import pandas as pd

_KEYS = {"dataset": str, "partition": str, "seed": int, "method": str, "view": str}
_IID, _DIRICHLET = "IID", "Dirichlet"
# The partition of the user's own rows.
AS_GIVEN = "as given"

Datasets = Mapping[str, data_lib.MultiViewData]


def _load(
    config: config_lib.MultiViewStudyConfig, stack: contextlib.ExitStack, *,
    features_dir: str | None = None, data_dir: str | None = None,
    schemas: schema_lib.Schemas | None = None,
    advice: contextlib.AbstractContextManager[None] = contextlib.nullcontext(),
) -> tidy_experiment.Inputs:
  """Loads the data.

  Args:
    data_dir: Folder of the user's own sites, instead of data sets.
    schemas: What their views hold.
    advice: Adds to the errors of their files what the user can do.
  """
  del stack
  if data_dir is None:
    datasets = data_lib.load(config.datasets, features_dir)
  else:
    with advice:
      own = data_lib.load_folder(data_dir, schemas or {}, config.num_clusters)
    datasets = {own.name: own}
  return tidy_experiment.Inputs(
      datasets,
      identity=data_lib.describe(datasets.values()),
      lines=tuple(f"data: {one.source}" for one in datasets.values()),
  )


def _cells_of_data(
    data: data_lib.MultiViewData, config: config_lib.MultiViewStudyConfig
) -> Iterator[tuple[Any, ...]]:
  partitions = (AS_GIVEN,) if data.clients else (_IID, _DIRICHLET)
  for seed in config.seeds:
    for name, method in methods.METHODS.items():
      if method.needs_labels and data.labels is None:
        continue
      for partition in (summary.POOLED,) if method.place == "central" else partitions:
        for view in data.views if method.by_view else (methods.ALL_VIEWS,):
          yield data.name, partition, seed, name, view


def cells(config: config_lib.MultiViewStudyConfig, datasets: Datasets) -> list[dict[str, Any]]:
  """Returns what is measured, in this order."""
  found = [cell for one in datasets.values() for cell in _cells_of_data(one, config)]
  if data_lib.DEMONSTRATION in config.datasets:  # The tutorial's own seed first.
    found += [
        (data_lib.DEMONSTRATION, AS_GIVEN, simulated_dha.SOURCE_SEED + i, method, methods.ALL_VIEWS)
        for i in range(config.num_seeds) for method in simulated_dha.METHODS
    ]
  return [dict(zip(_KEYS, cell)) for cell in found]


def _shares(
    data: data_lib.MultiViewData, partition: str, config: config_lib.MultiViewStudyConfig,
    seed: int,
) -> dict[str, np.ndarray]:
  """Returns the indices of every client's points."""
  if partition in (AS_GIVEN, summary.POOLED):
    return data.clients or {"all": np.arange(data.num_points)}
  labels = np.asarray(data.labels)  # Data without classes are split already.
  rng = randomness.generator(seed, f"multi-view clients: {partition}")
  if partition == _IID:
    shares = shares_lib.iid_shares(labels, config.num_clients, rng)
  else:
    shares = shares_lib.dirichlet_shares(labels, config.num_clients, rng, config.dirichlet_alpha)
  return {f"client_{index}": share for index, share in enumerate(shares)}


def _outcome(
    config: config_lib.MultiViewStudyConfig, datasets: Datasets, dataset: str, partition: str,
    seed: int, method: str, view: str,
) -> methods.Outcome:
  settings = config.method_settings
  if dataset == data_lib.DEMONSTRATION:
    return simulated_dha.METHODS[method].run(simulated_dha.draw(seed, settings))
  data = datasets[dataset]
  problem = methods.Problem(
      data.views, data.labels, _shares(data, partition, config, seed), data.num_clusters, seed,
      settings, data.field_widths,
  )
  row = methods.METHODS[method]
  return row.run(problem, view) if row.by_view else row.run(problem)


def tidy_rows(outcome: methods.Outcome) -> dict[str, list[dict[str, Any]]]:
  """Returns the rows of a cell: its scores, and the details of a multi-view fit."""
  return {
      tidy_experiment.RESULTS: [
          {"metric": name, "value": value} for name, value in outcome.numbers.items()
      ],
      summary.ROUNDS: [
          {"round": index, "metric": "objective", "value": value}
          for index, value in enumerate(outcome.objectives)
      ],
      summary.WEIGHTS: [
          {"weighed": view, "metric": "weight", "value": weight}
          for view, weight in outcome.view_weights.items()
      ],
      summary.POINTS: [
          {"class": label, "cluster": cluster, "metric": "points", "value": count}
          for (label, cluster), count in np.ndenumerate(outcome.points)
      ],
  }


def _measure(
    whole: tidy_experiment.Run, dataset: str, **others: Any
) -> dict[str, list[dict[str, Any]]]:
  return tidy_rows(_outcome(whole.config, whole.data, dataset, **others))


_COLORS = figure_style.METHOD_COLORS
_LOOKS: dict[str, dict[str, Any]] = {
    methods.RULES["equal"]: {"color": _COLORS["blue"], "marker": "o", "markerfacecolor": "none"},
    methods.RULES["mvkm"]: {"color": _COLORS["vermilion"], "marker": "s"},
    methods.RULES["regret"]: {"color": _COLORS["green"], "marker": "^"},
}
# Of the rules' weights from the middle of their row.
_SHIFTS = (-0.22, 0.0, 0.22)
# Names of more classes would overlap.
_MOST_NAMED = 24
_MOST_CHARACTERS = 20
# Inches of a character of a class's name, of a digit, and of what else is beside two panels.
_CHARACTER, _DIGIT, _BESIDE = 0.075, 0.065, 0.5


def _draw_objectives(frame: pd.DataFrame, axes: Axes) -> None:
  """Draws a line for every rule and seed."""
  for (method, _), fit in frame.groupby(["method", "seed"], sort=False):
    axes.plot(
        fit["round"], fit["excess"], label=method, color=_LOOKS[method]["color"], linewidth=1.1,
        marker=".", markersize=3,
    )
  axes.set_yscale("log")
  axes.xaxis.set_major_locator(ticker.MaxNLocator(4, integer=True))
  axes.grid(True)
  axes.set_xlabel("round")
  axes.set_ylabel("above its last value\n(share of it)")


def _draw_weights(frame: pd.DataFrame, axes: Axes) -> None:
  views = list(frame["weighed"].unique())
  figure_shapes.set_rows(axes, [figure_style.shortened(view, 28) for view in views])
  for shift, (method, look) in zip(_SHIFTS, _LOOKS.items()):
    own = frame[frame["method"] == method].rename(columns={"weighed": "row"})
    figure_shapes.dots(
        axes, views, own, shift, markersize=5.5, markeredgewidth=1.4, label=method, **look
    )
  alone = frame.drop_duplicates("weighed")["nmi alone"]
  if alone.notna().all():
    figure_shapes.write_beside(axes, map("{:.2f}".format, alone), "nmi alone")
  axes.set_xlim(0, 1.08 * frame[["mean", "high"]].max(axis=None))
  axes.tick_params(axis="y", length=0)
  axes.set_xlabel("weight of the view")


def _height_of_weights(frame: pd.DataFrame) -> float:
  return 0.7 + 0.3 * frame.groupby("dataset")["weighed"].nunique().max()


def _draw_confusion(frame: pd.DataFrame, axes: Axes) -> None:
  classes, clusters = frame["class"].unique(), frame["cluster"].unique()
  points = frame.pivot(index="class", columns="cluster", values="points").loc[classes, clusters]
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


FIGURES = (
    tidy_experiment.Figure(
        "confusion", "Percent of each class in each cluster (seed {seed})",
        "A good clustering has all points of a class in one cluster: a dark diagonal and nothing "
        "beside it. Clusters are in the order that puts most points there. Of several partitions, "
        "clients are those of the most skewed one. Regret weights are left out.",
        _draw_confusion, panels="panel",
    ),
    tidy_experiment.Figure(
        "weights", "Weight of each view, mean ± deviation (seeds: {num_seeds})",
        "A view of small weight hardly counts. A rule that helps gives weight to views with a high "
        "score alone, if there is one beside them. A short bar is hidden by its mark; one seed has "
        "none.",
        _draw_weights, panels="dataset", columns=1, height=_height_of_weights,
    ),
    tidy_experiment.Figure(
        "objectives", "The objective falls with every round (lines: seeds)",
        "Every line is one fit and ends before its last round: the steeper the line, the fewer "
        "rounds are needed; equal ones lie on each other. A round is the same however the points "
        "are split over the clients. Regret weights are left out, as their objective rises when "
        "the weights become less equal.",
        _draw_objectives, panels="dataset",
    ),
)


EXPERIMENT = tidy_experiment.Experiment(
    name="multi_view",
    title="Federated multi-view k-means",
    keys=_KEYS,
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=summary.summarise,
    headlines=summary.HEADLINES,
    tables=(*summary.TABLES, summary.DATASETS),
    figures=FIGURES,
    reading=summary.READING,
    tidy={
        tidy_experiment.RESULTS: {},
        summary.ROUNDS: {"round": int},
        summary.WEIGHTS: {"weighed": str},
        summary.POINTS: {"class": int, "cluster": int},
    },
    versions_of=("numpy", "scikit-learn", "scipy"),
    rechecks_finished=True,
)
