"""What is said of the user's own rows: the choice of K, scores, and what leaves a client."""

from __future__ import annotations

from typing import Any, Mapping, TYPE_CHECKING

import numpy as np
import pandas as pd

from experiment_shell import figure_style
from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiments.own_tables import cluster_profiles
from experiments.own_tables import fitted_rows
from experiments.own_tables import private_centers
from fl_clustering.kmeans import kmeans_config
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.tables import schema as schema_lib

if TYPE_CHECKING:
  from matplotlib.axes import Axes

ROUNDS, GUARANTEE = "rounds", "guarantee"
SILHOUETTE = "simplified_silhouette"
# That of a fit to the numbers alone, without levels and booleans.
SILHOUETTE_OF_NUMBERS = "silhouette_of_numbers"
# How many clusters have rows.
FOUND = "clusters_found"
# The part of `config.json` with every client's number of rows.
NUM_ROWS = "rows"
# That with the columns' numbers of missing cells.
MISSING = "missing"
READ = {
    **fitted_rows.READ, fitted_rows.CENTROIDS: None, GUARANTEE: {"name": str, "value": str},
}
# Fewer clusters have no silhouette.
_FEWEST = 2
# Other starts move a silhouette by about as much.
_TIED = 0.01
_MOST_CLIENTS = 30

# What leaves a client with `privacy`, by whom the noise is added.
TRUST = {
    privacy_lib.SERVER: (
        "The server adds the noise to totals over all clients, and is trusted not to look at them "
        "before. A secure sum must hide the single messages."
    ),
    privacy_lib.NONE: (
        "Every client adds a share of the noise to its own message, so the server sees noisy "
        "totals only. A secure sum must hide the single messages."
    ),
}


def _scores(results: pd.DataFrame) -> pd.DataFrame:
  """Returns a row for every number of clusters, with a column for every metric."""
  return frames.wide(results, ["num_clusters"]).set_index("num_clusters")


def best_num_clusters(results: pd.DataFrame) -> int:
  """Returns the number of clusters with the largest simplified silhouette."""
  return int(_scores(results)[SILHOUETTE].idxmax())


def _selection(scores: pd.DataFrame) -> pd.DataFrame:
  """Returns the numbers of clusters that were tried; none if one was given."""
  if len(scores) < 2:
    return pd.DataFrame()
  behind = scores[SILHOUETTE].max() - scores[SILHOUETTE]
  are_found = scores[FOUND] == scores.index
  verdicts = np.where((behind < _TIED) & are_found, "nearly the best", "")
  verdicts[scores[SILHOUETTE].argmax()] = "best"
  shown = scores.drop(columns=FOUND) if are_found.all() else scores
  return shown.assign(verdict=verdicts).reset_index()


def _verdict(scores: pd.DataFrame, best: int, num_rows: int) -> str:
  """Returns which of `HEADLINES` is true of a choice."""
  inertia = scores["inertia"][best]
  if scores[FOUND][best] < best:
    return "with_rows" if inertia else "different"
  if len(scores) < 2:
    return "given"
  if best == scores.index[-1] < num_rows and inertia:
    return "most"
  if best == scores.index[0] > _FEWEST:
    return "fewest"
  silhouettes = scores[SILHOUETTE][scores[FOUND] == scores.index]
  return "tied" if (silhouettes[best] - silhouettes.drop(best) < _TIED).any() else "best"


def _headline(scores: pd.DataFrame, best: int, num_rows: int) -> dict[str, Any]:
  verdict = _verdict(scores, best, num_rows)
  row = {"verdict": verdict, "clusters": int(scores[FOUND][best])}
  if verdict == "with_rows":
    return {**row, "asked": best}
  if SILHOUETTE_OF_NUMBERS in scores and verdict != "different":
    of_numbers = scores[SILHOUETTE_OF_NUMBERS]
    if of_numbers.max() - of_numbers[best] >= _TIED:
      return {**row, "verdict": "levels", "numbers": int(of_numbers.idxmax())}
  return row


def _exact(tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]) -> dict[str, Any]:
  settings, of_clients = document["config"], document["inputs"][NUM_ROWS]
  scores = _scores(tidy[tidy_experiment.RESULTS])
  best, num_rows = int(scores[SILHOUETTE].idxmax()), sum(of_clients.values())
  found, profiles = scores.loc[best], tidy[cluster_profiles.NAME]
  schema = schema_lib.Schema.from_json(settings["schema"])
  variances = cluster_profiles.field_variances(
      profiles, schema.field_of_levels, settings["standardize"]
  )
  total = num_rows * float(variances["total"].sum())
  algorithm = kmeans_config.algorithm_of(
      settings["algorithm"], n_init=settings["n_init"], min_count=settings["min_count"]
  )
  return {
      "headline": [_headline(scores, best, num_rows)],
      "fit": [{
          "clients": len(of_clients), "rows": num_rows, "clusters": int(found[FOUND]),
          "inertia": found["inertia"],
          "explained": max(0.0, 1 - found["inertia"] / total) if total else None,
          SILHOUETTE: found[SILHOUETTE],
      }],
      "selection": _selection(scores),
      "fields": cluster_profiles.explained(variances),
      "filled_in": [
          {"column": name, "cells": count, "share": count / num_rows}
          for name, count in document["about"][MISSING].items()
      ],
      "clients": frames.wide(
          tidy[fitted_rows.SIZES], ["client"], column="cluster", value="rows"
      ).head(_MOST_CLIENTS),
      "leaves": [{
          "algorithm": settings["algorithm"],
          "what leaves a client": f"{algorithm.leaves} {kmeans_config.BEFORE_THE_FIRST_ROUND}",
          "min_count": getattr(algorithm, "min_count", None),
      }],
  }


def _private(tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]) -> dict[str, Any]:
  settings, clients = document["config"], document["inputs"]["clients"]
  stated = tidy[GUARANTEE].set_index("name")["value"]
  centroids = tidy[fitted_rows.CENTROIDS]
  warnings = privacy_lib.budget_warnings(
      settings["epsilon"], settings["delta"], settings["max_points"], len(clients)
  )
  return {
      "headline": [{
          "verdict": "private", "clusters": len(centroids), "epsilon": float(stated["epsilon"]),
          "delta": float(stated["delta"]), "unit": stated["unit"],
      }],
      "warnings": [{"warning": text} for text in warnings],
      private_centers.TABLE.name: private_centers.frame(centroids),
      "leaves": [{
          "trust": stated["trust"], "what leaves a client": TRUST[stated["trust"]],
      }],
      GUARANTEE: tidy[GUARANTEE],
  }


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> frames.Frames:
  """Returns the frames of the report; those of exact numbers are empty of a private run."""
  is_private = document["config"]["epsilon"] is not None
  found = (_private if is_private else _exact)(tidy, document)
  empty = dict.fromkeys(one.name for one in TABLES)
  return {name: pd.DataFrame(rows) for name, rows in {
      **empty, **found, **fitted_rows.frames(tidy),
  }.items()}


def _draw_selection(frame: pd.DataFrame, axes: Axes) -> None:
  color = figure_style.METHOD_COLORS["blue"]
  best = frame[frame["verdict"] == "best"]
  for rows, size in ((frame, None), (best, 11)):
    axes.plot(rows["num_clusters"], rows[SILHOUETTE], color=color, marker="o", markersize=size)
  axes.locator_params(axis="x", integer=True)
  axes.grid(True)
  axes.set_xlabel("number of clusters")
  axes.set_ylabel("simplified silhouette")


HEADLINES = {
    "given": "Clusters: {clusters}, as asked for.",
    "different": "Clusters: {clusters}, as many as there are different rows.",
    "with_rows": "Clusters: {clusters} with rows, of the {asked} that were asked for.",
    "best": "Clusters: {clusters}, by the largest simplified silhouette of those tried.",
    "tied": "Clusters: {clusters}, but the data hardly decide: other numbers are nearly as good.",
    "most": "Clusters: {clusters}, the most that were tried, and the best: more may be better.",
    "fewest": "Clusters: {clusters}, the fewest that were tried, and the best: fewer may be "
    "better.",
    "levels": "Clusters: {clusters}, by the largest simplified silhouette of those tried; by the "
    "numbers alone, {numbers}: levels, true and false are tight clusters by nature.",
    "private": "Clusters: {clusters}, ({epsilon:g}, {delta:g})-differentially private for {unit}.",
}

SELECTION_FIGURE = tidy_experiment.Figure(
    "selection", "Silhouette by number of clusters",
    "The higher the curve, the better the clusters are separated. A flat curve means that the data "
    "have no clear number of clusters. The large dot is the choice.",
    _draw_selection,
)

TABLES = (
    tidy_experiment.Table("warnings", "The privacy budget protects little", "", is_text=True),
    fitted_rows.FEW_POINTS,
    tidy_experiment.Table(
        "fit", "The fit",
        "Inertia: squared distances to the nearest centroid, summed over all rows, in the data's "
        "units or, if the settings standardize, in fields of standard deviation 1. Explained: the "
        "share of the rows' variance that it leaves out. The silhouette is at most 1.",
        {
            "clients": "{:,}", "rows": "{:,}", "clusters": "{}", "inertia": "{:.6g}",
            "explained": "{:.1%}", SILHOUETTE: "{:.3f}",
        },
        printed=True,
    ),
    tidy_experiment.Table(
        "selection", "Numbers of clusters that were tried",
        f"Nearly the best: the silhouette is less than {_TIED:g} below the best, which other "
        "starts may change. Silhouette of numbers: that of a fit without levels, true and false. "
        "The flag k_range tries other numbers of clusters.",
        {
            "num_clusters": "{}", FOUND: "{:.0f}", SILHOUETTE: "{:.3f}",
            SILHOUETTE_OF_NUMBERS: "{:.3f}", "inertia": "{:.6g}", "rounds": "{:.0f}",
            "verdict": "{}",
        },
        printed=True,
    ),
    cluster_profiles.FIELDS,
    tidy_experiment.Table(
        GUARANTEE, "What is guaranteed",
        "Of all rounds together. The radius, in the schema's units, must have been known "
        "beforehand. Noise that clients add hides rows as long as min_clients of them add their "
        "share in every round and keep it secret.",
        is_text=True,
    ),
    tidy_experiment.Table("leaves", "What leaves a client", "", is_text=True),
    private_centers.TABLE,
    tidy_experiment.Table(
        "filled_in", "Missing cells that count as the mean of their column",
        "Of all rows of all clients. Of a column of levels, a missing cell is the mean of each.",
        {"column": "{}", "cells": "{:,}", "share": "{:.1%}"},
        printed=True,
    ),
    tidy_experiment.Table(
        "clients", "Rows of every client, by cluster", f"At most {_MOST_CLIENTS} clients.",
        form="{:,}", folded=True,
    ),
)

READING = (
    "One machine plays the server and all clients, so whoever runs this can see everything. "
    "Without epsilon, no noise is added.",
    "With epsilon, only totals over all clients leave them, and only with noise, and nothing else "
    "of this folder depends on a row but the centroids. Protected is one point, added or removed, "
    "or all points of a client, all there or none; that a client takes part is then not hidden. "
    "The names of clients and columns are not protected. NOT private are the clusters of a "
    "client's rows, which experiments:predict gives: they are for that client alone.",
    "The simplified silhouette ranks numbers of clusters. It doesn't show that there are any "
    "clusters.",
)
