"""What is said of the clusters: the choice of K, scores, and what leaves a client or a site."""

from __future__ import annotations

from typing import Any, Mapping, TYPE_CHECKING

import numpy as np
import pandas as pd

from clustering_basics import agreement
from experiment_shell import figure_style
from experiment_shell import frames
from experiment_shell import tidy_experiment
from experiment_shell import tidy_tables
from experiments.cluster_tables import cluster_profiles
from experiments.cluster_tables import fitted_rows
from experiments.own_tables import confusion
from fl_clustering.points import privacy as privacy_lib
from fl_clustering.tables import schema as schema_lib
from fl_clustering.tables import views

if TYPE_CHECKING:
  from matplotlib.axes import Axes

ROUNDS, GUARANTEE, EXCHANGES = "rounds", "guarantee", "exchanges"
SILHOUETTE = "simplified_silhouette"
# That of a fit to the numbers alone, without levels and booleans.
SILHOUETTE_OF_NUMBERS = "silhouette_of_numbers"
# How many clusters have rows.
FOUND = "clusters_found"
ON_FEW_POINTS = "centers_on_few_points"
# What the name of a view's weight begins with.
WEIGHT = "weight of "
# The part of `config.json` with every client's number of rows.
NUM_ROWS = "rows"
# Those beside it with the columns' numbers of missing cells, and whether noise hides rows.
MISSING, IS_PRIVATE = "missing", "is_private"
READ: dict[str, tidy_tables.Columns | None] = {
    **fitted_rows.READ,
    GUARANTEE: {"name": str, "value": str},
    EXCHANGES: {"exchange": int, "what": str, "metric": str, "value": float},
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
_ENDS = f"{privacy_lib.EXACT_TOTALS} Secure sums hide whose rows they are."
# Without `privacy`, of rows and of views.
_EXACT_SUMS = (
    "The server gets totals over all clients: counts and sums of points by cluster and by half of "
    "a cluster, the last sums to float precision in every column; and by cluster, how much farther "
    "its points are from the second nearest center, and their simplified silhouettes. Before the "
    "first round, it gets sums and sums of squares by column, and how many numbers of a column and "
    f"how many points are of which order of magnitude. {_ENDS}"
)
_EXACT_VIEWS = (
    "In each round, the server gets totals over all clients: sums of points by cluster and view. "
    f"The first centers and the columns' means and deviations come from such totals, too. {_ENDS}"
)


def loss_name(has_views: bool) -> str:
  """Returns what a fit's loss is called."""
  return "objective" if has_views else "inertia"


def _scores(results: pd.DataFrame) -> pd.DataFrame:
  """Returns a row for every number of clusters, with a column for every metric."""
  return frames.wide(results, ["num_clusters"]).set_index("num_clusters")


def best_num_clusters(results: pd.DataFrame) -> int:
  """Returns the number of clusters with the largest simplified silhouette, or the first."""
  return _best(_scores(results))


def _best(scores: pd.DataFrame) -> int:
  return int(scores.index[0] if SILHOUETTE not in scores else scores[SILHOUETTE].idxmax())


def _selection(scores: pd.DataFrame) -> pd.DataFrame:
  """Returns the numbers of clusters that were tried; none if one was given, or rows are equal."""
  if len(scores) < 2 or SILHOUETTE not in scores:
    return pd.DataFrame()
  behind = scores[SILHOUETTE].max() - scores[SILHOUETTE]
  are_found = scores[FOUND] == scores.index
  verdicts = np.where((behind < _TIED) & are_found, "nearly the best", "")
  verdicts[scores[SILHOUETTE].argmax()] = "best"
  shown = scores.drop(columns=FOUND) if are_found.all() else scores
  return shown.assign(verdict=verdicts).reset_index()


def _verdict(scores: pd.DataFrame, best: int, loss: float, num_rows: int) -> str:
  """Returns which of `HEADLINES` is true of a choice."""
  if scores[FOUND][best] < best:
    return "with_rows" if loss else "different"
  if len(scores) < 2:
    return "given"
  if best == scores.index[-1] < num_rows and loss:
    return "most"
  if best == scores.index[0] > _FEWEST:
    return "fewest"
  silhouettes = scores[SILHOUETTE][scores[FOUND] == scores.index]
  return "tied" if (silhouettes[best] - silhouettes.drop(best) < _TIED).any() else "best"


def _headline(scores: pd.DataFrame, best: int, loss: float, num_rows: int) -> dict[str, Any]:
  verdict = _verdict(scores, best, loss, num_rows)
  row = {"verdict": verdict, "clusters": int(scores[FOUND][best])}
  if verdict == "with_rows":
    return {**row, "asked": best}
  if SILHOUETTE_OF_NUMBERS in scores and verdict != "different":
    of_numbers = scores[SILHOUETTE_OF_NUMBERS]
    if of_numbers.max() - of_numbers[best] >= _TIED:
      return {**row, "verdict": "levels", "numbers": int(of_numbers.idxmax())}
  return row


def _variances(
    profiles: pd.DataFrame, schemas: schema_lib.Schemas, standardize: bool | None
) -> pd.DataFrame:
  """Returns the variance of every field, `total`, and `between` clusters, in the fit's units."""
  has_views = schema_lib.NO_VIEW not in schemas
  field_of, view_of = dict[str, str](), dict[str, str]()
  for view, schema in schemas.items():
    for field in schema.features:
      name = schema_lib.in_view(view, field.name)
      view_of[name] = view
      field_of |= {schema_lib.in_view(view, one): name for one in field.feature_names}
  variances = cluster_profiles.field_variances(
      profiles, field_of, has_views if standardize is None else standardize
  )
  if not has_views:
    return variances
  # Each view has a total variance of one.
  of_views = variances["total"].groupby(variances.index.map(view_of)).transform("sum")
  return variances.div(of_views, axis=0)


def _known(classes: pd.DataFrame) -> dict[str, Any]:
  """Returns how clusters agree with known classes, from the rows of every class in each."""
  labels, clusters = (
      np.repeat(classes[name].to_numpy(), classes["rows"]) for name in ("class", "cluster")
  )
  counts = classes.pivot(index="class", columns="cluster", values="rows")
  return {
      "scores": [{
          "nmi": agreement.normalized_mutual_information(labels, clusters),
          "ari": agreement.adjusted_rand_index(labels, clusters),
      }],
      CONFUSION_FIGURE.name: confusion.frame(counts.loc[classes["class"].unique()]),
  }


def _exact(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any], scores: pd.DataFrame,
    has_views: bool,
) -> dict[str, Any]:
  settings, of_clients = document["config"], document["inputs"][NUM_ROWS]
  best, num_rows, loss = _best(scores), sum(of_clients.values()), loss_name(has_views)
  found = scores.loc[best]
  variances = _variances(
      tidy[cluster_profiles.NAME], views.from_json(settings["schemas"]), settings["standardize"]
  )
  total = num_rows * float(variances["total"].sum())
  fit = {
      "clients": len(of_clients), "rows": num_rows, "clusters": int(found[FOUND]),
      loss: found[loss],
  }
  if not has_views:
    fit["explained"] = max(0.0, 1 - found[loss] / total) if total else None
    fit[SILHOUETTE] = found.get(SILHOUETTE)
  return {
      "headline": [_headline(scores, best, found[loss], num_rows)],
      "fit": [fit],
      "selection": _selection(scores),
      "fields": cluster_profiles.explained(variances),
      "filled_in": [
          {"column": name, "cells": count, "share": count / num_rows}
          for name, count in document["about"][MISSING].items()
      ],
      "clients": frames.wide(
          tidy[fitted_rows.SIZES], ["client"], column="cluster", value="rows"
      ).head(_MOST_CLIENTS),
      "leaves": [{"what leaves a client": _EXACT_VIEWS if has_views else _EXACT_SUMS}],
      fitted_rows.FEW_POINTS.name: fitted_rows.few_points(tidy[fitted_rows.SIZES]),
      cluster_profiles.NAME: tidy[cluster_profiles.NAME],
      **(_known(tidy[fitted_rows.CLASSES]) if fitted_rows.CLASSES in tidy else {}),
  }


def _private(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> dict[str, Any]:
  settings, centroids = document["config"], tidy[fitted_rows.CENTROIDS]
  stated = tidy[GUARANTEE].set_index("name")["value"]
  found: dict[str, Any] = {
      "headline": [{
          "verdict": "private_again" if "interrupted" in stated else "private",
          "clusters": len(centroids), "epsilon": float(stated["epsilon"]),
          "delta": float(stated["delta"]), "unit": stated["unit"],
      }],
      fitted_rows.PRIVATE_CENTERS.name: fitted_rows.private_frame(centroids),
      GUARANTEE: tidy[GUARANTEE],
  }
  if settings["at_sites"]:
    return found
  num_clients = len(document["inputs"]["clients"])
  warnings = privacy_lib.budget_warnings(
      settings["epsilon"], settings["delta"], settings["max_points"], num_clients,
      settings["public_num_points"],
  )
  return {
      **found,
      "warnings": [{"warning": text} for text in warnings],
      "leaves": [{
          "trust": stated["trust"], "what leaves a client": TRUST[stated["trust"]],
      }],
  }


def _at_sites(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any], scores: pd.DataFrame
) -> dict[str, Any]:
  """Returns what is said of a fit at sites, in the place of some that is said of others."""
  agreed, centroids = document["inputs"]["federation"]["file"], tidy[fitted_rows.CENTROIDS]
  (found,) = scores.to_dict("records")
  is_private = document["about"][IS_PRIVATE]
  # One that went on after answers has spent the budget again.
  is_again = GUARANTEE in tidy and "interrupted" in set(tidy[GUARANTEE]["name"])
  private = "private_at_sites_again" if is_again else "private_at_sites"
  headline = {
      "verdict": private if is_private else "exact_at_sites",
      "sites": len(agreed["sites"]), "clusters": int(found.get(FOUND, len(centroids))),
      "rounds": int(found["rounds"]), "epsilon": found.get("epsilon"),
      **{f"file_{name}": agreed.get("privacy", {}).get(name) for name in ("epsilon", "delta")},
  }
  left = frames.wide(tidy[EXCHANGES], ["exchange", "what"]).groupby("what", sort=False).agg(
      times=("exchange", "size"), most_bytes_up=("most_bytes_up", "sum"),
      seconds=("seconds", "sum"),
  )
  return {
      "headline": [headline],
      "left": left.reset_index(),
      fitted_rows.EXACT_CENTROIDS.name:
          pd.DataFrame() if is_private else fitted_rows.exact_frame(centroids),
      fitted_rows.FEW_POINTS.name: [
          {"centers": int(few), "of": len(centroids)} for few in [found.get(ON_FEW_POINTS)] if few
      ],
      "fit": [{name: found[name] for name in _FIT if name in found}],
  }


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> frames.Frames:
  """Returns the frames of the report; those of exact numbers are empty of a private run."""
  settings, scores = document["config"], _scores(tidy[tidy_experiment.RESULTS])
  has_views = "resources" in settings["schemas"]
  found: dict[str, Any] = {}
  if document["about"][IS_PRIVATE]:
    found = _private(tidy, document)
  elif not settings["at_sites"]:
    found = _exact(tidy, document, scores, has_views)
  if settings["at_sites"]:
    found |= _at_sites(tidy, document, scores)
  weights = scores.filter(like=WEIGHT).iloc[0] if has_views else pd.Series()
  found["weights"] = [
      {"view": name.removeprefix(WEIGHT), "weight": weight} for name, weight in weights.items()
  ]
  names = [one.name for one in (*TABLES, *FIGURES)]
  return {name: pd.DataFrame(found.get(name, ())) for name in ("headline", *names)}


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
    "private_again": "Clusters: {clusters}, ({epsilon:g}, {delta:g})-differentially private for "
    "{unit} in this fit alone: every --resume that fitted again has spent that once more.",
    "exact_at_sites": "{clusters} clusters over {sites} sites in {rounds} rounds, by EXACT sums: "
    "masks hide whose a sum is, and no noise hides a row.",
    "private_at_sites": "{clusters} clusters over {sites} sites in {rounds} rounds, by sums with "
    "noise that the sites draw: ({epsilon:g}, {file_delta:g})-differential privacy against the "
    "operator, of {file_epsilon:g} for all fits.",
    "private_at_sites_again": "{clusters} clusters over {sites} sites in {rounds} rounds, by sums "
    "with noise that the sites draw: ({epsilon:g}, {file_delta:g})-differential privacy against "
    "the operator in this fit alone, of {file_epsilon:g} for all fits: every --resume that fitted "
    "again has spent that once more.",
}

SELECTION_FIGURE = tidy_experiment.Figure(
    "selection", "Silhouette by number of clusters",
    "The higher the curve, the better the clusters are separated. A flat curve means that the data "
    "have no clear number of clusters. The large dot is the choice.",
    _draw_selection,
)
CONFUSION_FIGURE = tidy_experiment.Figure(
    "confusion", "Percent of each class in each cluster", confusion.READING, confusion.draw
)
FIGURES = (SELECTION_FIGURE, cluster_profiles.FIGURE, CONFUSION_FIGURE)

# The columns of a fit.
_FIT = {
    "clients": "{:,}", "rows": "{:,}", "clusters": "{}", "inertia": "{:.6g}",
    "explained": "{:.1%}", SILHOUETTE: "{:.3f}", "objective": "{:.6g}", "rounds": "{:.0f}",
    "epsilon": "{:.6g}", "mu_spent": "{:.6g}",
}
TABLES = (
    tidy_experiment.Table("warnings", "The privacy budget protects little", "", is_text=True),
    fitted_rows.FEW_POINTS,
    tidy_experiment.Table(
        "left", "What left each site",
        "Answers to the operator's questions, as masked sums: each is uniformly random to whoever "
        "has not all sites' answers. Most bytes up: the largest site's.",
        columns={"what": "{}", "times": "{}", "most_bytes_up": "{:,.0f}", "seconds": "{:.2f}"},
        printed=True,
    ),
    tidy_experiment.Table(
        "fit", "The fit",
        "Inertia: squared distances to the nearest centroid, summed over all rows, in the data's "
        "units or, if the settings standardize, in fields of standard deviation 1. Explained: the "
        "share of the rows' variance that it leaves out. The silhouette is at most 1. Objective: "
        "what rounds on views lower. Mu: the budget as Gaussian differential privacy counts it.",
        _FIT, printed=True,
    ),
    tidy_experiment.Table(
        "scores", "Agreement with the known classes",
        "NMI is the normalised mutual information of clusters and classes, ARI the adjusted Rand "
        "index: 1 where they agree, and about 0 for ARI by chance.", form="{:.3f}", printed=True,
    ),
    tidy_experiment.Table(
        "weights", "The weights of the views",
        "They sum to one. The rule `mvkm` rewards what is easy to compress, which need not be what "
        "shows the clusters.", {"view": "{}", "weight": "{:.3f}"},
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
        "beforehand. Noise that clients (or sites) add hides rows as long as min_clients "
        "(min_sites) of them add their share in every round and keep it secret.",
        is_text=True,
    ),
    tidy_experiment.Table("leaves", "What leaves a client", "", is_text=True),
    fitted_rows.EXACT_CENTROIDS,
    fitted_rows.PRIVATE_CENTERS,
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
    "Where rows are here, one machine plays the server and all clients, so whoever runs this can "
    "see everything. Without epsilon, no noise is added.",
    "With --federation, all that the operator learned is sums over all sites, one for every "
    "question: counts, sums of rows and of their squared distances, by cluster; with the sites' "
    "noise in them, unless the headline says EXACT. What is not covered: the sizes and times of "
    "messages, the number of rounds, and the names of columns.",
    "With epsilon, only totals over all clients leave them, and only with noise, and nothing else "
    "of this folder depends on a row but the centroids and the weights of views. Protected is one "
    "point, added or removed, or all points of a client, all there or none; that a client takes "
    "part is then not hidden. The names of clients and columns are not protected. NOT private are "
    "the clusters of a client's rows, which experiments:predict gives: they are for that client "
    "alone.",
    "The simplified silhouette ranks numbers of clusters. It doesn't show that there are any "
    "clusters.",
)
