"""The user's own sites: clusters of their rows by every rule for view weights, and a model."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

import pandas as pd

from experiment_shell import frames as frames_lib
from experiment_shell import tidy_experiment
from experiments.multi_view import comparison
from experiments.multi_view import data as data_lib
from experiments.multi_view import methods
from experiments.multi_view import summary
from experiments.own_tables import cluster_profiles
from experiments.own_tables import fitted_rows
from fl_clustering.multiview import fitting
from fl_clustering.multiview import multiview_config
from fl_clustering.points import privacy
from fl_clustering.points import secure_sums
from fl_clustering.tables import schema as schema_lib


def _finish(whole: tidy_experiment.Run, unused_tidy: Mapping[str, Any]) -> None:
  """Writes the model of equal weights and the first seed, and the rows' clusters and profiles."""
  from fl_clustering import load_model  # It takes long to import.

  data = whole.data[data_lib.OWN]
  features = {client_id: data.kept.features(own) for client_id, own in data.tables.items()}
  settings = multiview_config.MultiViewConfig(
      data.num_clusters, view_weights=methods.OURS, seed=whole.config.seed,
      field_widths=data.kept.field_widths, **whole.config.method_settings,
  )
  fit = fitting.fit(settings, secure_sums.hold(features), data.kept.widths)
  fit.warn_of_few_points()
  model = load_model.SavedMultiView.of_fit(fit, data.kept).knowing_farthest(data.tables)
  fitted_rows.write(whole.folder, model, data.tables)


def _of_one(frame: pd.DataFrame) -> pd.DataFrame:
  """Returns a table without what tells data sets apart, as there is only one."""
  frame = frame.drop(columns="dataset", errors="ignore").dropna(axis="columns", how="all")
  return frame.rename(columns=lambda name: name.removesuffix(f", {comparison.AS_GIVEN}"))


def _headline(tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]) -> dict[str, Any]:
  data, sizes = document["inputs"]["datasets"][data_lib.OWN], tidy[fitted_rows.SIZES]
  rows = sizes.groupby("cluster")["rows"].sum()
  found, asked = int((rows > 0).sum()), data["num_clusters"]
  verdict = "given" if document["config"]["num_clusters"] else "classes"
  return {
      "verdict": "with_rows" if found < asked else verdict, "clusters": found, "asked": asked,
      "rows": data["num_points"], "sites": len(data["sites"]), "views": len(data["views"]),
      "least": int(rows[rows > 0].min()), "most": int(rows.max()),
  }


def _fields(profiles: pd.DataFrame, document: Mapping[str, Any]) -> pd.DataFrame:
  """Returns what the clusters explain of the fields of all views."""
  field_of: dict[str, str] = {}
  view_of: dict[str, str] = {}
  for view, schema in document["inputs"]["schemas"].items():
    for field in schema_lib.Schema.from_json(schema).features:
      view_of[f"{view}: {field.name}"] = view
      field_of |= {f"{view}: {name}": f"{view}: {field.name}" for name in field.feature_names}
  variances = cluster_profiles.field_variances(profiles, field_of, standardize=True)
  of_views = variances["total"].groupby(variances.index.map(view_of)).transform("sum")
  return cluster_profiles.explained(variances.div(of_views, axis=0))


def summarise(
    tidy: Mapping[str, pd.DataFrame], document: Mapping[str, Any]
) -> dict[str, pd.DataFrame]:
  """Returns the frames of the report; frames of known classes are empty if there are none."""
  frames = summary.summarise(tidy, document)
  has_classes = bool(document["inputs"]["datasets"][data_lib.OWN]["classes"])
  nothing = pd.DataFrame()
  scores, views, gains = (_of_one(frames[name]) for name in ("scores", "views", "gains"))
  return {
      **frames,
      "headline": pd.DataFrame([_headline(tidy, document)]),
      cluster_profiles.FIELDS.name: _fields(tidy[cluster_profiles.NAME], document),
      "fits": nothing if has_classes else scores,
      "scores": scores if has_classes else nothing,
      "views": nothing if has_classes else views,
      "gains": gains,
      "scored_views": views if has_classes else nothing,
      **fitted_rows.frames(tidy),
  }


_OF = (
    "of {rows:,} rows at {sites} sites in {views} views, by equal weights; the smallest has "
    "{least:,} rows, the largest {most:,}."
)
_LEARNT = (
    "The views' weights by the rules that learn them. Equal weights are one over the number of "
    "views. The paper's rule rewards what is easy to compress."
)
_CAPTIONS = {
    "confusion": "A good clustering has all points of a class in one cluster: a dark diagonal and "
    "nothing beside it. Clusters are in the order that puts most points there.",
    "weights": "A view of small weight hardly counts. A short bar is hidden by its mark; one seed "
    "has none.",
    "objectives": "Every line is one fit and ends before its last round: the steeper the line, the "
    "fewer rounds are needed; equal ones lie on each other. Regret weights are left out, as their "
    "objective rises when the weights become less equal.",
}

EXPERIMENT = dataclasses.replace(
    comparison.EXPERIMENT,
    name="multi_view_own_data",
    title="Federated multi-view k-means of your own rows",
    summarise=summarise,
    headlines={
        "given": f"Clusters: {{clusters}}, as asked for, {_OF}",
        "classes": f"Clusters: {{clusters}}, as many as there are known classes, {_OF}",
        "with_rows": f"Clusters: {{clusters}} with rows, of {{asked}}, {_OF}",
    },
    tables=(
        fitted_rows.FEW_POINTS,
        cluster_profiles.FIELDS,
        tidy_experiment.Table(
            "fits", "The fits by rule of the views' weights, mean ± deviation (seeds: {num_seeds})",
            "Objectives of different rules can't be compared.", printed=True,
        ),
        tidy_experiment.Table(
            "scores", "Agreement with the known classes, mean ± deviation (seeds: {num_seeds})",
            "NMI is the normalised mutual information of clusters and classes, ARI the adjusted "
            "Rand index: 1 where they agree, and about 0 for ARI by chance. Central methods see "
            "all points in one place, which no federated method may. Local ones see one client's "
            "points at a time, and the mean counts a client by its points. The best single view is "
            "chosen by its NMI, which needs the classes.",
            printed=True,
        ),
        tidy_experiment.Table(
            "gains", "Federated with equal weights against the others",
            "Gain: by how much its mean ARI is above the other method's. The interval (Student's "
            f"t) is about other seeds on the same data. {frames_lib.READING_OF_GAINS}",
            summary.GAINS,
        ),
        tidy_experiment.Table("views", "The views", _LEARNT),
        tidy_experiment.Table(
            "scored_views", "The views", f"Alone: k-means on the view alone. {_LEARNT}",
        ),
    ),
    figures=(
        cluster_profiles.FIGURE,
        *(dataclasses.replace(one, caption=_CAPTIONS[one.name]) for one in comparison.FIGURES),
    ),
    reading=(
        "The clusters, centroids, profiles and the model in the folder are those of equal weights "
        "and the first seed.",
        "In each round, a client sends integers: sums over its points for every cluster and view. "
        "The first centers and the columns' means and deviations come from such sums, too. The "
        "integers are added up by a secure sum, which one machine can only simulate.",
        privacy.EXACT_TOTALS,
    ),
    files=fitted_rows.FILES,
    folders=fitted_rows.FOLDERS,
    read=fitted_rows.READ,
    finish=_finish,
)
