"""The demo's sweeps: loss and quality of private clustering over k, and over epsilon.

The centers are private.  Loss and quality are not: they are computed exactly.
"""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any, Mapping, TYPE_CHECKING
import warnings

import numpy as np
import pandas as pd

from dp_clustering import clustering
from dp_clustering import clustering_params
from dp_clustering.demo import config as config_lib
from dp_clustering.demo import data_generation
from experiment_shell import figure_style
from experiment_shell import frames
from experiment_shell import tidy_experiment

if TYPE_CHECKING:
  from matplotlib.axes import Axes

_KEYS = {"varies": str, "k": int, "epsilon": float}
_LOSS, _TRUE_LOSS = "loss_per_point", "true_loss_per_point"
# Where markers coincide, later ones are on top.
_QUALITIES = ("dominant_label_accuracy", "true_nonmatch_frac", "false_match_frac")
# From a panel to the metrics that it shows.
_PANELS = {"loss per point": (_LOSS, _TRUE_LOSS), "agreement with the true clusters": _QUALITIES}
_LOSS_COLOR, *_COLORS = figure_style.CATEGORY_COLORS
_LOOKS: dict[str, dict[str, Any]] = {
    _LOSS: {"color": _LOSS_COLOR, "marker": "D"},
    _TRUE_LOSS: {"color": figure_style.QUIET, "linestyle": ":"},
    **{
        name: {"color": color, "marker": marker, "markersize": size, "linewidth": size / 3}
        for name, color, marker, size in zip(_QUALITIES, _COLORS, "os^", (8, 7, 4.5))
    },
}
_MOST_TICKS = 10


def _loss_of_true_clusters(data: clustering_params.Data) -> float:
  """Returns the loss per point with the means of the true clusters.  Not private."""
  assert data.labels is not None  # They are generated.
  loss = 0.0
  for label in np.unique(data.labels):
    members = data.datapoints[data.labels == label]
    loss += ((members - members.mean(axis=0)) ** 2).sum()
  return loss / data.num_points


def _load(config: config_lib.DemoConfig, stack: contextlib.ExitStack) -> tidy_experiment.Inputs:
  del stack
  try:
    data = data_generation.generate_synthetic_dataset(
        config.num_points, config.dim, config.num_clusters, config.cluster_ratio, config.radius,
        np.random.default_rng(config.seed or 0),
    )
  except MemoryError as e:
    raise ValueError(f"`num_points` and `dim` must fit into memory, got {e}.") from e
  return tidy_experiment.Inputs((data, _loss_of_true_clusters(data)))


def cells(config: config_lib.DemoConfig, unused_data: Any = None) -> list[dict[str, Any]]:
  """Returns what is measured, each once: first k varies, then epsilon."""
  found = [("k", k, config.fixed_epsilon) for k in config.k_to_try]
  found += [("epsilon", config.fixed_k, epsilon) for epsilon in config.epsilon_to_try]
  return [dict(zip(_KEYS, cell)) for cell in dict.fromkeys(found)]


def _measure(
    whole: tidy_experiment.Run, varies: str, k: int, epsilon: float
) -> dict[str, list[dict[str, Any]]]:
  """Returns loss and quality of one clustering, and where its noise is from."""
  del varies
  config, (data, true_loss) = whole.config, whole.data
  with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # The table says what is not private.
    result = clustering.METHODS[config.method](
        k, data, clustering_params.DifferentialPrivacyParam(epsilon, config_lib.DELTA),
        random_state=config.seed,
    )
  assert result.loss is not None and result.ledger is not None
  found = result.get_clustering_metrics()
  numbers = {
      _LOSS: result.loss / data.num_points, _TRUE_LOSS: true_loss,
      **{name: getattr(found, name) for name in _QUALITIES},
  }
  noise = result.ledger.noise_source
  return {
      tidy_experiment.RESULTS: [
          {"noise": noise, "metric": name, "value": value} for name, value in numbers.items()
      ]
  }


def _summarise(
    tidy: Mapping[str, Any], unused_document: Mapping[str, Any]
) -> dict[str, pd.DataFrame]:
  wide = frames.wide(tidy[tidy_experiment.RESULTS], [*_KEYS, "noise"])
  found = {"headline": pd.DataFrame(), "noise": wide[["noise"]].drop_duplicates()}
  for varies in ("k", "epsilon"):
    rows = wide[wide["varies"] == varies].sort_values(varies)
    found[f"over_{varies}"] = rows.drop(columns={*_KEYS, "noise"} - {varies})
    found[f"loss_over_{varies}"] = pd.concat([
        pd.DataFrame({"panel": panel, "line": name, "x": rows[varies], "y": rows[name]})
        for panel, names in _PANELS.items() for name in names
    ])
  return found


def draw(label: str, frame: pd.DataFrame, axes: Axes) -> None:
  """Draws the lines of a panel.

  Args:
    label: Of the axis of what varies.
    frame: With `line`, `x` in ascending order, and `y`.
  """
  values = frame["x"].unique().tolist()
  # A logarithmic axis has no place for infinity, so it comes after the rest.
  largest = max(filter(math.isfinite, values), default=1)
  places = {value: value if math.isfinite(value) else 2 * largest for value in values}
  for name, rows in frame.groupby("line", sort=False):
    text = str(name).replace("_", " ")
    axes.plot(rows["x"].map(places), rows["y"], label=text, **_LOOKS[str(name)])
  top = 1 if set(frame["line"]) <= set(_QUALITIES) else frame["y"].max()
  axes.set_ylim(-0.04 * top, 1.08 * top)
  axes.set_xscale("log")
  shown = figure_style.evenly_spaced(values, _MOST_TICKS)
  axes.set_xticks(
      [places[value] for value in shown],
      [f"{value:g}" if math.isfinite(value) else "no noise" for value in shown],
  )
  axes.set_xticks([], minor=True)
  axes.grid(True)
  axes.set_xlabel(label)


_FORMS = {
    "k": "{}", "epsilon": "{:g}", _LOSS: "{:.5f}", _TRUE_LOSS: "{:.5f}",
    **dict.fromkeys(_QUALITIES, "{:.4f}"),
}
_CAPTION = (
    "Loss: mean squared distance to the nearest center; the true loss is that to the means of the "
    "true clusters. Accuracy: share of the points whose label is the most frequent, or dominant, "
    "one of their cluster. False match: share of the pairs of points of different labels that are "
    "in one cluster. True nonmatch: share of the pairs of one label that are in different clusters."
)
_BEST = (
    "The best are accuracy 1, and 0 for both kinds of wrong pairs: true nonmatches (of one label, "
    "in different clusters) and false matches (of different labels, in one)."
)
_OF_DATA = "{num_points:,} points in {dim} dimensions, {num_clusters} true clusters"

EXPERIMENT = tidy_experiment.Experiment(
    name="clustering_demo",
    title="Private clustering of synthetic data",
    keys=_KEYS,
    load=_load,
    cells=cells,
    measure=_measure,
    summarise=_summarise,
    headlines={},
    tables=(
        tidy_experiment.Table(
            "over_k", "k varies, epsilon {fixed_epsilon}, delta {delta:g}, method {method}",
            _CAPTION, _FORMS, printed=True,
        ),
        tidy_experiment.Table(
            "over_epsilon", "epsilon varies, k {fixed_k}, delta {delta:g}, method {method}",
            "As above.", _FORMS, printed=True,
        ),
        tidy_experiment.Table(
            "noise", "Where the noise is from", "A seed makes it repeatable, and NOT private.",
            is_text=True, printed=True,
        ),
    ),
    figures=(
        tidy_experiment.Figure(
            "loss_over_k", f"Private clustering over k: {_OF_DATA}, epsilon {{fixed_epsilon}}",
            f"The dotted line is the loss with the means of the true clusters. {_BEST}",
            functools.partial(draw, "k, the number of clusters"), panels="panel",
            columns=1,
        ),
        tidy_experiment.Figure(
            "loss_over_epsilon", f"Private clustering over epsilon: {_OF_DATA}, k {{fixed_k}}",
            f"Privacy decreases to the right. {_BEST}",
            functools.partial(draw, "epsilon"), panels="panel", columns=1,
        ),
    ),
    reading=(
        "The centers are what is released. Loss, accuracy and matches are computed exactly: they "
        "are NOT private.",
        "The data are Gaussians of equally many points, with centers uniform in a ball, clipped to "
        "the radius. A point's typical distance from its center is radius / cluster_ratio.",
    ),
    tidy={tidy_experiment.RESULTS: {"noise": str}},
    versions_of=("numpy", "scikit-learn", "scipy"),
)
